/**
 * What an endpoint did instead of giving vLLM's metrics, in a sentence that says what to do. Knows no socket: it gets
 * what came, or the error that Node gave.
 */
import type { OutcomeReason } from './api.ts';
import type { ParsedBody } from './parse.ts';

/** A failure on its way to becoming an outcome. */
export class Failure extends Error {
  readonly reason: OutcomeReason;
  /** Whose metrics came instead, as in CheckReport. */
  readonly server: string | null;
  constructor(reason: OutcomeReason, sentence: string, server: string | null = null) {
    super(sentence);
    this.reason = reason;
    this.server = server;
  }
}

/** What a scrape was to do; for the sentences. */
export interface Asked {
  /** What people call the endpoint. */
  name: string;
  url: string;
  timeoutMs: number;
  /** What was sent to be let in, in words; null: nothing. */
  secret: string | null;
  /** A CA file was given. */
  ca: boolean;
}

/** Whether a 200 is what it should be; throws the failure it is otherwise. */
export function checkBody({ name }: Asked, text: string, body: ParsedBody, type: string): void {
  const begin = text.slice(0, 4096).trimStart();
  if (/^\[?\s*\{/.test(begin) && /"(?:kvCacheStats|iterLatencyMS)"/.test(begin))
    throw new Failure('not-metrics', engineOf(name, 'TensorRT-LLM'), 'TensorRT-LLM');
  if (body.samples === 0 || /^[<{]/.test(begin))
    throw new Failure('not-metrics', `${name} answered, but not with metrics. Is it vLLM's API server?`);
  if (!body.complete || (type.includes('openmetrics') && body.dialect !== 'openmetrics'))
    throw new Failure('cut', `The answer of ${name} ends in the middle.`);
  if (body.names.size > 0) return;
  const { sentence, server } = noVllm(name, text);
  throw new Failure('no-vllm', sentence, server);
}

const engineOf = (name: string, server: string) =>
  `${name} is no vLLM: its metrics are those of ${server}. Only vLLM's engines are recorded.`;

/** Families of others. An engine's own stand before those of what runs around it. */
const others: [family: RegExp, server: string, sentence: (name: string, server: string) => string][] = [
  [/^sglang[:_]/m, 'SGLang', engineOf],
  [/^(?:trtllm_|nv_trt_llm_)/m, 'TensorRT-LLM', engineOf],
  [
    /^dynamo_frontend_/m,
    'NVIDIA Dynamo',
    (name) =>
      `${name} is the frontend of NVIDIA Dynamo. Give the system ports of its vLLM workers instead (DYN_SYSTEM_PORT, often 8081).`,
  ],
  [
    /^dynamo_/m,
    'NVIDIA Dynamo',
    (name) =>
      `${name} is a part of NVIDIA Dynamo without a vLLM engine. Give the system ports of its vLLM workers (DYN_SYSTEM_PORT, often 8081).`,
  ],
  [
    /^ray_/m,
    'Ray',
    (name) =>
      `${name} has metrics of Ray, but none of vLLM. Give the metrics addresses of Ray nodes on which vLLM runs, or the addresses of the vLLM servers themselves.`,
  ],
];

/** A body without any `vllm:` metric: statistics are off, or it is something else. */
export function noVllm(name: string, text: string): { server: string | null; sentence: string } {
  const other = others.find(([family]) => family.test(text));
  if (other) return { server: other[1], sentence: other[2](name, other[1]) };
  if (/^(?:process_|python_|http_)/m.test(text))
    return {
      server: null,
      sentence: `Statistics are off on ${name} (--disable-log-stats?), or it has only just started.`,
    };
  return { server: null, sentence: `${name} answers with metrics, but none of vLLM.` };
}

/** A status other than 200. `wanted`: the reply's WWW-Authenticate. */
export function statusFailure(asked: Asked, status: number, text: string, wanted = ''): Failure {
  const { name, secret } = asked;
  const fail = (sentence: string) => new Failure('http', `${name} ${sentence}`);
  const said = saidIn(text);
  if (status === 401 || status === 403) {
    if (secret !== null) return fail(`said ${status}: it refused ${secret}. Look at it under "Access".`);
    if (/^\s*basic\b/i.test(wanted))
      return fail(
        `said ${status}: it wants a user and password. Write them before its host: user:password@host.`,
      );
    return fail(`said ${status}: it wants a key. Give a bearer token or a header under "Access".`);
  }
  if (status === 404) return fail(notFound(new URL(asked.url).pathname, said, text));
  // as nginx, Go and Apache say it
  if (status === 400 && /HTTP request (?:was sent )?to (?:an )?HTTPS|plain HTTP to an SSL/i.test(text))
    return fail(SPEAKS_TLS);
  return fail(`said ${status}${said ? ` "${said}"` : ''}.`);
}

const SPEAKS_TLS = 'speaks TLS. Write https:// before it.';

function notFound(path: string, said: string, text: string): string {
  if (path !== '/metrics')
    return `said 404: there are no metrics under this path. vLLM's are at /metrics, right behind host and port.`;
  // FastAPI's own words: a server like vLLM's, but of somebody else
  if (/^\s*\{\s*"detail"\s*:\s*"Not Found"\s*\}\s*$/.test(text))
    return `said 404: it serves no /metrics. Workers and routers of NeMo RL serve none; with the exporter installed beside their engines they do (docs/nemo-rl.md).`;
  const words = said && !/^(?:404 )?(?:page )?not found\.?$/i.test(said) ? ` "${said}"` : '';
  return `said 404${words}: it serves no /metrics. Is it the port of a vLLM server? A router often serves none: give the servers behind it. For NeMo RL: docs/nemo-rl.md.`;
}

/** The first words of an answer, fit to stand in a sentence; nothing of a page of HTML. */
function saidIn(text: string): string {
  const said = Buffer.from(text, 'latin1').toString('utf8').replace(/\s+/g, ' ').trim();
  return said.startsWith('<') ? '' : said.slice(0, 100);
}

const unreachable: Record<string, string> = {
  ENOTFOUND: 'is not known: no such host',
  EAI_AGAIN: 'could not be looked up: the name server does not answer',
  EHOSTUNREACH: 'cannot be reached: no route to the host',
  ENETUNREACH: 'cannot be reached: no route to its network',
  ECONNRESET: 'closed the connection before it answered',
  EPIPE: 'closed the connection before it answered',
};

const unknownAuthority = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_UNTRUSTED',
]);

type NetworkError = NodeJS.ErrnoException & {
  /** Of a parser that was given something else than HTTP. */
  rawPacket?: Uint8Array;
  /** Of a certificate for another name. */
  cert?: { subjectaltname?: string };
};

/** What Node says of a connection. */
export function networkFailure(asked: Asked, error: unknown, timedOut: boolean): Failure {
  const { name, timeoutMs } = asked;
  const { code = '', message, rawPacket } = error as NetworkError;
  if (timedOut || code === 'ETIMEDOUT')
    return new Failure('timeout', `${name} did not answer within ${timeoutMs / 1000} s.`);
  if (code === 'ECONNREFUSED')
    return new Failure('refused', `${name} refused the connection. Is the server up?`);
  if (message === 'aborted') return new Failure('cut', `The answer of ${name} was cut off.`);
  // an alert of TLS, which is how such a server answers a plain request
  if (rawPacket?.[0] === 21 && rawPacket[1] === 3) return new Failure('not-metrics', `${name} ${SPEAKS_TLS}`);
  if (code.startsWith('HPE_'))
    return new Failure('not-metrics', `${name} does not speak HTTP (${code}). Is it the right port?`);
  if (code.startsWith('Z_')) return new Failure('cut', `The compressed answer of ${name} is damaged.`);
  const sentence = tlsSentence(asked, error as NetworkError);
  if (sentence !== null) return new Failure('unreachable', sentence);
  if (unreachable[code])
    return new Failure('unreachable', `${name} ${unreachable[code]}.${hint(asked, code)}`);
  return new Failure('unreachable', `${name} cannot be reached: ${message || code || 'unknown fault'}.`);
}

/** Most servers with TLS just hang up on a plain request. */
const hint = ({ url }: Asked, code: string) =>
  code === 'ECONNRESET' && url.startsWith('http:') ? ' If it speaks TLS, write https:// before it.' : '';

function tlsSentence({ name, ca }: Asked, { code = '', message, cert }: NetworkError): string | null {
  if (code === 'DEPTH_ZERO_SELF_SIGNED_CERT')
    return `The certificate of ${name} is signed by itself. Give it as the CA file under "Access".`;
  if (unknownAuthority.has(code))
    return ca
      ? `The certificate of ${name} is of no authority in the CA file, nor of one that the system knows. Is it the right CA file?`
      : `The certificate of ${name} is of an authority that is not known here. Give its CA file under "Access".`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const names = (cert?.subjectaltname ?? '').replace(/(?:DNS|IP Address):/g, '').slice(0, 100);
    return `The certificate of ${name} is for ${names || 'another name'}. Give the address by a name that it is for.`;
  }
  if (code === 'CERT_HAS_EXPIRED')
    return `The certificate of ${name} has expired. It must be renewed on the server, unless this machine's clock is wrong.`;
  if (code === 'CERT_NOT_YET_VALID')
    return `The certificate of ${name} is not valid yet. Is this machine's clock right?`;
  if (
    /WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST/.test(code) ||
    /wrong version number/.test(message)
  )
    return `${name} does not speak TLS. Write http:// before it.`;
  if (/CERTIFICATE_REQUIRED/.test(code))
    return `${name} wants a client certificate, which cannot be given here.`;
  return null;
}
