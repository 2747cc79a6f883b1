/**
 * HTTP and WebSocket on loopback: serves the page's files and the contract. Token at the upgrade, Host and Origin
 * checked on every request (a page of another site that got our port must get nothing).
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { WebSocketServer, type WebSocket } from 'ws';
import type { Events } from './api.ts';
import type { Engine } from './engine.ts';
import { EngineError } from './errors.ts';
import { takeMark } from './mark-http.ts';
import { answer, encodeEvent } from './rpc.ts';

export interface ServerOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  token: string;
  /** Can mark steps, and nothing else. */
  markToken: string;
  /** Host names that may stand in the Host header, besides loopback's. */
  allowHosts: readonly string[];
  /** The built page. */
  pageFolder: string;
  report: (bug: unknown) => void;
}

export interface Server {
  port: number;
  close(): Promise<void>;
}

export const SUBPROTOCOL = 'vllm-scope';
/** A frame of the page is a small call; more is no page of ours. */
const FRAME_LIMIT = 4 * 1024 * 1024;
/** Bytes that may wait for a page before live events are left out for it. */
const BACKLOG_LIMIT = 8 * 1024 * 1024;

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
};

/** Nothing but what the page needs. Styles inline: ECharts and Svelte set them on elements. */
const headers = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-cache',
};

export const newToken = () => randomBytes(16).toString('hex');

const same = (a: string, b: string) => {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
};

const loopback = new Set(['127.0.0.1', 'localhost', '[::1]']);

/** The name in a Host header without its port; null where it is none. */
function hostName(header: string | undefined): string | null {
  try {
    return header ? new URL(`http://${header}`).hostname.toLowerCase() : null;
  } catch {
    return null;
  }
}

export async function serve(engine: Engine, options: ServerOptions): Promise<Server> {
  const allowed = new Set([...loopback, ...options.allowHosts.map((h) => h.toLowerCase())]);
  if (!['0.0.0.0', '::'].includes(options.host))
    allowed.add((options.host.includes(':') ? `[${options.host}]` : options.host).toLowerCase());
  const hostIsFine = (request: http.IncomingMessage) => {
    const name = hostName(request.headers.host);
    return name !== null && allowed.has(name);
  };
  const originIsFine = (request: http.IncomingMessage) => {
    const { origin, host } = request.headers;
    // scripts and the command line send none; browsers always do
    return origin === undefined || origin === `http://${host}`;
  };

  const server = http.createServer((request, response) => {
    if (!hostIsFine(request)) {
      response.writeHead(403, { ...headers, 'content-type': 'text/plain; charset=utf-8' });
      response.end(
        'This name is not allowed. Start vllm-scope with --allow-host NAME to reach it by another name.\n',
      );
    } else if (pathOf(request) === '/api/step') {
      if (originIsFine(request))
        void takeMark(
          request,
          response,
          (token) => same(token, options.markToken),
          (mark) => engine.methods.mark(mark),
          options.report,
        ).catch(options.report);
      else response.writeHead(403, headers).end();
    } else if (request.method !== 'GET' && request.method !== 'HEAD') {
      response.writeHead(405, headers).end();
    } else servePage(options.pageFolder, request, response);
  });

  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: FRAME_LIMIT,
    handleProtocols: () => SUBPROTOCOL, // never the token back
  });
  const peers = new Set<WebSocket>();

  server.on('upgrade', (request, socket, head) => {
    const refuse = (status: string) => socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
    socket.on('error', () => socket.destroy());
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((p) => p.trim());
    if (pathOf(request) !== '/ws') refuse('404 Not Found');
    else if (!hostIsFine(request) || !originIsFine(request)) refuse('403 Forbidden');
    else if (offered[0] !== SUBPROTOCOL || !same(offered[1] ?? '', options.token)) refuse('401 Unauthorized');
    else sockets.handleUpgrade(request, socket, head, (ws) => connected(ws));
  });

  const connected = (ws: WebSocket) => {
    const peer = answer(engine.methods, (frame) => ws.send(frame), options.report);
    ws.on('message', (data, isBinary) => {
      try {
        const bytes = data as Buffer;
        peer.receive(isBinary ? bytes : bytes.toString('utf8'));
      } catch {
        ws.close(1007, 'not a frame of this contract');
      }
    });
    ws.on('error', () => ws.terminate());
    ws.on('close', () => {
      peers.delete(ws);
      peer.gone();
    });
    peers.add(ws);
  };

  const tell = (frame: string | Uint8Array) => {
    // a page that does not keep up reads anew when it does
    for (const ws of peers) if (ws.bufferedAmount < BACKLOG_LIMIT) ws.send(frame);
  };
  const pass = <E extends keyof Events>(event: E) =>
    engine.on(event, (data) => tell(encodeEvent(event, data)));
  const off = [pass('ticked'), pass('changed'), pass('stepped'), pass('progress'), pass('uploading')];

  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new EngineError(
              'bad-input',
              `Port ${options.port} is taken. Is vLLM Scope running already? Choose another with --port (0: any).`,
            )
          : error,
      ),
    );
    server.listen(options.port, options.host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      for (const stop of off) stop();
      for (const ws of peers) ws.terminate();
      sockets.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** As it stands, not decoded; '' for anything else that may stand there. new URL() throws on some of it ("//"). */
const pathOf = ({ url = '' }: http.IncomingMessage) =>
  url.startsWith('/') ? url.replace(/[?#].*$/s, '') : '';

function servePage(folder: string, request: http.IncomingMessage, response: http.ServerResponse): void {
  const pathname = pathOf(request);
  const file = path.join(folder, pathname === '/' ? 'index.html' : pathname);
  const type = types[path.extname(file)];
  if (!file.startsWith(folder + path.sep) || !type || !fs.existsSync(file)) {
    response.writeHead(404, { ...headers, 'content-type': 'text/plain; charset=utf-8' }).end('Not here.\n');
    return;
  }
  // names of built files carry a hash of what is in them
  const forever = pathname.startsWith('/assets/') ? { 'cache-control': 'max-age=31536000, immutable' } : {};
  response.writeHead(200, { ...headers, ...forever, 'content-type': type });
  if (request.method === 'HEAD') response.end();
  else
    fs.createReadStream(file)
      .on('error', () => response.destroy())
      .pipe(response);
}
