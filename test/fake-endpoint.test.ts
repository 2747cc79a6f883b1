/**
 * What the stand-in's addresses do over real HTTP: vLLM's routes and headers when well, and each fault as it says.
 * Node's plain http client is used, which hides nothing of connections and cut answers.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { Faults } from './fake-endpoint.ts';
import { startFakeCluster, type FakeCluster, type FakeClusterOptions } from './fake-vllm.ts';

vi.setConfig({ testTimeout: 30_000 }); // other work shares the machine

const clusters: FakeCluster[] = [];
const agents: Agent[] = [];
afterEach(async () => {
  for (const agent of agents.splice(0)) agent.destroy();
  await Promise.all(clusters.splice(0).map((cluster) => cluster.close()));
});

async function start(options: FakeClusterOptions = {}): Promise<FakeCluster> {
  const cluster = await startFakeCluster(options);
  clusters.push(cluster);
  return cluster;
}
async function startWith(faults: Faults, options: FakeClusterOptions = {}) {
  const cluster = await start(options);
  const endpoint = cluster.endpoints[0]!;
  endpoint.faults = faults;
  return { cluster, endpoint, url: endpoint.url };
}
function keepAlive(): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  agents.push(agent);
  return agent;
}

interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
  /** False: the connection ended before the length that was promised. */
  complete: boolean;
  ms: number;
}
function get(
  url: string,
  options: { agent?: Agent; headers?: OutgoingHttpHeaders; method?: string; timeoutMs?: number } = {},
): Promise<Answer> {
  const { timeoutMs = 5000, agent = false, ...rest } = options;
  const began = performance.now();
  return new Promise((done, failed) => {
    const outgoing = request(url, { agent, ...rest, signal: AbortSignal.timeout(timeoutMs) }, (incoming) => {
      const parts: Buffer[] = [];
      incoming.on('data', (part: Buffer) => parts.push(part));
      incoming.on('error', () => {}); // a cut body; 'close' follows
      incoming.on('close', () =>
        done({
          status: incoming.statusCode ?? 0,
          headers: incoming.headers,
          body: Buffer.concat(parts),
          complete: incoming.complete,
          ms: performance.now() - began,
        }),
      );
    });
    outgoing.on('error', failed);
    outgoing.end();
  });
}
/** How a request failed, as Node names it. */
const failure = async (url: string, options: Parameters<typeof get>[1] = {}): Promise<string> =>
  get(url, options).then(
    () => 'answered',
    (error: Error & { code?: string }) =>
      error.code === 'ABORT_ERR' ? 'timeout' : (error.code ?? error.name),
  );
const value = (body: Buffer | string, name: string): number =>
  Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'm').exec(String(body))?.[1]);

describe('an address that is well', () => {
  it("answers with vLLM's routes and headers, over one connection", async () => {
    const { endpoint, url } = await startWith({});
    const agent = keepAlive();
    const answer = await get(url, { agent, headers: { 'accept-encoding': 'gzip' } });
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('text/plain; version=1.0.0; charset=utf-8');
    expect(answer.headers['content-encoding']).toBeUndefined();
    expect(Number(answer.headers['content-length'])).toBe(answer.body.length);
    expect(Math.abs(Date.parse(answer.headers.date!) - Date.now())).toBeLessThan(2000);
    expect(answer.headers['keep-alive']).toBeUndefined();
    expect(answer.body.subarray(0, 2).toString()).toBe('# ');
    expect(answer.body.at(-1)).toBe(10);

    await get(url, { agent });
    expect(endpoint.seen.connections).toBe(1);
    expect(endpoint.seen.requests).toBe(2);
    const health = await get(url.replace('/metrics', '/health'));
    expect([health.status, health.body.length]).toEqual([200, 0]);
    for (const path of ['/', '/metrics/', '/metricsx', '/v1/models']) {
      const other = await get(url.replace('/metrics', path));
      expect([other.status, other.body.toString()]).toEqual([404, '{"detail":"Not Found"}']);
      expect(other.headers['content-type']).toBe('application/json');
    }
    expect((await get(url, { method: 'POST' })).status).toBe(405);
    expect((await get(`${url}?name[]=x`)).body.length).toBeGreaterThan(40_000);
  });

  it('has one port after the other, and workers spread over them', async () => {
    // Two more beside a free port may be taken by somebody else: then from another one.
    let cluster: FakeCluster | undefined;
    let port = 0;
    for (let attempt = 0; !cluster && attempt < 5; attempt++) {
      const free = await start();
      port = free.endpoints[0]!.port;
      await free.close();
      cluster = await start({ workers: 5, enginesPerEndpoint: 2, port }).catch(() => undefined);
    }
    if (!cluster) throw new Error('no three free ports in a row');
    expect(cluster.endpoints.map((e) => e.url)).toEqual(
      [0, 1, 2].map((i) => `http://127.0.0.1:${port + i}/metrics`),
    );
    expect(cluster.endpoints.map((e) => e.engines.map((engine) => engine.index))).toEqual([
      [0, 1],
      [0, 1],
      [0],
    ]);
    await expect(startFakeCluster({ port })).rejects.toThrow('EADDRINUSE');
  });
});

describe('a fault', () => {
  it('heals', async () => {
    const { endpoint, url } = await startWith({ status: 503 });
    expect((await get(url)).status).toBe(503);
    endpoint.faults = {};
    expect((await get(url)).status).toBe(200);
  });

  it('status: any', async () => {
    const { url } = await startWith({ status: 500 });
    const answer = await get(url);
    expect([answer.status, answer.body.toString()]).toEqual([500, 'Internal Server Error']);
  });

  it('hang: accepts and never answers', async () => {
    const { endpoint, url } = await startWith({ hang: true });
    expect(await failure(url, { timeoutMs: 300 })).toBe('timeout');
    const pending = failure(url);
    await expect.poll(() => endpoint.seen.requests).toBe(2);
    await endpoint.down();
    expect(await pending).toBe('ECONNRESET');
  });

  it('late: by a fixed time, and by the load', async () => {
    const { endpoint, url, cluster } = await startWith({ lateMs: 250 }, { warmSeconds: 4 });
    expect((await get(url)).ms).toBeGreaterThan(240);
    const load = cluster.engines[0]!.load;
    expect(load).toBeGreaterThan(30);
    endpoint.faults = { lateMsPerRequest: 5 };
    expect((await get(url)).ms).toBeGreaterThan(4 * load);
  });

  it('cut: the connection ends before the length that was promised', async () => {
    const { url } = await startWith({ cutAt: 0.5 });
    const answer = await get(url, { agent: keepAlive() });
    expect(answer.status).toBe(200);
    expect(answer.complete).toBe(false);
    expect(answer.body.length).toBe(Math.floor(Number(answer.headers['content-length']) / 2));
  });

  it('cut with a fitting length: only the body shows it', async () => {
    const { url } = await startWith({ cutFittingAt: 0.5 });
    const answer = await get(url);
    expect(answer.complete).toBe(true);
    expect(answer.body.length).toBe(Number(answer.headers['content-length']));
    expect(answer.body.length).toBeLessThan(30_000);
    expect(answer.body.at(-1)).not.toBe(10);
  });

  it('statistics off: 200 and no vllm: family', async () => {
    const { url } = await startWith({ statsOff: true });
    const { status, body } = await get(url);
    expect(status).toBe(200);
    expect(String(body)).not.toContain('vllm:');
    for (const family of ['process_start_time_seconds', 'python_info', 'http_request_duration_highr_seconds'])
      expect(String(body)).toContain(`# TYPE ${family} `);
  });

  it('garbage: a page of HTML', async () => {
    const { url } = await startWith({ garbage: true });
    const { status, headers, body } = await get(url);
    expect([status, headers['content-type']]).toEqual([200, 'text/html']);
    expect(String(body)).toMatch(/^<!doctype html>/);
  });

  it('gzip: for who accepts it', async () => {
    const { url } = await startWith({ gzip: true });
    const zipped = await get(url, { headers: { 'accept-encoding': 'deflate, gzip;q=1.0' } });
    expect(zipped.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(zipped.body).toString()).toContain('vllm:generation_tokens_total{');
    expect((await get(url)).headers['content-encoding']).toBeUndefined();
  });

  it('megabytes: as large as asked for, and still a body', async () => {
    const { url } = await startWith({ megabytes: 3 });
    const { body } = await get(url);
    expect(body.length).toBeGreaterThan(3e6);
    expect(body.length).toBeLessThan(3.01e6);
    expect(value(body, 'vllm:num_requests_running')).toBeGreaterThanOrEqual(0);
    const lines = String(body).trimEnd().split('\n');
    expect(lines.filter((line) => !/^(#|[\w:]+(\{.*\})? [-+.\dea-zA-Z]+$)/.test(line))).toEqual([]);
  });

  it('redirect: to the same address and to another one', async () => {
    const { endpoint, url } = await startWith({ redirect: 'same-origin' });
    const answer = await get(url);
    expect([answer.status, answer.headers.location]).toEqual([307, '/metrics/']);
    expect(value((await get(`${url}/`)).body, 'process_max_fds')).toBe(65535);
    endpoint.faults = { redirect: 'http://127.0.0.1:9/metrics' };
    expect((await get(url)).headers.location).toBe('http://127.0.0.1:9/metrics');
  });

  it('reset: of a connection that was kept', async () => {
    const { endpoint, url } = await startWith({ resetReused: true });
    const agent = keepAlive();
    expect((await get(url, { agent })).status).toBe(200);
    expect(await failure(url, { agent })).toBe('ECONNRESET');
    expect((await get(url, { agent })).status).toBe(200);
    expect(endpoint.seen.connections).toBe(2);
  });

  it('no date', async () => {
    const { url } = await startWith({ noDate: true });
    expect((await get(url)).headers).not.toHaveProperty('date');
  });
});

describe('an endpoint', () => {
  it('goes down and comes up on the same port; its engines went on', async () => {
    const { endpoint, url } = await startWith({}, { warmSeconds: 5 });
    const agent = keepAlive();
    const first = (await get(url, { agent })).body;
    await endpoint.down();
    expect(await failure(url)).toBe('ECONNREFUSED');
    await endpoint.up();
    const second = (await get(url, { agent })).body;
    expect(value(second, 'process_start_time_seconds')).toBe(value(first, 'process_start_time_seconds'));
    expect(value(second, 'vllm:generation_tokens_total')).toBeGreaterThan(1000);
  });

  it('restarts: refused for so long, then new', async () => {
    const { endpoint, url } = await startWith({}, { warmSeconds: 5 });
    const first = (await get(url)).body;
    const back = endpoint.restart({ downSeconds: 0.3 });
    let isBack = false;
    void back.then(() => (isBack = true));
    const seen = new Set<string>();
    while (!isBack) seen.add(await failure(url));
    expect(seen).toContain('ECONNREFUSED');
    const second = (await get(url)).body;
    expect(value(first, 'vllm:generation_tokens_total')).toBeGreaterThan(1000);
    expect(value(second, 'vllm:generation_tokens_total')).toBeLessThan(500);
    for (const name of ['process_start_time_seconds', 'vllm:generation_tokens_created'])
      expect(value(second, name)).toBeGreaterThan(value(first, name));
  });

  it('does not come back when all is over', async () => {
    const { cluster, endpoint, url } = await startWith({});
    const back = endpoint.restart({ downSeconds: 0.1 });
    await cluster.close();
    await back;
    expect(await failure(url)).toBe('ECONNREFUSED');
  });

  it('as a load balancer: two servers in turn', async () => {
    const cluster = await start({ workers: 2, warmSeconds: 5 });
    const { url } = await cluster.addLoadBalancer();
    const starts: number[] = [];
    const tokens: number[] = [];
    for (let i = 0; i < 6; i++) {
      const { body } = await get(url);
      starts.push(value(body, 'process_start_time_seconds'));
      tokens.push(value(body, 'vllm:prompt_tokens_total'));
    }
    expect(new Set(starts).size).toBe(2);
    for (let i = 2; i < 6; i++) expect(starts[i]).toBe(starts[i - 2]);
    const falls = tokens.filter((t, i) => i > 0 && t < tokens[i - 1]!);
    expect(falls.length).toBeGreaterThanOrEqual(2);
    expect(value((await get(cluster.endpoints[0]!.url)).body, 'process_start_time_seconds')).toBe(starts[0]);
  });
});

describe('the command', () => {
  const run = (...args: string[]) => {
    const entry = new URL('fake-vllm.ts', import.meta.url).pathname;
    const child = spawn(process.execPath, [entry, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    let [out, err] = ['', ''];
    child.stdout.on('data', (part: Buffer) => (out += String(part)));
    child.stderr.on('data', (part: Buffer) => (err += String(part)));
    return {
      child,
      ended: once(child, 'close').then(([code]) => ({ code: code as number, out, err })),
      out: () => out,
    };
  };

  it('prints a URL for each endpoint, serves with the faults asked for, and ends with Ctrl-C', async () => {
    const served = run(
      '--workers',
      '4',
      '--engines-per-endpoint',
      '2',
      '--port',
      '0',
      '--fault',
      '1:status=502',
    );
    while (served.out().split('\n').length < 3) await once(served.child.stdout, 'data');
    const urls = served.out().trim().split('\n');
    expect(urls).toHaveLength(2);
    expect(String((await get(urls[0]!)).body)).toContain('engine="1",model_name="qwen3-8b"');
    expect((await get(urls[1]!)).status).toBe(502);
    served.child.kill('SIGINT');
    expect((await served.ended).code).toBe(0);
  });

  it('explains itself and refuses what it does not know', async () => {
    const help = await run('--help').ended;
    expect([help.code, help.err]).toEqual([0, '']);
    expect(help.out).toContain('Example: npm run fake-vllm -- ');
    const wrong = [
      ['--wrokers', '4'],
      ['--workers', 'four'],
      ['--fault', '0:nap'],
      ['--port', '0', '--fault', '7:hang'],
    ];
    for (const { code, out, err } of await Promise.all(wrong.map((args) => run(...args).ended))) {
      expect([code, out], err).toEqual([2, '']);
      expect(err.trim()).not.toBe('');
    }
  });
});
