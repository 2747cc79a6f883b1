/**
 * Choosing the trainer's run on W&B for its steps: entity, project, run, which key is the step, an offset for its clock;
 * and looking at what they would be. Reads only; what is chosen last goes away with the menu.
 */
import type { Remote, TrainerRun, TrainerSteps, WandbRun } from '../electron/engine/api.ts';
import { plain } from './format.ts';
import { isKind, sentence } from './sentence.ts';
import type { RunSteps } from './steps.svelte.ts';
import { faultWords } from './upload-words.ts';

/** Keys that trainers call their step, the surest first. */
const usual = ['train/global_step', 'trainer/global_step', 'global_step', 'train/step', 'training_step'];

export class TrainerChoice {
  readonly #methods: Remote;
  readonly #steps: RunSteps;
  readonly #run: string;
  readonly #closed = new AbortController();
  #asking: AbortController | null = null;
  server = $state('');
  entity = $state('');
  /** To choose from. */
  entities = $state.raw<string[]>([]);
  project = $state('');
  projects = $state.raw<string[]>([]);
  /** Those that were listed of the project; null: none were. */
  runs = $state.raw<WandbRun[] | null>(null);
  /** The next page of them; null: these are all. */
  next = $state<string | null>(null);
  runId = $state('');
  keys = $state.raw<string[]>([]);
  key = $state('');
  /** An emptied field gives null. */
  offsetSeconds = $state<number | null>(0);
  /** What they would be; null: not looked at, or something else was chosen since. */
  seen = $state.raw<TrainerSteps | null>(null);
  /** What it waits for, in words; null: nothing. */
  busy = $state<string | null>(null);
  error = $state<string | null>(null);

  constructor(methods: Remote, steps: RunSteps, run: string) {
    this.#methods = methods;
    this.#steps = steps;
    this.#run = run;
    void this.#begin();
  }

  close() {
    this.#closed.abort();
  }

  /** null: something is missing. */
  get chosen(): TrainerRun | null {
    const { server, entity, project, runId, key, offsetSeconds } = this;
    if (!runId || !key || offsetSeconds === null || !Number.isFinite(offsetSeconds)) return null;
    return { server, entity, project: project.trim(), runId, key, offsetSeconds };
  }

  async #begin() {
    await this.#ask('Signing in to W&B', async (signal) => {
      const { target } = await this.#methods.uploadStart(this.#run, signal);
      const account = await this.#methods.wandbAccount(target.server, signal);
      const { problem } = account;
      if (problem) this.error = `${faultWords(problem, account.server)} ${plain(problem.advice)}`;
      else if (account.user === null) this.error = 'Give your API key first, under “Upload to W&B”.';
      if (account.user === null) return;
      this.server = account.server;
      this.entity = target.entity ?? account.entity ?? account.user;
      const { entities } = account;
      this.entities = entities.includes(this.entity) ? entities : [...entities, this.entity];
      this.project = target.project;
    });
    if (this.error !== null) return;
    await this.#listProjects();
    if (this.project && this.error === null) await this.#list(null);
  }

  async #listProjects() {
    await this.#ask('Listing projects', async (signal) => {
      const names = await this.#methods.wandbProjects(this.server, this.entity, signal);
      // a name that cannot be shown as it is is not offered
      this.projects = names.filter((name) => plain(name) === name);
    });
  }

  async chooseEntity(entity: string) {
    this.entity = entity;
    this.projects = [];
    this.placeChanged();
    await this.#listProjects();
  }

  /** What was listed is of another place. */
  placeChanged() {
    this.runs = null;
    this.next = null;
    this.#unchooseRun();
    this.changed();
  }

  #unchooseRun() {
    this.runId = '';
    this.keys = [];
    this.key = '';
  }

  /** What is shown was read with what is chosen no more. */
  changed() {
    this.#asking?.abort();
    this.seen = null;
    this.error = null;
    this.#steps.stopTrying();
  }

  async list() {
    if (this.project.trim() === '') return;
    this.placeChanged();
    await this.#list(null);
  }

  async listMore() {
    await this.#list(this.next);
  }

  async #list(after: string | null) {
    await this.#ask('Listing runs', async (signal) => {
      const { server, entity, project } = this;
      const { runs, next } = await this.#methods.wandbRuns(server, entity, project.trim(), after, signal);
      // one that began meanwhile shifts pages
      const before = after === null ? [] : (this.runs ?? []);
      this.runs = [...before, ...runs.filter((r) => !before.some((b) => b.runId === r.runId))];
      this.next = next;
    });
  }

  async choose(runId: string) {
    this.changed();
    this.#unchooseRun();
    this.runId = runId;
    await this.#ask('Reading its keys', async (signal) => {
      const { server, entity, project } = this;
      const keys = await this.#methods.wandbKeys(server, entity, project.trim(), runId, signal);
      this.keys = keys;
      this.key = usual.find((key) => keys.includes(key)) ?? (keys.includes('_step') ? '_step' : '');
      if (keys.length === 0) this.error = 'That run has no rows yet.';
    });
  }

  /** Shows what they would be. */
  async look() {
    const { chosen } = this;
    if (!chosen || this.#steps.task !== null) return;
    this.changed();
    await this.#try(async () => {
      this.seen = await this.#steps.tryTrainer(chosen);
    });
  }

  /** Takes what is shown. */
  async use() {
    const { chosen } = this;
    if (!chosen || this.#steps.task !== null) return;
    this.error = null;
    await this.#try(async () => {
      await this.#steps.useTrainer(chosen);
      this.seen = null;
    });
  }

  /** The last ask wins. */
  async #ask(what: string, act: (signal: AbortSignal) => Promise<void>) {
    this.#asking?.abort();
    const control = new AbortController();
    this.#asking = control;
    this.busy = what;
    this.error = null;
    await this.#try(() => act(AbortSignal.any([control.signal, this.#closed.signal])));
    if (this.#asking === control) this.busy = null;
  }

  async #try(act: () => Promise<void>) {
    try {
      await act();
    } catch (error) {
      if (!isKind(error, 'cancelled')) this.error = sentence(error);
    }
  }
}
