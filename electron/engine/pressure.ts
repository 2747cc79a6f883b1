/**
 * Spells in which a worker's KV cache was full and it paid for that: it preempted requests, or some waited for room.
 * Agentic loads hardly preempt, their new requests wait instead, so either counts. Pure; docs/metrics.md, "KV pressure".
 */

/** Share of blocks in use from which a cache is full. */
export const FULL = 0.95;
/** Breaks of up to so many intervals do not end a spell: usage is a level, read once an interval. */
const BREAK_INTERVALS = 3;
/** A single sample is no spell. */
const LEAST_SAMPLES = 2;

/** A sample with a full cache. */
export interface FullSample {
  w: number;
  at: number;
  /** Requests without room; where the engine does not tell reasons, all that wait. */
  waiting: number | null;
  /** Since the sample before. */
  preemptions: number | null;
}

export interface Spell {
  w: number;
  from: number;
  to: number;
  preemptions: number;
  waiting: number;
}

interface State {
  spell: Spell | null;
  samples: number;
}

export class PressureFinder {
  private readonly breakMs: number;
  private readonly workers = new Map<number, State>();
  /** Over; taken out by whoever reads them. */
  private over: Spell[] = [];

  constructor(intervalMs: number) {
    this.breakMs = BREAK_INTERVALS * intervalMs;
  }

  take(s: FullSample): void {
    let state = this.workers.get(s.w);
    if (!state) this.workers.set(s.w, (state = { spell: null, samples: 0 }));
    const preemptions = s.preemptions ?? 0;
    const pressed = preemptions > 0 || (s.waiting ?? 0) > 0;
    if (state.spell && s.at - state.spell.to > this.breakMs) this.close(state);
    if (!pressed) return;
    state.spell ??= { w: s.w, from: s.at, to: s.at, preemptions: 0, waiting: 0 };
    state.spell.to = s.at;
    state.spell.preemptions += preemptions;
    state.spell.waiting = Math.max(state.spell.waiting, s.waiting ?? 0);
    state.samples++;
  }

  private close(state: State): void {
    if (state.spell && state.samples >= LEAST_SAMPLES) this.over.push(state.spell);
    state.spell = null;
    state.samples = 0;
  }

  /** What is new since the last time: spells that are over, and all that go on. */
  settle(): Spell[] {
    const found = this.over;
    this.over = [];
    for (const { spell, samples } of this.workers.values())
      if (spell && samples >= LEAST_SAMPLES) found.push({ ...spell });
    return found;
  }
}
