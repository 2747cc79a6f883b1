/**
 * Workers as the engine finds them: their numbers, late ones, restarts, statistics that are off, several servers behind
 * one address.
 */
import { describe, expect, it } from 'vitest';
import {
  clusterOf,
  engineFor,
  everything,
  fakes,
  quick,
  recorded,
  rowsOf,
  ticked,
  until,
  urlsOf,
  type TestEngine,
} from './engines.ts';

const kindsOf = async (engine: TestEngine, run: string) =>
  (await engine.methods.events(run, ...everything)).map((e) => e.kind);

describe.concurrent('workers', () => {
  it('are told of when they answer again after a pause, though they stand as before', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 1 });
    const engine = await engineFor(onTestFinished);
    const cluster = await recorded(engine, urlsOf(fake));
    await ticked(engine, cluster.recording, 2);
    await engine.methods.disconnectCluster(cluster.id);
    let told = -1;
    // what was told before the first tick can only have said that they are asked
    engine.engine.on('ticked', () => (told = told < 0 ? engine.changes.length : told));
    const { recording } = await engine.methods.connectCluster(cluster.id);
    await ticked(engine, recording!, 1);
    await until(() => engine.changes.slice(told).some(({ what }) => what === 'clusters'));
  });

  it('are numbered by the endpoint list, then the engine label, in whatever order answers come', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 24, enginesPerEndpoint: 12 });
    fake.endpoints[0]!.faults = { lateMs: 80 }; // answers after the second
    const engine = await engineFor(onTestFinished);
    const cluster = await engine.methods.addCluster({ ...quick(urlsOf(fake)), intervalSeconds: 20 });
    await ticked(engine, cluster.recording!, 1);
    const { workerList } = await engine.methods.getRun(cluster.recording!);
    const labels = Array.from({ length: 12 }, (_, i) => String(i));
    expect(workerList.map((w) => w.w)).toEqual(Array.from({ length: 24 }, (_, i) => i));
    expect(workerList.map((w) => [w.endpoint, w.engine])).toEqual(
      fake.endpoints.flatMap((e) => labels.map((label) => [e.url, label])),
    );
    expect((await clusterOf(engine.methods, cluster.id)).endpoints.map((e) => e.workers)).toEqual([12, 12]);
  });

  it('of an endpoint that comes up later get the next numbers, and their appearing is an event', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 6, enginesPerEndpoint: 2 });
    const [first] = fake.endpoints;
    await first!.down();
    const engine = await engineFor(onTestFinished);
    const cluster = await engine.methods.addCluster({ ...quick(urlsOf(fake)), intervalSeconds: 1.5 });
    const recording = cluster.recording!;
    await until(() => engine.ticks.some((t) => t.answered === 2));
    expect((await clusterOf(engine.methods, cluster.id)).endpoints[0]).toMatchObject({
      state: 'refused',
      sentence: `127.0.0.1:${first!.port} refused the connection. Is the server up?`,
      workers: 0,
    });
    await first!.up();
    await ticked(engine, recording, 1);
    const { workerList } = await engine.methods.getRun(recording);
    const [a, b, c] = fake.endpoints.map((e) => e.url);
    expect(workerList.map((w) => [w.endpoint, w.engine])).toEqual([
      [b, '0'],
      [b, '1'],
      [c, '0'],
      [c, '1'],
      [a, '0'],
      [a, '1'],
    ]);
    const events = await engine.methods.events(recording, ...everything);
    expect(events.filter((e) => e.kind === 'worker').map((e) => [e.w, e.endpoint])).toEqual([
      [4, a],
      [5, a],
    ]);
    const outage = events.find((e) => e.kind === 'outage')!;
    expect(outage).toMatchObject({ endpoint: a, reason: 'refused' });
    expect(outage.count).toBeGreaterThanOrEqual(1);
    expect(outage.until!).toBeLessThan(workerList[4]!.firstAt);
  });

  it('that restart are marked, counted from the reset on, and what was lost is said', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const engine = await engineFor(onTestFinished);
    const cluster = await recorded(engine, urlsOf(fake));
    await ticked(engine, cluster.recording, 3);
    const from = Date.now() - 60_000;
    const before = await engine.methods.statistics({
      run: cluster.recording,
      metrics: ['generation_tokens'],
      from,
      to: Date.now(),
    });
    expect(before[0]!.lowerBound).toBe(false);
    await fake.endpoints[1]!.restart();
    await until(async () => (await kindsOf(engine, cluster.recording)).includes('restart'));
    await ticked(engine, cluster.recording, 6);
    const { file } = await engine.methods.stopRecording(cluster.id);
    const events = await engine.methods.events(cluster.recording, ...everything);
    expect(events.filter((e) => e.kind === 'restart').map((e) => [e.w, e.endpoint, e.count])).toEqual([
      [1, fake.endpoints[1]!.url, 1],
    ]);
    expect(events.find((e) => e.kind === 'restart')!.detail).toContain('its start time moved forward');
    const [statistics] = await engine.methods.statistics({
      run: cluster.recording,
      metrics: ['generation_tokens'],
      from,
      to: Date.now(),
    });
    expect(statistics!.lowerBound).toBe(true);
    expect(statistics!.each.map((w) => w.resets)).toEqual([0, 1]);
    // by hand: what it rose to before, and what it has counted since
    const tokens = rowsOf<{ epoch: number; first: number; last: number }>(
      file,
      `SELECT epoch, min(generation_tokens) AS first, max(generation_tokens) AS last
       FROM sample WHERE k % 4096 = 1 GROUP BY epoch ORDER BY epoch`,
    );
    expect(tokens.map((t) => t.epoch)).toEqual([0, 1]);
    expect(statistics!.each[1]!.delta).toBe(tokens[0]!.last - tokens[0]!.first + tokens[1]!.last);
  });

  it('without statistics are not "down", and are there when those are switched on', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished);
    fake.endpoints[0]!.faults = { statsOff: true };
    const engine = await engineFor(onTestFinished);
    const cluster = await recorded(engine, urlsOf(fake));
    await until(() => engine.ticks.length >= 3);
    const [endpoint] = (await clusterOf(engine.methods, cluster.id)).endpoints;
    expect(endpoint).toMatchObject({ state: 'no-vllm', workers: 0 });
    expect(endpoint!.sentence).toContain('Statistics are off on 127.0.0.1');
    expect(engine.ticks.every((t) => t.answered === 0 && t.workers === 0)).toBe(true);
    const events = await engine.methods.events(cluster.recording, ...everything);
    const outage = events.find((e) => e.reason === 'no-vllm');
    expect(outage).toMatchObject({ kind: 'outage', endpoint: fake.endpoints[0]!.url });
    expect(outage!.detail).toContain('--disable-log-stats');
    fake.endpoints[0]!.faults = {};
    await ticked(engine, cluster.recording, 1);
    expect((await engine.methods.getRun(cluster.recording)).workerList).toHaveLength(1);
  });

  it('of several servers behind one address are found out, said once, and have no deltas', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const balancer = await fake.addLoadBalancer();
    const engine = await engineFor(onTestFinished);
    const cluster = await recorded(engine, balancer.url);
    await ticked(engine, cluster.recording, 12);
    const events = await engine.methods.events(cluster.recording, ...everything);
    const found = events.filter((e) => e.kind === 'several-servers');
    expect(found).toHaveLength(1);
    expect(found[0]!.detail).toContain(`Several servers behind 127.0.0.1:${balancer.port}`);
    // what came before it was found out may have looked like a restart, nothing after
    expect(events.filter((e) => e.kind === 'restart' && e.at > found[0]!.at)).toEqual([]);
    expect((await engine.methods.getRun(cluster.recording)).workerList.map((w) => w.several)).toEqual([true]);
    const [tokens] = await engine.methods.statistics({
      run: cluster.recording,
      metrics: ['generation_tokens'],
      from: Date.now() - 60_000,
      to: Date.now(),
    });
    expect(tokens!.each.map((w) => w.delta)).toEqual([null]);
    expect(tokens!.samples.sum).toBeNull();
    const { series } = await engine.methods.timelines({
      run: cluster.recording,
      metrics: ['generation_tokens', 'running'],
      from: Date.now() - 10_000,
      to: Date.now(),
      points: 500,
    });
    expect(series[0]!.values.every(Number.isNaN)).toBe(true);
    expect(series[1]!.values.every(Number.isNaN)).toBe(false); // gauges are whoever's they are
  });
});
