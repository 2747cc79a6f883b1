/**
 * Why a number is what it is: which number somebody asked about, and the engine's answer. The drawer (Why.svelte) shows
 * it; whatever shows a number calls `scope.explain` with a WhyQuery.
 */
import type { MetricInfo, Remote, Why, WhyQuery } from '../electron/engine/api.ts';
import { isKind, sentence } from './sentence.ts';
import type { RunView } from './run-view.svelte.ts';
import type { Span } from './span.ts';

export class WhyNumber {
  readonly #methods: () => Remote;
  /** null: nobody asks. */
  query = $state.raw<WhyQuery | null>(null);
  answer = $state.raw<Why | null>(null);
  /** Why there is no answer. */
  fault = $state<string | null>(null);
  /** Place of the reading that is shown instead of the number itself; null: its own. */
  reading = $state<number | null>(null);
  #control: AbortController | null = null;
  #opener: HTMLElement | null = null;
  #wantsFocus = false;

  constructor(methods: () => Remote) {
    this.#methods = methods;
  }

  async ask(query: WhyQuery) {
    this.#control?.abort();
    const control = new AbortController();
    this.#control = control;
    // who goes from number to number comes back to where the first one was
    if (this.query === null && document.activeElement instanceof HTMLElement)
      this.#opener = document.activeElement;
    this.#wantsFocus = this.query === null;
    this.query = query;
    this.answer = null;
    this.fault = null;
    this.reading = null;
    try {
      const answer = await this.#methods().why(query, control.signal);
      if (!control.signal.aborted) this.answer = answer;
    } catch (error) {
      if (!control.signal.aborted && !isKind(error, 'cancelled')) this.fault = sentence(error);
    }
  }

  /** Once after somebody opened the drawer: another view that shows it leaves the focus where it is. */
  takeFocus(): boolean {
    const wanted = this.#wantsFocus;
    this.#wantsFocus = false;
    return wanted;
  }

  close() {
    this.#control?.abort();
    this.#control = null;
    if (this.query === null) return;
    this.query = null;
    this.answer = null;
    const opener = this.#opener;
    this.#opener = null;
    if (opener?.isConnected) opener.focus({ preventScroll: true });
  }
}

/** The numbers that a panel of Timelines has of what is in view: window-numbers.ts. */
export type InViewLabel = 'mean' | 'all' | 'p95' | 'min' | 'max' | 'coverage';

/** Why a number of what is in view is what it is; null: there is no such metric, or no such number of what was counted. */
export function whyInView(view: RunView, metric: string, label: InViewLabel = 'mean'): WhyQuery | null {
  const info = view.metrics.find((m) => m.id === metric);
  if (!info) return null;
  // the window that the numbers on screen are of
  const main = mainWhy(view.run.id, info, view.figures.inView.found ?? view.window);
  if (label === 'mean' || label === 'all' || label === 'coverage') return main;
  return { ...main, statistic: label, population: 'samples' };
}

/** The one statistic that stands for a metric over a window: pooled where there are parts and wholes, otherwise the mean. */
export function mainWhy(run: string, info: MetricInfo, { from, to }: Span): WhyQuery {
  const pooled = info.kind === 'ratio' || info.kind === 'histogram';
  return {
    run,
    metric: info.id,
    from,
    to,
    step: null,
    statistic: pooled ? 'pooled' : 'mean',
    population: pooled ? 'pooled' : 'samples',
    w: null,
  };
}

/**
 * Why a vital number of the strip is what it is, by its title; null: it says who answers, or nothing is read yet. Live:
 * levels of the newest tick (`now`, epoch ms), counters over `recent`. Past: over what is in view.
 */
export function whyOfVital(view: RunView, title: string, now: number | null): WhyQuery | null {
  const metric = vitalMetrics[title];
  if (metric === undefined) return null;
  const past = !view.recording;
  const of = (
    span: Span | null,
    statistic: WhyQuery['statistic'],
    population: WhyQuery['population'],
  ): WhyQuery | null =>
    span && {
      run: view.run.id,
      metric,
      from: span.from,
      to: span.to,
      step: null,
      statistic,
      population,
      w: null,
    };
  const over = past ? view.figures.inView.found : view.figures.recent.found;
  switch (title) {
    case 'Hit rate':
      return of(over, 'pooled', 'pooled');
    case 'Generation':
    case 'Preemptions':
      return of(over, 'sum', 'samples');
    default: {
      const tick = now === null ? null : { from: now, to: now + view.run.intervalSeconds * 1000 - 1 };
      if (title === 'KV cache') return of(past ? over : tick, 'max', 'samples');
      return past ? of(over, 'mean', 'samples') : of(tick, 'sum', 'workers');
    }
  }
}

const vitalMetrics: Record<string, string> = {
  Running: 'running',
  Waiting: 'waiting',
  'KV cache': 'kv_cache_usage',
  'Hit rate': 'prefix_cache_hit_rate',
  Generation: 'generation_tokens',
  Preemptions: 'preemptions',
};
