/**
 * The wire of the stand-in for W&B: which paths there are, who may ask, what headers and bodies must be like, one
 * request at a time for a run's stream, and faults.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { cutOff, send, type Fault, type Faults, type Reply } from './fake-wandb-faults.ts';
import { operationOf, type Graph } from './fake-wandb-graph.ts';
import { broken, refused, Refusal, type FakeRuns, type FakeUser } from './fake-wandb-runs.ts';
import { takeStream } from './fake-wandb-stream.ts';

export interface SeenRequest {
  /** Epoch ms. */
  at: number;
  method: string;
  path: string;
  kind: 'graphql' | 'file_stream' | 'put' | 'other';
  /** Of GraphQL; null otherwise and where it has no name. */
  operation: string | null;
  headers: IncomingMessage['headers'];
  /** On the wire. */
  bytes: number;
  /** Parsed, of GraphQL and file_stream; null otherwise. */
  body: unknown;
  /** null: not answered yet, or the connection ended without an answer. */
  status: number | null;
}

export interface WireOptions {
  /** Epoch ms. */
  clock: () => number;
  gzip: boolean;
  ratePerSecond?: number;
  stepsMayRestart: boolean;
  /** The server's own address. */
  base: () => string;
}

const longestBody = 32 * 1024 * 1024;

const streamPath = /^\/files\/([^/]+)\/([^/]+)\/([^/]+)\/file_stream$/;
const filePath = /^\/files\/([^/]+)\/([^/]+)\/([^/]+)\/(.+)$/;

function kindOf(method: string, path: string): SeenRequest['kind'] {
  if (method === 'POST' && path === '/graphql') return 'graphql';
  if (method === 'POST' && streamPath.test(path)) return 'file_stream';
  return method === 'PUT' && path.startsWith('/upload/') ? 'put' : 'other';
}

async function read(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes <= longestBody) parts.push(part);
  }
  if (bytes > longestBody) throw broken(`a body of ${bytes} bytes, the limit is ${longestBody}`, 413);
  return Buffer.concat(parts);
}

export class Wire {
  readonly seen: SeenRequest[] = [];
  /** Rules that were broken, each with its request. */
  readonly violations: string[] = [];
  private readonly runs: FakeRuns;
  private readonly graph: Graph;
  private readonly faults: Faults;
  private readonly options: WireOptions;
  /** file_stream requests that are being answered, by path. */
  private readonly inFlight = new Map<string, symbol>();
  /** By path: how many requests may come at once, as of when. */
  private readonly allowance = new Map<string, { left: number; at: number }>();

  constructor(runs: FakeRuns, graph: Graph, faults: Faults, options: WireOptions) {
    this.runs = runs;
    this.graph = graph;
    this.faults = faults;
    this.options = options;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url: path = '', headers } = request;
    const kind = kindOf(method, path);
    const at = this.options.clock();
    const seen: SeenRequest = {
      at,
      method,
      path,
      kind,
      operation: null,
      headers,
      bytes: 0,
      body: null,
      status: null,
    };
    this.seen.push(seen);
    response.once('finish', () => (seen.status = response.statusCode));
    let done = () => {};
    let fault: Fault = {};
    let reply: Reply;
    try {
      if (kind === 'file_stream') done = this.enter(path, response);
      const raw = await read(request);
      seen.bytes = raw.length;
      const user = kind === 'put' ? null : this.userOf(request);
      if (kind === 'graphql' || kind === 'file_stream') seen.body = this.json(request, raw);
      if (kind === 'graphql') seen.operation = operationOf(seen.body);
      if (kind === 'file_stream') this.checkRate(path);
      fault = this.faults.take(kind, seen.operation);
      if (fault.lost === 'before' || fault.reset === 'before')
        return cutOff(response, fault.lost ? 'lost' : 'reset');
      if (fault.status) reply = { status: fault.status, body: fault.body ?? { error: 'injected' } };
      else reply = user ? this.answer(seen, user, fault) : this.put(request, raw, fault);
    } catch (error) {
      if (!request.complete && !(error instanceof Refusal)) return done(); // the client went away
      request.resume();
      reply = this.refusal(error, kind);
    }
    if (reply.violation) this.violations.push(`${method} ${seen.operation ?? path}: ${reply.violation}`);
    await send(response, fault, reply, done);
    done();
  }

  /** Throws where another request of the run is not answered yet. */
  private enter(path: string, response: ServerResponse): () => void {
    if (this.inFlight.has(path)) throw broken('two requests of one run at once');
    const own = Symbol();
    this.inFlight.set(path, own);
    const done = () => void (this.inFlight.get(path) === own && this.inFlight.delete(path));
    response.once('close', done);
    return done;
  }

  private checkRate(path: string): void {
    const rate = this.options.ratePerSecond;
    if (rate === undefined) return;
    const now = this.options.clock();
    const before = this.allowance.get(path) ?? { left: rate, at: now };
    const left = Math.min(rate, before.left + ((now - before.at) / 1000) * rate);
    const goes = left > 1 - 1e-9;
    this.allowance.set(path, { left: goes ? left - 1 : left, at: now });
    if (!goes) throw refused(429, 'rate limit exceeded');
  }

  private userOf({ headers }: IncomingMessage): FakeUser {
    const [, encoded] = /^Basic ([A-Za-z0-9+/]+=*)$/.exec(headers.authorization ?? '') ?? [];
    const plain = Buffer.from(encoded ?? '', 'base64').toString();
    if (!plain.startsWith('api:')) throw broken('user is not logged in: no Basic authorization of api', 401);
    const user = this.runs.userOf(plain.slice('api:'.length));
    if (!user) throw refused(401, 'user is not logged in');
    return user;
  }

  private json({ headers }: IncomingMessage, raw: Buffer): unknown {
    const type = headers['content-type'] ?? 'nothing';
    if (!/^application\/json\s*(;|$)/.test(type))
      throw broken(`the content type is ${type}, not application/json`);
    const encoding = headers['content-encoding'];
    if (encoding !== undefined && !(encoding === 'gzip' && this.options.gzip))
      throw broken(`the content encoding ${encoding} was not offered`);
    try {
      return JSON.parse((encoding ? gunzipSync(raw) : raw).toString()) as unknown;
    } catch {
      throw broken('the body is not JSON');
    }
  }

  private answer({ kind, path, body, method }: SeenRequest, user: FakeUser, fault: Fault): Reply {
    if (kind === 'graphql') return this.graph.answer(body, user, this.options.base(), fault);
    const parts = (kind === 'file_stream' ? streamPath : filePath)
      .exec(path)
      ?.slice(1)
      .map(decodeURIComponent);
    if (!parts || (kind === 'other' && method !== 'GET')) throw broken('there is no such path', 404);
    const [entity, project, name] = parts as [string, string, string];
    if (kind === 'other') return this.file(user, entity, project, name, parts[3]!);
    this.runs.checkWrite(user, entity, project, 'file_stream');
    const run = this.runs.need(entity, project, name);
    run.stopped ||= fault.stopped ?? false;
    return { status: 200, body: takeStream(run, body, this.options.stepsMayRestart, this.options.clock()) };
  }

  private file(user: FakeUser, entity: string, project: string, name: string, file: string): Reply {
    const bytes = this.runs.mayRead(user, entity) && this.runs.find(entity, project, name)?.files.get(file);
    if (!bytes) throw refused(404, `file ${file} not found`);
    return { status: 200, body: bytes, headers: { 'Content-Type': 'application/octet-stream' } };
  }

  private put({ headers, url = '' }: IncomingMessage, raw: Buffer, fault: Fault): Reply {
    if (headers.authorization !== undefined) throw broken('a presigned address was given credentials');
    const upload = this.graph.uploads.get(url);
    if (!upload) throw broken('no such address was given out', 403);
    if (fault.expired) upload.expired = true;
    if (upload.expired)
      throw refused(403, '<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>');
    if (headers['content-length'] === undefined) throw broken('there is no Content-Length', 411);
    const wanted = upload.headers.map((header) => {
      const colon = header.indexOf(':');
      return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()] as const;
    });
    for (const [name, value] of wanted)
      if (headers[name] !== value)
        throw broken(`the header ${name} is ${String(headers[name])}, not ${value}`);
    if (headers['content-type'] !== undefined && !wanted.some(([name]) => name === 'content-type'))
      throw broken('a Content-Type that uploadHeaders do not name');
    if (upload.run?.complete) throw broken('the run is complete; only UpsertBucket makes it go on');
    upload.run?.files.set(upload.name, raw);
    return { status: 200, body: '' };
  }

  private refusal(error: unknown, kind: SeenRequest['kind']): Reply {
    if (!(error instanceof Refusal)) {
      const text = `the stand-in itself failed: ${error instanceof Error ? error.stack : String(error)}`;
      return { status: 500, body: { error: text }, violation: text };
    }
    const { status, message, violation } = error;
    const xml = message.startsWith('<');
    const body = xml ? message : kind === 'graphql' ? { errors: [{ message }] } : { error: message };
    const headers: Record<string, string> = status === 429 ? { 'Retry-After': '1' } : {};
    if (xml) headers['Content-Type'] = 'application/xml';
    return { status, body, headers, violation: violation ? message : undefined };
  }
}
