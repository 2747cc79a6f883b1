/**
 * What one scalar panel draws, without pixels: a line a statistic, the dots of the workers, what is a lower bound or
 * thin; and the texts that stand at the right end. Pure.
 */
import type { Scalars, Step } from '../electron/engine/api.ts';
import { tight, value } from './format.ts';
import { linear, type Scale } from './scale.ts';
import type { Switch } from './scalar-choice.ts';
import {
  isMain,
  offered,
  ownOf,
  populationOf,
  valuesOf,
  type Population,
  type ScalarPanel,
  type Shown,
} from './scalar-panels.ts';
import { spanOf } from './steps.svelte.ts';

export interface ScalarLine {
  statistic: Shown;
  values: Float64Array;
  /** 1: the value lies in the last bucket of a histogram, so it is at least this. */
  atLeast: Uint8Array | null;
}

export interface ScalarFigure {
  steps: readonly Step[];
  lines: ScalarLine[];
  dots: { w: number; values: Float64Array }[];
  /** 1: counters restarted or were lost in the step. null: that says nothing of these numbers. */
  lower: Float64Array | null;
  /** What was counted is then at least this; otherwise it only knows nothing of the rest. */
  bound: boolean;
  coverage: Float64Array | null;
  scale: Scale;
}

/** Less of the expected samples than this is hatched. */
export const thinBelow = 0.75;

const lengths = (steps: readonly Step[], now: number) =>
  Float64Array.from(steps, (s) => {
    const { from, to } = spanOf(s, now);
    return (to - from) / 1000;
  });

export interface FigureWish {
  panel: ScalarPanel;
  on: readonly Switch[];
  population: Population;
  w: number;
  /** Workers with a dot; others may have been asked for too. */
  drawn: readonly number[];
  /** Where a step that is running ends so far. */
  now: number;
}

/** null: the engine has not answered for this metric yet. */
export function figureOf(found: Scalars, wish: FigureWish): ScalarFigure | null {
  const { panel, on, now } = wish;
  const series = found.series.find((s) => s.metric === (panel.metric?.id ?? 'running'));
  const { steps } = found;
  const common = { steps, coverage: series?.coverage ?? null };
  if (panel.metric === null) {
    const lines: ScalarLine[] = [{ statistic: 'sum', values: lengths(steps, now), atLeast: null }];
    return { ...common, lines, dots: [], lower: null, bound: false, scale: scaleOf(panel, lines, []) };
  }
  if (!series) return null;
  const population = populationOf(panel, wish.population);
  const lines = offered(panel, population)
    .filter((s) => on.includes(s))
    .map((statistic) => ({
      statistic,
      values: valuesOf(series, statistic, population, wish.w),
      atLeast: population === 'requests' ? lastBucket(series.requests?.atLeast, statistic) : null,
    }));
  const dots =
    !on.includes('workers') || population === 'time'
      ? []
      : series.each
          .filter(({ w }) => wish.drawn.includes(w))
          .map((own) => ({ w: own.w, values: ownOf(panel, own) }));
  const fromDeltas = panel.total || panel.metric.kind === 'ratio' || panel.metric.kind === 'histogram';
  return {
    ...common,
    lines,
    dots,
    lower: fromDeltas ? series.lowerBound : null,
    bound: panel.total,
    scale: scaleOf(panel, lines, dots),
  };
}

function lastBucket(bits: Float64Array | undefined, statistic: Shown): Uint8Array | null {
  const bit = statistic === 'p50' ? 1 : statistic === 'p95' ? 2 : 0;
  return bits && bit > 0 ? Uint8Array.from(bits, (b) => ((b & bit) > 0 ? 1 : 0)) : null;
}

function scaleOf(panel: ScalarPanel, lines: ScalarLine[], dots: ScalarFigure['dots']): Scale {
  let peak = 0;
  for (const { values } of [...lines, ...dots]) for (const v of values) if (v > peak) peak = v;
  // what is counted in a step has no halves either
  return linear(panel.total ? 'requests' : panel.unit, peak, undefined);
}

/** A number of a step as the page says it: `≥` where it is at least this. */
export function said(panel: ScalarPanel, figure: ScalarFigure, line: ScalarLine, i: number): string {
  const v = line.values[i];
  const least = (figure.bound && figure.lower?.[i] === 1) || line.atLeast?.[i] === 1;
  return `${least && v !== undefined && !Number.isNaN(v) ? '≥ ' : ''}${value(panel.unit, v)}`;
}

export interface End {
  /** Those that end with the same text. */
  statistics: Shown[];
  text: string;
  value: number;
  /** The place of the step that it is of. */
  i: number;
}

/** The last value of each line, highest first. Lines that end alike share one. */
export function endsOf(panel: ScalarPanel, figure: ScalarFigure): End[] {
  const ends: End[] = [];
  for (const line of figure.lines) {
    const i = figure.steps.findLastIndex((s, at) => isJoined(s) && !Number.isNaN(line.values[at] ?? NaN));
    const v = line.values[i];
    if (v === undefined) continue;
    const text = tight(said(panel, figure, line, i));
    const same = ends.find((e) => e.text === text);
    if (same) same.statistics.push(line.statistic);
    else ends.push({ statistics: [line.statistic], text, value: v, i });
  }
  return ends.sort((a, b) => b.value - a.value);
}

/** Only train steps are joined by lines. */
export const isJoined = (s: Step) => s.kind === 'train';

/** The statistic that stands for the panel; null: none is on. */
export const mainLine = (figure: ScalarFigure): ScalarLine | null =>
  figure.lines.find((l) => isMain(l.statistic)) ?? figure.lines[0] ?? null;

/** The step of the same kind before one; null: it is the first. */
export const before = (steps: readonly Step[], i: number): number =>
  steps.slice(0, Math.max(0, i)).findLastIndex((s) => s.kind === steps[i]?.kind);
