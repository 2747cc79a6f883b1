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
export const SCALARS_VERSION = 4;

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

/** What is kept of steps: of each metric one block, in which every array of its series has one value a step. */
export interface KeptScalars {
  source: StepSource;
  steps: readonly Step[];
  blocks: ReadonlyMap<string, Float64Array>;
  /** By step: whether its numbers are there. */
  there: readonly boolean[];
}

export function readKept(
  run: RunFile,
  source: StepSource,
  steps: readonly Step[],
  ids: readonly string[],
): KeptScalars {
  for (const id of ids)
    if (!findMetric(id)) throw new EngineError('not-found', `No metric is called "${id}".`);
  const fleets = new Array<Float64Array | undefined>(steps.length).fill(undefined);
  const placeOf = placesOf(steps);
  for (const row of run.all<StoredScalars>(
    'SELECT n, began, ended, fleet FROM scalar WHERE source = :source AND n BETWEEN :first AND :last',
    { source, ...spanOf(steps) },
  )) {
    const i = placeOf.get(row.n);
    if (i !== undefined && isOf(steps[i]!, row.began, row.ended)) fleets[i] = floats(row.fleet);
  }
  const blocks = new Map<string, Float64Array>();
  for (const id of ids) {
    const block = new Float64Array(columnCount(id) * steps.length).fill(NaN);
    const columns = columnsOf(seriesOver(id, block, steps.length));
    for (const [i, fleet] of fleets.entries())
      if (fleet) for (const { array, place } of columns) array[i] = fleet[place]!;
    blocks.set(id, block);
  }
  return { source, steps, blocks, there: fleets.map((fleet) => fleet !== undefined) };
}

/** What a run file tells. */
export type FoundScalars = Omit<Scalars, 'stopped'>;

const placesOf = (steps: readonly Step[]) => new Map(steps.map((s, i) => [s.n, i]));
const spanOf = (steps: readonly Step[]) => ({ first: steps[0]?.n ?? 0, last: steps.at(-1)?.n ?? -1 });
const isOf = (step: Step, began: number, ended: number) =>
  step.from === began && (step.to === null || step.to === ended);

/** What is kept of some of its metrics, with `fresh` steps that are not kept, as arrays in the order of the steps. */
export function readScalars(
  run: RunFile,
  kept: KeptScalars,
  ids: readonly string[],
  workers: readonly number[],
  fresh: readonly PackedScalars[],
): FoundScalars {
  const { source, steps } = kept;
  const placeOf = placesOf(steps);
  const there = [...kept.there];
  const series = ids.map((id) => {
    const block = kept.blocks.get(id);
    if (!block) throw new EngineError('not-found', `No metric is called "${id}".`);
    return seriesOver(id, block.slice(), steps.length);
  });
  for (const { n, began, ended, fleet } of fresh) {
    const i = placeOf.get(n);
    if (i === undefined || !isOf(steps[i]!, began, ended)) continue;
    there[i] = true;
    const values = floats(fleet);
    for (const one of series) for (const { array, place } of columnsOf(one)) array[i] = values[place]!;
  }
  if (workers.length > 0)
    for (const one of series) {
      one.each = eachOver(one.metric, workers, steps.length);
      for (const row of run.all<{ n: number; each: Uint8Array }>(
        'SELECT n, each FROM worker_scalar WHERE source = :source AND metric = :metric AND n BETWEEN :first AND :last',
        { source, metric: one.metric, ...spanOf(steps) },
      ))
        putEach(one.each, placeOf.get(row.n), floats(row.each));
      for (const p of fresh) {
        const each = p.each.find(([metric]) => metric === one.metric)?.[1];
        if (each) putEach(one.each, placeOf.get(p.n), floats(each));
      }
    }
  return { source, steps: [...steps], series, missing: there.filter((is) => !is).length };
}

/** The arrays of a series, each with the place of its value in a step's fleet; none for what it does not have. */
function columnsOf(series: ScalarSeries): { array: Float64Array; place: number }[] {
  const offset = metrics.findIndex((m) => m.id === series.metric) * FLEET;
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

/** Arrays of one length, one after the other in one block: hundreds of their own would take longer to hand over than to fill. */
function arraysIn(
  block: Float64Array,
  length: number,
): <Key extends string>(keys: readonly Key[]) => Record<Key, Float64Array> {
  let used = 0;
  return <Key extends string>(keys: readonly Key[]) =>
    Object.fromEntries(keys.map((key) => [key, block.subarray(used * length, ++used * length)])) as Record<
      Key,
      Float64Array
    >;
}

const hasDeltas = (id: string) => findMetric(id)?.kind === 'counter';
const hasRequests = (id: string) => findMetric(id)?.kind === 'histogram' && findMetric(id)?.unit === 's';

/** A series without workers whose arrays lie in a block of `columnCount` of them. */
function seriesOver(id: string, block: Float64Array, length: number): ScalarSeries {
  const of = arraysIn(block, length);
  return {
    metric: id,
    samples: of(aggregateKeys) satisfies StatisticArrays,
    workers: of(aggregateKeys),
    deltas: hasDeltas(id) ? of(deltaKeys) : null,
    requests: hasRequests(id) ? (of(requestKeys) satisfies RequestArrays) : null,
    ...of(['pooled', 'coverage', 'lowerBound']),
    each: [],
  };
}
const columnCount = (id: string) => columnsOf(seriesOver(id, new Float64Array(0), 0)).length;

function eachOver(id: string, workers: readonly number[], length: number): WorkerScalars[] {
  const deltas = hasDeltas(id);
  const own = eachKeys.length + (deltas ? deltaKeys.length : 0);
  const of = arraysIn(new Float64Array(own * workers.length * length).fill(NaN), length);
  return workers.map((w) => ({ w, ...of(eachKeys), deltas: deltas ? of(deltaKeys) : null }));
}
