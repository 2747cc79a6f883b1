/** What the drawer "why this number" says: exact numbers, what they are of, and the text that is copied. */
import { expect, test } from 'vitest';
import type { Run, Step, Why, WhyQuery } from '../electron/engine/api.ts';
import { findMetric } from '../electron/engine/catalogue.ts';
import { thin } from '../renderer/format.ts';
import { asText, difference, exact, isBound, numberOf, subjectOf } from '../renderer/why-text.ts';

const query: WhyQuery = {
  run: 'r',
  metric: 'prefix_cache_hit_rate',
  from: Date.UTC(2026, 10, 30, 9, 1, 53),
  to: Date.UTC(2026, 10, 30, 9, 2, 48),
  step: { source: 'mark', n: 5 },
  statistic: 'pooled',
  population: 'pooled',
  w: null,
};
const run = { name: 'rollouts', workerList: [{ w: 0, name: 'w0' }] } as Run;
const step = { n: 5, number: 5, kind: 'train' } as Step;
const why: Why = {
  value: 87_168 / 108_160,
  atLeast: false,
  unit: 'ratio',
  sentence: 'Of 108,160 prompt tokens looked up in this step, 87,168 were in the prefix cache.',
  formula: 'Σ Δ prefix_hits / Σ Δ prefix_queries',
  population: 'pooled over 2 workers',
  workers: [
    {
      w: 0,
      value: 42_624 / 52_728,
      columns: [
        {
          name: 'vllm:prefix_cache_hits',
          start: { at: query.from, value: 115_200 },
          end: { at: query.to, value: 157_824 },
          delta: 42_624,
          resets: 0,
        },
      ],
      samples: 50,
      lost: true,
    },
  ],
  verdict: { sign: 'complete', sentence: 'Complete.' },
  samples: 94,
  expected: 108,
  missing: [{ endpoint: 'http://a:1', from: query.from, to: query.to, count: 8, detail: 'no answer\u202e' }],
  readings: [{ name: 'Lifetime', value: 0.7388, about: 'since the start', own: false }],
  sql: 'SELECT 1',
};

test('exact numbers: counts whole, ratios to a hundredth of a percent', () => {
  expect(exact('ratio', 0.805917)).toBe(`80.59${thin}%`);
  expect(exact('tokens', 108160)).toBe('108,160');
  expect(exact('s', 18.70514)).toBe(`18.7051${thin}s`);
  expect(exact('tokens/s', 1762.2514)).toBe('1,762.251');
  expect(exact('ratio', null)).toBe('–');
});

test('other readings differ in points or percent', () => {
  expect(difference('ratio', 0.7388, 0.8059)).toBe(`−6.71${thin}pt`);
  expect(difference('tokens', 110, 100)).toBe(`+10${thin}%`);
  expect(difference('tokens', 5, 0)).toBe('');
  expect(difference('s', 30.79166667, 30.79166666), 'as good as equal').toBe('');
  expect(difference('ratio', null, 0.5)).toBe('');
});

test('what the number is of', () => {
  const info = findMetric('prefix_cache_hit_rate')!;
  expect(subjectOf(query, info, step, run)).toBe('Prefix hit rate, step 5');
  expect(subjectOf({ ...query, statistic: 'p95', w: 0 }, info, null, run)).toBe('Prefix hit rate, p95, w0');
});

test('numbers with their unit, and at least what was seen where something was lost', () => {
  const sum: WhyQuery = { ...query, metric: 'generation_tokens', statistic: 'sum', population: 'samples' };
  expect(numberOf('tokens/s', 1754, false)).toBe(`1,754${thin}tok/s`);
  const lost: Why = { ...why, verdict: { sign: 'lower-bound', sentence: '' } };
  expect(isBound(lost, sum)).toBe(true);
  expect(isBound(lost, { ...sum, statistic: 'p95' })).toBe(false);
  expect(numberOf('tokens', 1754, true)).toBe('≥ 1,754');
});

test('copied as text it has number, counters, verdict, gaps and readings, and nothing that reverses a line', () => {
  const text = asText(query, why, 'Prefix hit rate, step 5', run, 'ratio');
  for (const part of [
    `Prefix hit rate, step 5: 80.6${thin}% (80.59${thin}%)`,
    'pooled over 2 workers',
    'run rollouts',
    why.sentence,
    '● Complete.',
    '94 of 108 expected samples',
    'w0: ',
    'lost before the end',
    'vllm:prefix_cache_hits: 115,200 at ',
    'delta 42,624, resets 0',
    'no answer of http://a:1: ',
    '8 scrapes, no answer\\u202e',
    'Lifetime: ',
  ])
    expect(text).toContain(part);
  expect(text).not.toContain('\u202e');
});
