/**
 * The list of values while the crosshair moves, on a canvas over the list that stands still: writing forty texts into
 * the page costs several milliseconds a move, drawing them less than one. Takes its places from the page's own list.
 */
import type { MetricInfo } from '../electron/engine/api.ts';
import { unitName } from './format.ts';
import { blank, font, ink, px } from './ink.ts';
import type { Head, Said } from './value-list.svelte.ts';

interface Box {
  left: number;
  right: number;
  top: number;
  height: number;
}

/** Where the page has what is drawn, in pixels of the list's frame. */
export interface Places {
  width: number;
  height: number;
  moment: Box;
  /** Behind the moment, as wide as there is room. */
  which: Box;
  title: Box;
  fleet: Box;
  list: Box;
  /** Of the first row, as if nothing was scrolled. */
  row: Box;
  swatch: Box;
  name: Box;
  track: Box;
  value: Box;
}

export interface DrawnRow extends Said {
  name: () => string;
  /** Token of its colour. */
  token: string;
  dash: boolean;
  isolated: boolean;
}

/** Asks the page where things are: once when the crosshair begins to move. null: there is no row. */
export function placesOf(frame: HTMLElement, scrolled: number): Places | null {
  const own = frame.getBoundingClientRect();
  const box = (part: string, down = 0): Box | null => {
    const r = frame.querySelector(`[data-part="${part}"]`)?.getBoundingClientRect();
    return r
      ? { left: r.left - own.left, right: r.right - own.left, top: r.top - own.top + down, height: r.height }
      : null;
  };
  const [moment, which, title] = [box('moment'), box('which'), box('title')];
  const [fleet, list] = [box('fleet'), box('list')];
  const [row, swatch, name] = [box('row', scrolled), box('swatch', scrolled), box('name', scrolled)];
  const [track, value] = [box('track', scrolled), box('value', scrolled)];
  if (!moment || !which || !title || !fleet || !list) return null;
  if (!row || !swatch || !name || !track || !value) return null;
  return {
    width: own.width,
    height: own.height,
    moment,
    which,
    title,
    fleet,
    list,
    row,
    swatch,
    name,
    track,
    value,
  };
}

/** Draws itself over and over with as little as possible: names only when they are others, in other places. */
export class DrawnValues {
  readonly #p: Places;
  /** Whose title is drawn. */
  #info: MetricInfo | null = null;
  #rises: [small: number, usual: number] | null = null;
  /** The rows and where they were when their names were drawn; null: they are to be drawn again. */
  #names: { rows: readonly unknown[]; scrolled: number } | null = null;

  constructor(places: Places) {
    this.#p = places;
  }

  /** Names, colours or who is isolated may be others. */
  forget() {
    this.#names = null;
  }

  /** `rows` is another list when their order is another; `rowAt` gives the row at a place in it. */
  draw(
    canvas: HTMLCanvasElement,
    head: Head,
    scrolled: number,
    rows: readonly unknown[],
    rowAt: (i: number) => DrawnRow,
  ) {
    const p = this.#p;
    const whole = this.#names?.rows !== rows || this.#names.scrolled !== scrolled;
    const c = whole ? blank(canvas, p.width, p.height) : canvas.getContext('2d');
    if (!c || !head.info) return;
    if (!whole) c.clearRect(p.track.left, p.list.top, p.width, p.list.height);
    this.#names = { rows, scrolled };
    c.textBaseline = 'alphabetic';
    this.#rises ??= [rise(c, 't-11'), rise(c, 't-12')];
    this.#head(c, head, head.info, whole);
    c.save();
    c.beginPath();
    c.rect(p.list.left, p.list.top, p.list.right - p.list.left, p.list.height);
    c.clip();
    c.font = font(px('t-12'));
    const step = p.row.height;
    const first = Math.max(0, Math.floor((p.list.top + scrolled - p.row.top) / step));
    const last = Math.min(rows.length, Math.ceil((p.list.top + p.list.height + scrolled - p.row.top) / step));
    for (let i = first; i < last; i++) this.#row(c, i * step - scrolled, rowAt(i), whole);
    c.restore();
  }

  #head(c: CanvasRenderingContext2D, head: Head, info: MetricInfo, whole: boolean) {
    const p = this.#p;
    const [small, usual] = this.#rises ?? [0, 0];
    c.textAlign = 'left';
    if (whole || info !== this.#info) {
      this.#info = info;
      c.clearRect(0, 0, p.width, p.list.top);
      c.fillStyle = ink('text');
      c.font = font(px('t-12'), 600);
      c.fillText(info.title, p.title.left, middle(p.title) + usual);
      const after = p.title.left + c.measureText(`${info.title} `).width;
      c.font = font(px('t-11'));
      c.fillStyle = ink('text-3');
      c.fillText(unitName(info.unit), after, middle(p.title) + usual);
    } else for (const { top, height } of [p.moment, p.fleet]) c.clearRect(0, top, p.width, height);
    c.font = font(px('t-12'), 600);
    c.fillStyle = ink('text');
    c.fillText(head.moment, p.moment.left, middle(p.moment) + usual);
    c.fillStyle = ink('text-2');
    c.font = font(px('t-12'));
    c.fillText(head.which, p.which.left, middle(p.moment) + usual, p.which.right - p.which.left);
    c.font = font(px('t-11'));
    c.fillText(head.fleet, p.fleet.left, middle(p.fleet) + small, p.fleet.right - p.fleet.left);
  }

  #row(c: CanvasRenderingContext2D, down: number, row: DrawnRow, whole: boolean) {
    const p = this.#p;
    const [, usual] = this.#rises ?? [0, 0];
    const y = Math.round(middle(p.row) + down);
    if (row.isolated) {
      c.fillStyle = ink('selected');
      const left = whole ? p.row.left : p.track.left;
      c.fillRect(left, p.row.top + down, p.row.right - left, p.row.height);
    }
    if (whole) {
      c.fillStyle = ink(row.token);
      const width = p.swatch.right - p.swatch.left;
      if (row.dash) for (let x = 0; x < width; x += 6) c.fillRect(p.swatch.left + x, y - 1, 4, 2);
      else c.fillRect(p.swatch.left, y - 1, width, 2);
      c.textAlign = 'left';
      c.fillStyle = ink('text');
      c.fillText(row.name(), p.name.left, middle(p.name) + down + usual, p.track.left - p.name.left);
    }
    const none = row.share === 0;
    c.textAlign = 'right';
    c.fillStyle = ink(none ? 'text-3' : 'text');
    // set only where it is another: a font is looked up anew each time
    if (none) c.font = font(px('t-11'));
    c.fillText(row.text, p.value.right, middle(p.value) + down + usual);
    if (none) c.font = font(px('t-12'));
    c.fillStyle = ink('line-2');
    c.fillRect(p.track.left, y - 1, ((p.track.right - p.track.left) * row.share) / 100, 3);
  }
}

const middle = (box: Box) => box.top + box.height / 2;

/** From the middle of a line down to its baseline, as the page sets a text of this size. */
function rise(c: CanvasRenderingContext2D, token: string): number {
  c.font = font(px(token));
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: below } = c.measureText('0');
  return (up - below) / 2;
}
