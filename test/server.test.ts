/**
 * The engine's server over real HTTP and WebSockets, from the outside: who is let in, what is served, and that nothing
 * anybody sends ends it. Requests are written with node:http and node:net, which send any header and any path.
 */
import fs from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { Remote, Ticked } from '../electron/engine/api.ts';
import { createClient, type Client } from '../electron/engine/rpc.ts';
import { newToken, serve } from '../electron/engine/server.ts';
import { engineFor, fakes, folderFor, quick, ticked, until, urlsOf, type OnEnd } from './engines.ts';

const SECRET = 'the secret of the folder above';

function pageFolder(onEnd: OnEnd): string {
  const folder = path.join(folderFor(onEnd), 'page');
  fs.mkdirSync(path.join(folder, 'assets'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'index.html'), '<!doctype html><title>vLLM Scope</title>');
  fs.writeFileSync(path.join(folder, 'assets', 'main-1a2b.js'), 'export {};');
  fs.writeFileSync(path.join(folder, 'assets', 'style-3c4d.css'), 'body {}');
  fs.writeFileSync(path.join(folder, 'icon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
  fs.writeFileSync(path.join(folder, 'notes.txt'), 'not a part of the page');
  fs.writeFileSync(path.join(path.dirname(folder), 'secret.html'), SECRET);
  fs.mkdirSync(`${folder}-beside`);
  fs.writeFileSync(path.join(`${folder}-beside`, 'secret.html'), SECRET);
  return folder;
}

async function served(onEnd: OnEnd, options: { allowHosts?: string[]; host?: string } = {}) {
  const engine = await engineFor(onEnd, { idle: true });
  const token = newToken();
  const reported: unknown[] = [];
  const server = await serve(engine.engine, {
    host: options.host ?? '127.0.0.1',
    port: 0,
    token,
    allowHosts: options.allowHosts ?? [],
    pageFolder: pageFolder(onEnd),
    report: (bug) => reported.push(bug),
  });
  let closing: Promise<void> | null = null;
  const close = () => (closing ??= server.close());
  onEnd(close);
  return { ...engine, port: server.port, token, reported, closeServer: close };
}

interface Answer {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
}
/** One request just as it is given: the path is not made tidy, the Host header is what it is told to be. */
function ask(
  port: number,
  given: { path?: string; method?: string; headers?: http.OutgoingHttpHeaders } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    http
      .request({ host: '127.0.0.1', port, agent: false, ...given }, (reply) => {
        let text = '';
        reply.setEncoding('utf8').on('data', (part: string) => (text += part));
        reply.on('end', () => resolve({ status: reply.statusCode ?? 0, headers: reply.headers, text }));
      })
      .on('error', reject)
      .end();
  });
}
/** The first line that comes back for bytes that no HTTP client would send; '' where the connection just ends. */
function askRaw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = net.connect(port, '127.0.0.1', () => socket.end(bytes));
    socket.setEncoding('utf8').on('data', (part: string) => (text += part));
    socket.on('error', () => {}).on('close', () => resolve(text.split('\r\n', 1)[0]!));
  });
}

interface Page {
  socket: WebSocket;
  client: Client;
  methods: Remote;
  closed: Promise<number>;
}
interface Knock {
  protocols?: string[];
  host?: string;
  origin?: string;
  path?: string;
}
/** A page's connection; rejects with the status it was refused with. */
function connect(onEnd: OnEnd, port: number, token: string, knock: Knock = {}): Promise<Page> {
  const { protocols = ['vllm-scope', token], host, origin, path: where = '/ws' } = knock;
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${where}`, protocols, {
      ...(host === undefined ? {} : { headers: { host } }),
      ...(origin === undefined ? {} : { origin }),
    });
    onEnd(() => socket.terminate());
    const client = createClient((frame) => socket.send(frame));
    const closed = new Promise<number>((done) => socket.on('close', (code) => done(code)));
    socket.on('message', (data: Buffer, binary) => client.receive(binary ? data : data.toString('utf8')));
    socket.on('close', () => client.gone());
    socket.on('open', () => resolve({ socket, client, methods: client.methods, closed }));
    socket.on('unexpected-response', (_request, reply) => reject(new Error(String(reply.statusCode))));
    socket.on('error', reject);
  });
}
const refused = (promise: Promise<unknown>) =>
  promise.then(
    () => 'let in',
    (error: unknown) => (error as Error).message,
  );

describe.concurrent('the page', () => {
  it('is served with its types, for the root as for its name', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    for (const [where, type] of [
      ['/', 'text/html; charset=utf-8'],
      ['/index.html', 'text/html; charset=utf-8'],
      ['/?x=1', 'text/html; charset=utf-8'],
      ['/assets/main-1a2b.js', 'text/javascript; charset=utf-8'],
      ['/assets/style-3c4d.css', 'text/css; charset=utf-8'],
      ['/icon.svg', 'image/svg+xml'],
    ] as const) {
      const { status, headers } = await ask(port, { path: where });
      expect([where, status, headers['content-type']]).toEqual([where, 200, type]);
    }
    expect((await ask(port)).text).toContain('<title>vLLM Scope</title>');
    expect(await ask(port, { method: 'HEAD' })).toMatchObject({ status: 200, text: '' });
  });

  it('every answer denies what the page does not need', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    for (const given of [{}, { path: '/none' }, { method: 'POST' }, { headers: { host: 'evil.example' } }]) {
      const { headers } = await ask(port, given);
      const policy = Object.fromEntries(
        headers['content-security-policy']!.split('; ').map((rule) => {
          const [name, ...sources] = rule.split(' ');
          return [name, sources.join(' ')];
        }),
      );
      expect(policy).toMatchObject({
        'default-src': "'none'",
        'script-src': "'self'",
        'connect-src': "'self'",
        'base-uri': "'none'",
        'form-action': "'none'",
        'frame-ancestors': "'none'",
      });
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
      expect(headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  it('built files may be kept for ever, the page itself never unasked', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    expect((await ask(port, { path: '/assets/main-1a2b.js' })).headers['cache-control']).toContain(
      'immutable',
    );
    expect((await ask(port)).headers['cache-control']).toBe('no-cache');
  });

  it('nothing else of the disk is', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    for (const where of [
      '/../secret.html',
      '/assets/../../secret.html',
      '/..%2fsecret.html',
      '/%2e%2e/secret.html',
      '/assets/..%2f..%2fsecret.html',
      '/..\\secret.html',
      '/..%5csecret.html',
      '//secret.html',
      '/../page-beside/secret.html',
      '/assets/%2e%2e/%2e%2e/page-beside/secret.html',
      'http://x/../secret.html',
      '/etc/passwd',
      '/notes.txt', // no type of a page
      '/assets',
      '/assets/',
      '/index.html%00.js',
      '/none.html',
    ]) {
      const { status, text } = await ask(port, { path: where });
      expect([where, status]).toEqual([where, 404]);
      expect(text).not.toContain(SECRET);
    }
  });

  it('no path ends the engine', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    const host = `Host: 127.0.0.1:${port}\r\n`;
    for (const target of [
      '//',
      '///',
      '/\\',
      'http://',
      'http://[',
      '*',
      '/%',
      '/%ff',
      '?',
      '/'.repeat(5000),
    ]) {
      for (const method of ['GET', 'HEAD', 'OPTIONS'])
        await askRaw(port, `${method} ${target} HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
      const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
      await askRaw(port, `GET ${target} HTTP/1.1\r\n${host}${upgrade}\r\n`);
      await askRaw(port, `GET ${target} HTTP/1.0\r\n\r\n`);
    }
    expect((await ask(port)).status).toBe(200);
    expect(await askRaw(port, `GET // HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)).toContain(' 404 ');
  });

  it('is only read: other methods are refused', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
      expect((await ask(port, { method })).status).toBe(405);
  });
});

describe.concurrent('who is let in', () => {
  it('by the names of this machine, at any port (ssh -L changes it), and by no other', async ({
    onTestFinished,
  }) => {
    const { port, token } = await served(onTestFinished, { allowHosts: ['Box.Example'] });
    const status = async (host: string) => (await ask(port, { headers: { host } })).status;
    for (const name of ['127.0.0.1', 'localhost', '[::1]', 'LOCALHOST', 'box.example']) {
      expect([name, await status(name)]).toEqual([name, 200]);
      expect([name, await status(`${name}:1234`)]).toEqual([name, 200]);
      expect(await refused(connect(onTestFinished, port, token, { host: `${name}:1234` }))).toBe('let in');
    }
    // a name that an attacker lets point to 127.0.0.1 (DNS rebinding)
    for (const name of [
      'evil.example',
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      'evil-box.example',
      'box.example.evil.example',
      '127.0.0.2',
      '0.0.0.0',
      '[::2]',
      'a b',
    ]) {
      expect([name, await status(name)]).toEqual([name, 403]);
      expect(await refused(connect(onTestFinished, port, token, { host: name }))).toBe('403');
    }
    const { text } = await ask(port, { headers: { host: 'gpu-01:8997' } });
    expect(text).toContain('--allow-host NAME');
  });

  it('without a Host header nobody', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    expect(await askRaw(port, 'GET / HTTP/1.0\r\n\r\n')).toContain(' 403 ');
  });

  it('a page of another site is not, though it knows the port', async ({ onTestFinished }) => {
    const { port, token } = await served(onTestFinished);
    const own = `http://127.0.0.1:${port}`;
    for (const origin of [
      'http://evil.example',
      'https://127.0.0.1',
      `https://127.0.0.1:${port}`,
      `http://localhost:${port}`, // another name is another origin
      `http://127.0.0.1:${port + 1}`,
      `${own}.evil.example`,
      'null',
    ])
      expect([origin, await refused(connect(onTestFinished, port, token, { origin }))]).toEqual([
        origin,
        '403',
      ]);
    expect(await refused(connect(onTestFinished, port, token, { origin: own }))).toBe('let in');
    expect(await refused(connect(onTestFinished, port, token))).toBe('let in'); // the command line sends none
  });

  it('only with the token, at the upgrade', async ({ onTestFinished }) => {
    const { port, token } = await served(onTestFinished);
    for (const protocols of [
      ['vllm-scope'],
      ['vllm-scope', 'x'],
      ['vllm-scope', token.slice(0, -1)],
      ['vllm-scope', `${token}0`],
      ['vllm-scope', token.toUpperCase()],
      ['vllm-scope', newToken()],
      ['vllm-scope', 'x', token],
      [token],
      [token, 'vllm-scope'],
      ['other', token],
      [],
    ])
      expect([protocols, await refused(connect(onTestFinished, port, token, { protocols }))]).toEqual([
        protocols,
        '401',
      ]);
    const { socket } = await connect(onTestFinished, port, token);
    expect(socket.protocol).toBe('vllm-scope'); // never the token back
    expect(token).toMatch(/^[0-9a-f]{32}$/);
  });

  it('only where the contract is', async ({ onTestFinished }) => {
    const { port, token } = await served(onTestFinished);
    for (const where of ['/', '/wss', '/ws/x', '//ws'])
      expect(await refused(connect(onTestFinished, port, token, { path: where }))).toBe('404');
    expect((await ask(port, { path: '/ws' })).status).toBe(404);
  });
});

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
    const call = methods.check(fake.endpoints[0]!.url, control.signal).catch((e: unknown) => e);
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
    const fake = await fakes(onTestFinished);
    fake.endpoints[0]!.faults = { hang: true };
    const { port, token, reported } = await served(onTestFinished);
    const page = await connect(onTestFinished, port, token);
    const call = page.methods.check(fake.endpoints[0]!.url).catch((e: unknown) => e);
    await until(() => fake.endpoints[0]!.seen.requests > 0);
    page.socket.terminate();
    expect(await call).toMatchObject({ kind: 'engine-gone' });
    const next = await connect(onTestFinished, port, token);
    expect((await next.methods.info()).pid).toBe(process.pid);
    expect(reported).toEqual([]);
  });

  it('the engine goes: what was asked rejects, at every page', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    fake.endpoints[0]!.faults = { hang: true };
    const { port, token, closeServer } = await served(onTestFinished);
    const pages = await Promise.all([1, 2].map(() => connect(onTestFinished, port, token)));
    const calls = pages.map((p) => p.methods.check(fake.endpoints[0]!.url).catch((e: unknown) => e));
    await until(() => fake.endpoints[0]!.seen.requests >= 2);
    await closeServer();
    for (const call of calls) expect(await call).toMatchObject({ kind: 'engine-gone' });
    await Promise.all(pages.map((p) => p.closed));
    await expect(ask(port)).rejects.toThrow('ECONNREFUSED');
  });
});

it.concurrent('a port that is taken is a sentence that says what to do', async ({ onTestFinished }) => {
  const { port, engine } = await served(onTestFinished);
  const options = { host: '127.0.0.1', token: 't', allowHosts: [], pageFolder: '/', report: () => {} };
  await expect(serve(engine, { ...options, port })).rejects.toMatchObject({
    kind: 'bad-input',
    message: `Port ${port} is taken. Is vLLM Scope running already? Choose another with --port (0: any).`,
  });
});
