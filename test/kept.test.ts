/** Appending to the data the page holds, against simply asking for the whole again. */
import { expect, test } from 'vitest';
import type { MetricInfo, Run, Timelines } from '../electron/engine/api.ts';
import { extend, fits, keep, placeFrom } from '../renderer/kept.ts';
import { points } from '../renderer/lines.ts';
import { clamp, latest, pan, whole, zoom } from '../renderer/span.ts';
import { linear, nice } from '../renderer/scale.ts';
import { askedFor, placeAt } from '../renderer/reading.ts';
import { axisTicks } from '../renderer/clock.ts';

const at = (w: number, t: number) => (t % 7 === w ? NaN : w * 1000 + t);
function answer(from: number, to: number, workers: number): Timelines {
  const n = to - from;
  const m = (f: (w: number, t: number) => number) =>
    Float32Array.from({ length: workers * n }, (_, i) => f(Math.floor(i / n), from + (i % n)));
  return {
    widthSeconds: 0,
    times: Float64Array.from({ length: n }, (_, i) => (from + i) * 1000),
    workers,
    offsets: m((w) => w + 5),
    series: [
      {
        metric: 'running',
        values: m(at),
        min: null,
        max: null,
        average: Float32Array.from({ length: n }, (_, i) => from + i),
      },
    ],
  };
}
test('extended places equal those of a whole answer, through growth, late workers and dropping', () => {
  let k = keep(answer(0, 20, 2));
  let end = 20;
  for (let i = 0; i < 900; i++) {
    const more = 1 + (i % 3);
    const t = answer(end - 2, end + more, i < 50 ? 2 : 3);
    expect(fits(k, t)).toBe(true);
    k = extend(k, t, (end - 100) * 1000);
    end += more;
    const w = k.workers;
    const first = (k.times[0] ?? 0) / 1000;
    expect(k.places).toBe(end - first);
    expect(first).toBeLessThanOrEqual(Math.max(0, end - 100));
    for (const p of [0, 1, k.places >> 1, k.places - 1])
      for (let x = 0; x < 2; x++) {
        const v = k.columns.get('running')!.values[x * k.capacity + p];
        const e = at(x, first + p);
        if (Number.isNaN(e)) expect(v).toBeNaN();
        else expect(v).toBe(e);
        expect(k.offsets[x * k.capacity + p]).toBe(x + 5);
      }
    expect(k.columns.get('running')!.average[k.places - 1]).toBe(end - 1);
    expect(w).toBe(i < 50 ? 2 : 3);
  }
  expect(k.capacity).toBeLessThan(1000);
  expect(fits(k, answer(end + 5, end + 8, 3))).toBe(false);
  expect(placeFrom(k, (end - 3) * 1000)).toBe(k.places - 3);
  expect(placeAt(k, (end - 3) * 1000 + 400)).toBe(k.places - 3);
  expect(placeAt(k, (end - 3) * 1000 + 600)).toBe(k.places - 2);
});
test('breaks, holes and lone points', () => {
  const t = answer(0, 0, 1);
  const times = [0, 1, 2, 3, 5, 6, 8].map((x) => x * 1000);
  const v = [NaN, 1, NaN, 3, 5, 6, 8];
  const k = keep({
    ...t,
    times: Float64Array.from(times),
    offsets: new Float32Array(7),
    series: [
      { metric: 'm', values: Float32Array.from(v), min: null, max: null, average: Float32Array.from(v) },
    ],
  });
  const p = points(k, k.columns.get('m')!, 0, 1);
  expect([...p.data]).toEqual([1000, 1, 2000, NaN, 3000, 3, 5000, NaN, 5000, 5, 6000, 6, 8000, NaN, 8000, 8]);
  expect(p.lone).toEqual([1000, 1, 3000, 3, 8000, 8]);
});
test('windows', () => {
  const b = { first: 0, last: 600_000, intervalSeconds: 1 };
  expect(whole(b)).toEqual({ from: -3000, to: 612_000 });
  const z = zoom({ from: 0, to: 100_000 }, 0.001, 50_000, b);
  expect(z.to - z.from).toBe(10_000);
  expect((z.from + z.to) / 2).toBe(50_000);
  expect(pan({ from: 500_000, to: 600_000 }, 1e9, b).to).toBe(612_000);
  expect(pan({ from: 0, to: 100_000 }, -1e9, b).from).toBe(-3000);
  expect(clamp({ from: -1e9, to: 1e9 }, b)).toEqual(whole(b));
  const l = latest(b, 60_000, 100);
  expect(l.to % 100).toBe(0);
  expect(l.to).toBeGreaterThanOrEqual(601_200);
});
test('scales', () => {
  expect([0, 0.7, 1.5, 17, 81].map(nice)).toEqual([1, 0.8, 1.6, 20, 100]);
  const a = linear('1/s', 90, undefined);
  expect(a.high).toBe(100);
  expect(linear('1/s', 55, a).high).toBe(100);
  expect(linear('1/s', 45, a).high).toBe(50);
  expect(linear('1/s', 150, a).high).toBe(160);
});
test('axis ticks', () => {
  const t = axisTicks(0, 600_000, 800, 74);
  expect(t.length).toBeGreaterThan(4);
  expect(t[1]!.at - t[0]!.at).toBe(60_000);
});
test('a live run is asked for what its strip shows, as far as it has it; a past run for its charts only', () => {
  const metrics = ['running', 'waiting', 'waiting_capacity', 'kv_cache_usage', 'ttft', 'sleep_level'];
  const of = (state: Run['state'], ...ids: string[]) =>
    askedFor(
      ids.map((id) => ({ id }) as MetricInfo),
      { state, metrics } as Run,
    ).sort();
  expect(of('recording', 'ttft')).toEqual(
    ['kv_cache_usage', 'preemptions', 'running', 'sleep_level', 'ttft', 'waiting', 'waiting_capacity'].sort(),
  );
  expect(of('ended', 'ttft')).toEqual(['sleep_level', 'ttft']);
  expect(of('ended', 'kv_cache_usage')).toEqual(['kv_cache_usage', 'preemptions', 'sleep_level']);
});
