/**
 * The list of values while the crosshair moves, on a canvas over the list that stands still: writing forty texts into
 * the page costs several milliseconds a move, drawing them less than one. Takes its places from the page's own list.
 */
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
  name: string;
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
  const [moment, title, fleet, list] = [box('moment'), box('title'), box('fleet'), box('list')];
  const [row, swatch, name] = [box('row', scrolled), box('swatch', scrolled), box('name', scrolled)];
  const [track, value] = [box('track', scrolled), box('value', scrolled)];
  if (!moment || !title || !fleet || !list || !row || !swatch || !name || !track || !value) return null;
  return {
    width: own.width,
    height: own.height,
    moment,
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

/** Where the page's own text of this box has its baseline. */
function baseline(c: CanvasRenderingContext2D, box: Box, down = 0): number {
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: below } = c.measureText('0');
  return Math.round(box.top + down + (box.height - up - below) / 2 + up);
}

/** `rowAt` gives the row at a place of the list. */
export function drawValues(
  canvas: HTMLCanvasElement,
  p: Places,
  head: Head,
  scrolled: number,
  rows: number,
  rowAt: (i: number) => DrawnRow,
) {
  const c = blank(canvas, p.width, p.height);
  if (!c || !head.info) return;
  c.textBaseline = 'alphabetic';
  const [small, usual] = [px('t-11'), px('t-12')];
  c.fillStyle = ink('text');
  c.font = font(usual, 600);
  c.fillText(head.moment, p.moment.left, baseline(c, p.moment));
  const y = baseline(c, p.title);
  c.fillText(head.info.title, p.title.left, y);
  const after = p.title.left + c.measureText(`${head.info.title} `).width;
  c.font = font(small);
  c.fillStyle = ink('text-3');
  c.fillText(unitName(head.info.unit), after, y);
  c.fillStyle = ink('text-2');
  c.fillText(head.fleet, p.fleet.left, baseline(c, p.fleet), p.fleet.right - p.fleet.left);

  c.save();
  c.beginPath();
  c.rect(p.list.left, p.list.top, p.list.right - p.list.left, p.list.height);
  c.clip();
  const step = p.row.height;
  const first = Math.max(0, Math.floor((p.list.top + scrolled - p.row.top) / step));
  const last = Math.min(rows, Math.ceil((p.list.top + p.list.height + scrolled - p.row.top) / step));
  c.font = font(usual);
  const [namesAt, valuesAt] = [baseline(c, p.name), baseline(c, p.value)];
  for (let i = first; i < last; i++) drawRow(c, p, i * step - scrolled, rowAt(i), namesAt, valuesAt);
  c.restore();
}

function drawRow(
  c: CanvasRenderingContext2D,
  p: Places,
  down: number,
  row: DrawnRow,
  namesAt: number,
  valuesAt: number,
) {
  if (row.isolated) {
    c.fillStyle = ink('selected');
    c.fillRect(p.row.left, p.row.top + down, p.row.right - p.row.left, p.row.height);
  }
  const middle = Math.round(p.row.top + down + p.row.height / 2);
  c.fillStyle = ink(row.token);
  const width = p.swatch.right - p.swatch.left;
  if (row.dash) for (let x = 0; x < width; x += 6) c.fillRect(p.swatch.left + x, middle - 1, 4, 2);
  else c.fillRect(p.swatch.left, middle - 1, width, 2);
  c.fillStyle = ink('text');
  c.fillText(row.name, p.name.left, namesAt + down, p.track.left - p.name.left);
  c.textAlign = 'right';
  if (row.share === 0) {
    c.font = font(px('t-11'));
    c.fillStyle = ink('text-3');
    c.fillText(row.text, p.value.right, valuesAt + down);
    c.font = font(px('t-12'));
  } else {
    c.fillText(row.text, p.value.right, valuesAt + down);
    c.fillStyle = ink('line-2');
    c.fillRect(p.track.left, middle - 1, ((p.track.right - p.track.left) * row.share) / 100, 3);
  }
  c.textAlign = 'left';
}
