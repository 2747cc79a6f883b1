/**
 * One address of the stand-in: real HTTP on loopback in front of an API server process with its engines (or of two,
 * as a load balancer would be), answering as vLLM's does. Whatever can go wrong on the way is a fault that can be
 * switched on and off while it runs; several at a time go together.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { FakeEngine } from './fake-engine.ts';
import { HttpCounts } from './fake-families.ts';
import { MetricsBody, type ApiProcesses } from './fake-metrics.ts';

/** How /metrics misbehaves. */
export interface Faults {
  /** Accepts and never answers. */
  hang?: boolean;
  /** Answers late: by so much, and by so much more for each request that its engines have. */
  lateMs?: number;
  lateMsPerRequest?: number;
  /** The connection ends after this share of the body that Content-Length promised. */
  cutAt?: number;
  /** This share of the body with a Content-Length that fits. */
  cutFittingAt?: number;
  status?: number;
  /** As with --disable-log-stats: 200, and no vllm: family. */
  statsOff?: boolean;
  /** Some page of HTML instead. */
  garbage?: boolean;
  /** Gzip for who accepts it, which vLLM's /metrics never does. */
  gzip?: boolean;
  /** Unknown families up to a body of this size. */
  megabytes?: number;
  /** To /metrics/ of the same address, or to the URL given. */
  redirect?: 'same-origin' | (string & {});
  /** A second request on a connection is answered with a reset. */
  resetReused?: boolean;
  noDate?: boolean;
  /** The Authorization header without which it says 401, as a proxy in front of vLLM does. */
  wants?: string;
  /** Answers `?name[]=` as prometheus_client's own server does (in one process); vLLM's ignores it. */
  honoursNames?: boolean;
  /** Serves no /metrics, in FastAPI's words: a worker or router of NeMo RL. */
  noMetrics?: boolean;
  /** Not vLLM's own server: nothing is at /version. */
  noVersion?: boolean;
}

/** PEM. */
export interface ServerCertificate {
  key: string;
  cert: string;
}

/** The process behind an address: it has the counters, and starts and dies with them. */
export class FakeServer {
  readonly engines: FakeEngine[];
  http = new HttpCounts();
  private body: MetricsBody;
  private source: ConstructorParameters<typeof MetricsBody>[0];
  /** Unix seconds at which the engines' time began. */
  private origin: number;

  constructor(
    engines: FakeEngine[],
    model: string,
    processes: ApiProcesses,
    origin: number,
    started: number,
  ) {
    this.engines = engines;
    this.origin = origin;
    this.source = { engines, model, processes, http: this.http, startedAt: started, createdAt: origin - 1 };
    this.body = new MetricsBody(this.source);
    for (const engine of engines)
      engine.onFinished = (request, at) => {
        const size: [number, number] = [120 + 5 * request.prompt.tokens, 130 + 4 * request.generated];
        this.http.record('/v1/completions', '2xx', at - request.arrivedAt, size, origin + at);
      };
  }

  get load(): number {
    return this.engines.reduce((sum, engine) => sum + engine.load, 0);
  }

  kill(): void {
    for (const engine of this.engines) engine.kill();
  }

  /** `at` is the engines' time; it was started some time before it could serve. */
  start(at: number, loadingSeconds: number): void {
    for (const engine of this.engines) engine.restart(at);
    this.http = new HttpCounts();
    const createdAt = this.origin + at;
    Object.assign(this.source, { http: this.http, createdAt, startedAt: createdAt - loadingSeconds });
  }

  render(at: number, statistics: boolean): string {
    return this.body.render(this.origin + at, statistics);
  }
}

/** The cluster's time, which an endpoint brings up to date before it answers. */
export interface FakeTime {
  /** Epoch ms. */
  clock: () => number;
  /** Runs the model to now; gives its seconds. */
  advance: () => number;
}

const html =
  '<!doctype html><html><head><title>Welcome to nginx!</title></head><body><h1>It works</h1></body></html>';

export class FakeEndpoint {
  /** May be changed at any time; {} heals. */
  faults: Faults = {};
  /** What has come in on /metrics so far, and over how many connections. */
  readonly seen = { requests: 0, connections: 0, headers: {} as IncomingMessage['headers'], url: '' };
  readonly servers: FakeServer[];
  port = 0;
  private time: FakeTime;
  private listening: Server | null = null;
  private closed = false;
  private used = new WeakSet<Socket>();
  private turn = 0;

  private certificate: ServerCertificate | null;

  /** With a certificate it speaks TLS. */
  constructor(servers: FakeServer[], time: FakeTime, certificate: ServerCertificate | null = null) {
    this.servers = servers;
    this.time = time;
    this.certificate = certificate;
  }

  get url(): string {
    return `${this.certificate ? 'https' : 'http'}://127.0.0.1:${this.port}/metrics`;
  }

  get engines(): FakeEngine[] {
    return this.servers.flatMap((server) => server.engines);
  }

  /** Connections are accepted again (the first time: on a port that is free, if none is given). */
  async up(port = this.port): Promise<void> {
    if (this.listening || this.closed) return;
    const answer = (request: IncomingMessage, response: ServerResponse) =>
      void this.answer(request, response);
    const server = this.certificate ? createTlsServer(this.certificate, answer) : createServer(answer);
    server.keepAliveTimeout = 5000; // uvicorn's
    server.on('connection', () => this.seen.connections++);
    this.listening = server;
    await new Promise<void>((done, failed) => {
      server.once('error', failed);
      server.listen(port, '127.0.0.1', done);
    });
    this.port = (server.address() as AddressInfo).port;
  }

  /** Connections are refused; the engines go on unseen. */
  async down(): Promise<void> {
    const server = this.listening;
    if (!server) return;
    this.listening = null;
    const closed = new Promise((done) => server.close(done));
    server.closeAllConnections();
    await closed;
  }

  /** For good: one that is on its way up does not come. */
  async close(): Promise<void> {
    this.closed = true;
    await this.down();
  }

  /** Its process dies: what its engines had is lost. */
  async kill(): Promise<void> {
    this.time.advance();
    for (const server of this.servers) server.kill();
    await this.down();
  }

  /** A new process serves, having loaded its model for so long. */
  async start(loadingSeconds = 0): Promise<void> {
    const at = this.time.advance();
    for (const server of this.servers) server.start(at, loadingSeconds);
    await this.up();
  }

  /** Killed and started again; comes back after so many seconds (0: between two scrapes, nobody is refused). */
  async restart({ downSeconds = 0 } = {}): Promise<void> {
    if (downSeconds === 0) {
      const at = this.time.advance();
      for (const server of this.servers) server.start(at, 0.5);
      return;
    }
    await this.kill();
    await sleep(downSeconds * 1000);
    await this.start(downSeconds * 0.9);
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { faults } = this;
    const path = (request.url ?? '/').replace(/[?#].*/, '');
    const reused = this.used.has(request.socket);
    this.used.add(request.socket);
    response.sendDate = false;
    if (!faults.noDate) response.setHeader('Date', new Date(this.time.clock()).toUTCString());
    response.setHeader('Server', 'uvicorn');
    response.removeHeader('connection'); // uvicorn does not announce how long it keeps a connection
    if (path === '/health') return void response.writeHead(200, { 'Content-Length': 0 }).end();
    if (path === '/version' && !faults.noVersion) return json(response, 200, { version: '0.32.0' });
    if (path !== '/metrics' && !(path === '/metrics/' && faults.redirect === 'same-origin'))
      return json(response, 404, 'Not Found');
    if (request.method !== 'GET') return json(response, 405, 'Method Not Allowed');

    this.seen.requests++;
    this.seen.headers = request.headers;
    this.seen.url = request.url ?? '';
    if (faults.noMetrics) return json(response, 404, 'Not Found');
    if (faults.resetReused && reused) return void request.socket.resetAndDestroy();
    if (faults.hang) return;
    if (faults.redirect && path === '/metrics') {
      const location = faults.redirect === 'same-origin' ? '/metrics/' : faults.redirect;
      return void response.writeHead(307, { Location: location, 'Content-Length': 0 }).end();
    }
    if (faults.wants !== undefined && request.headers.authorization !== faults.wants) {
      const [scheme] = faults.wants.split(' ');
      response.setHeader('WWW-Authenticate', `${scheme} realm="metrics"`);
      return json(response, 401, 'Unauthorized');
    }
    const server = this.servers[this.turn++ % this.servers.length]!;
    this.time.advance();
    const late = (faults.lateMs ?? 0) + (faults.lateMsPerRequest ?? 0) * server.load;
    // Values are from half-way: a busy server reads the request late, and is late again with the answer.
    if (late > 0) await sleep(late / 2);
    let text = this.text(server);
    const names = new URL(request.url ?? '/', this.url).searchParams.getAll('name[]').filter((n) => n !== '');
    if (faults.honoursNames && names.length > 0) text = restricted(text, new Set(names));
    if (late > 0) await sleep(late / 2);
    if (!response.destroyed) this.send(text, request, response);
  }

  private text(server: FakeServer): string {
    const { faults } = this;
    if (faults.garbage) return html;
    let text = server.render(this.time.advance(), !faults.statsOff);
    if (faults.megabytes) text += padding(faults.megabytes * 1e6 - text.length);
    return faults.cutFittingAt === undefined
      ? text
      : text.slice(0, Math.floor(text.length * faults.cutFittingAt));
  }

  private send(text: string, request: IncomingMessage, response: ServerResponse): void {
    const { faults } = this;
    if (faults.status !== undefined && faults.status !== 200) {
      const body = faults.status === 500 ? 'Internal Server Error' : `status ${faults.status}`;
      const headers = { 'Content-Type': 'text/plain; charset=utf-8', 'Content-Length': body.length };
      return void response.writeHead(faults.status, headers).end(body);
    }
    let body: Buffer = Buffer.from(text);
    response.statusCode = 200;
    response.setHeader(
      'Content-Type',
      faults.garbage ? 'text/html' : 'text/plain; version=1.0.0; charset=utf-8',
    );
    if (faults.gzip && /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))) {
      body = gzipSync(body);
      response.setHeader('Content-Encoding', 'gzip');
    }
    response.setHeader('Content-Length', body.length);
    if (faults.cutAt === undefined) return void response.end(body);
    const part = body.subarray(0, Math.floor(body.length * faults.cutAt));
    response.write(part, () => request.socket.end());
  }
}

/** The samples of these names, each family with its comments. */
export function restricted(text: string, names: ReadonlySet<string>): string {
  const kept: string[] = [];
  let comments: string[] = [];
  let of = '';
  for (const line of text.trimEnd().split('\n')) {
    if (line.startsWith('#')) {
      const family = line.split(' ')[2]!;
      if (family !== of) comments = [];
      of = family;
      comments.push(line);
    } else if (names.has(line.split(/[{ ]/, 1)[0]!)) {
      kept.push(...comments, line);
      comments = [];
    }
  }
  return kept.map((line) => `${line}\n`).join('');
}

function json(response: ServerResponse, status: number, said: string | object): void {
  const body = JSON.stringify(typeof said === 'string' ? { detail: said } : said);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length }).end(body);
}

function padding(bytes: number): string {
  const lines: string[] = [];
  for (let size = 0, i = 0; size < bytes; i++) {
    if (i % 50 === 0) lines.push(`# TYPE other:padding_${i} gauge`);
    else
      lines.push(`other:padding_${i - (i % 50)}{part="${i % 50}",model_name="somebody/elses-model"} ${i}.0`);
    size += lines[i]!.length + 1;
  }
  return `${lines.join('\n')}\n`;
}
