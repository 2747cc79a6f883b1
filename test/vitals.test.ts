/** The seven vital numbers: windows, populations, worst workers, signs, and a reason wherever a number is absent. */
import { describe, expect, test } from 'vitest';
import type { MetricStatistics, Run, Worker, WorkerStatistics } from '../electron/engine/api.ts';
import { thin } from '../renderer/format.ts';
import { keep } from '../renderer/kept.ts';
import { vitalsOf, type Facts, type Vital } from '../renderer/vitals.ts';

const all = [
  'running',
  'waiting',
  'waiting_capacity',
  'waiting_deferred',
  'kv_cache_usage',
  'generation_tokens',
  'prefix_cache_hit_rate',
  'preemptions',
];
const runOf = (workers: number, more: Partial<Run> = {}): Run =>
  ({
    state: 'recording',
    intervalSeconds: 1,
    metrics: all,
    workers,
    workerList: Array.from(
      { length: workers },
      (_, w) => ({ w, name: `w${w}`, firstAt: 0, goneAt: null }) as Worker,
    ),
    ...more,
  }) as Run;

/** Two ticks of data; the numbers given are those of the newest, a worker each; null: no answer in it. */
function tailOf(levels: Record<string, (number | null)[]>) {
  const workers = levels.running?.length ?? 0;
  const matrix = (row: (number | null)[]) => Float32Array.from(row.flatMap((v) => [7, v ?? NaN]));
  return keep({
    widthSeconds: 0,
    times: Float64Array.from([58_000, 59_000]),
    workers,
    offsets: matrix((levels.running ?? []).map((v) => (v === null ? null : 5))),
    series: Object.entries(levels).map(([metric, row]) => ({
      metric,
      values: matrix(row),
      min: null,
      max: null,
      average: new Float32Array(2),
    })),
  });
}

const none = { mean: null, min: null, max: null, p50: null, p95: null, sum: null, n: 0 };
const statistics = (
  metric: string,
  each: Partial<WorkerStatistics>[],
  more: Partial<MetricStatistics> = {},
): MetricStatistics => ({
  metric,
  bucketSeconds: 0,
  deltas: null,
  requests: null,
  seconds: 60,
  samples: none,
  workers: none,
  pooled: null,
  coverage: 1,
  lowerBound: false,
  each: each.map((e, w) => ({
    ...none,
    w,
    delta: null,
    part: null,
    whole: null,
    ratio: null,
    deltas: null,
    resets: 0,
    lost: false,
    ...e,
  })),
  ...more,
});
/** `seconds`: what was counted is longer than the window. */
const figuresOf = (from: number, to: number, list: MetricStatistics[], seconds?: number) => ({
  from,
  to,
  of: new Map(list.map((s) => [s.metric, { ...s, seconds: seconds ?? (to - from) / 1000 }])),
});
const counterOf = (metric: string, deltas: number[], more: Partial<MetricStatistics> = {}) =>
  statistics(
    metric,
    deltas.map((delta) => ({ delta, n: 60 })),
    { workers: { ...none, sum: deltas.reduce((a, b) => a + b, 0) }, ...more },
  );

const facts = (more: Partial<Facts>): Facts => ({
  run: runOf(0),
  tail: null,
  figures: null,
  fault: null,
  restarts: 0,
  ...more,
});
/** With plain spaces, and the line as it reads. */
function read(v: Vital | undefined) {
  const plain = (text: string) => text.replaceAll(thin, ' ');
  const line = (v?.line ?? []).map((piece) => (typeof piece === 'string' ? piece : piece.name)).join('');
  return `${plain(v?.window ?? '')}: ${plain(v?.value ?? '')} ${plain(v?.small ?? '')}|${v?.attention ? '▲ ' : ''}${plain(line)}`;
}
const reads = (f: Facts) => vitalsOf(f).map(read);

describe('a live run', () => {
  test('two workers: each is named', () => {
    const tail = tailOf({
      running: [16, 0],
      waiting: [5, 0],
      waiting_capacity: [5, 0],
      waiting_deferred: [0, 0],
      kv_cache_usage: [1, 0.002],
    });
    const figures = figuresOf(0, 60_000, [
      counterOf('generation_tokens', [90_000, 15_240]),
      statistics('prefix_cache_hit_rate', [{ ratio: 0.8 }, { ratio: null }], { pooled: 0.8 }),
      counterOf('preemptions', [349, 0]),
    ]);
    expect(reads(facts({ run: runOf(2), tail, figures }))).toEqual([
      'now: 2 of 2 answer|w1 idle, 1 works',
      'now, sum: 16 requests|w0 16 · w1 0',
      'now, sum: 5 requests|▲ capacity 5 · w0 5',
      'now, max: 100 % mean 50.1 %|▲ w0 ≥ 95 %',
      '60 s, pooled: 80.0 % |w0 80.0 %',
      '60 s, sum: 1,754 tok/s|w0 1,500 · w1 254',
      '60 s, sum: 349 5.82/s|▲ w0 349 · w1 0',
    ]);
  });

  test('many workers: the worst one, or how many share its number', () => {
    const tail = tailOf({
      running: [16, 16, 3, 0],
      waiting: [40, 7, 0, 0],
      kv_cache_usage: [0.4, 0.9, 0.1, 0.1],
    });
    const figures = figuresOf(0, 60_000, [
      counterOf('generation_tokens', [6000, 6000, 600, 600], { lowerBound: true, coverage: 0.6 }),
      statistics(
        'prefix_cache_hit_rate',
        [0.9, 0.49, 0.8, 0.8].map((ratio) => ({ ratio })),
        { pooled: 0.75, lowerBound: true },
      ),
      counterOf('preemptions', [0, 0, 0, 0]),
    ]);
    expect(reads(facts({ run: runOf(4), tail, figures }))).toEqual([
      'now: 4 of 4 answer|w3 idle, 3 work',
      'now, sum: 35 requests|w3 0 to 16',
      'now, sum: 47 requests|highest w0 40',
      'now, max: 90.0 % mean 37.5 %|highest w1 90.0 %',
      '60 s, pooled: 75.0 % |lowest w1 49.0 %',
      '60 s, sum: ≥ 220 tok/s|coverage 60.0 % · lowest 10.0 on 2 workers',
      '60 s, sum: 0 |none on any worker',
    ]);
  });

  test('silent workers first, those that were taken away not at all; a click isolates them', () => {
    const tail = tailOf({ running: [1, null, null, 1], waiting: [0, null, null, 0] });
    const run = runOf(4);
    const [silent] = vitalsOf(facts({ run, tail }));
    expect(read(silent)).toBe('now: 2 of 4 answer|▲ 2 workers silent');
    expect(silent?.line[0]).toEqual({ workers: [1, 2], name: '2 workers' });
    for (const w of [1, 2]) run.workerList[w]!.goneAt = 50_000;
    expect(reads(facts({ run, tail }))[0]).toBe('now: 2 of 2 answer|all work');
    const idle = tailOf({ running: [0, 0], waiting: [0, 0] });
    expect(reads(facts({ run: runOf(2), tail: idle }))[0]).toBe('now: 2 of 2 answer|all idle');
    const asleep = tailOf({ running: [0, 0], waiting: [0, 0], sleep_level: [0, 1] });
    expect(reads(facts({ run: runOf(2), tail: asleep }))[0]).toBe('now: 2 of 2 answer|w1 asleep');
  });

  test('KV cache: 95 % is full, a little less is not', () => {
    const at = (...row: number[]) => {
      const running = row.map(() => 1);
      return reads(facts({ run: runOf(row.length), tail: tailOf({ running, kv_cache_usage: row }) }))[3];
    };
    expect(at(0.949, 0.1, 0.1)).toBe('now, max: 94.9 % mean 38.3 %|highest w0 94.9 %');
    expect(at(0.9501, 0.99, 0.1)).toBe('now, max: 99.0 % mean 68.0 %|▲ 2 workers ≥ 95 %');
  });

  test('why requests wait: both reasons before where', () => {
    const levels = { running: [1, 1, 1], waiting: [2000, 500, 51] };
    const waits = (waiting_capacity: number[], waiting_deferred: number[]) =>
      reads(facts({ run: runOf(3), tail: tailOf({ ...levels, waiting_capacity, waiting_deferred }) }))[2];
    expect(waits([1900, 500, 20], [100, 0, 31])).toBe(
      'now, sum: 2,551 requests|▲ capacity 2,420 · deferred 131',
    );
    expect(waits([0, 0, 0], [40, 0, 0])).toBe('now, sum: 2,551 requests|deferred 40');
    expect(waits([0, 0, 0], [0, 0, 0])).toBe('now, sum: 2,551 requests|highest w0 2,000');
  });

  test('a large fleet comes from buckets, which are longer than 60 s: rates and their window are theirs', () => {
    const counters = [counterOf('generation_tokens', [90_000]), counterOf('preemptions', [9])];
    const [, , , , , generation, preemptions] = reads(
      facts({ run: runOf(1), figures: figuresOf(0, 60_000, counters, 90) }),
    );
    expect([generation, preemptions]).toEqual([
      '90 s, sum: 1,000 tok/s|w0 1,000',
      '90 s, sum: 9 0.100/s|▲ w0 9',
    ]);
  });

  test('nothing is there yet: a dash and why', () => {
    expect(reads(facts({ run: runOf(0, { metrics: [] }) }))).toEqual([
      'now: – no tick yet|',
      'now, sum: – no tick yet|',
      'now, sum: – no tick yet|',
      'now, max: – no tick yet|',
      '60 s, pooled: – not read yet|',
      '60 s, sum: – not read yet|',
      '60 s, sum: – not read yet|',
    ]);
    const figures = figuresOf(0, 1000, [
      statistics('generation_tokens', [{}]),
      statistics('prefix_cache_hit_rate', [{}]),
    ]);
    const run = runOf(1, { metrics: all.filter((id) => id !== 'preemptions') });
    expect(reads(facts({ run, tail: tailOf({ running: [null] }), figures })).slice(1)).toEqual([
      'now, sum: – no answer|',
      'now, sum: – no answer|',
      'now, max: – no answer|',
      '1 s, pooled: – no traffic|',
      '1 s, sum: – no second sample yet|',
      '1 s, sum: – not there yet|',
    ]);
    const asked = facts({ run: runOf(8) });
    expect(reads(asked)[0], 'not read yet is not silent').toBe('now: – no tick yet|');
    const [, , , , broken] = vitalsOf(facts({ run, fault: 'The file is damaged.' }));
    expect([read(broken), broken?.about]).toEqual([
      '60 s, pooled: – not readable|',
      expect.stringContaining('The file is damaged.'),
    ]);
  });
});

describe('a past run', () => {
  const past = (more: Partial<Facts>) =>
    facts({ ...more, run: { ...(more.run ?? runOf(2)), state: 'ended' } });

  test('the same seven over what is in view', () => {
    const gauge = (metric: string, means: number[], more: Partial<MetricStatistics> = {}) =>
      statistics(
        metric,
        means.map((mean, w) => ({ mean, max: mean * 2, n: w === 0 ? 90 : 63 })),
        {
          samples: { ...none, mean: means.reduce((a, b) => a + b) / means.length, max: 1, n: 153 },
          coverage: 0.85,
          ...more,
        },
      );
    const figures = figuresOf(48_000, 138_000, [
      gauge('running', [4.8, 4.2]),
      gauge('waiting', [12.1, 11.9]),
      gauge('waiting_capacity', [10, 10.2]),
      gauge('waiting_deferred', [0, 0]),
      gauge('kv_cache_usage', [0.5, 0.3]),
      statistics('prefix_cache_hit_rate', [{ ratio: 0.66 }, { ratio: 0.62 }], { pooled: 0.642 }),
      counterOf('generation_tokens', [60_000, 63_300]),
      counterOf('preemptions', [0, 379]),
    ]);
    expect(reads(past({ figures, restarts: 1 }))).toEqual([
      'in view: 2 of 2 · 1 restart|coverage 85 % · w1 70 %',
      'in view, mean: 4.5 a worker|w0 4.8 · w1 4.2',
      'in view, mean: 12 a worker|▲ capacity 10.1',
      'in view, max: 100 % mean 40.0 %|▲ w0 ≥ 95 %',
      'in view, pooled: 64.2 % |w0 66.0 % · w1 62.0 %',
      'in view, sum: 1,370 tok/s|w0 667 · w1 703',
      'in view, sum: 379 4.21/s|▲ w0 0 · w1 379',
    ]);
  });

  test('a worker that did not answer in view wants attention; one that came later is not expected', () => {
    const running = statistics('running', [{ mean: 1, n: 60 }, { n: 0 }], {
      samples: { ...none, mean: 1, n: 60 },
      coverage: 0.5,
    });
    const run = runOf(3);
    run.workerList[2]!.firstAt = 70_000;
    expect(reads(past({ run, figures: figuresOf(0, 60_000, [running]) }))[0]).toBe(
      'in view: 1 of 2 answered|▲ coverage 50 % · w1 0 %',
    );
  });

  test('one that was taken away is expected until then only', () => {
    const answers = (...ns: number[]) =>
      statistics(
        'running',
        ns.map((n) => ({ mean: 1, n })),
        { samples: { ...none, mean: 1, n: 60 }, coverage: 1 },
      );
    const run = runOf(2);
    run.workerList[1]!.goneAt = 20_020;
    const workers = (from: number, to: number, ...ns: number[]) =>
      reads(past({ run, figures: figuresOf(from, to, [answers(...ns)]) }))[0];
    expect(workers(0, 60_000, 60, 20)).toBe('in view: 2 of 2 answered|every scrape answered');
    expect(workers(0, 60_000, 60, 10)).toBe('in view: 2 of 2 answered|coverage 100 % · w1 50 %');
    expect(workers(0, 60_000, 60, 0)).toBe('in view: 1 of 2 answered|▲ coverage 100 % · w1 0 %');
    expect(workers(20_000, 80_000, 60, 0)).toBe('in view: 1 of 1 answered|every scrape answered');
  });
});
