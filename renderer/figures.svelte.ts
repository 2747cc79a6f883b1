/**
 * The engine's numbers over two windows of a run: the last 60 s of a recording (the strip) and what is in view (heads of
 * panels; the strip of a past run). Says what to ask for; when it is asked is asked.svelte.ts.
 */
import type { MetricStatistics, Remote, Run } from '../electron/engine/api.ts';
import { Asked } from './asked.svelte.ts';
import { figuresFor } from './figures-for.ts';
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
  readonly recent: Asked<Wish, Figures>;
  readonly inView: Asked<Wish, Figures>;

  constructor(methods: Remote, view: Looked) {
    this.#view = view;
    const ask = (wish: Wish, signal: AbortSignal) =>
      figuresFor(methods, { run: view.run.id, coarse: true, ...wish }, signal);
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
