/**
 * Scalars: the numbers of a step, computed once it is over and kept, packed, in the run's file. How they are packed stands
 * here alone: `scalar.fleet` is a Float64 vector a step (metrics in the order of the catalogue, FLEET values each),
 * `worker_scalar.each` one a step and metric (workers in their order, EACH values each; a last one, `work`, by stragglers.ts). NaN: absent. Runs in the reading
 * thread.
 */
import type { Aggregate, MetricStatistics } from './api.ts';
import type {
  RequestArrays,
  Scalars,
  ScalarSeries,
  StatisticArrays,
  Step,
  StepSource,
  WorkerScalars,
} from './api-steps.ts';
import { findMetric, metrics } from './catalogue.ts';
import { EngineError } from './errors.ts';
import { statistics } from './statistics.ts';
import { packWork, WORK, workOf } from './stragglers.ts';
import type { PackedScalars, StoredStep } from './step-store.ts';
import type { RunFile } from './timelines.ts';

/** Of the formulas and of the packing; what another version made is made anew. */
export const SCALARS_VERSION = 3;

const aggregateKeys = ['mean', 'min', 'max', 'p50', 'p95', 'sum', 'n'] as const;
const requestKeys = ['p50', 'p95', 'p99', 'n', 'atLeast'] as const;
const deltaKeys = ['mean', 'min', 'max', 'p50', 'p95'] as const;
const eachKeys = ['mean', 'min', 'max', 'p50', 'p95', 'sum', 'pooled'] as const;
/** Over samples, over workers, over requests, of deltas, then pooled, coverage, lower bound. */
const FLEET = 2 * aggregateKeys.length + requestKeys.length + deltaKeys.length + 3;
/** Those of a worker, then of its deltas. */
const EACH = eachKeys.length + deltaKeys.length;

const number = (value: number | null | undefined) => value ?? NaN;

export interface ComputedScalars extends PackedScalars {
  /** A worker was lost in it: when that one answers again, the step's numbers are others. */
  lost: boolean;
}

/** One step's scalars of all metrics that the run has. `previous`: the step before it. */
export async function computeScalars(
  run: RunFile,
  step: StoredStep,
  previous: StoredStep | null,
): Promise<ComputedScalars> {
  const to = step.ended ?? lastAt(run);
  const packed = { n: step.n, began: step.began, ended: to };
  const has = metricsOf(run);
  const fleet = new Float64Array(metrics.length * FLEET).fill(NaN);
  const each: [string, Uint8Array][] = [];
  if (to <= step.began) return { ...packed, fleet: bytes(fleet), each, lost: true };
  const all = await statistics(run, {
    run: '',
    metrics: has,
    from: step.began,
    to,
    previous: previous?.ended ? { from: previous.began, to: previous.ended } : null,
  });
  for (const s of all) {
    fleet.set(fleetOf(s), metrics.findIndex((m) => m.id === s.metric) * FLEET);
    const values = new Float64Array(s.each.length * EACH);
    for (const [i, w] of s.each.entries())
      values.set(
        [w.mean, w.min, w.max, w.p50, w.p95, w.sum, w.ratio, ...deltaKeys.map((key) => w.deltas?.[key])].map(
          number,
        ),
        i * EACH,
      );
    each.push([s.metric, bytes(values)]);
  }
  each.push([WORK, bytes(packWork(workOf(run, step.began, to), run.workers))]);
  return { ...packed, fleet: bytes(fleet), each, lost: all.some((s) => s.each.some((w) => w.lost)) };
}

function fleetOf(s: MetricStatistics): number[] {
  const aggregate = (a: Aggregate) => aggregateKeys.map((key) => number(a[key]));
  const r = s.requests;
  const atLeast = r ? Number(r.atLeast.p50) + 2 * Number(r.atLeast.p95) + 4 * Number(r.atLeast.p99) : NaN;
  return [
    ...aggregate(s.samples),
    ...aggregate(s.workers),
    ...[r?.p50, r?.p95, r?.p99, r?.n].map(number),
    atLeast,
    ...deltaKeys.map((key) => number(s.deltas?.[key])),
    number(s.pooled),
    number(s.coverage),
    Number(s.lowerBound),
  ];
}

const bytes = (values: Float64Array) => new Uint8Array(values.buffer);

/** To be read only: a blob that lies well in its buffer is not copied. */
export function floats(blob: Uint8Array): Float64Array {
  const n = Math.floor(blob.byteLength / 8);
  return blob.byteOffset % 8 === 0
    ? new Float64Array(blob.buffer, blob.byteOffset, n)
    : new Float64Array(blob.slice().buffer, 0, n);
}

const lastAt = (run: RunFile) =>
  run.all<{ at: number | null }>('SELECT max(at) AS at FROM tick')[0]?.at ?? run.startedAt;

/** Metrics of the catalogue of which a run has values, in its order. */
export function metricsOf(run: RunFile): string[] {
  const seen = new Set(
    run.all<{ metric: string }>('SELECT DISTINCT metric FROM series').map((r) => r.metric),
  );
  return metrics.filter((m) => m.of.every((column) => seen.has(column))).map((m) => m.id);
}

export interface StoredScalars {
  n: number;
  began: number;
  ended: number;
  fleet: Uint8Array;
}

/** Steps whose scalars are not there, or are those of other edges; newest first. */
export function missingScalars(run: RunFile, source: StepSource): StoredStep[] {
  // two scans and not a join, which would look up each row
  const kept = keptEdges(run, source);
  return run
    .all<StoredStep>(
      'SELECT n, number, kind, began, ended FROM step WHERE source = :source AND ended IS NOT NULL ORDER BY n DESC',
      { source },
    )
    .filter((s) => !isKept(kept, s.n, s.began, s.ended));
}

/** Of steps whose scalars are kept: between which edges these were computed. */
export const keptEdges = (run: RunFile, source: StepSource) =>
  new Map(
    run
      .all<{ n: number; began: number; ended: number }>(
        'SELECT n, began, ended FROM scalar WHERE source = :source',
        { source },
      )
      .map((row) => [row.n, row]),
  );

export function isKept(
  kept: ReturnType<typeof keptEdges>,
  n: number,
  began: number,
  ended: number | null,
): boolean {
  const row = kept.get(n);
  return row?.began === began && row.ended === ended;
}

/** What is kept of all steps, with `fresh` ones that are not kept, as arrays in the order of `steps`. */
export function readScalars(
  run: RunFile,
  source: StepSource,
  steps: readonly Step[],
  ids: readonly string[],
  workers: readonly number[],
  fresh: readonly PackedScalars[],
): Scalars {
  for (const id of ids)
    if (!findMetric(id)) throw new EngineError('not-found', `No metric is called "${id}".`);
  const placeOf = new Map(steps.map((s, i) => [s.n, i]));
  const range = { source, first: steps[0]?.n ?? 0, last: steps.at(-1)?.n ?? -1 };
  const arrays = arraysOf(steps.length);
  const wanted = ids.map((id) => ({
    id,
    offset: metrics.findIndex((m) => m.id === id) * FLEET,
    series: emptySeries(id, arrays, workers),
  }));
  const fleets = new Array<Float64Array | undefined>(steps.length).fill(undefined);
  const put = (n: number, began: number, ended: number, fleet: Uint8Array) => {
    const i = placeOf.get(n);
    const step = i === undefined ? undefined : steps[i]!;
    if (i === undefined || step!.from !== began || (step!.to !== null && step!.to !== ended)) return;
    fleets[i] = floats(fleet);
  };
  for (const row of run.all<StoredScalars>(
    'SELECT n, began, ended, fleet FROM scalar WHERE source = :source AND n BETWEEN :first AND :last',
    range,
  ))
    put(row.n, row.began, row.ended, row.fleet);
  for (const p of fresh) put(p.n, p.began, p.ended, p.fleet);
  const columns = wanted.flatMap(({ offset, series }) => columnsOf(series, offset));
  for (const [i, fleet] of fleets.entries())
    if (fleet) for (const { array, place } of columns) array[i] = fleet[place]!;
  if (workers.length > 0)
    for (const { id, series } of wanted) {
      for (const row of run.all<{ n: number; each: Uint8Array }>(
        'SELECT n, each FROM worker_scalar WHERE source = :source AND metric = :metric AND n BETWEEN :first AND :last',
        { ...range, metric: id },
      ))
        putEach(series.each, placeOf.get(row.n), floats(row.each));
      for (const p of fresh) {
        const each = p.each.find(([metric]) => metric === id)?.[1];
        if (each) putEach(series.each, placeOf.get(p.n), floats(each));
      }
    }
  return {
    source,
    steps: [...steps],
    series: wanted.map((w) => w.series),
    missing: fleets.filter((fleet) => !fleet).length,
  };
}

/** The arrays of a series in the order of a fleet's values, from `offset` on; none for what it does not have. */
function columnsOf(series: ScalarSeries, offset: number): { array: Float64Array; place: number }[] {
  const { samples, workers, requests, deltas, pooled, coverage, lowerBound } = series;
  return [
    ...aggregateKeys.map((key) => samples[key]),
    ...aggregateKeys.map((key) => workers[key]),
    ...requestKeys.map((key) => requests?.[key]),
    ...deltaKeys.map((key) => deltas?.[key]),
    ...[pooled, coverage, lowerBound],
  ].flatMap((array, j) => (array ? [{ array, place: offset + j }] : []));
}

function putEach(all: readonly WorkerScalars[], i: number | undefined, each: Float64Array): void {
  if (i === undefined) return;
  // a worker that came later is not in it
  for (const own of all) {
    const { deltas } = own;
    const at = (place: number) => each[own.w * EACH + place] ?? NaN;
    eachKeys.forEach((key, j) => (own[key][i] = at(j)));
    if (deltas) deltaKeys.forEach((key, j) => (deltas[key][i] = at(eachKeys.length + j)));
  }
}

/**
 * Arrays of NaN of one length, many of them in one buffer: hundreds of buffers of their own would take longer on their way
 * to another thread than to fill.
 */
function arraysOf(length: number): () => Float64Array {
  const AT_ONCE = 64;
  let block = new Float64Array(0);
  let used = 0;
  return () => {
    if (used + length > block.length) {
      block = new Float64Array(AT_ONCE * length).fill(NaN);
      used = 0;
    }
    used += length;
    return block.subarray(used - length, used);
  };
}

function emptySeries(id: string, empty: () => Float64Array, workers: readonly number[]): ScalarSeries {
  const of = <Key extends string>(keys: readonly Key[]) =>
    Object.fromEntries(keys.map((key) => [key, empty()])) as Record<Key, Float64Array>;
  const metric = findMetric(id)!;
  const deltas = () => (metric.kind === 'counter' ? of(deltaKeys) : null);
  return {
    metric: id,
    samples: of(aggregateKeys) satisfies StatisticArrays,
    workers: of(aggregateKeys),
    deltas: deltas(),
    requests:
      metric.kind === 'histogram' && metric.unit === 's' ? (of(requestKeys) satisfies RequestArrays) : null,
    pooled: empty(),
    coverage: empty(),
    lowerBound: empty(),
    each: workers.map((w) => ({ w, ...of(eachKeys), deltas: deltas() })),
  };
}
