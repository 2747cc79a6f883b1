/**
 * The exact numbers of one metric over a window of one run, from raw rows. Percentiles never come from rollups.
 * All arithmetic is in queries.ts; this file asks in order and names what came.
 */
import type { Aggregate, MetricStatistics, StatisticsQuery, WorkerStatistics } from './api.ts';
import { findMetric, type Metric } from './catalogue.ts';
import { EngineError } from './errors.ts';
import * as queries from './queries.ts';
import { slotsOf, type RunFile } from './timelines.ts';

/** Made once a connection: where a statement leaves what the next one reads. */
export const temporaryTables = `
  CREATE TEMP TABLE own(n INTEGER, w INTEGER, a INTEGER, b INTEGER, lost INTEGER, PRIMARY KEY(n, w)) WITHOUT ROWID;
  CREATE TEMP TABLE measured(k INTEGER, w INTEGER, at INTEGER, value REAL, delta REAL, whole REAL, ms INTEGER, reset INTEGER);`;

/** Windows numbered over all calls, so that calls between which others come in keep their edges. */
let windows = 0;

interface PerWorker extends Aggregate {
  w: number;
  delta: number | null;
  whole: number | null;
  resets: number;
}

export async function statistics(run: RunFile, query: StatisticsQuery): Promise<MetricStatistics[]> {
  const { from, to } = query;
  if (!(to > from)) throw new EngineError('bad-input', 'Statistics need a span: to must be after from.');
  const n = ++windows;
  const makeEdges = () => run.all(queries.makeEdges, { n, windows: JSON.stringify([[from, to]]) });
  try {
    makeEdges();
    const lost = new Set(
      run.all<{ w: number }>('SELECT w FROM temp.own WHERE n = :n AND lost', { n }).map((r) => r.w),
    );
    const expected =
      run.all<{ n: number | null }>(queries.expectedSamples, { from, to, interval: run.intervalMs })[0]?.n ??
      0;
    const found: MetricStatistics[] = [];
    for (const id of query.metrics) {
      const metric = findMetric(id);
      if (!metric) throw new EngineError('not-found', `No metric is called "${id}".`);
      // no await between filling temp.measured and reading it: other calls use it too
      await run.breathe();
      // ... and where they are about many other files, this one's connection was let go, and its tables with it
      if (run.all('SELECT 1 FROM temp.own WHERE n = :n LIMIT 1', { n }).length === 0) makeEdges();
      found.push(ofMetric(run, metric, { n, from, to, expected, lost }));
    }
    return found;
  } finally {
    run.all('DELETE FROM temp.own WHERE n = :n', { n });
  }
}

interface Window {
  n: number;
  from: number;
  to: number;
  expected: number;
  lost: ReadonlySet<number>;
}

function ofMetric(run: RunFile, metric: Metric, { n, from, to, expected, lost }: Window): MetricStatistics {
  run.all('DELETE FROM temp.measured');
  if (metric.kind === 'gauge') {
    const slots = slotsOf(run, from, to);
    if (slots) run.all(queries.measureGauge(metric.of[0]), { ...slots, from, to });
  } else {
    const slots = run.all<{ first: number; last: number | null }>(queries.windowSlots, { n, from })[0];
    const sql =
      metric.of.length === 2
        ? queries.measureRatio(metric.of[0], metric.of[1])
        : queries.measureCounter(metric.of[0]);
    if (slots && slots.last !== null) run.all(sql, { ...slots, n });
  }
  const [rows = 0] = run
    .all<{ n: number }>(queries.coveredSamples, { from, to, gauge: Number(metric.kind === 'gauge') })
    .map((r) => r.n);
  const samples = run.all<Aggregate>(queries.overSamples)[0]!;
  const perWorker = new Map(run.all<PerWorker>(queries.overTime).map((r) => [r.w, r]));
  const isRatio = metric.of.length === 2;
  const counts = metric.kind !== 'gauge';
  const workers = run.all<{ w: number }>('SELECT w FROM worker ORDER BY w');
  const each = workers.map(({ w }): WorkerStatistics => {
    const r = perWorker.get(w);
    const whole = isRatio ? (r?.whole ?? null) : null;
    const part = isRatio ? (r?.delta ?? null) : null;
    return {
      w,
      mean: r?.mean ?? null,
      min: r?.min ?? null,
      max: r?.max ?? null,
      p50: r?.p50 ?? null,
      p95: r?.p95 ?? null,
      sum: counts && !isRatio ? (r?.delta ?? null) : null,
      n: r?.n ?? 0,
      delta: counts && !isRatio ? (r?.delta ?? null) : null,
      part,
      whole,
      ratio: part !== null && whole !== null && whole > 0 ? part / whole : null,
      resets: r?.resets ?? 0,
      lost: counts && lost.has(w),
    };
  });
  const values = each.map((e) => (isRatio ? e.ratio : counts ? e.delta : e.mean));
  const overWorkers = run.all<Aggregate>(queries.overWorkers, { values: JSON.stringify(values) })[0]!;
  const part = each.reduce((sum, e) => sum + (e.part ?? 0), 0);
  const whole = each.reduce((sum, e) => sum + (e.whole ?? 0), 0);
  return {
    metric: metric.id,
    samples: { ...samples, sum: counts && !isRatio ? samples.sum : null },
    workers: { ...overWorkers, sum: isRatio ? null : overWorkers.sum },
    pooled: isRatio && whole > 0 ? part / whole : null,
    coverage: expected > 0 ? Math.min(1, rows / expected) : null,
    lowerBound: counts && each.some((e) => e.resets > 0 || e.lost),
    each,
  };
}
