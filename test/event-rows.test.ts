/** Events as rows: names, lengths, filters. */
import { describe, expect, test } from 'vitest';
import type { PressureSpell, Run, RunEvent, Worker } from '../electron/engine/api.ts';
import { bracketsOf } from '../renderer/draw-pressure.ts';
import { filtered, lasted, lastingOf, namesOf, rowsOf, withSpells } from '../renderer/event-rows.ts';
import { thin } from '../renderer/format.ts';
import { mergedEvents, restartsOf } from '../renderer/reading.ts';

const urls = ['http://gpu-01:8000/metrics', 'http://gpu-02:8000/metrics', 'https://gpu-03/metrics'];
const worker = (w: number, endpoint: string): Worker => ({
  w,
  name: `w${w}`,
  endpoint,
  engine: '0',
  version: null,
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

describe('KV pressure', () => {
  const spell = (w: number, from: number, to: number, more: Partial<PressureSpell> = {}): PressureSpell => ({
    w,
    from,
    to,
    preemptions: 14,
    waiting: 0,
    hitRateBefore: 0.821,
    hitRate: 0.41,
    ...more,
  });
  const spells = [
    spell(2, 1500, 6500),
    spell(0, 2500, 4500, { preemptions: 0, waiting: 3, hitRateBefore: null, hitRate: 1 }),
  ];
  const listed = withSpells([event('restart', 2000, { w: 1, endpoint: urls[0]! })], spells, run, (at) =>
    at < 2000 ? 17 : null,
  );

  test('stands between the events, with its step, hit rates and what it cost', () => {
    const rows = rowsOf(listed, run);
    expect(rows.map((r) => [r.event.at, r.who, r.what])).toEqual([
      [2500, 'w0', 'KV pressure'],
      [2000, 'w1', 'Restarted'],
      [1500, 'w2', 'KV pressure'],
    ]);
    expect(rows.map((r) => r.event.detail)).toEqual([
      `Between steps; hit rate no traffic before, 100${thin}% in it; up to 3 requests waited for room`,
      '',
      `In step 17; hit rate 82.1${thin}% before, 41.0${thin}% in it; 14 preemptions`,
    ]);
    expect(lastingOf(rows[2]!.event, 1, 6500)).toEqual({ seconds: 6, soFar: false });
  });

  test('is filtered as a kind, by worker and by endpoint', () => {
    const rows = rowsOf(listed, run);
    const at = (group: Parameters<typeof filtered>[1]['group'], who: string) =>
      filtered(rows, { group, who }, run).map((r) => r.event.at);
    expect(at('pressure', '')).toEqual([2500, 1500]);
    expect(at('pressure', 'w2')).toEqual([1500]);
    expect(at('all', urls[1]!)).toEqual([1500]);
  });

  test('spells of several workers at one time share a bracket', () => {
    expect(bracketsOf([spell(2, 0, 5), spell(0, 3, 9), spell(2, 8, 9), spell(1, 12, 13)], 2)).toEqual([
      { from: 0, to: 9, workers: [2, 0] },
      { from: 12, to: 13, workers: [1] },
    ]);
    expect(bracketsOf([spell(2, 0, 5), spell(1, 7, 8)], 2), 'too close to be told apart').toHaveLength(1);
    expect(bracketsOf([], 2)).toEqual([]);
  });
});
