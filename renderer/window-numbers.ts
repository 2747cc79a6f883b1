/** The statistics of the window in view of one metric, as texts: mean, min, max, p95 and coverage, each with a reason where it is absent. Pure. */
import type { MetricInfo, MetricStatistics, Run } from '../electron/engine/api.ts';
import type { Figures } from './figures.svelte.ts';
import { duration, percent, thin, value } from './format.ts';

export interface WindowNumber {
  label: 'mean' | 'all' | 'p95' | 'min' | 'max' | 'coverage';
  text: string;
  /** Why it is absent, or not what it seems. */
  reason: string | null;
}

export interface WindowNumbers {
  /** Of what they are: `over samples`. */
  population: string;
  numbers: WindowNumber[];
  /** All of it in words. */
  sentence: string;
}

/** A ratio's own mean would weigh a quiet second like a busy one: parts and wholes are pooled. */
const populations: Record<MetricInfo['kind'], string> = {
  gauge: 'over samples',
  counter: 'over samples',
  ratio: 'pooled, samples',
  histogram: 'over requests, samples',
};

export const tooLong = 'Exact only for shorter windows: zoom in.';

export function numbersOf(info: MetricInfo, run: Run, figures: Figures | null): WindowNumbers {
  const s = figures?.of.get(info.id);
  const none = !s
    ? 'Not read yet.'
    : run.metrics.length > 0 && !run.metrics.includes(info.id)
      ? 'Not there yet.'
      : info.kind === 'ratio' || info.kind === 'histogram'
        ? 'No traffic in view.'
        : 'No answer in view.';
  const central = info.kind === 'ratio' || info.kind === 'histogram' ? s?.pooled : s?.samples.mean;
  // buckets know no percentile, and of a ratio no extremes either
  const coarse = s && s.bucketSeconds > 0 && central != null ? tooLong : none;
  const one = (label: WindowNumber['label'], v: number | null | undefined, reason = none): WindowNumber => ({
    label,
    text: value(info.unit, v),
    reason: v === null || v === undefined ? reason : null,
  });
  const numbers: WindowNumber[] = [
    one(info.kind === 'ratio' ? 'all' : 'mean', central),
    one('p95', s?.samples.p95, coarse),
    one('min', s?.samples.min, coarse),
    one('max', s?.samples.max, coarse),
    { label: 'coverage', text: percent(s?.coverage), reason: s?.coverage == null ? none : null },
  ];
  return {
    population: populations[info.kind],
    numbers,
    sentence: s ? sentenceOf(info, s, numbers) : '',
  };
}

function sentenceOf(info: MetricInfo, s: MetricStatistics, numbers: WindowNumber[]): string {
  const said = numbers.map(
    ({ label, text, reason }) => `${label} ${text}${reason === null ? '' : ` (${reason})`}`,
  );
  const sum = s.samples.sum === null ? '' : ` Sum ${value('count', s.samples.sum)}.`;
  const how =
    info.kind === 'histogram'
      ? ' The mean is over requests, the others over samples.'
      : info.kind === 'ratio'
        ? ' Pooled over all workers, the others over samples.'
        : ' Over the samples of all workers.';
  const buckets = s.bucketSeconds > 0 ? ` From buckets of ${s.bucketSeconds}${thin}s.` : '';
  const bound = s.lowerBound ? ' A worker restarted or was lost: deltas are at least this.' : '';
  return `In view, ${duration(s.seconds)}: ${said.join(', ')}.${how}${sum}${buckets}${bound}`;
}
