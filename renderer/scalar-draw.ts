/**
 * Draws one scalar panel on its canvas: statistics are told apart by dashes in ink, workers by their colours, kinds of
 * steps by the shape of their markers. Knows nothing of the page but colours and lengths.
 */
import type { Step } from '../electron/engine/api.ts';
import { axisTicks } from './clock.ts';
import { tick } from './format.ts';
import { blank, hatch, ink, px } from './ink.ts';
import {
  endsOf,
  isJoined,
  thinBelow,
  type End,
  type ScalarFigure,
  type ScalarLine,
} from './scalar-figure.ts';
import { isMain, type ScalarPanel, type Shown } from './scalar-panels.ts';
import { gridValues, share } from './scale.ts';

type Context = CanvasRenderingContext2D;

export const strokes: Record<Shown, { dash: number[]; width: number }> = {
  mean: { dash: [], width: 1.75 },
  sum: { dash: [], width: 1.75 },
  pooled: { dash: [], width: 1.75 },
  p95: { dash: [6, 3], width: 1.25 },
  p50: { dash: [2, 2], width: 1.25 },
  min: { dash: [1, 2.5], width: 1.5 },
  max: { dash: [1, 2.5], width: 1.5 },
};

export interface Drawing {
  panel: ScalarPanel;
  figure: ScalarFigure;
  axis: 'step' | 'time';
  paint: (w: number) => { token: string; faint: boolean };
  width: number;
  height: number;
}

/** Where things stand, in pixels of the canvas. */
export interface Places {
  x: Float64Array;
  /** Between neighbours, the narrowest. */
  apart: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export function placesOf({ figure, axis, width, height }: Drawing): Places {
  const text = px('t-11');
  const left = px('ygutter');
  const right = width - px('endgutter');
  const { steps } = figure;
  // the dots of the outermost steps must not reach into axis and labels
  const room = spread(figure) / 2 + 4;
  const first = left + Math.max(12, room);
  const span = Math.max(1, right - first - Math.max(6, room));
  const begin = steps[0]?.from ?? 0;
  const time = Math.max(1, (steps.at(-1)?.from ?? 0) - begin);
  const x = Float64Array.from(steps, (s, i) =>
    axis === 'time' && steps.length > 1
      ? first + ((s.from - begin) / time) * span
      : steps.length > 1
        ? first + (i / (steps.length - 1)) * span
        : first + span / 2,
  );
  let apart = span;
  for (let i = 1; i < x.length; i++) apart = Math.min(apart, (x[i] ?? 0) - (x[i - 1] ?? 0));
  return { x, apart, left, right, top: text + 23, bottom: height - text - 13 };
}

/** The place of the step nearest to a pixel; -1: there is none. */
export function nearest(x: Float64Array, at: number): number {
  let best = -1;
  for (let i = 0; i < x.length; i++)
    if (best < 0 || Math.abs((x[i] ?? 0) - at) < Math.abs((x[best] ?? 0) - at)) best = i;
  return best;
}

/** More steps than there are pixels for their markers. */
const isDense = (p: Places) => p.apart < 2;

/** Over how many pixels the workers' dots stand beside a step, where there is room. */
const spread = ({ dots }: ScalarFigure) => (dots.length > 1 ? 8 + dots.length * 2 : 0);

/** Half the width of a step's column: of the tint over the selected one, of a hatch. */
export const half = (p: Places) => Math.min(9, Math.max(2, p.apart * 0.45));

const yOf = (p: Places, f: ScalarFigure, v: number) => p.bottom - share(f.scale, v) * (p.bottom - p.top);

export function drawScalars(canvas: HTMLCanvasElement, d: Drawing, p: Places) {
  const c = blank(canvas, d.width, d.height);
  if (!c) return;
  const { figure } = d;
  c.textAlign = 'right';
  for (const v of gridValues(figure.scale)) {
    const y = Math.round(yOf(p, figure, v));
    c.fillStyle = ink('grid');
    c.fillRect(p.left, y, p.right - p.left, 1);
    c.fillStyle = ink('text-3');
    c.fillText(tick(d.panel.unit, v), p.left - 6, y);
  }
  drawAxis(c, d, p);
  drawDots(c, d, p);
  for (const line of figure.lines) drawLine(c, figure, p, line);
}

function drawAxis(c: Context, d: Drawing, p: Places) {
  const { steps, coverage } = d.figure;
  const y = p.bottom + px('t-11') - 2;
  c.textAlign = 'center';
  const thin = (i: number) => (coverage?.[i] ?? 1) < thinBelow;
  for (let i = 0; i < steps.length; i++)
    if (thin(i))
      hatch(c, (p.x[i] ?? 0) - half(p), p.bottom + px('t-11') + 5, half(p) * 2, 4, 'gap', ink('text-2'));
  if (d.axis === 'time') drawTimes(c, steps, p, y);
  else drawNumbers(c, d, p, y);
}

/** As far as there is room; that of the selected step stands over them, in the page. */
function drawNumbers(c: Context, d: Drawing, p: Places, y: number) {
  const { steps } = d.figure;
  const widest = c.measureText(String(Math.max(...steps.map((s) => s.number)))).width + 8;
  const every = Math.max(1, Math.ceil(widest / Math.max(0.01, p.apart)));
  c.fillStyle = ink('text-3');
  for (let i = 0; i < steps.length; i += every) {
    c.fillText(String(steps[i]?.number), p.x[i] ?? 0, y);
  }
}

function drawTimes(c: Context, steps: readonly Step[], p: Places, y: number) {
  const [first, last] = [steps[0], steps.at(-1)];
  const [x0, x1] = [p.x[0], p.x.at(-1)];
  if (!first || !last || x0 === undefined || x1 === undefined) return;
  c.fillStyle = ink('text-3');
  for (const { at, label } of axisTicks(first.from, last.from, x1 - x0, px('t-11') * 6))
    c.fillText(label, x0 + ((at - first.from) / (last.from - first.from)) * (x1 - x0), y);
}

/** Beside the step, in the order of the workers, so that equal values do not hide each other. */
function drawDots(c: Context, { figure, paint }: Drawing, p: Places) {
  const { dots } = figure;
  const wide = Math.min(spread(figure), p.apart * 0.8);
  const r = p.apart > 8 ? 2.2 : 1;
  dots.forEach(({ w, values }, n) => {
    const { token, faint } = paint(w);
    const dx = dots.length > 1 ? (n / (dots.length - 1) - 0.5) * wide : 0;
    c.fillStyle = ink(token);
    c.globalAlpha = faint ? 0.22 : 1;
    c.beginPath();
    for (let i = 0; i < values.length; i++) {
      const v = values[i] ?? NaN;
      if (Number.isNaN(v)) continue;
      const [x, y] = [(p.x[i] ?? 0) + dx, yOf(p, figure, v)];
      // so small ones are told apart from squares by nobody, and cost a fifth
      if (r < 2) c.rect(x - r, y - r, r * 2, r * 2);
      else {
        c.moveTo(x + r, y);
        c.arc(x, y, r, 0, 7);
      }
    }
    c.fill();
  });
  c.globalAlpha = 1;
}

function drawLine(c: Context, figure: ScalarFigure, p: Places, line: ScalarLine) {
  const { dash, width } = strokes[line.statistic];
  const { steps } = figure;
  const y = (i: number) => yOf(p, figure, line.values[i] ?? NaN);
  const there = (i: number) => !Number.isNaN(line.values[i] ?? NaN);
  c.strokeStyle = ink('mean');
  c.lineWidth = isDense(p) ? 1 : width;
  // a dash costs by its strokes; where steps stand closer than they are long it would say nothing either
  c.setLineDash(isDense(p) && dash.length > 0 ? [14, 5] : dash);
  c.beginPath();
  let joined = 0;
  const alone: number[] = [];
  const end = (last: number) => {
    if (joined === 1) alone.push(last);
    joined = 0;
  };
  let last = 0;
  for (let i = 0; i < steps.length; i++) {
    if (!isJoined(steps[i]!)) continue;
    if (!there(i)) end(last);
    else if (joined++ > 0) c.lineTo(p.x[i] ?? 0, y(i));
    else c.moveTo(p.x[i] ?? 0, y(i));
    last = i;
  }
  end(last);
  c.stroke();
  c.setLineDash([]);
  // a line of one point would not be seen
  c.fillStyle = ink('mean');
  for (const i of alone) c.fillRect((p.x[i] ?? 0) - 1, y(i) - 1, 2, 2);
  for (let i = 0; i < steps.length; i++) if (there(i)) drawMarker(c, figure, p, line, i, y(i));
}

function drawMarker(c: Context, f: ScalarFigure, p: Places, line: ScalarLine, i: number, y: number) {
  const step = f.steps[i]!;
  const x = p.x[i] ?? 0;
  const lower = f.lower?.[i] === 1;
  const hollow = lower || step.to === null || line.atLeast?.[i] === 1;
  const main = isMain(line.statistic);
  const lone = !f.lines.some((l) => isMain(l.statistic)) && f.steps.length === 1;
  if (!main && !hollow && !lone && isJoined(step)) return;
  // so close together they would hide what they mark
  if (isDense(p) && isJoined(step) && !hollow) return;
  // of steps apart only the main one is marked: their percentiles would be a heap of diamonds
  if (!main && !isJoined(step)) return;
  const r = p.apart > 8 ? 3 : p.apart > 4 ? 2 : 1.25;
  c.beginPath();
  if (step.kind === 'train') c.arc(x, y, r, 0, 7);
  else if (step.kind === 'eval') {
    const a = r * 1.5;
    c.moveTo(x, y - a);
    c.lineTo(x + a, y);
    c.lineTo(x, y + a);
    c.lineTo(x - a, y);
    c.closePath();
  } else c.rect(x - r, y - r, r * 2, r * 2);
  c.fillStyle = ink(hollow || !isJoined(step) ? 'surface' : 'mean');
  c.fill();
  c.strokeStyle = ink('mean');
  c.lineWidth = 1.4;
  c.stroke();
  if (!main) return;
  if (lower && p.apart > 14) {
    c.fillStyle = ink('restart');
    c.fillText(f.bound ? '≥ ↻' : '↻', x, Math.min(y + 12, p.bottom - 5));
  }
}

export interface EndPlace extends End {
  top: number;
}

/** Where the texts at the right end stand: at their values, as near as their height allows. */
export function endPlaces(panel: ScalarPanel, figure: ScalarFigure, p: Places): EndPlace[] {
  const line = px('t-11');
  const height = line * 2 + 1;
  let floor = 0;
  const ends = endsOf(panel, figure).map((end) => {
    const top = Math.max(floor, yOf(p, figure, end.value) - line * 0.65);
    floor = top + height;
    return { ...end, top };
  });
  let ceiling = p.bottom + line + 12;
  for (const end of ends.toReversed()) {
    end.top = Math.min(end.top, ceiling - height);
    ceiling = end.top;
  }
  return ends;
}
