/**
 * The engine's clock over made-up wall and monotonic clocks: both are moved by hand, so nothing here depends on how
 * fast the machine is.
 */
import { describe, expect, it } from 'vitest';
import { Clock } from '../electron/engine/clock.ts';

const NOON = 1_796_000_400_000;
const HOUR = 3_600_000;

function setUp() {
  const at = { wall: NOON, mono: 5000 };
  const told: number[] = [];
  const clock = new Clock(
    (byMs) => told.push(byMs),
    () => at.wall,
    () => at.mono,
  );
  /** Both clocks go on by `ms`. */
  const pass = (ms: number) => {
    at.wall += ms;
    at.mono += ms;
  };
  return { at, told, clock, pass };
}

describe('the wall clock goes on as it should', () => {
  it('is followed to the millisecond', () => {
    const { clock, pass, told } = setUp();
    expect(clock.now()).toBe(NOON);
    pass(1);
    expect(clock.now()).toBe(NOON + 1);
    pass(86_400_000);
    expect(clock.now()).toBe(NOON + 1 + 86_400_000);
    expect(told).toEqual([]);
  });

  it('a jump forward is followed at once, and nobody is told', () => {
    const { at, clock, told } = setUp();
    clock.now();
    at.wall += HOUR;
    at.mono += 1;
    expect(clock.now()).toBe(NOON + HOUR);
    expect(told).toEqual([]);
  });
});

describe('the wall clock is set back', () => {
  it('by an hour: time goes on at the monotonic pace, and is told once', () => {
    const { at, clock, pass, told } = setUp();
    pass(1000);
    expect(clock.now()).toBe(NOON + 1000);
    at.wall -= HOUR;
    pass(250);
    expect(clock.now()).toBe(NOON + 1250);
    for (let i = 1; i <= 20; i++) {
      pass(1000);
      expect(clock.now()).toBe(NOON + 1250 + i * 1000);
    }
    expect(told).toEqual([HOUR - 250]);
  });

  it('goes with the wall clock again once that has caught up', () => {
    const { at, clock, pass, told } = setUp();
    at.wall -= HOUR;
    pass(10);
    expect(clock.now()).toBe(NOON + 10);
    at.wall = NOON + 5000; // set right
    expect(clock.now()).toBe(NOON + 5000);
    pass(7);
    expect(clock.now()).toBe(NOON + 5007);
    at.wall -= 2 * HOUR; // and wrong again: that is news
    pass(1);
    expect(clock.now()).toBe(NOON + 5008);
    expect(told).toEqual([HOUR - 10, 2 * HOUR - 1]);
  });

  it('by less than a second (NTP): never goes back, and nobody is told', () => {
    const { at, clock, pass, told } = setUp();
    at.wall -= 900;
    pass(100);
    expect(clock.now()).toBe(NOON + 100);
    pass(500);
    expect(clock.now()).toBe(NOON + 600);
    expect(told).toEqual([]);
  });

  it('who is told of it may ask for the time, and is given the same', () => {
    const at = { wall: NOON, mono: 0 };
    const asked: number[] = [];
    const clock: Clock = new Clock(
      () => asked.push(clock.now()),
      () => at.wall,
      () => at.mono,
    );
    at.wall -= HOUR;
    at.mono += 500;
    expect(clock.now()).toBe(NOON + 500);
    expect(asked).toEqual([NOON + 500]);
  });

  it('keeps its pace however often it is asked: parts of a millisecond are not lost or made up', () => {
    for (const step of [0.3, 0.7]) {
      const { at, clock, pass } = setUp();
      at.wall -= HOUR;
      const times = [clock.now()];
      for (let i = 0; i < 10_000; i++) {
        pass(step);
        times.push(clock.now());
      }
      expect(times.every((time, i) => Number.isInteger(time) && time >= (times[i - 1] ?? 0))).toBe(true);
      expect(Math.abs(times.at(-1)! - (NOON + 10_000 * step))).toBeLessThanOrEqual(1);
    }
  });
});

it('never goes back, whatever the wall clock does', () => {
  const { at, clock } = setUp();
  const times = [clock.now()];
  let seed = 1;
  for (let i = 0; i < 5000; i++) {
    seed = (seed * 48271) % 2147483647;
    at.wall += (seed % 20_001) - 10_000;
    at.mono += seed % 300;
    times.push(clock.now());
  }
  expect(times.filter((time, i) => time < (times[i - 1] ?? 0))).toEqual([]);
});

describe('notBefore', () => {
  it('a run that goes on has later times already: they are gone on from, at the monotonic pace', () => {
    const { clock, pass } = setUp();
    clock.notBefore(NOON + 5000);
    expect(clock.now()).toBe(NOON + 5000);
    pass(200);
    expect(clock.now()).toBe(NOON + 5200);
  });

  it('an earlier time changes nothing', () => {
    const { clock, pass, told } = setUp();
    pass(1000);
    clock.notBefore(NOON);
    expect(clock.now()).toBe(NOON + 1000);
    expect(told).toEqual([]);
  });
});
