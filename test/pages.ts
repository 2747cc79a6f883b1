/**
 * A served engine for tests, with a page of a few files in a folder of its own, and what connects to it as a page does.
 */
import fs from 'node:fs';
import path from 'node:path';
import { WebSocket } from 'ws';
import type { Remote } from '../electron/engine/api.ts';
import { createClient, type Client } from '../electron/engine/rpc.ts';
import { newToken, serve } from '../electron/engine/server.ts';
import { engineFor, folderFor, type OnEnd } from './engines.ts';

export const SECRET = 'the secret of the folder above';

function pageFolder(onEnd: OnEnd): string {
  const folder = path.join(folderFor(onEnd), 'page');
  fs.mkdirSync(path.join(folder, 'assets'), { recursive: true });
  fs.writeFileSync(path.join(folder, 'index.html'), '<!doctype html><title>vLLM Scope</title>');
  fs.writeFileSync(path.join(folder, 'assets', 'main-1a2b.js'), 'export {};');
  fs.writeFileSync(path.join(folder, 'assets', 'style-3c4d.css'), 'body {}');
  fs.writeFileSync(path.join(folder, 'icon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>');
  fs.writeFileSync(path.join(folder, 'notes.txt'), 'not a part of the page');
  fs.writeFileSync(path.join(path.dirname(folder), 'secret.html'), SECRET);
  fs.mkdirSync(`${folder}-beside`);
  fs.writeFileSync(path.join(`${folder}-beside`, 'secret.html'), SECRET);
  return folder;
}

export async function served(onEnd: OnEnd, options: { allowHosts?: string[]; host?: string } = {}) {
  const engine = await engineFor(onEnd, { idle: true });
  const [token, markToken] = [newToken(), newToken()];
  const reported: unknown[] = [];
  const server = await serve(engine.engine, {
    host: options.host ?? '127.0.0.1',
    port: 0,
    token,
    markToken,
    allowHosts: options.allowHosts ?? [],
    pageFolder: pageFolder(onEnd),
    report: (bug) => reported.push(bug),
  });
  let closing: Promise<void> | null = null;
  const close = () => (closing ??= server.close());
  onEnd(close);
  return { ...engine, port: server.port, token, markToken, reported, closeServer: close };
}

export interface Page {
  socket: WebSocket;
  client: Client;
  methods: Remote;
  closed: Promise<number>;
}
interface Knock {
  protocols?: string[];
  host?: string;
  origin?: string;
  path?: string;
}
/** A page's connection; rejects with the status it was refused with. */
export function connect(onEnd: OnEnd, port: number, token: string, knock: Knock = {}): Promise<Page> {
  const { protocols = ['vllm-scope', token], host, origin, path: where = '/ws' } = knock;
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${where}`, protocols, {
      ...(host === undefined ? {} : { headers: { host } }),
      ...(origin === undefined ? {} : { origin }),
    });
    onEnd(() => socket.terminate());
    const client = createClient((frame) => socket.send(frame));
    const closed = new Promise<number>((done) => socket.on('close', (code) => done(code)));
    socket.on('message', (data: Buffer, binary) => client.receive(binary ? data : data.toString('utf8')));
    socket.on('close', () => client.gone());
    socket.on('open', () => resolve({ socket, client, methods: client.methods, closed }));
    socket.on('unexpected-response', (_request, reply) => reject(new Error(String(reply.statusCode))));
    socket.on('error', reject);
  });
}
export const refused = (promise: Promise<unknown>) =>
  promise.then(
    () => 'let in',
    (error: unknown) => (error as Error).message,
  );
