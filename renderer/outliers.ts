/** Past 16 workers: which of them stand out in each panel. Judged anew when the window changed, live not with every tick. */
import type { MetricInfo } from '../electron/engine/api.ts';
import { farthest } from './reading.ts';
import type { Scene } from './scene.ts';
import type { Span } from './span.ts';

/** While following, lines that came and went with every tick could not be followed. */
const followingMs = 5000;
const perPanel = 3;

export class Outliers {
  #found = new Map<string, number[]>();
  #at = 0;
  #window: Span | null = null;

  /** By metric: workers, the farthest from the median first. */
  in(s: Scene, metrics: MetricInfo[], following: boolean): ReadonlyMap<string, number[]> {
    const now = performance.now();
    const resting = following && this.#window !== null && now - this.#at < followingMs;
    const known = metrics.every((m) => this.#found.has(m.id));
    if (known && (this.#window === s.window || resting)) return this.#found;
    this.#at = now;
    this.#window = s.window;
    this.#found.clear();
    for (const m of metrics) {
      const column = s.kept.columns.get(m.id);
      this.#found.set(m.id, column ? farthest(s.kept, column, s.begin, s.end, perPanel) : []);
    }
    return this.#found;
  }
}
