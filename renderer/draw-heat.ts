/**
 * The canvases of the heat map: its picture (heat-pixels.ts) with the steps' borders over it, and above it the ribbon of
 * steps with the clock. Colours come from the tokens.
 */
import type { RunEvent } from '../electron/engine/api.ts';
import { drawAxis } from './draw-frame.ts';
import { drawRibbon, type Strip } from './draw-steps.ts';
import { paintHeat, type Heat, type HeatColours, type HeatPicture } from './heat-pixels.ts';
import { blank, font, ink, px } from './ink.ts';
import { spansIn } from './step-spans.ts';
import type { RunSteps } from './steps.svelte.ts';

type Rgb = readonly [number, number, number];

const stops = ['h0', 'h1', 'h2', 'h3', 'h4', 'h5'];
/** As much as is left of a worker that is not isolated. */
const dim = 0.22;

function rgb(token: string): Rgb {
  const [r = 0, g = 0, b = 0] =
    ink(token)
      .match(/[\d.]+/g)
      ?.map(Number) ?? [];
  return [r, g, b];
}

const mix = (a: Rgb, b: Rgb, share: number): Rgb => [
  a[0] + (b[0] - a[0]) * share,
  a[1] + (b[1] - a[1]) * share,
  a[2] + (b[2] - a[2]) * share,
];

const bytes = new Uint8ClampedArray(4);
const word = new Uint32Array(bytes.buffer);
/** As the machine keeps the four bytes of a pixel. */
function packed(c: Rgb): number {
  bytes.set([...c, 255]);
  return word[0] ?? 0;
}

/** 256 colours, linear between the six stops. */
export function heatColours(): HeatColours {
  const ink = stops.map(rgb);
  const surface = rgb('surface');
  const at = (n: number): Rgb => {
    const place = (n / 255) * (stops.length - 1);
    const a = Math.min(stops.length - 2, Math.floor(place));
    return mix(ink[a] ?? surface, ink[a + 1] ?? surface, place - a);
  };
  const ramp = Array.from({ length: 256 }, (_, n) => at(n));
  return {
    ramp: Uint32Array.from(ramp, packed),
    dimmed: Uint32Array.from(ramp, (c) => packed(mix(surface, c, dim))),
    surface: packed(surface),
    hatch: packed(rgb('gap')),
  };
}

/** In CSS pixels. */
export interface HeatBox {
  width: number;
  height: number;
  rowHeight: number;
  scrolled: number;
}

/** `now`: to where a step reaches that is still running. */
export function drawHeat(
  canvas: HTMLCanvasElement,
  box: HeatBox,
  heat: Heat | null,
  steps: RunSteps,
  now: number,
  colours: HeatColours,
) {
  const c = blank(canvas, box.width, box.height);
  if (!c || !heat) return;
  const k = devicePixelRatio;
  const image = c.createImageData(canvas.width, canvas.height);
  const picture: HeatPicture = {
    width: canvas.width,
    height: canvas.height,
    rowHeight: box.rowHeight * k,
    scrolled: box.scrolled * k,
    gap: box.rowHeight >= 4 ? Math.max(1, Math.round(k)) : 0,
    period: Math.round(4 * k),
  };
  paintHeat(new Uint32Array(image.data.buffer), heat, picture, colours);
  c.putImageData(image, 0, 0);
  c.fillStyle = ink('text');
  c.globalAlpha = 0.55;
  const bottom = Math.min(box.height, heat.order.length * box.rowHeight - box.scrolled);
  for (const { a, b, begins, ends } of spansIn(steps.list, [], now, heat.span, 0, box.width)) {
    if (begins) c.fillRect(Math.round(a), 0, 1, bottom);
    if (ends) c.fillRect(Math.round(b), 0, 1, bottom);
  }
  c.globalAlpha = 1;
}

/** The steps, and under them the time of day. `now`: to where a step reaches that is still running. */
export function drawHeatHead(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  heat: Heat,
  steps: RunSteps,
  restarts: readonly RunEvent[],
  now: number,
) {
  const c = blank(canvas, width, height);
  if (!c) return;
  const strip: Strip = {
    x0: 0,
    x1: width,
    steps: spansIn(steps.list, restarts, now, heat.span, 0, width),
    selected: steps.selected,
    liveAt: heat.run.state === 'recording' ? now : null,
  };
  const axis = px('axis');
  drawRibbon(c, strip, height - axis + 2);
  c.font = font(px('t-11'));
  c.translate(0, height - axis);
  // labels at both ends would be cut off
  const half = c.measureText('00:00:00').width / 2;
  const { from, to } = heat.span;
  const ms = ((to - from) * half) / width;
  drawAxis(c, { x0: half, x1: width - half, window: { from: from + ms, to: to - ms } });
}
