/**
 * Choosing the trainer's run on W&B for its steps: project, run, which key is the step, an offset for its clock. Reads
 * only; what is chosen last goes away with the menu.
 */
import type { Remote, TrainerRun, WandbRun } from '../electron/engine/api.ts';

/** Keys that trainers call their step, the surest first. */
const usual = ['train/global_step', 'trainer/global_step', 'global_step', 'train/step', 'training_step'];

export class TrainerChoice {
  readonly #methods: Remote;
  readonly #run: string;
  readonly #closed = new AbortController();
  server = $state('');
  entity = $state('');
  project = $state('');
  projects = $state.raw<string[]>([]);
  runs = $state.raw<WandbRun[] | null>(null);
  runId = $state('');
  keys = $state.raw<string[]>([]);
  key = $state('');
  /** An emptied field gives null. */
  offsetSeconds = $state<number | null>(0);
  /** What it waits for, in words; null: nothing. */
  busy = $state<string | null>(null);
  error = $state<string | null>(null);

  constructor(methods: Remote, run: string) {
    this.#methods = methods;
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
    return { server, entity, project, runId, key, offsetSeconds };
  }

  async #begin() {
    await this.#ask('Signing in to W&B', async (signal) => {
      const { target } = await this.#methods.uploadStart(this.#run, signal);
      const account = await this.#methods.wandbAccount(target.server, signal);
      if (account.problem) throw new Error(`${account.problem.message} ${account.problem.advice}`);
      if (account.user === null) throw new Error('Give your API key first, under “Upload to W&B”.');
      this.server = account.server;
      this.entity = target.entity ?? account.entity ?? account.user;
      this.project = target.project;
      this.projects = await this.#methods.wandbProjects(account.server, this.entity, signal);
    });
    if (this.project && !this.error) await this.list();
  }

  async list() {
    this.runId = '';
    await this.#ask('Listing runs', async (signal) => {
      this.runs = await this.#methods.wandbRuns(this.server, this.entity, this.project, signal);
    });
  }

  async choose(runId: string) {
    this.runId = runId;
    this.keys = [];
    this.key = '';
    await this.#ask('Reading its keys', async (signal) => {
      const keys = await this.#methods.wandbKeys(this.server, this.entity, this.project, runId, signal);
      if (runId !== this.runId) return;
      this.keys = keys;
      this.key = usual.find((key) => keys.includes(key)) ?? (keys.includes('_step') ? '_step' : '');
    });
  }

  async #ask(what: string, act: (signal: AbortSignal) => Promise<void>) {
    this.busy = what;
    this.error = null;
    try {
      await act(this.#closed.signal);
    } catch (error) {
      if (!this.#closed.signal.aborted) this.error = error instanceof Error ? error.message : String(error);
    }
    this.busy = null;
  }
}
