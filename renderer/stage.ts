/**
 * Draws the timelines of one run, at most once a frame: builds the scene from what the view holds, hands the lines to
 * ECharts (only for charts that changed), and puts them between what draw-*.ts paints under and over them. Knows no
 * mouse (pointer.ts) and asks the engine nothing (run-view.svelte.ts).
 */
import type { MetricInfo, RunEvent } from '../electron/engine/api.ts';
import { Chart, type ChartReading, type Line } from './chart.ts';
import { Crosshair, type Parts } from './crosshair.ts';
import { drawAxis, drawLanes, drawOverview } from './draw-frame.ts';
import { drawOver, drawUnder } from './draw-panel.ts';
import { drawBands, drawRibbon, drawStepAxis } from './draw-steps.ts';
import { blank, ink, px, rereadInk } from './ink.ts';
import { newest, placeFrom, type Kept } from './kept.ts';
import { dashFor, points } from './lines.ts';
import { extremes, linesUpTo, placeAt, placesIn, restartsOf, timeAt, valueAt } from './reading.ts';
import { Outliers } from './outliers.ts';
import { linear, logarithmic, type Scale } from './scale.ts';
import { opacityOf, workerName, yOf, type PanelBox, type Scene } from './scene.ts';
import { whole, type Span } from './span.ts';
import { spansIn } from './step-spans.ts';
import { aloneIn } from './step-walk.ts';
import type { RunView } from './run-view.svelte.ts';

interface Mounted {
  chart: Chart;
  element: HTMLElement;
  box: HTMLElement;
}

interface LinesOf {
  key: string;
  lines: Line[];
  points: PanelBox['points'];
}

export class Stage {
  readonly view: RunView;
  average = true;
  logs: ReadonlySet<string> = new Set();
  parts: Parts | null = null;
  scene: Scene | null = null;
  boxes: PanelBox[] = [];
  /** The span being selected by dragging. */
  selection: Span | null = null;
  /** Told when who is drawn in which colour changed: the list has their swatches. */
  painted: () => void = () => undefined;
  readonly #hook = () => this.read();
  #charts = new Map<string, Mounted>();
  #lines = new Map<string, LinesOf>();
  #scales = new Map<string, Scale>();
  #outliers = new Outliers();
  #restarts: { events: RunEvent[]; found: RunEvent[] } | null = null;
  readonly #crosshair = new Crosshair();
  #frame = 0;
  #overviewFrame = 0;
  #theme = 0;
  /** Of the sheet when it was drawn: asking the element while the pointer moves would force a layout. */
  #height = 0;
  #edges: [number, number] | null = null;

  constructor(view: RunView) {
    this.view = view;
    window.__charts = this.#hook;
  }

  read(): ChartReading[] {
    return this.view.metrics.flatMap((m) => this.#charts.get(m.id)?.chart.read() ?? []);
  }

  mount(metric: string, box: HTMLElement, element: HTMLElement): () => void {
    const mounted = { chart: new Chart(metric), element, box };
    this.#charts.set(metric, mounted);
    this.#lines.delete(metric);
    this.requestDraw();
    return () => {
      mounted.chart.dispose();
      if (this.#charts.get(metric) === mounted) this.#charts.delete(metric);
    };
  }

  /** Colours or text size changed. */
  restyle() {
    rereadInk();
    this.#theme++;
    this.requestDraw();
  }

  requestDraw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  /** At once: the pointer is heard once a frame, and to ask for one costs more than to draw. */
  moveCross() {
    if (!this.#frame) this.#drawCross();
  }

  /** The whole run was read again: nothing but its overview is another. */
  requestOverview() {
    if (this.#frame) return;
    this.#overviewFrame ||= requestAnimationFrame(() => {
      this.#overviewFrame = 0;
      this.#drawOverview();
    });
  }

  close() {
    for (const frame of [this.#frame, this.#overviewFrame]) cancelAnimationFrame(frame);
    this.#frame = this.#overviewFrame = 0;
    // the next stage may stand already
    if (window.__charts === this.#hook) delete window.__charts;
  }

  /** Pixels from the sheet's left edge to the plots' edges. */
  edges(): [number, number] {
    const width = this.parts?.sheet.clientWidth ?? 0;
    // names stand at the right ends wherever there is more than one worker: colour is never the only sign
    if (this.#edges) return this.#edges;
    const end = px('endgutter') * (this.view.run.workers > 1 ? 1.42 : 1);
    const x0 = px('head') + px('ygutter');
    this.#edges = [x0, Math.max(x0 + 50, width - end)];
    return this.#edges;
  }

  // ---------------------------------------------------------------- the scene

  #build(): boolean {
    const { view, parts } = this;
    const kept = view.kept;
    this.#edges = null;
    if (!parts || !kept) return false;
    const [x0, x1] = this.edges();
    view.plotWidth = x1 - x0;
    const window = view.window;
    const [begin, end] = placesIn(kept, window.from, window.to);
    const last = placeFrom(kept, window.to + 1) - 1;
    const tail = view.recording && view.following && view.tail ? view.tail : null;
    const many = Math.max(kept.workers, view.run.workers) > linesUpTo;
    const restarts = this.#restartsOf(view.events);
    const { steps, bounds } = view;
    const scene: Scene = {
      run: view.run,
      events: view.events,
      restarts,
      pressure: view.pressure.spells,
      window,
      x0,
      x1,
      kept,
      begin,
      end,
      many,
      average: many || this.average,
      isolated: view.isolated,
      paints: this.view.paints,
      ends: tail ? { kept: tail, place: tail.places - 1 } : { kept, place: last },
      liveAt: view.recording ? (newest(view.tail) ?? newest(kept)) : null,
      steps: spansIn(steps.drawn, restarts, bounds.last, window, x0, x1),
      selected: steps.tried ? null : steps.selected,
      alone: aloneIn(view),
    };
    this.scene = scene;
    const outliers = many ? this.#outliers.in(scene, view.metrics, view.following) : null;
    this.boxes = view.metrics.flatMap((info) => this.#box(info, scene, outliers?.get(info.id)) ?? []);
    return true;
  }

  /** Of a list of events once: there may be thousands. */
  #restartsOf(events: RunEvent[]): RunEvent[] {
    if (this.#restarts?.events !== events) this.#restarts = { events, found: restartsOf(events) };
    return this.#restarts.found;
  }

  /** `standing`: past 16 workers, who stands out. */
  #box(info: MetricInfo, s: Scene, standing: number[] = []): PanelBox | null {
    const mounted = this.#charts.get(info.id);
    if (!mounted) return null;
    const column = s.kept.columns.get(info.id) ?? null;
    const peak = column ? extremes(s.kept, column, s.begin, s.end) : { high: 0, low: Infinity };
    const before = this.view.following ? this.#scales.get(info.id) : undefined;
    const scale = this.logs.has(info.id)
      ? logarithmic(peak.low, peak.high)
      : linear(info.unit, peak.high, before);
    this.#scales.set(info.id, scale);
    const all = s.many
      ? [...new Set([...s.isolated, ...standing])]
      : Array.from({ length: s.kept.workers }, (_, w) => w);
    return {
      info,
      top: mounted.box.offsetTop,
      height: mounted.box.offsetHeight,
      plot: {
        left: px('ygutter'),
        right: this.#sheetWidth() - s.x1,
        // room for half a tick's text
        top: Math.round(px('t-11') * 0.73),
        bottom: Math.round(px('t-11') * 0.64),
      },
      scale,
      column,
      drawn: all,
      points: new Map(),
    };
  }

  #sheetWidth = () => this.parts?.sheet.clientWidth ?? 0;

  #linesOf(p: PanelBox, s: Scene): LinesOf {
    const key = [
      this.view.keptVersion,
      this.#theme,
      s.average,
      p.drawn.join(),
      s.isolated.join(),
      p.drawn.length,
    ].join('|');
    const before = this.#lines.get(p.info.id);
    if (before?.key === key) return before;
    const made: LinesOf = { key, lines: [], points: new Map() };
    if (p.column) {
      const k = s.kept;
      for (const w of p.drawn) {
        const paint = s.paints.of(w, k.workers);
        if (!paint) continue;
        const drawn = points(k, p.column, w, s.run.intervalSeconds);
        const isolated = s.isolated.includes(w);
        made.points.set(w, drawn);
        made.lines.push({
          name: workerName(s.run, w),
          data: drawn.data,
          colour: ink(paint.token),
          width: isolated ? 2 : s.many ? 1.25 : 1.4,
          dash: dashFor(paint.dash, drawn.data),
          opacity: opacityOf(s, w),
          z: isolated ? 4 : 2,
        });
      }
      if (s.average && k.workers > 1) {
        const drawn = points(k, p.column, null, s.run.intervalSeconds);
        made.points.set(null, drawn);
        made.lines.push({
          name: 'average',
          data: drawn.data,
          colour: ink('mean'),
          width: s.many ? 1.75 : 1.25,
          dash: s.many ? null : dashFor([6, 3], drawn.data),
          opacity: s.many ? 1 : 0.85,
          // between few workers it lies behind their lines, past 16 it is what is read first
          z: s.many ? 3 : 1,
        });
      }
    }
    this.#lines.set(p.info.id, made);
    return made;
  }

  // ---------------------------------------------------------------- drawing

  #draw() {
    if (!this.#build()) {
      this.#clear();
      return;
    }
    const { parts, scene: s } = this;
    if (!parts || !s) return;
    if (s.many) {
      const drawn = this.boxes.flatMap((p) => p.drawn);
      this.view.paints.assign([...new Set([...s.isolated, ...drawn])]);
    }
    for (const p of this.boxes) {
      const mounted = this.#charts.get(p.info.id);
      if (!mounted) continue;
      const { lines, points } = this.#linesOf(p, s);
      p.points = points;
      mounted.chart.resize(mounted.element.clientWidth, mounted.element.clientHeight);
      mounted.chart.draw(s.window, p.scale, p.plot, lines);
    }
    const width = this.#sheetWidth();
    const height = parts.sheet.clientHeight;
    this.#height = height;
    const plots = blank(parts.plots, width, height);
    const foot = this.boxes.reduce((lowest, p) => Math.max(lowest, p.top + p.height), 0);
    if (plots) {
      drawBands(plots, s, foot);
      for (const p of this.boxes) drawUnder(plots, s, p);
      for (const p of this.boxes) this.#drawLines(plots, p, width);
      this.boxes.forEach((p, i) => drawOver(plots, s, p, i === 0));
    }
    const lanes = blank(parts.lanes, parts.lanes.clientWidth, parts.lanes.clientHeight);
    if (lanes) drawLanes(lanes, s);
    const axis = blank(parts.axis, parts.axis.clientWidth, parts.axis.clientHeight);
    if (axis) {
      drawAxis(axis, s);
      drawStepAxis(axis, s);
    }
    const ribbon = blank(parts.ribbon, parts.ribbon.clientWidth, parts.ribbon.clientHeight);
    if (ribbon) drawRibbon(ribbon, s, parts.ribbon.clientHeight);
    this.#drawOverview();
    this.#drawCross();
    this.painted();
  }

  /** What ECharts drew, at its place. */
  #drawLines(c: CanvasRenderingContext2D, p: PanelBox, right: number) {
    const mounted = this.#charts.get(p.info.id);
    const canvas = mounted?.chart.canvas;
    if (!canvas || !mounted || canvas.width === 0) return;
    const { clientWidth: width, clientHeight: height } = mounted.element;
    c.drawImage(canvas, right - width, p.top, width, height);
  }

  #drawOverview() {
    const canvas = this.parts?.overview;
    const c = canvas && blank(canvas, canvas.clientWidth, canvas.clientHeight);
    if (c && this.scene)
      drawOverview(c, this.scene, whole(this.view.bounds), this.view.overview, canvas.clientHeight);
  }

  #clear() {
    const p = this.parts;
    if (!p) return;
    for (const canvas of [p.plots, p.ribbon, p.lanes, p.axis, p.overview])
      blank(canvas, canvas.clientWidth, canvas.clientHeight);
    p.mark.hidden = p.cross.hidden = p.chosen.hidden = true;
  }

  /** Alone while the pointer moves. */
  #drawCross() {
    if (this.parts && this.scene)
      this.#crosshair.draw(
        this.parts,
        this.scene,
        this.boxes,
        this.#height,
        this.view.cursor,
        this.selection,
      );
  }

  // ---------------------------------------------------------------- reading back

  timeOf(x: number): number {
    const [x0, x1] = this.edges();
    const { from, to } = this.view.window;
    return from + ((x - x0) / (x1 - x0)) * (to - from);
  }

  /** The time of the place nearest to a pixel: the crosshair stands on data, so a move within a place is none. */
  placedTime(x: number): number {
    const kept = this.view.kept;
    const at = this.timeOf(x);
    return kept && kept.places > 0 ? timeAt(kept, placeAt(kept, at)) : at;
  }

  /** The worker whose line is nearest to a point, within `reach` pixels up or down. */
  workerNear(x: number, y: number, reach: number): number | null {
    const s = this.scene;
    const p = this.boxes.find((b) => y >= b.top && y < b.top + b.height);
    if (!s || !p?.column) return null;
    const i = placeAt(s.kept, this.timeOf(x));
    let best: number | null = null;
    let least = reach;
    for (const w of p.drawn) {
      const away = Math.abs(yOf(p, valueAt(s.kept, p.column, w, i)) - y);
      if (away <= least) {
        least = away;
        best = w;
      }
    }
    return best;
  }

  /** Moves the crosshair by ticks; without one it begins at the right end. */
  stepCursor(by: number) {
    const { view } = this;
    const k = view.kept;
    if (!k || k.places === 0) return;
    const last = placeFrom(k, view.window.to + 1) - 1;
    const i = view.cursor === null ? last : placeAt(k, view.cursor) + by;
    view.cursor = timeAt(k, Math.min(Math.max(i, 0), k.places - 1));
  }

  /** What "now" reads from: the newest tick, or the last place in view of a run that has ended. */
  now(): { kept: Kept; place: number } | null {
    const { view } = this;
    if (view.recording && view.tail && view.tail.places > 0)
      return { kept: view.tail, place: view.tail.places - 1 };
    if (!view.kept) return null;
    return { kept: view.kept, place: placeFrom(view.kept, view.window.to + 1) - 1 };
  }
}
