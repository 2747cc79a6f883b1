/**
 * One request to W&B or to the storage behind it. The API key goes to the configured server and nowhere else: not to
 * addresses of storage, not along a redirect, which is never followed. Certificates are those of the system and a CA
 * file; there is no way to switch their check off.
 */
import http from 'node:http';
import https from 'node:https';
import { networkFailure } from '../scrape-faults.ts';
import { contextFor } from '../scrape.ts';
import type { ApiKey } from './account.ts';
import { ownError, PROXY_LOGIN, WandbError } from './errors.ts';
import type { Connection } from './contract.ts';

export interface HttpRequest {
  method: 'POST' | 'PUT';
  /** A path below the base URL, or a whole address. */
  url: string;
  headers?: Readonly<Record<string, string>>;
  body: string | Uint8Array;
  /** Send the API key along; only for paths below the base URL. */
  authorized: boolean;
  /** Over the whole of it, connecting and the answer's body included. */
  timeoutMs: number;
  signal: AbortSignal;
}

export interface HttpReply {
  status: number;
  /** By lower-case names. */
  headers: http.IncomingHttpHeaders;
  text: string;
}

export interface Http {
  readonly baseUrl: string;
  /**
   * Any answer, whatever its status. Throws a WandbError of kind network, tls, proxy or refused, or the signal's
   * reason.
   */
  request(request: HttpRequest): Promise<HttpReply>;
  close(): void;
}

/** Answers are short, but for histories that are read back. */
const SIZE_LIMIT = 64 * 1024 * 1024;
/** For a proxy that takes the connection and then says nothing; the request's own signal does not reach that. */
const TUNNEL_MS = 30_000;
const FILES_AT_ONCE = 8;

/** Keeps connections until it is closed. Throws a WandbError for a proxy of another kind than HTTP. */
export function createHttp(connection: Connection, key: ApiKey): Http {
  const { baseUrl, ca } = connection;
  const base = new URL(baseUrl);
  const prefix = base.pathname.replace(/\/$/, '') + '/';
  const proxyEnv = proxiesOf(connection.proxy, base);
  const shared = { keepAlive: true, maxSockets: FILES_AT_ONCE, timeout: TUNNEL_MS, proxyEnv };
  const agents: Partial<Record<string, http.Agent>> = {};
  const agentFor = (protocol: string) =>
    (agents[protocol] ??=
      protocol === 'https:'
        ? new https.Agent({ ...shared, secureContext: contextFor(ca) })
        : new http.Agent(shared));

  const send = (target: URL, asked: HttpRequest, signal: AbortSignal) =>
    new Promise<HttpReply>((resolve, reject) => {
      const { method, body, authorized } = asked;
      const headers: http.OutgoingHttpHeaders = {
        'user-agent': 'vllm-scope',
        ...asked.headers,
        'content-length': Buffer.byteLength(body),
      };
      if (authorized) headers.authorization = key.authorization();
      const agent = agentFor(target.protocol);
      const request = (target.protocol === 'https:' ? https : http).request(target, {
        ...{ method, headers, agent, signal },
      });
      // while a tunnel is made the signal ends nothing by itself
      const stop = () => reject(signal.reason as Error);
      signal.addEventListener('abort', stop, { once: true });
      request.on('close', () => signal.removeEventListener('abort', stop));
      request.on('error', reject);
      request.on('response', (reply) => void read(reply, key).then(resolve, reject));
      request.end(body);
    });

  return {
    baseUrl,
    async request(asked) {
      const { url, authorized, timeoutMs } = asked;
      const target = new URL(/^https?:\/\//i.test(url) ? url : base.origin + prefix + url.replace(/^\//, ''));
      if (authorized && (target.origin !== base.origin || !target.pathname.startsWith(prefix)))
        throw new Error('The API key was to be sent elsewhere.');
      const limit = AbortSignal.timeout(timeoutMs);
      try {
        return await send(target, asked, AbortSignal.any([asked.signal, limit]));
      } catch (error) {
        asked.signal.throwIfAborted();
        if (error instanceof WandbError) throw error;
        throw connectionError(error as NetworkError, target, { timedOut: limit.aborted, timeoutMs, ca });
      }
    },
    close: () => {
      for (const agent of Object.values(agents)) agent?.destroy();
    },
  };
}

async function read(reply: http.IncomingMessage, key: ApiKey): Promise<HttpReply> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > SIZE_LIMIT) {
      reply.destroy();
      throw ownError('refused', 'The server answered with more than 64 MiB.');
    }
  }
  return {
    status: reply.statusCode ?? 0,
    headers: reply.headers,
    text: key.hideIn(Buffer.concat(chunks).toString('utf8')),
  };
}

/**
 * What Node's agents take; they know NO_PROXY and both spellings. They go past a proxy of another kind without a word,
 * which is not what somebody wanted who set one.
 */
function proxiesOf(given: string | null | undefined, base: URL): NodeJS.ProcessEnv {
  if (given === null) return {};
  const { env } = process;
  const proxy =
    given ??
    (base.protocol === 'https:' ? env.https_proxy || env.HTTPS_PROXY : env.http_proxy || env.HTTP_PROXY);
  const known = !proxy || (/^https?:\/\//.test(proxy) && URL.canParse(proxy));
  if (!known && (given !== undefined || !goesPast(base, env.no_proxy || env.NO_PROXY || '')))
    throw ownError(
      'proxy',
      `The proxy ${proxy.replace(/^(\w+:\/\/)?.*@/, '$1').slice(0, 100)} is of a kind that is not known here.`,
      'Only HTTP proxies are used. Set HTTPS_PROXY (of a server with http: HTTP_PROXY) to http://host:port, or switch the proxy off for W&B.',
    );
  return given === undefined ? env : { HTTPS_PROXY: given, HTTP_PROXY: given };
}

/** NO_PROXY as Node reads it, less its ranges of addresses. */
function goesPast(base: URL, list: string): boolean {
  const { hostname } = base;
  const host = `${hostname}:${portOf(base)}`;
  return list.split(/[\s,]+/).some((entry) => {
    const name = entry.toLowerCase().replace(/^\*\./, '.');
    if (name.startsWith('.')) return hostname.endsWith(name);
    return name === '*' || name === hostname || name === host;
  });
}

type NetworkError = NodeJS.ErrnoException & {
  hostname?: string;
  port?: number;
  address?: string;
  /** Of all addresses of a host. */
  errors?: NetworkError[];
  /** A proxy's answer instead of a tunnel. */
  statusCode?: number;
};

const isTls = /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|DEPTH_ZERO_SELF|SELF_SIGNED)/;
const isAuthority = /^(UNABLE_TO_|DEPTH_ZERO_SELF|SELF_SIGNED|CERT_UNTRUSTED)/;

function connectionError(
  error: NetworkError,
  target: URL,
  { timedOut, timeoutMs, ca }: { timedOut: boolean; timeoutMs: number; ca: string | null },
): WandbError {
  const { message, statusCode } = error;
  const code = String(error.code ?? ''); // of a time-out it is a number
  if (code.startsWith('ERR_PROXY')) {
    const said = statusCode === undefined ? message : (/HTTP\/1\.\d (.*)/.exec(message)?.[1] ?? message);
    return new WandbError('proxy', `The proxy does not connect to ${target.host}: “${said}”.`, {
      advice:
        statusCode === 407 ? PROXY_LOGIN : 'Check the proxy in the settings of the system or in HTTPS_PROXY.',
      retry: statusCode === undefined || statusCode >= 500,
    });
  }
  const other = timedOut ? null : otherPlace(error, target);
  const asked = { url: target.href, timeoutMs, secret: null, ca: ca !== null };
  const address = 'Check the address, or ask who runs that server.';
  const failure = networkFailure({ ...asked, name: other ?? target.host }, error, timedOut);
  // the other scheme: no try more helps
  if (/ Write https?:\/\/ before it\.$/.test(failure.message))
    return ownError('network', failure.message, address);
  if (isTls.test(code)) {
    const authority = isAuthority.test(code);
    const sentence = authority
      ? `The certificate of ${target.host} is of an authority that is not known here (${code}).`
      : failure.message;
    const advice = ca
      ? 'Check that the CA file is the one of that server, or of the proxy on the way to it.'
      : undefined;
    return ownError('tls', sentence, authority ? advice : address);
  }
  const { advice } = ownError(other ? 'proxy' : 'network', '');
  const sentence = other ? `The proxy ${failure.message}` : failure.message;
  return new WandbError(other ? 'proxy' : 'network', sentence, {
    advice,
    retry: true,
  });
}

/** The proxy's place where connecting to that one failed; null: it was the server itself. */
function otherPlace(error: NetworkError, target: URL): string | null {
  const { hostname, port, address } = error.errors?.[0] ?? error;
  const host = target.hostname.replace(/^\[|\]$/g, '');
  if (hostname !== undefined) return hostname === host ? null : hostname;
  if (port === undefined) return null;
  return port === portOf(target) ? null : `${address}:${port}`;
}

const portOf = ({ port, protocol }: URL): number => Number(port || (protocol === 'https:' ? 443 : 80));
