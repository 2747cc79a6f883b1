/**
 * The engine's numbers over two windows of a run: the last 60 s of a recording (the strip) and what is in view (heads of
 * panels; the strip of a past run). Asks no more than it must: nothing while the page is hidden, and live never more
 * than a tenth of the time that an answer takes.
 */
import type { MetricStatistics, Remote, Run } from '../electron/engine/api.ts';
import { isKind, sentence } from './sentence.ts';
import type { Span } from './span.ts';

export interface Figures extends Span {
  of: Map<string, MetricStatistics>;
}

interface Wish extends Span {
  metrics: string[];
}

const recentMs = 60_000;
/** What the strip of a live run asks counters for. */
const recentMetrics = ['generation_tokens', 'prefix_cache_hit_rate', 'preemptions'];
/** What the strip of a past run is made of. */
const pastMetrics = ['running', 'waiting', 'waiting_capacity', 'waiting_deferred', 'kv_cache_usage'];
/** A window that was moved is asked for once it has stood so long. */
const standingMs = 400;

type Ask = (wish: Wish, signal: AbortSignal) => Promise<MetricStatistics[]>;

/** One kind of window: at most one ask is under way, and the last wish wins. */
class Asked {
  found = $state.raw<Figures | null>(null);
  /** Why there is nothing. */
  fault = $state<string | null>(null);
  readonly #ask: Ask;
  #wish: Wish | null = null;
  #under: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #notBefore = 0;
  #closed = false;

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** Goes on from an ask that runs: its answer is as good. */
  want(wish: Wish) {
    this.#wish = wish;
    if (this.#under === null && this.#timer === undefined) this.#in(this.#notBefore - performance.now());
  }

  /** What was asked for is of no use any more. */
  wantAnew(wish: Wish, delayMs: number) {
    this.#wish = wish;
    this.#under?.abort();
    this.#under = null;
    this.#in(delayMs);
  }

  #in(ms: number) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#now(), Math.max(0, ms));
  }

  async #now() {
    this.#timer = undefined;
    const wish = this.#wish;
    if (wish === null || this.#closed || document.hidden) return;
    this.#wish = null;
    const control = new AbortController();
    this.#under = control;
    const begin = performance.now();
    try {
      const found = await this.#ask(wish, control.signal);
      if (control.signal.aborted) return;
      this.found = { from: wish.from, to: wish.to, of: new Map(found.map((s) => [s.metric, s])) };
      this.fault = null;
    } catch (error) {
      if (control.signal.aborted || isKind(error, 'cancelled') || isKind(error, 'engine-gone')) return;
      this.fault = sentence(error);
    } finally {
      if (this.#under === control) {
        this.#under = null;
        const end = performance.now();
        this.#notBefore = end + 10 * (end - begin);
        if (this.#wish !== null) this.#in(this.#notBefore - end);
      }
    }
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#under?.abort();
  }
}

/** What there is to know of who asks. */
export interface Looked {
  readonly run: Run;
  readonly recording: boolean;
  readonly following: boolean;
  readonly window: Span;
  readonly metrics: { id: string }[];
  /** Of the first and of the last tick. */
  readonly bounds: { first: number; last: number };
}

export class RunFigures {
  readonly #view: Looked;
  readonly recent: Asked;
  readonly inView: Asked;

  constructor(methods: Remote, view: Looked) {
    this.#view = view;
    const ask = (wish: Wish, signal: AbortSignal) =>
      methods.statistics({ run: view.run.id, coarse: true, ...wish }, signal);
    this.recent = new Asked(ask);
    this.inView = new Asked(ask);
  }

  /** A window cut to where there are ticks; null: there are none in it. */
  #cut({ from, to }: Span): Span | null {
    const { first, last } = this.#view.bounds;
    const end = Math.min(to, last + this.#view.run.intervalSeconds * 1000);
    const begin = Math.max(from, first);
    return this.#view.run.ticks > 0 && end > begin ? { from: begin, to: end } : null;
  }

  #viewWish(): Wish | null {
    const span = this.#cut(this.#view.window);
    const shown = this.#view.metrics.map((m) => m.id);
    const strip = this.#view.recording ? [] : [...pastMetrics, ...recentMetrics];
    const metrics = [...shown, ...strip.filter((id) => !shown.includes(id))];
    return span && metrics.length > 0 ? { ...span, metrics } : null;
  }

  /** A tick came: after the window was moved with it. */
  ticked() {
    // the newest samples were asked for in the last tick, whose slot is still going on
    const end = this.#view.bounds.last + this.#view.run.intervalSeconds * 1000;
    const recent = this.#cut({ from: end - recentMs, to: end });
    if (recent) this.recent.want({ ...recent, metrics: recentMetrics });
    if (!this.#view.following) return;
    const wish = this.#viewWish();
    if (wish) this.inView.want(wish);
  }

  /** Somebody moved the window, or switched panels. */
  moved() {
    const wish = this.#viewWish();
    if (wish) this.inView.wantAnew(wish, standingMs);
  }

  close() {
    this.recent.close();
    this.inView.close();
  }
}
