/**
 * The reading end: a worker thread with read-only connections to run files. Every read of the page runs here, in
 * slices of about 50 ms between which other calls and cancels come through, so that a scrape is never late.
 * Started by reader-thread.ts.
 */
import fs from 'node:fs';
import { parentPort } from 'node:worker_threads';
import Database from 'better-sqlite3';
import type { MetricStatistics, RunEvent, StatisticsQuery, TimelineQuery, Timelines, Worker } from './api.ts';
import { EngineError } from './errors.ts';
import * as queries from './queries.ts';
import { answerCalls, type Frame } from './rpc.ts';
import { metricsOf } from './scalars.ts';
import { asEngineError, distrust, refuseOther, RUN_APPLICATION_ID, runSteps } from './schema.ts';
import { forgetScans, stepCalls, type StepCalls } from './step-calls.ts';
import { statistics, temporaryTables } from './statistics.ts';
import { readMeta } from './store.ts';
import { rollUp, timelines, totalOf, type RolledSlice, type RunFile } from './timelines.ts';
import type { Width } from './vectors.ts';

/** What a run file tells of itself. */
export interface RunContents {
  workerList: Worker[];
  endpointList: string[];
  firstAt: number | null;
  lastAt: number | null;
  ticks: number;
  metrics: string[];
}

/** The calls of the thread. `file` is a path. */
export interface ReaderCalls extends StepCalls {
  contents(file: string, signal?: AbortSignal): Promise<RunContents>;
  events(file: string, from: number, to: number, signal?: AbortSignal): Promise<RunEvent[]>;
  timelines(file: string, query: TimelineQuery, signal?: AbortSignal): Promise<Timelines>;
  statistics(file: string, query: StatisticsQuery, signal?: AbortSignal): Promise<MetricStatistics[]>;
  rollUp(file: string, width: Width, settledAt: number, signal?: AbortSignal): Promise<RolledSlice>;
  /** Reset-aware generation tokens of the whole run; null: none. */
  generationTokens(file: string, signal?: AbortSignal): Promise<number | null>;
  /** Moves what is committed into the main file. Here, since it waits for the disk and a scrape must not. */
  checkpoint(file: string): Promise<void>;
  /** Lets go of the file. */
  release(file: string): Promise<void>;
}

const OPEN_FILES = 8;

interface Opened {
  db: Database.Database;
  statements: Map<string, Database.Statement>;
  intervalMs: number;
  timeoutMs: number;
  startedAt: number;
}

const opened = new Map<string, Opened>();

/** What was made of the file asked last. Its data_version is another one after each commit of another connection. */
let memo: { db: Database.Database | null; version: number; values: Map<string, unknown> } = {
  db: null,
  version: 0,
  values: new Map(),
};

function open(file: string): Opened {
  const known = opened.get(file);
  if (!fs.existsSync(file)) {
    known?.db.close();
    opened.delete(file);
    throw new EngineError('not-found', `${file} is gone. Was it moved or deleted?`);
  }
  if (known) {
    // the longest unused is let go first
    opened.delete(file);
    opened.set(file, known);
    return known;
  }
  const db = new Database(file, { readonly: true });
  try {
    const version = refuseOther(db, runSteps, RUN_APPLICATION_ID, file);
    if (version === 0)
      throw new EngineError('file-damaged', `${file} is empty. Restore it from a copy, or delete it.`);
    if (version < runSteps.length)
      throw new EngineError('bad-input', `${file} has an older schema and was not upgraded.`);
    distrust(db);
    db.pragma('temp_store = MEMORY');
    db.pragma('cache_size = -8192');
    db.exec(temporaryTables);
    const { intervalMs, timeoutMs, startedAt } = readMeta(db, file);
    const entry = { db, statements: new Map<string, Database.Statement>(), intervalMs, timeoutMs, startedAt };
    opened.set(file, entry);
  } catch (error) {
    db.close();
    throw error;
  }
  for (const [other, { db: old }] of opened) {
    if (opened.size <= OPEN_FILES) break;
    opened.delete(other);
    old.close();
  }
  return opened.get(file)!;
}

function runFile(file: string, signal: AbortSignal | undefined): RunFile {
  const first = open(file);
  /** Prepared once. Another call may have let the file go in between. */
  const prepared = (sql: string, raw: boolean): Database.Statement => {
    const { db, statements } = open(file);
    const key = raw ? `raw ${sql}` : sql;
    let statement = statements.get(key);
    if (!statement) statements.set(key, (statement = raw ? db.prepare(sql).raw() : db.prepare(sql)));
    return statement;
  };
  const all = <Row>(sql: string, params?: Record<string, unknown>): Row[] => {
    const statement = prepared(sql, false);
    if (statement.reader) return (params ? statement.all(params) : statement.all()) as Row[];
    if (params) statement.run(params);
    else statement.run();
    return [];
  };
  const workers = all<{ n: number }>('SELECT coalesce(max(w), -1) + 1 AS n FROM worker')[0]!.n;
  const { intervalMs, timeoutMs, startedAt } = first;
  return {
    all,
    rows: (sql, params) => prepared(sql, true).all(params) as (number | null)[][],
    workers,
    intervalMs,
    timeoutMs,
    startedAt,
    memo<Value>(key: string, make: () => Value) {
      const { db } = open(file);
      const version = db.pragma('data_version', { simple: true }) as number;
      if (memo.db !== db || memo.version !== version) memo = { db, version, values: new Map() };
      if (!memo.values.has(key)) memo.values.set(key, make());
      return memo.values.get(key) as Value;
    },
    async breathe() {
      await new Promise<void>((resolve) => setImmediate(resolve));
      if (signal?.aborted) throw new EngineError('cancelled', 'Cancelled.');
    },
  };
}

function contents(run: RunFile): RunContents {
  const span = run.all<{ first: number | null; last: number | null; n: number }>(
    'SELECT min(at) AS first, max(at) AS last, count(*) AS n FROM tick',
  )[0]!;
  const rows = run.all<Record<string, unknown>>(queries.workerList);
  return {
    workerList: rows.map((r) => ({
      w: r.w as number,
      name: `w${r.w as number}`,
      endpoint: r.url as string,
      engine: r.engine as string,
      model: r.model as string,
      version: r.version as string | null,
      replica: r.replica as string,
      labels: {
        ...(JSON.parse(r.endpoint_labels as string) as Record<string, string>),
        ...(JSON.parse(r.labels as string) as Record<string, string>),
      },
      firstAt: r.first_at as number,
      goneAt: r.gone_at as number | null,
      several: r.several !== null,
    })),
    endpointList: run.all<{ url: string }>('SELECT url FROM endpoint ORDER BY e').map((r) => r.url),
    firstAt: span.first,
    lastAt: span.last,
    ticks: span.n,
    metrics: metricsOf(run),
  };
}

/** Errors of SQLite become ours, so that a damaged file is one sentence and not a bug. */
const guarded = async <T>(file: string, work: () => T | Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    throw asEngineError(error, file);
  }
};

/** Each with its run file opened, the signal taken off. */
function stepCallsOfFiles(): StepCalls {
  const made = Object.entries(stepCalls).map(([name, call]): [string, unknown] => {
    const act = call as (run: RunFile, file: string, ...args: unknown[]) => unknown;
    return [
      name,
      (file: string, ...args: unknown[]) => {
        const signal = args.at(-1) instanceof AbortSignal ? (args.pop() as AbortSignal) : undefined;
        return guarded<unknown>(file, () => act(runFile(file, signal), file, ...args));
      },
    ];
  });
  return Object.fromEntries(made) as unknown as StepCalls;
}

const calls: ReaderCalls = {
  contents: (file, signal) => guarded(file, () => contents(runFile(file, signal))),
  events: (file, from, to, signal) =>
    guarded(file, () => runFile(file, signal).all<RunEvent>(queries.events, { from, to })),
  timelines: (file, query, signal) => guarded(file, () => timelines(runFile(file, signal), query)),
  statistics: (file, query, signal) => guarded(file, () => statistics(runFile(file, signal), query)),
  rollUp: (file, width, settledAt, signal) =>
    guarded(file, () => rollUp(runFile(file, signal), width, settledAt)),
  generationTokens: (file, signal) =>
    guarded(file, () => totalOf(runFile(file, signal), 'generation_tokens')),
  checkpoint: (file) =>
    guarded(file, () => {
      const db = new Database(file, { fileMustExist: true });
      db.pragma('wal_checkpoint(PASSIVE)');
      db.close();
    }),
  release: async (file) => {
    await Promise.resolve();
    forgetScans(file);
    opened.get(file)?.db.close();
    opened.delete(file);
  },
  ...stepCallsOfFiles(),
};

const port = parentPort;
if (!port) throw new Error('reader.ts runs as a worker thread');

/** Float arrays and blobs go over without a copy: an answer gives its buffers away, with all arrays in them. */
function buffersOf(value: unknown, found: Set<ArrayBuffer> = new Set()): Set<ArrayBuffer> {
  if (ArrayBuffer.isView(value)) {
    // a Buffer may be a part of Node's shared pool, which must stay
    const isOwn = value instanceof Float64Array || value.byteLength === value.buffer.byteLength;
    if (value.buffer instanceof ArrayBuffer && isOwn) found.add(value.buffer);
  } else if (typeof value === 'object' && value !== null)
    for (const inner of Object.values(value)) buffersOf(inner, found);
  return found;
}

const peer = answerCalls(
  calls,
  (frame) => port.postMessage(frame, [...buffersOf('result' in frame ? frame.result : null)]),
  (bug) => console.error(bug),
);
port.on('message', (frame: Frame) => peer.receive(frame));
