/**
 * The exact numbers of one metric over a window of one run, from raw rows. Percentiles never come from rollups.
 * All arithmetic is in queries.ts; this file asks in order and names what came.
 */
import type { Aggregate, MetricStatistics, StatisticsQuery, WorkerStatistics } from './api.ts';
import { bucketSources, findMetric, type Metric } from './catalogue.ts';
import * as edges from './edge-queries.ts';
import { EngineError } from './errors.ts';
import * as queries from './queries.ts';
import { requestCounts, requestPercentiles, type RequestCounts } from './request-percentiles.ts';
import { buckets, originOf, slotsOf, type RunFile, type Slots } from './timelines.ts';
import { WIDTHS, type Width } from './vectors.ts';

/** Made once a connection: where a statement leaves what the next one reads. */
export const temporaryTables = `
  CREATE TEMP TABLE own(n INTEGER, w INTEGER, a INTEGER, b INTEGER, lost INTEGER, PRIMARY KEY(n, w)) WITHOUT ROWID;
  ${edges.reachTable};
  ${queries.measuredTable};`;

/** A metric with more samples than this in a window may come from buckets: raw, it would hold up others for too long. */
const COARSE_FROM = 50_000;
/** Samples x metrics that are measured in one go; others get their turn in between. */
const MEASURED_AT_ONCE = 200_000;
/** A bucket is at most this share of the window. */
const EDGE_SHARE = 0.01;

/** Windows numbered over all calls, so that calls between which others come in keep their edges. */
let windows = 0;

export async function statistics(run: RunFile, query: StatisticsQuery): Promise<MetricStatistics[]> {
  const { from, to } = query;
  const all = query.metrics.map(named);
  if (!(to > from)) throw new EngineError('bad-input', 'Statistics need a span: to must be after from.');
  if (query.coarse === true && ((to - from) / run.intervalMs) * run.workers > COARSE_FROM) {
    const found: MetricStatistics[] = [];
    for (const metric of all) found.push(await fromBuckets(run, metric, from, to));
    return found;
  }
  const before = query.previous ? [[query.previous.from, query.previous.to]] : [];
  const first = windows + 1;
  const n = (windows += before.length + 1);
  const makeEdges = () => {
    run.all(edges.know);
    const span = { n: first, windows: JSON.stringify([...before, [from, to]]) };
    run.all(edges.makeEdges, { ...span, grace: graceOf(run) });
  };
  try {
    makeEdges();
    const lost = new Set(
      run.all<{ w: number }>('SELECT w FROM temp.own WHERE n = :n AND lost', { n }).map((r) => r.w),
    );
    const expected =
      run.all<{ n: number | null }>(queries.expectedSamples, { from, to, interval: run.intervalMs })[0]?.n ??
      0;
    const found: MetricStatistics[] = [];
    let counted: RequestCounts | undefined;
    const inWindow = slotsOf(run, from, to);
    const slots = slotsOfWindow(run, n, from, inWindow);
    const requests = () => (counted ??= requestCounts(run, n, slots));
    const samples = Math.max(1, ((to - from) / run.intervalMs) * run.workers);
    // powers of two, so that there are few statements to prepare
    const atOnce = 2 ** Math.max(0, Math.floor(Math.log2(MEASURED_AT_ONCE / samples)));
    for (let i = 0; i < all.length; i += atOnce) {
      // no await between filling temp.measured and reading it: other calls use it too
      await run.breathe();
      // ... and where they are about many other files, this one's connection was let go, and its tables with it
      if (run.all('SELECT 1 FROM temp.own WHERE n = :n LIMIT 1', { n }).length === 0) makeEdges();
      found.push(
        ...ofMetrics(run, all.slice(i, i + atOnce), {
          n,
          from,
          to,
          expected,
          lost,
          slots,
          inWindow,
          requests,
        }),
      );
    }
    return found;
  } finally {
    run.all('DELETE FROM temp.own WHERE n BETWEEN :first AND :n', { first, n });
  }
}

/** Silent for longer, a worker is lost; in ms. Busy servers answer late. */
export const graceOf = ({ timeoutMs, intervalMs }: RunFile): number => timeoutMs + 2 * intervalMs;

function named(id: string): Metric {
  const metric = findMetric(id);
  if (!metric) throw new EngineError('not-found', `No metric is called "${id}".`);
  return metric;
}

interface Window {
  n: number;
  from: number;
  to: number;
  expected: number;
  lost: ReadonlySet<number>;
  /** Those that hold all samples in it and all that it owns. */
  slots: readonly Slots[];
  inWindow: Slots | null;
  /** What the histograms of all latencies counted in it. */
  requests: () => RequestCounts;
}

/** Of window n: one range, and a slot for each answer that came only after a long silence over the window's end. */
function slotsOfWindow(run: RunFile, n: number, from: number, inWindow: Slots | null): Slots[] {
  const owned = run.all<Slots & { far: number | null }>(edges.ownedSlots, { n, from });
  const first = Math.min(inWindow?.first ?? Infinity, ...owned.map((o) => o.first));
  const last = Math.max(inWindow?.last ?? -1, ...owned.map((o) => o.last));
  const far = new Set(owned.flatMap((o) => (o.far !== null && o.far > last ? [o.far] : [])));
  return [
    ...(last >= first ? [{ first, last }] : []),
    ...[...far].map((slot) => ({ first: slot, last: slot })),
  ];
}

function ofMetrics(run: RunFile, metrics: readonly Metric[], window: Window): MetricStatistics[] {
  const { n, from, to, slots, inWindow } = window;
  run.all('DELETE FROM temp.measured');
  for (const some of slots) run.all(queries.measure(metrics), { ...some, n, from, to });
  const samples = run.rows(queries.overSamples(metrics), {})[0]!;
  const perWorker = new Map(
    run.rows(queries.overTime(metrics), {}).map(([w, ...values]) => [w!, values] as const),
  );
  const covered = inWindow && run.rows(queries.coveredSamples(metrics), { ...inWindow, from, to })[0]!;
  const coverage = (i: number) => (window.expected > 0 ? (covered?.[i] ?? 0) / window.expected : null);
  const workers = workersOf(run);
  return metrics.map((metric, i) => {
    const each = workers.map((w): WorkerStatistics =>
      ofWorker(window, metric, w, measuredAt(perWorker.get(w), i)),
    );
    const { mean, min, max, p50, p95, n, delta, deltas } = measuredAt(samples, i);
    const ofSamples = { mean, min, max, p50, p95, n, sum: metric.of.length === 2 ? null : delta };
    return {
      ...overAll(run, metric, ofSamples, each, coverage(i)),
      deltas: metric.kind === 'counter' ? deltas : null,
      requests: isLatency(metric) ? requestPercentiles(window.requests(), metric.id) : null,
      bucketSeconds: 0,
      seconds: (to - from) / 1000,
    };
  });
}

/** A metric's numbers among those of `queries.overSamples` and `overTime`. */
function measuredAt(row: readonly (number | null)[] | undefined, i: number) {
  const at = (place: number) => row?.[i * queries.MEASURED_VALUES + place] ?? null;
  const [mean, min, max, p50, p95] = [at(0), at(1), at(2), at(3), at(4)];
  return {
    ...{ mean, min, max, p50, p95, n: at(5) ?? 0, delta: at(6), whole: at(7), resets: at(8) ?? 0 },
    deltas: { mean: at(9), min: at(10), max: at(11), p50: at(12), p95: at(13) },
  };
}

function ofWorker(
  window: Window,
  metric: Metric,
  w: number,
  measured: ReturnType<typeof measuredAt>,
): WorkerStatistics {
  const { delta, whole, deltas, ...rest } = measured;
  const isRatio = metric.of.length === 2;
  const counts = metric.kind !== 'gauge';
  return {
    w,
    ...rest,
    deltas: metric.kind === 'counter' ? deltas : null,
    sum: isRatio ? null : delta,
    delta: isRatio ? null : delta,
    part: isRatio ? delta : null,
    whole,
    ratio: isRatio && delta !== null && whole !== null && whole > 0 ? delta / whole : null,
    lost: counts && window.lost.has(w),
  };
}

const isLatency = ({ id }: Metric) => bucketSources.some(({ metric }) => metric === id);
const workersOf = (run: RunFile) => run.all<{ w: number }>('SELECT w FROM worker ORDER BY w').map((r) => r.w);

/** What follows from the numbers of each worker. */
function overAll(
  run: RunFile,
  metric: Metric,
  samples: Aggregate,
  each: WorkerStatistics[],
  coverage: number | null,
): Omit<MetricStatistics, 'deltas' | 'requests' | 'bucketSeconds' | 'seconds'> {
  const isRatio = metric.of.length === 2;
  const counts = metric.kind !== 'gauge';
  const values = each.map((e) => (isRatio ? e.ratio : counts ? e.delta : e.mean));
  const workers = run.all<Aggregate>(queries.overWorkers, { values: JSON.stringify(values) })[0]!;
  const part = each.reduce((sum, e) => sum + (e.part ?? 0), 0);
  const whole = each.reduce((sum, e) => sum + (e.whole ?? 0), 0);
  return {
    metric: metric.id,
    samples,
    workers: { ...workers, sum: isRatio ? null : workers.sum },
    pooled: isRatio && whole > 0 ? part / whole : null,
    coverage: coverage === null ? null : Math.min(1, coverage),
    // one that was lost before the window counted nothing in it: coverage tells of that
    lowerBound: counts && each.some((e) => e.resets > 0 || (e.lost && (e.delta ?? e.part) !== null)),
    each,
  };
}

/**
 * The same from rolled-up buckets that hold the window, for spans whose raw rows would take seconds. The mean of a
 * counter is over time and not over samples, ratios have pooled values only, and there are no percentiles.
 */
async function fromBuckets(
  run: RunFile,
  metric: Metric,
  from: number,
  to: number,
): Promise<MetricStatistics> {
  const origin = originOf(run.startedAt);
  const width: Width =
    WIDTHS.toReversed().find((w) => w * 1000 <= (to - from) * EDGE_SHARE && w * 1000 >= run.intervalMs) ??
    WIDTHS[0];
  const widthMs = width * 1000;
  const last = run.all<{ at: number | null }>('SELECT max(at) AS at FROM tick')[0]?.at ?? origin;
  const first = Math.max(0, Math.floor((from - origin) / widthMs));
  const until = Math.max(first, Math.ceil((Math.min(to, last + run.intervalMs) - origin) / widthMs));
  const all = await buckets(run, metric.of, width, first, until);
  const [mains, wholes] = metric.of.map((column) => all.get(column)!);
  const isRatio = metric.of.length === 2;
  const counts = metric.kind !== 'gauge';
  const span = {
    from: Math.max(origin + first * widthMs, run.startedAt),
    to: Math.min(origin + until * widthMs, last + run.intervalMs),
  };
  const restarts = new Map(
    run.all<{ w: number; n: number }>(queries.restartsOf, span).map((r) => [r.w, r.n]),
  );
  run.all(edges.know);
  const lost = new Set(run.all<{ w: number }>(edges.lostBy, { to, grace: graceOf(run) }).map(({ w }) => w));
  const totals = new Total();
  const each = workersOf(run).map((w): WorkerStatistics => {
    const own = new Total();
    let whole = 0;
    for (const [b, bucket] of mains!) {
      if ((bucket.n[w] ?? 0) === 0) continue;
      own.add(bucket.n[w]!, bucket.ms[w]!, bucket.sum[w]!, bucket.min[w]!, bucket.max[w]!);
      whole += wholes?.get(b)?.sum[w] ?? 0;
    }
    totals.add(own.n, own.ms, own.sum, own.min, own.max);
    const delta = counts && own.ms > 0 ? own.sum : null;
    return {
      w,
      ...own.aggregate(metric),
      deltas: null,
      delta: isRatio ? null : delta,
      part: isRatio ? delta : null,
      whole: isRatio && delta !== null ? whole : null,
      ratio: isRatio && whole > 0 ? own.sum / whole : null,
      resets: restarts.get(w) ?? 0,
      lost: counts && lost.has(w),
    };
  });
  const expected = run.all<{ n: number | null }>(queries.expectedSamples, {
    ...span,
    interval: run.intervalMs,
  })[0]?.n;
  const coverage = expected ? totals.n / expected : null;
  return {
    ...overAll(run, metric, totals.aggregate(metric), each, coverage),
    deltas: null,
    requests: null,
    bucketSeconds: width,
    seconds: (span.to - span.from) / 1000,
  };
}

/** Buckets added up. */
class Total {
  n = 0;
  ms = 0;
  sum = 0;
  min = Infinity;
  max = -Infinity;

  add(n: number, ms: number, sum: number, min: number, max: number): void {
    this.n += n;
    this.ms += ms;
    this.sum += sum;
    // NaN loses against a number
    if (min < this.min) this.min = min;
    if (max > this.max) this.max = max;
  }

  aggregate(metric: Metric): Aggregate {
    const isRatio = metric.of.length === 2;
    const [sum, weight] = metric.kind === 'gauge' ? [this.sum, this.n] : [this.sum * 1000, this.ms];
    return {
      mean: isRatio || weight === 0 ? null : sum / weight,
      min: isRatio || this.min === Infinity ? null : this.min,
      max: isRatio || this.max === -Infinity ? null : this.max,
      p50: null,
      p95: null,
      sum: metric.kind === 'counter' && this.ms > 0 ? this.sum : null,
      n: this.n,
    };
  }
}
