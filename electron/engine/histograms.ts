/**
 * Latency histograms: how their counts are packed, merged over workers, and turned into percentiles. A histogram is a
 * metric with its upper bounds; counts here are those within each bucket (not cumulative over `le`), the last one for
 * what lies above the last bound. Knows no file.
 *
 * Packed (tables `bucket` and `bucket_state`), one histogram behind the other, each as unsigned varints (LEB128: 7 bits
 * a byte, the lowest first, the top bit set on all but the last byte):
 *   h         histogram.h
 *   entries   buckets with a count above 0
 *   then for each of them, in ascending order:
 *     gap     buckets left out since the one before (the first: since the beginning)
 *     count
 */
import type { RequestPercentiles } from './api.ts';

export function encode(histograms: Iterable<{ h: number; counts: readonly number[] }>): Uint8Array {
  const bytes: number[] = [];
  const put = (value: number) => {
    let rest = value;
    // no shifts: they are cut to 32 bits
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
    bytes.push(rest);
  };
  for (const { h, counts } of histograms) {
    let entries = 0;
    for (let i = 0; i < counts.length; i++) if (counts[i]! > 0) entries++;
    put(h);
    put(entries);
    for (let i = 0, next = 0; i < counts.length; i++) {
      if (!(counts[i]! > 0)) continue;
      put(i - next);
      put(counts[i]!);
      next = i + 1;
    }
  }
  return new Uint8Array(bytes);
}

/**
 * Adds what was packed to the counts that `into` gives for each histogram; null: not wanted. Never throws, whatever the
 * bytes are.
 */
export function decode(packed: Uint8Array, into: (h: number) => number[] | Float64Array | null): void {
  let i = 0;
  const get = () => {
    let value = 0;
    for (let unit = 1; i < packed.length; unit *= 128) {
      const byte = packed[i++]!;
      value += (byte & 127) * unit;
      if (byte < 128) break;
    }
    return value;
  };
  while (i < packed.length) {
    const counts = into(get());
    const entries = get();
    for (let entry = 0, bucket = -1; entry < entries && i < packed.length; entry++) {
      bucket += get() + 1;
      const count = get();
      if (counts && bucket < counts.length) counts[bucket]! += count;
    }
  }
}

export interface Histogram {
  /** Ascending, without +Inf. */
  bounds: readonly number[];
  /** One more than bounds. */
  counts: Float64Array;
}

const total = (counts: Float64Array) => counts.reduce((sum, n) => sum + n, 0);

/** Added up on the bounds that all of those have which counted anything; what lies between two of these is one bucket. */
export function merge(histograms: readonly Histogram[]): Histogram {
  const parts = histograms.filter(({ counts }) => counts.some((n) => n > 0));
  const [first] = parts;
  if (!first) return { bounds: [], counts: new Float64Array(1) };
  const bounds = first.bounds.filter((le) => parts.every((part) => part.bounds.includes(le)));
  const counts = new Float64Array(bounds.length + 1);
  for (const part of parts) {
    let bucket = 0;
    part.counts.forEach((n, i) => {
      // this count lies above the bound before it
      while (bucket < bounds.length && i > 0 && part.bounds[i - 1]! >= bounds[bucket]!) bucket++;
      counts[bucket]! += n;
    });
  }
  return { bounds, counts };
}

/**
 * Prometheus' histogram_quantile: linear inside the bucket, whose lower bound is the one before (of the first: 0, or the
 * bound itself where that is not above 0). In the last bucket the last bound, `atLeast`. null: no observations, or no
 * bound.
 */
export function quantile(
  { bounds, counts }: Histogram,
  q: number,
): { value: number | null; atLeast: boolean } {
  const n = total(counts);
  if (n === 0 || bounds.length === 0) return { value: null, atLeast: false };
  const rank = q * n;
  let below = 0;
  for (const [i, end] of bounds.entries()) {
    const count = counts[i]!;
    if (below + count < rank) {
      below += count;
      continue;
    }
    if (i === 0 && end <= 0) return { value: end, atLeast: false };
    const begin = bounds[i - 1] ?? 0;
    return { value: begin + ((end - begin) * (rank - below)) / count, atLeast: false };
  }
  return { value: bounds.at(-1)!, atLeast: true };
}

export function percentilesOf(histogram: Histogram): RequestPercentiles {
  const p50 = quantile(histogram, 0.5);
  const p95 = quantile(histogram, 0.95);
  const p99 = quantile(histogram, 0.99);
  return {
    p50: p50.value,
    p95: p95.value,
    p99: p99.value,
    n: total(histogram.counts),
    atLeast: { p50: p50.atLeast, p95: p95.atLeast, p99: p99.atLeast },
  };
}
