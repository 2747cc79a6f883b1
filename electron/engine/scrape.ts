/**
 * One GET of one endpoint, with its outcome: kept-alive connections, a time limit over the whole of it, a size limit
 * counted after gunzip, redirects to the same origin only, the system's authorities beside Node's own. Never throws; a
 * failure is an outcome with a sentence that says what to do (scrape-faults.ts).
 */
import http from 'node:http';
import https from 'node:https';
import tls from 'node:tls';
import { createGunzip, createInflate } from 'node:zlib';
import type { Readable } from 'node:stream';
import type { OutcomeReason } from './api.ts';
import { endpointName, type Login } from './addresses.ts';
import { bucketSources, columnSources } from './catalogue.ts';
import { parse, type ParsedBody } from './parse.ts';
import { checkBody, Failure, networkFailure, statusFailure, type Asked } from './scrape-faults.ts';

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
  /** Whose metrics came instead, as in CheckReport; null: nobody's that is known. */
  server: string | null;
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
  /** Sent with every request; redirects stay in the origin, so nobody else gets them. */
  headers?: Record<string, string>;
  /** Basic authorization, unless the headers have one. */
  login?: Login | null;
  /** PEM: authorities to trust beside Node's own and the system's. */
  ca?: string | null;
  /** See Scraper.names. */
  names?: boolean;
}

export interface Scraper {
  /** Ask with `name[]` for what the catalogue reads, and nothing else. Who does not know it sends everything. */
  names: boolean;
  scrape(signal?: AbortSignal): Promise<Outcome>;
  /** What vLLM's own server says of itself at /version, beside /metrics; null: nothing. Never throws. */
  version(signal: AbortSignal): Promise<string | null>;
  close(): void;
}

const SIZE_LIMIT = 32 * 1024 * 1024;
const REDIRECTS = 3;

/**
 * Every sample that parse.ts reads. With `vllm:` only: that is how prometheus_client's registry, which honours `name[]`,
 * has them under every spelling that it may write (and the query stays below the 8 kB that proxies take). Where this
 * leaves out what matters, nothing of vLLM comes at all.
 */
export const askedNames: readonly string[] = [
  ...new Set([
    ...columnSources.flatMap(({ id, kind, names }) =>
      id === 'process_start'
        ? names
        : names.flatMap((name) => [
            `vllm:${name}`,
            ...(kind === 'counter' ? [`vllm:${name.replace(/_(total|sum|count)$/, '')}_created`] : []),
          ]),
    ),
    ...bucketSources.flatMap(({ names }) => names.map((name) => `vllm:${name}`)),
  ]),
];
const namesQuery = askedNames.map((name) => `name%5B%5D=${name}`).join('&');
const unprefixed = new Set(askedNames.map((name) => name.replace(/^vllm:/, '')));

/** Names of a body that are asked for (see askedNames), or those that are not; without prefix. */
export const namesOf = ({ names }: ParsedBody, wanted: 'asked' | 'others'): string[] =>
  [...names].filter((name) => unprefixed.has(name) === (wanted === 'asked'));

function withNames(url: string): string {
  const asked = new URL(url);
  asked.search = [asked.search.slice(1), namesQuery].filter((part) => part !== '').join('&');
  return asked.href;
}

/** Node's and the system's authorities: read once, since that takes a tenth of a second. */
let authorities: string[] | undefined;
/** By CA file; making one of hundreds of authorities takes as long again, and each connection would. */
const contexts = new Map<string, tls.SecureContext>();

/** Of the authorities of the system, of Node and of `ca` (PEM; null: none). */
export function contextFor(ca: string | null): tls.SecureContext {
  const known = contexts.get(ca ?? '');
  if (known) return known;
  authorities ??= [...new Set([...tls.getCACertificates('default'), ...tls.getCACertificates('system')])];
  const context = tls.createSecureContext({ ca: ca === null ? authorities : [...authorities, ca] });
  if (contexts.size >= 20) contexts.clear();
  contexts.set(ca ?? '', context);
  return context;
}

const basic = ({ user, password }: Login) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

/** Names in another case are the same to Node; the last one counts. */
const headersFor = (given: Record<string, string>, login: Login | null): Record<string, string> => ({
  'user-agent': 'vllm-scope',
  ...(login && { authorization: basic(login) }),
  ...given,
  // never OpenMetrics: Python servers then write two spellings of a name (client_python #1177)
  accept: 'text/plain;version=0.0.4',
  'accept-encoding': 'gzip, deflate',
});

/** In words, without the secret itself. */
function secretIn(given: Record<string, string>, login: Login | null): string | null {
  const names = Object.keys(given);
  if (names.some((name) => /^authorization$/i.test(name))) return 'the header Authorization that was given';
  if (login) return 'the user and password that were given';
  return names.length > 0 ? `the headers that were given (${names.join(', ').slice(0, 100)})` : null;
}

/**
 * A server's words (as latin1) without what it was sent to let us in: some say it back, and sentences are kept with the
 * run. What is shorter than three characters is no secret, and would be found in any word.
 */
function hushed(text: string, given: Record<string, string>, login: Login | null): string {
  const sent = [...Object.values(given), ...(login ? [basic(login), login.password] : [])];
  return sent
    .flatMap((value) => [value, value.replace(/^\w+ +/, '')]) // behind "Bearer" too
    .filter((secret) => secret.length > 2)
    .reduce((rest, secret) => rest.replaceAll(Buffer.from(secret).toString('latin1'), '***'), text);
}

/** Keeps one connection to one endpoint. One scrape at a time. */
export function createScraper(url: string, options: ScrapeOptions): Scraper {
  const { timeoutMs, now, sizeLimit = SIZE_LIMIT, headers: given = {}, login = null, ca = null } = options;
  const name = endpointName(url);
  const asked: Asked = { name, url, timeoutMs, secret: secretIn(given, login), ca: ca !== null };
  const secure = url.startsWith('https:');
  const headers = headersFor(given, login);
  let agent: http.Agent | undefined;

  const get = (target: string, signal: AbortSignal) =>
    new Promise<http.IncomingMessage>((resolve, reject) => {
      agent ??= secure
        ? new https.Agent({ keepAlive: true, maxSockets: 1, secureContext: contextFor(ca) })
        : new http.Agent({ keepAlive: true, maxSockets: 1 });
      const request = (secure ? https : http).get(target, { agent, signal, headers });
      request.on('response', resolve);
      request.on('error', (error: NodeJS.ErrnoException) =>
        reject(Object.assign(error, { reused: request.reusedSocket })),
      );
    });

  /** The reply to the last of a few redirects. A reset of a reused connection is no fault: it is tried once more. */
  const follow = async (signal: AbortSignal) => {
    let target = scraper.names ? withNames(url) : url;
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

  const scrape = async (stop?: AbortSignal): Promise<Outcome> => {
    const sentAt = now();
    // the whole of it, redirects and body included
    const limit = AbortSignal.timeout(timeoutMs);
    const signal = stop ? AbortSignal.any([stop, limit]) : limit;
    try {
      const reply = await follow(signal);
      const bytes = await read(reply);
      const receivedAt = now();
      const text = bytes.toString('latin1');
      const status = reply.statusCode ?? 0;
      if (status !== 200) {
        const said = hushed(text, given, login);
        throw statusFailure(asked, status, said, reply.headers['www-authenticate']);
      }
      if (!reply.complete) throw new Failure('cut', `The answer of ${name} was cut off.`);
      const body = parse(text);
      checkBody(asked, text, body, reply.headers['content-type'] ?? '');
      const date = Date.parse(reply.headers.date ?? '');
      const serverAt = Number.isNaN(date) ? null : date;
      return { ok: true, body, text, sentAt, receivedAt, serverAt, bytes: bytes.length };
    } catch (error) {
      const failure = error instanceof Failure ? error : networkFailure(asked, error, limit.aborted);
      const { reason, server, message: sentence } = failure;
      return { ok: false, reason, server, sentence, sentAt, receivedAt: now() };
    }
  };

  const version = async (given: AbortSignal): Promise<string | null> => {
    const signal = AbortSignal.any([given, AbortSignal.timeout(timeoutMs)]);
    // a connection of its own: no scrape waits for it
    const once = secure ? { secureContext: contextFor(ca) } : {};
    try {
      const reply = await new Promise<http.IncomingMessage>((resolve, reject) => {
        (secure ? https : http)
          .get(new URL('version', url), { agent: false, signal, headers, ...once }, resolve)
          .on('error', reject);
      });
      const said = JSON.parse((await read(reply)).toString('utf8')) as { version?: unknown } | null;
      const found = reply.statusCode === 200 ? said?.version : null;
      return typeof found === 'string' && /^[\w.+-]{1,80}$/.test(found) ? found : null;
    } catch {
      return null;
    }
  };

  const scraper = { version, names: options.names ?? false, scrape, close: () => agent?.destroy() };
  return scraper;
}
