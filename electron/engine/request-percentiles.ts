/**
 * Percentiles over requests in a window, out of the increases of histogram buckets: those of the samples that the window
 * owns (temp.own), as for deltas of counters. histograms.ts has the arithmetic.
 */
import type { RequestPercentiles } from './api.ts';
import { bucketSources } from './catalogue.ts';
import { decode, merge, percentilesOf, type Histogram } from './histograms.ts';
import * as queries from './queries.ts';
import type { RunFile, Slots } from './timelines.ts';

/** By metric, what each worker counted in a window; one worker may have two, where its bounds changed. */
export type RequestCounts = ReadonlyMap<string, readonly (Histogram & { w: number })[]>;

/** Of all latencies in one pass. `n`: number of the window in temp.own, whose samples lie in `slots`. */
export function requestCounts(run: RunFile, n: number, slots: readonly Slots[]): RequestCounts {
  const found = new Map<string, (Histogram & { w: number })[]>(
    bucketSources.map(({ metric }) => [metric, []]),
  );
  const histograms = new Map(
    run
      .all<{ h: number; metric: string; bounds: string }>('SELECT h, metric, bounds FROM histogram')
      .map(({ h, metric, bounds }) => [h, { of: found.get(metric), bounds: JSON.parse(bounds) as number[] }]),
  );
  /** By worker, then h. */
  const sums: Float64Array[][] = [];
  const grown = slots.flatMap((some) =>
    run.all<{ w: number; counts: Uint8Array }>(queries.bucketsOfWindow, { n, ...some }),
  );
  for (const { w, counts } of grown) {
    const own = (sums[w] ??= []);
    decode(counts, (h) => {
      if (own[h]) return own[h];
      const { of, bounds } = histograms.get(h) ?? {};
      if (!of || !bounds) return null;
      const sum = new Float64Array(bounds.length + 1);
      of.push({ w, bounds, counts: sum });
      return (own[h] = sum);
    });
  }
  return found;
}

/** Of one metric over all workers, or over one. null: it is no latency. */
export function requestPercentiles(
  counts: RequestCounts,
  metric: string,
  w: number | null = null,
): RequestPercentiles | null {
  const parts = counts.get(metric);
  if (!parts) return null;
  return percentilesOf(merge(w === null ? parts : parts.filter((part) => part.w === w)));
}
