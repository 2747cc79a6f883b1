/**
 * Asking with `name[]` for what the catalogue reads and no more. The stand-in restricts as prometheus_client's server
 * does: by the names of samples. What must come is what a whole answer gives, over bodies of real servers.
 */
import fs from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { honoursNames } from '../electron/engine/check.ts';
import { parse } from '../electron/engine/parse.ts';
import { askedNames, createScraper, type Outcome } from '../electron/engine/scrape.ts';
import { fakes } from './engines.ts';
import { restricted, type Faults } from './fake-endpoint.ts';
import { httpServer, METRICS, serving } from './small-servers.ts';

const options = { timeoutMs: 20_000, now: Date.now };
function scraperFor(url: string, names: boolean) {
  const scraper = createScraper(url, { ...options, names });
  onTestFinished(() => scraper.close());
  return scraper;
}
function good(outcome: Outcome) {
  if (!outcome.ok) throw new Error(outcome.sentence);
  return outcome;
}
async function endpointWith(faults: Faults) {
  // its counters stand still, so that two answers are alike
  const at = Date.now();
  const endpoint = (await fakes(onTestFinished, { warmSeconds: 60, clock: () => at })).endpoints[0]!;
  endpoint.faults = faults;
  return endpoint;
}

it.each([
  'vllm-0.5-v0-datadog.prom',
  'vllm-0.8-v1-issue318-excerpt.prom',
  'vllm-0.10-dp2-multiapiserver-pr22227-excerpt.prom',
  'made-0.10-both-names-differ.prom',
  'vllm-0.30-single-after.prom',
  'vllm-0.32-dp2-asleep.prom',
  'vllm-0.32-dp2-first.prom',
  'made-dynamo-two-workers.prom',
])('the asked part of %s says the same of its workers', (sample) => {
  const body = fs.readFileSync(new URL(`fixtures/samples/${sample}`, import.meta.url), 'latin1');
  const part = restricted(body, new Set(askedNames));
  expect(part).not.toContain('tokens_bucket{');
  expect(part.length).toBeLessThan(body.length);
  expect(parse(part).workers).toEqual(parse(body).workers);
});

it('the stand-in restricts as the real server did', () => {
  const read = (which: string) =>
    fs.readFileSync(new URL(`fixtures/names-${which}.prom`, import.meta.url), 'latin1');
  // the real one's families come in any order
  const lines = (text: string) => text.split('\n').sort();
  const whole = read('whole');
  expect(lines(restricted(whole, new Set(askedNames)))).toEqual(lines(read('asked')));
  expect(parse(read('asked')).workers).toEqual(parse(whole).workers);
});

it('less comes, and what was asked for is kept', async () => {
  const endpoint = await endpointWith({ honoursNames: true });
  const scraper = scraperFor(`${endpoint.url}?pool=a%20b`, false);
  const whole = good(await scraper.scrape());
  expect(endpoint.seen.url).toBe('/metrics?pool=a%20b');
  scraper.names = true;
  const part = good(await scraper.scrape());
  expect(endpoint.seen.url).toMatch(
    /^\/metrics\?pool=a%20b&name%5B%5D=vllm:num_requests_running&name%5B%5D=/,
  );
  expect(part.bytes).toBeLessThan(whole.bytes / 2);
  expect(part.body.workers).toEqual(whole.body.workers);
  expect(Number.isNaN(part.body.workers[0]!.created)).toBe(false);
  scraper.names = false;
  expect(good(await scraper.scrape()).text).toBe(whole.text);
  expect(endpoint.seen).toMatchObject({ requests: 3, connections: 1 });
});

it('the request line is one that proxies take', () => {
  // 8,190 bytes is Apache's and aiohttp's limit, 8 kB nginx's
  const line = askedNames.reduce((bytes, name) => bytes + `&name%5B%5D=${name}`.length, 100);
  expect(line).toBeLessThan(8000);
});

describe('that it is honoured', () => {
  it('is found out where it is', async () => {
    expect(await honoursNames((await endpointWith({ honoursNames: true })).url, options)).toBe(true);
  });

  it('is not believed of vLLM’s own server, which sends everything', async () => {
    expect(await honoursNames((await endpointWith({})).url, options)).toBe(false);
  });

  /** Answers otherwise where names are asked for. */
  const otherwise = (status: number, body: string) =>
    httpServer((request, response) => {
      const named = request.url!.includes('name%5B%5D');
      response.writeHead(named ? status : 200).end(named ? body : `${METRICS}vllm:kv_cache_usage_perc 0.5\n`);
    });

  it.each([
    ['sends nothing then, as several API processes do', 200, ''],
    ['refuses so long a request', 414, 'URI Too Long'],
    ['leaves out what is needed', 200, METRICS],
    ['sends something else', 200, 'vllm:unknown 1\n'],
  ])('... nor of a server that %s', async (_what, status, body) => {
    const { url } = await otherwise(status, body);
    expect(await honoursNames(url, options)).toBe(false);
  });

  it('... nor of a server that has nothing to leave out', async () => {
    expect(await honoursNames((await serving(METRICS)).url, options)).toBe(false);
  });

  it('... nor of one that varies by itself', async () => {
    let n = 50;
    const { url } = await httpServer((_request, response) => {
      const others = Array.from({ length: --n }, (_, i) => `vllm:other_${i} 1\n`).join('');
      response.end(METRICS + others);
    });
    expect(await honoursNames(url, options)).toBe(false);
  });

  it('... nor where nothing answers', async () => {
    const { url } = await serving('', {}, 503);
    expect(await honoursNames(url, options)).toBe(false);
  });
});
