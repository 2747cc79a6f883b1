/** Which panels are on and in which order. */
import { expect, test } from 'vitest';
import type { MetricInfo } from '../electron/engine/api.ts';
import { metrics } from '../electron/engine/catalogue.ts';
import { groups, moved, panelsFor, shortTitle, switched } from '../renderer/panels.ts';

const catalogue: MetricInfo[] = [...metrics];
const ids = (list: MetricInfo[]) => list.map((m) => m.id);

test('without a choice the seven of the design, cause above effect', () => {
  const seven =
    'running waiting kv_cache_usage generation_tokens prefix_cache_hit_rate preemptions ttft'.split(' ');
  expect(ids(panelsFor(catalogue, undefined))).toEqual(seven);
  expect(ids(panelsFor(catalogue, null)), 'a choice that was reset').toEqual(seven);
});

test('a choice has its own order; what is unknown or twice in it is left out', () => {
  expect(ids(panelsFor(catalogue, ['ttft', 'running', 'no such', 7, 'ttft']))).toEqual(['ttft', 'running']);
  expect(panelsFor(catalogue, [])).toEqual([]);
});

test('a panel switched on comes where the catalogue has it, as far as the order allows', () => {
  expect(switched(['running', 'ttft'], 'kv_cache_usage', catalogue)).toEqual([
    'running',
    'kv_cache_usage',
    'ttft',
  ]);
  expect(switched(['ttft', 'running'], 'waiting', catalogue)).toEqual(['ttft', 'running', 'waiting']);
  expect(switched(['ttft'], 'running', catalogue)).toEqual(['running', 'ttft']);
  expect(switched(['ttft', 'running'], 'ttft', catalogue)).toEqual(['running']);
});

test('moving stops at both ends', () => {
  expect(moved(['a', 'b', 'c'], 'a', 1)).toEqual(['b', 'a', 'c']);
  expect(moved(['a', 'b', 'c'], 'c', 0)).toEqual(['c', 'a', 'b']);
  expect(moved(['a', 'b', 'c'], 'c', 9)).toEqual(['a', 'b', 'c']);
  expect(moved(['a', 'b', 'c'], 'c', -1)).toEqual(['c', 'a', 'b']);
  expect(moved(['a'], 'x', 0)).toEqual(['a']);
});

test('every metric is in a group of the list, and short titles are short', () => {
  const kinds = new Set(groups.map((g) => g.kind));
  for (const m of catalogue) {
    expect(kinds).toContain(m.kind);
    expect(shortTitle(m).length).toBeLessThanOrEqual(15);
  }
  expect(catalogue).toHaveLength(21);
});
