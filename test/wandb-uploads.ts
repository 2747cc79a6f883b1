/** Runs to upload in tests: a source whose lines are a pure function of their number, a ledger, and a clock of its own. */
import { createHash } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { ApiKey } from '../electron/engine/wandb/account.ts';
import { createHttp, type Http } from '../electron/engine/wandb/http.ts';
import { encodeLine } from '../electron/engine/wandb/json.ts';
import { Sender } from '../electron/engine/wandb/sender.ts';
import type {
  Ledger,
  LedgerState,
  RunIdentity,
  Timing,
  UploadFile,
  UploadProgress,
  UploadSource,
} from '../electron/engine/wandb/contract.ts';
import { expect, onTestFinished } from 'vitest';
import { WandbError } from '../electron/engine/wandb/errors.ts';
import { fakeKey, startFakeWandb, type FakeWandb, type FakeWandbOptions } from './fake-wandb.ts';

export const START = Date.UTC(2026, 10, 30, 9, 0, 0);

/** mulberry32: small, seeded, good enough. */
export function chance(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A clock that goes on only when somebody sleeps; `onSleep` is told each sleep, and may hold it up. */
export class OwnTime implements Timing {
  at = START;
  readonly slept: number[] = [];
  readonly random: () => number;
  onSleep: (until: number, signal: AbortSignal) => unknown = () => {};

  constructor(seed = 1) {
    this.random = chance(seed);
  }

  readonly now = (): number => this.at;

  readonly sleep = async (ms: number, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    this.slept.push(ms);
    const until = this.at + ms;
    await this.onSleep(until, signal);
    await turn();
    signal.throwIfAborted();
    this.at = Math.max(this.at, until);
  };
}

export const identity: RunIdentity = {
  ...{ entity: null, project: 'rl', runId: 'abc12345', displayName: 'Run one', group: 'g' },
  ...{ jobType: 'vllm-metrics', tags: ['a', 'b'], notes: 'Notes' },
};

export const rowOf = (i: number, padding = 0) => ({
  ...{ _step: i, _timestamp: START / 1000 + i, _runtime: i, 'vllm_scope/step': i },
  ...(padding > 0 && { padding: 'x'.repeat(padding) }),
  ...(i % 5 === 0 && { 'generation_metrics/rate': NaN }),
});

/** A file of so many bytes, named as W&B's clients name media. */
export function fileOf(i: number, size = 100): UploadFile {
  const content = Buffer.alloc(size, `${i} `);
  const digest = createHash('sha256').update(content).digest('hex').slice(0, 20);
  return { name: `media/plotly/plot_${i}_${digest}.plotly.json`, size, read: () => content };
}

export interface MadeSource extends UploadSource {
  /** As many lines as there are now; a test lets it grow. */
  count: number;
  exit: number | null;
  made: UploadFile[];
  expected: () => string[];
}

export function sourceOf(
  count: number,
  { padding = 0, files = 0, exit = 0 }: { padding?: number; files?: number; exit?: number | null } = {},
): MadeSource {
  const line = (i: number) => encodeLine(rowOf(i, padding));
  const source: MadeSource = {
    ...{ count, exit, identity, config: { model: 'm', nan: NaN } },
    metrics: [{ name: 'vllm_scope/step' }, { name: 'generation_metrics/*', step: 'vllm_scope/step' }],
    made: Array.from({ length: files }, (_, i) => fileOf(i)),
    lineCount: () => source.count,
    lines: (first, max) =>
      Array.from({ length: Math.max(0, Math.min(max, source.count - first)) }, (_, i) => line(first + i)),
    summary: (lines) => ({ _step: lines - 1, rows: lines }),
    files: () => source.made,
    ended: () => source.exit,
    expected: () => Array.from({ length: source.count }, (_, i) => line(i)),
  };
  return source;
}

export const nothingYet: LedgerState = {
  ...{ created: false, storageId: null, entity: null, project: null, displayName: null },
  ...{ acked: 0, files: [], complete: false, described: false },
};

/** Kept in memory; `saves` are the changes in their order. */
export class KeptLedger implements Ledger {
  state: LedgerState;
  readonly saves: Partial<LedgerState>[] = [];
  /** Called before each save; what it throws is a crash at that point. */
  before: (change: Partial<LedgerState>) => void = () => {};

  constructor(state: LedgerState = nothingYet) {
    this.state = state;
  }

  save(change: Partial<LedgerState>): void {
    this.before(change);
    this.saves.push(change);
    this.state = { ...this.state, ...change };
  }
}

export interface Upload<Own extends Ledger> {
  url: string;
  source: UploadSource;
  ledger?: Own;
  mode?: 'bulk' | 'live';
  time?: OwnTime;
  tries?: number;
  key?: string;
  /** Around the real one. */
  through?: (http: Http) => Http;
}

/** A sender and what it told. */
export function uploading<Own extends Ledger = KeptLedger>({
  url,
  source,
  mode = 'bulk',
  key = fakeKey,
  tries,
  ...rest
}: Upload<Own>) {
  const ledger = (rest.ledger ?? new KeptLedger()) as Own;
  const { time = new OwnTime(), through = (http) => http } = rest;
  const http = createHttp({ baseUrl: url, ca: null, proxy: null }, new ApiKey(key));
  const told: UploadProgress[] = [];
  const progress = (one: UploadProgress) => void told.push(one);
  const sender = new Sender({ http: through(http), source, ledger, mode, progress, timing: time, tries });
  const run = () => sender.run().finally(() => http.close());
  /** Reasons for waiting, in their order. */
  const waits = () => [...new Set(told.flatMap(({ waiting }) => (waiting === null ? [] : [waiting])))];
  return { sender, run, told, waits, ledger, time };
}

/** Ends with the test, which fails where anything was sent that a well-made client does not send. */
export async function wandb(options: FakeWandbOptions = {}) {
  const fake = await startFakeWandb(options);
  onTestFinished(() => fake.stop());
  return fake;
}
export const place = ['ent', 'rl', 'abc12345'] as const;
export const streams = (fake: FakeWandb) => fake.requests().filter(({ kind }) => kind === 'file_stream');
export const names = (fake: FakeWandb) => fake.requests().map(({ kind, operation }) => operation ?? kind);
export const failing = (run: Promise<unknown>): Promise<WandbError> =>
  run.then(
    () => expect.fail('it went well'),
    (error: unknown) => (error instanceof WandbError ? error : expect.fail(String(error))),
  );
