/**
 * The crosshair: a rule through all panels, dots on the lines, the time on the axis; and the span that is being
 * dragged. Drawn alone while the pointer moves, so nothing here may ask an element for its size.
 */
import { clock } from './clock.ts';
import { blank, font, ink, px } from './ink.ts';
import { placeAt, pointTime, timeAt, valueAt } from './reading.ts';
import { opacityOf, xOf, yOf, type PanelBox, type Scene } from './scene.ts';
import type { Span } from './span.ts';

/** The elements that are drawn on, once all are there. */
export interface Parts {
  /** Holds all panels; scrolls in `scroll`. */
  sheet: HTMLElement;
  /** All plots: what lies under the lines, the lines, what lies over them. */
  plots: HTMLCanvasElement;
  cross: HTMLCanvasElement;
  lanes: HTMLCanvasElement;
  axis: HTMLCanvasElement;
  overview: HTMLCanvasElement;
  /** The span being selected by dragging. */
  chosen: HTMLElement;
  /** The time at the crosshair, on the axis. */
  mark: HTMLCanvasElement;
}

/**
 * The canvas is a narrow strip that is moved with the rule: a change to a canvas of the sheet's size costs
 * milliseconds where a processor draws.
 */
export function drawCross(
  parts: Parts,
  s: Scene,
  boxes: PanelBox[],
  height: number,
  cursor: number | null,
  selection: Span | null,
) {
  drawSelection(parts.chosen, s, selection);
  const i = cursor === null ? -1 : placeAt(s.kept, cursor);
  const x = i < 0 ? -1 : Math.round(xOf(s, timeAt(s.kept, i)));
  const hidden = i < 0 || x < s.x0 || x > s.x1;
  parts.mark.hidden = parts.cross.hidden = hidden;
  if (hidden) return;
  const dots = dotsAt(s, boxes, i, x);
  const reach = dots.reduce((far, d) => Math.max(far, Math.abs(d.x)), 0) + 5;
  const half = Math.ceil(reach / 8) * 8;
  size(parts.cross, 2 * half);
  parts.cross.style.transform = `translateX(${x - half}px)`;
  const c = blank(parts.cross, 2 * half, height);
  if (!c) return;
  c.fillStyle = ink('cross');
  c.fillRect(half, 0, 1, height);
  c.strokeStyle = ink('surface');
  for (const d of dots) {
    c.globalAlpha = d.opacity;
    c.fillStyle = d.colour;
    c.beginPath();
    c.arc(half + d.x + 0.5, d.y, 2.75, 0, 7);
    c.fill();
    c.stroke();
  }
  drawMark(parts.mark, s, clock(timeAt(s.kept, i)), x);
}

/** A canvas too: a text in the page would be laid out and painted anew with every move. */
function drawMark(mark: HTMLCanvasElement, s: Scene, label: string, x: number) {
  const height = px('axis') - 3;
  const c = mark.getContext('2d');
  if (!c) return;
  c.font = font(px('t-11'));
  const width = Math.ceil(c.measureText(label).width) + 12;
  size(mark, width);
  blank(mark, width, height);
  c.fillStyle = ink('text');
  c.fillRect(0, 0, width, height);
  c.fillStyle = ink('surface');
  c.textAlign = 'center';
  c.fillText(label, width / 2, height / 2 + 0.5);
  const left = Math.round(Math.max(s.x0, Math.min(x - width / 2, s.x1 - width)));
  mark.style.transform = `translateX(${left}px)`;
}

/** Written only where it changes: it costs a layout. */
function size(canvas: HTMLCanvasElement, width: number) {
  const text = `${width}px`;
  if (canvas.style.width !== text) canvas.style.width = text;
}

/** Where the lines are at a place, beside the rule: workers are scraped a little apart. */
function dotsAt(s: Scene, boxes: PanelBox[], i: number, x: number) {
  return boxes.flatMap((p) =>
    p.drawn.flatMap((w) => {
      const v = p.column ? valueAt(s.kept, p.column, w, i) : NaN;
      const own = xOf(s, pointTime(s.kept, w, i));
      if (Number.isNaN(v) || own < s.x0 || own > s.x1) return [];
      const colour = ink(s.paints.of(w, s.kept.workers)?.token ?? 'text-3');
      return [{ x: own - x, y: yOf(p, v), colour, opacity: opacityOf(s, w) }];
    }),
  );
}

function drawSelection(element: HTMLElement, s: Scene, selection: Span | null) {
  element.hidden = selection === null;
  if (!selection) return;
  const a = Math.max(s.x0, xOf(s, selection.from));
  const b = Math.min(s.x1, xOf(s, selection.to));
  element.style.left = `${a}px`;
  element.style.width = `${Math.max(1, b - a)}px`;
}
