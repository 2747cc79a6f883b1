/**
 * A cluster as it stands in the form, typed but not yet sent: its values, what is wrong with them, the secrets taken out
 * of addresses, the test of it. ClusterForm.svelte shows it; the rules are cluster-form.ts.
 */
import type { Cluster, ClusterInput, Remote } from '../electron/engine/api.ts';
import { Checking } from './checking.svelte.ts';
import {
  giveLogins,
  headersOf,
  inputOf,
  loginsIn,
  problemsOf,
  proposedInterval,
  takeLogins,
  noLogins,
  valuesOf,
  whatSavingDoes,
  type FormValues,
} from './cluster-form.ts';
import { many, seconds, thin } from './format.ts';
import { sentence } from './sentence.ts';

export class Draft {
  readonly #current: () => Cluster | null;
  readonly checking: Checking;
  values = $state<FormValues>() as FormValues;
  #logins = $state.raw(noLogins);
  #tried = $state(false);
  /** What the engine said when it was to be saved. */
  #refusal = $state<string | null>(null);
  /** `#asked` at the last test; null: there was none. */
  #tested = $state<string | null>(null);
  /** The interval is the user's own choice, which stays; a cluster's is one. */
  chosen = $state(false);
  #proposedFor = $state<number | null>(null);
  busy = $state(false);

  /** `current`: the cluster that is changed, as it is now; null: a new one. */
  constructor(methods: Pick<Remote, 'targets' | 'check'>, current: () => Cluster | null) {
    this.#current = current;
    const cluster = current();
    this.checking = new Checking(methods);
    this.values = valuesOf(cluster);
    this.chosen = cluster !== null;
  }

  get cluster(): Cluster | null {
    return this.#current();
  }

  problems = $derived.by(() => (this.#tried ? problemsOf(this.values) : {}));

  /** Addresses in the field of which a user and password were taken out. */
  typedLogins = $derived.by(() => loginsIn(this.values.addresses, this.#logins).length);
  /** Of those that can be typed again: the token, a header, or a user and password in an address. */
  get firstSecret(): 'token' | 'header' | 'addresses' {
    if (this.values.tokenKept) return 'token';
    return this.values.headers.length > 0 ? 'header' : 'addresses';
  }

  /** What stands in place of a value that the engine has. */
  get keptWord(): string {
    return this.cluster?.secrets === 'lost' ? 'lost: type it again' : 'kept';
  }

  /** Whether anything of it must be kept secret. */
  secret = $derived.by(
    () =>
      headersOf(this.values).length > 0 ||
      this.typedLogins > 0 ||
      (this.keptLogins > 0 && !this.values.forgetLogins),
  );
  get keptLogins(): number {
    return this.cluster?.endpoints.filter((e) => e.login).length ?? 0;
  }

  /** A sentence about the CA file names it; every other one is about addresses. */
  caRefusal = $derived.by(() => {
    const file = this.values.caFile.trim();
    return file !== '' && this.#refusal?.includes(file) ? this.#refusal : null;
  });
  refusal = $derived.by(() =>
    this.caRefusal === null ? (this.#refusal ?? this.checking.refusal) : this.checking.refusal,
  );

  /** What a test is made of: when it changes, the last one says nothing any more. */
  #asked = $derived.by(() => {
    const { addresses, caFile, timeout, forgetLogins } = this.values;
    return JSON.stringify([
      giveLogins(addresses, this.#logins),
      headersOf(this.values),
      caFile,
      timeout,
      forgetLogins,
    ]);
  });
  get wasTested(): boolean {
    return this.#tested !== null;
  }
  outdated = $derived.by(() => this.#tested !== null && this.#tested !== this.#asked);
  /** Saving is what comes next; otherwise testing. */
  ready = $derived.by(() => this.cluster !== null || (!this.outdated && this.checking.answering > 0));

  /** Saving ends the run that is being recorded. */
  endsRun = $derived.by(
    () => this.cluster?.recording != null && this.values.interval !== this.cluster.intervalSeconds,
  );
  doing = $derived.by(() => (this.cluster ? whatSavingDoes(this.cluster, this.values, this.#logins) : []));

  intervalNote = $derived.by(() => {
    if (this.#proposedFor !== null && !this.chosen)
      return `Proposed: the slowest answer took ${seconds(this.#proposedFor)}.`;
    const { interval } = this.values;
    const slow = this.outdated ? null : this.checking.slowest;
    if (slow === null || interval === null || slow <= interval / 3) return null;
    return `The slowest answer took ${seconds(slow)}: ${proposedInterval(slow)}${thin}s would leave it room.`;
  });

  accessInWords = $derived.by(() => {
    const { headers, token, tokenKept, caFile } = this.values;
    const named = headers.filter((h) => h.kept || h.name.trim() !== '').length;
    const logins = Math.max(this.typedLogins, this.values.forgetLogins ? 0 : this.keptLogins);
    const parts = [
      ...(token.trim() !== '' || tokenKept ? ['bearer token'] : []),
      ...(named > 0 ? [many(named, 'header')] : []),
      ...(caFile.trim() === '' ? [] : ['CA file']),
      ...(logins > 0 ? [`user and password of ${many(logins, 'address', 'addresses')}`] : []),
    ];
    return parts.length === 0 ? null : parts.join(', ');
  });

  /** Whether the engine may be asked; otherwise `problems` says why not. */
  #sound(): boolean {
    this.#tried = true;
    this.#refusal = null;
    this.checking.refusal = null;
    return Object.keys(this.problems).length === 0;
  }

  /** Users and passwords leave the field; they go to the engine from here. */
  #takeSecrets() {
    const taken = takeLogins(this.values.addresses, this.#logins);
    this.values.addresses = taken.text;
    this.#logins = taken.logins;
  }

  /** Those typed; the kept ones are `forgetLogins`. */
  dropLogins() {
    this.#logins = noLogins;
  }

  /** False: a field must be put right first. */
  async test(): Promise<boolean> {
    if (this.checking.running || this.busy) return true;
    if (!this.#sound()) return false;
    this.#takeSecrets();
    this.#tested = this.#asked;
    const { addresses, timeout, caFile, forgetLogins } = this.values;
    await this.checking.start(giveLogins(addresses, this.#logins), loginsIn(addresses, this.#logins), {
      timeoutSeconds: timeout ?? undefined,
      caFile: caFile.trim() || null,
      headers: headersOf(this.values),
      cluster: this.cluster?.id ?? null,
      forgetLogins,
    });
    const { slowest } = this.checking;
    if (!this.chosen && slowest !== null) {
      this.#proposedFor = slowest;
      this.values.interval = proposedInterval(slowest);
    }
    return this.refusal === null;
  }

  /** `send` hands it to the engine. False: it was not taken. */
  async save(name: string, send: (input: ClusterInput) => Promise<void>): Promise<boolean> {
    if (this.busy) return true;
    if (!this.#sound()) return false;
    this.busy = true;
    this.checking.cancel();
    this.#takeSecrets();
    try {
      await send(inputOf(this.values, this.values.name.trim() || name, this.#logins));
      return true;
    } catch (error) {
      this.#refusal = sentence(error);
      return false;
    } finally {
      this.busy = false;
    }
  }
}
