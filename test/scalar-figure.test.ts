/** What a scalar panel shows: populations and their words, lines, right ends, the table of one step against another. */
import { expect, test } from 'vitest';
import type { MetricInfo, Run, Scalars, ScalarSeries, Step, StepKind } from '../electron/engine/api.ts';
import { metrics } from '../electron/engine/catalogue.ts';
import { thin } from '../renderer/format.ts';
import { switches } from '../renderer/scalar-choice.ts';
import { before, endsOf, figureOf, said } from '../renderer/scalar-figure.ts';
import {
  allPanels,
  headOf,
  offered,
  populationOf,
  usual,
  whyOf,
  type Population,
} from '../renderer/scalar-panels.ts';
import { changeOf, rowsOf, workersInStep } from '../renderer/scalar-rows.ts';

const catalogue: MetricInfo[] = [...metrics];
const panels = allPanels(catalogue);
const panel = (id: string) => panels.find((p) => p.id === id)!;

const kinds: StepKind[] = ['train', 'train', 'eval', 'train'];
const steps: Step[] = kinds.map((kind, n) => ({
  n,
  number: n + 10,
  kind,
  suggested: null,
  from: n * 60_000,
  to: n === 3 ? null : n * 60_000 + 40_000,
}));
const of = (...values: number[]) => Float64Array.from(values);
/** Each statistic has its own thousands: a number says where it comes from. */
const aggregate = (base: number) => ({
  mean: of(base + 1, base + 2, base + 3, base + 4),
  min: of(base, base, base, base),
  max: of(base + 9, base + 9, base + 9, base + 9),
  p50: of(base + 5, base + 5, base + 5, base + 5),
  p95: of(base + 8, base + 8, base + 8, base + 9),
  sum: of(base + 60, base + 61, base + 62, base + 63),
  n: of(4, 4, 4, 4),
});
const series = (metric: string, more: Partial<ScalarSeries> = {}): ScalarSeries => ({
  metric,
  samples: aggregate(1000),
  workers: aggregate(2000),
  deltas: null,
  requests: null,
  pooled: of(0.5, 0.6, 0.7, 0.8),
  coverage: of(1, 0.7, 1, 1),
  lowerBound: of(0, 1, 0, 0),
  each: [0, 1].map((w) => ({ ...aggregate(3000 + 100 * w), w, pooled: of(w, w, w, w), deltas: null })),
  ...more,
});
const found: Scalars = {
  source: 'mark',
  steps,
  missing: 0,
  stopped: false,
  series: [
    ...['running', 'waiting', 'kv_cache_usage', 'prefix_cache_hit_rate', 'preemptions'].map((id) =>
      series(id),
    ),
    series('generation_tokens'),
    series('prompt_tokens'),
    series('ttft', {
      requests: {
        p50: of(4, 4, 4, 4),
        p95: of(7, 7, 7, 60),
        p99: of(9, 9, 9, 60),
        n: of(5, 5, 5, 5),
        atLeast: of(4, 0, 0, 6), // p99 alone; p95 and p99
      },
    }),
  ],
};
const figure = (id: string, population: Population, w = 0, on = switches, drawn = [0, 1]) =>
  figureOf(found, { panel: panel(id), on, population, w, drawn, now: 200_000 })!;
const lines = (id: string, population: Population, w = 0) =>
  Object.fromEntries(figure(id, population, w).lines.map((l) => [l.statistic, [...l.values]]));

test('without a choice the panels of the design, all of them there', () => {
  expect(usual.map((id) => panel(id).title)).toEqual([
    'Step duration',
    'Running',
    'Waiting',
    'KV cache used',
    'Prefix hit rate',
    'Preemptions',
    'Generation tokens',
    'Generation rate',
    'Time to first token',
  ]);
  expect(new Set(panels.map((p) => p.id)).size).toBe(panels.length);
  // a counter has two panels, everything else one
  const counters = catalogue.filter((m) => m.kind === 'counter').length;
  expect(panels).toHaveLength(1 + catalogue.length + counters);
});

test('a panel without the population asked for says which it has instead', () => {
  const head = (id: string, population: Population) => headOf(panel(id), population, 'w3', true);
  expect(head('running', 'requests')).toBe('requests a worker, over samples');
  expect(head('ttft', 'requests')).toBe('s, over requests');
  expect(head('ttft', 'samples')).toBe('s, over samples');
  expect(head('generation_tokens', 'workers')).toBe('tok/s a worker, over samples');
  expect(head('generation_tokens:sum', 'workers')).toBe('tokens a worker and step, over workers');
  expect(head('generation_tokens:sum', 'samples')).toBe('tokens a step');
  expect(head('preemptions:sum', 'time')).toBe('count a step, w3');
  expect(head('kv_cache_usage', 'time')).toBe('%, over time of w3');
  expect(head('prefix_cache_hit_rate', 'requests')).toBe('%, pooled; dots: worker');
  expect(headOf(panel('prefix_cache_hit_rate'), 'samples', '', false)).toBe('%, pooled');
});

test('each statistic comes from the population that the head names', () => {
  expect(lines('running', 'samples').mean).toEqual([1001, 1002, 1003, 1004]);
  expect(lines('running', 'workers').mean).toEqual([2001, 2002, 2003, 2004]);
  expect(lines('running', 'time', 1).mean).toEqual([3101, 3102, 3103, 3104]);
  expect(lines('generation_tokens:sum', 'requests')).toEqual({ sum: [1060, 1061, 1062, 1063] });
  expect(lines('generation_tokens:sum', 'workers').max).toEqual([2009, 2009, 2009, 2009]);
  expect(lines('prefix_cache_hit_rate', 'samples')).toEqual({ pooled: [0.5, 0.6, 0.7, 0.8] });
  // mean over requests: all seconds / all requests
  expect(lines('ttft', 'requests')).toEqual({
    mean: [0.5, 0.6, 0.7, 0.8],
    p50: [4, 4, 4, 4],
    p95: [7, 7, 7, 60],
  });
  expect(lines('ttft', 'samples').p95).toEqual([1008, 1008, 1008, 1009]);
  expect(lines('duration', 'workers')).toEqual({ sum: [40, 40, 40, 20] });
  expect(Object.keys(lines('running', 'time', 7)), 'a worker that is not there').toContain('mean');
  expect(lines('running', 'time', 7).mean!.every(Number.isNaN)).toBe(true);
});

test('dots are the workers’ own: level, sum or share', () => {
  const dots = (id: string) => figure(id, 'samples').dots.map((d) => d.values[0]);
  expect(dots('running')).toEqual([3001, 3101]);
  expect(dots('preemptions:sum')).toEqual([3060, 3160]);
  expect(dots('prefix_cache_hit_rate')).toEqual([0, 1]);
  expect(figure('running', 'time').dots, 'the one worker is the line').toEqual([]);
  expect(figure('running', 'samples', 0, ['mean']).dots).toEqual([]);
  expect(figure('running', 'samples', 0, switches, [1]).dots.map(({ w }) => w)).toEqual([1]);
});

test('ends: of the last train step, equal ones together, at least where it is so', () => {
  const ends = (id: string, population: Population) =>
    endsOf(panel(id), figure(id, population)).map((e) => `${e.text} ${e.statistics.join()}`);
  expect(ends('running', 'samples')).toEqual(['1,009 max,p95', '1,005 p50', '1,004 mean', '1,000 min']);
  expect(ends('ttft', 'requests')[0]).toBe('≥ 60.0s p95');
  const latency = figure('ttft', 'requests');
  expect(said(panel('ttft'), latency, latency.lines.at(-1)!, 0)).toBe(`7.00${thin}s`);
  // step 11 restarted: a sum is a lower bound there, a ratio only knows nothing of the rest
  const sum = figure('preemptions:sum', 'samples');
  expect([0, 1].map((i) => said(panel('preemptions:sum'), sum, sum.lines[0]!, i))).toEqual([
    '1,060',
    '≥ 1,061',
  ]);
  const ratio = figure('prefix_cache_hit_rate', 'samples');
  expect(ratio.lower?.[1]).toBe(1);
  expect(said(panel('prefix_cache_hit_rate'), ratio, ratio.lines[0]!, 1)).toBe(`60.0${thin}%`);
  expect(figure('running', 'samples').lower).toBeNull();
});

test('the step before is the last of the same kind', () => {
  expect([0, 1, 2, 3].map((i) => before(steps, i))).toEqual([-1, 0, -1, 1]);
});

test('changes: points of a ratio, percent of all else', () => {
  expect(changeOf('ratio', 0.656, 0.903)).toBe(`−24.7${thin}pt`);
  expect(changeOf('ratio', 0.5, 0.5)).toBe(`0.0${thin}pt`);
  expect(changeOf('s', 42.5, 35.9)).toBe(`+18${thin}%`);
  expect(changeOf('count', 1, 0)).toBe('–');
  expect(changeOf('count', 0, 0)).toBe(`0${thin}%`);
  expect(changeOf('s', NaN, 1)).toBe('–');
});

test('the table: one step against another, both as the panels say them', () => {
  const rows = rowsOf(panels, found, 1, 0, 200_000);
  const row = (title: string) => {
    const r = rows.find((x) => x.title === title)!;
    return [r.value, r.before, r.change];
  };
  expect(row('Duration')).toEqual([`40.0${thin}s`, `40.0${thin}s`, `0${thin}%`]);
  expect(row('Generation tokens')).toEqual(['≥ 1,061', '1,060', `0${thin}%`]);
  // 1,061 and 1,060 tokens in 40 s
  expect(row('Generation rate')).toEqual(['≥ 26.5/s', '26.5/s', `0${thin}%`]);
  expect(row('Hit rate, pooled')).toEqual([`60.0${thin}%`, `50.0${thin}%`, `+10.0${thin}pt`]);
  expect(row('Hit rate, lowest')[0]).toBe(`200000.0${thin}%`);
  expect(row('Waiting, p95')[0]).toBe('1,008');
  expect(row('TTFT, p95')[0]).toBe(`7.00${thin}s`);
  expect(rowsOf(panels, found, 0, -1, 0)[0]).toMatchObject({ before: '', change: '' });
});

test('the workers of a step in words', () => {
  const run = (n: number) =>
    ({ intervalSeconds: 1, workerList: Array.from({ length: n }, (_, w) => ({ w, name: `w${w}` })) }) as Run;
  const words = (n: number, by: number | null, idle: number, last: number | null = 1) =>
    workersInStep(run(n), { n: 0, last, bySeconds: by, idleSeconds: idle }, { own: 63, all: 100 }).map(
      (line) => line.map((p) => (typeof p === 'string' ? p : p.name)).join(''),
    );
  expect(words(2, 21.9, 22)).toEqual([
    `w1 ended last, 21.9${thin}s after w0.`,
    '22 worker-seconds without work while others worked.',
    `w1 made 63${thin}% of the tokens; an even share is 50${thin}%.`,
  ]);
  expect(words(4, 2, 0)[0]).toBe(`w1 ended last, 2.00${thin}s after the last but one.`);
  expect(words(4, 0.2, 0)[0]).toBe('w1 ended last, within a scrape of the last but one.');
  expect(words(4, 0.2, 0)[1]).toBe('Nobody waited for others.');
  expect(words(2, null, 0, null)).toEqual(['No worker had anything to do.']);
  expect(words(2, null, 5)[0]).toBe('Only w1 worked.');
});

test('what is asked about a number: its own statistic, population and step', () => {
  const at = { run: 'r', source: 'mark' as const, step: steps[1]!, now: 0 };
  const step = { run: 'r', from: 60_000, to: 100_000, step: { source: 'mark', n: 1 } };
  expect(whyOf(panel('running'), 'p95', 'requests', 0, at)).toEqual({
    ...step,
    metric: 'running',
    statistic: 'p95',
    population: 'samples',
    w: null,
  });
  expect(whyOf(panel('ttft'), 'p95', 'requests', 0, at)).toMatchObject({ population: 'requests', w: null });
  // a mean over requests is pooled: sum / count
  expect(whyOf(panel('ttft'), 'mean', 'requests', 0, at)).toMatchObject({
    statistic: 'pooled',
    population: 'pooled',
  });
  expect(whyOf(panel('prefix_cache_hit_rate'), 'pooled', 'time', 3, at)).toMatchObject({
    statistic: 'pooled',
    population: 'time',
    w: 3,
  });
  expect(whyOf(panel('generation_tokens:sum'), 'sum', 'samples', 0, at)).toMatchObject({
    metric: 'generation_tokens',
    statistic: 'sum',
  });
  expect(whyOf(panel('duration'), 'sum', 'samples', 0, at)).toBeNull();
});

test('every statistic that is offered has values', () => {
  for (const p of panels.filter(({ metric }) => found.series.some((s) => s.metric === metric?.id)))
    for (const wanted of ['requests', 'samples', 'workers', 'time'] as const)
      for (const statistic of offered(p, populationOf(p, wanted)))
        expect(lines(p.id, wanted)[statistic]?.some(Number.isNaN), `${p.id} ${wanted} ${statistic}`).toBe(
          false,
        );
});
