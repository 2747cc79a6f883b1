/** Which faults pass and how long they are waited for; in which words; and the pace that headers ask for. */
import { describe, expect, it } from 'vitest';
import { errorsIn, faultOf, problemText, WandbError, type Asked } from '../electron/engine/wandb/errors.ts';
import { backOff, inWords, Pace, retrying } from '../electron/engine/wandb/retry.ts';

const NOW = Date.UTC(2026, 10, 30, 9, 0, 0);
const answer = (status: number, text = '', headers: Record<string, string> = {}) => ({
  status,
  text,
  headers,
});
const fault = (status: number, text = '', asked: Asked = 'stream', headers: Record<string, string> = {}) =>
  faultOf(answer(status, text, headers), asked, NOW)!;

describe('an answer', () => {
  it.each([200, 201, 204, 299])('%i is well', (status) => {
    expect(faultOf(answer(status, 'no JSON'), 'stream', NOW)).toBeNull();
  });

  // the SDK's table (RetryMostFailures), and 407
  it.each([400, 401, 403, 404, 407, 409, 410, 413, 422, 501, 301, 302, 307, 308])('%i is final', (status) => {
    expect(fault(status).retry).toBe(false);
  });
  it.each([402, 405, 408, 425, 429, 499, 500, 502, 503, 504, 599, 0, 600])('%i may pass', (status) => {
    expect(fault(status).retry).toBe(true);
  });

  it.each([
    ['{"errors":[{"message":"project not found"}]}', 'not found', /^Check the names/],
    ['{"error":"model not found"}', 'not found', /^Check the names/],
    ['{"detail":"Not Found"}', 'Not Found', /^Nothing of W&B is under this address\./],
    ['<html><head><title>404 Not Found</title></head>', '404', /^Nothing of W&B is under this address\./],
    ['', 'without a word', /^Nothing of W&B is under this address\./],
  ])('of 404 is told as W&B’s or as somebody else’s: %s', (text, said, advice) => {
    for (const asked of ['graphql', 'upsert'] as const) {
      const { kind, message, advice: given } = fault(404, text, asked);
      expect([kind, message]).toEqual(['not-found', expect.stringContaining(said)]);
      expect(given).toMatch(advice);
    }
  });

  it.each([
    [401, 'graphql', 'key', false],
    [403, 'upsert', 'permission', false],
    [404, 'upsert', 'not-found', false],
    [409, 'upsert', 'deleted', true],
    [409, 'stream', 'refused', false],
    [404, 'stream', 'not-found', true],
    [410, 'stream', 'not-found', true],
    [429, 'stream', 'limited', false],
    [500, 'graphql', 'server', false],
    [400, 'stream', 'refused', false],
    [401, 'file', 'permission', false],
  ] as const)('%i to %s is %s (another run helps: %s)', (status, asked, kind, newRun) => {
    const { kind: found, newRun: offered, advice } = fault(status, '', asked);
    expect([found, offered]).toEqual([kind, newRun]);
    expect(advice).toMatch(/^[A-Z].*\.$/);
  });

  it.each([
    [
      '{"errors":[{"message":"permission denied","path":["upsertBucket"]}],"data":{"upsertBucket":null}}',
      'permission denied',
    ],
    ['{"errors":["Server down"]}', 'Server down'],
    ['{"errors":[{"message":"a"},{"message":"b"},{"message":"a"}]}', 'a; b'],
    ['{"error":"resource already exists"}', 'resource already exists'],
    ['{"error":{"message":"rate\\n limit exceeded"}}', 'rate limit exceeded'],
    ['<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>', 'Request has expired'],
    ['<html><head><title>502 Bad Gateway</title></head>', '502 Bad Gateway'],
    ['upstream connect error', 'upstream connect error'],
    ['', 'The server answered 503 without a word.'],
    ['<html>', 'The server answered 503 without a word.'],
  ])('%s says "%s"', (text, said) => {
    expect(fault(503, text).message).toBe(said);
  });

  it('of a redirect says where to, without what may be secret in it', () => {
    const { message } = fault(302, '', 'graphql', { location: 'https://u:p@sso.example/login?token=s3cret' });
    expect(message).toBe('The server redirects (302) to https://sso.example, which is not followed.');
  });

  it.each([
    ['12', 12_000],
    ['0.5', 500],
    [new Date(NOW + 90_000).toUTCString(), 90_000],
    [new Date(NOW - 90_000).toUTCString(), 0],
    ['soon', null],
  ])('with Retry-After %s asks for %s ms', (header, ms) => {
    expect(fault(429, '', 'stream', { 'retry-after': header }).retryAfterMs).toBe(ms);
  });
});

describe('a fault as a text', () => {
  it.each([
    ['permission denied', 'The server said: “permission denied”. Ask.'],
    ['There is no run x in e/p.', 'There is no run x in e/p. Ask.'],
    ['h refused the connection. Is the server up?', 'h refused the connection. Is the server up? Ask.'],
    ['x'.repeat(400), `The server said: “${'x'.repeat(119)}…”. Ask.`],
  ])('%s', (message, text) => {
    expect(problemText({ message, advice: 'Ask.' })).toBe(text);
  });
});

describe('errors in a 200', () => {
  it.each([
    ['{"errors":[{"message":"x","extensions":{"code":"PERMISSION_ERROR"}}]}', 'graphql', 'permission', 'x'],
    [
      '{"errors":[{"message":"entity nobody not found during upsertBucket"}]}',
      'upsert',
      'not-found',
      'entity nobody not found during upsertBucket',
    ],
    [
      '{"errors":[{"message":"run e/p/r was previously created and deleted; try a new run name"}]}',
      'upsert',
      'deleted',
      'run e/p/r was previously created and deleted; try a new run name',
    ],
    ['{"errors":[{"message":"user is not logged in"}]}', 'graphql', 'key', 'user is not logged in'],
    ['{"error":"something else"}', 'graphql', 'refused', 'something else'],
  ] as const)('%s', (text, asked, kind, said) => {
    const error = errorsIn(JSON.parse(text), asked)!;
    expect([error.kind, error.message, error.retry]).toEqual([kind, said, false]);
    expect(error.newRun).toBe(kind === 'deleted');
  });

  it.each(['{"data":{"viewer":null}}', '{}', 'null', '[]', '{"errors":[]}', '{"error":null}'])(
    '%s has none',
    (text) => {
      expect(errorsIn(JSON.parse(text), 'graphql')).toBeNull();
    },
  );
});

describe('waiting', () => {
  it('takes twice as long each time, up to a minute, with up to a quarter more', () => {
    const least = [2, 4, 8, 16, 32, 60, 60, 60].map((s) => s * 1000);
    expect([0, 1, 2, 3, 4, 5, 6, 5000].map((n) => backOff(n, 0))).toEqual(least);
    const most = [2.5, 5, 10, 20, 40, 60, 60, 60].map((s) => s * 1000);
    expect([0, 1, 2, 3, 4, 5, 6, 5000].map((n) => backOff(n, 1))).toEqual(most);
  });

  /** Fails with these, then goes well; tells the waits. */
  async function waits(faults: Error[], tries = 20) {
    let now = NOW;
    const slept: number[] = [];
    const said: (string | null)[] = [];
    const until: (number | null)[] = [];
    const attempt = () => {
      const next = faults.shift();
      return next ? Promise.reject(next) : Promise.resolve('taken');
    };
    const sleep = (ms: number, signal: AbortSignal) => {
      signal.throwIfAborted();
      slept.push(ms);
      now += ms;
      return Promise.resolve();
    };
    const outcome = await retrying(attempt, {
      tries,
      timing: { now: () => now, sleep, random: () => 0.5 },
      signal: new AbortController().signal,
      waiting: (why, at) => {
        said.push(why);
        until.push(at);
      },
    }).catch((error: Error) => error);
    return { outcome, slept, said, until };
  }

  it('is told in words with its end, and is over when it is', async () => {
    const { outcome, slept, said, until } = await waits([
      fault(429, '', 'stream', { 'retry-after': '12' }),
      fault(429, '{"error":"rate limit exceeded"}'),
      fault(500, '{"error":"Server down"}'),
      new WandbError('network', 'api.wandb.ai refused the connection.', { advice: '', retry: true }),
    ]);
    expect(outcome).toBe('taken');
    expect(slept).toEqual([12_000, 4500, 9000, 18_000]);
    expect(said.filter((why) => why !== null)).toEqual([
      'W&B asks to wait 12 s',
      'W&B limits the pace; again in 5 s',
      'W&B answered 500 "Server down"; again in 9 s',
      'api.wandb.ai refused the connection; again in 18 s',
    ]);
    expect(until.slice(0, 2)).toEqual([NOW + 12_000, null]);
    expect(said.at(-1)).toBeNull();
  });

  it('ends at the last try, and does not begin for what would come again', async () => {
    const many = Array.from({ length: 30 }, () => fault(503, 'busy'));
    const { outcome, slept } = await waits(many, 20);
    expect(outcome).toMatchObject({ kind: 'server', message: 'busy' });
    expect(slept).toHaveLength(19);
    expect((await waits([fault(403)])).slept).toEqual([]);
    expect((await waits([new TypeError('a bug')])).outcome).toBeInstanceOf(TypeError);
  });

  it('is at least half a second and at most an hour, whatever the server asks', async () => {
    const asks = (wait: string) => fault(503, '', 'stream', { 'retry-after': wait });
    expect((await waits([asks('0'), asks('999999')])).slept).toEqual([500, 3600_000]);
  });

  it.each([
    [1, '1 s'],
    [99_999, '100 s'],
    [100_000, '2 min'],
    [3600_000, '60 min'],
  ])('%i ms are %s', (ms, words) => {
    expect(inWords(ms)).toBe(words);
  });
});

describe('the pace', () => {
  const headers = (remaining: number, reset: number) => ({
    'ratelimit-remaining': String(remaining),
    'ratelimit-reset': String(reset),
  });

  it('is ours where no header asks for more', () => {
    const pace = new Pace(500);
    for (let i = 0; i < 20; i++) pace.observe({}, NOW + i * 500);
    expect(pace.intervalMs).toBe(500);
  });

  it('settles where what remains lasts until it is reset', () => {
    const pace = new Pace(500);
    // the server's quota: 1000 units in 60 s, of which each request takes 20, so 50 requests a minute at most
    let now = NOW;
    let remaining = 1000;
    let resetAt = NOW + 60_000;
    let refusals = 0;
    const sent: number[] = [];
    while (now < NOW + 600_000) {
      if (now >= resetAt) {
        remaining = 1000;
        resetAt += 60_000;
      }
      if (remaining < 20) refusals++;
      else remaining -= 20;
      sent.push(now);
      pace.observe(headers(remaining, Math.ceil((resetAt - now) / 1000)), now);
      now += pace.intervalMs;
    }
    const late = sent.filter((at) => at > NOW + 300_000);
    // never the 2 a second that would be refused, and not much slower than what is allowed
    expect(late.length / 5).toBeGreaterThan(25);
    expect(late.length / 5).toBeLessThan(62);
    expect(refusals / sent.length).toBeLessThan(0.05);
  });

  it('is made of five requests at least, once there is a first one', () => {
    const pace = new Pace(500);
    pace.observe(headers(1000, 600), NOW);
    const first = pace.intervalMs;
    for (let i = 1; i <= 4; i++) pace.observe(headers(1000 - i * 200, 600), NOW + i * 500);
    expect(pace.intervalMs).toBe(first);
    pace.observe(headers(0, 600), NOW + 2500);
    expect(pace.intervalMs).toBe(10_000);
  });

  it('is never slower than one in 10 s, and comes back', () => {
    const pace = new Pace(500);
    pace.observe(headers(0, 60), NOW);
    expect(pace.intervalMs).toBe(10_000);
    for (let i = 1; i < 10; i++) pace.observe(headers(1000, 60), NOW + i * 61_000);
    expect(pace.intervalMs).toBe(500);
  });

  it('hears nothing in headers that say nothing', () => {
    const pace = new Pace(500);
    for (const odd of [headers(NaN, 60), headers(-1, 60), headers(0, 0.5), { 'ratelimit-remaining': '0' }])
      pace.observe(odd, NOW);
    expect(pace.intervalMs).toBe(500);
  });
});
