/**
 * The window of time in view, and what zooming, panning and following make of it. Pure arithmetic on epoch ms;
 * knows neither data nor pixels beyond what it is told.
 */

export interface Span {
  from: number;
  to: number;
}

/** What there is to see: the run from its first tick to its last. */
export interface Bounds {
  first: number;
  last: number;
  intervalSeconds: number;
}

const smallestTicks = 10;
/** Space right of the newest tick, as a share of the window. */
const lead = 0.02;

export const length = (s: Span) => s.to - s.from;
const smallest = (b: Bounds) => smallestTicks * b.intervalSeconds * 1000;

/** The whole run. A young run is given 30 ticks of room, so that the first ones do not stretch over everything. */
export function whole(b: Bounds): Span {
  const span = Math.max(b.last - b.first, 30 * b.intervalSeconds * 1000);
  return { from: b.first - span * 0.005, to: b.first + span * (1 + lead) };
}

/** The last stretch of the run; its end moves by whole pixels, so that lines do not shimmer. */
export function latest(b: Bounds, spanMs: number, msPerPixel: number): Span {
  const step = msPerPixel > 0 ? msPerPixel : 1;
  const to = Math.ceil((b.last + spanMs * lead) / step) * step;
  return { from: to - spanMs, to };
}

/** The same window, not smaller than 10 ticks, not larger than the run, and touching it. */
export function clamp(s: Span, b: Bounds): Span {
  const all = whole(b);
  const span = Math.min(Math.max(length(s), smallest(b)), length(all));
  const middle = (s.from + s.to) / 2;
  let from = length(s) === span ? s.from : middle - span / 2;
  from = Math.min(Math.max(from, all.from), all.to - span);
  return { from, to: from + span };
}

export const pan = (s: Span, ms: number, b: Bounds) => clamp({ from: s.from + ms, to: s.to + ms }, b);

/** `factor` below 1 comes nearer; `about` keeps its place. */
export function zoom(s: Span, factor: number, about: number, b: Bounds): Span {
  const span = Math.min(Math.max(length(s) * factor, smallest(b)), length(whole(b)));
  const share = (about - s.from) / length(s);
  const from = about - share * span;
  return clamp({ from, to: from + span }, b);
}

/** Whether the window's right edge shows the newest tick. */
export const showsLatest = (s: Span, b: Bounds) => s.to >= b.last;
