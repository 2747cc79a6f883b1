/**
 * The engine in a folder of its own with the stand-in's servers: what becomes of clusters, runs and workers. Calls are
 * made as a page makes them, and rows are read by a connection of the test's own.
 */
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import {
  clusterOf,
  engineFor,
  everything,
  fakes,
  folderFor,
  quick,
  recorded,
  rowsOf,
  run,
  ticked,
  until,
  urlsOf,
} from './engines.ts';

const ticksIn = (file: string) => rowsOf<{ t: number; at: number }>(file, 'SELECT * FROM tick ORDER BY t');

describe.concurrent('a cluster', () => {
  it('is recorded as soon as it is added, and its rows are in the run’s file', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 3 });
    // a router, which knows no version
    fake.endpoints[2]!.faults.noVersion = true;
    const engine = await engineFor(onTestFinished);
    const { methods, ticks } = engine;
    const cluster = await methods.addCluster(quick(urlsOf(fake), 'grpo'));
    expect(cluster).toMatchObject({
      name: 'grpo',
      intervalSeconds: 0.2,
      timeoutSeconds: 5,
      record: true,
      connected: true,
      stopped: null,
    });
    const id = cluster.recording!;
    await ticked(engine, id, 5);
    // told as they are written
    const told = ticks.filter((t) => t.run === id && t.answered === 3);
    expect(told[0]).toMatchObject({ cluster: cluster.id, endpoints: 3, workers: 3 });
    const live = await methods.getRun(id);
    expect(live).toMatchObject({ state: 'recording', endpoints: 3, intervalSeconds: 0.2 });
    expect(live.workerList.map((w) => w.name)).toEqual(['w0', 'w1', 'w2']);
    expect(live.workerList.map((w) => w.endpoint)).toEqual(fake.endpoints.map((e) => e.url));
    expect(live.workerList.every((w) => w.model === 'qwen3-8b' && w.engine === '0' && !w.several)).toBe(true);
    expect(live.endpointList).toEqual(fake.endpoints.map((e) => e.url));
    expect(live.workerList.map((w) => w.version)).toEqual(['0.32.0', '0.32.0', null]);
    expect(live.metrics).toEqual(expect.arrayContaining(['running', 'generation_tokens', 'ttft']));
    const endpoints = (await clusterOf(methods, cluster.id)).endpoints;
    expect(endpoints.every((e) => e.state === 'ok' && e.workers === 1 && e.sentence === null)).toBe(true);

    const stopped = await methods.stopRecording(cluster.id);
    expect(stopped).toMatchObject({ id, state: 'ended', workers: 3, clusterName: 'grpo' });
    const { file } = stopped;
    expect(fs.existsSync(`${file}-wal`)).toBe(false); // it can be copied as it is
    expect(stopped.bytes).toBe(fs.statSync(file).size);
    expect(path.dirname(file)).toBe(path.join(engine.folder, 'runs'));
    const rows = rowsOf<{ w: number; n: number; tokens: number }>(
      file,
      `SELECT k % 4096 AS w, count(*) AS n, max(generation_tokens) - min(generation_tokens) AS tokens
       FROM sample GROUP BY w ORDER BY w`,
    );
    expect(rows.map((r) => r.w)).toEqual([0, 1, 2]);
    expect(stopped.ticks).toBe(ticksIn(file).length);
    for (const { n } of rows) expect(n).toBeGreaterThanOrEqual(5);
    // no counter fell, so the increase is last minus first
    expect(stopped.generationTokens).toBe(rows.reduce((sum, r) => sum + r.tokens, 0));
    expect(stopped.endedAt).toBe(ticksIn(file).at(-1)!.at);
    expect(rowsOf(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    expect(engine.bugs).toEqual([]);
    expect(engine.said).toEqual([]);
  });

  it('is one of several that record at once, each into its own run; ending one leaves the others', async ({
    onTestFinished,
  }) => {
    const all = [1, 2, 3].map((workers) => fakes(onTestFinished, { workers, model: `model-${workers}` }));
    const [one, two, three] = await Promise.all(all);
    const engine = await engineFor(onTestFinished);
    const clusters: Awaited<ReturnType<typeof recorded>>[] = [];
    for (const fake of [one!, two!, three!]) clusters.push(await recorded(engine, urlsOf(fake)));
    for (const { recording } of clusters) await ticked(engine, recording, 3);
    const stopped = await engine.methods.stopRecording(clusters[1]!.id);
    const after = engine.ticks.length;
    await until(() =>
      [0, 2].every((i) => engine.ticks.slice(after).some((t) => t.run === clusters[i]!.recording)),
    );
    expect(engine.ticks.slice(after).every((t) => t.run !== stopped.id)).toBe(true);
    const runs = await engine.methods.listRuns();
    expect(new Set(runs.map((r) => r.file)).size).toBe(3);
    for (const [i, { recording, id }] of clusters.entries()) {
      const found = await engine.methods.getRun(recording);
      expect(found).toMatchObject({ clusterId: id, state: i === 1 ? 'ended' : 'recording' });
      expect(found.workerList.map((w) => w.model)).toEqual(Array(i + 1).fill(`model-${i + 1}`));
    }
    // newest first
    expect(runs.map((r) => r.startedAt)).toEqual([...runs.map((r) => r.startedAt)].sort((a, b) => b - a));
  });

  it('a second run of it begins anew, also while answers are on their way', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const engine = await engineFor(onTestFinished);
    const cluster = await recorded(engine, urlsOf(fake));
    await ticked(engine, cluster.recording, 4);
    await engine.methods.stopRecording(cluster.id);
    fake.endpoints[0]!.faults = { lateMs: 500 };
    const asked = fake.endpoints[0]!.seen.requests;
    await until(() => fake.endpoints[0]!.seen.requests > asked);
    const second = await engine.methods.startRecording(cluster.id, null);
    fake.endpoints[0]!.faults = {};
    await ticked(engine, second.id, 4);
    const { file, startedAt } = await engine.methods.stopRecording(cluster.id);
    const ticks = ticksIn(file);
    expect(ticks[0]!.t).toBeLessThan(25); // 0, but for a machine that stands still for a while
    expect(ticks[0]!.at).toBeGreaterThanOrEqual(startedAt);
    expect(ticks.every(({ at }, i) => i === 0 || at > ticks[i - 1]!.at)).toBe(true);
    const backs = rowsOf<{ back: number | null }>(file, 'SELECT back FROM sample').map((r) => r.back);
    expect(backs.filter((back) => back !== null && back < 1)).toEqual([]);
    expect(backs.filter((back) => back === null)).toHaveLength(2);
    const { workerList } = await engine.methods.getRun(second.id);
    expect(workerList.map((w) => w.endpoint).sort()).toEqual(fake.endpoints.map((e) => e.url).sort());
  });

  it('can be watched without recording, disconnected, connected and removed; its runs stay', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished);
    const engine = await engineFor(onTestFinished);
    const { methods, ticks } = engine;
    const cluster = await methods.addCluster({ ...quick(urlsOf(fake)), record: false });
    expect(cluster).toMatchObject({ connected: true, recording: null, record: false });
    await until(() => ticks.some((t) => t.cluster === cluster.id && t.answered === 1));
    expect(ticks.every((t) => t.run === null)).toBe(true);
    expect(await methods.listRuns()).toEqual([]);

    const begun = await methods.startRecording(cluster.id, 'by hand');
    await expect(methods.startRecording(cluster.id, null)).rejects.toMatchObject({ kind: 'bad-input' });
    await ticked(engine, begun.id, 2);
    expect(await methods.disconnectCluster(cluster.id)).toMatchObject({ connected: false, recording: null });
    expect((await methods.listRuns())[0]).toMatchObject({ id: begun.id, state: 'ended', name: 'by hand' });
    await expect(methods.startRecording(cluster.id, null)).rejects.toMatchObject({
      kind: 'bad-input',
      message: expect.stringContaining('Connect it first') as string,
    });
    await expect(methods.stopRecording(cluster.id)).rejects.toMatchObject({ kind: 'bad-input' });

    expect(await methods.connectCluster(cluster.id)).toMatchObject({ connected: true, recording: null });
    expect(await methods.setRecord(cluster.id, true)).toMatchObject({ record: true, recording: null });
    await methods.disconnectCluster(cluster.id);
    const again = await methods.connectCluster(cluster.id);
    expect(again.recording).not.toBeNull();
    await ticked(engine, again.recording!, 2);
    await methods.removeCluster(cluster.id);
    expect(await methods.listClusters()).toEqual([]);
    expect((await methods.listRuns()).map((r) => r.state)).toEqual(['ended', 'ended']);
    expect((await methods.getRun(again.recording!)).workerList).toHaveLength(1);
    await expect(methods.connectCluster(cluster.id)).rejects.toMatchObject({ kind: 'not-found' });
    expect(engine.bugs).toEqual([]);
  });

  it('is there again when the engine is: as it was left, recording a new run', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const folder = folderFor(onTestFinished);
    const first = await engineFor(onTestFinished, { dataFolder: folder });
    const kept = await recorded(first, fake.endpoints[0]!.url, 'kept');
    const left = await recorded(first, fake.endpoints[1]!.url, 'left');
    await ticked(first, left.recording, 1);
    await first.methods.disconnectCluster(left.id);
    await first.methods.setPreference('panels', { order: ['running'], log: true });
    await first.methods.setPreference('theme', 'dark');
    await first.methods.setPreference('theme', null);
    await ticked(first, kept.recording, 2);
    await first.close();

    const second = await engineFor(onTestFinished, { dataFolder: folder });
    const clusters = await second.methods.listClusters();
    expect(clusters.map((c) => [c.name, c.connected, c.recording !== null])).toEqual([
      ['kept', true, true],
      ['left', false, false],
    ]);
    expect(clusters[0]!.recording).not.toBe(kept.recording);
    await ticked(second, clusters[0]!.recording!, 2);
    expect((await second.methods.getRun(kept.recording)).state).toBe('ended');
    expect(await second.methods.preferences()).toEqual({ panels: { order: ['running'], log: true } });
    // a call that only reads scrapes nothing
    await second.close();
    const idle = await engineFor(onTestFinished, { dataFolder: folder, idle: true });
    expect((await idle.methods.listClusters()).map((c) => c.connected)).toEqual([false, false]);
    expect(await idle.methods.listRuns()).toHaveLength(3);
  });
});

describe.concurrent('names', () => {
  it('of clusters and runs', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const engine = await engineFor(onTestFinished);
    const { methods } = engine;
    const unnamed = await recorded(engine, urlsOf(fake), '   ');
    expect(unnamed.name).toBe(`127.0.0.1:${fake.endpoints[0]!.port}`);
    const named = await recorded(engine, urlsOf(fake), `  ${'x'.repeat(300)}`);
    expect(named.name).toBe('x'.repeat(200));
    const runs = await methods.listRuns();
    expect(runs.find((r) => r.id === unnamed.recording)!.name).toMatch(
      /^127\.0\.0\.1:\d+ \d{4}-\d\d-\d\d \d\d:\d\d$/,
    );

    await ticked(engine, unnamed.recording, 1);
    const nameIn = (file: string) =>
      rowsOf<{ value: string }>(file, "SELECT value FROM meta WHERE key = 'name'")[0]!.value;
    const renamed = await methods.renameRun(unnamed.recording, '  lr 1e-6 ✓ ');
    expect(renamed).toMatchObject({ name: 'lr 1e-6 ✓', state: 'recording' });
    const ended = await methods.stopRecording(unnamed.id);
    expect(ended.name).toBe('lr 1e-6 ✓');
    expect(nameIn(ended.file)).toBe('lr 1e-6 ✓');
    await methods.renameRun(ended.id, 'after its end');
    expect(nameIn(ended.file)).toBe('after its end');
    expect((await methods.getRun(ended.id)).name).toBe('after its end');
    expect((await methods.listRuns()).find((r) => r.id === ended.id)!.name).toBe('after its end');
    await expect(methods.renameRun(ended.id, ' ')).rejects.toMatchObject({ kind: 'bad-input' });
    const given = await methods.startRecording(unnamed.id, ' step 12 ');
    expect(given.name).toBe('step 12');
  });
});

describe.concurrent('after a crash', () => {
  it('a run that was being written has ended unexpectedly and is whole; a new one begins', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const folder = folderFor(onTestFinished);
    const args = ['serve', '--port', '0', '--data', folder, '--interval', '0.2', '--connect'];
    const crashed = run(onTestFinished, [...args, urlsOf(fake).replace('\n', ' '), '--name', 'crash']);
    await until(() => fake.endpoints.every((e) => e.seen.requests >= 6));
    crashed.child.kill('SIGKILL');
    expect(await crashed.ended).toBe('SIGKILL');

    const engine = await engineFor(onTestFinished, { dataFolder: folder });
    expect(engine.said).toEqual([]);
    const runs = await engine.methods.listRuns();
    expect(runs.map((r) => [r.state, r.clusterName])).toEqual([
      ['recording', 'crash'],
      ['ended-unexpectedly', 'crash'],
    ]);
    const old = runs[1]!;
    expect(fs.existsSync(`${old.file}-wal`)).toBe(false);
    const ticks = ticksIn(old.file);
    expect(old.ticks).toBe(ticks.length);
    expect(old.ticks).toBeGreaterThanOrEqual(4);
    expect(old.endedAt).toBe(ticks.at(-1)!.at);
    expect(old.workers).toBe(2);
    expect(rowsOf(old.file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    const { firstAt, lastAt, workerList } = await engine.methods.getRun(old.id);
    expect([firstAt, lastAt]).toEqual([ticks[0]!.at, ticks.at(-1)!.at]);
    expect(workerList).toHaveLength(2);
    const [cluster] = await engine.methods.listClusters();
    expect(cluster!.recording).toBe(runs[0]!.id);
    await ticked(engine, runs[0]!.id, 2);
    // the stretch that was cut off ends with its last tick
    expect(rowsOf(old.file, 'SELECT ended FROM stretch')).toEqual([{ ended: old.endedAt }]);
  });
});

// the rest by itself: the clock is everybody's
it('a run that goes on after a crash goes on with later times, though the clock was set back', async ({
  onTestFinished,
}) => {
  const fake = await fakes(onTestFinished);
  const folder = folderFor(onTestFinished);
  const args = ['serve', '--port', '0', '--data', folder, '--interval', '0.2', '--connect', urlsOf(fake)];
  const crashed = run(onTestFinished, args);
  await until(() => fake.endpoints[0]!.seen.requests >= 4);
  crashed.child.kill('SIGKILL');
  await crashed.ended;
  const real = Date.now.bind(Date);
  const spy = vi.spyOn(Date, 'now').mockImplementation(() => real() - 3_600_000);
  onTestFinished(() => spy.mockRestore());
  const engine = await engineFor(onTestFinished, { dataFolder: folder, resume: true });
  const [cluster] = await engine.methods.listClusters();
  expect((await engine.methods.listRuns()).map((r) => [r.id, r.state])).toEqual([
    [cluster!.recording, 'recording'],
  ]);
  await ticked(engine, cluster!.recording!, 3);
  const { file, id } = await engine.methods.stopRecording(cluster!.id);
  const ticks = ticksIn(file);
  expect(ticks.filter(({ at }, i) => i > 0 && at <= ticks[i - 1]!.at)).toEqual([]);
  const stretches = rowsOf<{ first: number; began: number }>(file, 'SELECT * FROM stretch ORDER BY first');
  expect(stretches).toHaveLength(2);
  expect(ticks.find((t) => t.t === stretches[1]!.first)!.at).toBe(stretches[1]!.began);
  const kinds = (await engine.methods.events(id, ...everything)).map((e) => e.kind);
  expect(kinds).toContain('stretch');
});

it('a clock that is set back is an event, and the run’s times go on', async ({ onTestFinished }) => {
  const fake = await fakes(onTestFinished); // with the real one
  const real = Date.now.bind(Date);
  let back = 0;
  const spy = vi.spyOn(Date, 'now').mockImplementation(() => real() - back);
  onTestFinished(() => spy.mockRestore());
  const engine = await engineFor(onTestFinished);
  const cluster = await recorded(engine, urlsOf(fake));
  await ticked(engine, cluster.recording, 2);
  back = 3_600_000;
  const seen = engine.ticks.length;
  await until(() => engine.ticks.length >= seen + 3);
  const { file } = await engine.methods.stopRecording(cluster.id);
  const ticks = ticksIn(file);
  expect(ticks.every(({ at }, i) => i === 0 || at > ticks[i - 1]!.at)).toBe(true);
  expect(ticks.at(-1)!.t).toBeLessThan(1000);
  const events = await engine.methods.events(cluster.recording, ...everything);
  const clock = events.filter((e) => e.kind === 'clock');
  expect(clock).toHaveLength(1);
  expect(clock[0]!.detail).toMatch(/^The clock was set back by 3,(600|599) s;/);
});
