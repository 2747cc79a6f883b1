/**
 * Run files for tests, written by the real book and store from made-up or recorded answers, and read by the real
 * thread. Times are epoch ms.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { columnIndex, columns, findMetric } from '../electron/engine/catalogue.ts';
import type { ParsedBody, ParsedHistogram } from '../electron/engine/parse.ts';
import type { Miss } from '../electron/engine/poll.ts';
import { know, makeEdges } from '../electron/engine/edge-queries.ts';
import { measure } from '../electron/engine/queries.ts';
import { startReader } from '../electron/engine/reader-thread.ts';
import { temporaryTables } from '../electron/engine/statistics.ts';
import { RunStore } from '../electron/engine/store.ts';
import { WorkerBook, type Answer } from '../electron/engine/workers.ts';

export const START = 1_796_000_400_000; // on a bucket border of every width
export const ids = ['running', 'prefix_cache_hit_rate', 'generation_tokens', 'preemptions', 'ttft'];

/** A folder that goes with the test. */
export function temporaryFolder(onEnd: (end: () => void) => void): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-test-'));
  onEnd(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A body as parse.ts gives it: per worker its values by column id. */
export function bodyOf(
  workers: {
    engine?: string;
    model?: string;
    created?: number;
    values: Record<string, number>;
    buckets?: Record<string, ParsedHistogram>;
  }[],
): ParsedBody {
  return {
    workers: workers.map(({ engine = '0', model = 'm', created = NaN, values, buckets = {} }) => {
      const row = new Float64Array(columns.length).fill(NaN);
      for (const [id, value] of Object.entries(values)) row[columnIndex(id)] = value;
      return {
        engine,
        model,
        replica: '',
        labels: {},
        values: row,
        created,
        buckets: new Map(Object.entries(buckets)),
      };
    }),
    dialect: 'text',
    complete: true,
    badLines: 0,
    samples: 1,
    names: new Set(['num_requests_running']),
  };
}

/** An answer that took `took` ms around `at`. */
export const answerOf = (endpoint: number, at: number, body: ParsedBody, took = 0): Answer => ({
  endpoint,
  body,
  sentAt: at - took / 2,
  receivedAt: at + took / 2,
  serverAt: null,
  version: null,
});

export class RunMaker {
  readonly store: RunStore;
  readonly book: WorkerBook;

  constructor(file: string, endpoints: number, intervalMs = 1000, startedAt = START) {
    const urls = Array.from({ length: endpoints }, (_, e) => `http://host-${e}:8000/metrics`);
    const meta = {
      id: path.basename(file),
      name: 'test',
      cluster: 'c',
      clusterName: 'test',
      startedAt,
      intervalMs,
      timeoutMs: 5000,
      appVersion: '0',
    };
    this.store = RunStore.create(
      file,
      meta,
      urls.map((url) => ({ url, labels: {} })),
    );
    this.book = new WorkerBook(urls);
  }

  tick(t: number, at: number, answers: Answer[], misses: Omit<Miss, 'becameStale'>[] = []): void {
    const changes = this.book.take(t, at, answers);
    this.store.write(
      t,
      at,
      changes,
      misses.map((m) => ({ endpoint: m.endpoint, reason: m.reason, detail: m.sentence, asked: m.asked })),
      answers.map((a) => a.endpoint),
    );
  }

  /** Per worker the sum of a ratio's whole over windows that touch, with the edges of all of them made at once. */
  splitWholes(windows: [number, number][], id: string): Record<number, number | null> {
    const metric = findMetric(id)!;
    const db = new Database(this.store.file, { readonly: true });
    db.exec(temporaryTables);
    db.prepare(know).run();
    db.prepare(makeEdges).run({ n: 0, windows: JSON.stringify(windows), grace: 7000 });
    for (const [n] of windows.entries())
      // by its edges alone
      db.prepare(measure([metric])).run({ n, first: 0, last: 1_000_000, from: 1, to: 0 });
    const rows = db
      .prepare(`SELECT w, sum(${metric.id}_whole) AS delta FROM temp.measured GROUP BY w`)
      .all() as {
      w: number;
      delta: number | null;
    }[];
    db.close();
    return Object.fromEntries(rows.map((r) => [r.w, r.delta]));
  }
}

/** The real reading thread, ended with the test. */
export function readerFor(onEnd: (end: () => Promise<void>) => void) {
  const reader = startReader((error) => console.error(error));
  onEnd(() => reader.close());
  return reader.calls;
}
