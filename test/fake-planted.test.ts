/** The engine that the stand-in plants slow: drawn by a seed, last in every step, told once and only after a guess. */
import { expect, it, vi } from 'vitest';
import { start, time, begin } from './fake-time.ts';

vi.setConfig({ testTimeout: 30_000 }); // other work shares the machine

const planted = (plantSlow: number) =>
  start({
    workers: 8,
    seed: 11,
    plantSlow,
    stepSeconds: [5, 7],
    pauseSeconds: [2.6, 3.2],
    keepRequests: true,
  });

it('its last request of every step ends seconds after those of all others', async () => {
  const told = new Set<string>();
  for (const seed of [11, 202, 3003, 40_004, 500_005, 6_000_006]) {
    const cluster = await planted(seed);
    time.now = begin + 50_000;
    cluster.advance();
    const over = cluster.rollouts.steps.filter((step) => step.end !== null);
    expect(over.length).toBeGreaterThanOrEqual(3);
    const lasts = over.map(({ number }) => {
      const ends = cluster.engines.map((engine, w) => {
        const own = cluster.rollouts.requests.get(engine)!.filter((r) => r.step === number);
        return { w, at: Math.max(...own.map((r) => r.lastTokenAt)) };
      });
      const [last, before] = ends.sort((a, b) => b.at - a.at);
      expect(last!.at - before!.at, `step ${number} of seed ${seed}`).toBeGreaterThan(2.5);
      return `w${last!.w}`;
    });
    const name = cluster.tellPlanted('w0');
    expect(new Set(lasts)).toEqual(new Set([name]));
    told.add(name);
  }
  expect(told.size, 'another seed, another worker').toBeGreaterThan(2);
});

it('the same seed plants the same worker; it is told once, for a name', async () => {
  const [one, same] = [await planted(7), await planted(7)];
  expect(() => one.tellPlanted('')).toThrow(/name one worker/);
  expect(one.tellPlanted('w1')).toBe(same.tellPlanted('w2'));
  expect(() => one.tellPlanted('w1')).toThrow(/once/);
  expect(() => one.tellPlanted('w3')).toThrow();
});

it('a usual stand-in has none to tell', async () => {
  const cluster = await start({ workers: 8 });
  expect(() => cluster.tellPlanted('w0')).toThrow('no worker was planted slow');
});
