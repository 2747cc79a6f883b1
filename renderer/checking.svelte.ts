/**
 * A test of the addresses in the form, as it goes on: what they mean, then one check each, a few at a time. Rows fill as
 * answers come. Asks the engine; what the rows say is check-rows.ts.
 */
import type { CheckInput, Remote } from '../electron/engine/api.ts';
import { answers, inTurn, type CheckRow } from './check-rows.ts';
import { isKind, sentence } from './sentence.ts';

/** Checks of that many addresses at a time: each is three scrapes of a server that works. */
const width = 8;
/** Rows are shown anew at most so often: with thousands of addresses hundreds of answers come in a second. */
const pauseMs = 200;

export class Checking {
  readonly #methods: Pick<Remote, 'targets' | 'check'>;
  #control: AbortController | null = null;
  #all: CheckRow[] = [];
  #pause: ReturnType<typeof setTimeout> | undefined;
  /** As they were when they were shown last. */
  rows = $state.raw<CheckRow[]>([]);
  running = $state(false);
  cancelled = $state(false);
  /** How long it took; null while it runs. */
  seconds = $state<number | null>(null);
  /** The engine did not take the addresses: a sentence. */
  refusal = $state<string | null>(null);

  constructor(methods: Pick<Remote, 'targets' | 'check'>) {
    this.#methods = methods;
  }

  done = $derived(this.rows.filter((r) => r.state === 'done').length);
  answering = $derived(this.rows.filter(answers).length);
  workers = $derived(this.rows.reduce((n, r) => n + (r.report?.workers.length ?? 0), 0));
  /** Of the answers, in seconds; null: none came. */
  slowest = $derived.by(() => {
    const took = this.rows.flatMap((r) => r.report?.roundTripSeconds ?? []);
    return took.length === 0 ? null : Math.max(...took);
  });

  /** `logins`: the words of it that have a user and password; `rest`: how all of them are asked. */
  async start(
    addresses: string,
    logins: readonly string[],
    rest: Omit<CheckInput, 'address'>,
  ): Promise<void> {
    this.cancel();
    const control = new AbortController();
    this.#control = control;
    this.refusal = null;
    this.cancelled = false;
    this.seconds = null;
    this.running = true;
    const began = performance.now();
    try {
      const targets = await this.#methods.targets(addresses, control.signal);
      // which of them a login is for, the engine says: it alone knows what URL a word means
      const secrets = await Promise.all(
        logins.map(async (word) => {
          const [meant] = await this.#methods.targets(word, control.signal);
          return { word, url: meant?.url };
        }),
      );
      if (control.signal.aborted) return;
      const rows = targets.map((target): CheckRow => {
        const state = target.url === null ? 'done' : 'waiting';
        return { target, state, report: null, failure: null };
      });
      this.#all = rows;
      this.#show();
      await inTurn(
        rows.filter((row) => row.target.url !== null),
        width,
        (row) => {
          const secret = secrets.find(({ url }) => url === row.target.url)?.word;
          return this.#check(row, { ...rest, address: secret ?? row.target.url ?? '' }, control);
        },
        control.signal,
      );
    } catch (error) {
      if (!control.signal.aborted) {
        this.#all = [];
        this.refusal = sentence(error);
      }
    } finally {
      if (this.#control === control) {
        this.#show();
        this.running = false;
        this.seconds = (performance.now() - began) / 1000;
      }
    }
  }

  #show() {
    clearTimeout(this.#pause);
    this.#pause = undefined;
    // copies: the table writes a row anew only where it is another object
    this.rows = this.#all.map((row) => ({ ...row }));
  }

  #showSoon() {
    this.#pause ??= setTimeout(() => this.#show(), pauseMs);
  }

  async #check(row: CheckRow, input: CheckInput, control: AbortController): Promise<void> {
    row.state = 'asking';
    this.#showSoon();
    try {
      row.report = await this.#methods.check(input, control.signal);
      row.state = 'done';
    } catch (error) {
      if (control.signal.aborted) return;
      row.failure = sentence(error);
      row.state = 'done';
      // without an engine the others fail alike
      if (isKind(error, 'engine-gone')) this.cancel();
    }
    this.#showSoon();
  }

  /** What has answered stays; the others are said not to have been asked. */
  cancel(): void {
    if (!this.running) return;
    this.#control?.abort();
    this.cancelled = true;
    for (const row of this.#all) if (row.state !== 'done') row.state = 'left-out';
    this.#show();
  }
}
