/**
 * Where steps come from, when nobody marks them: stretches in which the cluster was at work, told from the samples of
 * its workers. Pure: knows no file and no clock. The same finder is used while recording (fed tick by tick) and over an
 * old run. docs/metrics.md, "Steps", has the rules.
 *
 * At work means: some worker runs or holds back requests (idle), or is awake (sleep). A worker that does not answer is
 * not idle: what it did is decided by its next answer, or when it is given up.
 */
import type { OutcomeReason } from './api-clusters.ts';
import type { StepKind, StepSettings } from './api-steps.ts';

/** Of the rules below; what was found by another version is found anew. */
export const FINDER_VERSION = 1;

/** A worker that refused connections for so long is gone, from its first refusal on. */
const REFUSED_FOR_MS = 10_000;
/** ... and one that is not in its endpoint's answers any more for so long, from its last one on. */
export const ABSENT_FOR_MS = 10_000;
/** ... and one that did not answer for so long, for whatever reason: a dead machine refuses nothing. */
const SILENT_FOR_MS = 120_000;

/** After how long without an answer a worker is given up. */
export const givenUpAfter = (reason: OutcomeReason) =>
  reason === 'refused' ? REFUSED_FOR_MS : SILENT_FOR_MS;

export const defaultSettings = (intervalMs: number): StepSettings => ({
  minIdleSeconds: Math.max(2, intervalMs / 1000),
  minStepSeconds: 2,
  everySeconds: 60,
});

/** What one sample says of a worker. */
export interface Seen {
  w: number;
  /** Epoch ms. */
  at: number;
  /** When it was asked for. */
  asked: number;
  epoch: number;
  /** null: the body did not say. */
  busy: boolean | null;
  /** What only grows while it works (tokens); null: unknown. */
  work: number | null;
}

export interface FoundStep {
  /** What people call it; absent: its place. */
  number?: number;
  from: number;
  /** null: not over. */
  to: number | null;
}

/**
 * A stretch of work of one worker: it was seen at work from `first` to `last`, idle at `before`, and idle again in an answer
 * to what was asked at `after`.
 */
interface Stretch {
  before: number;
  first: number;
  last: number;
  after: number;
}

interface WorkerState {
  /** Last time it was seen idle; null: not yet. */
  idleAt: number | null;
  open: Omit<Stretch, 'after'> | null;
  epoch: number;
  work: number | null;
  lastAt: number;
  gone: boolean;
}

export class WorkFinder {
  private readonly minIdleMs: number;
  private readonly minStepMs: number;
  private readonly halfSlotMs: number;
  private readonly workers = new Map<number, WorkerState>();
  /** Over, but not yet known to be followed by a break. */
  private waiting: Stretch[] = [];
  /** Those that are final, oldest first. */
  readonly found: FoundStep[] = [];

  constructor(settings: Pick<StepSettings, 'minIdleSeconds' | 'minStepSeconds'>, intervalMs: number) {
    this.halfSlotMs = intervalMs / 2;
    this.minIdleMs = settings.minIdleSeconds * 1000;
    this.minStepMs = settings.minStepSeconds * 1000;
  }

  /**
   * Half a slot after it was seen idle last, half a slot before it was seen idle again: the slots between in which it
   * did not answer count as work. Both are so placed that the samples which own the step's tokens are idle ones.
   */
  private beginOf = (s: Omit<Stretch, 'after'>) => Math.min(s.first, s.before + this.halfSlotMs);
  private endOf = (s: Stretch) => Math.max(s.last, s.after - this.halfSlotMs);

  /** Samples of one worker must come in the order of time. */
  take(seen: Seen): void {
    const state = this.workers.get(seen.w) ?? this.newWorker(seen);
    const { at } = seen;
    // what the process before had at work died with it; the new one may not tell levels before its first request
    if (seen.epoch !== state.epoch) {
      if (state.open) this.over(state, seen.asked);
      state.idleAt = null;
      state.epoch = seen.epoch;
    }
    if (seen.busy === null) {
      state.lastAt = at;
      return;
    }
    if (state.gone) {
      // what it did while it was away is not known
      state.gone = false;
      state.idleAt = null;
      state.open = null;
    }
    if (seen.busy) {
      if (state.open) state.open.last = at;
      else state.open = { before: state.idleAt ?? at, first: at, last: at };
    } else {
      if (state.open) this.over(state, seen.asked);
      else if (state.idleAt !== null && this.workedBetween(state, seen)) {
        const middle = (state.idleAt + at) / 2;
        this.waiting.push({ before: state.idleAt, first: middle, last: middle, after: seen.asked });
      }
      state.idleAt = at;
    }
    state.work = seen.work;
    state.lastAt = at;
  }

  /** Idle twice, and yet tokens were counted in between: a stretch of work too short to be seen. */
  private workedBetween(state: WorkerState, seen: Seen): boolean {
    return state.work !== null && seen.work !== null && seen.work > state.work;
  }

  /** It has refused since `since`, or was taken away then: given up from there on. */
  give(w: number, since: number): void {
    const state = this.workers.get(w);
    if (!state || state.gone) return;
    if (state.open) this.over(state, Math.max(since, state.lastAt));
    state.gone = true;
  }

  /** When its last answer was; null: it never answered, or was given up. */
  lastAnswer(w: number): number | null {
    const state = this.workers.get(w);
    return state && !state.gone ? state.lastAt : null;
  }

  /**
   * Makes final what is, and gives what is not yet: steps that may still become longer or one with the next, and at last
   * the one that runs. `now`: time of the last tick.
   */
  settle(now: number): FoundStep[] {
    const active = [...this.workers.values()].filter((s) => !s.gone);
    // no stretch that is not known yet can begin before this
    let horizon = Infinity;
    for (const s of active)
      horizon = Math.min(horizon, s.open ? this.beginOf(s.open) : (s.idleAt ?? s.lastAt));
    const waiting: Stretch[] = [];
    for (const group of this.groups(this.waiting))
      if (group.end + this.minIdleMs <= horizon) this.keep(group, this.found);
      else waiting.push(...group.of);
    this.waiting = waiting;
    const open = active.flatMap((s) => (s.open ? [{ ...s.open, after: now }] : []));
    const pending: FoundStep[] = [];
    for (const group of this.groups([...waiting, ...open])) {
      const runs = group.of.some((s) => open.includes(s));
      this.keep(runs ? { begin: group.begin, end: Math.max(now, group.end) } : group, pending);
      const last = pending.at(-1);
      if (runs && last) last.to = null;
    }
    return pending;
  }

  /** At the end of a run: nothing can become longer any more. */
  finish(now: number): FoundStep[] {
    const pending = this.settle(now);
    this.waiting = [];
    const open = pending.findIndex((s) => s.to === null);
    const over = open < 0 ? pending.length : open;
    this.found.push(...pending.slice(0, over));
    return pending.slice(over);
  }

  private keep({ begin, end }: { begin: number; end: number }, to: FoundStep[]): void {
    if (end - begin >= this.minStepMs) to.push({ from: Math.round(begin), to: Math.round(end) });
  }

  /** Stretches with no break of the shortest length between them belong together. */
  private groups(stretches: readonly Stretch[]): { begin: number; end: number; of: Stretch[] }[] {
    const found: { begin: number; end: number; first: number; last: number; of: Stretch[] }[] = [];
    for (const s of [...stretches].sort((a, b) => a.first - b.first)) {
      const group = found.at(-1);
      if (!group || this.beginOf(s) - group.end >= this.minIdleMs) {
        found.push({ begin: this.beginOf(s), end: this.endOf(s), first: s.first, last: s.last, of: [s] });
        continue;
      }
      group.of.push(s);
      // the edge is told by who was seen at work last: another one's answer may only have been late
      if (s.last > group.last) {
        group.last = s.last;
        group.end = this.endOf(s);
      }
    }
    return found;
  }

  private over(state: WorkerState, after: number): void {
    if (state.open) this.waiting.push({ ...state.open, after });
    state.open = null;
  }

  private newWorker(seen: Seen): WorkerState {
    const state: WorkerState = {
      idleAt: null,
      open: null,
      epoch: seen.epoch,
      work: seen.work,
      lastAt: seen.at,
      gone: false,
    };
    this.workers.set(seen.w, state);
    return state;
  }
}

/** Steps of equal length from `begin` on; the last one runs until `now`. */
export function fixedSteps(begin: number, now: number, everySeconds: number, first = 0): FoundStep[] {
  const every = everySeconds * 1000;
  const n = Math.max(0, Math.ceil((now - begin) / every) - first);
  return Array.from({ length: n }, (_, i) => {
    const from = begin + (first + i) * every;
    return { from, to: from + every <= now ? from + every : null };
  });
}

/** A step this much shorter than its neighbours is probably an evaluation. */
const SHORT_SHARE = 0.4;

/**
 * What to suggest for each step: `eval` where it is much shorter than the middle one of its four neighbours. Only said,
 * never done: short rollouts are also a sign of trouble.
 */
export function suggestions(steps: readonly FoundStep[]): (StepKind | null)[] {
  const lengths = steps.map((s) => (s.to === null ? null : s.to - s.from));
  return lengths.map((own, i) => {
    if (own === null) return null;
    const around = [i - 2, i - 1, i + 1, i + 2].flatMap((j) => lengths[j] ?? []).sort((a, b) => a - b);
    if (around.length < 2) return null;
    const middle =
      (around[Math.floor((around.length - 1) / 2)]! + around[Math.floor(around.length / 2)]!) / 2;
    return own < SHORT_SHARE * middle ? 'eval' : null;
  });
}
