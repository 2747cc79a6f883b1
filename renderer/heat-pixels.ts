/**
 * A heat map as pixels: a row a worker, a column a moment, painted into one array of colours. Drawing 512 workers as
 * rectangles would be half a million of them. Pure; the colours come from draw-heat.ts.
 */
import type { Run } from '../electron/engine/api.ts';
import { answered, hasLeft, hole, placesIn, silent, timeAt, valueAt } from './reading.ts';
import type { Column, Kept } from './kept.ts';
import type { Span } from './span.ts';

/** Colours as a canvas has them in memory (one 32-bit number each), opaque. */
export interface HeatColours {
  /** 256, low to high. */
  ramp: Uint32Array;
  /** The same of workers that are not isolated while others are. */
  dimmed: Uint32Array;
  surface: number;
  hatch: number;
}

/** All lengths in pixels of the picture. */
export interface HeatPicture {
  width: number;
  height: number;
  /** A row's height, not necessarily whole, and how far the list is scrolled. */
  rowHeight: number;
  scrolled: number;
  /** Free pixels under a row. */
  gap: number;
  /** Pixels from one stroke of the hatch to the next; a stroke is a quarter of it. */
  period: number;
}

export interface Heat {
  kept: Kept;
  column: Column;
  run: Run;
  span: Span;
  /** Workers from the top down. */
  order: readonly number[];
  isolated: readonly number[];
  /** The value of the last colour. */
  high: number;
}

const nothing = -1;
const noAnswer = -2;

/** Pixels [left, right) of each place, joined where no slot is missing between, and of the holes. */
export interface Columns {
  begin: number;
  end: number;
  left: Int32Array;
  right: Int32Array;
  holes: { left: number; right: number; from: number; to: number }[];
}

export function columnsOf(k: Kept, run: Run, span: Span, width: number): Columns {
  const [begin, end] = placesIn(k, span.from, span.to);
  const half = (k.widthSeconds || run.intervalSeconds) * 500;
  const x = (at: number) =>
    Math.min(width, Math.max(0, Math.round(((at - span.from) / (span.to - span.from)) * width)));
  const left = new Int32Array(end);
  const right = new Int32Array(end);
  const holes: Columns['holes'] = [];
  for (let i = begin; i < end; i++) {
    const at = timeAt(k, i);
    const alone = i === begin || hole(k, i, run.intervalSeconds);
    // ticks are not exactly an interval apart: no seam between them
    left[i] = alone ? x(at - half) : Math.min(right[i - 1] ?? 0, x(at - half));
    // a place is seen, however many share a pixel
    right[i] = Math.max(x(at + half), Math.min(width, (left[i] ?? 0) + 1));
    if (i > begin && alone) {
      const hollow = { left: right[i - 1] ?? 0, right: left[i] ?? 0, from: timeAt(k, i - 1), to: at };
      if (hollow.right > hollow.left) holes.push(hollow);
    }
  }
  return { begin, end, left, right, holes };
}

/** One worker's row: the place in the ramp of each pixel, the highest where several values fall on one. */
export function lineOf(h: Heat, columns: Columns, w: number, line: Int16Array) {
  line.fill(nothing);
  const { kept: k, column, run } = h;
  const known = run.workerList[w]?.firstAt ?? Infinity;
  for (const { left, right, from, to } of columns.holes)
    if (to > known && !hasLeft(run, w, from)) line.fill(noAnswer, left, right);
  for (let i = columns.begin; i < columns.end; i++) {
    const [left, right] = [columns.left[i] ?? 0, columns.right[i] ?? 0];
    const v = valueAt(k, column, w, i);
    let code = nothing;
    if (!Number.isNaN(v)) code = Math.round(Math.min(1, Math.max(0, v / h.high)) * 255);
    else if (!answered(k, w, i) && silent(k, run, w, i)) code = noAnswer;
    if (code === nothing) continue;
    for (let p = left; p < right; p++) {
      const there = line[p] ?? nothing;
      if (there < 0 ? code >= 0 || there === nothing : code > there) line[p] = code;
    }
  }
}

/** The whole picture; `out` has width x height colours. */
export function paintHeat(out: Uint32Array, h: Heat, picture: HeatPicture, colours: HeatColours) {
  const { width, height, rowHeight, scrolled, gap, period } = picture;
  const columns = columnsOf(h.kept, h.run, h.span, width);
  const line = new Int16Array(width);
  const row = new Uint32Array(width);
  out.fill(colours.surface);
  const first = Math.max(0, Math.floor(scrolled / rowHeight));
  for (let r = first; r < h.order.length; r++) {
    const top = Math.round(r * rowHeight - scrolled);
    if (top >= height) break;
    const bottom = Math.max(top + 1, Math.round((r + 1) * rowHeight - scrolled) - gap);
    const w = h.order[r] ?? -1;
    lineOf(h, columns, w, line);
    const ramp = h.isolated.length === 0 || h.isolated.includes(w) ? colours.ramp : colours.dimmed;
    let hatched = false;
    for (let p = 0; p < width; p++) {
      const code = line[p] ?? nothing;
      row[p] = code >= 0 ? (ramp[code] ?? colours.surface) : colours.surface;
      hatched ||= code === noAnswer;
    }
    for (let y = Math.max(0, top); y < Math.min(height, bottom); y++) {
      const at = y * width;
      out.set(row, at);
      // strokes lie on a grid of the whole picture, so that those of rows one above the other join
      if (hatched)
        for (let p = 0; p < width; p++)
          if (line[p] === noAnswer && (p + y) % period < period / 4) out[at + p] = colours.hatch;
    }
  }
}
