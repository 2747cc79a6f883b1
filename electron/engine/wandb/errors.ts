/**
 * What W&B, or the way to it, did instead of taking a request: the server's own text, what kind of fault that is, what
 * to do about it, and whether the same request may be sent again.
 */
import { decode } from './json.ts';
import type { WandbErrorKind } from './contract.ts';

export interface WandbErrorDetails {
  /** What to do, one sentence. */
  advice: string;
  /** The same request may succeed later. */
  retry?: boolean;
  /** The server's Retry-After in ms; null: it said nothing. */
  retryAfterMs?: number | null;
  /** The run cannot be gone on with, and uploading it as a new one would help. */
  newRun?: boolean;
  /** HTTP status; null: there was no answer. */
  status?: number | null;
}

export class WandbError extends Error {
  readonly kind: WandbErrorKind;
  readonly advice: string;
  readonly retry: boolean;
  readonly retryAfterMs: number | null;
  readonly newRun: boolean;
  readonly status: number | null;

  /** `message`: the server's own text where it said something. */
  constructor(kind: WandbErrorKind, message: string, details: WandbErrorDetails) {
    super(message);
    this.name = 'WandbError';
    this.kind = kind;
    this.advice = details.advice;
    this.retry = details.retry ?? false;
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.newRun = details.newRun ?? false;
    this.status = details.status ?? null;
  }
}

/** What an answer was to; the same status means different things. */
export type Asked = 'graphql' | 'upsert' | 'stream' | 'file';

interface Answer {
  status: number;
  /** By lower-case name. */
  headers: Readonly<Record<string, string | string[] | undefined>>;
  text: string;
}

export const PROXY_LOGIN =
  'Write user and password into the address of the proxy: http://user:password@host:port.';
const NO_WANDB =
  'Nothing of W&B is under this address. Check the address of the W&B server, with its path if it has one.';
const NEW_RUN = 'Upload it as a new run.';
const advices: Record<WandbErrorKind, string> = {
  key: 'Check the API key, and that it is one of this W&B server.',
  permission:
    'Choose another entity or project, or ask who administers that team: the API key gives no right to write there.',
  'not-found': 'Check the names of entity and project.',
  deleted: `W&B never gives the id of a deleted run again. ${NEW_RUN}`,
  limited: 'W&B limits how much may be sent at a time. Try again in a few minutes.',
  server: 'W&B has a fault of its own. Try again later; the upload goes on where it stopped.',
  tls: 'Give the CA file of the W&B server or of the proxy on the way to it.',
  proxy: 'Check the proxy in the settings of the system or in HTTPS_PROXY.',
  network: 'Check the address of the W&B server and the network; the upload goes on where it stopped.',
  refused: 'W&B does not take this, and sending it again would not help.',
};

/** Answers after which the same request would get the same answer; as the SDK has them, and 407. */
const FINAL = new Set([400, 401, 403, 404, 407, 409, 410, 413, 422, 501]);
const mayRetry = (status: number): boolean => (status < 300 || status >= 400) && !FINAL.has(status);

function kindOf(status: number, asked: Asked): WandbErrorKind {
  if (status === 401 && asked !== 'file') return 'key';
  if (status === 401) return 'permission';
  if (status === 403) return 'permission';
  if (status === 404 || status === 410) return 'not-found';
  if (status === 407) return 'proxy'; // no server says that; on the way to one with http:// the proxy does
  if (status === 409 && asked === 'upsert') return 'deleted';
  if (status === 429) return 'limited';
  return status >= 500 ? 'server' : 'refused';
}

/** null: the answer is well. `now`: epoch ms, for a Retry-After that names a time. */
export function faultOf(answer: Answer, asked: Asked, now: number): WandbError | null {
  const { status, headers, text } = answer;
  if (status >= 200 && status < 300) return null;
  const found = kindOf(status, asked);
  const elsewhere = isElsewhere(answer, asked);
  const words = saidIn(text);
  const said = isRedirect(status)
    ? `The server redirects (${status}) to ${originOf(String(headers.location ?? 'nowhere'))}, which is not followed.`
    : status === 407
      ? `The proxy answered 407${words === null ? '' : `: “${words}”`}.`
      : (words ?? `The server answered ${status} without a word.`);
  return new WandbError(found, said, {
    advice: elsewhere ? NO_WANDB : adviceOn(status, asked, found),
    retry: mayRetry(status) && !elsewhere,
    retryAfterMs: retryAfter(headers['retry-after'], now),
    newRun: found === 'deleted' || isGone(asked, found),
    status,
  });
}

const isRedirect = (status: number): boolean => status >= 300 && status < 400;
const isGone = (asked: Asked, kind: WandbErrorKind): boolean => asked === 'stream' && kind === 'not-found';

/** Something else than W&B answers: its own answers are JSON with its words in it. */
const isElsewhere = ({ status, text }: Answer, asked: Asked): boolean =>
  (status === 404 || status === 405) &&
  (asked === 'graphql' || asked === 'upsert') &&
  wordsOf(parsed(text)) === null;

function adviceOn(status: number, asked: Asked, kind: WandbErrorKind): string {
  if (isRedirect(status)) return 'Give the address that the W&B server has itself.';
  if (isGone(asked, kind)) return `The run may have been deleted on W&B. ${NEW_RUN}`;
  return status === 407 ? PROXY_LOGIN : advices[kind];
}

/** A 200 that carries errors all the same; null: it carries none, or data beside them for a query that allows it. */
export function errorsIn(reply: unknown, asked: Asked): WandbError | null {
  const said = wordsOf(reply);
  if (said === null) return null;
  const code = codeOf(reply);
  // the code where there is one; otherwise W&B's own words are all there is
  const kind: WandbErrorKind =
    code === 'PERMISSION_ERROR' || /permission denied/i.test(said)
      ? 'permission'
      : /not logged in|unauthenticated|invalid api key/i.test(said)
        ? 'key'
        : asked === 'upsert' && /previously created and deleted/i.test(said)
          ? 'deleted'
          : /not found/i.test(said)
            ? 'not-found'
            : 'refused';
  return new WandbError(kind, said, { advice: advices[kind], newRun: kind === 'deleted', status: 200 });
}

/** In quotes, so that what to do stays in sight. */
const MAX_QUOTED = 120;
/** A fault and what to do, for a person: words of the server that are no sentence are quoted, as the page does it. */
export function problemText({ message, advice }: Pick<WandbError, 'message' | 'advice'>): string {
  if (/[.!?]$/.test(message)) return `${message} ${advice}`;
  const cut = message.length > MAX_QUOTED ? `${message.slice(0, MAX_QUOTED - 1)}…` : message;
  return `The server said: “${cut}”. ${advice}`;
}

export const ownError = (kind: WandbErrorKind, message: string, advice = advices[kind]): WandbError =>
  new WandbError(kind, message, { advice });

export const needsNewRun = (message: string): WandbError =>
  new WandbError('refused', message, { advice: NEW_RUN, newRun: true });

/** Both forms of the header, as ms from now; null: it says nothing. */
function retryAfter(header: string | string[] | undefined, now: number): number | null {
  if (typeof header !== 'string') return null;
  if (/^\s*\d+(\.\d+)?\s*$/.test(header)) return Number(header) * 1000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

/** Of an address, what a sentence may repeat: no path, no password. */
function originOf(location: string): string {
  return URL.canParse(location) ? new URL(location).origin : 'another path';
}

const MAX_SAID = 500;
/** The server's words in a body of any kind; null: none that a person could read. */
function saidIn(text: string): string | null {
  const said = wordsOf(parsed(text)) ?? (/^\s*(<|$)/.test(text) ? inXml(text) : text);
  return said === null ? null : said.replace(/\s+/g, ' ').trim().slice(0, MAX_SAID) || null;
}

/** Storage answers in XML; pages of HTML from whatever stands before the server are not worth repeating. */
const inXml = (text: string): string | null =>
  /<Message>([^<]*)<\/Message>/.exec(text)?.[1] ?? /<title>([^<]*)<\/title>/i.exec(text)?.[1] ?? null;

function parsed(text: string): unknown {
  try {
    return decode(text);
  } catch {
    return null;
  }
}

type Part = Record<string, unknown> | null;
const partOf = (value: unknown): Part => (typeof value === 'object' ? (value as Part) : null);

/** `{"errors":[...]}`, `{"error":"..."}`, `{"error":{"message":"..."}}`; null: none of them. */
function wordsOf(reply: unknown): string | null {
  const { error, errors } = partOf(reply) ?? {};
  const all = Array.isArray(errors) ? (errors as unknown[]) : error != null ? [error] : [];
  const words = all.map((one) => {
    const message = partOf(one)?.message ?? one;
    return typeof message === 'string' ? message : JSON.stringify(message);
  });
  return words.length > 0 ? [...new Set(words)].join('; ').slice(0, MAX_SAID) : null;
}

function codeOf(reply: unknown): unknown {
  const { errors } = partOf(reply) ?? {};
  return partOf(partOf(Array.isArray(errors) ? errors[0] : null)?.extensions)?.code;
}
