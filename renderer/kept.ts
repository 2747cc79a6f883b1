/**
 * The chart data the page holds of one run: as the engine sent it, with room at the end so that new ticks are
 * appended in place. Matrices are worker-major with `capacity` as the stride: worker w at place i is
 * `[w * capacity + i]`. Absent is NaN.
 */
import type { Timelines } from '../electron/engine/api.ts';

export interface Column {
  values: Float32Array;
  /** Of a bucket; null where raw. */
  min: Float32Array | null;
  max: Float32Array | null;
  /** One a place. */
  average: Float32Array;
}

export interface Kept {
  /** 0: raw, one place a tick. */
  widthSeconds: number;
  places: number;
  capacity: number;
  workers: number;
  times: Float64Array;
  offsets: Float32Array;
  columns: Map<string, Column>;
}

/** Takes an answer over without copying; there is no room in it until the first `extend`. */
export function keep(t: Timelines): Kept {
  return {
    widthSeconds: t.widthSeconds,
    places: t.times.length,
    capacity: t.times.length,
    workers: t.workers,
    times: t.times,
    offsets: t.offsets,
    columns: new Map(
      t.series.map((s) => [s.metric, { values: s.values, min: s.min, max: s.max, average: s.average }]),
    ),
  };
}

/** First place at or after a time. */
export function placeFrom(k: Kept, at: number): number {
  let low = 0;
  let high = k.places;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((k.times[middle] ?? Infinity) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** When the newest place is; null where there is none. */
export const newest = (k: Kept | null): number | null =>
  k && k.places > 0 ? (k.times[k.places - 1] ?? null) : null;

/** Whether an answer can be appended: raw like what is held, the same metrics, no hole between. */
export function fits(k: Kept, t: Timelines): boolean {
  const begin = t.times[0];
  return (
    k.widthSeconds === 0 &&
    t.widthSeconds === 0 &&
    begin !== undefined &&
    k.places > 0 &&
    begin <= (k.times[k.places - 1] ?? -Infinity) &&
    t.series.length === k.columns.size &&
    t.series.every((s) => k.columns.has(s.metric))
  );
}

/** A matrix with another stride and other places; what is not copied is NaN. */
function moved(
  from: Float32Array,
  k: Kept,
  drop: number,
  count: number,
  workers: number,
  capacity: number,
): Float32Array {
  const to = new Float32Array(workers * capacity).fill(NaN);
  for (let w = 0; w < k.workers; w++)
    to.set(from.subarray(w * k.capacity + drop, w * k.capacity + drop + count), w * capacity);
  return to;
}

function roomier(k: Kept, need: number, workers: number, keepFrom: number): Kept {
  const drop = placeFrom(k, keepFrom);
  const count = k.places - drop;
  const capacity = Math.ceil((need - drop) * 1.25) + 128;
  const times = new Float64Array(capacity);
  times.set(k.times.subarray(drop, k.places));
  const columns = new Map<string, Column>();
  for (const [metric, c] of k.columns) {
    const average = new Float32Array(capacity).fill(NaN);
    average.set(c.average.subarray(drop, k.places));
    columns.set(metric, {
      values: moved(c.values, k, drop, count, workers, capacity),
      min: null,
      max: null,
      average,
    });
  }
  const offsets = moved(k.offsets, k, drop, count, workers, capacity);
  return { widthSeconds: 0, places: count, capacity, workers, times, offsets, columns };
}

/**
 * What is held with an answer that `fits` over its end: places from the answer's begin on are replaced. Changes `k`
 * in place where there is room; otherwise gives a roomier one, without the places before `keepFrom`.
 */
export function extend(k: Kept, t: Timelines, keepFrom: number): Kept {
  const n = t.times.length;
  let first = placeFrom(k, t.times[0] ?? Infinity);
  let held = k;
  if (first + n > k.capacity || t.workers > k.workers) {
    held = roomier(k, first + n, Math.max(k.workers, t.workers), Math.min(keepFrom, t.times[0] ?? keepFrom));
    first = placeFrom(held, t.times[0] ?? Infinity);
  }
  held.times.set(t.times, first);
  held.places = first + n;
  put(held.offsets, t.offsets, held, t, first);
  for (const s of t.series) {
    const c = held.columns.get(s.metric);
    if (!c) continue;
    put(c.values, s.values, held, t, first);
    c.average.set(s.average, first);
  }
  return held;
}

function put(to: Float32Array, from: Float32Array, k: Kept, t: Timelines, first: number) {
  const n = t.times.length;
  for (let w = 0; w < t.workers; w++) to.set(from.subarray(w * n, (w + 1) * n), w * k.capacity + first);
}
