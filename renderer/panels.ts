/** Which panels are on and in which order: lists of metric ids and what switching and moving make of them. Pure. */
import type { MetricInfo, MetricKind } from '../electron/engine/api.ts';

export const groups: { kind: MetricKind; name: string }[] = [
  { kind: 'gauge', name: 'Levels' },
  { kind: 'counter', name: 'Rates' },
  { kind: 'ratio', name: 'Ratios' },
  { kind: 'histogram', name: 'Means over requests' },
];

/** For narrow tables; other titles are short enough. */
const short: Record<string, string> = {
  kv_cache_usage: 'KV cache',
  prefix_cache_hit_rate: 'Hit rate',
  ttft: 'TTFT',
  inter_token_latency: 'ITL',
  waiting_capacity: 'For room',
  waiting_deferred: 'Deferred',
  external_cache_hit_rate: 'External hits',
  tokens_per_step: 'Tokens a step',
  spec_acceptance_rate: 'Acceptance',
};
export const shortTitle = (m: MetricInfo) => short[m.id] ?? m.title;

/** The panels that a stored choice means, in its order; without one those in `usual`. */
export function chosenFrom<P extends { id: string }>(all: P[], chosen: unknown, usual: string[]): P[] {
  const ids = new Set<unknown>(Array.isArray(chosen) ? chosen : usual);
  return [...ids].flatMap((id) => all.find((p) => p.id === id) ?? []);
}

/** The same of the timelines. */
export const panelsFor = (catalogue: MetricInfo[], chosen: unknown): MetricInfo[] =>
  chosenFrom(
    catalogue,
    chosen,
    catalogue.filter((m) => m.shown).map((m) => m.id),
  );

/** One on or off. A new one comes after the last one that stands before it among all. */
export function switched(order: string[], id: string, all: { id: string }[]): string[] {
  if (order.includes(id)) return order.filter((other) => other !== id);
  const rank = (x: string) => all.findIndex((p) => p.id === x);
  const after = order.findLastIndex((other) => rank(other) < rank(id));
  return order.toSpliced(after + 1, 0, id);
}

/** One moved to another place in the list; places outside of it are its ends. */
export function moved(order: string[], id: string, to: number): string[] {
  if (!order.includes(id)) return order;
  const others = order.filter((other) => other !== id);
  return others.toSpliced(Math.min(Math.max(to, 0), others.length), 0, id);
}
