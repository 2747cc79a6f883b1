/**
 * Computes scalars that are missing in run files, a step at a time, and keeps them. The reading thread computes, this
 * writes; everybody who asks about the same steps waits for the same work.
 */
import type { StepSource } from './api-steps.ts';
import { EngineError } from './errors.ts';
import type { StoredRun } from './library.ts';
import type { Tell } from './progress.ts';
import type { ReaderCalls } from './reader.ts';
import { storedOf } from './step-reads.ts';
import type { PackedScalars, StoredStep } from './step-store.ts';
import type { RunStore } from './store.ts';

export interface ScalarSurroundings {
  reader: ReaderCalls;
  withStore: <T>(run: StoredRun, act: (store: RunStore) => T | Promise<T>) => Promise<T>;
  now: () => number;
  teller: (task: string) => Tell;
  report: (sentence: string) => void;
}

interface Filling {
  recorded: boolean;
  /** Who would go on with numbers that are not there if this stopped. */
  awaited: number;
  work: Promise<void>;
}

/** A step in which a worker was lost is computed again so often, and for so long after it. */
const AGAIN_MS = 60_000;
const DOUBTFUL_FOR_MS = 600_000;
/** Steps written in one transaction. */
const WRITTEN_AT_ONCE = 8;

export class ScalarKeeper {
  private readonly around: ScalarSurroundings;
  private readonly fillings = new Map<string, Filling>();
  /** When somebody stopped it, by run: steps that end later are computed all the same. */
  private readonly stoppedAt = new Map<string, number>();
  /**
   * Steps of recordings in which a worker was lost when they were computed: it may answer again, and what it counted
   * meanwhile belongs to them. Until then they are lower bounds.
   */
  private readonly lost = new Map<string, { step: StoredStep; computedAt: number }>();
  private closed = false;

  constructor(around: ScalarSurroundings) {
    this.around = around;
  }

  /** Resolves when all steps that are over and settled have their numbers. Not ended by `stop`. */
  async fill(run: StoredRun, source: StepSource): Promise<void> {
    this.stoppedAt.delete(run.id);
    const filling = this.filling(run, source);
    filling.awaited++;
    try {
      await filling.work;
    } finally {
      filling.awaited--;
    }
  }

  fillBehind(run: StoredRun, source: StepSource): void {
    this.filling(run, source).work.catch((error: unknown) => {
      // what is read next says it to somebody who asked
      if (!(error instanceof EngineError)) this.around.report(String(error));
    });
  }

  stop(run: string): void {
    this.stoppedAt.set(run, this.around.now());
  }

  goOn(run: StoredRun, source: StepSource): void {
    this.stoppedAt.delete(run.id);
    this.fillBehind(run, source);
  }

  isStopped(run: string): boolean {
    return this.stoppedAt.has(run);
  }

  async close(): Promise<void> {
    this.closed = true;
    await Promise.allSettled([...this.fillings.values()].map(({ work }) => work));
  }

  private filling(run: StoredRun, source: StepSource): Filling {
    const key = `${run.id} ${source}`;
    const recorded = run.state === 'recording';
    const now = this.fillings.get(key);
    if (now?.recorded === recorded) return now;
    const filling: Filling = { recorded, awaited: 0, work: Promise.resolve() };
    // one that began while it was recorded leaves out what had not settled by then
    filling.work = (now?.work.catch(() => undefined) ?? Promise.resolve())
      .then(() => this.compute(run, source, filling))
      .finally(() => {
        if (this.fillings.get(key) === filling) this.fillings.delete(key);
      });
    this.fillings.set(key, filling);
    return filling;
  }

  private async compute(run: StoredRun, source: StepSource, filling: Filling): Promise<void> {
    const { reader, withStore, teller } = this.around;
    const isStopped = (step: StoredStep) => {
      const at = this.stoppedAt.get(run.id);
      return at !== undefined && filling.awaited === 0 && step.ended! < at;
    };
    const all = [...(await reader.missingScalars(run.file, source)), ...this.doubtful(run, source)];
    const missing = outlineFirst(all.filter((step) => !isStopped(step)));
    if (missing.length === 0) return;
    const { steps } = await reader.steps(run.file, source);
    const tell = teller(run.id);
    const progress = (done: number) => {
      if (missing.length > 1) tell(done, missing.length);
    };
    let done = 0;
    await withStore(run, async (store) => {
      const settled = this.settledBefore(run, store.meta);
      let packed: PackedScalars[] = [];
      for (const step of missing) {
        if (this.closed || store.closed) break;
        done++;
        if (step.ended === null || step.ended > settled || isStopped(step)) continue;
        const [before, now] = [steps[step.n - 1], steps[step.n]];
        // marked, taken back or found otherwise meanwhile
        if (now?.from !== step.began || now.to !== step.ended) continue;
        const computed = await reader.computeScalars(run.file, step, before ? storedOf(before) : null);
        packed.push(computed);
        if (run.state === 'recording') this.remember(run, source, step, computed.lost);
        if (packed.length >= WRITTEN_AT_ONCE && !store.closed) {
          store.steps.writeScalars(source, packed);
          packed = [];
        }
        progress(Math.min(done, missing.length - 1));
      }
      if (!store.closed) store.steps.writeScalars(source, packed);
    });
    progress(missing.length);
  }

  /** A step's numbers are final when everybody has answered after its end, or could have. */
  private settledBefore(run: StoredRun, { timeoutMs, intervalMs }: RunStore['meta']): number {
    return run.state === 'recording' ? this.around.now() - timeoutMs - 2 * intervalMs : Infinity;
  }

  private remember(run: StoredRun, source: StepSource, step: StoredStep, isLost: boolean): void {
    const now = this.around.now();
    const key = `${run.id} ${source} ${step.n}`;
    if (isLost && step.ended! > now - DOUBTFUL_FOR_MS) this.lost.set(key, { step, computedAt: now });
    else this.lost.delete(key);
  }

  private doubtful(run: StoredRun, source: StepSource): StoredStep[] {
    return [...this.lost]
      .filter(
        ([key, { computedAt }]) =>
          key.startsWith(`${run.id} ${source} `) && this.around.now() - computedAt > AGAIN_MS,
      )
      .map(([, { step }]) => step);
  }
}

/**
 * The first of a list, then every 1024th of it, every 512th, ... every one: of hundreds of steps the whole run is seen
 * in outline after a few seconds.
 */
export function outlineFirst<T>(items: readonly T[]): T[] {
  const stride = (i: number) => (i === 0 ? Infinity : i & -i);
  return items
    .map((item, i) => ({ item, stride: stride(i) }))
    .sort((a, b) => (a.stride === b.stride ? 0 : b.stride - a.stride))
    .map(({ item }) => item);
}
