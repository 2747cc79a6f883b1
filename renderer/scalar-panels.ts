/**
 * The panels of Scalars: which there are, what each is made of, and which statistics it can show for a population. A
 * panel that cannot have the population asked for has another one, and its head says which. Pure.
 */
import type { MetricInfo, ScalarSeries, Step, StepSource, WhyQuery } from '../electron/engine/api.ts';
import { unitName } from './format.ts';
import { spanOf } from './steps.svelte.ts';

/** As switches show them. */
export const statistics = ['mean', 'min', 'max', 'p50', 'p95', 'sum', 'pooled'] as const;
export type Shown = (typeof statistics)[number];
/** The one that stands for a panel where there is room for one number only: drawn solid, with markers. */
export const isMain = (s: Shown) => s === 'mean' || s === 'sum' || s === 'pooled';

/** requests: latencies over requests, all others over samples. */
export type Population = 'requests' | 'samples' | 'workers' | 'time';

export interface ScalarPanel {
  /** `duration`, a metric's id, or `ID:sum`: what a counter counted in a step. */
  id: string;
  title: string;
  /** null: the length of the steps. */
  metric: MetricInfo | null;
  /** A counter's delta, otherwise its rate. */
  total: boolean;
  /** Of its values, as format.ts knows them. */
  unit: string;
  about: string;
}

const duration: ScalarPanel = {
  id: 'duration',
  title: 'Step duration',
  metric: null,
  total: false,
  unit: 's',
  about: 'From the begin of a step to its end.',
};

/** [of a step, a second]: what a counter counts, not its name, is the title. */
const counterTitles: Record<string, [string, string]> = {
  generation_tokens: ['Generation tokens', 'Generation rate'],
  prompt_tokens: ['Prompt tokens', 'Prompt rate'],
  preemptions: ['Preemptions', 'Preemption rate'],
};

function panelsOfMetric(metric: MetricInfo): ScalarPanel[] {
  const { id, title, unit, about } = metric;
  if (metric.kind !== 'counter') return [{ id, title, metric, total: false, unit, about }];
  const [counted, rate] = counterTitles[id] ?? [`${title}, sum`, `${title}, rate`];
  const what = unit.startsWith('tokens') ? 'tokens' : 'count';
  return [
    { id: `${id}:sum`, title: counted, metric, total: true, unit: what, about: `${about} Here: how many.` },
    { id, title: rate, metric, total: false, unit, about },
  ];
}

export const allPanels = (catalogue: MetricInfo[]): ScalarPanel[] => [
  duration,
  ...catalogue.flatMap(panelsOfMetric),
];

/** For somebody who has chosen nothing. */
export const usual = [
  'duration',
  'running',
  'waiting',
  'kv_cache_usage',
  'prefix_cache_hit_rate',
  'preemptions:sum',
  'generation_tokens:sum',
  'generation_tokens',
  'ttft',
];

/** The population that a panel has where `wanted` is asked for. */
export function populationOf(panel: ScalarPanel, wanted: Population): Population {
  if (panel.metric === null) return 'samples';
  if (wanted === 'requests') return panel.metric.kind === 'histogram' ? 'requests' : 'samples';
  // a worker has one delta a step, but no rate of its own that would be exact at the step's edges
  if (wanted === 'workers' && panel.metric.kind === 'counter' && !panel.total) return 'samples';
  return wanted;
}

const five: readonly Shown[] = ['mean', 'min', 'max', 'p50', 'p95'];

/** What it can show, for a population that it has. */
export function offered(panel: ScalarPanel, population: Population): readonly Shown[] {
  const kind = panel.metric?.kind;
  if (kind === undefined) return ['sum'];
  if (panel.total) return population === 'workers' ? five : ['sum'];
  // a ratio of each sample weighs a quiet second like a busy one: only the pooled one, or one a worker
  if (kind === 'ratio') return population === 'workers' ? [...five, 'pooled'] : ['pooled'];
  if (kind !== 'histogram') return five;
  return population === 'requests' ? ['mean', 'p50', 'p95'] : [...five, 'pooled'];
}

/** Behind the title: unit and population, and what stands in for the population that was asked for. */
export function headOf(panel: ScalarPanel, wanted: Population, worker: string, dots: boolean): string {
  const kind = panel.metric?.kind;
  if (kind === undefined) return 's';
  const population = populationOf(panel, wanted);
  const unit = unitName(panel.unit);
  if (panel.total) {
    if (population === 'workers') return `${unit} a worker and step, over workers`;
    return population === 'time' ? `${unit} a step, ${worker}` : `${unit} a step`;
  }
  const each = kind === 'gauge' || kind === 'counter' ? (unit === '%' ? '' : ' a worker') : '';
  if (population === 'time') return `${unit}, over time of ${worker}`;
  if (kind === 'ratio' && population !== 'workers') return `${unit}, pooled${dots ? '; dots: worker' : ''}`;
  return `${unit}${each}, over ${population}`;
}

const missing = (n: number) => new Float64Array(n).fill(NaN);

/** One value a step; all NaN where there are none. */
export function valuesOf(
  series: ScalarSeries,
  statistic: Shown,
  population: Population,
  w: number | null,
): Float64Array {
  const { samples, workers, requests, pooled } = series;
  const none = () => missing(pooled.length);
  if (population === 'time') {
    const own = series.each.find((e) => e.w === w);
    return own ? own[statistic] : none();
  }
  if (statistic === 'pooled') return pooled;
  if (population === 'workers') return workers[statistic];
  if (population === 'samples') return samples[statistic];
  if (statistic === 'mean') return pooled;
  if (statistic === 'p50' || statistic === 'p95') return requests ? requests[statistic] : none();
  return none();
}

/** The value of one worker in each step: its dot. */
export function ownOf(panel: ScalarPanel, own: ScalarSeries['each'][number]): Float64Array {
  if (panel.total) return own.sum;
  return panel.metric?.kind === 'ratio' || panel.metric?.kind === 'histogram' ? own.pooled : own.mean;
}

/** What to ask for to learn why a number of a panel is what it is; null: the length of a step needs no explanation. */
export function whyOf(
  panel: ScalarPanel,
  statistic: Shown,
  wanted: Population,
  w: number | null,
  at: { run: string; source: StepSource; step: Step; now: number },
): WhyQuery | null {
  if (panel.metric === null) return null;
  const population = populationOf(panel, wanted);
  const pooled = statistic === 'pooled' || (population === 'requests' && statistic === 'mean');
  return {
    run: at.run,
    metric: panel.metric.id,
    ...spanOf(at.step, at.now),
    step: { source: at.source, n: at.step.n },
    statistic: pooled ? 'pooled' : statistic,
    population: population === 'time' ? 'time' : pooled ? 'pooled' : population,
    w: population === 'time' ? w : null,
  };
}
