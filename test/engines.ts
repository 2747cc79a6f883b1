/**
 * Engines for tests: real ones in folders of their own, in this process or as the command line starts them, the pages
 * that connect to them, and waiting for what they do. Everything started ends with the test.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, vi } from 'vitest';
import type { Cluster, Events, Implementation, Remote, Ticked } from '../electron/engine/api.ts';
import { createEngine, type Engine, type EngineOptions } from '../electron/engine/engine.ts';
import { answer, createClient } from '../electron/engine/rpc.ts';
import { startFakeCluster, type FakeCluster, type FakeClusterOptions } from './fake-vllm.ts';

export type OnEnd = (end: () => void | Promise<void>) => void;

export const root = path.dirname(import.meta.dirname);
/** The Node that the project pins, whatever runs the tests. */
const node = path.join(root, 'node_modules/node/bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** Where Node keeps what it compiled of the sources: a start then costs half. */
const compiled = path.join(root, 'node_modules/.cache/node');

/** Waits until `done` gives something other than false, for as long as a very slow machine may need. */
export const until = <T>(done: () => T | Promise<T>): Promise<T> =>
  vi.waitFor(
    async () => {
      const found = await done();
      expect(found).not.toBe(false);
      return found;
    },
    { timeout: 25_000, interval: 20 },
  );

export async function fakes(onEnd: OnEnd, options: FakeClusterOptions = {}): Promise<FakeCluster> {
  const cluster = await startFakeCluster({ warmSeconds: 5, ...options });
  onEnd(() => cluster.close());
  return cluster;
}

export const urlsOf = (cluster: FakeCluster) => cluster.endpoints.map((e) => e.url).join('\n');

export function folderFor(onEnd: OnEnd): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-test-'));
  onEnd(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** Calls as a page makes them: encoded, and nothing but what the contract has can come back. */
export function overTheWire(methods: Implementation, bugs: unknown[] = []): Remote {
  const client = createClient((frame) => queueMicrotask(() => peer.receive(frame)));
  const peer = answer(
    methods,
    (frame) => queueMicrotask(() => client.receive(frame)),
    (bug) => bugs.push(bug),
  );
  return client.methods;
}

export interface TestEngine {
  engine: Engine;
  /** As over the wire. */
  methods: Remote;
  folder: string;
  ticks: Ticked[];
  changes: Events['changed'][];
  /** What it said to a person, and what it would call bugs. */
  said: string[];
  bugs: unknown[];
  close: () => Promise<void>;
}

export async function engineFor(onEnd: OnEnd, options: Partial<EngineOptions> = {}): Promise<TestEngine> {
  const folder = options.dataFolder ?? folderFor(onEnd);
  const said: string[] = [];
  const engine = await createEngine({
    version: '0.0.0',
    report: (sentence) => said.push(sentence),
    ...options,
    dataFolder: folder,
  });
  let closing: Promise<void> | null = null;
  const close = () => (closing ??= engine.close());
  onEnd(close);
  const bugs: unknown[] = [];
  const ticks: Ticked[] = [];
  const changes: Events['changed'][] = [];
  engine.on('ticked', (tick) => ticks.push(tick));
  engine.on('changed', (change) => changes.push(change));
  return { engine, methods: overTheWire(engine.methods, bugs), folder, ticks, changes, said, bugs, close };
}

/** A cluster polled five times a second. */
export const quick = (addresses: string, name = '') => ({
  name,
  addresses,
  intervalSeconds: 0.2,
  timeoutSeconds: 5,
});

/** A cluster that records as soon as it is added. */
export async function recorded(
  { methods }: Pick<TestEngine, 'methods'>,
  addresses: string,
  name = '',
): Promise<Cluster & { recording: string }> {
  const cluster = await methods.addCluster(quick(addresses, name));
  if (cluster.recording === null) throw new Error('it does not record');
  return { ...cluster, recording: cluster.recording };
}

/** From and to for whatever happened in a run. */
export const everything = [0, Number.MAX_SAFE_INTEGER] as const;

export const clusterOf = async (methods: Remote, id: string): Promise<Cluster> =>
  (await methods.listClusters()).find((c) => c.id === id)!;

/** Waits until so many ticks of a run with all its endpoints have been told. */
export const ticked = ({ ticks }: Pick<TestEngine, 'ticks'>, run: string, count: number): Promise<Ticked> =>
  until(() => {
    const own = ticks.filter((t) => t.run === run && t.answered === t.endpoints);
    return new Set(own.map((t) => t.t)).size >= count ? own.at(-1)! : false;
  }) as Promise<Ticked>;

/** Rows of a run file, read by a connection of the test's own. */
export function rowsOf<Row>(file: string, sql: string, ...params: unknown[]): Row[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare(sql).all(...params) as Row[];
  } finally {
    db.close();
  }
}

export interface Ran {
  child: ChildProcess;
  stdout: () => string;
  stderr: () => string;
  /** Resolves with its exit code, or the signal that ended it. */
  ended: Promise<number | NodeJS.Signals>;
}

/** The command line, from the sources, as a process of its own. */
export function run(onEnd: OnEnd, args: string[], env: NodeJS.ProcessEnv = {}): Ran {
  const child = spawn(node, [path.join(root, 'electron/engine/cli.ts'), ...args], {
    env: { ...process.env, NO_COLOR: '1', NODE_OPTIONS: '', NODE_COMPILE_CACHE: compiled, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const text = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (part: string) => (text[name] += part));
  const ended = new Promise<number | NodeJS.Signals>((resolve) =>
    // 'close' and not 'exit': what it said last is in
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'SIGKILL')),
  );
  onEnd(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { child, stdout: () => text.stdout, stderr: () => text.stderr, ended };
}
