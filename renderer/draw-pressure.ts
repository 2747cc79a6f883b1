/** Spells of KV pressure on the KV panel: a bracket along its top edge, open below, with its words where they fit. */
import type { PressureSpell } from '../electron/engine/api.ts';
import { many } from './format.ts';
import { ink, px } from './ink.ts';
import { workerName, xOf, type PanelBox, type Scene } from './scene.ts';
import type { Span } from './span.ts';

/** Of several workers at one time, as one. */
export interface Bracket extends Span {
  workers: number[];
}

/** Spells that overlap, or are less than `apartMs` apart, in one bracket. They are sorted by begin. */
export function bracketsOf(spells: readonly PressureSpell[], apartMs: number): Bracket[] {
  const brackets: Bracket[] = [];
  for (const { w, from, to } of spells) {
    const last = brackets.at(-1);
    if (last && from <= last.to + apartMs) {
      last.to = Math.max(last.to, to);
      if (!last.workers.includes(w)) last.workers.push(w);
    } else brackets.push({ from, to, workers: [w] });
  }
  return brackets;
}

/** Those of workers that are not isolated while others are stay out. */
export function drawPressure(c: CanvasRenderingContext2D, s: Scene, p: PanelBox) {
  const half = s.run.intervalSeconds * 500;
  const wanted = s.pressure.filter(
    ({ w, from, to }) =>
      to + half >= s.window.from &&
      from - half <= s.window.to &&
      (s.isolated.length === 0 || s.isolated.includes(w)),
  );
  const pixel = (s.window.to - s.window.from) / Math.max(1, s.x1 - s.x0);
  const tall = px('t-11') + 2;
  let free = s.x0;
  for (const { from, to, workers } of bracketsOf(wanted, 3 * pixel)) {
    const a = Math.max(s.x0, Math.round(xOf(s, from - half)));
    const b = Math.min(s.x1, Math.max(Math.round(xOf(s, to + half)), a + 3));
    c.fillStyle = ink('preempt');
    c.fillRect(a, p.top, b - a, 2);
    if (from - half >= s.window.from) c.fillRect(a, p.top, 1, 7);
    if (to + half <= s.window.to) c.fillRect(b - 1, p.top, 1, 7);
    const first = workers[0];
    const who =
      workers.length === 1 && first !== undefined ? workerName(s.run, first) : many(workers.length, 'worker');
    const text = [`KV pressure ${who}`, 'KV pressure'].find(
      (words) => c.measureText(words).width + 10 <= b - a,
    );
    if (text === undefined || a < free) continue;
    free = b;
    const width = c.measureText(text).width;
    c.fillStyle = ink('surface');
    c.fillRect(a + 3, p.top + 7, width + 4, tall);
    c.fillStyle = ink('preempt');
    c.fillText(text, a + 5, p.top + 7 + tall / 2);
  }
}
