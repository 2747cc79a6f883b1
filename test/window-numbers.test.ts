/** The window's own numbers of a panel: what they are called, and a reason where one is absent. */
import { expect, test } from 'vitest';
import type { MetricStatistics, Run } from '../electron/engine/api.ts';
import { findMetric } from '../electron/engine/catalogue.ts';
import { thin } from '../renderer/format.ts';
import { numbersOf, tooLong } from '../renderer/window-numbers.ts';

const run = { metrics: ['running', 'generation_tokens', 'prefix_cache_hit_rate', 'ttft'] } as Run;
const some = { mean: 0.7, min: 0.25, max: 1, p50: 0.7, p95: 0.95, sum: null, n: 90 };
const nothing = { mean: null, min: null, max: null, p50: null, p95: null, sum: null, n: 0 };
const statistics = (metric: string, more: Partial<MetricStatistics> = {}): MetricStatistics => ({
  metric,
  bucketSeconds: 0,
  deltas: null,
  requests: null,
  seconds: 90,
  samples: some,
  workers: nothing,
  pooled: null,
  coverage: 0.984,
  lowerBound: false,
  each: [],
  ...more,
});
const of = (id: string, s: MetricStatistics | null) =>
  numbersOf(findMetric(id)!, run, s && { from: 0, to: 90_000, of: new Map([[id, s]]) });
const texts = (id: string, s: MetricStatistics | null) =>
  Object.fromEntries(of(id, s).numbers.map((n) => [n.label, n.text.replaceAll(thin, ' ')]));
const reasons = (id: string, s: MetricStatistics | null) =>
  Object.fromEntries(of(id, s).numbers.flatMap((n) => (n.reason === null ? [] : [[n.label, n.reason]])));

test('a level: over samples', () => {
  const s = statistics('running', { samples: { ...some, mean: 36.25, min: 0, max: 64, p95: 63.9 } });
  expect(texts('running', s)).toEqual({ mean: '36.3', p95: '63.9', min: '0', max: '64', coverage: '98.4 %' });
  expect(of('running', s).population).toBe('over samples');
  expect(of('running', s).sentence).toContain('In view, 1:30: mean 36.3');
});

test('a ratio is pooled over all, never the mean of its samples', () => {
  const s = statistics('prefix_cache_hit_rate', { pooled: 0.8 });
  expect(texts('prefix_cache_hit_rate', s)).toMatchObject({ all: '80.0 %', p95: '95.0 %', max: '100 %' });
  expect(texts('ttft', statistics('ttft', { pooled: 2.07 })).mean).toBe('2.07 s');
});

test('from buckets there is no percentile, and it is said why', () => {
  const s = statistics('running', {
    bucketSeconds: 60,
    seconds: 120,
    samples: { ...some, p50: null, p95: null },
  });
  expect(texts('running', s).p95).toBe('–');
  expect(reasons('running', s)).toEqual({ p95: tooLong });
  const ratio = { ...s, metric: 'ttft', pooled: 2, samples: { ...s.samples, min: null, max: null } };
  expect(reasons('ttft', ratio)).toEqual({ p95: tooLong, min: tooLong, max: tooLong });
  expect(of('running', s).sentence).toContain(`From buckets of 60${thin}s.`);
  expect(of('running', s).sentence, 'as long as what was counted').toContain('In view, 2:00: ');
});

test('without values each says why', () => {
  const empty = { samples: nothing, pooled: null };
  const every = (reason: string, central = 'mean') => ({
    [central]: reason,
    p95: reason,
    min: reason,
    max: reason,
  });
  expect(reasons('running', null)).toEqual({ ...every('Not read yet.'), coverage: 'Not read yet.' });
  expect(reasons('prefix_cache_hit_rate', statistics('prefix_cache_hit_rate', empty))).toEqual(
    every('No traffic in view.', 'all'),
  );
  expect(reasons('generation_tokens', statistics('generation_tokens', empty))).toEqual(
    every('No answer in view.'),
  );
  expect(reasons('queue_time', statistics('queue_time', empty))).toEqual(every('Not there yet.'));
});
