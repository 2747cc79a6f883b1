/**
 * What one drawing of the timelines is made from: the geometry of the plots, the data in view, who is drawn how.
 * stage.ts builds it once a frame; draw-*.ts read it.
 */
import type { MetricInfo, PressureSpell, Run, RunEvent } from '../electron/engine/api.ts';
import type { Column, Kept } from './kept.ts';
import type { Paints, Points } from './lines.ts';
import type { Plot } from './chart.ts';
import type { Scale } from './scale.ts';
import { share } from './scale.ts';
import type { Span } from './span.ts';
import type { StepSpan } from './step-spans.ts';

export interface Scene {
  run: Run;
  events: RunEvent[];
  /** Of the events. */
  restarts: RunEvent[];
  /** Spells of KV pressure of the run, sorted by begin. */
  pressure: readonly PressureSpell[];
  window: Span;
  /** Left and right edge of the plots, in pixels of the stack. */
  x0: number;
  x1: number;
  kept: Kept;
  /** Places [begin, end) in view, with one more at each side. */
  begin: number;
  end: number;
  /** More than 16 workers: band, mean and outliers. */
  many: boolean;
  /** The average line is on (always past 16 workers). */
  average: boolean;
  isolated: number[];
  paints: Paints;
  /** Where the values at the right end come from: the newest tick, or the last place in view. */
  ends: { kept: Kept; place: number };
  /** The newest tick, where the run is being recorded. */
  liveAt: number | null;
  /** In view; of the set that is tried, while one is. */
  steps: StepSpan[];
  /** Step.n of the selected one. */
  selected: number | null;
  /** The one step in view: the axis shows the seconds since it began. */
  alone: Span | null;
}

export interface PanelBox {
  info: MetricInfo;
  /** In pixels of the sheet that holds all panels. */
  top: number;
  height: number;
  plot: Plot;
  scale: Scale;
  column: Column | null;
  /** Workers with a line. */
  drawn: number[];
  /** Of each of them, and of the average (null). */
  points: Map<number | null, Points>;
}

export const xOf = (s: Pick<Scene, 'x0' | 'x1' | 'window'>, at: number) =>
  s.x0 + ((at - s.window.from) / (s.window.to - s.window.from)) * (s.x1 - s.x0);

export const yOf = (p: PanelBox, v: number) =>
  p.top + p.plot.top + (1 - share(p.scale, v)) * (p.height - p.plot.top - p.plot.bottom);

/** Ratios and means over requests have values only where there was something to measure. */
export const needsTraffic = (info: MetricInfo) => info.kind === 'ratio' || info.kind === 'histogram';

export const workerName = (run: Run, w: number) => run.workerList[w]?.name ?? `w${w}`;

/** 1, or 22 % where other workers are isolated. */
export const opacityOf = (s: Scene, w: number) =>
  s.isolated.length === 0 || s.isolated.includes(w) ? 1 : 0.22;
