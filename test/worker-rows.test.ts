/** Workers as rows: what cells show and why they are absent, sorting, which names fit, outliers, the reading in words. */
import { describe, expect, test } from 'vitest';
import type {
  MetricInfo,
  MetricStatistics,
  Run,
  RunEvent,
  Stragglers,
  Worker,
  WorkerStatistics,
} from '../electron/engine/api.ts';
import { metrics } from '../electron/engine/catalogue.ts';
import { absent, thin } from '../renderer/format.ts';
import { choiceFrom } from '../renderer/worker-choice.ts';
import {
  namedPlaces,
  outlierOf,
  readingOf,
  rowsOf,
  shortEndpoints,
  sorted,
  type Facts,
} from '../renderer/worker-rows.ts';

const worker = (w: number, endpoint: string, engine = '0', more: Partial<Worker> = {}): Worker => ({
  w,
  name: `w${w}`,
  endpoint,
  engine,
  version: null,
  model: 'm',
  replica: '',
  labels: {},
  firstAt: 0,
  goneAt: null,
  several: false,
  ...more,
});
const catalogue = metrics as readonly MetricInfo[];
const ids = ['running', 'kv_cache_usage', 'prefix_cache_hit_rate', 'generation_tokens', 'preemptions'];
const url = (host: string, port = 8000) => `http://${host}:${port}/metrics`;
const workerList = [0, 1, 2, 3].map((w) => worker(w, url('gpu', 8000 + w)));
const run = { workerList, metrics: ids, intervalSeconds: 1 } as unknown as Run;

const none = { mean: null, min: null, max: null, p50: null, p95: null, sum: null, n: 0 };
const each = (w: number, of: Partial<WorkerStatistics>): WorkerStatistics => ({
  ...none,
  w,
  delta: null,
  part: null,
  whole: null,
  ratio: null,
  deltas: null,
  resets: 0,
  lost: false,
  ...of,
});
const statisticsOf = (metric: string, list: WorkerStatistics[], bucketSeconds = 0): MetricStatistics => ({
  metric,
  bucketSeconds,
  seconds: 60,
  samples: none,
  workers: none,
  pooled: null,
  deltas: null,
  requests: null,
  coverage: null,
  lowerBound: false,
  each: list,
});
const facts = (more: Partial<Facts> = {}): Facts => ({
  run,
  statistics: new Map(),
  stragglers: null,
  restarts: [],
  catalogue,
  shown: 'usual',
  ...more,
});
const work = (w: number, endedLast: number, steps: number, idleSeconds: number) => ({
  w,
  endedLast,
  steps,
  idleSeconds,
  busySeconds: 1,
});

describe('cells', () => {
  const statistics = new Map([
    ['running', statisticsOf('running', [each(0, { mean: 9.4, p95: 12 }), each(1, { mean: 2 })])],
    [
      'prefix_cache_hit_rate',
      statisticsOf('prefix_cache_hit_rate', [each(0, { ratio: 0.504, mean: 0.7 }), each(1, {})]),
    ],
    [
      'generation_tokens',
      statisticsOf('generation_tokens', [
        each(0, { delta: 225_000, mean: 1754 }),
        each(1, { delta: 9999, mean: 12, resets: 1 }),
      ]),
    ],
  ]);
  const cell = (f: Facts, w: number, metric: string) => {
    const { text, title } = rowsOf(f)[w]!.metrics.get(metric)!;
    return [text, title];
  };

  test('each kind has its own number: mean, pooled, delta; a restart makes it a lower bound', () => {
    const f = facts({ statistics });
    expect(cell(f, 0, 'running')).toEqual(['9.4', '']);
    expect(cell(f, 0, 'prefix_cache_hit_rate'), 'pooled, not the mean of samples').toEqual([
      `50.4${thin}%`,
      '',
    ]);
    expect(cell(f, 0, 'generation_tokens')).toEqual([`225${thin}k`, '']);
    expect(cell(f, 1, 'generation_tokens')[0]).toBe('≥ 9,999');
  });

  test('any other statistic is over samples: of a counter a rate', () => {
    const f = facts({ statistics, shown: 'mean' });
    expect(cell(f, 0, 'prefix_cache_hit_rate')[0]).toBe(`70.0${thin}%`);
    expect(cell(f, 0, 'generation_tokens')[0]).toBe('1,754');
    expect(cell(facts({ statistics, shown: 'p95' }), 0, 'running')[0]).toBe('12');
  });

  test('absent is a dash with its reason', () => {
    const f = facts({ statistics });
    expect(cell(f, 1, 'prefix_cache_hit_rate')).toEqual([absent, 'No traffic.']);
    expect(cell(f, 2, 'running')).toEqual([absent, 'No answer.']);
    expect(cell(f, 0, 'kv_cache_usage')).toEqual([absent, 'Not read yet.']);
    const coarse = new Map([['running', statisticsOf('running', [each(0, { mean: 1 })], 10)]]);
    expect(cell(facts({ statistics: coarse, shown: 'p95' }), 0, 'running')).toEqual([
      absent,
      'Exact only for shorter windows: zoom in.',
    ]);
    const lacks = { ...run, metrics: ['running'] };
    expect(cell(facts({ run: lacks, statistics }), 0, 'generation_tokens')[1]).toBe('Not there yet.');
    const several = [worker(0, url('lb'), '0', { several: true })];
    const behind = { ...run, workerList: several };
    const gone = new Map([['generation_tokens', statisticsOf('generation_tokens', [each(0, {})])]]);
    expect(cell(facts({ run: behind, statistics: gone }), 0, 'generation_tokens')[1]).toBe(
      'Several servers answer in its name.',
    );
  });

  test('who had no work has no place among the last', () => {
    const stragglers: Stragglers = {
      steps: [],
      workers: [work(0, 7, 7, 0), work(1, 0, 7, 49.4), work(2, 0, 0, 80)],
    };
    const rows = rowsOf(facts({ stragglers }));
    expect(rows.map((r) => [r.last.text, r.idle.text])).toEqual([
      ['7 of 7', '0'],
      ['0', '49'],
      [absent, '80'],
      [absent, absent],
    ]);
  });
});

test('endpoints are told apart by what differs', () => {
  const of = (...list: Worker[]) => shortEndpoints({ workerList: list } as Run);
  expect(of(worker(0, url('a', 1)), worker(1, url('a', 2)))).toEqual([':1', ':2']);
  expect(of(worker(0, url('a')), worker(1, url('b')))).toEqual(['a', 'b']);
  expect(of(worker(0, url('a', 1)), worker(1, url('b', 2)))).toEqual(['a:1', 'b:2']);
  expect(of(worker(0, url('a', 1), '0'), worker(1, url('a', 1), '1'), worker(2, url('a', 2)))).toEqual([
    ':1 e0',
    ':1 e1',
    ':2',
  ]);
  expect(of(worker(0, url('a', 1)), worker(1, 'http://x\u202ey:2/metrics'))[1]).not.toContain('\u202e');
});

test('sorting: absent at the end either way, equal ones by number', () => {
  const stragglers: Stragglers = {
    steps: [],
    workers: [work(0, 1, 7, 20), work(2, 1, 7, 10), work(3, 7, 7, 0)],
  };
  const rows = rowsOf(facts({ stragglers }));
  const by = (column: string, down: boolean) => sorted(rows, column, down).map((r) => r.w);
  expect(by('idle', false)).toEqual([3, 2, 0, 1]);
  expect(by('idle', true)).toEqual([0, 2, 3, 1]);
  expect(by('last', true)).toEqual([3, 0, 2, 1]);
  expect(by('name', true)).toEqual([3, 2, 1, 0]);
  expect(by('endpoint', false)).toEqual([0, 1, 2, 3]);
});

describe('names where rows are low', () => {
  test('all where they have room', () => expect(namedPlaces(3, 12, 12, [])).toEqual([0, 1, 2]));
  test('apart from each other, the wanted ones first', () => {
    expect(namedPlaces(11, 4, 12, [])).toEqual([1, 4, 7]);
    expect(namedPlaces(11, 4, 12, [5])).toEqual([1, 5, 8]);
    expect(namedPlaces(11, 4, 12, [5, 6]), 'the first wanted one wins').toEqual([1, 5, 8]);
    expect(namedPlaces(11, 4, 12, [0]), 'a wanted one at the end of the list too').toEqual([0, 3, 6, 9]);
  });
  test('512 rows of 1.4 px', () => {
    const places = namedPlaces(512, 1.4, 12, [300]);
    expect(places).toContain(300);
    expect(Math.min(...places.slice(1).map((p, i) => p - places[i]!)) * 1.4).toBeGreaterThanOrEqual(12);
    expect(places.length).toBeGreaterThan(50);
  });
});

describe('outliers', () => {
  const of = (...values: number[]) =>
    outlierOf(
      values.map((value, w) => ({ w, value })),
      0.05,
    );
  test('farther than 3 median absolute deviations and 5 points', () => {
    // median 0.80, deviations 0.30 0.02 0 0.01 0.02: their median 0.02
    expect(of(0.5, 0.78, 0.8, 0.81, 0.82)).toEqual({ w: 0, value: 0.5, median: 0.8 });
    expect(of(0.76, 0.799, 0.8, 0.801, 0.802), 'far by deviations, but only 4 points').toBeNull();
    // deviations 0.25 0.1 0 0.1 0.1: their median 0.1
    expect(of(0.55, 0.7, 0.8, 0.9, 0.9), '25 points, within 3 deviations').toBeNull();
    expect(of(0.45, 0.7, 0.8, 0.9, 0.9)?.w).toBe(0);
    expect(of(0.8, 0.8, 0.8, 0.9)?.w, 'all others are equal').toBe(3);
  });
  test('of one or two there is none', () => {
    expect([of(), of(0.5), of(0.2, 0.9)]).toEqual([null, null, null]);
  });
});

describe('the reading', () => {
  const restart = (at: number, w: number): RunEvent => ({
    at,
    until: null,
    kind: 'restart',
    endpoint: null,
    w,
    reason: null,
    count: 1,
    detail: '',
  });
  const rates = (...list: (number | null)[]) =>
    new Map([
      [
        'prefix_cache_hit_rate',
        statisticsOf(
          'prefix_cache_hit_rate',
          list.map((ratio, w) => each(w, { ratio })),
        ),
      ],
    ]);
  const step = (n: number, last: number) => ({ n, last, bySeconds: 3, idleSeconds: 10 });

  test('who ended last, what others waited, the hit rate that stands out, who restarted', () => {
    const f = facts({
      stragglers: {
        steps: [step(0, 3), step(1, 3)],
        workers: [work(0, 0, 2, 3000.4), work(1, 0, 2, 4902), work(2, 1, 2, 1), work(3, 2, 2, 0)],
      },
      statistics: rates(0.789, 0.504, 0.789, 0.79),
      restarts: [restart(1000, 2)],
    });
    expect(readingOf(f, true, (at) => (at === 1000 ? 17 : null)).map((s) => [s.workers, s.text])).toEqual([
      [[3], 'ended last in 2 of 2 train steps'],
      [[], 'others waited 7,903 worker-seconds in all'],
      [[1], `hit rate 50.4${thin}%, median 78.9${thin}%`],
      [[2], 'restarted in step 17'],
    ]);
  });

  test('several who ended last as often: the one that was the very last first', () => {
    const f = facts({
      stragglers: { steps: [step(0, 1), step(1, 1)], workers: [work(0, 2, 2, 0), work(1, 2, 2, 5)] },
    });
    expect(readingOf(f, false, () => null)[0]).toMatchObject({
      workers: [1, 0],
      text: 'ended last in 2 of 2 steps',
    });
  });

  test('nobody kept the others waiting', () => {
    const f = facts({ stragglers: { steps: [step(0, 1)], workers: [work(0, 0, 1, 0), work(1, 0, 1, 1)] } });
    expect(readingOf(f, true, () => null).map((s) => s.text)).toEqual([
      'No worker ended long after the others in 1 train step',
      'they waited 1 worker-seconds in all',
    ]);
  });

  test('many restarts: the newest three by name, no step', () => {
    const f = facts({ restarts: [restart(1, 0), restart(2, 1), restart(3, 2), restart(3, 3)] });
    expect(readingOf(f, true, () => 1)).toEqual([
      { key: 'restart', workers: [2, 3, 1], text: 'and 1 more restarted' },
    ]);
  });
});

test('a stored choice that is not ours means the usual one', () => {
  const usual = choiceFrom(undefined, catalogue);
  expect(usual).toEqual({
    column: 'idle',
    down: false,
    shown: 'usual',
    metric: 'kv_cache_usage',
    fit: false,
  });
  expect(choiceFrom('x', catalogue)).toEqual(usual);
  expect(choiceFrom({ column: 'nonsense', shown: 'p99', metric: 'gone', fit: 1 }, catalogue)).toEqual(usual);
  const mine = { column: 'running', down: false, shown: 'p95', metric: 'ttft', fit: true };
  expect(choiceFrom(mine, catalogue)).toEqual(mine);
  expect(choiceFrom({ column: 'last' }, catalogue).down, 'the most first').toBe(true);
});
