/**
 * The rhythm: one tick an interval, all endpoints in parallel, never two scrapes of one endpoint at once. What comes is
 * handed on in batches that belong to a slot; an answer belongs to the slot in which it arrives.
 */
import type { EndpointState, OutcomeReason } from './api.ts';
import { endpointName, type Login } from './addresses.ts';
import type { Clock } from './clock.ts';
import { NamesTrial } from './names-trial.ts';
import { createScraper, type Failed, type Outcome, type Scraper } from './scrape.ts';
import type { Answer } from './workers.ts';

export interface Miss {
  endpoint: number;
  reason: OutcomeReason;
  sentence: string;
  /** False where it was not asked: back-off, or an earlier scrape is still under way. */
  asked: boolean;
  /** From now on its file_sd entry counts as left behind. */
  becameStale: boolean;
}

/** What came in slot `t`, which began at `at`. A slot may have several batches. */
export interface Batch {
  t: number;
  at: number;
  /** Slots before this one in which no tick happened; said once, with the slot's first batch. */
  leftOut: number;
  answers: Answer[];
  misses: Miss[];
}

/** What to ask. */
export interface PollTarget {
  url: string;
  labels: Record<string, string>;
  /** The file_sd file that names it and when that was changed (epoch ms); null: it was pasted. */
  file: { path: string; changedAt: number } | null;
  login: Login | null;
}

/** How to ask. */
export interface Access {
  timeoutMs: number;
  headers: Record<string, string>;
  /** PEM. */
  ca: string | null;
}

export interface PollOptions {
  /** Endpoints that have a number already: of a run that goes on. They are asked when setTargets names them. */
  known: readonly { url: string; labels: Record<string, string> }[];
  access: Access;
  intervalMs: number;
  clock: Clock;
  /** Slot 0 begins here (epoch ms), and the first slot to give is `firstT`. */
  origin: number;
  firstT: number;
  onBatch: (batch: Batch) => void;
}

interface Endpoint {
  /** Its number: its place among the endpoints. */
  e: number;
  target: PollTarget;
  /** Whether it is asked; one that was taken away keeps its number until the next run. */
  listed: boolean;
  scraper: Scraper;
  busy: boolean;
  /** The slot that waits for its answer. */
  askedIn: number;
  /** Arrived in this slot, so that it misses nothing. */
  arrived: boolean;
  failures: number;
  /** Of the first failure since its last answer. */
  failingSince: number;
  last: Failed | null;
  /** Not asked before this time. */
  askAt: number;
  names: NamesTrial;
  /** Whether the server that answers now was asked for its version. */
  knowsVersion: boolean;
  version: string | null;
  state: EndpointState;
}

/** Numbers of endpoints. */
export interface TargetChanges {
  /** Never asked before in this run: they stand at the end. */
  joined: number[];
  left: number[];
  /** Asked again. */
  back: number[];
}

/** A server that is loading or gone is asked ever less often, but is back within this time. */
const BACK_OFF_MS = 10_000;
/** Failures that may pass without back-off. A time-out is none: busy servers answer late just when it matters. */
const PATIENCE = 3;
/** Silent for as long, with a file that is as old: nobody is behind it any more. */
const STALE_MS = 60_000;

/** How an endpoint stands before its first scrape. */
export const unasked = (url: string, login: boolean): EndpointState => ({
  url,
  state: null,
  sentence: null,
  tookSeconds: null,
  answeredAt: null,
  workers: 0,
  labels: {},
  file: null,
  stale: false,
  login,
  restricted: false,
});

export class Poller {
  endpoints: Endpoint[];
  private readonly options: PollOptions;
  private access: Access;
  private origin: number;
  private firstT: number;
  private t: number;
  private tickAt = 0;
  private leftOut = 0;
  /** Scrapes of this slot that are still under way. */
  private waiting = 0;
  private answers: Answer[] = [];
  private misses: Miss[] = [];
  private timer: NodeJS.Timeout | undefined;
  private readonly stopping = new AbortController();

  constructor(options: PollOptions) {
    this.options = options;
    this.access = options.access;
    this.origin = options.origin;
    this.firstT = options.firstT;
    this.t = options.firstT - 1;
    this.endpoints = options.known.map((known, e) =>
      this.endpoint(e, { ...known, file: null, login: null }, false),
    );
  }

  /** Endpoints that are asked. */
  get listed(): Endpoint[] {
    return this.endpoints.filter((e) => e.listed);
  }

  private endpoint(e: number, target: PollTarget, listed: boolean): Endpoint {
    const { url, labels, file, login } = target;
    return {
      e,
      target,
      listed,
      scraper: this.scraper(target),
      busy: false,
      askedIn: NaN,
      arrived: false,
      failures: 0,
      failingSince: 0,
      last: null,
      askAt: 0,
      names: new NamesTrial(),
      knowsVersion: false,
      version: null,
      state: { ...unasked(url, login !== null), labels, file: file?.path ?? null },
    };
  }

  private scraper({ url, login }: PollTarget): Scraper {
    const now = () => this.options.clock.now();
    return createScraper(url, { ...this.access, login, now });
  }

  /** From now on these are asked, each URL once; new ones are appended. */
  setTargets(targets: readonly PollTarget[]): TargetChanges {
    const changes: TargetChanges = { joined: [], left: [], back: [] };
    const wanted = new Map(targets.map((target) => [target.url, target]));
    this.endpoints.forEach((endpoint, e) => {
      const target = wanted.get(endpoint.target.url);
      wanted.delete(endpoint.target.url);
      if (!target) {
        if (endpoint.listed) changes.left.push(e);
        endpoint.listed = false;
        if (!endpoint.busy) endpoint.scraper.close(); // its connection; it opens another if it comes back
        return;
      }
      if (!endpoint.listed) {
        changes.back.push(e);
        endpoint.failures = endpoint.askAt = 0;
        endpoint.last = null;
      }
      const another = JSON.stringify(target.login) !== JSON.stringify(endpoint.target.login);
      Object.assign(endpoint, { target, listed: true });
      if (another) this.renew(endpoint);
      const { state } = endpoint;
      state.labels = target.labels;
      state.file = target.file?.path ?? null;
      state.login = target.login !== null;
    });
    for (const target of wanted.values()) {
      changes.joined.push(this.endpoints.length);
      this.endpoints.push(this.endpoint(this.endpoints.length, target, true));
    }
    return changes;
  }

  /** Another time-out, other headers or authorities. */
  setAccess(access: Access): void {
    if (JSON.stringify(access) === JSON.stringify(this.access)) return;
    this.access = access;
    for (const endpoint of this.endpoints) this.renew(endpoint);
  }

  private renew(endpoint: Endpoint): void {
    // one that is still asking is closed when it has its answer
    if (!endpoint.busy) endpoint.scraper.close();
    endpoint.scraper = this.scraper(endpoint.target);
    endpoint.names = new NamesTrial();
    endpoint.askAt = 0;
  }

  start(): void {
    this.schedule();
  }

  /**
   * From now on slots are counted from `origin`, beginning with `firstT`: another run begins. Its endpoints are numbered
   * anew, without those that left.
   */
  regrid(origin: number, firstT: number): void {
    this.endSlot();
    for (const { listed, busy, scraper } of this.endpoints) if (!listed && !busy) scraper.close();
    this.endpoints = this.listed;
    this.endpoints.forEach((endpoint, e) => (endpoint.e = e));
    this.origin = origin;
    this.firstT = firstT;
    this.t = firstT - 1;
    this.tickAt = 0; // no slot has begun
    this.waiting = 0;
    for (const endpoint of this.endpoints) endpoint.askedIn = NaN;
    clearTimeout(this.timer);
    this.schedule();
  }

  /** Hands on what is there; scrapes under way are given up. */
  stop(): void {
    clearTimeout(this.timer);
    this.endSlot();
    this.stopping.abort();
    for (const { scraper } of this.endpoints) scraper.close();
  }

  private schedule(): void {
    const { clock, intervalMs } = this.options;
    const due = this.origin + (this.t + 1) * intervalMs - clock.now();
    // never a burst after a sleep, never a long wait after a clock that was set back
    this.timer = setTimeout(() => this.tick(), Math.min(Math.max(due, 0), intervalMs));
  }

  private tick(): void {
    if (this.stopping.signal.aborted) return;
    this.endSlot();
    const { clock, intervalMs } = this.options;
    this.tickAt = clock.now();
    // slots that passed unpolled (sleep, overload) are the gap; a slot is never given twice
    const next = this.t + 1;
    this.t = Math.max(next, Math.round((this.tickAt - this.origin) / intervalMs));
    // the break before a run goes on, or before its first tick, is no fault of this poller
    this.leftOut = next > this.firstT ? this.t - next : 0;
    this.waiting = 0;
    for (const endpoint of this.listed) {
      endpoint.arrived = false;
      // a run's first slot waits for those asked before it too: numbers of workers go by the list of endpoints
      if (endpoint.busy && this.t !== this.firstT) continue;
      endpoint.askedIn = this.t;
      if (endpoint.busy) {
        this.waiting++;
        continue;
      }
      if (this.tickAt < endpoint.askAt && endpoint.last) {
        this.miss(endpoint, endpoint.last.reason, endpoint.last.sentence, false);
        continue;
      }
      this.waiting++;
      void this.ask(endpoint);
    }
    if (this.waiting === 0) this.flush();
    this.schedule();
  }

  private async ask(endpoint: Endpoint): Promise<void> {
    endpoint.busy = true;
    const { scraper } = endpoint;
    const outcome = await endpoint.names.scrape(scraper, this.stopping.signal);
    endpoint.state.restricted = endpoint.names.restricted;
    endpoint.busy = false;
    if (scraper !== endpoint.scraper || !endpoint.listed) scraper.close();
    if (this.stopping.signal.aborted) return;
    if (endpoint.listed) this.take(endpoint, outcome);
    if (endpoint.askedIn === this.t) this.waiting--;
    if (this.waiting <= 0) this.flush();
  }

  private async askVersion(endpoint: Endpoint): Promise<void> {
    endpoint.knowsVersion = true;
    endpoint.version = (await endpoint.scraper.version(this.stopping.signal)) ?? endpoint.version;
  }

  private take(endpoint: Endpoint, outcome: Outcome): void {
    endpoint.arrived = true;
    const { state } = endpoint;
    if (outcome.ok) {
      const { body, sentAt, receivedAt, serverAt } = outcome;
      const { version } = endpoint;
      this.answers.push({ endpoint: endpoint.e, body, sentAt, receivedAt, serverAt, version });
      // one that was away may be another one now
      if (!endpoint.knowsVersion || endpoint.failures > 0) void this.askVersion(endpoint);
      endpoint.failures = 0;
      endpoint.last = null;
      state.state = 'ok';
      state.sentence = null;
      state.stale = false;
      state.tookSeconds = (receivedAt - sentAt) / 1000;
      state.answeredAt = receivedAt;
      state.workers = Math.max(state.workers, body.workers.length);
      return;
    }
    const now = this.options.clock.now();
    if (endpoint.failures++ === 0) endpoint.failingSince = now;
    endpoint.last = outcome;
    const over = endpoint.failures - PATIENCE;
    if (over > 0 && outcome.reason !== 'timeout')
      endpoint.askAt = now + Math.min(BACK_OFF_MS, this.options.intervalMs * 2 ** Math.min(over, 16));
    this.miss(endpoint, outcome.reason, outcome.sentence, true);
  }

  private miss(endpoint: Endpoint, reason: OutcomeReason, sentence: string, asked: boolean): void {
    const { state } = endpoint;
    const stale = this.isStale(endpoint, reason);
    state.state = reason;
    state.sentence = stale
      ? `${sentence} Its file ${endpoint.target.file?.path} has not changed since: delete that, if the server is gone.`
      : sentence;
    this.misses.push({
      endpoint: endpoint.e,
      reason,
      sentence: state.sentence,
      asked,
      becameStale: stale && !state.stale,
    });
    state.stale = stale;
  }

  /** Whether its file_sd entry was left behind by a server that is gone. */
  private isStale({ target, failures, failingSince, state }: Endpoint, reason: OutcomeReason): boolean {
    if (reason === 'late') return state.stale; // on the way to another time-out
    const now = this.options.clock.now();
    return (
      target.file !== null &&
      (reason === 'refused' || reason === 'unreachable' || reason === 'timeout') &&
      failures > PATIENCE &&
      now - failingSince >= STALE_MS &&
      // the file's time is the file server's: what was written since may be seen late
      now - target.file.changedAt >= STALE_MS
    );
  }

  /** Before another slot begins: who has not answered in this one missed it. */
  private endSlot(): void {
    if (this.tickAt === 0) return;
    for (const endpoint of this.listed)
      if (endpoint.busy && !endpoint.arrived)
        this.miss(endpoint, 'late', `${endpointName(endpoint.target.url)} has not answered yet.`, false);
    this.flush();
  }

  private flush(): void {
    if (this.answers.length === 0 && this.misses.length === 0) return;
    if (this.t < this.firstT) return; // between two runs: it belongs to the first slot of the new one
    const { t, tickAt: at, leftOut, answers, misses } = this;
    this.answers = [];
    this.misses = [];
    this.leftOut = 0;
    this.options.onBatch({ t, at, leftOut, answers, misses });
  }
}
