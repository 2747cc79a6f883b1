/**
 * One GET of one endpoint, with its outcome: kept-alive connections, a time limit over the whole of it, a size limit
 * counted after gunzip, redirects to the same origin only. Never throws; a failure is an outcome with a sentence that
 * says what to do.
 */
import http from 'node:http';
import https from 'node:https';
import { createGunzip, createInflate } from 'node:zlib';
import type { Readable } from 'node:stream';
import type { OutcomeReason } from './api.ts';
import { endpointName } from './addresses.ts';
import { parse, type ParsedBody } from './parse.ts';

export interface Scraped {
  ok: true;
  body: ParsedBody;
  /** The text as it came, latin1. */
  text: string;
  sentAt: number;
  receivedAt: number;
  /** The reply's Date header, epoch ms; null: none. */
  serverAt: number | null;
  bytes: number;
}
export interface Failed {
  ok: false;
  reason: OutcomeReason;
  sentence: string;
  sentAt: number;
  receivedAt: number;
}
export type Outcome = Scraped | Failed;

export interface ScrapeOptions {
  timeoutMs: number;
  /** The engine's clock. */
  now: () => number;
  /** Bytes after gunzip; default 32 MiB. */
  sizeLimit?: number;
}

export interface Scraper {
  scrape(signal?: AbortSignal): Promise<Outcome>;
  close(): void;
}

const SIZE_LIMIT = 32 * 1024 * 1024;
const REDIRECTS = 3;

/** A failure on its way to becoming an outcome. */
class Failure extends Error {
  readonly reason: OutcomeReason;
  constructor(reason: OutcomeReason, sentence: string) {
    super(sentence);
    this.reason = reason;
  }
}

/** Keeps one connection to one endpoint. One scrape at a time. */
export function createScraper(
  url: string,
  { timeoutMs, now, sizeLimit = SIZE_LIMIT }: ScrapeOptions,
): Scraper {
  const name = endpointName(url);
  const secure = url.startsWith('https:');
  const agent = secure
    ? new https.Agent({ keepAlive: true, maxSockets: 1 })
    : new http.Agent({ keepAlive: true, maxSockets: 1 });

  const get = (target: string, signal: AbortSignal) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      const request = (secure ? https : http).get(target, {
        agent,
        signal,
        headers: {
          // never OpenMetrics: Python servers then write two spellings of a name (client_python #1177)
          accept: 'text/plain;version=0.0.4',
          'accept-encoding': 'gzip, deflate',
          'user-agent': 'vllm-scope',
        },
      });
      request.on('response', resolve);
      request.on('error', (error: NodeJS.ErrnoException) =>
        reject(Object.assign(error, { reused: request.reusedSocket })),
      );
    });

  /** The reply to the last of a few redirects. A reset of a reused connection is no fault: it is tried once more. */
  const follow = async (signal: AbortSignal) => {
    let target = url;
    for (let redirects = 0; ; redirects++) {
      let reply: http.IncomingMessage;
      try {
        reply = await get(target, signal);
      } catch (error) {
        const { reused, code } = error as NodeJS.ErrnoException & { reused?: boolean };
        if (!reused || (code !== 'ECONNRESET' && code !== 'EPIPE')) throw error;
        reply = await get(target, signal);
      }
      const status = reply.statusCode ?? 0;
      if (status < 300 || status >= 400 || !reply.headers.location) return reply;
      reply.resume();
      if (!URL.canParse(reply.headers.location, target))
        throw new Failure('http', `${name} redirects to what is no address.`);
      const next = new URL(reply.headers.location, target);
      if (next.origin !== new URL(url).origin)
        throw new Failure('http', `${name} redirects to ${next.origin}. Give that address, if it is meant.`);
      if (redirects === REDIRECTS) throw new Failure('http', `${name} redirects again and again.`);
      target = next.href;
    }
  };

  const read = async (reply: http.IncomingMessage): Promise<Buffer> => {
    const encoding = reply.headers['content-encoding'];
    let stream: Readable = reply;
    if (encoding === 'gzip') stream = reply.pipe(createGunzip());
    else if (encoding === 'deflate') stream = reply.pipe(createInflate());
    if (stream !== reply) reply.on('error', (error) => stream.destroy(error));
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > sizeLimit) {
        reply.destroy();
        throw new Failure(
          'too-large',
          `${name} answered with more than ${Math.round(sizeLimit / 1048576)} MiB. Is it a metrics endpoint?`,
        );
      }
    }
    return Buffer.concat(chunks);
  };

  const scrape = async (given?: AbortSignal): Promise<Outcome> => {
    const sentAt = now();
    // the whole of it, redirects and body included
    const limit = AbortSignal.timeout(timeoutMs);
    const signal = given ? AbortSignal.any([given, limit]) : limit;
    try {
      const reply = await follow(signal);
      const bytes = await read(reply);
      const receivedAt = now();
      const text = bytes.toString('latin1');
      const status = reply.statusCode ?? 0;
      if (status !== 200) throw new Failure('http', httpSentence(name, status, text));
      if (!reply.complete) throw new Failure('cut', `The answer of ${name} was cut off.`);
      const body = parse(text);
      check(name, text, body, reply.headers['content-type'] ?? '');
      const date = Date.parse(reply.headers.date ?? '');
      const serverAt = Number.isNaN(date) ? null : date;
      return { ok: true, body, text, sentAt, receivedAt, serverAt, bytes: bytes.length };
    } catch (error) {
      const failure = error instanceof Failure ? error : fromNetwork(name, error, limit.aborted, timeoutMs);
      return { ok: false, reason: failure.reason, sentence: failure.message, sentAt, receivedAt: now() };
    }
  };

  return { scrape, close: () => agent.destroy() };
}

/** Whether a 200 is what it should be; throws the failure it is otherwise. */
function check(name: string, text: string, body: ParsedBody, type: string): void {
  if (body.samples === 0 || /^\s*[<{]/.test(text.slice(0, 64)))
    throw new Failure('not-metrics', `${name} answered, but not with metrics. Is it vLLM's API server?`);
  if (!body.complete || (type.includes('openmetrics') && body.dialect !== 'openmetrics'))
    throw new Failure('cut', `The answer of ${name} ends in the middle.`);
  if (body.names.size === 0) throw new Failure('no-vllm', noVllmSentence(name, text));
}

const others: [RegExp, string][] = [
  [/^sglang[:_]/m, 'SGLang'],
  [/^(?:trtllm_|nv_trt_llm_)/m, 'TensorRT-LLM'],
  [/^dynamo_/m, 'NVIDIA Dynamo'],
  [/^ray_/m, 'Ray'],
];

/** A 200 without any `vllm:` metric: statistics are off, or it is something else. */
export function noVllmSentence(name: string, text: string): string {
  const other = others.find(([family]) => family.test(text));
  if (other) return `${name} is no vLLM: its metrics are those of ${other[1]}.`;
  if (/^(?:process_|python_|http_)/m.test(text))
    return `Statistics are off on ${name} (--disable-log-stats?), or it has only just started.`;
  return `${name} answers with metrics, but none of vLLM.`;
}

function httpSentence(name: string, status: number, text: string): string {
  if (status === 404)
    return `${name} said 404: it serves no /metrics there. Is it vLLM's own server (a NeMo RL worker serves none)?`;
  if (status === 401 || status === 403) return `${name} said ${status}: it wants a key or a header.`;
  const said = Buffer.from(text, 'latin1').toString('utf8').replace(/\s+/g, ' ').trim().slice(0, 100);
  return `${name} said ${status}${said ? ` "${said}"` : ''}.`;
}

const unreachable: Record<string, string> = {
  ENOTFOUND: 'is not known: no such host',
  EAI_AGAIN: 'could not be looked up: the name server does not answer',
  EHOSTUNREACH: 'cannot be reached: no route to the host',
  ENETUNREACH: 'cannot be reached: no route to its network',
  ECONNRESET: 'closed the connection before it answered',
  EPIPE: 'closed the connection before it answered',
};

function fromNetwork(name: string, error: unknown, timedOut: boolean, timeoutMs: number): Failure {
  const { code, message } = error as NodeJS.ErrnoException;
  if (timedOut || code === 'ETIMEDOUT')
    return new Failure('timeout', `${name} did not answer within ${timeoutMs / 1000} s.`);
  if (code === 'ECONNREFUSED')
    return new Failure('refused', `${name} refused the connection. Is the server up?`);
  if (message === 'aborted') return new Failure('cut', `The answer of ${name} was cut off.`);
  if (code?.startsWith('HPE_'))
    return new Failure('not-metrics', `${name} does not speak HTTP (${code}). Is it the right port?`);
  if (code?.startsWith('Z_')) return new Failure('cut', `The compressed answer of ${name} is damaged.`);
  if (code && unreachable[code]) return new Failure('unreachable', `${name} ${unreachable[code]}.`);
  return new Failure('unreachable', `${name} cannot be reached: ${message || code || 'unknown fault'}.`);
}
