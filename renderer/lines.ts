/**
 * From the data held to what a panel draws: the points of a line (broken where a sample or a slot is missing), the
 * lone points that a line would lose, and which workers are drawn in which colour and dash.
 */
import { hole, linesUpTo, pointTime, timeAt, valueAt } from './reading.ts';
import type { Column, Kept } from './kept.ts';

export interface Points {
  /** x0, y0, x1, y1, ... */
  data: Float64Array;
  /** Places in `data` of points with a gap at both sides, as x, y pairs. */
  lone: number[];
}

/** The points of worker w; null: the average over workers. */
export function points(k: Kept, c: Column, w: number | null, intervalSeconds: number): Points {
  // room for a break after each place; cut to what is used
  const data = new Float64Array(k.places * 4);
  const lone: number[] = [];
  let n = 0;
  let before = NaN; // the value drawn before this place
  let alone = -1; // index in data of a point that has nothing before it so far
  const settle = () => {
    if (alone >= 0 && n === alone + 2) lone.push(data[alone] ?? 0, data[alone + 1] ?? 0);
    alone = -1;
  };
  for (let i = 0; i < k.places; i++) {
    const v = w === null ? (c.average[i] ?? NaN) : valueAt(k, c, w, i);
    const x = w === null ? timeAt(k, i) : pointTime(k, w, i);
    if (i > 0 && !Number.isNaN(before) && (Number.isNaN(v) || hole(k, i, intervalSeconds))) {
      settle();
      data[n++] = timeAt(k, i);
      data[n++] = NaN;
      before = NaN;
    }
    if (Number.isNaN(v)) continue;
    if (Number.isNaN(before)) alone = n;
    data[n++] = x;
    data[n++] = v;
    before = v;
  }
  settle();
  return { data: data.subarray(0, n), lone };
}

/**
 * A dash costs by its number of strokes, and a line of many points is long: measured, 63 dashed lines of 900 points took
 * three quarters of all drawing. Longer dashes say the same there.
 */
export const dashFor = (dash: number[] | null, data: Float64Array): number[] | null =>
  dash !== null && data.length > 600 ? [14, 5] : dash;

export interface Paint {
  /** Token of the colour: `w0` to `w7`. */
  token: string;
  dash: number[] | null;
}

const paintOf = (slot: number): Paint => ({
  token: `w${slot % 8}`,
  dash: Math.floor(slot / 8) % 2 === 1 ? [5, 3] : null,
});

/**
 * Who is drawn how. Up to 16 workers the number decides. Past that a worker gets the next free slot when it is drawn
 * first and keeps it in all panels while the view is open; slots of workers no longer drawn are given away again.
 */
export class Paints {
  #slots = new Map<number, number>();

  of(w: number, workers: number): Paint | null {
    if (workers <= linesUpTo) return paintOf(w);
    const slot = this.#slots.get(w);
    return slot === undefined ? null : paintOf(slot);
  }

  /** Says who is drawn now, in order of importance. */
  assign(drawn: number[]) {
    const wanted = new Set(drawn);
    for (const w of wanted) {
      if (this.#slots.has(w)) continue;
      const taken = new Set(this.#slots.values());
      let slot = 0;
      while (taken.has(slot) && slot < linesUpTo) slot++;
      if (slot === linesUpTo) {
        const idle = [...this.#slots.keys()].find((other) => !wanted.has(other));
        slot = idle === undefined ? this.#slots.size % linesUpTo : (this.#slots.get(idle) ?? 0);
        if (idle !== undefined) this.#slots.delete(idle);
      }
      this.#slots.set(w, slot);
    }
  }
}
