/** The spells of KV pressure of the run on screen, for Timelines and Events. Asks the engine; RunView holds one. */
import type { PressureSpell, Remote, Run } from '../electron/engine/api.ts';
import { Asked } from './asked.svelte.ts';
import type { Bounds, Span } from './span.ts';

const restMs = 5000;

export class RunPressure {
  readonly #asked: Asked<Span, PressureSpell[]>;

  constructor(methods: Remote, run: string) {
    this.#asked = new Asked((span, signal) => methods.pressure({ run, ...span }, signal), restMs);
  }

  /** Sorted by begin; none until they are read. */
  get spells(): readonly PressureSpell[] {
    return this.#asked.found ?? [];
  }

  /** Reads them anew, soon. */
  load(run: Run, { first, last, intervalSeconds }: Bounds) {
    if (run.ticks > 0) this.#asked.want({ from: first, to: last + intervalSeconds * 1000 });
  }

  close() {
    this.#asked.close();
  }
}
