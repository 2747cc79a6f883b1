/** The steps in a window as spans of pixels: what ribbon and bands are drawn from. Pure. */
import type { RunEvent, Step } from '../electron/engine/api.ts';
import type { Span } from './span.ts';
import { spanOf } from './steps.svelte.ts';

export interface StepSpan {
  step: Step;
  /** Where it ends, or has got to. */
  until: number;
  /** Left and right edge, cut to the plots. */
  a: number;
  b: number;
  /** Its begin, its end lie in view. */
  begins: boolean;
  ends: boolean;
  /** In it. */
  restarts: RunEvent[];
}

/**
 * Oldest first. Of steps that share a pixel only the first is there: nothing more could be seen of thousands. `restarts`
 * are sorted by time; `now` is how far a step that runs has got.
 */
export function spansIn(
  steps: readonly Step[],
  restarts: readonly RunEvent[],
  now: number,
  window: Span,
  x0: number,
  x1: number,
): StepSpan[] {
  const scale = (x1 - x0) / (window.to - window.from);
  const xOf = (at: number) => x0 + (at - window.from) * scale;
  const spans: StepSpan[] = [];
  let taken = -1;
  let next = 0;
  for (let i = firstIn(steps, window.from); i < steps.length; i++) {
    const step = steps[i];
    if (!step || step.from > window.to) break;
    const { from, to } = spanOf(step, now);
    const [a, b] = [Math.max(x0, xOf(from)), Math.min(x1, xOf(to))];
    const pixel = Math.floor(b);
    if (pixel === taken) continue;
    taken = pixel;
    while (next < restarts.length && (restarts[next]?.at ?? 0) < from) next++;
    let last = next;
    while (last < restarts.length && (restarts[last]?.at ?? 0) <= to) last++;
    spans.push({
      step,
      until: to,
      a,
      b,
      begins: from >= window.from,
      ends: step.to !== null && to <= window.to,
      restarts: restarts.slice(next, last),
    });
  }
  return spans;
}

/** The first step that is not over before a time: they never overlap, so their ends rise as their begins do. */
export function firstIn(steps: readonly Step[], at: number): number {
  let low = 0;
  let high = steps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle]?.to ?? Infinity) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The span at a pixel; of narrow ones the nearest within `reach`. */
export function spanAt(spans: readonly StepSpan[], x: number, reach = 3): StepSpan | null {
  let best: StepSpan | null = null;
  let least = reach;
  for (const s of spans) {
    const away = Math.max(s.a - x, x - s.b, 0);
    if (away === 0) return s;
    if (away < least) [best, least] = [s, away];
  }
  return best;
}
