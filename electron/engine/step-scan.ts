/**
 * Goes over the raw rows of one run file in the order of time, in slices, and finds what is told by their order: steps by
 * idleness and by sleep, spells of KV pressure. Runs in the reading thread. While a run is recorded it goes on where it
 * stopped at every tick.
 */
import type { OutcomeReason } from './api.ts';
import type { StepSettings } from './api-steps.ts';
import { FULL, PressureFinder, type Spell } from './pressure.ts';
import * as queries from './queries.ts';
import { WORKERS_MAX } from './schema.ts';
import { slotsThatMatter } from './step-slots.ts';
import { ABSENT_FOR_MS, givenUpAfter, WorkFinder, type FoundStep } from './steps.ts';
import type { RunFile } from './timelines.ts';

/** What a scan found of one source. */
export interface FoundSteps {
  /** Final ones from place `first` on. */
  first: number;
  final: FoundStep[];
  /** After them: those that may still change, the running one last. */
  pending: FoundStep[];
}

interface HitRates {
  /** Prefix hit rate in as long a time before it, and in it; null: no traffic, or a restart in between. */
  hitsBefore: number | null;
  hits: number | null;
}

interface Progress {
  /** Slots before this one were looked at. */
  slot: number;
  /** Of how many. */
  slots: number;
  /** Epoch ms of the last tick that was looked at; null: none. */
  at: number | null;
}

export interface StepsFound extends Progress {
  idle: FoundSteps;
  sleep: FoundSteps;
}

export interface PressureFound extends Progress {
  /** New ones, and those that went on. */
  spells: (Spell & HitRates)[];
}

export interface ScanQuery {
  settings: Record<'idle' | 'sleep', StepSettings>;
  /** How many final steps the asker has of each. */
  known: { idle: number; sleep: number };
  /** The run has ended: its last slot is complete, and what is open stays so. */
  ended: boolean;
}

/** Values of rows in one slice, and slots whose rows are only looked at. */
const VALUES_A_SLICE = 200_000;
const SLOTS_A_SLICE = 3600;

/** The slots to look at next: from `from` to `until` (not included) of `slots`. */
function nextSlots(run: RunFile, ended: boolean, from: number, most: number) {
  const end = run.all<{ t: number | null }>('SELECT max(t) AS t FROM tick')[0]?.t ?? -1;
  // answers of the newest slot may still come
  const slots = Math.max(0, ended ? end + 1 : end);
  return { slots, until: Math.min(slots, from + most) };
}

/** Finds steps, and goes on in one file with one set of settings. */
export class StepScan {
  private readonly key: string;
  private readonly slotsASlice: number;
  private readonly idle: WorkFinder;
  private readonly sleep: WorkFinder;
  private slot = 0;
  private at: number | null = null;
  /** The end of an ended run was reached: there is nothing after it. */
  private over = false;

  constructor(run: RunFile, settings: ScanQuery['settings'], slotsASlice = SLOTS_A_SLICE) {
    this.slotsASlice = slotsASlice;
    this.key = keyOf(settings);
    this.idle = new WorkFinder(settings.idle, run.intervalMs);
    this.sleep = new WorkFinder(settings.sleep, run.intervalMs);
  }

  fits(settings: ScanQuery['settings']): boolean {
    return this.key === keyOf(settings) && !this.over;
  }

  /** One slice. Ask again while `slot` < `slots`. */
  next(run: RunFile, { known, ended }: ScanQuery): StepsFound {
    const { slots, until } = nextSlots(run, ended, this.slot, this.slotsASlice);
    if (until > this.slot) this.read(run, this.slot, until);
    this.slot = Math.max(this.slot, until);
    const now = this.at ?? run.startedAt;
    this.over = ended && this.slot >= slots;
    const of = (source: 'idle' | 'sleep'): FoundSteps => {
      const finder = this[source];
      const pending = this.over ? finder.finish(now) : finder.settle(now);
      return { first: known[source], final: finder.found.slice(known[source]), pending };
    };
    return { slot: this.slot, slots, at: this.at, idle: of('idle'), sleep: of('sleep') };
  }

  private read(run: RunFile, first: number, until: number): void {
    const ticks = run.rows(queries.ticksOfSlots, { first, last: until - 1 });
    const workersOf = new Map<number, number[]>();
    for (const [w, endpoint] of run.rows('SELECT w, endpoint FROM worker', {}))
      workersOf.set(endpoint!, [...(workersOf.get(endpoint!) ?? []), w!]);
    // what is given up between two ticks is given up with the later one
    const given = this.givenUp(run, this.at ?? (ticks[0]?.[1] ?? 0) - 1, ticks.at(-1)?.[1] ?? 0);
    const ranges = slotsThatMatter(run, first, until);
    let rows: (number | null)[][] = [];
    let [i, g] = [0, 0];
    for (const [t, at] of ticks) {
      if (ranges[0] && ranges[0][0] <= t!) {
        const [from, to] = ranges.shift()!;
        rows = run.rows(queries.workOfSlots, { first: from, last: to });
        i = 0;
      }
      const slotEnd = (t! + 1) * WORKERS_MAX;
      for (; i < rows.length && rows[i]![0]! < slotEnd; i++) this.takeRow(rows[i]!);
      for (const workers of workersOf.values()) if (workers.length > 1) this.giveAbsent(workers);
      for (; g < given.length && given[g]!.at <= at!; g++) {
        const { endpoint, since } = given[g]!;
        for (const w of workersOf.get(endpoint) ?? [])
          // an answer since then ended that silence
          for (const finder of [this.idle, this.sleep])
            if ((finder.lastAnswer(w) ?? Infinity) <= since) finder.give(w, since);
      }
      this.at = at!;
    }
  }

  /** Workers that are not among those of their endpoint any more: scaled down, or dead behind an agent that answers. */
  private giveAbsent(workers: readonly number[]): void {
    for (const finder of [this.idle, this.sleep]) {
      const answers = workers.map((w) => finder.lastAnswer(w));
      const newest = Math.max(...answers.map((at) => at ?? -Infinity));
      answers.forEach((at, i) => {
        if (at !== null && newest - at >= ABSENT_FOR_MS) finder.give(workers[i]!, at);
      });
    }
  }

  /** Endpoints that are given up in a span of time, in its order: by their silence, or because they were taken away. */
  private givenUp(run: RunFile, from: number, to: number): { at: number; endpoint: number; since: number }[] {
    const found: { at: number; endpoint: number; since: number }[] = [];
    for (const o of run.all<{ endpoint: number; began: number; ended: number; reason: OutcomeReason }>(
      queries.outagesBetween,
      { from, to },
    )) {
      const at = o.began + givenUpAfter(o.reason);
      if (at <= o.ended && at > from && at <= to) found.push({ at, endpoint: o.endpoint, since: o.began });
    }
    for (const e of run.all<{ e: number; at: number }>(queries.endpointsTakenAway, { from, to }))
      found.push({ at: e.at, endpoint: e.e, since: e.at });
    return found.sort((a, b) => a.at - b.at);
  }

  private takeRow(row: readonly (number | null)[]): void {
    const [k, at, took, epoch, requests, work, level] = row;
    const seen = { w: k! % WORKERS_MAX, at: at!, asked: at! - took! / 2, epoch: epoch! };
    this.idle.take({ ...seen, busy: requests === null ? null : requests! > 0, work: work! });
    this.sleep.take({ ...seen, busy: level === null ? null : level === 0, work: null });
  }
}

/** Finds spells of KV pressure, and goes on in one file. */
export class PressureScan {
  private readonly finder: PressureFinder;
  private slot = 0;
  private at: number | null = null;

  constructor(run: RunFile) {
    this.finder = new PressureFinder(run.intervalMs);
  }

  /** One slice. Ask again while `slot` < `slots`. */
  next(run: RunFile, ended: boolean): PressureFound {
    const most = Math.max(1, Math.floor(VALUES_A_SLICE / 4 / Math.max(run.workers, 1)));
    const { slots, until } = nextSlots(run, ended, this.slot, most);
    if (until > this.slot) {
      const span = { first: this.slot, last: until - 1 };
      for (const [k, at, waiting, preemptions] of run.rows(queries.fullOfSlots, { ...span, full: FULL }))
        this.finder.take({ w: k! % WORKERS_MAX, at: at!, waiting: waiting!, preemptions: preemptions! });
      this.slot = until;
      this.at = run.rows(queries.ticksOfSlots, { first: until - 1, last: until - 1 })[0]?.[1] ?? this.at;
    }
    return {
      slot: this.slot,
      slots,
      at: this.at,
      spells: this.finder.settle().map((spell) => ({ ...spell, ...hitRates(run, spell) })),
    };
  }
}

const keyOf = (settings: ScanQuery['settings']) =>
  JSON.stringify([settings.idle, settings.sleep].map((s) => [s.minIdleSeconds, s.minStepSeconds]));

/** By the raw counters at its edges. */
function hitRates(run: RunFile, { w, from, to }: Spell): HitRates {
  const at = (time: number) =>
    run.all<{ epoch: number; hits: number | null; queries: number | null }>(queries.hitsAt, {
      w,
      at: time,
    })[0];
  const rate = (a: ReturnType<typeof at>, b: ReturnType<typeof at>) => {
    if (!a || !b || a.epoch !== b.epoch) return null;
    const [hits, asked] = [(b.hits ?? NaN) - (a.hits ?? NaN), (b.queries ?? NaN) - (a.queries ?? NaN)];
    return asked > 0 && hits >= 0 ? hits / asked : null;
  };
  const [begin, end] = [at(from), at(to)];
  return { hitsBefore: rate(at(2 * from - to), begin), hits: rate(begin, end) };
}
