/** The heat map's picture, pixel by pixel: values, gaps, what was not there, rows lower and higher than a pixel. */
import { describe, expect, test } from 'vitest';
import type { Run } from '../electron/engine/api.ts';
import { paintHeat, type Heat, type HeatColours, type HeatPicture } from '../renderer/heat-pixels.ts';
import type { Kept } from '../renderer/kept.ts';

const surface = 9000;
const hatch = 9001;
const colours: HeatColours = {
  ramp: Uint32Array.from({ length: 256 }, (_, i) => i),
  dimmed: Uint32Array.from({ length: 256 }, (_, i) => 1000 + i),
  surface,
  hatch,
};

/** Rows of values, a tick a second from `begin`; NaN: answered without the value, null: no answer. */
function heatOf(rows: (number | null)[][], more: Partial<Heat> = {}, times?: number[]): Heat {
  const places = rows[0]!.length;
  const flat = rows.flat();
  const kept: Kept = {
    widthSeconds: 0,
    places,
    capacity: places,
    workers: rows.length,
    times: Float64Array.from(times ?? Array.from({ length: places }, (_, i) => 500 + i * 1000)),
    offsets: Float32Array.from(flat, (v) => (v === null ? NaN : 0)),
    columns: new Map(),
  };
  const values = Float32Array.from(flat, (v) => v ?? NaN);
  const run = {
    intervalSeconds: 1,
    workerList: rows.map((_, w) => ({ w, firstAt: 0, goneAt: null })),
  } as unknown as Run;
  return {
    kept,
    column: { values, min: null, max: null, average: new Float32Array(places) },
    run,
    span: { from: 0, to: places * 1000 },
    order: rows.map((_, w) => w),
    isolated: [],
    high: 1,
    ...more,
  };
}
function paint(h: Heat, more: Partial<HeatPicture> = {}): number[][] {
  const p = {
    width: h.kept.places,
    height: h.order.length,
    rowHeight: 1,
    scrolled: 0,
    gap: 0,
    period: 4,
    ...more,
  };
  const out = new Uint32Array(p.width * p.height);
  paintHeat(out, h, p, colours);
  return Array.from({ length: p.height }, (_, y) => [...out.subarray(y * p.width, (y + 1) * p.width)]);
}

test('a row a worker in the order of the list, a colour a value, cut at both ends of the scale', () => {
  const h = heatOf([
    [0, 0.5, 1],
    [2, -1, 0.2],
  ]);
  expect(paint(h)).toEqual([
    [0, 128, 255],
    [255, 0, 51],
  ]);
  expect(paint({ ...h, order: [1, 0] })[0]).toEqual([255, 0, 51]);
  expect(paint({ ...h, high: 2 })[0]).toEqual([0, 64, 128]);
});

test('who is not isolated while others are is dimmed', () => {
  const h = heatOf([[1], [1]], { isolated: [1] });
  expect(paint(h)).toEqual([[1255], [255]]);
});

describe('what has no value', () => {
  test('no answer is hatched; no traffic and a worker not yet known are surface', () => {
    const h = heatOf([[null, NaN, 1, null]]);
    expect(
      paint(h, { height: 4, rowHeight: 4 }).map((row) => row.map((c) => (c === hatch ? 'h' : c))),
    ).toEqual([
      ['h', surface, 255, surface],
      [surface, surface, 255, 'h'],
      [surface, surface, 255, surface],
      [surface, surface, 255, surface],
    ]);
    h.run.workerList[0]!.firstAt = 1500;
    h.run.workerList[0]!.goneAt = 3000;
    expect(paint(h, { period: 1 })).toEqual([[surface, surface, 255, surface]]);
  });

  test('ticks that never were are hatched too, between workers that were asked', () => {
    // seconds 0 and 1, then 4: two slots are missing
    const h = heatOf([[1, 1, 1]], { span: { from: 0, to: 5000 } }, [500, 1500, 4500]);
    expect(paint(h, { width: 5, period: 1 })).toEqual([[255, 255, hatch, hatch, 255]]);
  });

  test('ticks a little off their slots leave no seam', () => {
    const h = heatOf([[1, 1, 1]], { span: { from: 0, to: 3000 } }, [500, 1540, 2480]);
    expect(
      paint(h, { width: 300 })[0]!
        .slice(0, 295)
        .every((c) => c === 255),
    ).toBe(true);
  });
});

test('several ticks on a pixel: the highest, and a value before a gap', () => {
  const h = heatOf([[0.2, 1, 0.4, null, 0.1, 0.1]], { span: { from: 0, to: 6000 } });
  const line = paint(h, { width: 2, period: 1 })[0]!;
  expect(line[0]).toBe(255);
  expect(line[1]).toBeLessThan(256);
});

test('rows of many pixels have a free one under them; scrolled ones begin above the picture', () => {
  const h = heatOf([[1], [0]]);
  const column = (more: Partial<HeatPicture>) =>
    paint(h, { height: 6, rowHeight: 4, gap: 1, ...more }).flat();
  expect(column({})).toEqual([255, 255, 255, surface, 0, 0]);
  expect(column({ scrolled: 2 })).toEqual([255, surface, 0, 0, 0, surface]);
});

test('rows of a broken number of pixels fill the picture without holes', () => {
  const h = heatOf(Array.from({ length: 8 }, () => [1]));
  expect(paint(h, { height: 11, rowHeight: 1.4 }).flat()).toEqual(Array.from({ length: 11 }, () => 255));
});
