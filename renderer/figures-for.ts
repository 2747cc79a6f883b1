/** Asks the engine for the aggregates of a window and keeps them by metric. */
import type { Remote, StatisticsQuery } from '../electron/engine/api.ts';
import type { Figures } from './figures.svelte.ts';

export async function figuresFor(
  methods: Remote,
  query: StatisticsQuery,
  signal: AbortSignal,
): Promise<Figures> {
  const found = await methods.statistics(query, signal);
  return { from: query.from, to: query.to, of: new Map(found.map((s) => [s.metric, s])) };
}
