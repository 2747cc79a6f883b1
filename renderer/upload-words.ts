/** What is said of uploads to W&B: accounts, faults, what would go, how far it is, what a click does. Pure. */
import type {
  Step,
  Upload,
  UploadPlan,
  UploadProgress,
  WandbAccount,
  WandbKeySource,
  WandbProblem,
} from '../electron/engine/api.ts';
import { clock } from './clock.ts';
import { bytes, count, many, plain, thin } from './format.ts';
import { stepName } from './step-words.ts';

export const hostOf = (address: string) => plain(URL.parse(address)?.host || address);

/** Those of W&B itself have a page that shows the key. */
export const isWandbOwn = (server: string) => /(^|\.)wandb\.ai$/.test(URL.parse(server)?.hostname ?? '');

/** http: to another machine: whoever is on the way reads the key. */
export function isReadable(server: string): boolean {
  const url = URL.parse(server.trim());
  return url?.protocol === 'http:' && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
}

/** Only such an address may become a link: it comes from a server, and the window opens no other. */
export function isLink(address: string): boolean {
  const url = URL.parse(address);
  return url?.protocol === 'https:' && url.username === '' && url.password === '';
}

export const keyPlace: Record<WandbKeySource, string> = {
  environment: 'From WANDB_API_KEY, where the engine was started.',
  netrc: 'From netrc, where “wandb login” puts it.',
  keychain: 'Kept in this machine’s keychain; never in a run file or a log.',
  file: 'Kept in a file only you can read, in the data folder, as plain text.',
  memory: 'Forgotten when the engine ends; never in a run file or a log.',
};

/** `ada (teams: rl-lab, infra)`; null: it is not known whose the key is. */
export function userWords({ user, entities }: WandbAccount): { user: string; teams: string } | null {
  if (user === null) return null;
  const teams = entities.filter((e) => e !== user).map(plain);
  return { user: plain(user), teams: teams.length === 0 ? '' : ` (teams: ${teams.join(', ')})` };
}

/** The server's own text in quotes; what hindered the way to it, and what is a sentence, is ours. */
export function faultWords({ kind, message }: WandbProblem, server: string): string {
  const said = plain(message);
  const isOurs = kind === 'tls' || kind === 'proxy' || kind === 'network' || /[.!?]$/.test(message);
  return isOurs ? said : `${hostOf(server)}: “${said}”.`;
}

/** Faults that another key, place or address would help. */
export const isAboutWhere = ({ kind }: WandbProblem) =>
  ['key', 'permission', 'not-found', 'tls', 'proxy', 'network'].includes(kind);

/** Faults of the run on W&B: a new one helps. */
export const helpsNewRun = ({ kind }: WandbProblem) => kind === 'deleted' || kind === 'refused';

// ---------------------------------------------------------------- what goes

/** Past the first there is a warning; past the second people find W&B slow (its issues 5632 and 7470). */
export const manyKeys = 2000;
export const tooManyKeys = 5000;

/** `Steps 4, 7 and 9 ...`; the engine names the first three. Empty: there are none. */
export const guessedWords =
  'No step was found yet, so windows of equal length would go up, now and later. Choose where the steps of this run come from, or wait for the first one.';

export function lowerBoundWords(steps: readonly number[]): string[] {
  if (steps.length === 0) return [];
  const [last, ...before] = [...steps].reverse();
  const names = before.length === 0 ? `Step ${last}` : `Steps ${before.reverse().join(', ')} and ${last}`;
  const more = steps.length >= 3 ? ', perhaps others,' : '';
  const [are, rows] =
    before.length === 0 ? ['is a lower bound', 'its row says'] : ['are lower bounds', 'rows say'];
  return [`${names}${more} ${are}: a worker restarted or was lost, so counters are at least what ${rows}.`];
}

/** `wanted`: keys that there were before those of workers were switched off by themselves; null: they were not. */
export function keyWords(keys: number, wanted: number | null): string[] {
  const off =
    wanted === null
      ? []
      : [
          `Keys per worker were switched off: with them there were ${count(wanted)} keys, and past ${count(tooManyKeys)} W&B is slow.`,
        ];
  if (keys <= manyKeys) return off;
  return [
    ...off,
    `${count(keys)} keys: past ${count(manyKeys)} W&B may get slow. Fewer metrics, statistics or workers make fewer keys.`,
  ];
}

/** `of 64: w3, w17 and w40, which ended last most often`; `all`: workers of the run. */
export function workerWords(sent: readonly number[], all: number, limit: number): string {
  if (limit === 0) return 'off: those of all workers together only';
  if (all <= limit || sent.length === 0) return `this run has ${count(all)}`;
  return `of ${count(all)}: ${sent.map((w) => `w${w}`).join(', ')}, which ended last most often`;
}

/** Thousands of rows in a table would be slow, and nobody reads them. */
export const keysShown = 300;

/** `Row of step 5, 93 keys`, where they are too many `the first 300 of 7,244 keys`. */
export const exampleWords = (step: Step, keys: number) =>
  `Row of ${stepName(step)}, ${keys > keysShown ? `the first ${keysShown} of ` : ''}${many(keys, 'key')}`;

/** What the last button does. `anew`: it makes a new run on W&B. */
export interface Act {
  text: string;
  anew: boolean;
  /** false: there is nothing to send. */
  can: boolean;
}

/** `anew`: a new run is wanted; `retries`: files that W&B did not take the last time. */
export function actOf(plan: UploadPlan | null, anew: boolean, live: boolean, retries: number): Act {
  if (!plan) return { text: 'Upload', anew, can: false };
  const { rows, acked, changed, described } = plan;
  if (changed !== null && !anew) return { text: 'Upload as a new run', anew: true, can: rows > 0 || live };
  const fresh = rows - acked;
  if (fresh > 0) {
    const what = `${count(fresh)}${acked > 0 ? ' new' : ''} ${fresh === 1 ? 'row' : 'rows'}`;
    return { text: `Upload ${what}${anew ? ' as a new run' : ''}`, anew, can: true };
  }
  if (live) return { text: acked > 0 ? 'Go on as steps end' : 'Upload as steps end', anew, can: true };
  if (retries > 0) return { text: `Send ${many(retries, 'file')} again`, anew, can: true };
  if (acked > 0 && !described) return { text: 'Change name, tags and notes', anew, can: true };
  return { text: acked > 0 ? 'Up to date' : 'Nothing to upload', anew, can: false };
}

/** What stands beside the last button before it is pressed. */
export function sentWords(plan: UploadPlan | null): string {
  if (!plan || plan.acked === 0) return 'Nothing has been sent.';
  return `${count(plan.acked)} of ${many(plan.rows, 'row')} ${plan.acked === 1 ? 'is' : 'are'} on W&B already.`;
}

export const isUpToDate = (plan: UploadPlan, { state, failedFiles }: Upload) =>
  state === 'done' &&
  failedFiles.length === 0 &&
  plan.changed === null &&
  plan.described &&
  plan.acked >= plan.rows;

// ---------------------------------------------------------------- how far it is

/** Under way, or over in a way that is to be seen before anything else. */
export const isShown = ({ state }: Upload) => state !== 'cancelled' && state !== 'interrupted';

/** 0 to 1, rows and files alike. */
export function shareOf({ rows, rowsTotal, progress }: Upload): number {
  const all = rowsTotal + (progress?.filesTotal ?? 0);
  return all === 0 ? 0 : (rows + (progress?.files ?? 0)) / all;
}

const phases: Record<UploadProgress['phase'], string> = {
  starting: 'Asking W&B for the run.',
  rows: 'Sending rows.',
  files: 'Sending timeline plots.',
  finishing: 'Ending the run on W&B.',
  live: 'Waiting for the next step to end.',
  paused: 'Paused.',
  done: 'Done.',
};

/** `W&B asks to wait 12 s. Goes on by itself at 10:14:31.` `waits`: it is not its own fault that nothing goes. */
export function nowWords({ state, progress }: Upload): { text: string; waits: boolean } {
  if (state === 'paused') return { text: 'Paused. It goes on where it stopped, no row twice.', waits: false };
  if (!progress) return { text: phases.starting, waits: false };
  const { waiting, waitsUntil, phase } = progress;
  if (waiting === null) return { text: phases[phase], waits: false };
  const when = waitsUntil === null ? '' : ` Goes on by itself at ${clock(waitsUntil)}.`;
  return { text: `${plain(waiting)}.${when}`, waits: true };
}

/** `3.10 MB, 200 kB/s` */
export function bytesWords(progress: UploadProgress | null): string {
  if (!progress) return '–';
  return bytes(progress.bytes) + (progress.rate === null ? '' : `, ${bytes(progress.rate)}/s`);
}

/** On the button of a run. `sign` stands before it where something is to be done. */
export function buttonWords(upload: Upload | null): { sign: '' | '▲' | '✕'; text: string } {
  switch (upload?.state) {
    case 'sending':
      if (upload.progress?.waiting) return { sign: '▲', text: `Upload waits, ${soFar(upload)}` };
      if (upload.progress?.phase === 'live') return { sign: '', text: 'Live on W&B' };
      return { sign: '', text: upload.progress ? `Uploading ${soFar(upload)}` : 'Uploading…' };
    case 'paused':
      return { sign: '', text: `Upload paused, ${soFar(upload)}` };
    case 'failed':
      return { sign: '✕', text: 'Upload failed' };
    case 'stopped':
      return { sign: '▲', text: 'Stopped on W&B' };
    default:
      return { sign: '', text: 'Upload to W&B' };
  }
}
const soFar = ({ rows, rowsTotal }: Upload) => `${count(rows)} of ${count(rowsTotal)}`;

/** What is said aloud once it is over; empty: nothing is. */
export function overWords(upload: Upload | null): string {
  if (upload?.state === 'done') return `The upload is done, ${many(upload.rows, 'row')}.`;
  if (upload?.state === 'failed') return 'The upload failed.';
  return upload?.state === 'stopped' ? 'The upload was stopped on W&B.' : '';
}

/** `rl-lab / grpo-tiny / k3v9x2ab` */
export function placeWords({ url, target, runId }: Upload): string {
  // entity and project as W&B answered them, where it did
  const parts =
    URL.parse(url ?? '')
      ?.pathname.split('/')
      .filter(Boolean)
      .map(decoded) ?? [];
  const run = parts.lastIndexOf('runs');
  const place = run >= 2 ? parts.slice(run - 2, run) : [target.entity ?? '', target.project];
  return [...place.filter((p) => p !== ''), runId].map(plain).join(`${thin}/${thin}`);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** What was typed between commas, each once. */
export const tagsOf = (typed: string) => [
  ...new Set(
    typed
      .split(',')
      .map((tag) => tag.trim())
      .filter((tag) => tag !== ''),
  ),
];
