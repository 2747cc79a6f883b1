/**
 * Gestures on the heat map: what the pointer is over, a click isolates, a drag selects a span of time, ctrl and the wheel
 * zoom, a sideways wheel pans, a double click brings the whole back. Turns pixels into times; draws nothing.
 */
import { hearPointer } from './hear-pointer.ts';
import { pan, zoom, type Bounds, type Span } from './span.ts';

export interface HeatPointer {
  /** The time across; null: nothing is shown. */
  span: () => Span | null;
  bounds: () => Bounds;
  /** Whether a height, in pixels of the area, is in the ribbon above the map. */
  inRibbon: (y: number) => boolean;
  /** The worker at a height; null: below the last. */
  rowAt: (y: number) => number | null;
  /** null: the pointer has left. */
  move: (at: { x: number; w: number | null; time: number } | null) => void;
  /** The span being selected, in pixels; null: none any more. */
  select: (pixels: { from: number; to: number } | null) => void;
  /** null: the whole run. */
  show: (span: Span | null) => void;
  press: (w: number, add: boolean) => void;
  pressRibbon: (time: number) => void;
}

/** Less is a click. */
const dragPixels = 4;

export function followHeat(area: HTMLElement, p: HeatPointer): () => void {
  let down: number | null = null;
  let selected: { from: number; to: number } | null = null;

  const place = (e: MouseEvent): [number, number] => {
    const r = area.getBoundingClientRect();
    return [e.clientX - r.left, e.clientY - r.top];
  };
  const timeAt = (span: Span, x: number) => span.from + (x / area.clientWidth) * (span.to - span.from);

  const select = (pixels: { from: number; to: number } | null) => {
    selected = pixels;
    p.select(pixels);
  };

  const move = (e: PointerEvent) => {
    const [x, y] = place(e);
    const span = p.span();
    if (!span) return;
    if (down !== null) {
      const inside = Math.min(Math.max(x, 0), area.clientWidth);
      if (selected || Math.abs(x - down) >= dragPixels)
        select({ from: Math.min(down, inside), to: Math.max(down, inside) });
      return;
    }
    p.move({ x, w: p.inRibbon(y) ? null : p.rowAt(y), time: timeAt(span, x) });
  };

  const press = (e: PointerEvent) => {
    if (e.button !== 0) return;
    down = place(e)[0];
    area.setPointerCapture(e.pointerId);
  };

  const release = (e: PointerEvent) => {
    const span = p.span();
    if (down === null) return;
    down = null;
    const [x, y] = place(e);
    if (selected && span) p.show({ from: timeAt(span, selected.from), to: timeAt(span, selected.to) });
    else if (p.inRibbon(y)) {
      if (span) p.pressRibbon(timeAt(span, x));
    } else {
      const w = p.rowAt(y);
      if (w !== null) p.press(w, e.shiftKey);
    }
    select(null);
  };

  const leave = () => {
    if (down === null) p.move(null);
  };
  const cancel = () => {
    down = null;
    select(null);
    p.move(null);
  };

  const wheel = (e: WheelEvent) => {
    const span = p.span();
    const near = e.ctrlKey || e.metaKey;
    // up and down scrolls the rows
    if (!span || (!near && Math.abs(e.deltaX) <= Math.abs(e.deltaY))) return;
    e.preventDefault();
    const pixels = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (near) {
      const about = timeAt(span, place(e)[0]);
      p.show(zoom(span, Math.exp(e.deltaY * pixels * 0.002), about, p.bounds()));
    } else {
      const share = (e.deltaX * pixels) / (area.clientWidth || 1);
      p.show(pan(span, share * (span.to - span.from), p.bounds()));
    }
  };

  const twice = () => p.show(null);

  return hearPointer(area, { move, press, release, cancel, leave, twice, wheel });
}
