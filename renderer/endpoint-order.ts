/** The table of endpoints by one of its columns. Pure. */
import type { EndpointState } from '../electron/engine/api.ts';

export type Column = 'address' | 'outcome' | 'workers' | 'answer' | 'answered';
/** null: as the cluster lists them. */
export type Order = { column: Column; descending: boolean } | null;

/** What wants attention most stands first when sorted upwards. */
const severity: Record<EndpointState['state'] & string, number> = {
  refused: 0,
  unreachable: 1,
  timeout: 2,
  http: 3,
  'not-metrics': 4,
  'too-large': 5,
  cut: 6,
  'no-vllm': 7,
  late: 8,
  ok: 9,
};

const natural = new Intl.Collator('en', { numeric: true }).compare;

const keys: Record<Column, (e: EndpointState) => number | string | null> = {
  address: (e) => e.url,
  outcome: (e) => (e.stale ? -1 : e.state === null ? null : severity[e.state]),
  workers: (e) => e.workers,
  answer: (e) => e.tookSeconds,
  answered: (e) => e.answeredAt,
};

/** Upwards, downwards, as listed: what a click on a head of the table does. */
export function nextOrder(order: Order, column: Column): Order {
  if (order?.column !== column) return { column, descending: false };
  return order.descending ? null : { column, descending: true };
}

/** Those without a value stand last either way; equal ones keep their order. */
export function ordered(endpoints: readonly EndpointState[], order: Order): readonly EndpointState[] {
  if (order === null) return endpoints;
  const key = keys[order.column];
  const sign = order.descending ? -1 : 1;
  return [...endpoints].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === null || y === null) return (x === null ? 1 : 0) - (y === null ? 1 : 0);
    return sign * (typeof x === 'string' ? natural(x, String(y)) : x - Number(y));
  });
}
