/**
 * The contract over real WebSockets: calls, errors, chart data and events, pages and engines that go away, and frames
 * that no page of ours would send.
 */
import http from 'node:http';
import type net from 'node:net';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Ticked } from '../electron/engine/api.ts';
import { fakes, quick, ticked, until, urlsOf } from './engines.ts';
import { connect, served } from './pages.ts';

describe.concurrent('over the wire', () => {
  it('calls, errors with their kind, timelines as float arrays, events to every page', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 3 });
    const engine = await served(onTestFinished);
    const one = await connect(onTestFinished, engine.port, engine.token);
    const two = await connect(onTestFinished, engine.port, engine.token);
    const heard: [Ticked[], Ticked[]] = [[], []];
    const changes: string[] = [];
    one.client.on('ticked', (tick) => heard[0].push(tick));
    two.client.on('ticked', (tick) => heard[1].push(tick));
    two.client.on('changed', ({ what }) => changes.push(what));

    expect(await one.methods.info()).toMatchObject({ dataFolder: engine.folder, pid: process.pid });
    await expect(one.methods.getRun('none')).rejects.toMatchObject({
      kind: 'not-found',
      message: `No run "none" in ${engine.folder}.`,
    });
    const cluster = await one.methods.addCluster(quick(urlsOf(fake)));
    await ticked({ ticks: heard[0] }, cluster.recording!, 4);
    await ticked({ ticks: heard[1] }, cluster.recording!, 4);
    expect(heard[1].slice(0, 4)).toEqual(heard[0].slice(0, 4));
    expect(changes).toEqual(expect.arrayContaining(['clusters', 'runs']));

    const frames: boolean[] = [];
    one.socket.on('message', (_data, binary) => frames.push(binary));
    const lines = await one.methods.timelines({
      run: cluster.recording!,
      metrics: ['running', 'prefix_cache_hit_rate'],
      from: Date.now() - 60_000,
      to: Date.now() + 1000,
      points: 500,
    });
    expect(frames).toContain(true);
    expect(lines.times).toBeInstanceOf(Float64Array);
    expect(lines.workers).toBe(3);
    expect(lines.times.length).toBeGreaterThanOrEqual(4);
    for (const { values, average } of lines.series) {
      expect(values).toBeInstanceOf(Float32Array);
      expect(values).toHaveLength(3 * lines.times.length);
      expect(average).toHaveLength(lines.times.length);
    }
    expect(lines.series[0]!.values.some((v) => v >= 0)).toBe(true);
    await one.methods.stopRecording(cluster.id);
    expect(engine.reported).toEqual([]);
  });

  it('a call taken back is cancelled and leaves the connection as it was', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    fake.endpoints[0]!.faults = { hang: true };
    const { port, token } = await served(onTestFinished);
    const { methods } = await connect(onTestFinished, port, token);
    const control = new AbortController();
    const call = methods.check({ address: fake.endpoints[0]!.url }, control.signal).catch((e: unknown) => e);
    await until(() => fake.endpoints[0]!.seen.requests > 0);
    control.abort();
    expect(await call).toMatchObject({ kind: 'cancelled' });
    expect((await methods.info()).pid).toBe(process.pid);
  });

  it('frames that are none of the contract close that page’s connection and nothing else', async ({
    onTestFinished,
  }) => {
    const { port, token, reported } = await served(onTestFinished);
    const other = await connect(onTestFinished, port, token);
    for (const garbage of [
      'not JSON',
      '',
      'null',
      '5',
      '"text"',
      Buffer.alloc(0),
      Buffer.from([1]),
      Buffer.from([255, 255, 255, 255, 1, 2]),
      Buffer.from([4, 0, 0, 0, 110, 117, 108, 108]),
    ]) {
      const page = await connect(onTestFinished, port, token);
      page.socket.send(garbage);
      expect([String(garbage), await page.closed]).toEqual([String(garbage), 1007]);
    }
    // longer than any call of a page
    const page = await connect(onTestFinished, port, token);
    page.socket.on('error', () => {});
    page.socket.send(Buffer.alloc(5 * 1024 * 1024, 32));
    expect([1006, 1009]).toContain(await page.closed);
    // frames of the protocol that RFC 6455 forbids: unmasked
    const raw = await connect(onTestFinished, port, token);
    (raw.socket as unknown as { _socket: net.Socket })._socket.write(Buffer.from([0x81, 0x02, 0x7b, 0x7d]));
    await raw.closed;
    expect(await other.methods.listRuns()).toEqual([]);
    expect(reported).toEqual([]);
  });

  it('well-formed frames that mean nothing are answered or passed over', async ({ onTestFinished }) => {
    const { port, token, reported } = await served(onTestFinished);
    const { socket, methods } = await connect(onTestFinished, port, token);
    const answers: unknown[] = [];
    socket.on('message', (data: Buffer) => answers.push(JSON.parse(data.toString())));
    for (const frame of [
      [],
      {},
      { cancel: 77 },
      { cancel: {} },
      { id: 1, result: 5 },
      { event: 'ticked', data: null },
      { id: 2, call: 7, args: [] },
      { id: 3, call: 'constructor', args: [] },
      { id: 4, call: 'getRun', args: 'x' },
      { id: {}, call: 'none' },
    ])
      socket.send(JSON.stringify(frame));
    await methods.info();
    const refusals = answers as { id: unknown; error?: { kind: string } }[];
    expect(
      refusals
        .filter((a) => a.error)
        .map((a) => [JSON.stringify(a.id), a.error!.kind])
        .sort(),
    ).toEqual([
      ['2', 'bad-input'],
      ['3', 'bad-input'],
      ['4', 'bad-input'],
      ['{}', 'bad-input'],
    ]);
    expect(reported).toEqual([]);
  });

  it('a page that goes away takes its calls with it, and the engine goes on', async ({ onTestFinished }) => {
    const seen = { asked: 0, givenUp: 0 };
    const hanging = http.createServer((_request, response) => {
      seen.asked++;
      response.on('close', () => seen.givenUp++);
    });
    await new Promise<void>((done) => hanging.listen(0, '127.0.0.1', done));
    onTestFinished(() => void hanging.close());
    const { port, token, reported } = await served(onTestFinished);
    const page = await connect(onTestFinished, port, token);
    const address = `127.0.0.1:${(hanging.address() as AddressInfo).port}`;
    const call = page.methods.check({ address }).catch((e: unknown) => e);
    await until(() => seen.asked > 0);
    page.socket.terminate();
    expect(await call).toMatchObject({ kind: 'engine-gone' });
    // it asks no further for somebody who is not there
    await until(() => seen.givenUp > 0);
    await sleep(1000);
    expect(seen.asked).toBe(1);
    const next = await connect(onTestFinished, port, token);
    expect((await next.methods.info()).pid).toBe(process.pid);
    expect(reported).toEqual([]);
  });

  it('the engine goes: what was asked rejects, at every page', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    fake.endpoints[0]!.faults = { hang: true };
    const { port, token, closeServer } = await served(onTestFinished);
    const pages = await Promise.all([1, 2].map(() => connect(onTestFinished, port, token)));
    const calls = pages.map((p) =>
      p.methods.check({ address: fake.endpoints[0]!.url }).catch((e: unknown) => e),
    );
    await until(() => fake.endpoints[0]!.seen.requests >= 2);
    await closeServer();
    for (const call of calls) expect(await call).toMatchObject({ kind: 'engine-gone' });
    await Promise.all(pages.map((p) => p.closed));
    await expect(connect(onTestFinished, port, token)).rejects.toThrow('ECONNREFUSED');
  });
});
