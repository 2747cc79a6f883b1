/** The stand-in's KV cache: what counts as free, what is found again, and what goes first when room is needed. */
import { expect, it } from 'vitest';
import { KvCache, type Prompt } from './fake-cache.ts';

const system = () => ({ blocks: 4, resident: 0, users: 0 });
const prompt = (start: Prompt['system'], blocks: number): Prompt => ({
  tokens: 16 * (4 + blocks) + 1,
  system: start,
  own: { blocks, resident: 0, users: 0 },
});

it('shares the blocks of a prompt and counts them once', () => {
  const cache = new KvCache(101);
  const start = system();
  const [a, b] = [prompt(start, 6), prompt(start, 10)];
  expect(cache.usable).toBe(100);
  expect(cache.admit(a, 2)).toBe(0);
  expect(cache.free).toBe(88);
  expect(cache.admit(a, 3)).toBe(10);
  expect(cache.free).toBe(85);
  expect(cache.admit(b, 1)).toBe(4);
  expect(cache.free).toBe(74);
  expect(cache.usage).toBeCloseTo(0.26);
  for (const [p, own] of [
    [a, 2],
    [a, 3],
    [b, 1],
  ] as const)
    cache.release(p, own);
  expect(cache.usage).toBe(0);
});

it('finds released prompts again until their blocks are needed, the oldest going first and from its end', () => {
  const cache = new KvCache(31);
  const start = system();
  const [a, b, c] = [prompt(start, 6), prompt(start, 10), prompt(start, 5)];
  for (const p of [a, b]) {
    cache.admit(p, 1);
    cache.release(p, 1);
  }
  // 4 + 6 + 10 are remembered, 10 were never used: 14 new ones cost the older prompt 4 blocks.
  expect(cache.take(14)).toBe(true);
  expect([start.resident, a.own.resident, b.own.resident]).toEqual([4, 2, 10]);
  expect(cache.admit(a, 1)).toBe(6);
  expect([start.resident, a.own.resident, b.own.resident]).toEqual([4, 6, 5]);
  // 5 blocks are free and all of them remembered: no room for 5 and 1.
  expect(cache.free).toBe(5);
  expect(cache.admit(c, 1)).toBe(-1);
  expect([c.own.users, start.users, cache.free, b.own.resident]).toEqual([0, 1, 5, 5]);
  expect(cache.take(6)).toBe(false);
  expect(cache.take(5)).toBe(true);
  expect([cache.free, b.own.resident]).toEqual([0, 0]);
});

it('forgets everything when told, but only while idle', () => {
  const cache = new KvCache(31);
  const p = prompt(system(), 6);
  cache.admit(p, 1);
  expect(cache.forget()).toBe(false);
  cache.release(p, 1);
  expect(cache.forget()).toBe(true);
  expect(cache.admit(p, 1)).toBe(0);
  expect(cache.free).toBe(19);
});

it('keeps the system prompt longest', () => {
  const cache = new KvCache(31);
  const p = prompt(system(), 6);
  cache.admit(p, 1);
  cache.release(p, 1);
  expect(cache.take(28)).toBe(true);
  expect([p.own.resident, p.system.resident]).toEqual([0, 2]);
});
