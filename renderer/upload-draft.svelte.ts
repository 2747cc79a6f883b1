/**
 * An upload as it stands in the dialog, chosen and not yet sent: whose account, where to, what goes, and the last button.
 * Asks the engine; upload-words.ts says it. A key that is typed goes through here and is not kept.
 */
import type {
  Remote,
  RunSummary,
  Upload,
  UploadInput,
  UploadPlan,
  WandbAccount,
  WandbChoice,
  WandbExport,
  WandbTarget,
} from '../electron/engine/api.ts';
import { Asked } from './asked.svelte.ts';
import { plain } from './format.ts';
import { isKind, sentence } from './sentence.ts';
import { hasTooManyKeys } from './upload-choice.ts';
import type { Uploads } from './upload.svelte.ts';
import { actOf, faultWords, isShown, isUpToDate, tagsOf } from './upload-words.ts';

/** After the last change of a switch. */
const planAfterMs = 120;

export type Stage = 'reading' | 'where' | 'what' | 'sending';

interface Planned {
  plan: UploadPlan;
  /** What it was asked with. */
  of: string;
}

export class UploadDraft {
  readonly #run: string;
  readonly #methods: Remote;
  readonly #uploads: Uploads;
  readonly #closed = new AbortController();
  readonly #planned: Asked<UploadInput, Planned>;
  #beginning = false;
  #asking: AbortController | null = null;
  #projectsAsked: AbortController | null = null;
  stage = $state<Stage>('reading');
  account = $state.raw<WandbAccount | null>(null);
  /** The server is asked whose key that is. */
  checking = $state(false);
  /** What the engine says of the server's address or the CA file. */
  accountFault = $state<string | null>(null);
  /** Why the key that was typed was not taken. */
  keyFault = $state<string | null>(null);
  target = $state<WandbTarget>({
    ...{ server: '', entity: null, project: '', name: '', group: '', tags: [], notes: '' },
  });
  /** As typed: target.tags is made of it. */
  tags = $state('');
  projects = $state.raw<string[]>([]);
  choice = $state.raw<WandbChoice | null>(null);
  live = $state(false);
  /** See UploadStart. */
  guessed = $state(false);
  /** A new run on W&B, where the earlier one could go on. */
  anew = $state(false);
  /** Keys that there were when those of workers were switched off by themselves; null: they were not. */
  tooMany = $state<number | null>(null);
  /** Nothing is sent: what goes is written as files for `wandb sync`. */
  offline = $state(false);
  exported = $state.raw<WandbExport | null>(null);
  /** Something is being started, paused, cancelled, written. */
  busy = $state(false);
  fault = $state<string | null>(null);

  constructor(methods: Remote, uploads: Uploads, run: string) {
    this.#methods = methods;
    this.#uploads = uploads;
    this.#run = run;
    this.#planned = new Asked(async (input, signal) => {
      const plan = await methods.planUpload(input, signal);
      return { plan, of: JSON.stringify(input) };
    });
  }

  get run(): RunSummary | null {
    return this.#uploads.run(this.#run);
  }
  get recording(): boolean {
    return this.run?.state === 'recording';
  }
  get upload(): Upload | null {
    return this.#uploads.of(this.#run);
  }

  /** Of what is chosen now or was a moment ago; null: none came yet. */
  get plan(): UploadPlan | null {
    return this.#planned.found?.plan ?? null;
  }
  get planFault(): string | null {
    return this.#planned.fault;
  }
  /** Another plan was asked for and is not there yet. */
  get outdated(): boolean {
    return this.#planned.found?.of !== JSON.stringify(this.#input());
  }

  get act() {
    return actOf(this.plan, this.anew, this.live, this.upload?.failedFiles.length ?? 0);
  }

  /** There is a key, and nobody said that it is none. */
  get mayGoOn(): boolean {
    const { account } = this;
    return account !== null && account.key !== null && account.problem?.kind !== 'key';
  }

  close() {
    this.#closed.abort();
    this.#planned.close();
  }

  #input(): UploadInput | null {
    const { choice } = this;
    if (!choice) return null;
    const target = { ...$state.snapshot(this.target), tags: tagsOf(this.tags) };
    return { run: this.#run, target, choice, live: this.live && this.recording, anew: this.anew };
  }

  // ---------------------------------------------------------------- how it opens

  /** Where the next click has most to do: at what is under way, at what is up to date, at what goes, or at where. */
  async begin() {
    if (this.#beginning) return;
    this.#beginning = true;
    this.fault = null;
    await this.#try(async () => {
      const signal = this.#closed.signal;
      const { upload, target, choice, guessed } = await this.#methods.uploadStart(this.#run, signal);
      if (upload) this.#uploads.take(upload);
      this.target = { ...target };
      this.tags = target.tags.join(', ');
      this.choice = choice;
      this.guessed = guessed;
      this.live = this.recording && (upload?.live ?? true);
      if (upload && upload.state !== 'done' && isShown(upload)) this.stage = 'sending';
      else if (upload?.state === 'done') {
        const input = this.#input()!;
        const plan = await this.#methods.planUpload(input, signal);
        this.#planned.found = { plan, of: JSON.stringify(input) };
        if (isUpToDate(plan, upload)) this.stage = 'sending';
      }
      await this.askAccount(target.server);
      if (this.stage !== 'reading') return;
      if (this.mayGoOn && !this.account?.problem && target.project !== '') this.showWhat();
      else this.stage = 'where';
    });
    this.#beginning = false;
  }

  /** The engine is there again, or the page is looked at again: what was asked meanwhile had no answer. */
  again() {
    if (this.stage === 'reading') void this.begin();
    else if (this.stage === 'what') this.planAgain();
    if (this.stage === 'sending') void this.#uploads.look(this.#run);
  }

  // ---------------------------------------------------------------- where

  /** The last ask wins. null: the server that is taken by itself. */
  async askAccount(server: string | null) {
    await this.#ask((signal) => this.#methods.wandbAccount(server, signal));
  }

  /** True: it is somebody's, and kept. The key is sent once and stays nowhere in the page. */
  async setKey(key: string, inFile: boolean): Promise<boolean> {
    const { server } = this.target;
    const taken = await this.#ask(async (signal) => {
      const account = await this.#methods.setWandbKey(server, key, inFile, signal);
      const { problem } = account;
      if (problem === null) return account;
      // the one that was there before still is
      this.keyFault = `${faultWords(problem, server)} ${plain(problem.advice)}`;
      return null;
    });
    // of what cannot be a key the engine says why
    this.keyFault ??= this.accountFault;
    this.accountFault = null;
    return taken;
  }

  async forgetKey() {
    await this.#ask((signal) => this.#methods.forgetWandbKey(this.target.server, signal));
  }

  /** null: the system's authorities only. */
  async setCaFile(file: string | null) {
    await this.#ask((signal) => this.#methods.setWandbCa(this.target.server, file, signal));
  }

  /** True: it gave an account. */
  async #ask(ask: (signal: AbortSignal) => Promise<WandbAccount | null>): Promise<boolean> {
    this.#asking?.abort();
    const control = new AbortController();
    this.#asking = control;
    this.accountFault = null;
    this.keyFault = null;
    this.checking = true;
    try {
      const account = await ask(AbortSignal.any([control.signal, this.#closed.signal]));
      if (this.#asking !== control || !account) return false;
      this.#takeAccount(account);
      return true;
    } catch (error) {
      if (this.#asking === control && !isKind(error, 'cancelled')) this.accountFault = sentence(error);
      return false;
    } finally {
      if (this.#asking === control) this.checking = false;
    }
  }

  #takeAccount(account: WandbAccount) {
    const before = this.account;
    this.account = account;
    this.target.server = account.server;
    // a place of another user or server is none of this one
    const other = before !== null && (before.user !== account.user || before.server !== account.server);
    if (this.target.entity === null || (other && account.user !== null))
      this.target.entity = account.entity ?? account.entities[0] ?? null;
    void this.askProjects();
  }

  /** Names to choose from, while they are typed. */
  async askProjects() {
    this.#projectsAsked?.abort();
    const control = new AbortController();
    this.#projectsAsked = control;
    if (this.account?.user == null) return;
    try {
      const signal = AbortSignal.any([control.signal, this.#closed.signal]);
      this.projects = await this.#methods.wandbProjects(this.target.server, this.target.entity, signal);
    } catch {
      // without it names are typed whole
      if (this.#projectsAsked === control) this.projects = [];
    }
  }

  // ---------------------------------------------------------------- what goes

  showWhat(offline = false) {
    this.stage = 'what';
    this.offline = offline;
    this.exported = null;
    this.fault = null;
    this.planAgain();
  }

  planAgain(delayMs = 0) {
    const input = this.#input();
    if (input) this.#planned.wantAnew(input, delayMs);
  }

  /** Switches something; the plan follows. */
  change(change: Partial<WandbChoice>) {
    if (!this.choice) return;
    this.choice = { ...this.choice, ...change };
    this.planAgain(planAfterMs);
  }

  setLive(live: boolean) {
    this.live = live;
    this.planAgain(planAfterMs);
  }

  wantNewRun() {
    this.anew = true;
    this.showWhat();
  }

  /** Once: who switches them on again knows. */
  limitKeys() {
    const { plan, choice } = this;
    if (!plan || !choice || this.outdated || this.tooMany !== null || !hasTooManyKeys(plan, choice)) return;
    this.tooMany = plan.keys;
    this.change({ workers: 0 });
  }

  // ---------------------------------------------------------------- sending

  /** What is chosen; nothing was sent before. */
  async send(anew: boolean) {
    const input = this.#input();
    if (input) await this.#start({ ...input, anew });
  }

  /** The last one, as it was. */
  async sendAgain(anew: boolean) {
    const { upload } = this;
    if (!upload) return;
    const { run, target, choice, live } = upload;
    await this.#start({ run, target, choice, live: live && this.recording, anew });
  }

  async #start(input: UploadInput) {
    await this.#do(async () => {
      this.#uploads.take(await this.#methods.startUpload(input));
      this.anew = false;
      this.stage = 'sending';
    });
  }

  pause() {
    return this.#do(async () => this.#uploads.take(await this.#methods.pauseUpload(this.#run)));
  }

  resume() {
    return this.#do(async () => this.#uploads.take(await this.#methods.resumeUpload(this.#run)));
  }

  /** Into the data folder. */
  async writeFiles() {
    const input = this.#input();
    if (!input) return;
    await this.#do(async () => {
      this.exported = await this.#methods.exportWandb(input, null, this.#closed.signal);
    });
  }

  /** What W&B has stays there, and the plan says how much that is. */
  cancel() {
    return this.#do(async () => {
      this.#uploads.take(await this.#methods.cancelUpload(this.#run));
      this.#planned.found = null;
      this.showWhat();
    });
  }

  async #do(act: () => Promise<void>) {
    if (this.busy) return;
    this.busy = true;
    this.fault = null;
    await this.#try(act);
    this.busy = false;
  }

  async #try(act: () => Promise<void>) {
    try {
      await act();
    } catch (error) {
      if (!isKind(error, 'cancelled')) this.fault = sentence(error);
    }
  }
}
