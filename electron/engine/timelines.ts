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
  workers: number;
  intervalMs: number;
  timeoutMs: number;
  startedAt: number;
  /** Lets other calls in; throws `cancelled` where the asker took this one back. */
  breathe(): Promise<void>;
}

/** Rows that one statement may read at most before others are let in: about 50 ms. */
const ROWS_A_SLICE = 30_000;
/** Raw rows that a chart may cost; longer spans come from buckets. */
const RAW_ROWS = 60_000;

interface Grid {
  widthSeconds: number;
  times: Float64Array;
  workers: number;
}
interface RawRow {
  k: number;
  v: number | null;
  part: number | null;
  whole: number | null;
}

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
  const step = Math.max(10, Math.floor(ROWS_A_SLICE / Math.max(run.workers, 1)));
  for (let i = 0; i < ticks.length; i += step)
    slices.push({ first: ticks[i]!.t, last: ticks[Math.min(i + step, ticks.length) - 1]!.t });

  for (const slice of slices)
    for (const { k, at } of run.all<{ k: number; at: number }>(queries.answers, slice)) {
      const i = place(k);
      offsets[i] = at - grid.times[i % ticks.length]!;
    }
  const series: TimelineSeries[] = [];
  for (const metric of metrics) {
    const sql =
      metric.of.length === 2
        ? queries.ratioSamples(metric.of[0], metric.of[1])
        : metric.kind === 'gauge'
          ? queries.gaugeSamples(metric.of[0])
          : queries.counterSamples(metric.of[0]);
    const values = new Float32Array(size).fill(NaN);
    const parts = metric.of.length === 2 ? new Float64Array(size) : null;
    const wholes = metric.of.length === 2 ? new Float64Array(size) : null;
    for (const slice of slices) {
      await run.breathe();
      for (const row of run.all<RawRow>(sql, slice)) {
        const i = place(row.k);
        if (row.v !== null) values[i] = row.v;
        if (parts) parts[i] = row.part ?? 0;
        if (wholes) wholes[i] = row.whole ?? 0;
      }
    }
    series.push({
      metric: metric.id,
      values,
      min: null,
      max: null,
      average: average(grid, values, parts, wholes),
    });
  }
  return { ...grid, offsets, series };
}

/** Over workers at each place: pooled where parts and wholes are given, otherwise the plain mean. */
function average(
  { times, workers }: Grid,
  values: Float32Array,
  parts: Float64Array | null,
  wholes: Float64Array | null,
): Float32Array {
  const n = times.length;
  return Float32Array.from({ length: n }, (_, i) => {
    let sum = 0;
    let count = 0;
    for (let at = i; at < workers * n; at += n) {
      if (parts && wholes) {
        sum += parts[at]!;
        count += wholes[at]!;
      } else if (!Number.isNaN(values[at]!)) {
        sum += values[at]!;
        count++;
      }
    }
    return count > 0 ? sum / count : NaN;
  });
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
  for (const metric of metrics) {
    const of: Map<number, Bucket>[] = [];
    for (const column of metric.of) of.push(await buckets(run, column, width, firstBucket, until));
    const values = new Float32Array(size).fill(NaN);
    const single = metric.of.length === 1;
    const min = single ? new Float32Array(size).fill(NaN) : null;
    const max = single ? new Float32Array(size).fill(NaN) : null;
    const parts = single ? null : new Float64Array(size);
    const wholes = single ? null : new Float64Array(size);
    for (const [bucket, main] of of[0]!) {
      const whole = of[1]?.get(bucket);
      for (let w = 0; w < run.workers; w++) {
        const i = w * n + bucket - firstBucket;
        if (main.n[w]! > 0) offsets[i] = widthMs / 2;
        if (parts && wholes) {
          parts[i] = main.sum[w]!;
          wholes[i] = whole?.sum[w] ?? 0;
          if (wholes[i] > 0) values[i] = parts[i] / wholes[i];
        } else if (metric.kind === 'gauge') {
          if (main.n[w]! > 0) values[i] = main.sum[w]! / main.n[w]!;
        } else if (main.ms[w]! > 0) values[i] = (main.sum[w]! * 1000) / main.ms[w]!;
        if (min) min[i] = main.min[w]!;
        if (max) max[i] = main.max[w]!;
      }
    }
    series.push({ metric: metric.id, values, min, max, average: average(grid, values, parts, wholes) });
  }
  return { ...grid, offsets, series };
}

const rolledUntil = (run: RunFile, width: Width): number =>
  run.all<{ until: number }>(`SELECT until FROM rolled WHERE width = ${width}`)[0]?.until ?? 0;

/** Buckets [first, until) of a column, those that have samples: stored ones, the rest made from narrower ones or raw rows. */
async function buckets(
  run: RunFile,
  column: string,
  width: Width,
  first: number,
  until: number,
): Promise<Map<number, Bucket>> {
  const c = columnIndex(column);
  const found = new Map<number, Bucket>();
  const stored = Math.min(until, Math.max(first, rolledUntil(run, width)));
  if (stored > first) {
    const rows = run.all<PackedBucket>('SELECT * FROM vec WHERE id >= :from AND id < :until', {
      from: vecId(width, c, first),
      until: vecId(width, c, stored),
    });
    for (const row of rows) found.set(bucketOfId(row.id), unpack(row, run.workers));
    await run.breathe();
  }
  if (stored === until) return found;
  if (width === WIDTHS[0]) {
    for (const [b, bucket] of await fromRaw(run, column, stored, until)) found.set(b, bucket);
    return found;
  }
  const narrow = WIDTHS[WIDTHS.indexOf(width) - 1]!;
  const times = width / narrow;
  for (const [b, bucket] of await buckets(run, column, narrow, stored * times, until * times)) {
    const wide = Math.floor(b / times);
    const sum = found.get(wide) ?? emptyBucket(Math.max(run.workers, bucket.n.length));
    found.set(wide, sum);
    addBucket(sum, bucket);
  }
  return found;
}

interface BucketRow {
  b: number;
  w: number;
  n: number;
  ms: number;
  sum: number;
  min: number | null;
  max: number | null;
}

/** The narrowest buckets [first, until), straight from raw rows, in slices. */
async function fromRaw(
  run: RunFile,
  column: string,
  first: number,
  until: number,
): Promise<Map<number, Bucket>> {
  const widthMs = WIDTHS[0] * 1000;
  const origin = originOf(run.startedAt);
  const found = new Map<number, Bucket>();
  const rowsABucket = Math.max(1, (widthMs / run.intervalMs) * Math.max(run.workers, 1));
  const step = Math.max(1, Math.floor(ROWS_A_SLICE / rowsABucket));
  for (let from = first; from < until; from += step) {
    const to = Math.min(from + step, until);
    const slots = slotsOf(run, origin + from * widthMs, origin + to * widthMs);
    if (slots) {
      const rows = run.all<BucketRow>(queries.bucketsOf(column), {
        ...slots,
        origin,
        width: widthMs,
        from,
        until: to,
      });
      for (const row of rows) {
        const bucket = found.get(row.b) ?? emptyBucket(run.workers);
        found.set(row.b, bucket);
        bucket.n[row.w] = row.n;
        bucket.ms[row.w] = row.ms;
        bucket.sum[row.w] = row.sum;
        bucket.min[row.w] = row.min ?? NaN;
        bucket.max[row.w] = row.max ?? NaN;
      }
    }
    await run.breathe();
  }
  return found;
}

/** The slots whose samples may lie in [from, to): an answer can be as late as the time-out. */
export function slotsOf(run: RunFile, from: number, to: number): { first: number; last: number } | null {
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
  for (const column of rolledColumns) {
    if (!present.has(column)) continue;
    const c = columnIndex(column);
    for (const [b, bucket] of await buckets(run, column, width, first, until))
      made.push(pack(vecId(width, c, b), bucket));
  }
  return { until, buckets: made, more: until < settled };
}

/** Reset-aware increase of a counter over the whole run, all workers; null where the run has none of it. */
export async function totalOf(run: RunFile, column: string): Promise<number | null> {
  const last = run.all<{ at: number | null }>('SELECT max(at) AS at FROM sample')[0]?.at ?? null;
  if (last === null) return null;
  const width = WIDTHS.at(-1)!;
  const until = Math.floor((last - originOf(run.startedAt)) / (width * 1000)) + 1;
  const all = await buckets(run, column, width, 0, until);
  if (all.size === 0) return null;
  let total = 0;
  for (const { sum } of all.values()) for (const increase of sum) total += increase;
  return total;
}
