/** The third line of each vital number: the same thing over the last full step, from the scalars that are there. Pure. */
import type { Scalars, ScalarSeries, Step } from '../electron/engine/api.ts';
import { count, percent, rate, thin } from './format.ts';
import { kindWord, stepLength, stepName } from './step-words.ts';

/** What the lines are made of. */
export const stepMetrics = [
  'running',
  'waiting',
  'kv_cache_usage',
  'prefix_cache_hit_rate',
  'generation_tokens',
  'preemptions',
];

/** The place in `steps` of the last train step that was over by a time; where none is a train step, of any. null: none. */
export function lastFull(steps: readonly Step[], by: number): number | null {
  const over = (s: Step) => s.to !== null && s.to <= by;
  const train = steps.findLastIndex((s) => over(s) && kindWord(s) === '');
  const i = train >= 0 ? train : steps.findLastIndex(over);
  return i >= 0 ? i : null;
}

/** Whether the scalars of this step are computed: coverage is there where anything is. */
export const isThere = (scalars: Scalars, i: number) =>
  scalars.series.some((s) => !Number.isNaN(s.coverage[i] ?? NaN));

/** By the vital's title; vitals of which nothing is known are left out. */
export function stepLines(scalars: Scalars, i: number): Map<string, string> {
  const lines = new Map<string, string>();
  const step = scalars.steps[i];
  if (!step || step.to === null || !isThere(scalars, i)) return lines;
  const ms = step.to - step.from;
  const name = stepName(step);
  const series = (metric: string) => scalars.series.find((s) => s.metric === metric);
  const add = (title: string, metric: string, say: (s: ScalarSeries) => string | null) => {
    const s = series(metric);
    const text = s ? say(s) : null;
    if (text !== null) lines.set(title, `${name}: ${text}`);
  };
  const sum = (s: ScalarSeries, show: (v: number) => string) => {
    const v = there(s.workers.sum[i]);
    return v === null ? null : `${s.lowerBound[i] === 1 ? `≥${thin}` : ''}${show(v)}`;
  };
  const mean = (show: (v: number) => string, words: string) => (s: ScalarSeries) => {
    const v = there(s.samples.mean[i]);
    return v === null ? null : `${show(v)} ${words}`;
  };
  add('Workers', 'running', (s) => {
    const v = there(s.coverage[i]);
    return v === null ? null : `coverage ${Math.floor(v * 100)}${thin}%`;
  });
  add('Running', 'running', mean(count, 'a worker'));
  add('Waiting', 'waiting', mean(count, 'a worker'));
  add('KV cache', 'kv_cache_usage', mean(percent, 'mean'));
  add('Hit rate', 'prefix_cache_hit_rate', (s) => {
    const v = there(s.pooled[i]);
    return v === null ? 'no traffic' : percent(v);
  });
  add('Generation', 'generation_tokens', (s) => sum(s, (v) => `${rate((v / ms) * 1000)} tok/s`));
  add('Preemptions', 'preemptions', (s) => sum(s, (v) => `${count(v)} in ${stepLength(ms)}`));
  const before = scalars.steps.findLastIndex((s, n) => n < i && kindWord(s) === kindWord(step));
  const hits = series('prefix_cache_hit_rate')?.pooled;
  const [now, then] = [there(hits?.[i]), there(hits?.[before])];
  // beside the step before of its kind, as far as there is room for both
  const older = scalars.steps[before];
  if (older && now !== null && then !== null && step.kind === 'train' && step.number < 100)
    lines.set(
      'Hit rate',
      `steps ${step.number}, ${older.number}: ${percent(now).replace(/\s*%$/, '')}, ${percent(then)}`,
    );
  return lines;
}

const there = (v: number | undefined) => (v === undefined || Number.isNaN(v) ? null : v);
