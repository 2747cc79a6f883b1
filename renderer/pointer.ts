/**
 * Gestures on the plots, the lanes and the overview: crosshair, drag a span, pan, zoom, isolate a line. Turns pixels
 * into calls of the view; draws nothing itself.
 */
import { lanesTop, overviewX } from './draw-frame.ts';
import { hearPointer } from './hear-pointer.ts';
import { px } from './ink.ts';
import type { Stage } from './stage.ts';
import { whole } from './span.ts';

/** Less is a click. */
const dragPixels = 4;

export function followPointer(stage: Stage, sheet: HTMLElement): () => void {
  const { view } = stage;
  let down: { x: number; y: number; shift: boolean; window: { from: number; to: number } } | null = null;
  let dragged = false;

  const inside = (x: number) => {
    const [x0, x1] = stage.edges();
    return x >= x0 && x <= x1;
  };
  const place = (e: MouseEvent): [number, number] => {
    const r = sheet.getBoundingClientRect();
    return [e.clientX - r.left, e.clientY - r.top];
  };

  const move = (e: PointerEvent) => {
    const [x, y] = place(e);
    if (down) {
      drag(x);
      return;
    }
    if (!inside(x)) {
      view.cursor = null;
      return;
    }
    const panel = stage.boxes.find((b) => y >= b.top && y < b.top + b.height);
    if (panel) view.focus = panel.info.id;
    view.cursor = stage.placedTime(x);
  };

  const drag = (x: number) => {
    if (!down) return;
    dragged ||= Math.abs(x - down.x) >= dragPixels;
    if (!dragged) return;
    if (down.shift) {
      const [x0, x1] = stage.edges();
      const { from, to } = down.window;
      const ms = ((down.x - x) / (x1 - x0)) * (to - from);
      view.show({ from: from + ms, to: to + ms });
      return;
    }
    const a = stage.timeOf(down.x);
    const b = stage.timeOf(x);
    stage.selection = { from: Math.min(a, b), to: Math.max(a, b) };
    stage.moveCross();
  };

  const press = (e: PointerEvent) => {
    const [x, y] = place(e);
    if (e.button !== 0 || !inside(x)) return;
    down = { x, y, shift: e.shiftKey, window: view.window };
    dragged = false;
    sheet.setPointerCapture(e.pointerId);
  };

  const release = (e: PointerEvent) => {
    if (!down) return;
    const { x, y } = down;
    down = null;
    const chosen = stage.selection;
    stage.selection = null;
    if (chosen) view.show(chosen);
    else if (!dragged) {
      const w = stage.workerNear(x, y, 6);
      if (w !== null) view.isolate(w, e.shiftKey);
    }
    stage.requestDraw();
  };

  const cancel = () => {
    down = null;
    stage.selection = null;
    stage.requestDraw();
  };

  const leave = () => {
    if (!down) view.cursor = null;
  };

  const wheel = (e: WheelEvent) => {
    const [x] = place(e);
    if (!inside(x)) return;
    e.preventDefault();
    const pixels = e.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    if (e.ctrlKey || e.metaKey) view.zoom(Math.exp(e.deltaY * pixels * 0.002), stage.timeOf(x));
    else {
      const by = Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : e.deltaY;
      view.pan((by * pixels) / (view.plotWidth || 1));
    }
  };

  const twice = (e: MouseEvent) => {
    if (inside(place(e)[0])) view.setRange('whole');
  };

  return hearPointer(sheet, { move, press, release, cancel, leave, twice, wheel });
}

/** The overview: drag the window or one of its handles; a press elsewhere brings the window there. */
export function followOverview(stage: Stage, canvas: HTMLCanvasElement): () => void {
  const { view } = stage;
  let grip: 'from' | 'to' | 'window' | null = null;
  let start = 0;
  let before = view.window;

  const timeAt = (e: PointerEvent) => {
    const [x0, x1] = stage.edges();
    const all = whole(view.bounds);
    const x = e.clientX - canvas.getBoundingClientRect().left;
    return { x, at: all.from + ((x - x0) / (x1 - x0)) * (all.to - all.from) };
  };

  const gripAt = (x: number, at: number): 'from' | 'to' | 'window' | null => {
    const s = stage.scene;
    if (!s) return null;
    const all = whole(view.bounds);
    const a = Math.max(s.x0, overviewX(s, all, view.window.from));
    const b = Math.min(s.x1, overviewX(s, all, view.window.to));
    if (Math.abs(x - b) <= 6 && b - a > 8) return 'to';
    if (Math.abs(x - a) <= 6 && b - a > 8) return 'from';
    return at >= view.window.from && at <= view.window.to ? 'window' : null;
  };

  const press = (e: PointerEvent) => {
    if (e.button !== 0) return;
    const { x, at } = timeAt(e);
    grip = gripAt(x, at);
    if (grip === null) {
      const half = (view.window.to - view.window.from) / 2;
      view.show({ from: at - half, to: at + half });
      grip = 'window';
    }
    start = at;
    before = view.window;
    canvas.setPointerCapture(e.pointerId);
  };

  const move = (e: PointerEvent) => {
    const { x, at } = timeAt(e);
    if (grip === null) {
      const over = gripAt(x, at);
      canvas.style.cursor = over === 'window' ? 'grab' : over ? 'ew-resize' : '';
      return;
    }
    const ms = at - start;
    if (ms === 0) return;
    if (grip === 'window') view.show({ from: before.from + ms, to: before.to + ms });
    else if (grip === 'from') view.show({ from: Math.min(before.from + ms, before.to - 1), to: before.to });
    else view.show({ from: before.from, to: Math.max(before.to + ms, before.from + 1) });
  };

  const release = () => {
    grip = null;
  };
  const twice = () => view.setRange('whole');

  canvas.addEventListener('pointerdown', press);
  canvas.addEventListener('pointermove', move);
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('dblclick', twice);
  return () => {
    canvas.removeEventListener('pointerdown', press);
    canvas.removeEventListener('pointermove', move);
    canvas.removeEventListener('pointerup', release);
    canvas.removeEventListener('pointercancel', release);
    canvas.removeEventListener('dblclick', twice);
  };
}

/** A lane a worker: a click isolates it. Past 16 workers there is one lane for all. */
export function followLanes(stage: Stage, canvas: HTMLCanvasElement): () => void {
  const press = (e: MouseEvent) => {
    const w = Math.floor((e.clientY - canvas.getBoundingClientRect().top - lanesTop) / px('lane'));
    if (stage.scene && !stage.scene.many && w >= 0 && w < stage.view.run.workerList.length)
      stage.view.isolate(w, e.shiftKey);
  };
  canvas.addEventListener('click', press);
  return () => canvas.removeEventListener('click', press);
}
