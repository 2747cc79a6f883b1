/**
 * The real Poller against real endpoints. What is looked at is which slot holds what and in which order, never how long
 * something took; clocks that jump are made up, the time between timers is real.
 */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { Clock } from '../electron/engine/clock.ts';
import { Poller, type Batch, type PollTarget } from '../electron/engine/poll.ts';
import { startFakeCluster, type FakeCluster } from './fake-vllm.ts';

/** Long enough for a scrape on a machine that does five other things. */
const INTERVAL = 150;
const HOUR = 3_600_000;
const METRICS = 'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n';

type OnEnd = (end: () => void | Promise<void>) => void;

async function fakes(onEnd: OnEnd, workers: number): Promise<FakeCluster> {
  const cluster = await startFakeCluster({ workers });
  onEnd(() => cluster.close());
  return cluster;
}

/** A batch, and when it came. */
type Handed = Batch & { handedOnAt: number };

const pasted = (url: string): PollTarget => ({ url, labels: {}, file: null, login: null });

function polling(
  onEnd: OnEnd,
  urls: readonly string[],
  options: { intervalMs?: number; timeoutMs?: number; clock?: Clock; firstT?: number; origin?: number } = {},
) {
  const { intervalMs = INTERVAL, timeoutMs = 10_000, clock = new Clock(), firstT = 0 } = options;
  const origin = options.origin ?? clock.now();
  const batches: Handed[] = [];
  const poller = new Poller({
    known: [],
    access: { timeoutMs, headers: {}, ca: null },
    intervalMs,
    clock,
    origin,
    firstT,
    onBatch: (batch) => batches.push({ ...batch, handedOnAt: clock.now() }),
  });
  poller.setTargets(urls.map(pasted));
  onEnd(() => poller.stop());
  poller.start();
  return { poller, batches, origin, clock, intervalMs };
}

/** Waits until `done`, for as long as a very slow machine may need. */
const until = (done: () => boolean) =>
  vi.waitFor(() => expect(done()).toBe(true), { timeout: 25_000, interval: 10 });

const slots = (batches: Batch[]) => [...new Set(batches.map((b) => b.t))];
const slotsOf = (batches: Batch[], endpoint: number) =>
  batches.flatMap((b) => b.answers.filter((a) => a.endpoint === endpoint).map(() => b.t));
const missesOf = (batches: Handed[], endpoint: number) =>
  batches.flatMap(({ t, at, handedOnAt, misses }) =>
    misses.filter((m) => m.endpoint === endpoint).map((m) => ({ ...m, t, at, handedOnAt })),
  );
const risesStrictly = (numbers: number[]) => numbers.every((n, i) => i === 0 || n > numbers[i - 1]!);

/** What holds of every slot whatever happens: it rises, and it is the one that its time belongs to. */
function expectOnGrid(batches: Batch[], origin: number, intervalMs: number) {
  const ticks = batches.filter((b, i) => i === 0 || b.t !== batches[i - 1]!.t);
  expect(risesStrictly(ticks.map((b) => b.t))).toBe(true);
  expect(risesStrictly(ticks.map((b) => b.at))).toBe(true);
  const off = ticks.filter(({ t, at }) => Math.abs(at - (origin + t * intervalMs)) > intervalMs);
  expect(off.map(({ t, at }) => [t, at - origin])).toEqual([]);
}

/** It has every slot, but for those in which the whole machine stood still: then it is late, and says so. */
function expectSteady(batches: Handed[], endpoint: number) {
  const own = slotsOf(batches, endpoint);
  const all = slots(batches).filter((t) => t <= (own.at(-1) ?? Infinity));
  const late = missesOf(batches, endpoint).flatMap((m) => (m.reason === 'late' ? [m.t] : []));
  expect(all.filter((t) => !own.includes(t) && !late.includes(t))).toEqual([]);
  expect(own.length).toBeGreaterThan(all.length / 2);
}

describe.concurrent('an endpoint that hangs', () => {
  it.concurrent(
    'disturbs nobody: the others have every slot, and it misses each with a reason',
    async ({ onTestFinished }) => {
      const { endpoints } = await fakes(onTestFinished, 4);
      endpoints[1]!.faults = { hang: true };
      const { batches, origin, poller } = polling(
        onTestFinished,
        endpoints.map((e) => e.url),
        { timeoutMs: 600 },
      );
      await until(() => slots(batches).length >= 11);
      poller.stop();
      const all = slots(batches).slice(0, -1); // the last was interrupted
      expectOnGrid(batches, origin, INTERVAL);
      for (const e of [0, 2, 3]) expectSteady(batches, e);
      expect(slotsOf(batches, 1)).toEqual([]);
      // nor do they wait for it: what they said is handed on while their slot lasts
      const begins = new Map(batches.map((b) => [b.t, b.at]));
      const late = new Set(missesOf(batches, 1).flatMap((m) => (m.reason === 'late' ? [m.t] : [])));
      const inTime = batches.filter((b) => late.has(b.t) && b.handedOnAt < (begins.get(b.t + 1) ?? 0));
      expect(inTime.length).toBeGreaterThan(0);
      const misses = missesOf(batches, 1);
      expect([...new Set(misses.map((m) => m.reason))].sort()).toEqual(['late', 'timeout']);
      expect(misses.filter((m) => all.includes(m.t)).map((m) => m.t)).toEqual(all);
      expect(misses.find((m) => m.reason === 'late')!.sentence).toBe(
        `127.0.0.1:${endpoints[1]!.port} has not answered yet.`,
      );
    },
  );

  it.concurrent(
    'is asked again after each time-out, without back-off: it answers late just when it matters',
    async ({ onTestFinished }) => {
      const { endpoints } = await fakes(onTestFinished, 1);
      endpoints[0]!.faults = { hang: true };
      const { batches } = polling(onTestFinished, [endpoints[0]!.url], { timeoutMs: 50 });
      await until(() => missesOf(batches, 0).filter((m) => m.reason === 'timeout').length >= 9);
      // a slot that was left out without a scrape under way would say so
      const notAsked = missesOf(batches, 0).filter((m) => !m.asked && m.reason !== 'late');
      expect(notAsked).toEqual([]);
      expect(endpoints[0]!.seen.requests).toBeGreaterThanOrEqual(5);
      endpoints[0]!.faults = {};
      await until(() => slotsOf(batches, 0).length > 0);
    },
  );
});

it.concurrent(
  'never scrapes one endpoint twice at once, however late it answers',
  async ({ onTestFinished }) => {
    let now = 0;
    let most = 0;
    let requests = 0;
    const server = http.createServer(({ url }, response) => {
      if (url !== '/metrics') return void response.writeHead(404).end();
      requests++;
      most = Math.max(most, ++now);
      void sleep(35 * (requests % 9)).then(() => (now--, response.end(METRICS)));
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { batches, poller } = polling(onTestFinished, [`http://127.0.0.1:${port}/metrics`], {
      intervalMs: 50,
    });
    await until(() => slotsOf(batches, 0).length >= 12);
    poller.stop();
    expect(most).toBe(1);
    // and no slot has two answers of it
    expect(risesStrictly(slotsOf(batches, 0))).toBe(true);
  },
);

it.concurrent(
  'a late answer goes into the slot in which it arrives, with its own time',
  async ({ onTestFinished }) => {
    const { endpoints } = await fakes(onTestFinished, 2);
    endpoints[0]!.faults = { lateMs: 500 };
    const { batches, origin } = polling(
      onTestFinished,
      endpoints.map((e) => e.url),
    );
    await until(() => slotsOf(batches, 0).length >= 4);
    expectOnGrid(batches, origin, INTERVAL);
    const begins = new Map(batches.map((b) => [b.t, b.at]));
    const late = batches.flatMap((b) =>
      b.answers.filter((a) => a.endpoint === 0).map((a) => ({ ...a, ...b })),
    );
    for (const { t, at, sentAt, receivedAt } of late) {
      const next = [...begins].find(([other]) => other > t)?.[1] ?? Infinity;
      expect(receivedAt).toBeGreaterThanOrEqual(at);
      expect(receivedAt).toBeLessThanOrEqual(next);
      // it was asked for slots ago
      expect(receivedAt - sentAt).toBeGreaterThanOrEqual(500);
      expect(sentAt).toBeLessThan(at);
    }
    // a slot in which it arrived is none that it missed
    const arrived = new Set(slotsOf(batches, 0));
    expect(missesOf(batches, 0).filter((m) => arrived.has(m.t))).toEqual([]);
    expect(missesOf(batches, 0).every((m) => m.reason === 'late' && !m.asked)).toBe(true);
    // the one beside it has every slot meanwhile
    expectSteady(batches, 1);
  },
);

describe.concurrent('an endpoint that refuses', () => {
  it.concurrent(
    'is asked ever less often, but is back within 10 seconds of the clock',
    async ({ onTestFinished }) => {
      const { endpoints } = await fakes(onTestFinished, 1);
      await endpoints[0]!.down();
      // a clock twenty times as fast, so that 10 s of it pass in half a second
      const real = performance.now();
      const fast = () => Math.round(1_796_000_400_000 + (performance.now() - real) * 20);
      const clock = new Clock(() => {}, fast, fast);
      const { batches } = polling(onTestFinished, [endpoints[0]!.url], { intervalMs: 10, clock });
      const asked = () => missesOf(batches, 0).filter((m) => m.asked);
      await until(() => asked().length >= 16);
      const waited = missesOf(batches, 0).filter((m) => !m.asked && m.reason !== 'late');
      // slots in which it is not asked say why all the same
      expect(new Set(waited.map((m) => m.reason))).toEqual(new Set(['refused']));
      expect(waited.every((m) => m.sentence.includes('refused the connection'))).toBe(true);
      // patient with the first few, then ever longer pauses
      expect(waited[0]!.t).toBeGreaterThan(asked()[3]!.t);
      const pauses = asked().map((m, i, all) => (all[i + 1]?.at ?? Infinity) - m.at);
      expect(Math.min(...pauses.slice(-4))).toBeGreaterThan(9_000);
      // but by the first slot that begins 10 s after it was refused, it is asked
      for (const [i, { handedOnAt }] of asked().slice(0, -1).entries()) {
        const latest = batches.find((b) => b.at >= handedOnAt + 10_000);
        expect(asked()[i + 1]!.at).toBeLessThanOrEqual(latest?.at ?? Infinity);
      }

      await endpoints[0]!.up();
      await until(() => slotsOf(batches, 0).length >= 20);
      // an answer ends the back-off: no slot is left out any more
      const answered = slotsOf(batches, 0)[0]!;
      expect(missesOf(batches, 0).filter((m) => m.t > answered && m.reason !== 'late')).toEqual([]);
    },
  );

  it.concurrent('does not slow the others down', async ({ onTestFinished }) => {
    const { endpoints } = await fakes(onTestFinished, 2);
    await endpoints[0]!.down();
    const { batches, poller } = polling(
      onTestFinished,
      endpoints.map((e) => e.url),
    );
    await until(() => slots(batches).length >= 12);
    poller.stop();
    expectSteady(batches, 1);
  });
});

describe.concurrent('gaps and no bursts', () => {
  it.concurrent('the clock jumped forward by an hour', async ({ onTestFinished }) => {
    const { endpoints } = await fakes(onTestFinished, 1);
    let ahead = 0;
    const clock = new Clock(
      () => {},
      () => Date.now() + ahead,
    );
    const { batches, origin } = polling(onTestFinished, [endpoints[0]!.url], { clock });
    await until(() => slotsOf(batches, 0).length >= 3);
    ahead = HOUR;
    await until(() => slotsOf(batches, 0).filter((t) => t > HOUR / INTERVAL).length >= 5);
    expectOnGrid(batches, origin, INTERVAL);
    expect(slots(batches).filter((t) => t > 500 && t < HOUR / INTERVAL)).toEqual([]);
  });

  it.concurrent('the clock was set back by an hour: slots and times go on', async ({ onTestFinished }) => {
    const { endpoints } = await fakes(onTestFinished, 1);
    let ahead = 0;
    const clock = new Clock(
      () => {},
      () => Date.now() + ahead,
    );
    const { batches, origin } = polling(onTestFinished, [endpoints[0]!.url], { clock });
    await until(() => slotsOf(batches, 0).length >= 3);
    ahead = -HOUR;
    const seen = batches.length;
    await until(() => batches.length >= seen + 8);
    expectOnGrid(batches, origin, INTERVAL);
  });
});

describe.concurrent('another run begins', () => {
  it.concurrent('its slots are counted anew from its own start', async ({ onTestFinished }) => {
    const { endpoints } = await fakes(onTestFinished, 2);
    const urls = endpoints.map((e) => e.url);
    const clock = new Clock();
    // the old run is at slot 1000
    const { poller, batches } = polling(onTestFinished, urls, {
      clock,
      origin: clock.now() - 1000 * INTERVAL,
    });
    await until(() => slots(batches).length >= 3);
    const cut = batches.length;
    const origin = clock.now();
    poller.regrid(origin, 0);
    const first = batches.length; // what was there of the old one is handed on under its own slot
    expect(batches.slice(cut, first).every((b) => b.t >= 1000)).toBe(true);
    await until(() => slots(batches.slice(first)).length >= 4);
    const after = batches.slice(first);
    expect(after[0]!.t).toBeLessThan(100); // 0, but for a machine that stands still
    expectOnGrid(after, origin, INTERVAL);
  });

  it.concurrent(
    'while answers are on their way: they are in it, and the first slot has them all in one batch',
    async ({ onTestFinished }) => {
      const { endpoints } = await fakes(onTestFinished, 3);
      // the later in the list, the sooner its answer
      for (const [e, endpoint] of endpoints.entries()) endpoint.faults = { lateMs: 300 - 100 * e };
      const { poller, batches, clock } = polling(
        onTestFinished,
        endpoints.map((e) => e.url),
        { intervalMs: 1000 },
      );
      await until(() => endpoints.every((e) => e.seen.requests === 1));
      poller.regrid(clock.now(), 0);
      // of the old run: that they were late, and no answer
      expect(batches.splice(0).flatMap((b) => b.answers)).toEqual([]);
      await until(() => slotsOf(batches, 0).length >= 1);
      // numbers of workers go by the list of endpoints, so what makes the first tick must come together
      expect(batches[0]!.t).toBe(0);
      expect(batches[0]!.answers.map((a) => a.endpoint).sort()).toEqual([0, 1, 2]);
      expect(batches[0]!.misses).toEqual([]);
    },
  );

  it.concurrent('goes on with a slot that is given, never before it', async ({ onTestFinished }) => {
    const { endpoints } = await fakes(onTestFinished, 1);
    const clock = new Clock();
    const { batches, origin } = polling(onTestFinished, [endpoints[0]!.url], {
      clock,
      origin: clock.now() - 50 * INTERVAL,
      firstT: 20,
    });
    await until(() => slots(batches).length >= 3);
    // 30 slots passed while nobody was there
    expect(batches[0]!.t).toBeGreaterThanOrEqual(50);
    expectOnGrid(batches, origin, INTERVAL);
  });

  it.concurrent(
    'after a clock that was set back between two engines: from the next slot on',
    async ({ onTestFinished }) => {
      const { endpoints } = await fakes(onTestFinished, 1);
      const clock = new Clock();
      const { batches } = polling(onTestFinished, [endpoints[0]!.url], {
        clock,
        origin: clock.now() - 100,
        firstT: 5000,
      });
      await until(() => slots(batches).length >= 3);
      expect(slots(batches).slice(0, 3)).toEqual([5000, 5001, 5002]);
    },
  );
});

it.concurrent(
  'ends at once: nothing comes after stop, and what was under way is given up',
  async ({ onTestFinished }) => {
    const { endpoints } = await fakes(onTestFinished, 2);
    endpoints[0]!.faults = { hang: true };
    const { poller, batches } = polling(
      onTestFinished,
      endpoints.map((e) => e.url),
    );
    await until(() => slots(batches).length >= 3);
    poller.stop();
    const count = batches.length;
    const asked = endpoints.map((e) => e.seen.requests);
    await sleep(5 * INTERVAL);
    expect(batches).toHaveLength(count);
    expect(endpoints.map((e) => e.seen.requests)).toEqual(asked);
  },
);

it.concurrent('says how each endpoint stands', async ({ onTestFinished }) => {
  const { endpoints } = await fakes(onTestFinished, 3);
  endpoints[1]!.faults = { status: 500 };
  endpoints[2]!.faults = { statsOff: true };
  const { poller, batches } = polling(
    onTestFinished,
    endpoints.map((e) => e.url),
  );
  expect(poller.endpoints.map((e) => e.state.state)).toEqual([null, null, null]);
  await until(() => slots(batches).length >= 2);
  const [well, broken, off] = poller.endpoints.map((e) => e.state);
  expect(well).toMatchObject({ url: endpoints[0]!.url, state: 'ok', sentence: null, workers: 1 });
  expect(well!.tookSeconds).toBeGreaterThanOrEqual(0);
  expect(well!.answeredAt).toBeGreaterThan(0);
  expect(broken).toMatchObject({ state: 'http', tookSeconds: null, answeredAt: null });
  expect(broken!.sentence).toContain('said 500');
  expect(off).toMatchObject({ state: 'no-vllm' });
  expect(off!.sentence).toContain('Statistics are off');
  endpoints[1]!.faults = {};
  await until(() => broken!.state === 'ok' && broken!.sentence === null);
});

// by itself: it stops the others in this process too
it('the process stood still: a gap and no burst', async ({ onTestFinished }) => {
  const { endpoints } = await fakes(onTestFinished, 1);
  const { batches, origin } = polling(onTestFinished, [endpoints[0]!.url]);
  await until(() => slotsOf(batches, 0).length >= 3);
  const before = batches.at(-1)!.t;
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 15 * INTERVAL);
  await until(() => slotsOf(batches, 0).filter((t) => t > before + 10).length >= 5);
  const missing = slots(batches).find((t) => t > before + 1)!;
  expect(missing - before).toBeGreaterThanOrEqual(10);
  expectOnGrid(batches, origin, INTERVAL); // a burst would give slots whose time has long passed
});
