/** Steps as spans of pixels: which are in view, where they are cut, what restarted in them; of thousands one a pixel. */
import { describe, expect, test } from 'vitest';
import type { RunEvent, Step } from '../electron/engine/api.ts';
import { sinceTicks } from '../renderer/clock.ts';
import { firstIn, spanAt, spansIn } from '../renderer/step-spans.ts';

const step = (n: number, from: number, to: number | null): Step => ({
  n,
  number: n,
  kind: 'train',
  suggested: null,
  from,
  to,
});
const restart = (at: number) => ({ at, kind: 'restart', w: 1 }) as RunEvent;
/** A window of 1,000 ms over 100 px from 10 on: 10 ms a pixel. */
const window = { from: 1000, to: 2000 };
const spans = (steps: Step[], restarts: RunEvent[] = [], now = 5000) =>
  spansIn(steps, restarts, now, window, 10, 110);

describe('spans', () => {
  test('those in view, cut to the plots; edges out of view are not there', () => {
    const found = spans([step(0, 0, 900), step(1, 950, 1100), step(2, 1200, 1450), step(3, 1900, 2500)]);
    expect(found.map(({ step: { n }, a, b, begins, ends }) => ({ n, a, b, begins, ends }))).toEqual([
      { n: 1, a: 10, b: 20, begins: false, ends: true },
      { n: 2, a: 30, b: 55, begins: true, ends: true },
      { n: 3, a: 100, b: 110, begins: true, ends: false },
    ]);
    expect(spans([step(0, 0, 900), step(1, 2100, 2200)])).toEqual([]);
  });

  test('one that runs reaches to now and has no end', () => {
    const [found] = spans([step(0, 1500, null)], [], 1800);
    expect(found).toMatchObject({ a: 60, b: 90, until: 1800, begins: true, ends: false });
  });

  test('restarts belong to the step in which they happened, both edges included', () => {
    const restarts = [1099, 1100, 1150, 1200, 1210, 1451].map(restart);
    const found = spans([step(0, 1000, 1100), step(1, 1200, 1450)], restarts);
    expect(found.map((s) => s.restarts.map(({ at }) => at))).toEqual([
      [1099, 1100],
      [1200, 1210],
    ]);
  });

  test('of thousands no more than there are pixels', () => {
    const many = Array.from({ length: 100_000 }, (_, n) => step(n, 1000 + n * 0.01, 1000 + (n + 1) * 0.01));
    const found = spans(many);
    expect(found.length).toBeLessThanOrEqual(102);
    expect(found.length).toBeGreaterThan(95);
    expect(found[0]?.step.n).toBe(0);
    expect(found.at(-1)?.b).toBeGreaterThan(108);
  });

  test('the first that is not over before a time', () => {
    const steps = [step(0, 0, 10), step(1, 20, 30), step(2, 40, null)];
    expect([-5, 10, 11, 30, 31, 1e9].map((at) => firstIn(steps, at))).toEqual([0, 0, 1, 1, 2, 2]);
  });

  test('the one under a pixel; a narrow one within reach, the nearest of two', () => {
    const found = spans([step(0, 1000, 1010), step(1, 1040, 1050), step(2, 1500, 1600)]);
    expect([10.5, 12.4, 12.6, 70, 30].map((x) => spanAt(found, x)?.step.n ?? null)).toEqual([
      0,
      0,
      1,
      2,
      null,
    ]);
  });
});

describe('ticks since a begin', () => {
  test('round lengths after it, in view, never before it', () => {
    // 60 s over 600 px: 10 s are 100 px apart
    const at = (ms: number) => 1_796_000_400_123 + ms;
    const ticks = sinceTicks(at(0), { from: at(-25_000), to: at(35_000) }, 600, 70);
    expect(ticks).toEqual([0, 10_000, 20_000, 30_000].map(at));
    expect(sinceTicks(at(0), { from: at(12_000), to: at(72_000) }, 600, 70)[0]).toBe(at(20_000));
    expect(sinceTicks(at(0), { from: at(0), to: at(0) }, 600, 70)).toEqual([]);
  });
});
