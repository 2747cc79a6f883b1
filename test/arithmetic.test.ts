/**
 * The arithmetic on small runs whose answers are known from elsewhere: the worked example of the definitions, gaps,
 * restarts, late series, several servers. Rows go through the real book, store and SQL.
 */
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { MetricStatistics } from '../electron/engine/api.ts';
import { answerOf, bodyOf, readerFor, RunMaker, START, temporaryFolder } from './run-files.ts';

const setUp = (endpoints: number) => {
  const file = path.join(temporaryFolder(onTestFinished), 'run.sqlite');
  const run = new RunMaker(file, endpoints);
  onTestFinished(() => run.store.close(START));
  const reader = readerFor(onTestFinished);
  const statistics = async (metric: string, from: number, to: number): Promise<MetricStatistics> =>
    (await reader.statistics(file, { run: '', metrics: [metric], from, to }))[0]!;
  return { file, run, reader, statistics };
};
const at = (second: number) => START + second * 1000;

test('the worked example: pooled hit rate over three workers, one of which restarts', async () => {
  const { run, statistics } = setUp(3);
  const queries = [
    [1000000, 1020000, 1040000, 1060000, 1080000, 1100000],
    [200, 1200, 2200, 3200, 4200, 5200],
    [50000, 60000, 70000, 8000, 16000, 24000],
  ];
  const hits = [
    [500000, 518000, 536000, 554000, 572000, 590000],
    [50, 150, 250, 350, 450, 550],
    [20000, 28000, 36000, 4640, 9280, 13920],
  ];
  for (let t = 0; t <= 5; t++)
    run.tick(
      t,
      at(t),
      [0, 1, 2].map((e) =>
        answerOf(
          e,
          at(t),
          bodyOf([{ values: { prefix_queries: queries[e]![t]!, prefix_hits: hits[e]![t]! } }]),
        ),
      ),
    );
  const rate = await statistics('prefix_cache_hit_rate', at(0), at(5));
  expect(rate.each.map((w) => w.whole)).toEqual([100000, 5000, 44000]);
  expect(rate.each.map((w) => w.part)).toEqual([90000, 500, 29920]);
  expect(rate.each.map((w) => w.ratio)).toEqual([0.9, 0.1, 0.68]);
  expect(rate.pooled).toBe(120420 / 149000);
  expect(rate.each.map((w) => w.resets)).toEqual([0, 0, 1]);
  expect(rate.lowerBound).toBe(true);
  expect(rate.workers).toMatchObject({ min: 0.1, max: 0.9, n: 3 });
});

test('statistics over samples are numpy’s: linear percentiles, population all samples of all workers', async () => {
  const { run, statistics } = setUp(2);
  const values = [
    [3, 1, 4, 1],
    [5, 9, 2, 6],
  ];
  for (let t = 0; t < 4; t++)
    run.tick(
      t,
      at(t),
      [0, 1].map((e) => answerOf(e, at(t), bodyOf([{ values: { running: values[e]![t]! } }]))),
    );
  const s = await statistics('running', at(0), at(3));
  // numpy.percentile([3,1,4,1,5,9,2,6], [50, 95]) -> 3.5, 7.95
  expect(s.samples).toMatchObject({ mean: 31 / 8, min: 1, max: 9, p50: 3.5, n: 8, sum: null });
  expect(s.samples.p95).toBeCloseTo(7.95, 12);
  expect(s.each.map((w) => w.mean)).toEqual([2.25, 5.5]);
  expect(s.workers).toMatchObject({ min: 2.25, max: 5.5, n: 2 });
  // from begin to end: the two samples at the ends count, 3 s and 2 workers expected
  expect(s.coverage).toBe(1);
});

test('the delta over a gap belongs to the later sample, and nothing is lost or made up', async () => {
  const { run, statistics, reader, file } = setUp(1);
  const tokens: Record<number, number> = { 0: 100, 1: 110, 5: 170, 6: 180 };
  for (const [t, generation_tokens] of Object.entries(tokens))
    run.tick(Number(t), at(Number(t)), [
      answerOf(0, at(Number(t)), bodyOf([{ values: { generation_tokens } }])),
    ]);
  expect((await statistics('generation_tokens', at(0), at(6))).each[0]).toMatchObject({
    delta: 80,
    resets: 0,
  });
  // a split inside the gap: the whole of it falls to the later window's last sample before, none twice
  const left = await statistics('generation_tokens', at(0), at(3));
  expect(left.each[0]!.delta).toBe(70); // (a, b]: b is the first sample asked for after the end
  const { series, times } = await reader.timelines(file, {
    run: '',
    metrics: ['generation_tokens'],
    from: at(0),
    to: at(6),
    points: 100,
  });
  expect([...times].map((x) => (x - START) / 1000)).toEqual([0, 1, 5, 6]);
  expect([...series[0]!.values]).toEqual([NaN, 10, 15, 10]);
  expect((await statistics('generation_tokens', at(0), at(6))).coverage).toBeCloseTo(3 / 6);
});

test('the first sample of a worker gives no delta, the lifetime least of all', async () => {
  const { run, statistics } = setUp(1);
  run.tick(0, at(0), [answerOf(0, at(0), bodyOf([{ values: { generation_tokens: 5000 } }]))]);
  const s = await statistics('generation_tokens', at(-1), at(1));
  expect(s.each[0]!.delta).toBeNull();
  expect(s.samples.sum).toBeNull();
});

test('a series that a complete body lacked before counts from 0', async () => {
  const { run, statistics } = setUp(1);
  run.tick(0, at(0), [answerOf(0, at(0), bodyOf([{ values: { running: 1 } }]))]);
  run.tick(1, at(1), [answerOf(0, at(1), bodyOf([{ values: { running: 1, generation_tokens: 40 } }]))]);
  run.tick(2, at(2), [answerOf(0, at(2), bodyOf([{ values: { running: 1, generation_tokens: 50 } }]))]);
  const s = await statistics('generation_tokens', at(0), at(2));
  expect(s.each[0]).toMatchObject({ delta: 50, resets: 0 });
  expect(s.samples.max).toBe(40); // a second's rate since the body that lacked it
});

test('a worker that joins counts from 0 only where `_created` is later than the tick before, by the server’s clock', async () => {
  const { run, statistics } = setUp(2);
  const late = (created: number, serverAt: number | null) => ({
    ...answerOf(1, at(2), bodyOf([{ created, values: { generation_tokens: 30 } }])),
    serverAt,
  });
  run.tick(0, at(0), [answerOf(0, at(0), bodyOf([{ values: { generation_tokens: 1 } }]))]);
  run.tick(1, at(1), [answerOf(0, at(1), bodyOf([{ values: { generation_tokens: 2 } }]))]);
  // the server's clock runs an hour ahead; there the tick before was at 3,601 s + start, at most a second later
  run.tick(2, at(2), [
    answerOf(0, at(2), bodyOf([{ values: { generation_tokens: 3 } }])),
    late(START / 1000 + 3602.5, at(3602)),
  ]);
  expect((await statistics('generation_tokens', at(0), at(2.5))).each[1]!.delta).toBe(30);
});

test('... and not where it was there before, or the reply has no Date', async () => {
  for (const [created, serverAt] of [
    [START / 1000 + 3601.5, at(3602)],
    [START / 1000 + 3602.5, null],
  ] as const) {
    const { run, statistics } = setUp(2);
    run.tick(0, at(0), [answerOf(0, at(0), bodyOf([{ values: { generation_tokens: 1 } }]))]);
    run.tick(1, at(1), [answerOf(0, at(1), bodyOf([{ values: { generation_tokens: 2 } }]))]);
    run.tick(2, at(2), [
      { ...answerOf(1, at(2), bodyOf([{ created, values: { generation_tokens: 30 } }])), serverAt },
    ]);
    expect((await statistics('generation_tokens', at(0), at(2.5))).each[1]!.delta).toBeNull();
  }
});

test('a restart that overtakes the old value shows by its start time', async () => {
  const { run, statistics, reader, file } = setUp(1);
  const tick = (t: number, created: number, generation_tokens: number) =>
    run.tick(t, at(t), [answerOf(0, at(t), bodyOf([{ created, values: { generation_tokens } }]))]);
  tick(0, 100, 1000);
  tick(1, 100, 1010);
  tick(2, 5000, 1500); // restarted, and already further than before
  tick(3, 5000, 1510);
  const s = await statistics('generation_tokens', at(0), at(3));
  expect(s.each[0]).toMatchObject({ delta: 10 + 1500 + 10, resets: 1 });
  expect(s.lowerBound).toBe(true);
  expect((await reader.events(file, 0, Infinity)).map((e) => e.kind)).toEqual(['restart']);
});

test('several servers behind one address: said once, deltas are null', async () => {
  const { run, statistics, reader, file } = setUp(1);
  const servers = [
    { created: 100, tokens: 5000 },
    { created: 900, tokens: 70 },
  ];
  for (let t = 0; t < 12; t++) {
    const { created, tokens } = servers[t % 2]!;
    run.tick(t, at(t), [
      answerOf(0, at(t), bodyOf([{ created, values: { generation_tokens: tokens + t } }])),
    ]);
  }
  const s = await statistics('generation_tokens', at(0), at(11));
  expect(s.each[0]!.delta).toBeNull();
  const events = await reader.events(file, 0, Infinity);
  expect(events.filter((e) => e.kind === 'several-servers')).toHaveLength(1);
  expect((await reader.contents(file)).workerList[0]!.several).toBe(true);
});

test('counters that fall twice within ten scrapes without a later start: several servers; two restarts are not', async () => {
  for (const [created, several] of [
    [[NaN, NaN, NaN], true],
    [[100, 200, 300], false],
  ] as const) {
    const { run, reader, file } = setUp(1);
    const tokens = [500, 510, 20, 30, 5, 9];
    tokens.forEach((generation_tokens, t) =>
      run.tick(t, at(t), [
        answerOf(0, at(t), bodyOf([{ created: created[Math.floor(t / 2)]!, values: { generation_tokens } }])),
      ]),
    );
    expect((await reader.contents(file)).workerList[0]!.several).toBe(several);
  }
});

test('families that come back late after a restart: one restart, and nothing is counted twice', async () => {
  const { run, statistics, reader, file } = setUp(1);
  let tokens = 5000;
  for (let t = 0; t < 14; t++) {
    if (t === 4) tokens = 0; // restarted; preemptions show again from t = 8 on, then queries
    tokens += 100;
    const values: Record<string, number> = { generation_tokens: tokens };
    if (t < 4 || t >= 8) values.preemptions = t < 4 ? 50 : 1;
    if (t < 4 || t >= 10) values.prefix_queries = t < 4 ? 900 : 2;
    run.tick(t, at(t), [answerOf(0, at(t), bodyOf([{ values }]))]);
  }
  const s = await statistics('generation_tokens', at(0), at(13));
  expect(s.each[0]).toMatchObject({ delta: 1300, resets: 1 });
  expect((await statistics('preemptions', at(0), at(13))).each[0]).toMatchObject({ delta: 1, resets: 1 });
  expect((await reader.events(file, 0, Infinity)).map((e) => e.kind)).toEqual(['restart']);
});

test('a worker that shows up behind an endpoint that answered before brings no lifetime along', async () => {
  const { run, statistics } = setUp(1);
  const zero = { engine: '0', values: { generation_tokens: 1 } };
  run.tick(0, at(0), [answerOf(0, at(0), bodyOf([zero]))]);
  run.tick(1, at(1), [
    answerOf(0, at(1), bodyOf([zero, { engine: '1', values: { generation_tokens: 7e6 } }])),
  ]);
  run.tick(2, at(2), [
    answerOf(0, at(2), bodyOf([zero, { engine: '1', values: { generation_tokens: 7e6 + 5 } }])),
  ]);
  expect((await statistics('generation_tokens', at(0), at(2))).each[1]!.delta).toBe(5);
});

test('a worker without the part of a ratio has none, and does not pull the fleet’s down', async () => {
  const { run, statistics, reader, file } = setUp(2);
  for (let t = 0; t < 3; t++)
    run.tick(t, at(t), [
      answerOf(0, at(t), bodyOf([{ values: { prefix_queries: 100 * t } }])),
      answerOf(1, at(t), bodyOf([{ values: { prefix_queries: 100 * t, prefix_hits: 80 * t } }])),
    ]);
  const s = await statistics('prefix_cache_hit_rate', at(0), at(2));
  expect(s.each.map((w) => w.ratio)).toEqual([null, 0.8]);
  expect(s.pooled).toBe(0.8);
  const query = { run: '', metrics: ['prefix_cache_hit_rate'], from: at(0), to: at(2), points: 100 };
  const { series } = await reader.timelines(file, query);
  expect([...series[0]!.average]).toEqual([NaN, Math.fround(0.8), Math.fround(0.8)]);
});

test('a window before a worker was there has nothing of it', async () => {
  const { run, statistics } = setUp(1);
  run.tick(0, at(10), [answerOf(0, at(10), bodyOf([{ values: { running: 1 } }]))]);
  run.tick(1, at(11), [answerOf(0, at(11), bodyOf([{ values: { running: 1, generation_tokens: 40 } }]))]);
  const s = await statistics('generation_tokens', at(0), at(5));
  expect(s.samples).toMatchObject({ sum: null, n: 0 });
  expect((await statistics('generation_tokens', at(10), at(12))).samples.sum).toBe(40);
});

test('coverage counts the samples inside the window only', async () => {
  const { run, statistics } = setUp(1);
  for (const t of [0, 4, 8])
    run.tick(t, at(t), [answerOf(0, at(t), bodyOf([{ values: { generation_tokens: t } }]))]);
  expect((await statistics('generation_tokens', at(1), at(7))).coverage).toBeCloseTo(1 / 6);
  expect((await statistics('generation_tokens', at(5), at(5.5))).coverage).toBe(0);
});

test('no traffic is null, not 0 and not an old value', async () => {
  const { run, statistics, reader, file } = setUp(1);
  for (let t = 0; t < 4; t++)
    run.tick(t, at(t), [answerOf(0, at(t), bodyOf([{ values: { prefix_queries: 10, prefix_hits: 5 } }]))]);
  const s = await statistics('prefix_cache_hit_rate', at(0), at(3));
  expect(s.pooled).toBeNull();
  expect(s.each[0]).toMatchObject({ ratio: null, whole: 0, mean: null });
  const { series } = await reader.timelines(file, {
    run: '',
    metrics: ['prefix_cache_hit_rate'],
    from: at(0),
    to: at(3),
    points: 100,
  });
  expect([...series[0]!.values]).toEqual([NaN, NaN, NaN, NaN]);
});

test('a value that is absent for a while is reached over, however far back it lies', async () => {
  const { run, statistics } = setUp(1);
  for (let t = 0; t < 30; t++) {
    const values: Record<string, number> = { running: 1 };
    if (t < 3 || t > 25) values.generation_tokens = t * 10;
    run.tick(t, at(t), [answerOf(0, at(t), bodyOf([{ values }]))]);
  }
  // the window holds one sample that has it; its anchor is 24 rows back
  expect((await statistics('generation_tokens', at(25), at(26))).each[0]!.delta).toBe(240);
  expect((await statistics('generation_tokens', at(0), at(29))).each[0]!.delta).toBe(290);
});

test('a worker that is lost makes the window a lower bound', async () => {
  const { run, statistics } = setUp(2);
  for (let t = 0; t < 10; t++)
    run.tick(
      t,
      at(t),
      [0, 1]
        .filter((e) => e === 0 || t < 4)
        .map((e) => answerOf(e, at(t), bodyOf([{ values: { generation_tokens: t } }]))),
    );
  const s = await statistics('generation_tokens', at(1), at(7));
  expect(s.each.map((w) => w.lost)).toEqual([false, true]);
  expect(s.lowerBound).toBe(true);
  expect((await statistics('generation_tokens', at(1), at(3))).lowerBound).toBe(false);
});

test('failures are ranges with a reason; a scrape that is late and then times out is one range', async () => {
  const { run, reader, file } = setUp(2);
  const good = (t: number) => answerOf(0, at(t), bodyOf([{ values: { running: 1 } }]));
  const miss = (reason: 'late' | 'timeout' | 'refused', asked = true) => ({
    endpoint: 1,
    reason,
    sentence: reason,
    asked,
  });
  run.tick(0, at(0), [good(0)], [miss('late', false)]);
  run.tick(1, at(1), [good(1)], [miss('timeout')]);
  run.tick(2, at(2), [good(2)], [miss('late', false)]);
  run.tick(3, at(3), [good(3)], [miss('refused')]);
  run.tick(4, at(4), [good(4)], [miss('refused', false)]);
  run.tick(5, at(5), [good(5), answerOf(1, at(5), bodyOf([{ values: { running: 1 } }]))]);
  run.tick(6, at(6), [good(6)], [miss('refused')]);
  const events = (await reader.events(file, 0, Infinity)).filter((e) => e.kind === 'outage');
  expect(events.map((e) => [e.reason, (e.at - START) / 1000, (e.until! - START) / 1000, e.count])).toEqual([
    ['timeout', 0, 2, 1],
    ['refused', 3, 4, 1],
    ['refused', 6, 6, 1],
  ]);
});
