/** A run in the list of runs. Pure. */
import type { RunSummary, Ticked } from '../electron/engine/api.ts';

/**
 * How far a run is: when its last tick was (null: there was none) and how many it has. The list is read now and then
 * only, so of a run that is being recorded its cluster's last tick says what came since.
 */
export function reached(run: RunSummary, tick: Ticked | undefined): { at: number | null; ticks: number } {
  const { endedAt, ticks } = run;
  if (run.state !== 'recording' || tick?.run !== run.id || tick.at <= (endedAt ?? -Infinity))
    return { at: endedAt, ticks };
  if (endedAt === null) return { at: tick.at, ticks: tick.t + 1 };
  return { at: tick.at, ticks: ticks + Math.round((tick.at - endedAt) / (run.intervalSeconds * 1000)) };
}
