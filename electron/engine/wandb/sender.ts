/**
 * Brings a run to W&B and keeps it there: all at once, or live while it is recorded. One request at a time; what W&B
 * took is written into the ledger before the next is sent, so that after a crash, a lost reply or hours without a
 * network exactly the right lines are there. A line that W&B does not take ends the upload: none is ever left out.
 */
import { configJson } from './config.ts';
import { faultOf, needsNewRun } from './errors.ts';
import { FILES_PER_BATCH, uploadBatch } from './files.ts';
import { createGraphql, type Graphql } from './graphql.ts';
import type { Http } from './http.ts';
import { inWords, Pace, realTiming, retrying, USUAL_TRIES, type Retrying } from './retry.ts';
import { decode } from './json.ts';
import { fitting, MAX_LINES, streamBody, type StreamParts } from './stream.ts';
import type {
  Ledger,
  LedgerState,
  Timing,
  UploadFile,
  UploadPhase,
  UploadProgress,
  UploadResult,
  UploadSource,
} from './contract.ts';

export interface SenderOptions {
  http: Http;
  source: UploadSource;
  ledger: Ledger;
  /** bulk: what is there, and complete. live: until `source.ended()` says that nothing more comes. */
  mode: 'bulk' | 'live';
  progress: (progress: UploadProgress) => void;
  timing?: Timing;
  /** Of one request, before a fault that may pass ends the upload; default 20, live without end. */
  tries?: number;
}

/** Two requests a second is what a run may send. */
const BULK_MS = 500;
const LIVE_MS = 15_000;
const HEARTBEAT_MS = 30_000;
const STREAM_TIMEOUT_MS = 180_000;
/** The server's count of lines may lag behind: it is asked again before it is believed. */
const COUNT_CHECKS = 3;
const COUNT_MS = 5000;
const RATE_OVER_MS = 10_000;
/** A shorter wait is not worth telling. */
const TOLD_MS = 2000;

export class Sender {
  private readonly http: Http;
  private readonly source: UploadSource;
  private readonly ledger: Ledger;
  private readonly live: boolean;
  private readonly tell: (progress: UploadProgress) => void;
  private readonly timing: Timing;
  private readonly graphql: Graphql;
  private readonly retry: Retrying;
  private readonly pace = new Pace(BULK_MS);
  private readonly cancelling = new AbortController();
  /** Ends a rest between rounds. */
  private rest = new AbortController();
  /** Present while it is paused. */
  private gate: { opened: Promise<void>; open: () => void } | null = null;

  private state: LedgerState;
  /** Lines from `state.acked` on that were asked for and did not fit into the last request. */
  private waitingLines: readonly string[] = [];
  private readonly failed = new Map<string, string>();
  private stopped = false;
  private lastSentAt = -Infinity;
  private phase: UploadPhase = 'starting';
  private waiting: { why: string; until: number } | null = null;
  private rowsTotal = 0;
  private filesTotal = 0;
  private bytes = 0;
  private taken: { from: number; bytes: number }[] = [];

  constructor(options: SenderOptions) {
    this.http = options.http;
    this.source = options.source;
    this.ledger = options.ledger;
    this.live = options.mode === 'live';
    this.tell = options.progress;
    this.timing = options.timing ?? realTiming;
    this.state = { ...options.ledger.state };
    this.retry = {
      tries: options.tries ?? (this.live ? Infinity : USUAL_TRIES),
      timing: this.timing,
      signal: this.cancelling.signal,
      waiting: (why, until) => this.waits(why, until ?? 0),
    };
    this.graphql = createGraphql({ http: this.http, ...this.retry });
  }

  /**
   * Once. Throws a WandbError where W&B does not take it; what was taken stays, and the next sender goes on there.
   * What the source or the ledger throws comes through.
   */
  async run(): Promise<UploadResult> {
    try {
      const outcome = await this.send();
      this.enter('done');
      return this.result(outcome);
    } catch (error) {
      if (!this.cancelling.signal.aborted) throw error;
      return this.result('cancelled');
    }
  }

  /** After the request in flight nothing is sent; a run that is live looks crashed to W&B after some minutes. */
  pause(): void {
    if (this.gate) return;
    let open = () => {};
    const opened = new Promise<void>((resolve) => (open = resolve));
    this.gate = { opened, open };
    this.report();
  }

  resume(): void {
    this.gate?.open();
    this.gate = null;
    this.report();
  }

  /** `run` resolves with `cancelled`. */
  cancel(): void {
    this.cancelling.abort();
    this.gate?.open();
  }

  /** Live: looks at once for what is new, as at the end of a run. */
  wake(): void {
    this.rest.abort();
  }

  private result(outcome: UploadResult['outcome']): UploadResult {
    const failedFiles = [...this.failed].map(([name, reason]) => ({ name, reason }));
    return { outcome, rows: this.state.acked, failedFiles };
  }

  private async send(): Promise<UploadResult['outcome']> {
    const { source } = this;
    // before the lines are counted: then none can come after the count
    let exitCode = this.exitCode();
    this.rowsTotal = await source.lineCount();
    const { complete, described, acked } = this.state;
    const nothingNew =
      complete && described && acked === this.rowsTotal && (await this.openFiles(acked)).length === 0;
    if (nothingNew && exitCode !== null) return 'up-to-date';
    await this.begin();
    for (;;) {
      await this.sendAll(exitCode);
      if (exitCode !== null) return this.stopped && this.live && !this.sourceEnded() ? 'stopped' : 'done';
      this.enter('live');
      await this.idle();
      exitCode = this.exitCode();
    }
  }

  /** With what the run ends once all of it is up; null: it goes on. */
  private exitCode(): number | null {
    if (!this.live) return this.source.ended?.() ?? 0;
    return this.stopped ? 0 : (this.source.ended?.() ?? null);
  }

  private readonly sourceEnded = () => (this.source.ended?.() ?? null) !== null;

  /** Makes the run, or makes it go on; and compares what both sides have. */
  private async begin(): Promise<void> {
    this.enter('starting');
    const { source, state } = this;
    const { identity } = source;
    const { runId } = identity;
    const config = configJson(source.config, source.metrics);
    await this.turn();
    const run = state.created
      ? await this.graphql.continueRun(
          { entity: state.entity!, project: state.project! },
          identity,
          config,
          state.described,
        )
      : await this.graphql.createRun(identity, config);
    if (!state.created && run.historyLineCount > 0)
      throw needsNewRun(
        `W&B has a run ${runId} already, with ${run.historyLineCount} rows of somebody else.`,
      );
    const { storageId, entity, project, displayName } = run;
    if (state.created && storageId !== state.storageId)
      throw needsNewRun(`W&B has another run under the id ${runId} by now.`);
    // a request whose reply was lost may have been taken
    const most = state.created ? Math.min(this.rowsTotal, state.acked + MAX_LINES) : 0;
    await this.agree(run.historyLineCount, most);
    this.save({ created: true, storageId, entity, project, displayName, complete: false, described: true });
  }

  /** The server's count is a check and nothing more: where to go on is in the ledger. */
  private async agree(count: number, most: number): Promise<void> {
    const { acked, entity, project } = this.state;
    for (let checks = 0; count < acked; checks++) {
      if (checks === COUNT_CHECKS)
        throw needsNewRun(`W&B has only ${count} rows of this run, though it took ${acked}.`);
      this.waits('W&B counts fewer rows than it took; asking again', this.timing.now() + COUNT_MS);
      await this.timing.sleep(COUNT_MS, this.cancelling.signal);
      this.waits(null, 0);
      const place = { entity: entity!, project: project! };
      const now = await this.graphql.lineCount(place, this.source.identity.runId);
      if (now === null) throw needsNewRun('W&B does not have this run any more.');
      count = now;
    }
    if (count > most)
      throw needsNewRun(
        `W&B has ${count} rows of this run, of which only ${acked} are from here: somebody else writes to it.`,
      );
  }

  /** Everything that there is by now. `exitCode`: nothing comes after it, and the run is ended with it. */
  private async sendAll(exitCode: number | null): Promise<void> {
    for (;;) {
      if (this.state.acked >= this.rowsTotal) this.rowsTotal = await this.source.lineCount();
      const lines = await this.nextLines();
      const acked = this.state.acked + lines.length;
      const upToDate = acked >= this.rowsTotal;
      const files = upToDate ? await this.openFiles(acked) : [];
      const ends = upToDate && files.length === 0 && exitCode !== null;
      if (lines.length > 0 || ends) {
        if (!this.live) this.enter(lines.length > 0 ? 'rows' : 'finishing');
        await this.post({
          history: { offset: this.state.acked, lines },
          ...(upToDate && { summary: await this.source.summary(acked) }),
          ...(ends && { exitCode }),
        });
        this.waitingLines = this.waitingLines.slice(lines.length);
        this.save({ acked, ...(ends && { complete: true }) });
      }
      if (files.length > 0) await this.sendFiles(files.slice(0, FILES_PER_BATCH));
      else if (upToDate) return;
    }
  }

  private async nextLines(): Promise<readonly string[]> {
    const { acked } = this.state;
    if (acked >= this.rowsTotal) return [];
    if (this.waitingLines.length === 0) this.waitingLines = await this.source.lines(acked, MAX_LINES);
    if (this.waitingLines.length === 0) throw new Error(`There is no line ${acked} of ${this.rowsTotal}.`);
    return this.waitingLines.slice(0, fitting(this.waitingLines, acked));
  }

  /** Those that W&B does not have; not those that it refused a moment ago. */
  private async openFiles(lines: number): Promise<readonly UploadFile[]> {
    const all = (await this.source.files?.(lines)) ?? [];
    this.filesTotal = all.length;
    const there = new Set(this.state.files);
    return all.filter(({ name }) => !there.has(name) && !this.failed.has(name));
  }

  private async sendFiles(files: readonly UploadFile[]): Promise<void> {
    if (!this.live) this.enter('files');
    await this.turn();
    const { entity, project } = this.state;
    const run = { entity: entity!, project: project!, runId: this.source.identity.runId };
    const { http, graphql, retry } = this;
    const from = this.timing.now();
    const { uploaded, failed, bytes } = await uploadBatch(files, { http, graphql, run, retry });
    this.count(bytes, from);
    for (const { name, reason } of failed) this.failed.set(name, reason);
    if (uploaded.length === 0) return;
    await this.post({ uploaded });
    this.save({ files: [...this.state.files, ...uploaded] });
  }

  /** Until it is time for what is new, with a heartbeat where W&B has heard nothing for long. */
  private async idle(): Promise<void> {
    this.rest = new AbortController();
    const signal = AbortSignal.any([this.rest.signal, this.cancelling.signal]);
    await this.timing.sleep(LIVE_MS, signal).catch(() => this.cancelling.signal.throwIfAborted());
    if (!this.sourceEnded() && this.timing.now() - this.lastSentAt >= HEARTBEAT_MS) {
      const fresh = (await this.source.lineCount()) > this.state.acked;
      if (!fresh) await this.post({});
    }
  }

  /** One file_stream request, until W&B has taken it. */
  private async post(parts: StreamParts): Promise<void> {
    const { entity, project } = this.state;
    const segments = [entity!, project!, this.source.identity.runId].map(encodeURIComponent);
    const body = streamBody(parts);
    let from = 0;
    const reply = await retrying(async () => {
      await this.turn();
      from = this.timing.now();
      try {
        const answer = await this.http.request({
          method: 'POST',
          url: `files/${segments.join('/')}/file_stream`,
          headers: { 'content-type': 'application/json' },
          body,
          authorized: true,
          timeoutMs: STREAM_TIMEOUT_MS,
          signal: this.cancelling.signal,
        });
        this.pace.observe(answer.headers, this.timing.now());
        const fault = faultOf(answer, 'stream', this.timing.now());
        if (fault) throw fault;
        return answer;
      } finally {
        this.lastSentAt = this.timing.now();
      }
    }, this.retry);
    this.count(Buffer.byteLength(body), from);
    this.stopped ||= saysStopped(reply.text);
  }

  /** Waits while it is paused, and until the next request may go. */
  private async turn(): Promise<void> {
    const { signal } = this.cancelling;
    while (this.gate && !signal.aborted) await this.gate.opened;
    signal.throwIfAborted();
    const ms = this.lastSentAt + this.pace.intervalMs - this.timing.now();
    if (!(ms > 0)) return;
    if (ms >= TOLD_MS)
      this.waits(`W&B limits the pace; next request in ${inWords(ms)}`, this.timing.now() + ms);
    await this.timing.sleep(ms, signal);
    this.waits(null, 0);
    if (this.gate) await this.turn();
  }

  private save(change: Partial<LedgerState>): void {
    this.ledger.save(change);
    this.state = { ...this.state, ...change };
    this.report();
  }

  private count(bytes: number, from: number): void {
    this.bytes += bytes;
    this.taken.push({ from, bytes });
  }

  private enter(phase: UploadPhase): void {
    this.phase = phase;
    this.report();
  }

  private waits(why: string | null, until: number): void {
    const before = this.waiting;
    this.waiting = why === null ? null : { why, until };
    if (before !== null || why !== null) this.report();
  }

  private report(): void {
    const now = this.timing.now();
    this.taken = this.taken.filter(({ from }, i) => from > now - RATE_OVER_MS || i === this.taken.length - 1);
    const bytes = this.taken.reduce((sum, one) => sum + one.bytes, 0);
    const ms = Math.max(1, now - (this.taken[0]?.from ?? now));
    this.tell({
      phase: this.gate ? 'paused' : this.phase,
      rows: this.state.acked,
      rowsTotal: Math.max(this.rowsTotal, this.state.acked),
      files: this.state.files.length,
      filesTotal: this.filesTotal,
      bytes: this.bytes,
      rate: this.taken.length > 0 ? (bytes / ms) * 1000 : null,
      waiting: this.waiting?.why ?? null,
      waitsUntil: this.waiting?.until ?? null,
    });
  }
}

/** Somebody pressed Stop on W&B. Anything else that a 200 holds is none of our business, not even whether it is JSON. */
function saysStopped(text: string): boolean {
  try {
    return (decode(text) as { stopped?: unknown } | null)?.stopped === true;
  } catch {
    return false;
  }
}
