/**
 * One run on screen: which window of time is in view, whether it follows, the data for it, and what the person points
 * at or isolates. Asks the engine; draws nothing (stage.ts does).
 */
import type { MetricInfo, Remote, Run, RunEvent, Ticked, Timelines } from '../electron/engine/api.ts';
import { EventList } from './event-list.svelte.ts';
import { RunFigures } from './figures.svelte.ts';
import { extend, fits, keep, newest, placeFrom, type Kept } from './kept.ts';
import { Paints } from './lines.ts';
import { RunPressure } from './pressure.svelte.ts';
import { askedFor, mergedEvents } from './reading.ts';
import { isKind, sentence } from './sentence.ts';
import { RunSteps } from './steps.svelte.ts';
import { clamp, latest, length, pan, showsLatest, whole, zoom, type Bounds, type Span } from './span.ts';

/** What the range buttons choose; null: a window chosen by hand. */
export type Range = 'whole' | 60 | 300 | null;

const second = 1000;
/** Old data is shown dimmed when the new takes longer than this. */
const patienceMs = 300;
/** How much of the newest raw data is held beside the window, for what says "now". */
const tailMs = 120 * second;

export class RunView {
  readonly #methods: Remote;
  run = $state.raw<Run>() as Run;
  events = $state.raw<RunEvent[]>([]);
  /** The events of before were read: what comes from here on is news. */
  eventsRead = $state(false);
  window = $state.raw<Span>({ from: 0, to: 1 });
  range = $state<Range>('whole');
  following = $state(false);
  /** Rises with each change of `kept` or `tail`: they are changed in place. */
  version = $state(0);
  /** Rises with those of `kept` alone: lines are made anew only then. */
  keptVersion = 0;
  overviewVersion = $state(0);
  dimmed = $state(false);
  error = $state<string | null>(null);
  /** The last tick heard of; null for a run that is not being recorded. */
  live = $state.raw<Ticked | null>(null);

  focus = $state('');
  cursor = $state<number | null>(null);
  isolated = $state.raw<number[]>([]);
  /** The panel that fills the space. */
  filled = $state<string | null>(null);
  metrics = $state.raw<MetricInfo[]>([]);

  readonly figures: RunFigures;
  readonly steps: RunSteps;
  readonly pressure: RunPressure;
  /** What the view of events is set to. */
  eventList = new EventList();
  /** Who is drawn how: the same while the run is open. */
  readonly paints = new Paints();

  kept: Kept | null = null;
  tail: Kept | null = null;
  overview: Kept | null = null;
  /** Of the plots; set by who lays them out. */
  plotWidth = 900;

  #load: AbortController | null = null;
  #delay: ReturnType<typeof setTimeout> | undefined;
  #asking = false;
  #askAgain = false;
  /** Raw data is kept on being appended to up to here; then the engine chooses again. */
  #placesUpTo = 0;
  #loadedAt = 0;
  #overviewAt = 0;
  #runAt = 0;
  #closed = new AbortController();

  constructor(methods: Remote, run: Run, metrics: MetricInfo[]) {
    this.#methods = methods;
    this.run = run;
    this.metrics = metrics;
    this.focus = metrics[0]?.id ?? '';
    this.following = run.state === 'recording';
    this.window = whole(this.bounds);
    this.figures = new RunFigures(methods, this);
    this.steps = new RunSteps(methods, run.id);
    this.pressure = new RunPressure(methods, run.id);
  }

  get bounds(): Bounds {
    const last = Math.max(this.run.lastAt, newest(this.tail) ?? 0);
    return { first: this.run.firstAt, last, intervalSeconds: this.run.intervalSeconds };
  }

  get recording() {
    return this.run.state === 'recording';
  }

  get #asked(): string[] {
    return askedFor(this.metrics, this.run);
  }

  start() {
    void this.load();
    void this.#loadOverview();
    void this.#loadEvents(this.run.startedAt);
    void this.steps.load();
    this.pressure.load(this.run, this.bounds);
    this.figures.moved();
  }

  close() {
    this.#closed.abort();
    this.figures.close();
    this.steps.close();
    this.pressure.close();
    this.#load?.abort();
    clearTimeout(this.#delay);
  }

  // ---------------------------------------------------------------- the window

  show(window: Span, range: Range = null) {
    this.window = clamp(window, this.bounds);
    this.range = range;
    if (this.recording) this.following = showsLatest(this.window, this.bounds);
    this.#loadSoon();
    this.figures.moved();
  }

  /** A stretch with room around it, and the crosshair at its begin; it stands still there. */
  showMoment({ from, to }: Span) {
    const half = Math.max(30 * second, 30 * this.run.intervalSeconds * second, (to - from) * 2);
    const middle = (from + to) / 2;
    this.show({ from: middle - half, to: middle + half });
    this.following = false;
    this.cursor = from;
  }

  pan(share: number) {
    this.show(pan(this.window, length(this.window) * share, this.bounds));
  }

  zoom(factor: number, about = (this.window.from + this.window.to) / 2) {
    this.show(zoom(this.window, factor, about, this.bounds));
  }

  setRange(range: 60 | 300 | 'whole') {
    this.range = range;
    this.following = this.recording;
    const b = this.bounds;
    this.window = range === 'whole' ? whole(b) : clamp(latest(b, range * second, 0), b);
    this.#follow();
    this.#loadSoon();
    this.figures.moved();
  }

  follow() {
    if (!this.recording) {
      const b = this.bounds;
      this.show(latest(b, length(this.window), 0));
      return;
    }
    this.following = true;
    this.#follow();
    this.#loadSoon();
    this.figures.moved();
  }

  /** Moves the window to the newest tick. */
  #follow() {
    if (!this.following) return;
    const b = this.bounds;
    const span = length(this.window);
    if (this.range === 'whole') {
      // grows in leaps, so that lines stand still between them
      if (b.last > this.window.to - span * 0.003 || this.window.from > b.first) this.window = whole(b);
      return;
    }
    const next = latest(b, span, span / this.plotWidth);
    this.window = next.from < whole(b).from ? clamp(next, b) : next;
  }

  showMetrics(metrics: MetricInfo[]) {
    const known = this.kept?.columns;
    const more = metrics.some((m) => !known?.has(m.id));
    this.metrics = metrics;
    if (!metrics.some((m) => m.id === this.focus)) this.focus = metrics[0]?.id ?? '';
    if (this.filled !== null && !metrics.some((m) => m.id === this.filled)) this.filled = null;
    if (more) {
      this.tail = null;
      void this.load();
      this.figures.moved();
    }
  }

  /** A worker, or all behind an endpoint; a second time takes it back. */
  isolate(w: number | number[], add: boolean) {
    const wanted = [w].flat();
    const on = wanted.every((x) => this.isolated.includes(x));
    const others = this.isolated.filter((x) => !wanted.includes(x));
    if (add) this.isolated = on ? others : [...others, ...wanted];
    else this.isolated = on && others.length === 0 ? [] : wanted;
  }

  // ---------------------------------------------------------------- data

  /** While a wheel turns, only every 60 ms. */
  #loadSoon() {
    if (this.#delay !== undefined) return;
    this.#delay = setTimeout(() => {
      this.#delay = undefined;
      void this.load();
    }, 60);
  }

  /** All data for the window; the last ask wins, what was there stays until the new is in. */
  async load() {
    this.#load?.abort();
    const control = new AbortController();
    this.#load = control;
    const slow = setTimeout(() => (this.dimmed = this.kept !== null), patienceMs);
    const { from, to } = this.window;
    const margin = Math.max(this.run.intervalSeconds, this.kept?.widthSeconds ?? 0) * 2 * second;
    const points = Math.min(2000, Math.max(200, Math.round(this.plotWidth)));
    try {
      const t = await this.#methods.timelines(
        { run: this.run.id, metrics: this.#asked, from: from - margin, to: to + margin, points },
        control.signal,
      );
      if (control.signal.aborted) return;
      this.kept = keep(t);
      this.keptVersion++;
      const atEnd = showsLatest(this.window, this.bounds);
      if (t.widthSeconds === 0 && this.recording && this.tail === null && atEnd) this.tail = keep(t);
      this.#placesUpTo = Math.max(points * 2, t.times.length * 1.3);
      this.#loadedAt = performance.now();
      this.error = null;
      this.version++;
    } catch (error) {
      if (!isKind(error, 'cancelled') && !control.signal.aborted) this.error = sentence(error);
    } finally {
      clearTimeout(slow);
      if (this.#load === control) {
        this.#load = null;
        this.dimmed = false;
      }
    }
  }

  async #loadEvents(from: number) {
    try {
      const found = await this.#methods.events(
        this.run.id,
        from,
        Date.now() + 86_400_000,
        this.#closed.signal,
      );
      const known = this.events;
      if (found.length > 0) this.events = mergedEvents(known, found);
      // who has left, or is back, is a fact of the run
      const moves = (events: RunEvent[]) => events.filter((e) => e.kind === 'left' || e.kind === 'joined');
      if (this.eventsRead && moves(this.events).length > moves(known).length) void this.refresh();
      this.eventsRead = true;
    } catch (error) {
      if (!isKind(error, 'cancelled')) this.error = sentence(error);
    }
  }

  async #loadOverview() {
    this.#overviewAt = performance.now();
    try {
      const { first, last } = this.bounds;
      const t = await this.#methods.timelines(
        { run: this.run.id, metrics: ['running'], from: first, to: last, points: 300 },
        this.#closed.signal,
      );
      this.overview = keep(t);
      this.overviewVersion++;
    } catch {
      // the overview is an extra: what broke shows at the charts, which ask the same engine
    }
  }

  /** The run's own facts: workers that came late, families that appeared, its end. */
  async refresh() {
    this.#runAt = performance.now();
    try {
      const run = await this.#methods.getRun(this.run.id, this.#closed.signal);
      const ended = this.recording && run.state !== 'recording';
      const first =
        (this.run.ticks === 0) !== (run.ticks === 0) || (this.run.workers === 0) !== (run.workers === 0);
      this.run = run;
      if (first) this.window = whole(this.bounds);
      if (ended) {
        this.following = false;
        this.live = null;
        void this.#loadEvents(this.run.lastAt - 60 * second);
        this.pressure.load(run, this.bounds);
      }
      if (ended || first) {
        void this.load();
        void this.#loadOverview();
        this.figures.moved();
      }
    } catch (error) {
      if (!isKind(error, 'cancelled')) this.error = sentence(error);
    }
  }

  // ---------------------------------------------------------------- live

  ticked(t: Ticked) {
    if (t.run !== this.run.id || this.#closed.signal.aborted) return;
    this.live = t;
    // nobody looks: all is read anew when the page is shown again
    if (document.hidden) return;
    if (this.#asking) this.#askAgain = true;
    else void this.#askNew();
  }

  shownAgain() {
    this.figures.moved();
    this.pressure.load(this.run, this.bounds);
    if (!this.recording) return;
    this.tail = null;
    void this.load();
    void this.#loadEvents(this.run.lastAt - 60 * second);
    this.figures.ticked();
  }

  /** Asks only for what came since the last ask; at most one is under way. */
  async #askNew() {
    this.#asking = true;
    this.#askAgain = false;
    try {
      const now = this.live?.at ?? this.run.lastAt;
      const interval = this.run.intervalSeconds * second;
      const held = this.#heldTo();
      const from = held !== null && now - held < tailMs ? held - 2 * interval : now - tailMs / 2;
      const query = { run: this.run.id, metrics: this.#asked, from, to: now + interval, points: 2000 };
      const [t] = await Promise.all([
        this.#methods.timelines(query, this.#closed.signal),
        this.#loadEvents(now - 15 * interval),
      ]);
      this.#take(t, now);
    } catch (error) {
      if (!isKind(error, 'cancelled') && !isKind(error, 'engine-gone')) this.error = sentence(error);
    } finally {
      this.#asking = false;
      if (this.#askAgain) void this.#askNew();
    }
  }

  /** Up to where both the tail and the data in view are held. */
  #heldTo(): number | null {
    const tail = newest(this.tail);
    const shown = this.following && this.kept?.widthSeconds === 0 ? newest(this.kept) : tail;
    return tail === null || shown === null ? tail : Math.min(tail, shown);
  }

  #take(t: Timelines, now: number) {
    const first = this.run.ticks === 0 || this.run.workers === 0 || this.run.metrics.length === 0;
    const interval = this.run.intervalSeconds * second;
    if (t.times.length > 0 && t.widthSeconds === 0) {
      if (this.tail && fits(this.tail, t)) this.tail = extend(this.tail, t, now - tailMs);
      else this.tail = keep(t);
      this.#follow();
      const k = this.kept;
      if (k && fits(k, t) && k !== this.tail) {
        this.kept = extend(k, t, this.window.from - length(this.window) / 4);
        this.keptVersion++;
      }
    }
    this.error = null;
    this.version++;
    this.figures.ticked();
    this.pressure.load(this.run, this.bounds);

    const since = performance.now();
    if (first || t.workers !== this.run.workerList.length || since - this.#runAt > 10_000)
      void this.refresh();
    const { first: began, last } = this.bounds;
    if (since - this.#overviewAt > Math.max(900, Math.min(60_000, (last - began) / 150)))
      void this.#loadOverview();
    if (this.#load !== null || this.#delay !== undefined || !this.following) return;
    const end = newest(this.kept);
    const width = (this.kept?.widthSeconds ?? 0) * second;
    const shown = this.kept ? this.kept.places - placeFrom(this.kept, this.window.from) : 0;
    const late =
      width > 0
        ? since - this.#loadedAt > Math.min(width, 10_000)
        : end === null || now - end > 3 * interval || shown > this.#placesUpTo;
    if (late) void this.load();
  }
}
