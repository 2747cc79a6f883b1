/**
 * One scrape against real servers on loopback: the stand-in with its faults, and small servers of node:http and
 * node:net for what no HTTP server would do by itself. What a fault must lead to is design.md's table of faults.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createScraper, type Failed, type Outcome, type Scraped } from '../electron/engine/scrape.ts';
import type { FakeEndpoint, Faults } from './fake-endpoint.ts';
import { startFakeCluster } from './fake-vllm.ts';
import { httpServer, METRICS, rawServer, serving } from './small-servers.ts';

const LONG = 20_000;
function scraperFor(url: string, options: { timeoutMs?: number; sizeLimit?: number } = {}) {
  const scraper = createScraper(url, { timeoutMs: LONG, now: Date.now, ...options });
  onTestFinished(() => scraper.close());
  return scraper;
}
const scrapeOnce = (url: string, options: { timeoutMs?: number; sizeLimit?: number } = {}) =>
  scraperFor(url, options).scrape();

function good(outcome: Outcome): Scraped {
  if (!outcome.ok) throw new Error(outcome.sentence);
  return outcome;
}
function failed(outcome: Outcome): Failed {
  if (outcome.ok) throw new Error('it answered');
  return outcome;
}

async function fakeEndpoint(faults: Faults = {}): Promise<FakeEndpoint> {
  const cluster = await startFakeCluster({ warmSeconds: 5 });
  onTestFinished(() => cluster.close());
  cluster.endpoints[0]!.faults = faults;
  return cluster.endpoints[0]!;
}

describe('an answer', () => {
  it('is given with its text, its times and the server’s own', async () => {
    const endpoint = await fakeEndpoint();
    const from = Date.now();
    const { body, text, sentAt, receivedAt, serverAt, bytes } = good(await scrapeOnce(endpoint.url));
    expect(body.workers).toHaveLength(1);
    expect(text).toContain('vllm:num_requests_running{');
    expect(bytes).toBe(text.length);
    expect(sentAt).toBeGreaterThanOrEqual(from);
    expect(receivedAt).toBeGreaterThanOrEqual(sentAt);
    expect(receivedAt).toBeLessThanOrEqual(Date.now());
    // the Date header has whole seconds
    expect(serverAt! % 1000).toBe(0);
    expect(serverAt!).toBeGreaterThan(sentAt - 1000);
    expect(serverAt!).toBeLessThanOrEqual(receivedAt);
  });

  it('without a Date header says nothing of the server’s time', async () => {
    expect(good(await scrapeOnce((await fakeEndpoint({ noDate: true })).url)).serverAt).toBeNull();
  });

  it('is asked for as Prometheus text, never as OpenMetrics', async () => {
    const endpoint = await fakeEndpoint();
    good(await scrapeOnce(endpoint.url));
    expect(endpoint.seen.headers.accept).toBe('text/plain;version=0.0.4');
    expect(endpoint.seen.headers['user-agent']).toBe('vllm-scope');
  });

  it('many come over one connection', async () => {
    const endpoint = await fakeEndpoint();
    const scraper = scraperFor(endpoint.url);
    for (let i = 0; i < 5; i++) good(await scraper.scrape());
    expect(endpoint.seen).toMatchObject({ requests: 5, connections: 1 });
  });

  it.each([
    ['gzip', gzipSync(METRICS)],
    ['deflate', deflateSync(METRICS)],
  ])('in %s is read right', async (encoding, body) => {
    const { text, bytes } = good(
      await scrapeOnce((await serving(body, { 'content-encoding': encoding })).url),
    );
    expect(text).toBe(METRICS);
    expect(bytes).toBe(METRICS.length);
  });

  it('in gzip from the stand-in is the one it gives without', async () => {
    const endpoint = await fakeEndpoint({ gzip: true });
    expect(good(await scrapeOnce(endpoint.url)).body.workers[0]!.model).toBe('qwen3-8b');
    expect(endpoint.seen.headers['accept-encoding']).toContain('gzip');
  });

  it('in OpenMetrics is taken where it ends as it must', async () => {
    const { url } = await serving(METRICS + '# EOF\n', {
      'content-type': 'application/openmetrics-text; version=1.0.0; charset=utf-8',
    });
    expect(good(await scrapeOnce(url)).body.dialect).toBe('openmetrics');
  });
});

describe('no whole answer', () => {
  it('a server that never answers: time-out, and the next scrape is well', async () => {
    const endpoint = await fakeEndpoint({ hang: true });
    const scraper = scraperFor(endpoint.url, { timeoutMs: 300 });
    expect(failed(await scraper.scrape())).toMatchObject({
      reason: 'timeout',
      sentence: `127.0.0.1:${endpoint.port} did not answer within 0.3 s.`,
    });
    endpoint.faults = {};
    good(await scraperFor(endpoint.url).scrape());
    expect(endpoint.seen.connections).toBe(2);
  });

  it('the time-out is over the whole: headers at once and then a byte now and then', async () => {
    let ended = false;
    const { url } = await httpServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      const trickle = setInterval(() => response.write('# a comment\n'), 20);
      response.on('close', () => {
        clearInterval(trickle);
        ended = true;
      });
    });
    expect(failed(await scrapeOnce(url, { timeoutMs: 400 })).reason).toBe('timeout');
    for (let i = 0; i < 200 && !ended; i++) await sleep(20);
    expect(ended).toBe(true); // and the connection is not left open
  });

  it('... over redirects too', async () => {
    const { url } = await httpServer(
      (_request, response) =>
        void sleep(150).then(() => response.writeHead(307, { location: '/metrics' }).end()),
    );
    expect(failed(await scrapeOnce(url, { timeoutMs: 400 })).reason).toBe('timeout');
  });

  it('the asker takes it back: an outcome and no exception', async () => {
    const endpoint = await fakeEndpoint({ hang: true });
    const control = new AbortController();
    const scrape = scraperFor(endpoint.url).scrape(control.signal);
    await sleep(50);
    control.abort();
    expect((await scrape).ok).toBe(false);
  });

  it('shorter than its Content-Length: cut', async () => {
    const endpoint = await fakeEndpoint({ cutAt: 0.5 });
    expect(failed(await scrapeOnce(endpoint.url))).toMatchObject({
      reason: 'cut',
      sentence: `The answer of 127.0.0.1:${endpoint.port} was cut off.`,
    });
  });

  it('a Content-Length that fits, but the text ends in the middle of a line: cut', async () => {
    const { url, name } = await serving(METRICS.slice(0, -3));
    expect(failed(await scrapeOnce(url))).toMatchObject({
      reason: 'cut',
      sentence: `The answer of ${name} ends in the middle.`,
    });
    const endpoint = await fakeEndpoint({ cutFittingAt: 0.4 });
    expect(failed(await scrapeOnce(endpoint.url)).reason).toBe('cut');
  });

  it('chunks without the last one: cut', async () => {
    const { url } = await httpServer((request, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write(METRICS, () => request.socket.destroy());
    });
    expect(failed(await scrapeOnce(url)).reason).toBe('cut');
  });

  it('OpenMetrics without its # EOF: cut, even at the end of a line', async () => {
    const { url } = await serving(METRICS, { 'content-type': 'application/openmetrics-text; version=1.0.0' });
    expect(failed(await scrapeOnce(url)).reason).toBe('cut');
  });

  it('gzip that ends early or is damaged: cut', async () => {
    const whole = gzipSync(METRICS.repeat(50));
    const early = await serving(whole.subarray(0, whole.length - 12), { 'content-encoding': 'gzip' });
    expect(failed(await scrapeOnce(early.url)).reason).toBe('cut');
    const damaged = await serving(Buffer.from(METRICS), { 'content-encoding': 'gzip' });
    expect(failed(await scrapeOnce(damaged.url)).reason).toBe('cut');
  });
});

describe('an answer that is none of vLLM’s metrics', () => {
  it.each([
    [500, 'said 500 "Internal Server Error".'],
    [503, 'said 503 "status 503".'],
    [401, 'said 401: it wants a key. Give a bearer token or a header under "Access".'],
    [403, 'said 403: it wants a key. Give a bearer token or a header under "Access".'],
  ])('status %i', async (status, sentence) => {
    const endpoint = await fakeEndpoint({ status });
    expect(failed(await scrapeOnce(endpoint.url))).toMatchObject({
      reason: 'http',
      sentence: `127.0.0.1:${endpoint.port} ${sentence}`,
    });
  });

  it('a status with a long text is told in part', async () => {
    const { url } = await serving('x \n'.repeat(10_000), {}, 502);
    const { sentence } = failed(await scrapeOnce(url));
    expect(sentence).toContain('said 502 "x x x');
    expect(sentence.length).toBeLessThan(200);
  });

  it('a page of HTML, JSON, nothing at all', async () => {
    const endpoint = await fakeEndpoint({ garbage: true });
    expect(failed(await scrapeOnce(endpoint.url))).toMatchObject({
      reason: 'not-metrics',
      sentence: `127.0.0.1:${endpoint.port} answered, but not with metrics. Is it vLLM's API server?`,
    });
    for (const body of ['{"object":"list","data":[]}\n', '', '\n'])
      expect(failed(await scrapeOnce((await serving(body)).url)).reason).toBe('not-metrics');
  });

  it('statistics that are off are not "down"', async () => {
    const endpoint = await fakeEndpoint({ statsOff: true });
    expect(failed(await scrapeOnce(endpoint.url))).toMatchObject({
      reason: 'no-vllm',
      sentence: `Statistics are off on 127.0.0.1:${endpoint.port} (--disable-log-stats?), or it has only just started.`,
    });
  });

  it('no HTTP at all', async () => {
    const ssh = await rawServer((socket) => socket.end('SSH-2.0-OpenSSH_9.6p1\r\n'));
    const { reason, sentence } = failed(await scrapeOnce(ssh.url));
    expect(reason).toBe('not-metrics');
    expect(sentence).toMatch(/^127\.0\.0\.1:\d+ does not speak HTTP \(HPE_\w+\)\. Is it the right port\?$/);
    const bytes = await rawServer((socket) => socket.end(Buffer.from([0x15, 3, 1, 0, 2, 2, 22])));
    expect(failed(await scrapeOnce(bytes.url)).reason).toBe('not-metrics');
  });
});

describe('the size limit', () => {
  it('counts after gunzip: a bomb is not unpacked', async () => {
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, '#'));
    expect(bomb.length).toBeLessThan(100_000);
    const { url, name } = await serving(bomb, { 'content-encoding': 'gzip' });
    const before = process.memoryUsage().rss;
    expect(failed(await scrapeOnce(url, { sizeLimit: 2 * 1024 * 1024 }))).toMatchObject({
      reason: 'too-large',
      sentence: `${name} answered with more than 2 MiB. Is it a metrics endpoint?`,
    });
    expect(process.memoryUsage().rss - before).toBeLessThan(48 * 1024 * 1024);
  });

  it('stops what never ends', async () => {
    const { url } = await httpServer((_request, response) => {
      const line = Buffer.alloc(65536, '# x\n');
      const more = () => {
        while (!response.destroyed && response.write(line));
      };
      response.on('drain', more);
      more();
    });
    expect(failed(await scrapeOnce(url, { sizeLimit: 1024 * 1024 })).reason).toBe('too-large');
  });

  it('a body just as long as it may be is taken', async () => {
    const { url } = await serving(METRICS);
    good(await scrapeOnce(url, { sizeLimit: METRICS.length }));
    expect(failed(await scrapeOnce(url, { sizeLimit: METRICS.length - 1 })).reason).toBe('too-large');
  });
});

describe('redirects', () => {
  it('to the same origin are followed', async () => {
    const endpoint = await fakeEndpoint({ redirect: 'same-origin' });
    good(await scrapeOnce(endpoint.url));
    expect(endpoint.seen).toMatchObject({ requests: 2, connections: 1 });
  });

  it('to another origin are refused by name, and it is not asked', async () => {
    const other = await serving(METRICS);
    const endpoint = await fakeEndpoint({ redirect: other.url });
    expect(failed(await scrapeOnce(endpoint.url))).toMatchObject({
      reason: 'http',
      sentence: `127.0.0.1:${endpoint.port} redirects to http://${other.name}. Give that address, if it is meant.`,
    });
    expect(other.seen.connections).toBe(0);
    // another scheme is another origin
    endpoint.faults = { redirect: endpoint.url.replace('http:', 'https:') };
    expect(failed(await scrapeOnce(endpoint.url)).sentence).toContain('redirects to https://');
  });

  it('that never end are given up', async () => {
    const { url, seen, name } = await httpServer((_request, response) =>
      response.writeHead(302, { location: '/metrics' }).end(),
    );
    expect(failed(await scrapeOnce(url))).toMatchObject({
      reason: 'http',
      sentence: `${name} redirects again and again.`,
    });
    expect(seen.requests).toBeLessThanOrEqual(5);
  });

  it('to what is no address are a failure and no exception', async () => {
    const { url } = await httpServer((_request, response) =>
      response.writeHead(302, { location: 'http://[' }).end(),
    );
    expect(failed(await scrapeOnce(url)).reason).toBe('http');
  });
});

describe('connections that break', () => {
  it('a reset of a kept-alive one is no fault: asked once more on a fresh one', async () => {
    const endpoint = await fakeEndpoint({ resetReused: true });
    const scraper = scraperFor(endpoint.url);
    for (let i = 0; i < 3; i++) good(await scraper.scrape());
    // the first as it is; each later one reset and asked again
    expect(endpoint.seen).toMatchObject({ requests: 5, connections: 3 });
  });

  it('... closed politely while it was idle, too', async () => {
    const endpoint = await fakeEndpoint();
    const scraper = scraperFor(endpoint.url);
    good(await scraper.scrape());
    await endpoint.down();
    await endpoint.up();
    good(await scraper.scrape());
  });

  it('a reset of a fresh one is a failure, and not asked again', async () => {
    const { url, name, seen } = await httpServer((request) => request.socket.resetAndDestroy());
    expect(failed(await scrapeOnce(url))).toMatchObject({
      reason: 'unreachable',
      sentence: `${name} closed the connection before it answered. If it speaks TLS, write https:// before it.`,
    });
    expect(seen.requests).toBe(1);
  });

  it('a second reset is a failure', async () => {
    let first = true;
    const { url, seen } = await httpServer((request, response) => {
      if (first) response.end(METRICS);
      else request.socket.resetAndDestroy();
      first = false;
    });
    const scraper = scraperFor(url);
    good(await scraper.scrape());
    expect(failed(await scraper.scrape()).reason).toBe('unreachable');
    expect(seen.requests).toBe(3);
  });

  it('nobody listens: refused', async () => {
    const endpoint = await fakeEndpoint();
    await endpoint.down();
    expect(failed(await scrapeOnce(endpoint.url))).toMatchObject({
      reason: 'refused',
      sentence: `127.0.0.1:${endpoint.port} refused the connection. Is the server up?`,
    });
  });

  it('a host that nobody knows', async () => {
    const { reason, sentence } = failed(await scrapeOnce('http://no-such-host.invalid:8000/metrics'));
    expect(reason).toBe('unreachable');
    expect(sentence).toMatch(
      /^no-such-host\.invalid:8000 (is not known: no such host|could not be looked up)/,
    );
  });
});

describe('version', () => {
  it.each([
    ['{"version":"0.32.0+cpu"}', 200, '0.32.0+cpu'],
    ['{"version":"0.32.0"}', 404, null],
    ['{"version":7}', 200, null],
    ['{"version":"<b>0.32</b>"}', 200, null],
    ['null', 200, null],
    ['<html>', 200, null],
  ])('%s with %i: %s', async (body, status, version) => {
    const { url } = await httpServer(
      (_request, response) => response.end(METRICS),
      (_request, response) => response.writeHead(status).end(body),
    );
    const scraper = createScraper(url, { timeoutMs: 2000, now: Date.now });
    expect(await scraper.version(new AbortController().signal)).toBe(version);
    scraper.close();
  });

  it('of a server that does not answer: not known, after the time limit', async () => {
    const { url } = await httpServer(
      () => {},
      () => {},
    );
    const scraper = createScraper(url, { timeoutMs: 100, now: Date.now });
    expect(await scraper.version(new AbortController().signal)).toBeNull();
    scraper.close();
  });
});
