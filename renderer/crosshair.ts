/**
 * The crosshair: a rule through all panels, dots on the lines, the time on the axis; and the span that is being
 * dragged. Drawn alone while the pointer moves, so nothing here may ask an element for its size.
 */
import { clock } from './clock.ts';
import { blank, ink, px } from './ink.ts';
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
  ribbon: HTMLCanvasElement;
  lanes: HTMLCanvasElement;
  axis: HTMLCanvasElement;
  overview: HTMLCanvasElement;
  /** The span being selected by dragging. */
  chosen: HTMLElement;
  /** The time at the crosshair, on the axis. */
  mark: HTMLCanvasElement;
}

/**
 * A canvas that is a strip of what it draws on: one of the sheet's size costs milliseconds where a processor draws. It
 * is moved only when what is to be drawn lies outside of it, since a moved element makes the browser put the whole page
 * together anew, which costs more than all drawing here.
 */
class Strip {
  #left = 0;
  #width = 0;

  /** A cleared context whose units are pixels of what the strip lies on, with room from..to. */
  around(canvas: HTMLCanvasElement, from: number, to: number, height: number) {
    const least = to - from > stripWidth ? 2 ** Math.ceil(Math.log2(to - from)) : stripWidth;
    if (least !== this.#width) {
      this.#width = least;
      canvas.style.width = `${least}px`;
    }
    if (from < this.#left || to > this.#left + least || canvas.style.transform === '') {
      this.#left = Math.round((from + to - least) / 2);
      canvas.style.transform = `translateX(${this.#left}px)`;
    }
    const k = devicePixelRatio;
    const sized = canvas.width === Math.round(least * k) && canvas.height === Math.round(height * k);
    // a context that is as it was keeps its font: to set one costs more than to draw with it
    const c = sized ? canvas.getContext('2d') : blank(canvas, least, height);
    c?.setTransform(k, 0, 0, k, -this.#left * k, 0);
    if (sized) c?.clearRect(this.#left, 0, least, height);
    return c;
  }
}

const stripWidth = 384;

export class Crosshair {
  readonly #rule = new Strip();
  readonly #label = new Strip();

  draw(
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
    if (parts.cross.hidden !== hidden) parts.mark.hidden = parts.cross.hidden = hidden;
    if (hidden) return;
    const dots = dotsAt(s, boxes, i);
    const reach = dots.reduce((far, d) => Math.max(far, Math.abs(d.x - x)), 0) + 5;
    const c = this.#rule.around(parts.cross, x - reach, x + reach, height);
    if (!c) return;
    c.globalAlpha = 1;
    c.fillStyle = ink('cross');
    c.fillRect(x, 0, 1, height);
    c.strokeStyle = ink('surface');
    for (const d of dots) {
      c.globalAlpha = d.opacity;
      c.fillStyle = d.colour;
      c.beginPath();
      c.arc(d.x + 0.5, d.y, 2.75, 0, 7);
      c.fill();
      c.stroke();
    }
    this.#drawLabel(parts.mark, s, clock(timeAt(s.kept, i)), x);
  }

  /** A canvas too: a text in the page would be laid out and painted anew with every move. */
  #drawLabel(mark: HTMLCanvasElement, s: Scene, label: string, x: number) {
    const height = px('axis') - 3;
    const width = px('t-11') * 6;
    const left = Math.round(Math.max(s.x0, Math.min(x - width / 2, s.x1 - width)));
    const c = this.#label.around(mark, left, left + width, height);
    if (!c) return;
    c.fillStyle = ink('text');
    c.fillRect(left, 0, width, height);
    c.fillStyle = ink('surface');
    c.textAlign = 'center';
    c.fillText(label, left + width / 2, height / 2 + 0.5);
  }
}

/** Where the lines are at a place, beside the rule: workers are scraped a little apart. */
function dotsAt(s: Scene, boxes: PanelBox[], i: number) {
  return boxes.flatMap((p) =>
    p.drawn.flatMap((w) => {
      const v = p.column ? valueAt(s.kept, p.column, w, i) : NaN;
      const own = xOf(s, pointTime(s.kept, w, i));
      if (Number.isNaN(v) || own < s.x0 || own > s.x1) return [];
      const colour = ink(s.paints.of(w, s.kept.workers)?.token ?? 'text-3');
      return [{ x: own, y: yOf(p, v), colour, opacity: opacityOf(s, w) }];
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
