/**
 * What charts, heads and lists read out of the data that is held: places, points, the fleet's number, peaks, silent
 * stretches, the workers that stand out. Pure; draws nothing.
 */
import type { MetricInfo, Run, RunEvent } from '../electron/engine/api.ts';
import { placeFrom, type Column, type Kept } from './kept.ts';

/** Past this number of workers a panel shows a band, the mean and the outliers. */
export const linesUpTo = 16;

/** The place nearest to a time; -1 where nothing is held. */
export function placeAt(k: Kept, at: number): number {
  if (k.places === 0) return -1;
  const i = placeFrom(k, at - middle(k));
  if (i === 0) return 0;
  if (i >= k.places) return k.places - 1;
  const before = timeAt(k, i - 1);
  return at - before <= timeAt(k, i) - at ? i - 1 : i;
}

/** ms from the begin of a bucket to its middle; 0 where raw. */
export const middle = (k: Kept) => k.widthSeconds * 500;

/** Where the fleet's point of a place stands. */
export const timeAt = (k: Kept, i: number) => (k.times[i] ?? NaN) + middle(k);

/** Whether worker w answered at a place. */
export const answered = (k: Kept, w: number, i: number) =>
  w < k.workers && !Number.isNaN(k.offsets[w * k.capacity + i] ?? NaN);

export const valueAt = (k: Kept, c: Column, w: number, i: number) =>
  w < k.workers ? (c.values[w * k.capacity + i] ?? NaN) : NaN;

/** Where worker w's point of a place stands. */
export function pointTime(k: Kept, w: number, i: number): number {
  const offset = k.offsets[w * k.capacity + i] ?? NaN;
  return (k.times[i] ?? NaN) + (Number.isNaN(offset) ? middle(k) : offset);
}

/** Whether a slot or bucket is missing between a place and the one before it. */
export function hole(k: Kept, i: number, intervalSeconds: number): boolean {
  if (i === 0) return true;
  const width = (k.widthSeconds || intervalSeconds) * 1000;
  return (k.times[i] ?? 0) - (k.times[i - 1] ?? 0) > width * 1.5;
}

export interface Fleet {
  value: number | null;
  low: number;
  high: number;
  /** Workers with a value. */
  count: number;
}

/** The fleet's number at a place, by the metric's own rule, with the range over workers. */
export function fleetAt(k: Kept, info: MetricInfo, i: number): Fleet {
  const c = k.columns.get(info.id);
  let sum = 0;
  let low = Infinity;
  let high = -Infinity;
  let n = 0;
  if (c && i >= 0)
    for (let w = 0; w < k.workers; w++) {
      const v = valueAt(k, c, w, i);
      if (Number.isNaN(v)) continue;
      sum += v;
      n++;
      if (v < low) low = v;
      if (v > high) high = v;
    }
  const pooled = c?.average[i] ?? NaN;
  const value = n === 0 ? NaN : info.fleet === 'sum' ? sum : info.fleet === 'max' ? high : pooled;
  return { value: Number.isNaN(value) ? null : value, low, high, count: n };
}

/** The places from which lines in a window are drawn: those in it and one at each side. */
export function placesIn(k: Kept, from: number, to: number): [number, number] {
  return [Math.max(0, placeFrom(k, from) - 1), Math.min(k.places, placeFrom(k, to) + 1)];
}

/** The highest and the lowest positive value between two places, spikes inside buckets included. */
export function extremes(k: Kept, c: Column, begin: number, end: number): { high: number; low: number } {
  let high = 0;
  let low = Infinity;
  const tops = c.max ?? c.values;
  const bottoms = c.min ?? c.values;
  for (let w = 0; w < k.workers; w++) {
    const row = w * k.capacity;
    for (let i = row + begin; i < row + end; i++) {
      const v = tops[i] ?? NaN;
      if (v > high) high = v;
      const b = bottoms[i] ?? NaN;
      if (b > 0 && b < low) low = b;
    }
  }
  return { high, low };
}

/** Stretches [begin, end) of places between two places for which something holds. */
export function stretches(begin: number, end: number, holds: (i: number) => boolean): [number, number][] {
  const found: [number, number][] = [];
  let open = -1;
  for (let i = begin; i <= end; i++) {
    const yes = i < end && holds(i);
    if (yes && open < 0) open = i;
    if (!yes && open >= 0) {
      found.push([open, i]);
      open = -1;
    }
  }
  return found;
}

/** Whether the endpoint of worker w was taken away by then: it is not asked any more. */
export function hasLeft(run: Run, w: number, at: number): boolean {
  const goneAt = run.workerList[w]?.goneAt ?? null;
  return goneAt !== null && at >= goneAt;
}

/** Whether worker w did not answer at a place, though it was known by then and was asked. */
export function silent(k: Kept, run: Run, w: number, i: number): boolean {
  if (answered(k, w, i)) return false;
  const half = (k.widthSeconds || run.intervalSeconds) * 500;
  return timeAt(k, i) + half > (run.workerList[w]?.firstAt ?? 0) && !hasLeft(run, w, timeAt(k, i));
}

/** Share of those that should answer at a place which did not; null: nobody should. */
export function silentShare(k: Kept, run: Run, i: number): number | null {
  let missing = 0;
  let asked = 0;
  for (let w = 0; w < k.workers; w++) {
    const is = silent(k, run, w, i);
    if (is) missing++;
    if (is || answered(k, w, i)) asked++;
  }
  return asked === 0 ? null : missing / asked;
}

/** Share of workers that answered at each place. */
export function answeredShare(k: Kept, i: number): number {
  let n = 0;
  for (let w = 0; w < k.workers; w++) if (answered(k, w, i)) n++;
  return k.workers === 0 ? 0 : n / k.workers;
}

/** The workers farthest from the median over some places: mean distance, the farthest first. */
export function farthest(k: Kept, c: Column, begin: number, end: number, count: number): number[] {
  const far = new Float64Array(k.workers);
  const seen = new Uint32Array(k.workers);
  const row = new Float32Array(k.workers);
  // 200 places tell as well who stands out as 2,000 do
  const step = Math.max(1, Math.floor((end - begin) / 200));
  for (let i = begin; i < end; i += step) {
    let n = 0;
    for (let w = 0; w < k.workers; w++) {
      const v = valueAt(k, c, w, i);
      if (!Number.isNaN(v)) row[n++] = v;
    }
    if (n < 3) continue;
    const median = row.subarray(0, n).sort()[n >> 1] ?? 0;
    for (let w = 0; w < k.workers; w++) {
      const v = valueAt(k, c, w, i);
      if (Number.isNaN(v)) continue;
      far[w] = (far[w] ?? 0) + Math.abs(v - median);
      seen[w] = (seen[w] ?? 0) + 1;
    }
  }
  return Array.from(far, (sum, w) => ({ w, mean: sum / Math.max(1, seen[w] ?? 0) }))
    .filter((x) => x.mean > 0)
    .sort((a, b) => b.mean - a.mean)
    .slice(0, count)
    .map((x) => x.w);
}

/** Sum over workers at each place; NaN where none has a value. For the overview and the rug of preemptions. */
export function sums(k: Kept, c: Column): Float64Array {
  const out = new Float64Array(k.places).fill(NaN);
  for (let w = 0; w < k.workers; w++)
    for (let i = 0; i < k.places; i++) {
      const v = c.values[w * k.capacity + i] ?? NaN;
      if (!Number.isNaN(v)) out[i] = (Number.isNaN(out[i] ?? NaN) ? 0 : (out[i] ?? 0)) + v;
    }
  return out;
}

/** The levels that the strip of a live run shows. */
const vitalLevels = ['running', 'waiting', 'waiting_capacity', 'waiting_deferred', 'kv_cache_usage'];

/** What charts of these metrics need: themselves, what lanes and the rug on the KV panel are made of, and the strip. */
export function askedFor(metrics: MetricInfo[], run: Run): string[] {
  const ids = new Set(metrics.map((m) => m.id));
  if (run.state === 'recording') for (const id of vitalLevels) if (run.metrics.includes(id)) ids.add(id);
  if (ids.has('kv_cache_usage')) ids.add('preemptions');
  if (run.metrics.includes('sleep_level')) ids.add('sleep_level');
  if (ids.size === 0) ids.add('running');
  return [...ids];
}

/** What makes an event the same one when it is read again. */
export const eventKey = (e: Pick<RunEvent, 'at' | 'endpoint' | 'w'> & { kind: string }) =>
  `${e.kind} ${e.at} ${e.endpoint} ${e.w}`;

/** Known events with newly read ones over them: a range that goes on has a later end. The same list: nothing changed. */
export function mergedEvents(known: RunEvent[], found: RunEvent[]): RunEvent[] {
  const merged = new Map(known.map((e) => [eventKey(e), e]));
  let changed = false;
  for (const e of found) {
    const before = merged.get(eventKey(e));
    if (before && before.until === e.until && before.count === e.count && before.detail === e.detail)
      continue;
    merged.set(eventKey(e), e);
    changed = true;
  }
  return changed ? [...merged.values()].sort((a, b) => a.at - b.at) : known;
}

/** Restarts that were some: what looked like one before several servers were found out was none. */
export function restartsOf(events: RunEvent[]): RunEvent[] {
  const several = new Set(events.filter((e) => e.kind === 'several-servers').map((e) => e.w));
  return events.filter((e) => e.kind === 'restart' && !several.has(e.w));
}
