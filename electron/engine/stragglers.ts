/**
 * Who worked, who waited for others, and who kept them waiting: per step, and over steps. The rules have names in
 * docs/metrics.md, "Stragglers". In the reading thread.
 */
import type { Step, StepStraggler, Stragglers, WorkerWork } from './api-steps.ts';
import * as queries from './queries.ts';
import { slotsOf, type RunFile } from './timelines.ts';

/** Where `worker_scalar` keeps it, among the metrics. */
export const WORK = 'work';
const VALUES = 3;

/** Among the last: it ended at most this many intervals before the very last one. */
const AMONG_LAST_INTERVALS = 1;
/** Somebody kept the others waiting only where the middle one ended at least this many intervals earlier. */
const STRAGGLES_INTERVALS = 2;

/** What one worker did in a window. */
export interface Work {
  w: number;
  busySeconds: number;
  /** Without work while another one worked. */
  idleSeconds: number;
  /** When it ended, epoch ms; null: it did not work. */
  endedAt: number | null;
}

/** Worker-seconds are counted in samples: each stands for an interval. A worker that did not answer counts for neither. */
export function workOf(run: RunFile, from: number, to: number): Work[] {
  const slots = slotsOf(run, from, to + 3 * run.intervalMs);
  if (!slots) return [];
  const seconds = run.intervalMs / 1000;
  return run
    .all<{ w: number; busy: number; idle: number; last: number | null; next: number | null }>(
      queries.workDone,
      {
        ...slots,
        from,
        to,
      },
    )
    .map(({ w, busy, idle, last, next }) => ({
      w,
      busySeconds: busy * seconds,
      idleSeconds: idle * seconds,
      // as the end of a step: half an interval before it was seen idle again
      endedAt:
        last === null ? null : Math.min(to, Math.max(last, next === null ? last : next - run.intervalMs / 2)),
    }));
}

/** Three values a worker, in the order of workers; NaN where it did not answer. */
export function packWork(work: readonly Work[], workers: number): Float64Array {
  const packed = new Float64Array(workers * VALUES).fill(NaN);
  for (const { w, busySeconds, idleSeconds, endedAt } of work)
    packed.set([busySeconds, idleSeconds, endedAt ?? NaN], w * VALUES);
  return packed;
}

export function unpackWork(packed: Float64Array): Work[] {
  const found: Work[] = [];
  for (let i = 0; i < packed.length; i += VALUES) {
    const [busySeconds, idleSeconds, endedAt] = packed.subarray(i, i + VALUES);
    if (!Number.isNaN(busySeconds!))
      found.push({
        w: i / VALUES,
        busySeconds: busySeconds!,
        idleSeconds: idleSeconds!,
        endedAt: Number.isNaN(endedAt!) ? null : endedAt!,
      });
  }
  return found;
}

/**
 * Over the train steps among `steps`, or all where none is one; without steps over the window itself. `kept` gives what
 * was computed before, by n.
 */
export async function stragglers(
  run: RunFile,
  steps: readonly Step[],
  window: { from: number; to: number },
  kept: ReadonlyMap<number, Work[]>,
): Promise<Stragglers> {
  const totals = new Map<number, WorkerWork>();
  const add = (work: readonly Work[], ended: readonly number[]) => {
    for (const { w, busySeconds, idleSeconds, endedAt } of work) {
      const total = totals.get(w) ?? { w, endedLast: 0, steps: 0, idleSeconds: 0, busySeconds: 0 };
      totals.set(w, total);
      total.busySeconds += busySeconds;
      total.idleSeconds += idleSeconds;
      if (endedAt !== null) total.steps++;
      if (ended.includes(w)) total.endedLast++;
    }
  };
  const told: StepStraggler[] = [];
  const kind = steps.some((s) => s.kind === 'train') ? 'train' : null;
  for (const step of steps) {
    const work = kept.get(step.n) ?? workOf(run, step.from, step.to ?? window.to);
    const { last, bySeconds, among } = whoEndedLast(work, run.intervalMs);
    told.push({
      n: step.n,
      last,
      bySeconds,
      idleSeconds: work.reduce((sum, w) => sum + w.idleSeconds, 0),
    });
    if (kind === null || step.kind === kind) add(work, among);
    if (!kept.has(step.n)) await run.breathe();
  }
  if (steps.length === 0) {
    const work = workOf(run, window.from, window.to);
    add(work, whoEndedLast(work, run.intervalMs).among);
  }
  return { steps: told, workers: [...totals.values()].sort((a, b) => a.w - b.w) };
}

function whoEndedLast(work: readonly Work[], intervalMs: number) {
  const ends = work
    .flatMap((x) => (x.endedAt === null ? [] : [{ w: x.w, at: x.endedAt }]))
    .sort((a, b) => b.at - a.at || a.w - b.w);
  const [last, before] = ends;
  if (!last) return { last: null, bySeconds: null, among: [] };
  const middle = ends[Math.floor(ends.length / 2)]!.at;
  const straggles = ends.length > 1 && last.at - middle >= STRAGGLES_INTERVALS * intervalMs;
  return {
    last: last.w,
    bySeconds: before ? (last.at - before.at) / 1000 : null,
    among: straggles
      ? ends.filter((e) => last.at - e.at <= AMONG_LAST_INTERVALS * intervalMs).map((e) => e.w)
      : [],
  };
}
