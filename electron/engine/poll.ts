/**
 * The rhythm: one tick an interval, all endpoints in parallel, never two scrapes of one endpoint at once. What comes is
 * handed on in batches that belong to a slot; an answer belongs to the slot in which it arrives.
 */
import type { EndpointState, OutcomeReason } from './api.ts';
import type { Clock } from './clock.ts';
import { createScraper, type Failed, type Outcome, type Scraper } from './scrape.ts';
import type { Answer } from './workers.ts';

export interface Miss {
  endpoint: number;
  reason: OutcomeReason;
  sentence: string;
  /** False where it was not asked: back-off, or an earlier scrape is still under way. */
  asked: boolean;
}

/** What came in slot `t`, which began at `at`. A slot may have several batches. */
export interface Batch {
  t: number;
  at: number;
  /** Slots before this one in which no tick happened; said once, with the slot's first batch. */
  leftOut: number;
  answers: Answer[];
  misses: Miss[];
}

export interface PollOptions {
  urls: readonly string[];
  intervalMs: number;
  timeoutMs: number;
  clock: Clock;
  /** Slot 0 begins here (epoch ms), and the first slot to give is `firstT`. */
  origin: number;
  firstT: number;
  onBatch: (batch: Batch) => void;
}

interface Endpoint {
  scraper: Scraper;
  busy: boolean;
  /** The slot that waits for its answer. */
  askedIn: number;
  /** Arrived in this slot, so that it misses nothing. */
  arrived: boolean;
  failures: number;
  last: Failed | null;
  /** Not asked before this time. */
  askAt: number;
  state: EndpointState;
}

/** A server that is loading or gone is asked ever less often, but is back within this time. */
const BACK_OFF_MS = 10_000;
/** Failures that may pass without back-off. A time-out is none: busy servers answer late just when it matters. */
const PATIENCE = 3;

export class Poller {
  readonly endpoints: Endpoint[];
  private readonly options: PollOptions;
  private origin: number;
  private firstT: number;
  private t: number;
  private tickAt = 0;
  private leftOut = 0;
  /** Scrapes of this slot that are still under way. */
  private waiting = 0;
  private answers: Answer[] = [];
  private misses: Miss[] = [];
  private timer: NodeJS.Timeout | undefined;
  private readonly stopping = new AbortController();

  constructor(options: PollOptions) {
    this.options = options;
    this.origin = options.origin;
    this.firstT = options.firstT;
    this.t = options.firstT - 1;
    this.endpoints = options.urls.map((url) => ({
      scraper: createScraper(url, { timeoutMs: options.timeoutMs, now: () => options.clock.now() }),
      busy: false,
      askedIn: NaN,
      arrived: false,
      failures: 0,
      last: null,
      askAt: 0,
      state: { url, state: null, sentence: null, tookSeconds: null, answeredAt: null, workers: 0 },
    }));
  }

  start(): void {
    this.schedule();
  }

  /** From now on slots are counted from `origin`, beginning with `firstT`: another run begins. */
  regrid(origin: number, firstT: number): void {
    this.endSlot();
    this.origin = origin;
    this.firstT = firstT;
    this.t = firstT - 1;
    this.tickAt = 0; // no slot has begun
    this.waiting = 0;
    for (const endpoint of this.endpoints) endpoint.askedIn = NaN;
    clearTimeout(this.timer);
    this.schedule();
  }

  /** Hands on what is there; scrapes under way are given up. */
  stop(): void {
    clearTimeout(this.timer);
    this.endSlot();
    this.stopping.abort();
    for (const { scraper } of this.endpoints) scraper.close();
  }

  private schedule(): void {
    const { clock, intervalMs } = this.options;
    const due = this.origin + (this.t + 1) * intervalMs - clock.now();
    // never a burst after a sleep, never a long wait after a clock that was set back
    this.timer = setTimeout(() => this.tick(), Math.min(Math.max(due, 0), intervalMs));
  }

  private tick(): void {
    if (this.stopping.signal.aborted) return;
    this.endSlot();
    const { clock, intervalMs } = this.options;
    this.tickAt = clock.now();
    // slots that passed unpolled (sleep, overload) are the gap; a slot is never given twice
    const next = this.t + 1;
    this.t = Math.max(next, Math.round((this.tickAt - this.origin) / intervalMs));
    // the break before a run goes on, or before its first tick, is no fault of this poller
    this.leftOut = next > this.firstT ? this.t - next : 0;
    this.waiting = 0;
    this.endpoints.forEach((endpoint, e) => {
      endpoint.arrived = false;
      // a run's first slot waits for those asked before it too: numbers of workers go by the list of endpoints
      if (endpoint.busy && this.t !== this.firstT) return;
      endpoint.askedIn = this.t;
      if (endpoint.busy) {
        this.waiting++;
        return;
      }
      if (this.tickAt < endpoint.askAt && endpoint.last) {
        this.miss(e, endpoint.last.reason, endpoint.last.sentence, false);
        return;
      }
      this.waiting++;
      void this.ask(endpoint, e);
    });
    if (this.waiting === 0) this.flush();
    this.schedule();
  }

  private async ask(endpoint: Endpoint, e: number): Promise<void> {
    endpoint.busy = true;
    const outcome = await endpoint.scraper.scrape(this.stopping.signal);
    endpoint.busy = false;
    if (this.stopping.signal.aborted) return;
    this.take(endpoint, e, outcome);
    if (endpoint.askedIn === this.t) this.waiting--;
    if (this.waiting <= 0) this.flush();
  }

  private take(endpoint: Endpoint, e: number, outcome: Outcome): void {
    endpoint.arrived = true;
    const { state } = endpoint;
    if (outcome.ok) {
      const { body, sentAt, receivedAt, serverAt } = outcome;
      this.answers.push({ endpoint: e, body, sentAt, receivedAt, serverAt });
      endpoint.failures = 0;
      endpoint.last = null;
      state.state = 'ok';
      state.sentence = null;
      state.tookSeconds = (receivedAt - sentAt) / 1000;
      state.answeredAt = receivedAt;
      state.workers = Math.max(state.workers, body.workers.length);
      return;
    }
    endpoint.failures++;
    endpoint.last = outcome;
    const over = endpoint.failures - PATIENCE;
    if (over > 0 && outcome.reason !== 'timeout')
      endpoint.askAt =
        this.options.clock.now() + Math.min(BACK_OFF_MS, this.options.intervalMs * 2 ** Math.min(over, 16));
    this.miss(e, outcome.reason, outcome.sentence, true);
  }

  private miss(e: number, reason: OutcomeReason, sentence: string, asked: boolean): void {
    this.misses.push({ endpoint: e, reason, sentence, asked });
    const { state } = this.endpoints[e]!;
    state.state = reason;
    state.sentence = sentence;
  }

  /** Before another slot begins: who has not answered in this one missed it. */
  private endSlot(): void {
    if (this.tickAt === 0) return;
    this.endpoints.forEach((endpoint, e) => {
      if (endpoint.busy && !endpoint.arrived)
        this.miss(e, 'late', `${new URL(endpoint.state.url).host} has not answered yet.`, false);
    });
    this.flush();
  }

  private flush(): void {
    if (this.answers.length === 0 && this.misses.length === 0) return;
    if (this.t < this.firstT) return; // between two runs: it belongs to the first slot of the new one
    const { t, tickAt: at, leftOut, answers, misses } = this;
    this.answers = [];
    this.misses = [];
    this.leftOut = 0;
    this.options.onBatch({ t, at, leftOut, answers, misses });
  }
}
