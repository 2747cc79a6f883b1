/**
 * What one worker's histograms have counted so far, and by how much each bucket grew since the worker's row before:
 * arithmetic.md's delta of a counter, for all buckets of a histogram alike. workers.ts has one for each worker.
 */
import type { ParsedHistogram } from './parse.ts';

export interface HistogramCounts {
  metric: string;
  /** As in ParsedHistogram. */
  bounds: string;
  /** Within each bucket, not cumulative over `le`. */
  counts: readonly number[];
}

export interface BucketChange {
  /** Of the histograms that grew. */
  increases: HistogramCounts[];
  /**
   * All that was counted so far, where adding the increases to what was known would not give it: a histogram is new, or
   * the worker restarted. null: it does.
   */
  state: HistogramCounts[] | null;
}

/** More bounds than this of one histogram within an epoch are not followed: whatever sends them is no vLLM. */
const LAYOUTS_MAX = 4;

interface Known extends HistogramCounts {
  observations: number;
}

const within = (cumulative: readonly number[]) =>
  cumulative.map((n, i) => (i > 0 ? n - cumulative[i - 1]! : n));

export class BucketCounts {
  /** By metric; several where its bounds changed. */
  private readonly known = new Map<string, Known[]>();
  /** The histograms that come next were there before, with counts that nobody kept. */
  private unknown: boolean;
  private stale = false;
  /** More was counted than the state that was given last. */
  private grown: boolean;

  /** Empty for a new worker; null for one that has rows, with counts that nobody kept. */
  constructor(remembered: readonly HistogramCounts[] | null) {
    this.unknown = remembered === null;
    this.grown = remembered !== null && remembered.length > 0;
    for (const counted of remembered ?? []) this.add(counted);
  }

  /** What it counted before counts no more: everything since is an increase. */
  restart(): void {
    this.known.clear();
    this.unknown = false;
    this.stale = true;
  }

  /** `fromZero`: a histogram that was not there before is known to have been 0 then. null: nothing is to be written. */
  take(found: ReadonlyMap<string, ParsedHistogram>, fromZero: boolean): BucketChange | null {
    const increases: HistogramCounts[] = [];
    for (const [metric, { bounds, counts: cumulative }] of found) {
      const observations = cumulative.at(-1)!;
      const before = this.known.get(metric)?.find((k) => k.bounds === bounds);
      // counters only grow, so none did
      if (before?.observations === observations) continue;
      const counts = within(cumulative);
      if (before) {
        let increase: readonly number[] = counts.map((n, i) => n - before.counts[i]!);
        if (increase.some((n) => n < 0)) {
          increase = counts;
          this.stale = true;
        }
        increases.push({ metric, bounds, counts: increase });
        Object.assign(before, { counts, observations });
      } else if ((this.known.get(metric)?.length ?? 0) < LAYOUTS_MAX) {
        // with other bounds it may have counted the same requests already
        if (fromZero && !this.unknown && !this.known.has(metric) && observations > 0)
          increases.push({ metric, bounds, counts });
        this.add({ metric, bounds, counts });
        this.stale = true;
      }
    }
    if (found.size > 0) this.unknown = false;
    if (increases.length === 0 && !this.stale) return null;
    const state = this.stale ? this.state() : null;
    this.grown = state === null;
    this.stale = false;
    return { increases, state };
  }

  /** All that was counted so far, if there is more than was given before; otherwise null. */
  news(): HistogramCounts[] | null {
    if (!this.grown) return null;
    this.grown = false;
    return this.state();
  }

  private state(): HistogramCounts[] {
    return [...this.known.values()].flat();
  }

  private add({ metric, bounds, counts }: HistogramCounts): void {
    const known = { metric, bounds, counts, observations: counts.reduce((sum, n) => sum + n, 0) };
    this.known.set(metric, [...(this.known.get(metric) ?? []), known]);
  }
}
