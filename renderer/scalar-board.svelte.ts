/**
 * The state of Scalars: what was chosen (remembered per cluster), what is asked for, which step is selected. Its parts
 * (panels, switches, table) read it and call it.
 */
import type { Step, WhyQuery } from '../electron/engine/api.ts';
import { chosenFrom } from './panels.ts';
import { linesUpTo } from './reading.ts';
import type { RunView } from './run-view.svelte.ts';
import { choiceKey, choiceOf, type ScalarChoice } from './scalar-choice.ts';
import { ScalarData } from './scalar-data.svelte.ts';
import { isJoined } from './scalar-figure.ts';
import { allPanels, usual, whyOf, type Population, type ScalarPanel, type Shown } from './scalar-panels.ts';
import { tableMetrics } from './scalar-rows.ts';
import type { scope as pageScope } from './state.svelte.ts';
import { showStep } from './step-walk.ts';

type Scope = typeof pageScope;

const unique = <T>(list: T[]): T[] => list.filter((x, i) => list.indexOf(x) === i);

export class ScalarBoard {
  readonly view: RunView;
  readonly #scope: Scope;
  readonly data: ScalarData;
  /** The panel that has the focus, or had it last. */
  focus = $state('');

  readonly all = $derived.by(() => allPanels(this.#scope.catalogue));
  readonly panels = $derived.by(() =>
    chosenFrom(this.all, this.#scope.preferences[`scalars:${this.#cluster}`], usual),
  );
  readonly choice = $derived.by(() => choiceOf(this.#scope.preferences[choiceKey(this.#cluster)]));
  readonly steps = $derived.by((): readonly Step[] => this.data.found?.steps ?? this.view.steps.list);
  /** Place of the selected step; while none was chosen the newest whole one. -1: there is none. */
  readonly at = $derived.by(() => {
    const chosen = this.steps.findIndex((s) => s.n === this.view.steps.selected);
    if (chosen >= 0) return chosen;
    const whole = this.steps.findLastIndex((s) => s.to !== null && isJoined(s));
    return whole >= 0 ? whole : this.steps.length - 1;
  });
  readonly step = $derived.by(() => this.steps[this.at] ?? null);
  /** Where a step that is running ends so far. */
  readonly now = $derived.by(() => {
    // the tail is changed in place
    void this.view.version;
    return this.view.bounds.last;
  });
  /** Whose dots are drawn: all up to 16, past that those who are isolated. */
  readonly workers = $derived.by(() => {
    const { isolated, run } = this.view;
    if (run.workerList.length <= linesUpTo) return run.workerList.map(({ w }) => w);
    this.view.paints.assign(isolated);
    return [...isolated].sort((a, b) => a - b);
  });
  readonly #metrics = $derived.by(() =>
    unique([...this.panels.flatMap((p) => p.metric?.id ?? []), ...tableMetrics]),
  );

  /** The last to end in the selected step: its tokens are told, whether it is drawn or not. */
  last = $state<number | null>(null);

  constructor(view: RunView, scope: Scope) {
    this.view = view;
    this.#scope = scope;
    this.data = new ScalarData(scope.methods, view.run.id);
  }

  get #cluster() {
    return this.view.run.clusterId;
  }

  /** Asks for what is shown; called again whenever that, or the steps, or the engine's progress changes. */
  want() {
    const also = [
      ...(this.choice.population === 'time' ? [this.choice.w] : []),
      ...(this.last === null ? [] : [this.last]),
    ];
    const known = this.view.run.workerList.length;
    const workers = unique([...this.workers, ...also])
      .filter((w) => w < known)
      .sort((a, b) => a - b);
    this.data.want({ metrics: this.#metrics, workers });
  }

  wantRunning() {
    const newest = this.view.steps.list.at(-1);
    if (newest && newest.to === null && this.view.recording)
      this.data.wantRunning(newest, this.now, this.#metrics);
  }

  set(choice: ScalarChoice) {
    this.#scope.prefer(choiceKey(this.#cluster), choice);
  }

  select(i: number) {
    const step = this.steps[Math.min(Math.max(i, 0), this.steps.length - 1)];
    if (step) this.view.steps.selected = step.n;
  }

  /** That step in Timelines. */
  open() {
    if (!this.step) return;
    showStep(this.view, this.step);
    this.#scope.tab = 'timelines';
  }

  /** null: the length of a step needs no explanation. */
  whyOf(
    panel: ScalarPanel,
    statistic: Shown,
    step = this.step,
    population: Population = this.choice.population,
  ): WhyQuery | null {
    const source = this.data.found?.source;
    if (!step || !source) return null;
    const at = { run: this.view.run.id, source, step, now: this.now };
    return whyOf(panel, statistic, population, this.choice.w, at);
  }

  explain(panel: ScalarPanel, statistic: Shown, step = this.step, population?: Population) {
    const query = this.whyOf(panel, statistic, step, population);
    if (query) this.#scope.explain(query);
  }

  close() {
    this.data.close();
  }
}
