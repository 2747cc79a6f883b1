/**
 * Keeps the steps of a run file up to date: after each tick while it is recorded, or once over an old one. The reading
 * thread looks, this writes.
 */
import type { StepSettings, StepSource } from './api-steps.ts';
import { EngineError } from './errors.ts';
import type { ReaderCalls } from './reader.ts';
import type { FoundSteps, StepsFound } from './step-scan.ts';
import { defaultSettings, fixedSteps, type FoundStep } from './steps.ts';
import type { RunStore } from './store.ts';

/** The task under which a run's own scan goes on. */
const OWN = 'own';

export type Settings = Record<StepSource, StepSettings>;

/** What each source is found by: what was chosen for this run, otherwise the defaults. */
export async function settingsOf(reader: ReaderCalls, file: string, intervalMs: number): Promise<Settings> {
  const sets = await reader.stepSets(file);
  const of = (source: StepSource) =>
    sets.find((s) => s.source === source)?.settings ?? defaultSettings(intervalMs);
  return { mark: of('mark'), wandb: of('wandb'), idle: of('idle'), sleep: of('sleep'), fixed: of('fixed') };
}

export class StepKeeper {
  private readonly store: RunStore;
  private readonly reader: ReaderCalls;
  private readonly stepped: () => void;
  private readonly onFault: (error: unknown) => void;
  private work: Promise<void> | null = null;
  private again = false;
  /** Final steps that the file has of what this scan found. */
  private known = { idle: 0, sleep: 0 };
  private settings: Settings | null = null;
  /** The file says that this scan looks for steps. */
  private wrote = false;

  constructor(store: RunStore, reader: ReaderCalls, stepped: () => void, onFault: (error: unknown) => void) {
    this.store = store;
    this.reader = reader;
    this.stepped = stepped;
    this.onFault = onFault;
  }

  /** Goes on behind. */
  ticked(): void {
    if (this.work) {
      this.again = true;
      return;
    }
    this.work = this.catchUp(false)
      .catch((error: unknown) => {
        // a reading thread that died is started again at the next call
        if (!(error instanceof EngineError && error.kind === 'engine-gone')) this.onFault(error);
      })
      .finally(() => {
        this.work = null;
        if (this.again) {
          this.again = false;
          this.ticked();
        }
      });
  }

  /** Settings were changed: all is found anew with the next tick. */
  restart(): void {
    this.settings = null;
    this.wrote = false;
    this.known = { idle: 0, sleep: 0 };
  }

  /** To the end of a run that is over. */
  async finish(progress: (done: number, total: number) => void = () => undefined): Promise<void> {
    this.again = false;
    await this.work;
    await this.catchUp(true, progress);
  }

  private async catchUp(ended: boolean, progress?: (done: number, total: number) => void): Promise<void> {
    const { file, meta } = this.store;
    this.settings ??= await settingsOf(this.reader, file, meta.intervalMs);
    const { settings } = this;
    for (let more = true; more;) {
      const result = await this.reader.scanSteps(file, OWN, { settings, known: this.known, ended });
      // restarted meanwhile: what was found is of other settings
      if (this.settings !== settings || this.store.closed) return;
      this.write(result, settings, ended);
      // spells come after the steps, which are asked for first; both count in what is said
      progress?.(result.slot, 2 * result.slots);
      more = result.slot < result.slots;
    }
    for (let more = true; more;) {
      const { slot, slots, at, spells } = await this.reader.scanPressure(file, ended);
      if (this.store.closed) return;
      if (spells.length > 0 || (ended && slot >= slots))
        this.store.steps.writeSpells(spells, at ?? meta.startedAt);
      progress?.(slots + slot, 2 * slots);
      more = slot < slots;
    }
  }

  /** Writes only what is new; up to where was looked at the first time and at the end. */
  private write(result: StepsFound, settings: Settings, ended: boolean): void {
    const { store } = this;
    const until = result.at ?? store.meta.startedAt;
    // all that is there was looked at: steps that are in the file and were not found are no more
    const all = result.slot >= result.slots;
    const found = (['idle', 'sleep'] as const).map((source) => {
      const { first, final, pending }: FoundSteps = result[source];
      this.known[source] = first + final.length;
      // what may become longer would stand in the place of what is longer already
      return { source, settings: settings[source], first, steps: all ? [...final, ...pending] : final };
    });
    const fixed = { source: 'fixed' as const, settings: settings.fixed, ...this.fixedUntil(until, settings) };
    const changed = store.steps.writeFound(all ? [...found, fixed] : found, until, {
      ...{ all, look: (all && ended) || !this.wrote },
    });
    this.wrote = true;
    if (changed) this.stepped();
  }

  /** Of fixed steps only the last one can be another. */
  private fixedUntil(until: number, settings: Settings): { first: number; steps: FoundStep[] } {
    const { store } = this;
    const first = Math.max(0, store.steps.count('fixed') - 1);
    const begin = store.firstTickAt();
    return {
      first,
      steps: begin === null ? [] : fixedSteps(begin, until, settings.fixed.everySeconds, first),
    };
  }
}
