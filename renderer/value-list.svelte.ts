/**
 * What the list of values shows: a row a worker with its number at the crosshair, in an order that rests. While the
 * crosshair moves nothing of the page is touched: the list is drawn (draw-values.ts), which costs a tenth; once it
 * stands, texts and order are written into the page.
 */
import type { MetricInfo } from '../electron/engine/api.ts';
import { clock } from './clock.ts';
import { value } from './format.ts';
import type { Kept } from './kept.ts';
import { answered, fleetAt, hasLeft, placeAt, timeAt, valueAt } from './reading.ts';
import { needsTraffic } from './scene.ts';
import type { Stage } from './stage.ts';
import { since, stepName } from './step-words.ts';

/** The crosshair stands when it has not moved for so long. */
const restMs = 150;

/** What one row says. */
export interface Said {
  text: string;
  /** Length of the bar in percent; 0: a reason stands in place of a value. */
  share: number;
}

export class Row {
  readonly w: number;
  /** The number it is sorted by; NaN: none. */
  number = NaN;
  text = $state('');
  share = $state(0);
  colour = $state('');
  dash = $state(false);
  constructor(w: number) {
    this.w = w;
  }
}

export interface Head {
  moment: string;
  /** `step 5 +23 s` at the crosshair; where there is none, what the moment is. */
  which: string;
  /** The fleet's number and the range over workers. */
  fleet: string;
  info: MetricInfo | null;
}

const nothing: Head = { moment: '', which: '', fleet: '', info: null };

export class ValueList {
  readonly #stage: Stage;
  readonly #draw: (head: Head) => void;
  /** As the page has it. */
  order = $state.raw<Row[]>([]);
  head = $state.raw<Head>(nothing);
  /** The place shown, for the matrix. */
  place = $state.raw<{ kept: Kept; place: number } | null>(null);
  /** The crosshair moves: the list is drawn and what the page holds is old. */
  moving = $state(false);

  byNumber = false;
  /** The pointer is over the list: nothing may move under it. */
  held = false;
  /** As it is drawn, or will be written. */
  sorted: Row[] = [];
  #rows: Row[] = [];
  #sortedFor = '';
  #source: { kept: Kept; place: number } | null = null;
  #top = 0;
  #rest: ReturnType<typeof setTimeout> | undefined;
  #cursor: number | null = null;

  /** `draw` paints the list while the crosshair moves. */
  constructor(stage: Stage, draw: (head: Head) => void) {
    this.#stage = stage;
    this.#draw = draw;
  }

  get info(): MetricInfo | null {
    const { view } = this.#stage;
    return view.metrics.find((m) => m.id === view.focus) ?? view.metrics[0] ?? null;
  }

  /** The data, the crosshair or what is focused changed. */
  update() {
    const { view } = this.#stage;
    const moved = view.cursor !== this.#cursor && view.cursor !== null;
    this.#cursor = view.cursor;
    const head = this.#read();
    if (view.cursor === null || head === nothing) {
      this.#settle(head);
      return;
    }
    if (moved) {
      clearTimeout(this.#rest);
      this.#rest = setTimeout(() => this.#settle(this.#read()), restMs);
      this.moving = true;
    }
    if (this.moving) this.#draw(head);
    else this.#settle(head);
  }

  resort() {
    this.#settle(this.#read());
  }

  close() {
    clearTimeout(this.#rest);
  }

  /** Reads all numbers, touches nothing of the page. */
  #read(): Head {
    const { view } = this.#stage;
    const info = this.info;
    const source =
      view.cursor !== null && view.kept
        ? { kept: view.kept, place: placeAt(view.kept, view.cursor) }
        : this.#stage.now();
    if (!info || !source || source.place < 0) {
      this.#source = null;
      return nothing;
    }
    this.#source = source;
    const { kept, place } = source;
    if (this.#rows.length !== view.run.workerList.length) {
      this.#rows = view.run.workerList.map((worker, n) => this.#rows[n] ?? new Row(worker.w));
      this.sorted = [...this.#rows];
      this.#sortedFor = '';
    }
    const fleet = fleetAt(kept, info, place);
    const column = kept.columns.get(info.id);
    for (const row of this.#rows) row.number = column ? valueAt(kept, column, row.w, place) : NaN;
    this.#top = Math.max(fleet.high, info.unit === 'ratio' ? 1 : 0);
    if (this.#sortedFor !== info.id) this.#sort();
    const show = (v: number | null) => value(info.unit, v);
    const how = info.fleet === 'pooled' && info.kind === 'histogram' ? 'mean' : info.fleet;
    const range = fleet.count > 1 ? ` · ${show(fleet.low)} to ${show(fleet.high)}` : '';
    const none = needsTraffic(info) ? 'no traffic' : 'no answer';
    return {
      moment: clock(timeAt(kept, place)),
      which: this.#which(timeAt(kept, place)),
      fleet: fleet.count === 0 ? none : `${how} ${show(fleet.value)}${range}`,
      info,
    };
  }

  #which(at: number): string {
    const { view } = this.#stage;
    if (view.cursor === null) return view.recording ? 'now' : 'last in view';
    const step = view.steps.at(at, view.bounds.last);
    if (step) return `${stepName(step)} ${since(at - step.from)}`;
    return view.steps.list.length > 0 ? 'no step' : '';
  }

  /** Writes into the page what changed; rows move only here, and not under the pointer. */
  #settle(head: Head) {
    clearTimeout(this.#rest);
    this.moving = false;
    this.head = head;
    this.place = this.#source;
    if (head === nothing) return;
    if (!this.held) this.#sort();
    if (this.sorted.length !== this.order.length || this.sorted.some((row, i) => row !== this.order[i]))
      this.order = this.sorted;
    for (const row of this.#rows) {
      const { text, share } = this.said(row);
      row.text = text;
      row.share = share;
    }
  }

  #sort() {
    this.#sortedFor = this.info?.id ?? '';
    // silent workers stand at the end, among themselves by number
    const by = (a: Row, b: Row) =>
      Number.isNaN(a.number) || Number.isNaN(b.number)
        ? Number(Number.isNaN(a.number)) - Number(Number.isNaN(b.number)) || a.w - b.w
        : b.number - a.number || a.w - b.w;
    this.sorted = this.byNumber ? this.#rows : [...this.#rows].sort(by);
  }

  said(row: Row): Said {
    const info = this.info;
    if (!info || Number.isNaN(row.number)) return { text: this.#reason(row.w), share: 0 };
    const share = this.#top > 0 ? Math.max(1, Math.round((row.number / this.#top) * 100)) : 1;
    return { text: value(info.unit, row.number), share };
  }

  #reason(w: number): string {
    const { view } = this.#stage;
    const info = this.info;
    if (!info || !this.#source) return '–';
    const { kept, place } = this.#source;
    const sleep = kept.columns.get('sleep_level');
    if (sleep && valueAt(kept, sleep, w, place) > 0) return 'asleep';
    if (!answered(kept, w, place)) return hasLeft(view.run, w, timeAt(kept, place)) ? 'left' : 'no answer';
    if (view.run.metrics.length > 0 && !view.run.metrics.includes(info.id)) return 'not there yet';
    if (info.kind !== 'gauge' && view.run.workerList[w]?.several) return 'several servers';
    return needsTraffic(info) ? 'no traffic' : '–';
  }

  /** Colours and dashes of the swatches, as the charts have them. */
  paint() {
    const { view } = this.#stage;
    for (const row of this.#rows) {
      const paint = view.paints.of(row.w, view.run.workers);
      row.colour = paint ? `var(--${paint.token})` : 'var(--line-2)';
      row.dash = paint?.dash != null;
    }
  }
}
