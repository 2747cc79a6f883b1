/**
 * The steps of the run on screen: those of the current source, which one is selected, and how they are gone through,
 * found anew, marked and told apart. Asks the engine; RunView holds one.
 */
import type {
  FindStepsQuery,
  Marked,
  Remote,
  Step,
  StepKind,
  Steps,
  StepSet,
  StepSource,
  TrainerRun,
  TrainerSteps,
} from '../electron/engine/api.ts';
import type { Range } from './run-view.svelte.ts';
import { isKind, sentence } from './sentence.ts';
import type { Span } from './span.ts';

/** A step as a span on the axis; one that is running reaches to `now`. */
export const spanOf = (step: Step, now: number) => ({
  from: step.from,
  to: step.to ?? Math.max(now, step.from),
});

/** What to look for in the whole run. */
export type Search = Omit<FindStepsQuery, 'run' | 'task'>;

/** The window that shows a step, as long as it is the view's own; and where one was before. */
export interface StepZoom {
  step: Step;
  window: Span;
  before: { window: Span; range: Range; following: boolean };
}

/** How tasks begin that read the rows of the trainer's run. */
const TRAINER_TASK = 'trainer-';
/** A name for work, in its `progress` events. */
const taskName = (begin: string) => `${begin}${Math.random().toString(36).slice(2)}`;
/** Taking a mark back is offered beside the ribbon for so long; in the menu until there is another one. */
const OFFERED_MS = 15_000;

export class RunSteps {
  readonly #methods: Remote;
  readonly #run: string;
  /** null: not read yet. */
  found = $state.raw<Steps | null>(null);
  /** Step.n of the one selected in Scalars and Workers, and last zoomed to. */
  selected = $state<number | null>(null);
  /** A search whose steps are shown in place of those that are stored. */
  tried = $state.raw<StepSet | null>(null);
  /** Name of the search that is under way, for its progress. */
  task = $state<string | null>(null);
  /** The last mark set from this page. */
  marked = $state.raw<Marked | null>(null);
  /** It was set so lately that taking it back is offered beside the ribbon. */
  justMarked = $state(false);
  #markedTimer: ReturnType<typeof setTimeout> | undefined;
  zoom = $state.raw<StepZoom | null>(null);
  error = $state<string | null>(null);
  #asking = false;
  #askAgain = false;
  #search: AbortController | null = null;
  #closed = new AbortController();

  constructor(methods: Remote, run: string) {
    this.#methods = methods;
    this.#run = run;
  }

  get list(): readonly Step[] {
    return this.found?.steps ?? [];
  }

  /** What ribbon and bands show. */
  get drawn(): readonly Step[] {
    return this.tried?.steps ?? this.list;
  }

  get selectedStep(): Step | null {
    return this.list.find((s) => s.n === this.selected) ?? null;
  }

  close() {
    this.#closed.abort();
    this.#search?.abort();
    clearTimeout(this.#markedTimer);
  }

  /** After a reconnect: what was selected there stays selected. */
  goOnFrom(before: RunSteps) {
    this.found = before.found;
    this.selected = before.selected;
    this.zoom = before.zoom;
  }

  /** Reads them anew; at most one ask is under way. */
  async load(): Promise<void> {
    if (this.#asking) {
      this.#askAgain = true;
      return;
    }
    this.#asking = true;
    try {
      this.#take(await this.#methods.steps(this.#run, null, this.#closed.signal));
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#asking = false;
      if (this.#askAgain) {
        this.#askAgain = false;
        void this.load();
      }
    }
  }

  #take(found: Steps) {
    // numbers mean other steps in another set
    if (this.found && this.found.source !== found.source) this.selected = null;
    this.found = found;
    this.error = null;
  }

  #failed(error: unknown) {
    if (!isKind(error, 'cancelled') && !isKind(error, 'engine-gone')) this.error = sentence(error);
  }

  /** The step that holds this time; null: between steps. */
  at(time: number, now: number): Step | null {
    return this.list.findLast((s) => s.from <= time && time <= spanOf(s, now).to) ?? null;
  }

  /** The step before or after a time (`by` -1 or 1), or after the selected one; null: there is none. */
  next(by: -1 | 1, time: number): Step | null {
    const from = this.selectedStep;
    if (from) return this.list.find((s) => s.n === from.n + by) ?? null;
    return by > 0
      ? (this.list.find((s) => s.from > time) ?? null)
      : (this.list.findLast((s) => s.from < time) ?? null);
  }

  async choose(source: StepSource | null) {
    await this.#change(async () => this.#take(await this.#methods.chooseSteps(this.#run, source)));
  }

  async setKind(step: Step, kind: StepKind) {
    await this.#setKinds([step], () => kind);
  }

  /** Those that may be evaluations become what they may be. */
  async acceptSuggestions() {
    const open = this.list.filter((s) => s.suggested !== null && s.suggested !== s.kind);
    await this.#setKinds(open, (s) => s.suggested ?? s.kind);
  }

  async #setKinds(steps: Step[], kindOf: (step: Step) => StepKind) {
    const source = this.found?.source;
    if (!source) return;
    await this.#change(async () => {
      for (const step of steps)
        await this.#methods.setStepKind(this.#run, source, step.n, kindOf(step), this.#closed.signal);
    });
    await this.load();
  }

  /** Begins the next step, or ends the one that runs. The number is one more than the last. */
  async mark(end: boolean) {
    await this.#change(async () => {
      this.marked = await this.#methods.mark({ step: null, kind: null, at: null, end, run: this.#run });
      this.justMarked = true;
      clearTimeout(this.#markedTimer);
      this.#markedTimer = setTimeout(() => (this.justMarked = false), OFFERED_MS);
      await this.load();
    });
  }

  /** The step that a mark gave last: one of this page's, or as the ribbon shows it whoever marked it. */
  get lastMarked(): Step | null {
    if (this.found?.source === 'mark') return this.list.at(-1) ?? null;
    return this.marked?.step ?? null;
  }

  async takeMarkBack() {
    const step = this.lastMarked;
    if (!step) return;
    await this.#change(async () => {
      this.marked = null;
      await this.#methods.takeMarkBack(this.#run, step);
      await this.load();
    });
  }

  // ---------------------------------------------------------------- looking for steps in the whole run

  /** The settings of a source, as its steps were made with. null: it cannot be read. */
  async settingsOf(source: StepSource): Promise<StepSet['settings'] | null> {
    if (this.found?.source === source) return this.found.settings;
    try {
      return (await this.#methods.steps(this.#run, source, this.#closed.signal)).settings;
    } catch (error) {
      this.#failed(error);
      return null;
    }
  }

  /** Shows what a search finds, and stores nothing. */
  async try(search: Search) {
    await this.#look(async (query, signal) => {
      this.tried = await this.#methods.previewSteps(query, signal);
    }, search);
  }

  /** Stores what a search finds, and makes its source the current one. */
  async use(search: Search) {
    await this.#look(async (query, signal) => {
      await this.#methods.findSteps(query, signal);
      const now = await this.#methods.steps(this.#run, null, signal);
      const own = now.source === search.source;
      this.#take(own ? now : await this.#methods.chooseSteps(this.#run, search.source, signal));
      this.tried = null;
    }, search);
  }

  /** The rows of the trainer's run are being read. */
  get readsTrainer(): boolean {
    return this.task?.startsWith(TRAINER_TASK) ?? false;
  }

  /** Shows what the rows of the trainer's run would give, and stores nothing. Throws what the engine says. */
  tryTrainer(trainer: TrainerRun): Promise<TrainerSteps> {
    return this.#readTrainer(async (task, signal) => {
      const seen = await this.#methods.previewTrainerSteps(this.#run, trainer, task, signal);
      this.tried = seen.set;
      return seen;
    });
  }

  /** Stores them, and makes them the current ones. Throws what the engine says. */
  useTrainer(trainer: TrainerRun): Promise<void> {
    return this.#readTrainer(async (task, signal) => {
      this.#take(await this.#methods.useTrainerSteps(this.#run, trainer, task, signal));
      this.tried = null;
    });
  }

  async #readTrainer<T>(act: (task: string, signal: AbortSignal) => Promise<T>): Promise<T> {
    this.#search?.abort();
    const control = new AbortController();
    this.#search = control;
    const task = taskName(TRAINER_TASK);
    this.task = task;
    try {
      return await act(task, control.signal);
    } finally {
      if (this.task === task) this.task = null;
    }
  }

  /** Takes a search back, and what it showed. */
  stopTrying() {
    this.#search?.abort();
    this.tried = null;
  }

  async #look(act: (query: FindStepsQuery, signal: AbortSignal) => Promise<void>, search: Search) {
    this.#search?.abort();
    const control = new AbortController();
    this.#search = control;
    const task = taskName('steps-');
    this.task = task;
    await this.#change(() => act({ run: this.#run, task, ...search }, control.signal));
    if (this.task === task) this.task = null;
  }

  async #change(act: () => Promise<unknown>) {
    this.error = null;
    try {
      await act();
    } catch (error) {
      this.#failed(error);
    }
  }
}
