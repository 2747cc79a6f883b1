/**
 * Steps out of the trainer's own run on W&B: its rows say which step ended when. Nothing is ever written there. The
 * trainer's clock may be another; how far is said as well as it can be known, and an offset is added where it is given.
 */
import type { Implementation } from './api.ts';
import type { Steps, StepSettings, StepSource, TrainerRun } from './api-steps.ts';
import type { TrainerSteps } from './api-wandb.ts';
import { EngineError } from './errors.ts';
import { checkedTrainer } from './input-steps.ts';
import { text } from './input.ts';
import type { StoredRun } from './library.ts';
import type { ReaderCalls } from './reader.ts';
import { stepOf } from './step-reads.ts';
import { defaultSettings, type FoundStep } from './steps.ts';
import { saidPlainly, serverOf, type WandbAccounts } from './wandb-accounts.ts';
import type { HistoryRow } from './wandb/graphql.ts';

export interface TrainerSurroundings {
  accounts: WandbAccounts;
  reader: ReaderCalls;
  runOf: (id: unknown) => StoredRun;
  readyToRead: (run: StoredRun) => Promise<void>;
  take: (
    run: StoredRun,
    set: { source: StepSource; settings: StepSettings; steps: FoundStep[] },
  ) => Promise<Steps>;
}

/** More rows than that are no list of steps. */
const ROWS_MAX = 200_000;
const TIME = '_timestamp';

export interface TrainerRow {
  number: number;
  /** Epoch ms. */
  at: number;
}

/** Rows that say a step and a time; what W&B holds is untrusted. In the order of time, the first of each step. */
export function trainerRows(rows: readonly HistoryRow[], { key, offsetSeconds }: TrainerRun): TrainerRow[] {
  const all = rows
    .map((row) => ({ number: Number(row[key]), at: Math.round((Number(row[TIME]) + offsetSeconds) * 1000) }))
    .filter(({ number, at }) => Number.isSafeInteger(number) && number >= 0 && Number.isSafeInteger(at))
    .sort((a, b) => a.at - b.at);
  // a trainer logs several rows in a step, and after a restart steps come again
  return all.filter(({ number }, i) => number !== all[i - 1]?.number);
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

export type TrainerMethods = Pick<
  Implementation,
  'wandbRuns' | 'wandbKeys' | 'previewTrainerSteps' | 'useTrainerSteps'
>;

export function createTrainerMethods(around: TrainerSurroundings): TrainerMethods {
  const { accounts, reader } = around;

  const look = async (id: unknown, asked: TrainerRun, signal: AbortSignal | undefined) => {
    const run = around.runOf(id);
    const trainer = checkedTrainer(asked);
    await around.readyToRead(run);
    const { firstAt, lastAt } = await reader.contents(run.file);
    const { server, entity, project, runId, key } = trainer;
    const place = { entity, project };
    const { rows, detail, ahead } = await saidPlainly(
      accounts.ask(
        server,
        async (graphql, aheadNow) => {
          const detail = await graphql.run(place, runId);
          if (detail.lastStep > ROWS_MAX)
            throw new EngineError(
              'bad-input',
              `That run has ${detail.lastStep} rows; up to ${ROWS_MAX} are read.`,
            );
          const rows: HistoryRow[] = [];
          const span = { from: 0, to: detail.lastStep };
          for await (const page of graphql.history(place, runId, [key, TIME], span)) rows.push(...page);
          return { rows, detail, ahead: aheadNow() };
        },
        signal,
      ),
    );
    const told = trainerRows(rows, trainer);
    const found = firstAt === null || lastAt === null ? [] : stepsOfRows(told, firstAt, lastAt);
    const settings = { ...defaultSettings(run.interval_ms), trainer };
    const newest = told.at(-1);
    const heard = detail.heartbeatAt === null ? NaN : Date.parse(zoned(detail.heartbeatAt));
    const seen: TrainerSteps = {
      set: {
        ...{ source: 'wandb', settings },
        steps: found.map((s, n) =>
          stepOf({ n, number: s.number!, kind: 'train', began: s.from, ended: s.to }),
        ),
      },
      ...{ rows: told.length, inside: found.length },
      ...{ firstAt: told[0]?.at ?? null, lastAt: newest?.at ?? null, serverAheadSeconds: ahead },
      trainerAheadSeconds:
        newest && detail.state === 'running' && !Number.isNaN(heard) ? (newest.at - heard) / 1000 : null,
    };
    return { run, found, settings, seen };
  };

  return {
    wandbRuns: async (server, entity, project, signal) =>
      saidPlainly(
        accounts.ask(
          serverOf(server),
          async (graphql) => {
            const of = entity ?? (await graphql.viewer()).entity;
            const { rows } = await graphql.runs({ entity: of, project: text(project, 'A project') });
            return rows.map((r) => ({
              ...{ runId: r.runId, name: r.displayName, state: r.state, createdAt: r.createdAt },
              ...{ user: r.username, rows: r.historyLineCount },
            }));
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
    previewTrainerSteps: async (id, trainer, signal) => (await look(id, trainer, signal)).seen,
    useTrainerSteps: async (id, trainer, signal) => {
      const { run, found, settings } = await look(id, trainer, signal);
      if (found.length === 0)
        throw new EngineError(
          'bad-input',
          'No step of that run ends in this recording. Do the clocks agree?',
        );
      return around.take(run, { source: 'wandb', settings, steps: found });
    },
  };
}

/** W&B's times are UTC, with or without the letter. */
const zoned = (time: string): string => (/(Z|[+-]\d\d:?\d\d)$/.test(time) ? time : `${time}Z`);
