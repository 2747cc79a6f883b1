/** Events as rows: names, lengths, filters. */
import { describe, expect, test } from 'vitest';
import type { Run, RunEvent, Worker } from '../electron/engine/api.ts';
import { filtered, lasted, lastingOf, namesOf, rowsOf } from '../renderer/event-rows.ts';
import { thin } from '../renderer/format.ts';
import { mergedEvents, restartsOf } from '../renderer/reading.ts';

const urls = ['http://gpu-01:8000/metrics', 'http://gpu-02:8000/metrics', 'https://gpu-03/metrics'];
const worker = (w: number, endpoint: string): Worker => ({
  w,
  name: `w${w}`,
  endpoint,
  engine: '0',
  model: 'm',
  replica: '',
  labels: {},
  firstAt: 0,
  goneAt: null,
  several: false,
});
// two engines behind the first address, one behind the second; the third never answered
const run = {
  intervalSeconds: 1,
  workerList: [worker(0, urls[0]!), worker(1, urls[0]!), worker(2, urls[1]!)],
  endpointList: urls,
} as Run;
const event = (kind: RunEvent['kind'], at: number, more: Partial<RunEvent> = {}): RunEvent => ({
  at,
  until: null,
  kind,
  endpoint: null,
  w: null,
  reason: null,
  count: 1,
  detail: '',
  ...more,
});
const outage = (at: number, until: number, endpoint: string, count = 1) =>
  event('outage', at, { until, endpoint, count, reason: 'refused' });

describe('rows', () => {
  test('newest first, each with whom it is about', () => {
    const rows = rowsOf(
      [
        outage(1000, 1000, urls[0]!),
        event('restart', 2000, { w: 2, endpoint: urls[1]! }),
        outage(3000, 3000, urls[2]!),
        event('stretch', 4000),
      ],
      run,
    );
    expect(rows.map((r) => [r.who, r.workers, r.group, r.what])).toEqual([
      ['', [], 'recording', 'Went on'],
      ['gpu-03', [], 'silence', 'No answer'],
      ['w2', [2], 'restarts', 'Restarted'],
      ['w0 to w1', [0, 1], 'silence', 'No answer'],
    ]);
  });

  test('a range counts the slot of its last failure', () => {
    const long = (e: RunEvent) => lastingOf(e, 1, null);
    expect(long(outage(0, 0, urls[1]!))).toEqual({ seconds: 1, soFar: false });
    expect(long(outage(0, 5000, urls[1]!))).toEqual({ seconds: 6, soFar: false });
    expect(long(event('restart', 1))).toBeNull();
  });

  test('an outage up to two intervals before the last tick is going on', () => {
    const at = (lastTick: number | null) => lastingOf(outage(0, 8000, urls[1]!), 2, lastTick);
    expect(at(8000)).toEqual({ seconds: 10, soFar: true });
    expect(at(12_000)).toEqual({ seconds: 14, soFar: true });
    expect(at(12_001)).toEqual({ seconds: 10, soFar: false });
    expect(at(null), 'of a run that has ended').toEqual({ seconds: 10, soFar: false });
    expect(lastingOf(event('held-up', 0, { until: 8000 }), 2, 8000)?.soFar).toBe(false);
  });

  test('names', () => {
    const of = (...ws: number[]) => namesOf(ws.map((w) => ({ w, name: `w${w}` })));
    expect([of(), of(3), of(3, 4, 5), of(3, 5)]).toEqual(['', 'w3', 'w3 to w5', 'w3 and 1 more']);
    expect(namesOf([{ w: 0, name: 'a\u202eb' }]), 'text from outside is shown escaped').toBe('a\\u202eb');
  });

  test('lengths', () => {
    expect([0.4, 8, 59.6, 72].map(lasted)).toEqual([`0.4${thin}s`, `8${thin}s`, '1:00', '1:12']);
  });
});

test('filters: by kind, by worker with its endpoint, by endpoint', () => {
  const rows = rowsOf(
    [
      outage(1000, 1000, urls[0]!),
      event('restart', 2000, { w: 1, endpoint: urls[0]! }),
      event('restart', 3000, { w: 2, endpoint: urls[1]! }),
      event('held-up', 4000),
    ],
    run,
  );
  const at = (group: Parameters<typeof filtered>[1]['group'], who: string) =>
    filtered(rows, { group, who }, run).map((r) => r.event.at);
  expect(at('all', '')).toEqual([4000, 3000, 2000, 1000]);
  expect(at('restarts', '')).toEqual([3000, 2000]);
  expect(at('all', 'w0'), 'what its endpoint went through, not what another worker did').toEqual([1000]);
  expect(at('all', 'w1')).toEqual([2000, 1000]);
  expect(at('all', urls[0]!)).toEqual([2000, 1000]);
  expect(at('silence', 'w2')).toEqual([]);
});

test('a range read again is the same row with a later end; nothing new leaves the list as it is', () => {
  const known = [outage(1000, 2000, urls[0]!, 2), event('restart', 3000, { w: 0 })];
  expect(mergedEvents(known, [outage(1000, 2000, urls[0]!, 2)])).toBe(known);
  const longer = mergedEvents(known, [outage(1000, 5000, urls[0]!, 5), event('joined', 2500)]);
  expect(longer.map((e) => [e.kind, e.at, e.until])).toEqual([
    ['outage', 1000, 5000],
    ['joined', 2500, null],
    ['restart', 3000, null],
  ]);
});

test('what several servers behind one address looked like was no restart', () => {
  const events = [event('restart', 1, { w: 0 }), event('restart', 2, { w: 2 })];
  expect(restartsOf(events)).toHaveLength(2);
  expect(restartsOf([...events, event('several-servers', 3, { w: 0 })]).map((e) => e.w)).toEqual([2]);
});
