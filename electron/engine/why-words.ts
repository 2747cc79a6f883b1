/** The sentences of "why this number": what it says, how it is made, whether it may be believed. */
import type { Why, WhyQuery, WhyWorker } from './api-steps.ts';
import type { Metric } from './catalogue.ts';
import type { Asked } from './why.ts';

/** Exact, with thousands apart. */
const exact = (n: number) => n.toLocaleString('en', { maximumFractionDigits: 3 });
const several = (n: number, what: string) => `${exact(n)} ${what}${n === 1 ? '' : 's'}`;

/** Coverage from which a level is believed. */
const THIN_BELOW = 0.75;

const inWindow = (query: WhyQuery) => (query.step ? 'in this step' : 'in this window');

/** Part and whole of what was counted, in a sentence. */
const ratioSentences: Record<string, (part: string, whole: string, when: string) => string> = {
  prefix_cache_hit_rate: (part, whole, when) =>
    `Of ${whole} prompt tokens looked up ${when}, ${part} were in the prefix cache.`,
  external_cache_hit_rate: (part, whole, when) =>
    `Of ${whole} prompt tokens that a KV connector was asked for ${when}, it supplied ${part}.`,
  spec_acceptance_rate: (part, whole, when) =>
    `Of ${whole} draft tokens proposed ${when}, ${part} were accepted.`,
};

const counted: Record<string, string> = {
  generation_tokens: 'output tokens',
  prompt_tokens: 'prompt tokens',
  preemptions: 'preemptions',
};

const statisticWords: Record<string, string> = {
  mean: 'The mean',
  min: 'The lowest',
  max: 'The highest',
  p50: 'The median',
  p95: 'The 95th percentile',
  p99: 'The 99th percentile',
  sum: 'The sum',
};

export function sentenceOf({ metric, query, stats, workers, recorded }: Asked, value: number | null): string {
  if (!recorded) return `${metric.title} was not recorded in this run.`;
  const when = inWindow(query);
  const { statistic, population, w } = query;
  const own = w === null ? null : stats.each.find((e) => e.w === w);
  const total = (of: (e: (typeof stats.each)[number]) => number | null) =>
    own ? (of(own) ?? 0) : stats.each.reduce((sum, e) => sum + (of(e) ?? 0), 0);
  const word = statisticWords[statistic] ?? 'The value';
  if (population === 'requests')
    return `${word} of ${several(stats.requests?.n ?? 0, 'request')} ${when}, read from their histogram: ${metric.about}`;
  if (metric.of.length === 2 && statistic === 'pooled') {
    const [part, whole] = [total((e) => e.part), total((e) => e.whole)];
    if (whole === 0) return `Nothing was counted ${when}: no traffic.`;
    const say = ratioSentences[metric.id];
    return say
      ? say(exact(part), exact(whole), when)
      : `${exact(whole)} observations ${when} took ${exact(part)} ${metric.unit} together.`;
  }
  if (value === null) return `There is no value ${when}.`;
  if (statistic === 'sum' && metric.kind === 'counter')
    return `${exact(value)} ${counted[metric.id] ?? metric.title.toLowerCase()} were counted ${when}${own ? ` by w${w}` : ` by ${several(workers.length, 'worker')}`}.`;
  const each = population === 'workers' ? perWorker(metric) : '';
  const of =
    population === 'workers'
      ? `${several(stats.workers.n, 'worker')}, ${each}`
      : own
        ? `${several(own.n, 'sample')} of w${w}`
        : `${several(stats.samples.n, 'sample')} of ${several(workers.length, 'worker')}`;
  return `${word} of ${of} ${when}${metric.kind === 'counter' && population !== 'workers' ? ', each a rate since the sample before' : ''}.`;
}

const perWorker = (metric: Metric) =>
  metric.kind === 'gauge'
    ? 'each with its mean'
    : metric.of.length === 2
      ? 'each with its own rate'
      : 'each with its delta';

export function populationOf({ population, w }: WhyQuery, workers: number): string {
  switch (population) {
    case 'pooled':
      return w === null ? `pooled over ${several(workers, 'worker')}` : `w${w}`;
    case 'samples':
      return `over samples of ${several(workers, 'worker')}`;
    case 'workers':
      return `over ${several(workers, 'worker')}`;
    case 'time':
      return `over time, w${w}`;
    case 'requests':
      return 'over requests';
  }
}

export function formulaOf(metric: Metric, { statistic, population }: WhyQuery): string {
  const [a, b] = metric.of;
  if (population === 'requests')
    return `${statistic} by linear interpolation in the merged buckets of ${a.replace(/_sum$/, '')}`;
  if (statistic === 'pooled') return `Σ Δ ${a} / Σ Δ ${b}`;
  const sample =
    metric.kind === 'gauge'
      ? a
      : b === undefined
        ? population === 'workers' || statistic === 'sum'
          ? `Δ ${a}`
          : `Δ ${a} / Δ seconds`
        : `Δ ${a} / Δ ${b}`;
  const one =
    population === 'workers'
      ? `one ${metric.kind === 'gauge' ? `mean of ${sample}` : `Σ ${sample}`} a worker`
      : `each sample's ${sample}`;
  return statistic === 'sum' ? `Σ ${sample}` : `${statistic} over ${one}`;
}

/** Counters go on while nobody asks, so gaps inside hurt levels and not deltas. */
export function verdictOf(
  { metric, stats, workers, samples, expected, query, recorded, absent, gone, edgeMs }: Asked,
  value: number | null,
): Why['verdict'] {
  const here = query.step ? 'the step' : 'the window';
  if (!recorded)
    return {
      sign: 'nothing',
      sentence: `This run has no values of ${metric.title.toLowerCase()}: its servers never gave any.`,
    };
  if (value === null && samples === 0) {
    const who = query.w === null ? 'Nobody answered' : `w${query.w} did not answer`;
    return { sign: 'nothing', sentence: `${who} in ${here}.` };
  }
  if (metric.kind === 'gauge') {
    const share = expected > 0 ? samples / expected : 1;
    if (share < THIN_BELOW)
      return {
        sign: 'thin',
        sentence: `Thin. ${exact(samples)} of ${several(expected, 'expected sample')}; a ${query.statistic} of a level knows nothing of the rest.`,
      };
    return {
      sign: 'complete',
      sentence:
        share < 0.9995
          ? `${exact(samples)} of ${several(expected, 'expected sample')} were there; of the rest a level tells nothing.`
          : 'Complete. Every expected sample was there.',
    };
  }
  const asked = query.w === null ? stats.each : stats.each.filter((e) => e.w === query.w);
  if (asked.every((e) => (e.delta ?? e.part) === null)) {
    const who = query.w === null ? 'Nobody has' : `w${query.w} does not have`;
    return { sign: 'nothing', sentence: `${who} an earlier sample to count from in ${here}.` };
  }
  const named = (those: WhyWorker[]) => listed(those.map(({ w }) => `w${w}`));
  const restarted = workers.filter((x) => x.columns.some((c) => c.resets > 0));
  const lost = workers.filter((x) => x.lost);
  const less = [
    ...(restarted.length > 0
      ? [`${named(restarted)} restarted: what was counted between the last answer and the restart is lost.`]
      : []),
    ...(lost.length > 0
      ? [`${named(lost)} did not answer any more before ${here} ended: what was counted since is not in it.`]
      : []),
  ];
  const silent = workers.flatMap((x) => atEdges(x, query, here, edgeMs, gone.has(x.w)));
  const all = [
    ...less,
    ...silent.slice(0, NAMED).map(({ sentence }) => sentence),
    ...(absent.length > 0
      ? [`${listed(absent)} did not answer: what was counted there is in another one, or lost.`]
      : []),
  ];
  if (less.length > 0 && query.statistic === 'sum')
    return { sign: 'lower-bound', sentence: `A lower bound. ${all.join(' ')}` };
  if (less.length > 0 || absent.length > 0 || silent.some(({ more }) => !more))
    return { sign: 'thin', sentence: `Not complete. ${all.join(' ')}` };
  if (silent.length > 0) return { sign: 'thin', sentence: `Not of ${here} alone. ${all.join(' ')}` };
  return {
    sign: 'complete',
    sentence: `Complete. Counters go on while a scrape fails, so a gap inside ${here} loses nothing.`,
  };
}

/** A worker that was silent over an edge for long. `more`: what it counted outside is in the number; or else some is missing. */
function atEdges(
  { w, lost, columns: [c] }: WhyWorker,
  { from, to }: WhyQuery,
  here: string,
  edgeMs: number,
  isGone: boolean,
): { sentence: string; more: boolean }[] {
  const found: { sentence: string; more: boolean }[] = [];
  const say = (edge: string, counted: string, more: boolean) =>
    found.push({ sentence: `w${w} did not answer when ${here} ${edge}: what it counted ${counted}.`, more });
  if (c?.start && c.start.at < from - edgeMs) say('began', `since ${clock(c.start.at)} is in it`, true);
  // the window before it, which that gap belongs to, ends there
  if (c?.start && c.start.at > from + edgeMs)
    say('began', `until ${clock(c.start.at)} is in another one`, false);
  if (c?.end && c.end.at > to + edgeMs) say('ended', `until ${clock(c.end.at)} is in it`, true);
  // it may only be late, if the run ends there
  if (c?.end && c.end.at < to - edgeMs && !lost && !isGone)
    say('ended', `since ${clock(c.end.at)} is not in it`, false);
  return found;
}

/** So many workers are told of one by one. */
const NAMED = 3;
const clock = (at: number) => `${new Date(at).toISOString().slice(11, 19)} UTC`;

const listed = (names: readonly string[]) =>
  names.length > 3 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ');
