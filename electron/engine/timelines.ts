/**
 * Chart data out of one run file: raw where the span is short, rolled-up buckets where it is long, and the making of
 * those buckets. Puts rows into float arrays; the numbers come from queries.ts.
 */
import type { TimelineQuery, Timelines, TimelineSeries } from './api.ts';
import { columnIndex, findMetric, rolledColumns, type Metric } from './catalogue.ts';
import { EngineError } from './errors.ts';
import * as queries from './queries.ts';
import { WORKERS_MAX } from './schema.ts';
import type { PackedBucket } from './store.ts';
import {
  addBucket,
  bucketOfId,
  emptyBucket,
  pack,
  unpack,
  vecId,
  WIDTHS,
  type Bucket,
  type Width,
} from './vectors.ts';

/** One open run file, as reader.ts gives it: rows of a statement, prepared once. */
export interface RunFile {
  all<Row>(sql: string, params?: Record<string, unknown>): Row[];
  /** The same as arrays of numbers, for many rows. */
  rows(sql: string, params: Record<string, unknown>): (number | null)[][];
  workers: number;
  intervalMs: number;
  timeoutMs: number;
  startedAt: number;
  /** Made once and given again while the file stays as it is. Only of the file asked last; to be read only. */
  memo<Value>(key: string, make: () => Value): Value;
  /** Lets other calls in; throws `cancelled` where the asker took this one back. */
  breathe(): Promise<void>;
}

/** Values that one statement may give or add up before others are let in: tens of ms, and little garbage. */
const VALUES_A_SLICE = 200_000;
/** Raw rows that a chart may cost; longer spans come from buckets. */
const RAW_ROWS = 60_000;

/** The origin of a run's buckets: its start, cut to the widest one. */
export const originOf = (startedAt: number) => startedAt - (startedAt % (WIDTHS.at(-1)! * 1000));

export async function timelines(run: RunFile, query: TimelineQuery): Promise<Timelines> {
  const metrics = query.metrics.map((id) => {
    const metric = findMetric(id);
    if (!metric) throw new EngineError('not-found', `No metric is called "${id}".`);
    return metric;
  });
  if (!(query.to > query.from))
    throw new EngineError('bad-input', 'A timeline needs a span: to must be after from.');
  const slots = (query.to - query.from) / run.intervalMs;
  const points = Math.min(Math.max(query.points, 10), 10_000);
  if (slots <= 1.5 * points && slots * Math.max(run.workers, 1) <= RAW_ROWS) return raw(run, query, metrics);
  const width =
    WIDTHS.find((w) => w * 1000 >= run.intervalMs && (query.to - query.from) / (w * 1000) <= 1.5 * points) ??
    WIDTHS.at(-1)!;
  return bucketed(run, query, metrics, width);
}

async function raw(run: RunFile, { from, to }: TimelineQuery, metrics: Metric[]): Promise<Timelines> {
  const ticks = run.all<{ t: number; at: number }>(queries.ticksBetween, { from, to });
  const grid = { widthSeconds: 0, times: Float64Array.from(ticks, (tick) => tick.at), workers: run.workers };
  const size = run.workers * ticks.length;
  const offsets = new Float32Array(size).fill(NaN);
  const firstT = ticks[0]?.t ?? 0;
  const places = new Int32Array(ticks.length === 0 ? 0 : ticks.at(-1)!.t - firstT + 1).fill(-1);
  ticks.forEach((tick, i) => (places[tick.t - firstT] = i));
  /** Where a sample stands in a matrix. */
  const place = (k: number) =>
    (k % WORKERS_MAX) * ticks.length + places[Math.floor(k / WORKERS_MAX) - firstT]!;

  const slices: { first: number; last: number }[] = [];
  const columnsRead = 2 + metrics.reduce((n, m) => n + (m.of.length === 2 ? 3 : 1), 0);
  const step = Math.max(1, Math.floor(VALUES_A_SLICE / columnsRead / Math.max(run.workers, 1)));
  for (let i = 0; i < ticks.length; i += step)
    slices.push({ first: ticks[i]!.t, last: ticks[Math.min(i + step, ticks.length) - 1]!.t });

  const made = metrics.map((metric) => ({
    values: new Float32Array(size).fill(NaN),
    average: new Average(ticks.length),
    pooled: metric.of.length === 2,
  }));
  const sql = queries.samplesOf(metrics.map((m) => m.of));
  for (const slice of slices) {
    await run.breathe();
    for (const row of run.rows(sql, slice)) {
      const i = place(row[0]!);
      const column = i % ticks.length;
      offsets[i] = row[1]! - grid.times[column]!;
      let c = 2;
      for (const { values, average, pooled } of made) {
        const value = row[c++] ?? NaN;
        values[i] = value;
        if (pooled) average.add(column, row[c++] ?? 0, row[c++] ?? 0);
        else if (!Number.isNaN(value)) average.add(column, value, 1);
      }
    }
  }
  const series = made.map(({ values, average }, i): TimelineSeries => ({
    metric: metrics[i]!.id,
    values,
    min: null,
    max: null,
    average: average.result(),
  }));
  return { ...grid, offsets, series };
}

/** Over workers at each place: the plain mean (each with weight 1), or pooled (parts, weighed with their wholes). */
class Average {
  private readonly sums: Float64Array;
  private readonly weights: Float64Array;

  constructor(places: number) {
    this.sums = new Float64Array(places);
    this.weights = new Float64Array(places);
  }

  add(place: number, sum: number, weight: number): void {
    this.sums[place]! += sum;
    this.weights[place]! += weight;
  }

  /** NaN where nothing was added, or no whole moved. */
  result(): Float32Array {
    return Float32Array.from(this.sums, (sum, i) => (this.weights[i]! > 0 ? sum / this.weights[i]! : NaN));
  }
}

async function bucketed(
  run: RunFile,
  { from, to }: TimelineQuery,
  metrics: Metric[],
  width: Width,
): Promise<Timelines> {
  const widthMs = width * 1000;
  const origin = originOf(run.startedAt);
  const last = run.all<{ at: number | null }>('SELECT max(at) AS at FROM tick')[0]?.at ?? origin;
  const firstBucket = Math.max(0, Math.floor((from - origin) / widthMs));
  const until = Math.max(firstBucket, Math.floor((Math.min(to, last) - origin) / widthMs) + 1);
  const n = until - firstBucket;
  const size = run.workers * n;
  const grid = {
    widthSeconds: width,
    times: Float64Array.from({ length: n }, (_, i) => origin + (firstBucket + i) * widthMs),
    workers: run.workers,
  };
  const offsets = new Float32Array(size).fill(NaN);
  const series: TimelineSeries[] = [];
  const all = await buckets(
    run,
    [...new Set(metrics.flatMap((m) => m.of as string[]))],
    width,
    firstBucket,
    until,
  );
  for (const metric of metrics) {
    const of = metric.of.map((column) => all.get(column)!);
    const values = new Float32Array(size).fill(NaN);
    const isRatio = metric.of.length === 2;
    const min = isRatio ? null : new Float32Array(size).fill(NaN);
    const max = isRatio ? null : new Float32Array(size).fill(NaN);
    const average = new Average(n);
    for (const [bucket, main] of of[0]!) {
      const whole = of[1]?.get(bucket);
      const place = bucket - firstBucket;
      for (let w = 0; w < run.workers; w++) {
        const i = w * n + place;
        if (main.n[w]! > 0) offsets[i] = widthMs / 2;
        // part / whole, level, or rate
        const [sum, weight] = isRatio
          ? [main.sum[w]!, main.n[w]! > 0 ? (whole?.sum[w] ?? 0) : 0]
          : metric.kind === 'gauge'
            ? [main.sum[w]!, main.n[w]!]
            : [main.sum[w]! * 1000, main.ms[w]!];
        if (weight > 0) values[i] = sum / weight;
        if (isRatio) average.add(place, sum, weight);
        else if (weight > 0) average.add(place, sum / weight, 1);
        if (min) min[i] = main.min[w]!;
        if (max) max[i] = main.max[w]!;
      }
    }
    series.push({ metric: metric.id, values, min, max, average: average.result() });
  }
  return { ...grid, offsets, series };
}

const rolledUntil = (run: RunFile, width: Width): number =>
  run.all<{ until: number }>(`SELECT until FROM rolled WHERE width = ${width}`)[0]?.until ?? 0;

type Buckets = Map<string, Map<number, Bucket>>;

/**
 * Buckets [first, until) of some columns, those that have samples: stored ones, the rest made from narrower ones or
 * raw rows.
 */
export async function buckets(
  run: RunFile,
  ids: readonly string[],
  width: Width,
  first: number,
  until: number,
): Promise<Buckets> {
  const found: Buckets = new Map(ids.map((id) => [id, new Map<number, Bucket>()]));
  const stored = Math.min(until, Math.max(first, rolledUntil(run, width)));
  if (stored > first)
    for (const [id, of] of found) {
      const c = columnIndex(id);
      const rows = run.all<PackedBucket>('SELECT * FROM vec WHERE id >= :from AND id < :until', {
        from: vecId(width, c, first),
        until: vecId(width, c, stored),
      });
      for (const row of rows) of.set(bucketOfId(row.id), unpack(row, run.workers));
      await run.breathe();
    }
  if (stored === until || ids.length === 0) return found; // ... as in a run in which nobody answered
  if (width === WIDTHS[0]) {
    await addFromRaw(run, found, stored, until);
    return found;
  }
  const narrow = WIDTHS[WIDTHS.indexOf(width) - 1]!;
  const times = width / narrow;
  for (const [id, of] of await buckets(run, ids, narrow, stored * times, until * times))
    for (const [b, bucket] of of) {
      const wide = Math.floor(b / times);
      const sum = found.get(id)!.get(wide) ?? emptyBucket(Math.max(run.workers, bucket.n.length));
      found.get(id)!.set(wide, sum);
      addBucket(sum, bucket);
    }
  return found;
}

/** The narrowest buckets [first, until), straight from raw rows, in slices. */
async function addFromRaw(run: RunFile, found: Buckets, first: number, until: number): Promise<void> {
  const width = WIDTHS[0] * 1000;
  const origin = originOf(run.startedAt);
  const rowsABucket = Math.max(1, (width / run.intervalMs) * Math.max(run.workers, 1));
  const step = Math.max(1, Math.floor(VALUES_A_SLICE / found.size / rowsABucket));
  const sql = queries.bucketsOf([...found.keys()]);
  for (let b = first; b < until; b += step) {
    const [from, to] = [origin + b * width, origin + Math.min(b + step, until) * width];
    const slots = slotsOf(run, from, to);
    if (slots)
      for (const row of run.rows(sql, { ...slots, origin, width, from, until: to })) {
        const [place, w] = [row[0]!, row[1]!];
        let c = 2;
        for (const of of found.values()) {
          const [n, ms, sum, min, max] = [row[c++], row[c++], row[c++], row[c++], row[c++]];
          if (!n) continue;
          const bucket = of.get(place) ?? emptyBucket(run.workers);
          of.set(place, bucket);
          bucket.n[w] = n;
          bucket.ms[w] = ms ?? 0;
          bucket.sum[w] = sum ?? 0;
          bucket.min[w] = min ?? NaN;
          bucket.max[w] = max ?? NaN;
        }
      }
    await run.breathe();
  }
}

/** A range of slots, both included. */
export interface Slots {
  first: number;
  last: number;
}

/** The slots whose samples may lie in [from, to): an answer can be as late as the time-out. */
export function slotsOf(run: RunFile, from: number, to: number): Slots | null {
  const at = (time: number) =>
    run.all<{ before: number | null; after: number | null }>(queries.slotAt, { at: time })[0]!;
  const begin = at(from);
  const first = begin.before ?? begin.after;
  const last = at(to + run.timeoutMs).before;
  return first === null || last === null || last < first ? null : { first, last };
}

export interface RolledSlice {
  /** Buckets before this one are final. */
  until: number;
  buckets: PackedBucket[];
  /** There is more to roll up at this width. */
  more: boolean;
}

/**
 * The next buckets of one width that can be made for good: all of whose samples lie before `settledAt`. At most ten
 * minutes' worth a call. The wider ones are made from the stored narrower ones.
 */
export async function rollUp(run: RunFile, width: Width, settledAt: number): Promise<RolledSlice> {
  const first = rolledUntil(run, width);
  const narrow = width === WIDTHS[0] ? null : WIDTHS[WIDTHS.indexOf(width) - 1]!;
  const settled =
    narrow === null
      ? Math.floor((settledAt - originOf(run.startedAt)) / (width * 1000))
      : Math.floor((rolledUntil(run, narrow) * narrow) / width);
  const until = Math.min(settled, first + Math.max(1, 600 / width));
  if (until <= first) return { until: first, buckets: [], more: false };
  const present = new Set(
    run.all<{ metric: string }>('SELECT DISTINCT metric FROM series').map((r) => r.metric),
  );
  const made: PackedBucket[] = [];
  const ids = rolledColumns.filter((id) => present.has(id));
  for (const [id, of] of await buckets(run, ids, width, first, until))
    for (const [b, bucket] of of) made.push(pack(vecId(width, columnIndex(id), b), bucket));
  return { until, buckets: made, more: until < settled };
}

/** Reset-aware increase of a counter over the whole run, all workers; null where the run has none of it. */
export async function totalOf(run: RunFile, column: string): Promise<number | null> {
  // no sample of an earlier slot was answered after the last one began
  const last = run.all<{ at: number | null }>(
    `SELECT max(t.at, coalesce((SELECT max(at) FROM sample WHERE k >= t.t * ${WORKERS_MAX}), 0)) AS at
     FROM tick t ORDER BY t.t DESC LIMIT 1`,
  )[0]?.at;
  if (last === undefined || last === null) return null;
  const width = WIDTHS.at(-1)!;
  const until = Math.floor((last - originOf(run.startedAt)) / (width * 1000)) + 1;
  const all = (await buckets(run, [column], width, 0, until)).get(column)!;
  if (all.size === 0) return null;
  let total = 0;
  for (const { sum } of all.values()) for (const increase of sum) total += increase;
  return total;
}
