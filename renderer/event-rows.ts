/** Events as rows of a list: what each is called, whom it is about, how long it went on; and which a filter leaves. Pure. */
import type { PressureSpell, Run, RunEvent, Worker } from '../electron/engine/api.ts';
import { duration, many, percent, plain, thin } from './format.ts';
import { eventKey } from './reading.ts';

export type Group = 'silence' | 'restarts' | 'pressure' | 'fleet' | 'recording';

export const groups: { group: Group; name: string }[] = [
  { group: 'silence', name: 'No answer' },
  { group: 'restarts', name: 'Restarts' },
  { group: 'pressure', name: 'KV pressure' },
  { group: 'fleet', name: 'Workers' },
  { group: 'recording', name: 'Recording' },
];

/** `hatch` and `bracket` are drawn, the others are glyphs. */
type Sign = 'hatch' | '↻' | '▲' | '+' | '−' | '▸' | 'bracket';

/** Spells of KV pressure stand in the list as events do. */
export type Listed = Omit<RunEvent, 'kind'> & { kind: RunEvent['kind'] | 'pressure' };

const kinds: Record<Listed['kind'], { group: Group; what: string; sign: Sign }> = {
  outage: { group: 'silence', what: 'No answer', sign: 'hatch' },
  pressure: { group: 'pressure', what: 'KV pressure', sign: 'bracket' },
  restart: { group: 'restarts', what: 'Restarted', sign: '↻' },
  'several-servers': { group: 'fleet', what: 'Several servers', sign: '▲' },
  worker: { group: 'fleet', what: 'Seen first', sign: '+' },
  joined: { group: 'fleet', what: 'Joined', sign: '+' },
  left: { group: 'fleet', what: 'Left', sign: '−' },
  stale: { group: 'fleet', what: 'Stale file', sign: '▲' },
  'workers-full': { group: 'fleet', what: 'Too many workers', sign: '▲' },
  stretch: { group: 'recording', what: 'Went on', sign: '▸' },
  clock: { group: 'recording', what: 'Clock set back', sign: '▲' },
  'held-up': { group: 'recording', what: 'Held up', sign: '▲' },
};

/** Ranges longer than this are set in bold. */
export const longSeconds = 5;

export interface EventRow {
  key: string;
  event: Listed;
  group: Group;
  what: string;
  sign: Sign;
  /** The workers it is about, by number; none: the endpoint has none so far, or it is about the whole. */
  workers: number[];
  /** Their names, otherwise the endpoint; '': the whole. */
  who: string;
}

const rate = (v: number | null) => (v === null ? 'no traffic' : percent(v));

/** With the step it began in (null: between steps), and what came of it, in words. */
function listedSpell(spell: PressureSpell, run: Run, step: number | null): Listed {
  const { w, from, to, preemptions, waiting, hitRateBefore, hitRate } = spell;
  const what = [
    ...(preemptions > 0 ? [many(preemptions, 'preemption')] : []),
    ...(waiting > 0 ? [`up to ${many(waiting, 'request')} waited for room`] : []),
  ];
  const facts = [
    step === null ? 'Between steps' : `In step ${step}`,
    `hit rate ${rate(hitRateBefore)} before, ${rate(hitRate)} in it`,
    ...what,
  ];
  return {
    at: from,
    until: to,
    kind: 'pressure',
    endpoint: run.workerList[w]?.endpoint ?? null,
    w,
    reason: null,
    count: 1,
    detail: facts.join('; '),
  };
}

/** Events and spells, oldest first; `stepAt`: what people call the step at a time, null between steps. */
export const withSpells = (
  events: readonly RunEvent[],
  spells: readonly PressureSpell[],
  run: Run,
  stepAt: (at: number) => number | null,
): Listed[] =>
  [...events, ...spells.map((spell) => listedSpell(spell, run, stepAt(spell.from)))].sort(
    (a, b) => a.at - b.at,
  );

/** Newest first. */
export function rowsOf(events: readonly Listed[], run: Run): EventRow[] {
  const behind = new Map<string, Worker[]>();
  for (const worker of run.workerList)
    behind.set(worker.endpoint, [...(behind.get(worker.endpoint) ?? []), worker]);
  return events.toReversed().map((event) => {
    const about =
      event.w === null
        ? (behind.get(event.endpoint ?? '') ?? [])
        : run.workerList.slice(event.w, event.w + 1);
    return {
      key: eventKey(event),
      event,
      ...kinds[event.kind],
      workers: about.map((worker) => worker.w),
      who: namesOf(about) || hostOf(event.endpoint),
    };
  });
}

/** Seconds that a range went on, and whether it is not over; null: it is a moment. `lastTick`: of a run that is recorded. */
export function lastingOf(
  { kind, at, until }: Listed,
  intervalSeconds: number,
  lastTick: number | null,
): { seconds: number; soFar: boolean } | null {
  if (until === null) return null;
  // a scrape that is still waiting for its time-out has not lengthened its range yet
  const soFar = kind === 'outage' && lastTick !== null && lastTick - until <= 2 * intervalSeconds * 1000;
  // a range is from its first tick to its last, so one tick is a slot long
  const end = soFar ? Math.max(until, lastTick) : until;
  return { seconds: (end - at) / 1000 + intervalSeconds, soFar };
}

/** `w3`, `w0 to w7`, `w0 and 2 more`; '' for none. */
export function namesOf(workers: Pick<Worker, 'w' | 'name'>[]): string {
  const [first, last] = [workers[0], workers.at(-1)];
  if (!first || !last) return '';
  if (workers.length === 1) return plain(first.name);
  if (last.w - first.w === workers.length - 1) return `${plain(first.name)} to ${plain(last.name)}`;
  return `${plain(first.name)} and ${workers.length - 1} more`;
}

function hostOf(endpoint: string | null): string {
  if (endpoint === null) return '';
  return plain(URL.parse(endpoint)?.host ?? endpoint);
}

/** `all`, or one group; '' for everybody, `w3` or an endpoint's address. */
export interface Filter {
  group: Group | 'all';
  who: string;
}

/** What a worker's endpoint went through is the worker's too. */
export function filtered(rows: EventRow[], { group, who }: Filter, run: Run): EventRow[] {
  const w = /^w(\d+)$/.exec(who)?.[1];
  const worker = w === undefined ? undefined : run.workerList[Number(w)];
  const isAbout = ({ event }: EventRow) =>
    who === '' ||
    (worker
      ? event.w === worker.w || (event.w === null && event.endpoint === worker.endpoint)
      : event.endpoint === who);
  return rows.filter((row) => (group === 'all' || row.group === group) && isAbout(row));
}

/** `8 s`, `0.4 s`, `1:12`. */
export function lasted(seconds: number): string {
  if (Math.round(seconds) >= 60) return duration(Math.round(seconds));
  return `${seconds < 10 ? Number(seconds.toFixed(1)) : Math.round(seconds)}${thin}s`;
}
