/**
 * Workers as rows of the table: what each column shows, why a value is absent, how rows are sorted, and which row is
 * which where they are too low for their names. Pure; asks the engine nothing.
 */
import type {
  MetricInfo,
  MetricStatistics,
  Run,
  RunEvent,
  Stragglers,
  WorkerStatistics,
} from '../electron/engine/api.ts';
import { absent, count, many, percent, plain, value } from './format.ts';
import { needsTraffic } from './scene.ts';
import { tooLong } from './window-numbers.ts';

/** `usual`: each kind's own number: mean of a level, delta of a counter, pooled ratio. The others are over samples. */
export type Shown = 'usual' | 'mean' | 'min' | 'max' | 'p50' | 'p95';

export const shownNames: Record<Shown, string> = {
  usual: 'mean, delta',
  mean: 'mean',
  min: 'min',
  max: 'max',
  p50: 'p50',
  p95: 'p95',
};

/** The metrics of the table, in its order, as its heads call them. */
export const tableMetrics: readonly { id: string; title: string; short: string }[] = [
  { id: 'running', title: 'Running', short: 'Running' },
  { id: 'kv_cache_usage', title: 'KV used', short: 'KV used' },
  { id: 'prefix_cache_hit_rate', title: 'Hit rate', short: 'Hit rate' },
  { id: 'generation_tokens', title: 'Gen. tok', short: 'Gen. tok' },
  { id: 'preemptions', title: 'Preemptions', short: 'Preempt.' },
];

/** `name`, `endpoint`, `last`, `idle`, or the id of a metric. */
export type ColumnId = string;

/** Which way a column is sorted first: who ended last has waited least, so the least idle stand on top. */
export const downFirst = (column: ColumnId) => !['name', 'endpoint', 'idle'].includes(column);

export interface Cell {
  /** null: absent, and sorted to the end. */
  value: number | null;
  text: string;
  /** Why it is absent, or what it is. */
  title: string;
}

export interface WorkerRow {
  w: number;
  name: string;
  endpoint: string;
  /** It restarted in the window. */
  restarted: boolean;
  last: Cell;
  idle: Cell;
  metrics: Map<string, Cell>;
}

/** Under the title of a column: what its numbers are. */
export function populationOf(info: MetricInfo, shown: Shown): string {
  if (shown !== 'usual') return info.kind === 'counter' ? `${shown}, /s` : shown;
  if (needsTraffic(info)) return 'pooled';
  return info.kind === 'counter' ? 'delta' : 'mean';
}

export function numberOf(info: MetricInfo, of: WorkerStatistics, shown: Shown): number | null {
  if (shown !== 'usual') return of[shown];
  if (needsTraffic(info)) return of.ratio;
  return info.kind === 'counter' ? of.delta : of.mean;
}

const lowerBound = (of: WorkerStatistics) => of.resets > 0 || of.lost;

function cellOf(info: MetricInfo, s: MetricStatistics | undefined, w: number, run: Run, shown: Shown): Cell {
  const none = (title: string): Cell => ({ value: null, text: absent, title });
  if (!s) return none('Not read yet.');
  if (run.metrics.length > 0 && !run.metrics.includes(info.id)) return none('Not there yet.');
  const of = s.each.find((each) => each.w === w);
  const v = of ? numberOf(info, of, shown) : null;
  if (!of || v === null) {
    if (run.workerList[w]?.several && info.kind !== 'gauge')
      return none('Several servers answer in its name.');
    if (of && s.bucketSeconds > 0 && shown !== 'usual') return none(tooLong);
    return none(needsTraffic(info) ? 'No traffic.' : 'No answer.');
  }
  if (info.kind !== 'counter' || shown !== 'usual') return { value: v, text: value(info.unit, v), title: '' };
  return lowerBound(of)
    ? { value: v, text: `≥ ${count(v)}`, title: 'It restarted or was lost: at least this.' }
    : { value: v, text: count(v), title: '' };
}

/** The part of an address that tells endpoints apart: the port, the host, or both; and the engine where there are several. */
export function shortEndpoints(run: Run): string[] {
  const urls = run.workerList.map((worker) => URL.parse(worker.endpoint));
  const same = (part: (url: URL | null) => string | undefined) => new Set(urls.map(part)).size === 1;
  const [oneHost, onePort] = [same((u) => u?.hostname), same((u) => u?.port)];
  const behind = new Map<string, number>();
  for (const { endpoint } of run.workerList) behind.set(endpoint, (behind.get(endpoint) ?? 0) + 1);
  return run.workerList.map((worker, i) => {
    const url = urls[i];
    const host = url
      ? oneHost && url.port
        ? `:${url.port}`
        : onePort
          ? url.hostname
          : url.host
      : worker.endpoint;
    const several = (behind.get(worker.endpoint) ?? 0) > 1;
    return plain(several ? `${host} e${worker.engine}` : host);
  });
}

export interface Head {
  id: ColumnId;
  title: string;
  /** A second line: what its numbers are. */
  under: string;
  about: string;
}

const ownHeads: readonly Head[] = [
  { id: 'name', title: 'Worker', under: '', about: 'By number' },
  { id: 'endpoint', title: 'Endpoint', under: '', about: 'Its address, and its engine' },
  {
    id: 'last',
    title: 'Ended last',
    under: '',
    about: 'Steps in which it ended last, or within an interval of the last',
  },
  { id: 'idle', title: 'Idle s', under: 'others busy', about: 'Seconds without work while others worked' },
];

export const headsOf = (infos: readonly MetricInfo[], shown: Shown): Head[] => [
  ...ownHeads,
  ...tableMetrics.flatMap(({ id, title, short }) => {
    const info = infos.find((m) => m.id === id);
    return info
      ? [{ id, title: short, under: populationOf(info, shown), about: `${title}. ${info.about}` }]
      : [];
  }),
];

/** Of the columns behind name and endpoint, in their order. */
export const cellsOf = (row: WorkerRow): [ColumnId, Cell][] => [
  ['last', row.last],
  ['idle', row.idle],
  ...row.metrics,
];

export interface Facts {
  run: Run;
  statistics: ReadonlyMap<string, MetricStatistics>;
  /** null: not read yet. */
  stragglers: Stragglers | null;
  /** Restarts in the window. */
  restarts: readonly RunEvent[];
  /** Of the table's metrics. */
  catalogue: readonly MetricInfo[];
  shown: Shown;
}

/** In the order of their numbers. */
export function rowsOf(f: Facts): WorkerRow[] {
  const endpoints = shortEndpoints(f.run);
  const restarted = new Set(f.restarts.map((e) => e.w));
  const works = new Map(f.stragglers?.workers.map((work) => [work.w, work]));
  const infos = tableMetrics.flatMap(({ id }) => f.catalogue.find((m) => m.id === id) ?? []);
  const why = f.stragglers === null ? 'Not read yet.' : 'It had nothing to do in these steps.';
  return f.run.workerList.map(({ w, name }, i) => {
    const work = works.get(w);
    const worked = work !== undefined && work.steps > 0 ? work : undefined;
    return {
      w,
      name: plain(name),
      endpoint: endpoints[i] ?? '',
      restarted: restarted.has(w),
      last: worked
        ? {
            value: worked.endedLast,
            text: worked.endedLast > 0 ? `${worked.endedLast} of ${worked.steps}` : '0',
            title: '',
          }
        : { value: null, text: absent, title: why },
      idle: work
        ? { value: work.idleSeconds, text: count(Math.round(work.idleSeconds)), title: '' }
        : { value: null, text: absent, title: why },
      metrics: new Map(
        infos.map((info) => [info.id, cellOf(info, f.statistics.get(info.id), w, f.run, f.shown)]),
      ),
    };
  });
}

/** Absent values stand at the end either way; equal ones in the order of their numbers. */
export function sorted(rows: readonly WorkerRow[], column: ColumnId, down: boolean): WorkerRow[] {
  const sign = down ? -1 : 1;
  const numberIn = (row: WorkerRow): number | null => {
    if (column === 'name') return row.w;
    if (column === 'last') return row.last.value;
    if (column === 'idle') return row.idle.value;
    return row.metrics.get(column)?.value ?? null;
  };
  return rows.toSorted((a, b) => {
    if (column === 'endpoint')
      return sign * a.endpoint.localeCompare(b.endpoint, 'en', { numeric: true }) || a.w - b.w;
    const [x, y] = [numberIn(a), numberIn(b)];
    if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0) || a.w - b.w;
    return sign * (x - y) || a.w - b.w;
  });
}

/**
 * Places in the list whose rows have room for a name where rows are lower than that: the wanted ones first, then from
 * the top down. `height` is a row's, `apart` the least distance of two names, both in pixels.
 */
export function namedPlaces(n: number, height: number, apart: number, wanted: readonly number[]): number[] {
  if (height >= apart) return Array.from({ length: n }, (_, i) => i);
  const reach = Math.ceil(apart / height);
  const taken = new Uint8Array(n);
  const chosen: number[] = [];
  const take = (i: number) => {
    if (i < 0 || i >= n || taken[i]) return;
    chosen.push(i);
    taken.fill(1, Math.max(0, i - reach + 1), Math.min(n, i + reach));
  };
  wanted.forEach(take);
  // at the ends of the list a name would stand out of it
  const edge = Math.max(0, Math.ceil(apart / 2 / height - 0.5));
  for (let i = edge; i < n - edge; i++) take(i);
  return chosen.sort((a, b) => a - b);
}

// ---------------------------------------------------------------- the reading in words

export interface Outlier {
  w: number;
  value: number;
  median: number;
}

const middleOf = (sortedList: readonly number[]) => {
  const half = sortedList.length >> 1;
  const upper = sortedList[half] ?? NaN;
  return sortedList.length % 2 === 1 ? upper : (upper + (sortedList[half - 1] ?? NaN)) / 2;
};

/**
 * The worker farthest from the median, if it is farther than 3 times the median absolute deviation and than `least`
 * (docs/metrics.md, "Stragglers"); otherwise null.
 */
export function outlierOf(values: readonly { w: number; value: number }[], least: number): Outlier | null {
  const order = (list: number[]) => list.sort((a, b) => a - b);
  const median = middleOf(order(values.map((x) => x.value)));
  const deviation = middleOf(order(values.map((x) => Math.abs(x.value - median))));
  let far: { w: number; value: number } | null = null;
  for (const x of values) if (!far || Math.abs(x.value - median) > Math.abs(far.value - median)) far = x;
  if (!far) return null;
  const distance = Math.abs(far.value - median);
  return distance > 3 * deviation && distance >= least ? { ...far, median } : null;
}

/** One sentence of the reading: the workers it names, each a link, then what it says of them. */
export interface Said {
  key: 'last' | 'waited' | 'hit-rate' | 'restart';
  workers: number[];
  /** What is said of those that are named; further ones are counted in it. */
  text: string;
}

const named = 3;

function whoOf(workers: readonly number[]): { workers: number[]; more: string } {
  const more = workers.length - named;
  return { workers: workers.slice(0, named), more: more > 0 ? `and ${more} more ` : '' };
}

/** Who ended last most often, the surest first. Nobody where no step has ended. */
function lastMost({ steps, workers }: Stragglers): { workers: number[]; times: number } | null {
  const times = Math.max(0, ...workers.map((work) => work.endedLast));
  if (times === 0) return null;
  const strictly = (w: number) => steps.filter((step) => step.last === w).length;
  const most = workers
    .filter((work) => work.endedLast === times)
    .sort((a, b) => strictly(b.w) - strictly(a.w) || a.idleSeconds - b.idleSeconds);
  return { workers: most.map((work) => work.w), times };
}

/** `stepOf`: what people call the step at a time; null: it was between steps. `train`: the steps counted are train steps. */
export function readingOf(f: Facts, train: boolean, stepOf: (at: number) => number | null): Said[] {
  const said: Said[] = [];
  const { stragglers } = f;
  const last = stragglers && lastMost(stragglers);
  if (stragglers && stragglers.steps.length > 0) {
    const of = Math.max(0, ...stragglers.workers.map((work) => work.steps));
    const steps = many(of, train ? 'train step' : 'step');
    const { workers, more } = whoOf(last?.workers ?? []);
    said.push({
      key: 'last',
      workers,
      text: last
        ? `${more}ended last in ${last.times} of ${steps}`
        : `No worker ended long after the others in ${steps}`,
    });
    const waited = stragglers.workers.reduce((sum, work) => sum + work.idleSeconds, 0);
    said.push({
      key: 'waited',
      workers: [],
      text: `${last ? 'others' : 'they'} waited ${count(Math.round(waited))} worker-seconds in all`,
    });
  }
  const rates = f.statistics.get('prefix_cache_hit_rate')?.each ?? [];
  const outlier = outlierOf(
    rates.flatMap(({ w, ratio }) => (ratio === null ? [] : [{ w, value: ratio }])),
    0.05,
  );
  if (outlier)
    said.push({
      key: 'hit-rate',
      workers: [outlier.w],
      text: `hit rate ${percent(outlier.value)}, median ${percent(outlier.median)}`,
    });
  const again = f.restarts
    .flatMap((e) => (e.w === null ? [] : [{ w: e.w, at: e.at }]))
    .sort((a, b) => b.at - a.at || a.w - b.w);
  const newest = again[0];
  if (newest) {
    const { workers, more } = whoOf([...new Set(again.map((e) => e.w))]);
    const step = again.length === 1 ? stepOf(newest.at) : null;
    said.push({
      key: 'restart',
      workers,
      text: `${more}restarted${step === null ? '' : ` in step ${step}`}`,
    });
  }
  return said;
}
