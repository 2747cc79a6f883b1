/**
 * What stands behind an address, in words: reachable or why not, workers, which of the catalogue is there, and what a
 * user should know. Takes a URL (three scrapes: several servers behind one address show themselves) or a saved body.
 */
import fs from 'node:fs';
import type { CheckReport } from './api.ts';
import { endpointName, parseAddress, type Login } from './addresses.ts';
import { columns } from './catalogue.ts';
import { EngineError, sentenceOf } from './errors.ts';
import { parse, type ParsedBody, type ParsedWorker } from './parse.ts';
import { noVllm } from './scrape-faults.ts';
import { createScraper, namesOf, type Failed, type ScrapeOptions, type Scraped } from './scrape.ts';

const SCRAPES = 3;
const PAUSE_MS = 300;
const TIMEOUT_MS = 5000;

/** What to ask, and how. */
export interface CheckTarget {
  url: string;
  timeoutMs: number;
  headers: Record<string, string>;
  login: Login | null;
  /** PEM. */
  ca: string | null;
}

/** As checkTarget, with nothing but what stands in the address. Throws `bad-input` for what is none. */
export async function checkUrl(address: string, signal?: AbortSignal): Promise<CheckReport> {
  const { url, login } = parseAddress(address);
  return checkTarget({ url, login, timeoutMs: TIMEOUT_MS, headers: {}, ca: null }, signal);
}

/** Never throws for what a server does; throws `cancelled` after `signal`. */
export async function checkTarget(
  { url, ...access }: CheckTarget,
  signal?: AbortSignal,
): Promise<CheckReport> {
  const options: ScrapeOptions = { ...access, now: Date.now };
  const answers: Scraped[] = [];
  let failed: Failed | null = null;
  let asked = 0;
  for (let i = 0; i < SCRAPES; i++) {
    if (i > 0) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    // a connection of its own each time: a load balancer chooses by connection
    const scraper = createScraper(url, options);
    asked++;
    const outcome = await scraper.scrape(signal);
    scraper.close();
    if (signal?.aborted) throw new EngineError('cancelled', 'Cancelled.');
    if (outcome.ok) answers.push(outcome);
    else failed = outcome;
    // nobody is there: asking twice more would only cost two more time-outs
    if (!outcome.ok && ['refused', 'unreachable', 'timeout'].includes(outcome.reason)) break;
  }
  const last = answers.at(-1);
  if (!last)
    return {
      ...nothing(url),
      // it does answer, only not with what is wanted
      reachable:
        failed !== null && ['http', 'not-metrics', 'no-vllm', 'cut', 'too-large'].includes(failed.reason),
      reason: failed?.reason ?? null,
      error: failed?.sentence ?? null,
      server: failed?.server ?? null,
      findings: failed ? [failed.sentence] : [],
    };
  const report = describe(url, last.body, last.text);
  const took = answers.map((a) => a.receivedAt - a.sentAt).sort((a, b) => a - b);
  if (failed)
    report.findings.push(`${asked - answers.length} of ${asked} scrapes failed: ${failed.sentence}`);
  if (several(answers.map((a) => a.body)))
    report.findings.push(
      `Several servers behind ${endpointName(url)}: start times or counters jump back between scrapes. Give each server's own address.`,
    );
  const restricts = await honoursNames(url, options, signal);
  if (signal?.aborted) throw new EngineError('cancelled', 'Cancelled.');
  return {
    ...report,
    restricts,
    roundTripSeconds: took[Math.floor(took.length / 2)]! / 1000,
    bytes: last.bytes,
  };
}

/**
 * Whether asking with `name[]` gives all that the catalogue reads and nothing else. vLLM's own server ignores it and
 * sends everything; a registry of several processes sends nothing at all. False also where nothing answers.
 */
export async function honoursNames(
  url: string,
  options: ScrapeOptions,
  signal?: AbortSignal,
): Promise<boolean> {
  // over one connection, so that a load balancer does not compare two servers
  const scraper = createScraper(url, { ...options, names: false });
  try {
    const whole = await scraper.scrape(signal);
    scraper.names = true;
    const part = whole.ok ? await scraper.scrape(signal) : whole;
    if (!whole.ok || !part.ok || part.body.samples >= whole.body.samples) return false;
    return (
      namesOf(part.body, 'others').length === 0 &&
      namesOf(whole.body, 'asked').every((name) => part.body.names.has(name))
    );
  } finally {
    scraper.close();
  }
}

/** The same for a saved body. Throws `not-found` for a file that cannot be read. */
export function checkFile(file: string): CheckReport {
  let bytes: Buffer;
  try {
    bytes = fs.readFileSync(file);
  } catch (error) {
    throw new EngineError('not-found', `${file} cannot be read: ${sentenceOf(error)}`);
  }
  const text = bytes.toString('latin1');
  return { ...describe(file, parse(text), text), bytes: bytes.length };
}

const nothing = (address: string): CheckReport => ({
  address,
  reachable: false,
  reason: null,
  error: null,
  dialect: null,
  generation: null,
  server: null,
  restricts: null,
  workers: [],
  absent: [],
  badLines: 0,
  findings: [],
  roundTripSeconds: null,
  bytes: null,
});

function describe(address: string, body: ParsedBody, text: string): CheckReport {
  const findings: string[] = [];
  const name = address.startsWith('http') ? endpointName(address) : address;
  const { names } = body;
  let server: string | null = names.size > 0 ? 'vLLM' : null;
  if (body.samples === 0) findings.push(`${name} holds no metrics.`);
  else if (names.size === 0) {
    const other = noVllm(name, text);
    findings.push(other.sentence);
    server = other.server;
  } else if (body.workers.length === 0)
    findings.push(
      `vLLM's names are there, but none that is recorded. A server that is starting shows the rest later: check it again then.`,
    );
  if (!body.complete) findings.push('The text ends in the middle of a line: it was cut off. Save it again.');
  if (body.badLines > 0)
    findings.push(
      `${body.badLines} ${body.badLines === 1 ? 'line' : 'lines'} could not be read: what they say is missing.`,
    );
  for (const [old, now] of renames)
    if (names.has(old) && !names.has(now))
      findings.push(`Old name ${old} (now ${now}): read into the same column.`);
  const pids = /^vllm[:_]\w*\{[^}]*pid="/m.test(text);
  if (pids)
    findings.push('Several API processes report the same gauge (label pid): the greatest value is taken.');
  return {
    ...nothing(address),
    reachable: true,
    dialect: body.dialect,
    generation: generationOf(body),
    server,
    workers: body.workers.map((w) => ({
      engine: w.engine,
      model: w.model,
      replica: w.replica,
      labels: w.labels,
      values: valuesOf(w),
    })),
    absent: columns.filter((_, i) => body.workers.every((w) => Number.isNaN(w.values[i]!))).map((c) => c.id),
    badLines: body.badLines,
    findings,
  };
}

const valuesOf = (w: ParsedWorker) =>
  Object.fromEntries(columns.flatMap((c, i) => (Number.isNaN(w.values[i]!) ? [] : [[c.id, w.values[i]!]])));

const renames: [old: string, now: string][] = [
  ['gpu_cache_usage_perc', 'kv_cache_usage_perc'],
  ['gpu_prefix_cache_queries_total', 'prefix_cache_queries_total'],
  ['gpu_prefix_cache_hits_total', 'prefix_cache_hits_total'],
  ['time_per_output_token_seconds_sum', 'inter_token_latency_seconds_sum'],
  ['time_in_queue_requests_sum', 'request_queue_time_seconds_sum'],
];

/** Which vLLM wrote this, by the names that came and went (docs/metrics.md has the table). */
function generationOf({ names, dialect }: ParsedBody): string | null {
  const has = (name: string) => names.has(name);
  if (names.size === 0) return null;
  if (has('num_requests_swapped') || has('cpu_cache_usage_perc')) return 'V0 (up to 0.9.0)';
  const old = has('gpu_cache_usage_perc');
  if (old && has('kv_cache_usage_perc')) return '0.9.2 to 0.11 (old and new cache names)';
  if (old) return 'V1 up to 0.9.1 (old cache names)';
  const since: [string, string][] = [
    ['request_num_preemptions_count', '0.30 or later'],
    ['num_requests_waiting_by_reason', '0.20 or later'],
    ['prompt_tokens_cached_total', '0.16 or later'],
    ['engine_sleep_state', '0.11.1 or later'],
    ['inter_token_latency_seconds_count', '0.10.2 or later'],
    ['kv_cache_usage_perc', '0.9.2 or later'],
  ];
  const found = since.find(([name]) => has(name))?.[1] ?? 'unknown';
  return dialect === 'openmetrics' ? `${found} (OpenMetrics: the Rust frontend, or negotiated)` : found;
}

/** Whether start times or counters of one worker jump back between bodies. */
function several(bodies: ParsedBody[]): boolean {
  const key = (w: ParsedWorker) => JSON.stringify([w.engine, w.model, w.replica]);
  return bodies.some((body, i) => {
    const before = bodies[i - 1];
    if (!before) return false;
    const known = new Map(before.workers.map((w) => [key(w), w]));
    return body.workers.some((now) => {
      const then = known.get(key(now));
      if (!then) return false;
      return (
        now.created < then.created - 1 ||
        columns.some(
          (c, n) =>
            (c.kind === 'counter' || c.id === 'process_start') && now.values[n]! < then.values[n]! - 1e-6,
        )
      );
    });
  });
}
