/** Rows of the Test table, the table of endpoints in order, and asking a few at a time. */
import { describe, expect, test } from 'vitest';
import type { CheckReport, EndpointState } from '../electron/engine/api.ts';
import { answers, inTurn, numbersOf, readingOf, type CheckRow } from '../renderer/check-rows.ts';
import { nextOrder, ordered } from '../renderer/endpoint-order.ts';

const report: CheckReport = {
  address: 'http://gpu-01:8000/metrics',
  reachable: true,
  reason: null,
  error: null,
  dialect: 'text',
  generation: '0.30 or later',
  server: 'vLLM',
  restricts: false,
  workers: [{ engine: '0', model: 'tiny', replica: '', labels: {}, values: {} }],
  absent: [],
  badLines: 0,
  findings: [],
  roundTripSeconds: 0.016,
  bytes: 52_000,
};
const row = (change: Partial<CheckReport> | null, more: Partial<CheckRow> = {}): CheckRow => ({
  target: { address: 'gpu-01:8000', url: report.address, labels: {}, file: null, sentence: null },
  state: 'done',
  report: change === null ? null : { ...report, ...change },
  failure: null,
  ...more,
});

describe('a row says', () => {
  test('that it answers, with how many workers of which model', () => {
    expect(readingOf(row({}))).toEqual({
      tone: 'ok',
      outcome: 'answers',
      workers: 1,
      models: ['tiny'],
      names: '0.30 or later',
      know: [],
    });
    const two = [report.workers[0]!, { ...report.workers[0]!, engine: '1' }];
    expect(readingOf(row({ workers: two }))).toMatchObject({
      tone: 'ok',
      workers: 2,
      models: ['tiny'],
      know: ['One address, 2 engines.'],
    });
  });

  test('that one should look at it where the engine found something', () => {
    expect(readingOf(row({ findings: ['Several servers behind it.'] }))).toMatchObject({
      tone: 'warn',
      outcome: 'answers',
      know: ['Several servers behind it.'],
    });
  });

  test('why it does not answer, once', () => {
    const silent = {
      reachable: false,
      reason: 'refused' as const,
      error: 'It refused.',
      workers: [],
      server: null,
      findings: ['It refused.'],
    };
    expect(readingOf(row(silent))).toMatchObject({
      tone: 'bad',
      outcome: 'refused',
      know: ['It refused.'],
    });
    expect(answers(row(silent))).toBe(false);
  });

  test('what answers instead of vLLM', () => {
    expect(readingOf(row({ workers: [], server: 'SGLang' }))).toMatchObject({
      tone: 'warn',
      outcome: 'SGLang',
      workers: 0,
    });
    const http = { workers: [], server: null, reason: 'http' as const, error: '404 on /metrics.' };
    expect(readingOf(row(http))).toMatchObject({
      tone: 'bad',
      outcome: 'HTTP error',
      know: ['404 on /metrics.'],
    });
    expect(answers(row({ workers: [] }))).toBe(false);
  });

  test('what is no address, what failed, and what is not asked yet', () => {
    const none = { ...row(null).target, url: null, sentence: 'It is no address.' };
    expect(readingOf(row(null, { target: none }))).toMatchObject({
      tone: 'bad',
      outcome: 'no address',
      know: ['It is no address.'],
    });
    expect(readingOf(row(null, { failure: 'The engine is gone.' }))).toMatchObject({
      tone: 'bad',
      know: ['The engine is gone.'],
    });
    expect(readingOf(row(null, { state: 'asking' })).outcome).toBe('asking');
    expect(readingOf(row(null, { state: 'waiting' })).outcome).toBe('waiting');
    expect(readingOf(row(null, { state: 'left-out' })).outcome).toBe('not asked');
  });
});

test('the numbers that workers get', () => {
  expect([0, 1, 2, 8].map((count) => numbersOf(3, count))).toEqual(['', 'w3', 'w3, w4', 'w3 to w10']);
});

describe('in turn', () => {
  test('at most so many at a time, in their order, all of them', async () => {
    const begun: number[] = [];
    let running = 0;
    let most = 0;
    await inTurn(
      Array.from({ length: 50 }, (_, i) => i),
      8,
      async (i) => {
        begun.push(i);
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, (i * 7) % 5));
        running--;
      },
      new AbortController().signal,
    );
    expect(most).toBe(8);
    expect(begun).toEqual(Array.from({ length: 50 }, (_, i) => i));
  });

  test('none begins after it was taken back', async () => {
    const control = new AbortController();
    const begun: number[] = [];
    await inTurn(
      [0, 1, 2, 3, 4, 5],
      2,
      async (i) => {
        begun.push(i);
        await Promise.resolve();
        if (i === 1) control.abort();
      },
      control.signal,
    );
    expect(begun.length).toBeLessThan(6);
  });
});

describe('endpoints in order', () => {
  const state = (url: string, change: Partial<EndpointState> = {}): EndpointState => ({
    url,
    state: 'ok',
    sentence: null,
    tookSeconds: null,
    answeredAt: null,
    workers: 1,
    labels: {},
    file: null,
    stale: false,
    login: false,
    restricted: false,
    ...change,
  });
  const all = [
    state('http://gpu-10:8000/metrics', { tookSeconds: 0.2 }),
    state('http://gpu-9:8000/metrics', { state: 'refused' }),
    state('http://gpu-2:8000/metrics', { tookSeconds: 0.1 }),
    state('http://gpu-1:8000/metrics', { state: 'refused', stale: true }),
    state('http://gpu-3:8000/metrics', { state: null, tookSeconds: null }),
  ];
  const hosts = (list: readonly EndpointState[]) => list.map((e) => Number(/gpu-(\d+)/.exec(e.url)?.[1]));

  test('as listed where nobody asked for another', () => {
    expect(hosts(ordered(all, null))).toEqual([10, 9, 2, 1, 3]);
  });
  test('numbers in addresses count as numbers', () => {
    expect(hosts(ordered(all, { column: 'address', descending: false }))).toEqual([1, 2, 3, 9, 10]);
    expect(hosts(ordered(all, { column: 'address', descending: true }))).toEqual([10, 9, 3, 2, 1]);
  });
  test('what is absent stands last either way', () => {
    expect(hosts(ordered(all, { column: 'answer', descending: false }))).toEqual([2, 10, 9, 1, 3]);
    expect(hosts(ordered(all, { column: 'answer', descending: true }))).toEqual([10, 2, 9, 1, 3]);
  });
  test('what wants attention first', () => {
    expect(hosts(ordered(all, { column: 'outcome', descending: false }))).toEqual([1, 9, 10, 2, 3]);
  });
  test('a head is pressed: upwards, downwards, as listed', () => {
    const first = nextOrder(null, 'answer');
    const second = nextOrder(first, 'answer');
    expect([first, second, nextOrder(second, 'answer'), nextOrder(second, 'address')]).toEqual([
      { column: 'answer', descending: false },
      { column: 'answer', descending: true },
      null,
      { column: 'address', descending: false },
    ]);
  });
});
