/**
 * What the view of workers asks the engine for, and the answers: over which time, and of which metric the heat map is.
 * The time that was chosen is kept for as long as the page is open.
 */
import type { Remote, Steps, Stragglers } from '../electron/engine/api.ts';
import { Asked } from './asked.svelte.ts';
import { figuresFor } from './figures-for.ts';
import type { Figures } from './figures.svelte.ts';
import { keep, type Kept } from './kept.ts';
import type { RunView } from './run-view.svelte.ts';
import type { Span } from './span.ts';
import { spanOf } from './steps.svelte.ts';
import { tableMetrics } from './worker-rows.ts';

/** The whole run, what is in view in Timelines, or the selected step. */
export type Over = 'whole' | 'view' | 'step';

export interface HeatData {
  metric: string;
  span: Span;
  kept: Kept;
}

interface HeatWish extends Span {
  metric: string;
  points: number;
}

/** Live, no more often than this. */
const restMs = 2000;
/** A window that moves is asked for once it has stood so long. */
const standingMs = 150;

/** By run: it outlives a look at another view. */
const chosenOver = $state<Record<string, Over>>({});

function put<Wish>(to: Asked<Wish, unknown>, wish: Wish, anew: boolean, grows: boolean, delayMs: number) {
  if (anew) to.wantAnew(wish, delayMs);
  else if (grows) to.want(wish);
}

export class WorkersData {
  readonly #view: RunView;
  readonly figures: Asked<Span, Figures>;
  readonly stragglers: Asked<Span, Stragglers>;
  readonly heat: Asked<HeatWish, HeatData>;
  /** What was asked for last, but for the ticks that came since. */
  #asked = '';
  #heatAsked = '';
  /** The steps that stragglers were asked for. */
  #steps: Steps | null = null;

  constructor(methods: Remote, view: RunView) {
    this.#view = view;
    const run = view.run.id;
    const metrics = tableMetrics.map((m) => m.id);
    this.figures = new Asked(
      (span, signal) => figuresFor(methods, { run, metrics, ...span, coarse: this.over !== 'step' }, signal),
      restMs,
    );
    this.stragglers = new Asked((span, signal) => methods.stragglers({ run, ...span }, signal), restMs);
    this.heat = new Asked(async ({ metric, points, from, to }, signal) => {
      const found = await methods.timelines({ run, metrics: [metric], from, to, points }, signal);
      return { metric, span: { from, to }, kept: keep(found) };
    }, restMs);
  }

  /** A step that was selected elsewhere is what somebody wants to see, until he chooses otherwise. */
  get over(): Over {
    const step = this.#view.steps.selectedStep;
    const over = chosenOver[this.#view.run.id] ?? (step ? 'step' : 'whole');
    return over === 'step' && !step ? 'whole' : over;
  }

  set over(over: Over) {
    chosenOver[this.#view.run.id] = over;
  }

  /** The time that is looked at; null: nothing was recorded in it. */
  get span(): Span | null {
    const { run, bounds, window, steps } = this.#view;
    const all = { from: bounds.first, to: bounds.last + run.intervalSeconds * 1000 };
    if (run.ticks === 0) return null;
    const step = this.over === 'step' ? steps.selectedStep : null;
    if (step) return spanOf(step, all.to);
    if (this.over === 'whole') return all;
    const cut = { from: Math.max(window.from, all.from), to: Math.min(window.to, all.to) };
    return cut.to > cut.from ? cut : null;
  }

  /** Asks for what is looked at now; `points`: pixels across the heat map. Call it when anything of it may have changed. */
  update(metric: string, points: number) {
    const { span, over } = this;
    if (!span || points <= 0) return;
    const { steps, bounds, following, recording, window } = this.#view;
    const grows = recording && span.to >= bounds.last;
    const held = over === 'view' && !following ? window : over === 'step' ? steps.selectedStep : null;
    const asked = [over, steps.selected, recording, held?.from, held?.to].join(' ');
    const delay = over === 'view' && !following ? standingMs : 0;
    const heatAsked = `${asked} ${metric} ${points}`;
    put(this.figures, span, asked !== this.#asked, grows, delay);
    put(this.stragglers, span, asked !== this.#asked || steps.found !== this.#steps, grows, delay);
    put(this.heat, { ...span, metric, points }, heatAsked !== this.#heatAsked, grows, delay);
    this.#asked = asked;
    this.#heatAsked = heatAsked;
    this.#steps = steps.found;
  }

  /** The page was hidden, and nothing was asked. */
  shownAgain() {
    this.#asked = this.#heatAsked = '';
  }

  close() {
    for (const asked of [this.figures, this.stragglers, this.heat]) asked.close();
  }
}
