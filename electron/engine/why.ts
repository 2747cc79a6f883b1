/**
 * Why a number is what it is: the counters behind it, what is missing, whether it may be believed, what others would have
 * said, and its SQL. In the reading thread. The words are the page's and the command line's.
 */
import type { MetricStatistics, RunEvent, WorkerStatistics } from './api.ts';
import type { Population, Statistic, Step, Why, WhyColumn, WhyQuery, WhyWorker } from './api-steps.ts';
import { columns, findMetric, type Metric } from './catalogue.ts';
import { know, knownEdges } from './edge-queries.ts';
import { EngineError } from './errors.ts';
import * as queries from './queries.ts';
import { metricsOf } from './scalars.ts';
import { readSteps } from './step-reads.ts';
import { graceOf, statistics } from './statistics.ts';
import { slotsOf, type RunFile } from './timelines.ts';
import { readingsOf } from './why-readings.ts';
import { formulaOf, populationOf, sentenceOf, verdictOf } from './why-words.ts';
import { whySql } from './why-sql.ts';

/** A value and its time. */
type Point = { at: number; value: number } | null;

export async function why(run: RunFile, query: WhyQuery): Promise<Why> {
  const metric = findMetric(query.metric);
  if (!metric) throw new EngineError('not-found', `No metric is called "${query.metric}".`);
  refuse(metric, query);
  const { from, to, w } = query;
  const previous = query.step ? previousOf(readSteps(run, query.step.source).steps, query.step.n) : null;
  const [s] = await statistics(run, { run: '', metrics: [metric.id], from, to, previous });
  const stats = s!;
  if (w !== null && !stats.each.some((e) => e.w === w))
    throw new EngineError('not-found', `This run has no worker w${w}.`);
  const ends = edgesOf(run, from, to, previous);
  const each = w === null ? stats.each : stats.each.filter((e) => e.w === w);
  const workers = each
    .map((e) => whyWorker(run, metric, e, query.statistic, ends.get(e.w), { from, to }))
    .filter((x) => x.samples > 0 || x.columns.some((c) => c.end !== null));
  const known = run
    .all<{ w: number; goneAt: number | null; n: number }>(queries.expectedOfWorkers, {
      ...{ from, to, interval: run.intervalMs },
    })
    .filter((k) => w === null || k.w === w);
  const expected = known.reduce((sum, { n }) => sum + n, 0);
  const ofAll = stats.coverage === null ? stats.samples.n : Math.round(stats.coverage * expected);
  const samples = w === null ? ofAll : samplesOf(run, metric, w, { from, to });
  const recorded = metricsOf(run).includes(metric.id);
  const asked: Asked = {
    ...{ metric, query, stats, workers, samples, expected: Math.round(expected), recorded },
    absent: known.filter((k) => k.n > 0 && !workers.some((x) => x.w === k.w)).map((k) => `w${k.w}`),
    gone: new Set(known.filter((k) => k.goneAt !== null && k.goneAt <= to).map((k) => k.w)),
    // what a tenth of the window counted is no small part of it, even where an answer may only be late
    edgeMs: Math.max(2 * run.intervalMs, Math.min(graceOf(run), (to - from) / 10)),
  };
  const value = valueOf(stats, query.population, query.statistic, w);
  const slots = metric.kind === 'gauge' ? slotsOf(run, from, to) : slotsOfEdges(run, from, ends);
  return {
    value,
    atLeast: query.population === 'requests' && isAtLeast(stats, query.statistic),
    unit: unitOf(metric, query),
    sentence: sentenceOf(asked, value),
    formula: formulaOf(metric, query),
    population: populationOf(query, workers.length),
    workers,
    verdict: verdictOf(asked, value),
    samples,
    expected: Math.round(expected),
    missing: missingOf(run, from, to),
    readings: readingsOf(asked, run),
    sql: slots
      ? whySql(
          metric,
          { from, to, previous, grace: graceOf(run), ...slots },
          query.population,
          query.statistic,
          w,
        )
      : '-- nothing was recorded in this window',
  };
}

/** What a counter counted, or what its workers did, is no longer a second. */
function unitOf({ kind, unit }: Metric, { statistic, population }: WhyQuery): string {
  const counted = kind === 'counter' && (statistic === 'sum' || population === 'workers');
  return counted ? unit.replace(/^1\/s$/, 'count').replace(/\/s$/, '') : unit;
}

/** What the numbers are about; for words and readings. */
export interface Asked {
  metric: Metric;
  query: WhyQuery;
  stats: MetricStatistics;
  workers: WhyWorker[];
  samples: number;
  expected: number;
  /** Whether this run has any value of the metric. */
  recorded: boolean;
  /** Names of workers that were there and gave nothing. */
  absent: string[];
  /** Those that were taken away before the end. */
  gone: ReadonlySet<number>;
  /** Who is not heard for longer at an edge was silent there. */
  edgeMs: number;
}

/** Answers of one worker in the window that had the metric. */
function samplesOf(run: RunFile, metric: Metric, w: number, window: { from: number; to: number }): number {
  const slots = slotsOf(run, window.from, window.to);
  const one = slots && run.rows(queries.coveredSamples([metric], 'one'), { ...slots, ...window, w })[0];
  return one?.[0] ?? 0;
}

function refuse(metric: Metric, { population, statistic, w, from, to }: WhyQuery): void {
  const bad = (message: string) => new EngineError('bad-input', message);
  if (!(to > from)) throw bad('A number is about a span: to must be after from.');
  if (population === 'time' && w === null)
    throw bad('Over time is over the samples of one worker: say which.');
  if (population !== 'time' && population !== 'pooled' && w !== null)
    throw bad(`Of one worker there are its samples (over time), not ${populationNames[population]}.`);
  if (population === 'requests') {
    if (!['p50', 'p95', 'p99'].includes(statistic)) throw bad('Over requests there are p50, p95 and p99.');
    if (metric.kind !== 'histogram')
      throw bad(`${metric.title} is no latency: it has no requests to be over.`);
  } else if (statistic === 'p99') throw bad('p99 is told over requests only.');
  if (statistic === 'pooled' && metric.of.length !== 2)
    throw bad(`${metric.title} has no parts and wholes that could be pooled.`);
  const adds = metric.kind === 'counter' || (metric.kind === 'gauge' && population === 'workers');
  if (statistic === 'sum' && !adds) throw bad(`${metric.title} is no counter: its values do not add up.`);
}

const populationNames = {
  samples: 'samples of all workers',
  workers: 'one value a worker',
  requests: 'requests: their histograms are told of all workers together',
} as const;

function previousOf(steps: readonly Step[], n: number): { from: number; to: number } | null {
  const before = steps.find((s) => s.n === n - 1);
  return before?.to ? { from: before.from, to: before.to } : null;
}

export function valueOf(
  stats: MetricStatistics,
  population: Population,
  statistic: Statistic,
  w: number | null,
): number | null {
  const own = w === null ? null : stats.each.find((e) => e.w === w);
  if (statistic === 'pooled') return own ? own.ratio : w === null ? stats.pooled : null;
  if (population === 'requests')
    return statistic === 'p50' || statistic === 'p95' || statistic === 'p99'
      ? (stats.requests?.[statistic] ?? null)
      : null;
  if (statistic === 'p99') return null;
  if (w !== null) return own?.[statistic] ?? null;
  return population === 'workers' ? stats.workers[statistic] : stats.samples[statistic];
}

function isAtLeast(stats: MetricStatistics, statistic: Statistic): boolean {
  return (
    (statistic === 'p50' || statistic === 'p95' || statistic === 'p99') &&
    stats.requests?.atLeast[statistic] === true
  );
}

interface Edges {
  a: number;
  b: number;
}

function edgesOf(
  run: RunFile,
  from: number,
  to: number,
  previous: { from: number; to: number } | null,
): Map<number, Edges> {
  const windows = [...(previous ? [[previous.from, previous.to]] : []), [from, to]];
  run.all(know);
  return new Map(
    run
      .all<{ n: number; w: number; a: number; b: number }>(knownEdges, {
        ...{ n: 0, windows: JSON.stringify(windows), grace: graceOf(run) },
      })
      .filter((r) => r.n === windows.length - 1)
      .map(({ w, a, b }) => [w, { a, b }]),
  );
}

function slotsOfEdges(run: RunFile, from: number, ends: Map<number, Edges>) {
  const last = Math.max(...[...ends.values()].filter((e) => e.b > e.a).map((e) => Math.floor(e.b / 4096)));
  const first = run.all<{ before: number | null }>(queries.slotAt, { at: from })[0]?.before ?? 0;
  return Number.isFinite(last) ? { first, last } : null;
}

function whyWorker(
  run: RunFile,
  metric: Metric,
  s: WorkerStatistics,
  statistic: Statistic,
  edges: Edges | undefined,
  window: { from: number; to: number },
): WhyWorker {
  const deltas = metric.of.length === 2 ? [s.part, s.whole] : [s.delta];
  const own = metric.kind === 'gauge' ? s.mean : metric.of.length === 2 ? s.ratio : s.delta;
  return {
    w: s.w,
    value: statistic === 'p99' || statistic === 'pooled' || statistic === 'sum' ? own : (s[statistic] ?? own),
    columns: metric.of.map((id, i): WhyColumn => {
      const [start, end] =
        metric.kind === 'gauge' ? gaugeEnds(run, id, s.w, window) : counterEnds(run, id, edges);
      return {
        name: nameOf(id),
        start,
        end,
        delta: metric.kind === 'gauge' ? null : (deltas[i] ?? null),
        resets: s.resets,
      };
    }),
    samples: s.n,
    lost: s.lost,
  };
}

/** The newest name in /metrics, as PromQL writes it without what every counter ends with. */
const nameOf = (id: string) => (columns.find((c) => c.id === id)?.names[0] ?? id).replace(/_total$/, '');

function counterEnds(run: RunFile, column: string, edges: Edges | undefined): [Point, Point] {
  if (!edges || edges.b < 0 || edges.b <= edges.a) return [null, null];
  const point = (k: number): Point =>
    k < 0 ? null : (run.all<{ at: number; value: number }>(queries.valueAt(column), { k })[0] ?? null);
  return [point(edges.a), point(edges.b)];
}

function gaugeEnds(
  run: RunFile,
  column: string,
  w: number,
  { from, to }: { from: number; to: number },
): [Point, Point] {
  const slots = slotsOf(run, from, to);
  if (!slots) return [null, null];
  const rows = run.all<{ at: number; value: number }>(queries.valuesOfWorker(column), {
    ...slots,
    from,
    to,
    w,
  });
  return [rows[0] ?? null, rows.at(-1) ?? null];
}

/** Longest first. */
function missingOf(run: RunFile, from: number, to: number): Why['missing'] {
  return run
    .all<RunEvent>(queries.events, { from, to })
    .filter((e) => e.kind === 'outage')
    .map((e) => ({
      endpoint: e.endpoint ?? '',
      from: Math.max(from, e.at),
      to: Math.min(to, e.until ?? to),
      count: e.count,
      detail: e.detail,
    }))
    .sort((a, b) => b.to - b.from - (a.to - a.from) || a.from - b.from);
}
