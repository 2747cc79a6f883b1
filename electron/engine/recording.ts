/**
 * One run being written: from batches of a poller to rows, with the rollups that follow behind them. What fails while
 * writing ends the recording with a sentence; what was written stays.
 */
import { EngineError } from './errors.ts';
import { endpointName } from './addresses.ts';
import type { Batch, TargetChanges } from './poll.ts';
import type { Tell } from './progress.ts';
import type { ReaderCalls } from './reader.ts';
import type { RunStore, StoredEndpoint } from './store.ts';
import { StepKeeper } from './step-keeper.ts';
import { originOf } from './timelines.ts';
import { WIDTHS } from './vectors.ts';
import { WorkerBook, type EventRow } from './workers.ts';

export interface RecordingOptions {
  store: RunStore;
  reader: ReaderCalls;
  now: () => number;
  /** Its steps are others. */
  stepped: () => void;
  /** Writing failed: the recording has ended. */
  onFault: (error: unknown) => void;
  /** Goes on with a run that has rows: said as the beginning of a new stretch. */
  resumed?: string;
}

/** From here on, ticks that did not happen are an event and not only a gap. */
const HELD_UP_MS = 2000;
/** How often what is not urgent is done: rollups, checkpoints. */
const CHORES_MS = 10_000;

export class Recording {
  readonly store: RunStore;
  readonly book: WorkerBook;
  private readonly options: RecordingOptions;
  /** By number; the book looks names up in it. */
  private readonly urls: string[];
  readonly steps: StepKeeper;
  /** By number: what the file says of their vLLM. */
  private readonly versions = new Map<number, string>();
  private resumed: string | undefined;
  private chores: NodeJS.Timeout;
  private rolling: Promise<void> | null = null;
  private ended = false;
  lastAt: number | null;

  constructor(options: RecordingOptions) {
    this.options = options;
    this.store = options.store;
    this.resumed = options.resumed;
    const remembered = options.resumed === undefined ? undefined : options.store.remembered();
    this.urls = options.store.endpoints().map(({ url }) => url);
    this.book = new WorkerBook(this.urls, remembered);
    this.lastAt = remembered?.lastTickAt ?? null;
    this.steps = new StepKeeper(this.store, options.reader, options.stepped, (error) => {
      if (this.ended) return;
      this.abandon();
      options.onFault(error);
    });
    this.chores = setInterval(() => void this.doChores(), CHORES_MS);
  }

  get endpoints(): number {
    return this.urls.length;
  }

  take(batch: Batch): void {
    if (this.ended) return;
    try {
      if (this.resumed !== undefined) {
        this.store.beginStretch(batch.t, batch.at, this.resumed);
        this.resumed = undefined;
      }
      const changes = this.book.take(batch.t, batch.at, batch.answers);
      if (batch.leftOut * this.store.meta.intervalMs >= HELD_UP_MS)
        changes.events.push({
          t: batch.t,
          at: batch.at,
          kind: 'held-up',
          endpoint: null,
          w: null,
          detail: `${batch.leftOut} ticks are missing before this one: this machine slept or was too busy to ask.`,
        });
      for (const m of batch.misses)
        if (m.becameStale) changes.events.push(this.endpointEvent(batch, 'stale', m.endpoint, m.sentence));
      const failed = batch.misses.map((m) => ({
        endpoint: m.endpoint,
        reason: m.reason,
        detail: m.sentence,
        asked: m.asked,
      }));
      this.store.write(
        batch.t,
        batch.at,
        changes,
        failed,
        batch.answers.map((a) => a.endpoint),
      );
      this.writeVersions(batch.answers);
      this.lastAt = batch.at;
      this.steps.ticked();
    } catch (error) {
      this.abandon();
      this.options.onFault(error);
    }
  }

  private writeVersions(answers: Batch['answers']): void {
    for (const { endpoint, version } of answers) {
      if (version === null || this.versions.get(endpoint) === version) continue;
      this.store.writeVersion(endpoint, version);
      this.versions.set(endpoint, version);
    }
  }

  private endpointEvent(
    { t, at }: { t: number; at: number },
    kind: EventRow['kind'],
    endpoint: number,
    detail: string,
  ): EventRow {
    return { t, at, kind, endpoint, w: null, detail };
  }

  /** Endpoints that were added, taken away or came back while it records; `endpoints` by number. */
  endpointsChanged({ joined, left, back }: TargetChanges, endpoints: readonly StoredEndpoint[]): void {
    if (this.ended || joined.length + left.length + back.length === 0) return;
    const now = { t: (this.store.lastTick()?.t ?? -1) + 1, at: this.options.now() };
    const say = (kind: EventRow['kind'], e: number, what: string) =>
      this.endpointEvent(now, kind, e, `${endpointName(this.urls[e] ?? '')} ${what}.`);
    try {
      for (const e of joined) this.urls.push(endpoints[e]!.url);
      this.store.writeEndpoints(
        joined.map((e) => ({ e, ...endpoints[e]! })),
        left,
        back,
      );
      this.store.writeEvents([
        ...joined.map((e) => say('joined', e, 'was added')),
        ...left.map((e) => say('left', e, 'was taken away')),
        ...back.map((e) => say('joined', e, 'is back')),
      ]);
    } catch (error) {
      this.abandon();
      this.options.onFault(error);
    }
  }

  /** The wall clock was set back: said in the run. */
  clockStepped(byMs: number): void {
    if (this.ended) return;
    const seconds = Math.round(byMs / 1000);
    try {
      this.store.writeEvents([
        {
          t: this.store.lastTick()?.t ?? 0,
          at: this.options.now(),
          kind: 'clock',
          endpoint: null,
          w: null,
          detail: `The clock was set back by ${seconds.toLocaleString('en')} s; this run's times go on without that step.`,
        },
      ]);
    } catch (error) {
      // whoever asked for the time must not hear of it
      this.abandon();
      this.options.onFault(error);
    }
  }

  private async doChores(): Promise<void> {
    if (this.ended) return;
    try {
      this.store.buckets.writeStates(this.book.bucketStates());
      await this.options.reader.checkpoint(this.store.file);
      const { intervalMs, timeoutMs } = this.store.meta;
      await this.rollUp(this.options.now() - timeoutMs - intervalMs);
    } catch (error) {
      // a reading thread that died is started again at the next call: no reason to stop recording
      if (error instanceof EngineError && error.kind === 'engine-gone') return;
      if (!this.ended) this.options.onFault(error);
    }
  }

  /** Rolls up what lies before `settledAt`; one at a time. */
  private async rollUp(settledAt: number): Promise<void> {
    while (this.rolling) await this.rolling;
    this.rolling = rollUpRun(this.store, this.options.reader, settledAt, () => this.ended);
    try {
      await this.rolling;
    } finally {
      this.rolling = null;
    }
  }

  private abandon(): void {
    this.ended = true;
    clearInterval(this.chores);
  }

  /** Nothing more is written; the file is closed as it is, and can be gone on with. */
  async giveUp(): Promise<void> {
    this.abandon();
    await this.rolling?.catch(() => undefined);
    await this.options.reader.release(this.store.file);
    this.store.close(this.lastAt ?? this.options.now());
  }

  /** Ends the run: rolls up its tail and closes the file. Gives its generation tokens. */
  async end(): Promise<{ generationTokens: number | null }> {
    clearInterval(this.chores);
    try {
      if (!this.ended) {
        await this.rollUp(Infinity);
        await this.steps.finish();
        this.store.buckets.writeStates(this.book.bucketStates());
      }
      return { generationTokens: await this.options.reader.generationTokens(this.store.file) };
    } finally {
      this.ended = true;
      await this.options.reader.release(this.store.file);
      this.store.close(this.lastAt ?? this.options.now());
    }
  }
}

/** Makes what rollups are missing before `settledAt` (Infinity: all). Progress is told in ms of the run. */
export async function rollUpRun(
  store: RunStore,
  reader: ReaderCalls,
  settledAt: number,
  stopped: () => boolean = () => false,
  tell: Tell = () => undefined,
): Promise<void> {
  const { startedAt } = store.meta;
  const lastAt = store.lastTick()?.at ?? startedAt;
  const end = Math.min(settledAt, lastAt + store.meta.timeoutMs + 600_000);
  for (const width of WIDTHS)
    for (let more = true; more;) {
      const thrown = store.rollupsThrown;
      const slice = await reader.rollUp(store.file, width, end);
      if (stopped()) return;
      if (store.rollupsThrown !== thrown) continue; // made of what is no more: begun anew
      store.writeRollups(width, slice.until, slice.buckets);
      more = slice.more;
      // the narrowest costs nearly all: the others are made of it
      if (width === WIDTHS[0] && more)
        tell(originOf(startedAt) + slice.until * width * 1000 - startedAt, lastAt - startedAt);
    }
  tell(lastAt - startedAt, lastAt - startedAt);
}
