/**
 * Steps out of the trainer's own run on W&B: its rows say which step ended when. Nothing is ever written there. The
 * trainer's clock may be another; how far is said as well as it can be known, and an offset is added where it is given.
 */
import type { Events, Implementation } from './api.ts';
import type { Steps, StepSettings, StepSource, TrainerRun } from './api-steps.ts';
import type { TrainerSteps } from './api-wandb.ts';
import { EngineError } from './errors.ts';
import { checkedTrainer } from './input-steps.ts';
import { text } from './input.ts';
import type { StoredRun } from './library.ts';
import { progressOf } from './progress.ts';
import type { ReaderCalls } from './reader.ts';
import { stepOf } from './step-reads.ts';
import { defaultSettings, type FoundStep } from './steps.ts';
import { saidPlainly, serverOf, type WandbAccounts } from './wandb-accounts.ts';
import type { HistoryRow, RunDetail } from './wandb/graphql.ts';

export interface TrainerSurroundings {
  accounts: WandbAccounts;
  reader: ReaderCalls;
  runOf: (id: unknown) => StoredRun;
  readyToRead: (run: StoredRun) => Promise<void>;
  emit: (event: 'progress', data: Events['progress']) => void;
  take: (
    run: StoredRun,
    set: { source: StepSource; settings: StepSettings; steps: FoundStep[] },
  ) => Promise<Steps>;
}

/** More rows than that are no list of steps. */
const ROWS_MAX = 200_000;
const TIME = '_timestamp';

/** What a row says: the step, and seconds since 1970 by the trainer's clock. */
export interface SaidRow {
  number: number;
  seconds: number;
}

/** Rows as they were read. */
export interface ReadRows {
  said: SaidRow[];
  /** Rows that have the key, and no whole number from 0 on under it; those that have no time. */
  noNumber: number;
  noTime: number;
}

export interface TrainerRow {
  number: number;
  /** Epoch ms. */
  at: number;
}

/** W&B gives numbers as text now and then; NaN: it is no number, and neither are null, true and an empty text. */
const numberOf = (value: unknown): number =>
  typeof value === 'number'
    ? value
    : typeof value === 'string' && /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(value)
      ? Number(value)
      : NaN;

/** Adds rows to those that were read before; what W&B holds is untrusted. */
export function readRows(read: ReadRows, rows: readonly HistoryRow[], key: string): void {
  for (const row of rows) {
    const number = numberOf(row[key]);
    const seconds = numberOf(row[TIME]);
    if (!Number.isSafeInteger(number) || number < 0) read.noNumber++;
    else if (!Number.isSafeInteger(Math.round(seconds * 1000))) read.noTime++;
    else read.said.push({ number, seconds });
  }
}

/**
 * In the order of time, the first of each step: a trainer logs several rows in a step, some of them late, and after a
 * restart steps come again.
 */
export function trainerRows(said: readonly SaidRow[], offsetSeconds: number): TrainerRow[] {
  const seen = new Set<number>();
  return said
    .map(({ number, seconds }) => ({ number, at: Math.round((seconds + offsetSeconds) * 1000) }))
    .sort((a, b) => a.at - b.at)
    .filter(({ number }) => !seen.has(number) && seen.add(number));
}

/**
 * A row is written when its step is over, so a step goes from the row before to its own. Of the first row nobody knows
 * when it began; it is no step, nor is one that is not wholly in the recording.
 */
export function stepsOfRows(rows: readonly TrainerRow[], from: number, to: number): FoundStep[] {
  return rows.flatMap(({ number, at }, i) => {
    const before = rows[i - 1];
    return before && before.at >= from && at <= to && at > before.at
      ? [{ number, from: before.at, to: at }]
      : [];
  });
}

const NAME_MAX = 80;
/** Why rows give no step between `from` and `to` (epoch ms; null: nothing is recorded), in sentences. */
export function whyNone(
  { said, noNumber, noTime }: ReadRows,
  rows: readonly TrainerRow[],
  key: string,
  from: number | null,
  to: number | null,
): string {
  const [first, last] = [rows[0], rows.at(-1)];
  const name = key.length > NAME_MAX ? `${key.slice(0, NAME_MAX - 1)}…` : key;
  if (said.length + noNumber + noTime === 0)
    return `No row of that run has both "${name}" and a time (${TIME}). Choose another key.`;
  if (!first || !last)
    return noNumber > 0
      ? `No row of that run holds a whole number under "${name}". Choose another key.`
      : `No row of that run with "${name}" holds a time (${TIME}).`;
  if (rows.length === 1)
    return `Its rows tell of step ${first.number} only; a step goes from the row of the one before to its own.`;
  if (first.at === last.at) return 'All of its rows have the same time.';
  if (from === null || to === null) return 'Nothing is recorded in this run.';
  const seconds = (ms: number) => `${Math.ceil(ms / 1000).toLocaleString('en')} s`;
  if (first.at > to)
    return `Its first row is ${seconds(first.at - to)} after the end of this recording. Do the clocks agree?`;
  if (last.at < from)
    return `Its last row is ${seconds(from - last.at)} before the beginning of this recording. Do the clocks agree?`;
  return 'None of its steps lies wholly in this recording.';
}

export type TrainerMethods = Pick<
  Implementation,
  'wandbRuns' | 'wandbKeys' | 'previewTrainerSteps' | 'useTrainerSteps'
>;

/** What was read of a trainer's run. */
interface Read extends ReadRows {
  /** Which run and key, as text. */
  of: string;
  detail: RunDetail;
  serverAheadSeconds: number | null;
}

export function createTrainerMethods(around: TrainerSurroundings): TrainerMethods {
  const { accounts, reader } = around;
  const teller = progressOf(around.emit);
  /** Of the last preview: to read a long run takes minutes. */
  let kept: Read | null = null;

  const read = (trainer: TrainerRun, task: string, signal: AbortSignal | undefined): Promise<Read> => {
    const { server, entity, project, runId, key } = trainer;
    const place = { entity, project };
    return saidPlainly(
      accounts.ask(
        server,
        async (graphql, ahead) => {
          const detail = await graphql.run(place, runId);
          const of = wanted(trainer);
          // of a run that goes on it says when W&B last heard of it, so that is another one
          if (kept?.of === of && JSON.stringify(kept.detail) === JSON.stringify(detail))
            return { ...kept, serverAheadSeconds: ahead() };
          const { lastStep: to } = detail;
          const rows = detail.historyLineCount ?? to + 1;
          if (!Number.isSafeInteger(to) || rows > ROWS_MAX) throw tooMany(rows);
          const found: ReadRows = { said: [], noNumber: 0, noTime: 0 };
          const span = { from: 0, to, rows, tell: teller(task) };
          for await (const page of graphql.history(place, runId, [key, TIME], span)) {
            readRows(found, page, key);
            if (found.said.length > ROWS_MAX) throw tooMany(found.said.length);
          }
          return { ...found, of, detail, serverAheadSeconds: ahead() };
        },
        signal,
      ),
    );
  };

  const look = async (id: unknown, asked: TrainerRun, from: (trainer: TrainerRun) => Promise<Read>) => {
    const run = around.runOf(id);
    const trainer = checkedTrainer(asked);
    await around.readyToRead(run);
    const { firstAt, lastAt } = await reader.contents(run.file);
    const was = await from(trainer);
    const told = trainerRows(was.said, trainer.offsetSeconds);
    const found = firstAt === null || lastAt === null ? [] : stepsOfRows(told, firstAt, lastAt);
    const settings = { ...defaultSettings(run.interval_ms), trainer };
    const newest = told.at(-1);
    const { state, heartbeatAt } = was.detail;
    const heard = heartbeatAt === null ? NaN : Date.parse(zoned(heartbeatAt));
    const seen: TrainerSteps = {
      set: {
        ...{ source: 'wandb', settings },
        steps: found.map((s, n) =>
          stepOf({ n, number: s.number!, kind: 'train', began: s.from, ended: s.to }),
        ),
      },
      ...{ rows: told.length, inside: found.length, leftOut: was.noNumber + was.noTime },
      none: found.length > 0 ? null : whyNone(was, told, trainer.key, firstAt, lastAt),
      ...{ firstAt: told[0]?.at ?? null, lastAt: newest?.at ?? null },
      serverAheadSeconds: was.serverAheadSeconds,
      trainerAheadSeconds:
        newest && state === 'running' && !Number.isNaN(heard)
          ? (newest.at - heard) / 1000 - trainer.offsetSeconds
          : null,
    };
    return { run, found, settings, seen };
  };

  return {
    wandbRuns: async (server, entity, project, after, signal) =>
      saidPlainly(
        accounts.ask(
          serverOf(server),
          async (graphql) => {
            const of = entity ?? (await graphql.viewer()).entity;
            const place = { entity: of, project: text(project, 'A project') };
            const { rows, cursor } = await graphql.runs(place, {}, after);
            const runs = rows.map((r) => ({
              ...{ runId: r.runId, name: r.displayName, state: r.state, createdAt: r.createdAt },
              ...{ user: r.username, rows: r.historyLineCount },
            }));
            return { runs, next: cursor };
          },
          signal,
        ),
      ),
    wandbKeys: async (server, entity, project, runId, signal) =>
      saidPlainly(
        accounts.ask(
          serverOf(server),
          async (graphql) => {
            const place = { entity: text(entity, 'An entity'), project: text(project, 'A project') };
            return (await graphql.run(place, text(runId, 'A run on W&B'))).keys.sort();
          },
          signal,
        ),
      ),
    previewTrainerSteps: async (id, asked, task, signal) => {
      const name = text(task, 'The name of the task');
      const { seen } = await look(id, asked, async (trainer) => (kept = await read(trainer, name, signal)));
      return seen;
    },
    useTrainerSteps: async (id, asked, task, signal) => {
      const name = text(task, 'The name of the task');
      const { run, found, settings, seen } = await look(id, asked, (trainer) => {
        const before = kept;
        return before?.of === wanted(trainer) ? Promise.resolve(before) : read(trainer, name, signal);
      });
      if (seen.none !== null) throw new EngineError('bad-input', seen.none);
      kept = null;
      return around.take(run, { source: 'wandb', settings, steps: found });
    },
  };
}

const wanted = ({ server, entity, project, runId, key }: TrainerRun): string =>
  JSON.stringify([server, entity, project, runId, key]);

const tooMany = (rows: number) =>
  new EngineError(
    'bad-input',
    `That run has ${rows.toLocaleString('en')} rows; up to ${ROWS_MAX.toLocaleString('en')} are read. Choose another run, or let steps come from elsewhere.`,
  );

/** W&B's times are UTC, with or without the letter. */
const zoned = (time: string): string => (/(Z|[+-]\d\d:?\d\d)$/.test(time) ? time : `${time}Z`);
