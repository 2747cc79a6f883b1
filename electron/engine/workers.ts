/**
 * From parsed bodies to rows: who is who (numbers of workers), what counts as a restart (epochs), from where a new
 * series counts, and whether several servers answer in one worker's name. Pure bookkeeping: knows no clock, socket
 * or file. docs/metrics.md explains the rules; they follow arithmetic.md's "Epoch" and "Delta of a counter".
 */
import type { RunEvent } from './api.ts';
import { endpointName } from './addresses.ts';
import { BucketCounts, type BucketChange, type HistogramCounts } from './bucket-counts.ts';
import type { BucketState } from './bucket-store.ts';
import { columnIndex, columns } from './catalogue.ts';
import type { ParsedBody, ParsedWorker } from './parse.ts';
import { WORKERS_MAX } from './schema.ts';

/** A body with its times, as it came from an endpoint. All in epoch ms of our clock, but for `serverAt`. */
export interface Answer {
  endpoint: number;
  body: ParsedBody;
  sentAt: number;
  receivedAt: number;
  /** The reply's Date header, epoch ms, whole seconds; null: none. */
  serverAt: number | null;
  /** Which vLLM it says that it is; null: that is not known, or not yet. */
  version: string | null;
}

export interface SampleRow {
  w: number;
  at: number;
  took: number;
  epoch: number;
  /** Slots to the worker's row before; null: it is its first. */
  back: number | null;
  values: Float64Array;
  /** What is new of its latency histograms; null: nothing. */
  buckets: BucketChange | null;
}

export interface WorkerRow {
  w: number;
  endpoint: number;
  engine: string;
  model: string;
  replica: string;
  labels: Record<string, string>;
  /** Slot of its first sample. */
  first: number;
  created: number;
  /** Slot in which it was found that several servers answer in its name; null: one. */
  several: number | null;
}

export interface SeriesRow {
  column: string;
  w: number;
  /** k of the first sample that has a value. */
  first: number;
  /** When it was known to be 0, epoch ms; null: unknown, so its first value is no delta. */
  zeroAt: number | null;
}

export interface EventRow {
  t: number;
  at: number;
  kind: RunEvent['kind'];
  endpoint: number | null;
  w: number | null;
  detail: string;
}

/** What one batch of answers adds to a run. Workers listed are new or changed. */
export interface Changes {
  samples: SampleRow[];
  workers: WorkerRow[];
  series: SeriesRow[];
  events: EventRow[];
}

interface Known extends WorkerRow {
  epoch: number;
  lastT: number;
  /** Its time; null before the first. */
  lastAt: number | null;
  /** Last value seen of each column, NaN before the first. */
  last: Float64Array;
  /** 1 where `series` has a row. */
  seen: Uint8Array;
  buckets: BucketCounts;
  samples: number;
  /** Counts of samples at which counters fell without a later start time. */
  falls: number[];
}

/** What a book must know to go on with a run that has rows already. */
export interface Remembered {
  workers: (WorkerRow & {
    epoch: number;
    lastT: number;
    lastAt: number | null;
    values: Float64Array;
    columnsSeen: string[];
    /** See BucketCounts. */
    buckets: readonly HistogramCounts[] | null;
  })[];
  lastTickAt: number | null;
}

const PROCESS_START = columnIndex('process_start');
const counterColumns = columns.flatMap((c, i) => (c.kind === 'counter' ? [i] : []));
/** Start times are constants of a process; a second of tolerance is for what rounds them. */
const START_TOLERANCE_SECONDS = 1;
/** Float sums added up over processes may differ in their last bit from scrape to scrape: that is no fall. */
const fell = (value: number, before: number) => value < before - 1e-9 * Math.abs(before);

export class WorkerBook {
  private readonly endpoints: readonly string[];
  private readonly known = new Map<string, Known>();
  private tick: { t: number; at: number } | null = null;
  /** Of the slot before this one; null in the run's first. */
  private tickBeforeAt: number | null;
  private full = false;

  constructor(endpoints: readonly string[], remembered?: Remembered) {
    this.endpoints = endpoints;
    this.tickBeforeAt = remembered?.lastTickAt ?? null;
    for (const w of remembered?.workers ?? []) {
      const seen = new Uint8Array(columns.length);
      for (const id of w.columnsSeen) seen[columnIndex(id)] = 1;
      this.known.set(keyOf(w), {
        ...w,
        last: w.values,
        seen,
        buckets: new BucketCounts(w.buckets),
        samples: 0,
        falls: [],
      });
    }
  }

  get count(): number {
    return this.known.size;
  }

  /** Workers in whose name several servers answer. */
  get severals(): number {
    let n = 0;
    for (const w of this.known.values()) if (w.several !== null) n++;
    return n;
  }

  /** What workers' histograms counted as of their last rows, of those that counted more since this was asked for. */
  bucketStates(): BucketState[] {
    const states: BucketState[] = [];
    for (const { w, lastT, buckets } of this.known.values()) {
      const counts = buckets.news();
      if (counts) states.push({ k: lastT * WORKERS_MAX + w, counts });
    }
    return states;
  }

  /** What to say of an endpoint behind which several servers answer in one worker's name; null: one. */
  severalBehind(endpoint: number): string | null {
    for (const w of this.known.values())
      if (w.endpoint === endpoint && w.several !== null)
        return `Several servers behind ${endpointName(this.endpoints[endpoint] ?? '')}. Give each server's own address.`;
    return null;
  }

  /** Workers seen behind each endpoint. */
  behind(endpoint: number): number {
    let n = 0;
    for (const w of this.known.values()) if (w.endpoint === endpoint) n++;
    return n;
  }

  /**
   * The rows of one batch of answers in slot `t`, which began at `tickAt`. Answers must come in the order of their
   * endpoint's replies; a second answer of an endpoint in the same slot is left out.
   */
  take(t: number, tickAt: number, answers: readonly Answer[]): Changes {
    const changes: Changes = { samples: [], workers: [], series: [], events: [] };
    if (this.tick?.t !== t) {
      this.tickBeforeAt = this.tick?.at ?? this.tickBeforeAt;
      this.tick = { t, at: tickAt };
    }
    // the first tick gives numbers by the endpoint list, then the engine label, in whatever order answers come
    const ordered = [...answers].sort((a, b) => a.endpoint - b.endpoint);
    for (const answer of ordered) {
      const workers = [...answer.body.workers].sort(byEngine);
      for (const parsed of workers) this.takeWorker(t, tickAt, answer, parsed, changes);
    }
    return changes;
  }

  private takeWorker(
    t: number,
    tickAt: number,
    answer: Answer,
    parsed: ParsedWorker,
    changes: Changes,
  ): void {
    const at = middle(answer);
    const worker = this.find(t, tickAt, answer.endpoint, parsed, changes);
    if (!worker || worker.lastT === t) return;
    const firstOfWorker = worker.lastT < 0;
    worker.samples++;
    if (!firstOfWorker) this.judge(t, at, worker, parsed, changes);
    if (parsed.created > worker.created || Number.isNaN(worker.created)) {
      if (!Number.isNaN(parsed.created) && !firstOfWorker) changes.workers.push(worker);
      worker.created = parsed.created;
    }
    for (let i = 0; i < columns.length; i++) {
      const value = parsed.values[i]!;
      if (Number.isNaN(value)) continue;
      worker.last[i] = value;
      if (worker.seen[i]) continue;
      worker.seen[i] = 1;
      const zeroAt = columns[i]!.kind === 'counter' ? this.zeroAt(worker, answer, parsed) : null;
      changes.series.push({ column: columns[i]!.id, w: worker.w, first: t * WORKERS_MAX + worker.w, zeroAt });
    }
    changes.samples.push({
      w: worker.w,
      at,
      took: Math.round(answer.receivedAt - answer.sentAt),
      epoch: worker.epoch,
      back: firstOfWorker ? null : t - worker.lastT,
      values: parsed.values,
      // the counts of several servers in one name mean nothing
      buckets:
        worker.several === null
          ? worker.buckets.take(parsed.buckets, this.zeroAt(worker, answer, parsed) !== null)
          : null,
    });
    worker.lastT = t;
    worker.lastAt = at;
  }

  /** Raises the epoch on any evidence of a restart, and notices when it is not one server that answers. */
  private judge(t: number, at: number, worker: Known, parsed: ParsedWorker, changes: Changes): void {
    const starts: [now: number, before: number][] = [
      [parsed.created, worker.created],
      [parsed.values[PROCESS_START]!, worker.last[PROCESS_START]!],
    ];
    const later = starts.some(([now, before]) => now > before + START_TOLERANCE_SECONDS);
    const earlier = starts.some(([now, before]) => now < before - START_TOLERANCE_SECONDS);
    const down = counterColumns.filter((i) => fell(parsed.values[i]!, worker.last[i]!));
    if (!later && !earlier && down.length === 0) return;
    worker.epoch++;
    // families that come later than others after a restart are not compared with what was before it
    worker.last.fill(NaN);
    worker.created = NaN;
    worker.buckets.restart();
    if (down.length > 0 && !later)
      worker.falls = [...worker.falls.filter((n) => n > worker.samples - 10), worker.samples];
    const name = endpointName(this.endpoints[worker.endpoint] ?? '');
    if (worker.several === null && (earlier || worker.falls.length >= 2)) {
      worker.several = t;
      changes.workers.push(worker);
      const why = earlier ? 'start times jump back' : 'counters fall again and again';
      changes.events.push(
        event(
          t,
          at,
          'several-servers',
          worker,
          `Several servers behind ${name}: ${why}. Give each server's own address.`,
        ),
      );
    }
    if (worker.several !== null) return; // said once; these are no restarts
    const why = later ? 'its start time moved forward' : `${columns[down[0]!]!.id} fell`;
    changes.events.push(event(t, at, 'restart', worker, `w${worker.w} on ${name} restarted: ${why}.`));
  }

  /** Since when a series that is new now is known to have been 0; null: unknown. */
  private zeroAt(worker: Known, answer: Answer, parsed: ParsedWorker): number | null {
    if (worker.lastAt !== null) return worker.lastAt; // that body of the worker was complete and did not have it
    if (this.tickBeforeAt === null || answer.serverAt === null || Number.isNaN(parsed.created)) return null;
    // `_created` is the server's clock, so the tick before is put on it by the Date header, which is cut to seconds
    const tickBeforeAtServer = answer.serverAt + 1000 - (answer.receivedAt - this.tickBeforeAt);
    return parsed.created * 1000 > tickBeforeAtServer ? this.tickBeforeAt : null;
  }

  private find(
    t: number,
    tickAt: number,
    endpoint: number,
    parsed: ParsedWorker,
    changes: Changes,
  ): Known | null {
    const key = keyOf({ endpoint, ...parsed });
    const known = this.known.get(key);
    if (known) return known;
    if (this.known.size >= WORKERS_MAX) {
      if (!this.full)
        changes.events.push({
          t,
          at: tickAt,
          kind: 'workers-full',
          endpoint,
          w: null,
          detail: `A run holds ${WORKERS_MAX.toLocaleString('en')} workers; those that came later are not recorded.`,
        });
      this.full = true;
      return null;
    }
    const worker: Known = {
      w: this.known.size,
      endpoint,
      // copies: a piece of a body keeps the whole body alive
      engine: copied(parsed.engine),
      model: copied(parsed.model),
      replica: copied(parsed.replica),
      labels: JSON.parse(JSON.stringify(parsed.labels)) as Record<string, string>,
      first: t,
      created: parsed.created,
      several: null,
      epoch: 0,
      lastT: -1,
      lastAt: null,
      last: new Float64Array(columns.length).fill(NaN),
      seen: new Uint8Array(columns.length),
      buckets: new BucketCounts([]),
      samples: 0,
      falls: [],
    };
    this.known.set(key, worker);
    changes.workers.push(worker);
    if (this.tickBeforeAt !== null)
      changes.events.push(event(t, tickAt, 'worker', worker, `w${worker.w} was seen first.`));
    return worker;
  }
}

const event = (
  t: number,
  at: number,
  kind: EventRow['kind'],
  worker: WorkerRow,
  detail: string,
): EventRow => ({
  t,
  at,
  kind,
  endpoint: worker.endpoint,
  w: worker.w,
  detail,
});

/** The time of a sample: the middle between asking and having the whole answer. */
export const middle = (answer: Answer) => Math.round((answer.sentAt + answer.receivedAt) / 2);

const copied = (text: string) => Buffer.from(text).toString();

const keyOf = (w: { endpoint: number; engine: string; model: string; replica: string }) =>
  JSON.stringify([w.endpoint, w.engine, w.model, w.replica]);

const byEngine = (a: ParsedWorker, b: ParsedWorker) =>
  Number(a.engine) - Number(b.engine) ||
  (a.engine < b.engine ? -1 : a.engine > b.engine ? 1 : 0) ||
  (a.model + '\0' + a.replica < b.model + '\0' + b.replica ? -1 : 1);
