/**
 * The contract's calls about steps: finding them anew, choosing, marking, their scalars. engine.ts puts them among the
 * others.
 */
import type { Events, Implementation } from './api.ts';
import type {
  FindStepsQuery,
  MarkInput,
  StepMethods,
  Steps,
  StepSet,
  StepSettings,
  StepSource,
} from './api-steps.ts';
import { EngineError } from './errors.ts';
import { checkQuery, number, text } from './input.ts';
import { checkedMark, checkedSettings, checkedStep, stepKindOf, stepSourceOf } from './input-steps.ts';
import type { StoredRun } from './library.ts';
import { progressOf } from './progress.ts';
import type { ReaderCalls } from './reader.ts';
import { ScalarKeeper } from './scalar-keeper.ts';
import { settingsOf, StepKeeper } from './step-keeper.ts';
import { stepOf } from './step-reads.ts';
import { fixedSteps, suggestions, type FoundStep } from './steps.ts';
import type { RunStore } from './store.ts';

export interface StepSurroundings {
  reader: ReaderCalls;
  /** Throws `not-found`. */
  runOf: (id: unknown) => StoredRun;
  runs: () => StoredRun[];
  readyToRead: (run: StoredRun) => Promise<void>;
  /** Of a run that is being recorded, or opened for this; closed again after it. */
  withStore: <T>(run: StoredRun, act: (store: RunStore) => T | Promise<T>) => Promise<T>;
  /** Of a run that is being recorded: found anew with other settings. */
  restartSteps: (run: StoredRun) => void;
  now: () => number;
  emit: <E extends keyof Events>(event: E, data: Events[E]) => void;
  report: (sentence: string) => void;
}

/** Opening a short old run finds its steps before it answers. */
const PATIENCE_MS = 500;
/** Marks may come from a machine whose clock is ahead by so much. */
const AHEAD_MS = 5000;

const nothing = () => undefined;

/** The work's end, or `cancelled` when the asker takes the call back; the work goes on. */
async function unless(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal?.aborted) throw new EngineError('cancelled', 'Cancelled.');
  const cancelled = new Promise<never>((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(new EngineError('cancelled', 'Cancelled.')), {
      once: true,
    });
  });
  await Promise.race([work, cancelled]);
}

export interface StepWork {
  methods: { [M in keyof StepMethods]: Implementation[M] };
  /** Steps of a run that is being recorded are others. */
  stepped(run: string): void;
  /** Steps that were told elsewhere become a source's whole set, and the current one. */
  take(
    run: StoredRun,
    set: { source: StepSource; settings: StepSettings; steps: FoundStep[] },
  ): Promise<Steps>;
  /** Finds the steps of a run that is over, and computes all numbers of steps that are not kept yet. */
  complete(run: StoredRun, source: StepSource): Promise<void>;
  /** What goes on behind is over, or given up. */
  close(): Promise<void>;
}

export function createStepMethods(around: StepSurroundings): StepWork {
  const { reader, runOf, readyToRead, withStore, emit } = around;
  /** Old runs whose steps are being found. */
  const catching = new Map<string, Promise<void>>();
  /** Those of them that are not through yet. */
  const unfound = new Set<string>();
  const timers = new Set<NodeJS.Timeout>();
  let closed = false;

  const teller = progressOf(emit);
  const scalars = new ScalarKeeper({ ...around, teller });

  /** Finds the steps of a run that is not being recorded and has none yet, or not to its end. */
  const caughtUp = async (run: StoredRun): Promise<void> => {
    if (run.state === 'recording') return;
    let work = catching.get(run.id);
    if (!work) {
      unfound.add(run.id);
      work = (async () => {
        const until = await reader.lookedUntil(run.file);
        if (until !== null && until >= (run.ended ?? run.started)) return;
        await withStore(run, (store) =>
          new StepKeeper(store, reader, nothing, nothing).finish(teller(`steps ${run.id}`)),
        );
        unfound.delete(run.id);
        emit('stepped', { run: run.id });
      })().finally(() => unfound.delete(run.id));
      catching.set(run.id, work);
      work.catch(() => catching.delete(run.id));
    }
    const slow = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, PATIENCE_MS);
      void work.finally(() => clearTimeout(timer)).then(resolve, resolve);
    });
    await slow;
  };

  const ready = async (id: unknown): Promise<StoredRun> => {
    const run = runOf(id);
    await readyToRead(run);
    await caughtUp(run);
    return run;
  };

  const find = async (
    query: FindStepsQuery,
    signal?: AbortSignal,
  ): Promise<{ run: StoredRun; found: FoundStep[]; set: StepSet }> => {
    const run = runOf(query.run);
    const source = stepSourceOf(query.source);
    const settings = checkedSettings(query.settings, run.interval_ms);
    if (source === 'mark' || source === 'wandb')
      throw new EngineError('bad-input', 'These steps are not looked for: somebody tells them.');
    const task = text(query.task, 'The name of the task');
    await readyToRead(run);
    const found =
      source === 'fixed'
        ? await findFixed(run, settings.everySeconds)
        : await findByWork(run, source, settings, task, signal);
    const hints = source === 'idle' ? suggestions(found) : found.map(() => null);
    const steps = found.map((s, n) =>
      stepOf({ n, number: n, kind: 'train', began: s.from, ended: s.to }, hints[n]),
    );
    return { run, found, set: { source, settings, steps } };
  };
  const findFixed = async (run: StoredRun, everySeconds: number) => {
    const { firstAt, lastAt } = await reader.contents(run.file);
    return firstAt === null || lastAt === null ? [] : fixedSteps(firstAt, lastAt, everySeconds);
  };
  const findByWork = async (
    run: StoredRun,
    source: 'idle' | 'sleep',
    settings: StepSet['settings'],
    task: string,
    signal?: AbortSignal,
  ) => {
    const query = {
      settings: { idle: settings, sleep: settings },
      known: { idle: 0, sleep: 0 },
      ended: run.state !== 'recording',
    };
    const tell = teller(task);
    try {
      for (;;) {
        const result = await reader.scanSteps(run.file, task, query, signal);
        tell(result.slot, Math.max(result.slots, result.slot));
        if (result.slot >= result.slots) return [...result[source].final, ...result[source].pending];
        if (signal?.aborted || closed) throw new EngineError('cancelled', 'Cancelled.');
      }
    } finally {
      await reader.forgetScan(run.file, task);
    }
  };

  const markedRun = (wanted: string | null): StoredRun => {
    const recording = around.runs().filter((r) => r.state === 'recording');
    const named =
      wanted === null
        ? recording
        : recording.filter((r) => [r.id, r.name, r.cluster, r.cluster_name].includes(wanted));
    const [run] = named;
    if (!run)
      throw new EngineError(
        'not-found',
        wanted === null
          ? 'No run is being recorded that could be marked. Start a recording first.'
          : `No run is being recorded that is called "${wanted}".${recording.length > 0 ? ` There is ${recording.map((r) => `"${r.name}"`).join(', ')}.` : ''}`,
      );
    if (named.length > 1)
      throw new EngineError(
        'bad-input',
        `${named.length} runs are being recorded: ${named.map((r) => `"${r.cluster_name}"`).join(', ')}. Say which by the name of its cluster (run).`,
      );
    return run;
  };

  return {
    methods: {
      steps: async (id, source, signal) =>
        reader.steps((await ready(id)).file, source === null ? null : stepSourceOf(source), signal),
      findMissingSteps: async (id, signal) => {
        await ready(id);
        await unless(catching.get(runOf(id).id) ?? Promise.resolve(), signal);
      },
      previewSteps: async (query, signal) => (await find(query, signal)).set,
      findSteps: async (query, signal) => {
        const { run, found, set } = await find(query, signal);
        await withStore(run, (store) =>
          store.steps.replace(set.source, set.settings, store.lastTick()?.at ?? run.started, found),
        );
        if (run.state === 'recording') around.restartSteps(run);
        emit('stepped', { run: run.id });
        return reader.steps(run.file, set.source, signal);
      },
      chooseSteps: async (id, source, signal) => {
        const run = await ready(id);
        const wanted = source === null ? null : stepSourceOf(source);
        await withStore(run, (store) => store.steps.choose(wanted));
        emit('stepped', { run: run.id });
        return reader.steps(run.file, null, signal);
      },
      setStepKind: async (id, source, n, kind) => {
        const run = await ready(id);
        const wanted = stepSourceOf(source);
        await withStore(run, (store) => store.steps.setKind(wanted, number(n, 'n'), stepKindOf(kind)));
        emit('stepped', { run: run.id });
        const { steps } = await reader.steps(run.file, wanted);
        return steps[n]!;
      },
      mark: async (input: MarkInput) => {
        const now = around.now();
        const { run: wanted, ...mark } = checkedMark(input, now);
        const run = markedRun(wanted);
        const { number, kind, end } = mark;
        if (mark.at > now + AHEAD_MS)
          throw new EngineError(
            'bad-input',
            `${new Date(mark.at).toISOString()} lies in the future. Is the clock right there?`,
          );
        if (mark.at < run.started)
          throw new EngineError(
            'bad-input',
            `${new Date(mark.at).toISOString()} lies before this run began (${new Date(run.started).toISOString()}).`,
          );
        const settings = await settingsOf(reader, run.file, run.interval_ms);
        const { step, changed } = await withStore(run, (store) =>
          // a clock that is a little ahead must not make the next mark come before this one
          store.steps.mark({ number, kind, end, at: Math.min(mark.at, now) }, settings.mark),
        );
        if (changed) emit('stepped', { run: run.id });
        return { run: run.id, step: stepOf(step), changed };
      },
      takeMarkBack: async (id, step) => {
        const run = runOf(id);
        const mark = checkedStep(step);
        await withStore(run, (store) => store.steps.takeBack(mark));
        emit('stepped', { run: run.id });
      },
      scalars: async (query, signal) => {
        checkQuery({ ...query, from: 0, to: 1 });
        const run = await ready(query.run);
        const source = query.source === null ? null : stepSourceOf(query.source);
        if (query.quick !== true) {
          const current = source ?? (await reader.steps(run.file, null, signal)).source;
          await unless(scalars.fill(run, current), signal);
        }
        const answer = await reader.scalars(
          run.file,
          { ...query, source },
          run.state === 'recording',
          signal,
        );
        // of steps that are still being found the last ones would come first
        if (!unfound.has(run.id)) scalars.fillBehind(run, answer.source);
        return { ...answer, stopped: answer.missing > 0 && scalars.isStopped(run.id) };
      },
      stopScalars: async (id) => {
        await Promise.resolve();
        scalars.stop(runOf(id).id);
      },
      resumeScalars: async (id) => {
        const run = runOf(id);
        const { source } = await reader.steps(run.file, null);
        scalars.goOn(run, source);
      },
      stragglers: async ({ run: id, from, to }, signal) =>
        reader.stragglers((await ready(id)).file, number(from, 'from'), number(to, 'to'), signal),
      pressure: async ({ run: id, from, to }, signal) =>
        reader.pressure((await ready(id)).file, number(from, 'from'), number(to, 'to'), signal),
      why: async (query, signal) => {
        checkQuery({ ...query, metrics: [query.metric] });
        return reader.why((await ready(query.run)).file, query, signal);
      },
    },
    stepped: (id) => {
      emit('stepped', { run: id });
      const run = runOf(id);
      // once everybody could have answered, their numbers are computed and kept
      const timer = setTimeout(
        () => {
          timers.delete(timer);
          void reader
            .steps(run.file, null)
            .then(({ source }) => scalars.fillBehind(run, source))
            .catch(() => undefined);
        },
        4 * run.interval_ms + 6000,
      );
      timers.add(timer);
    },
    take: async (run, { source, settings, steps }) => {
      await withStore(run, (store) => {
        store.steps.replace(source, settings, store.lastTick()?.at ?? run.started, steps);
        store.steps.choose(source);
      });
      emit('stepped', { run: run.id });
      return reader.steps(run.file, null);
    },
    complete: async (run, source) => {
      await caughtUp(run);
      await catching.get(run.id);
      await scalars.fill(run, source);
    },
    close: async () => {
      closed = true;
      for (const timer of timers) clearTimeout(timer);
      await Promise.allSettled([...catching.values(), scalars.close()]);
    },
  };
}
