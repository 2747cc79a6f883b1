/** Workers that are not heard at the end of a window, and what is then said of what they counted. */
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { WhyQuery } from '../electron/engine/api.ts';
import { defaultSettings } from '../electron/engine/steps.ts';
import { folderFor, type OnEnd } from './engines.ts';
import { answerOf, bodyOf, readerFor, RunMaker, START } from './run-files.ts';

const TICKS = 60;
const at = (t: number) => START + t * 1000;
const clock = (t: number) => `${new Date(at(t)).toISOString().slice(11, 19)} UTC`;

/**
 * Two workers that count ten tokens a second, the first of which is asked for prefixes; the second answers in `heard` slots
 * only. Its steps touch: 10 to 30 s and 30 to 59 s.
 */
function run(
  onEnd: OnEnd,
  heard: (t: number) => boolean,
  act: (t: number, run: RunMaker) => void = () => {},
) {
  const file = path.join(folderFor(onEnd), 'run.sqlite');
  const made = new RunMaker(file, 2);
  for (let t = 0; t < TICKS; t++) {
    act(t, made);
    const answers = [0, 1]
      .filter((e) => e === 0 || heard(t))
      .map((e) => {
        const values = {
          running: 1,
          generation_tokens: 100 + 10 * t,
          prefix_queries: e === 0 ? t : 5,
          prefix_hits: 5,
        };
        return answerOf(e, at(t), bodyOf([{ values }]));
      });
    made.tick(t, at(t), answers);
  }
  const steps = [10, 30].map((from, n) => ({ from: at(from), to: at([30, 59][n]!) }));
  made.store.steps.replace('fixed', defaultSettings(1000), at(TICKS), steps);
  made.store.close(at(TICKS));
  const reader = readerFor(onEnd);
  return {
    numbers: async (from: number, to: number) => {
      const query = { run: '', metrics: ['generation_tokens'], from: at(from), to: at(to) };
      return (await reader.statistics(file, query))[0]!;
    },
    why: (from: number, to: number, more: Partial<WhyQuery> = {}) =>
      reader.why(file, {
        ...{ run: '', metric: 'generation_tokens', from: at(from), to: at(to), step: null },
        ...{ statistic: 'sum', population: 'samples', w: null, ...more },
      }),
  };
}

describe('a worker that does not answer any more', () => {
  it('makes what was counted a lower bound, also where the run ends with the window', async ({
    onTestFinished,
  }) => {
    const { numbers, why } = run(onTestFinished, (t) => t <= 40);
    const last = await numbers(30, TICKS - 1);
    expect(last.lowerBound).toBe(true);
    expect(last.each.map((e) => [e.delta, e.lost])).toEqual([
      [290, false],
      [100, true],
    ]);
    expect((await why(30, TICKS - 1)).verdict).toEqual({
      sign: 'lower-bound',
      sentence:
        'A lower bound. w1 did not answer any more before the window ended: what was counted since is not in it.',
    });
    // it counted nothing after it was lost
    expect((await numbers(45, 55)).lowerBound).toBe(false);
  });

  it('may only be late: 5 s to answer, and two intervals', async ({ onTestFinished }) => {
    const late = run(onTestFinished, (t) => t <= TICKS - 1 - 7);
    expect((await late.numbers(30, TICKS - 1)).lowerBound).toBe(false);
    expect((await late.why(30, TICKS - 1)).verdict).toEqual({
      sign: 'thin',
      sentence: `Not complete. w1 did not answer when the window ended: what it counted since ${clock(52)} is not in it.`,
    });
    const lost = run(onTestFinished, (t) => t < TICKS - 1 - 7);
    expect((await lost.numbers(30, TICKS - 1)).lowerBound).toBe(true);
  });

  it('was taken away: nothing is missing at the end', async ({ onTestFinished }) => {
    const { numbers, why } = run(
      onTestFinished,
      (t) => t <= 40,
      (t, { store }) => t === 41 && store.writeEndpoints([], [1], []),
    );
    expect((await numbers(30, TICKS - 1)).lowerBound).toBe(false);
    expect((await why(30, TICKS - 1)).verdict.sign).toBe('complete');
  });

  it('in no part of a window: said, of all and of it alone', async ({ onTestFinished }) => {
    const { why } = run(onTestFinished, (t) => t <= 10);
    expect((await why(20, 30)).verdict).toEqual({
      sign: 'thin',
      sentence: 'Not complete. w1 did not answer: what was counted there is in another one, or lost.',
    });
    const own = await why(20, 30, { population: 'time', w: 1 });
    expect(own).toMatchObject({ value: null, samples: 0, verdict: { sign: 'nothing' } });
    expect(own.verdict.sentence).toMatch(/^w1 did not answer in the window/);
  });
});

describe('a worker that is silent over an edge', () => {
  const heard = (t: number) => t < 20 || t >= 45;

  it('brings what it counted until it answers; a gap inside loses nothing', async ({ onTestFinished }) => {
    const { numbers, why } = run(onTestFinished, heard);
    const first = await numbers(10, 30);
    // 20 s of the one, 35 s of the other: its next answer came 15 s after the end
    expect(first.each.map((e) => e.delta)).toEqual([200, 350]);
    expect((await why(10, 30)).verdict).toEqual({
      sign: 'thin',
      sentence: `Not of the window alone. w1 did not answer when the window ended: what it counted until ${clock(45)} is in it.`,
    });
    expect((await why(10, 50)).verdict.sign).toBe('complete');
  });

  it('brings what it counted since it answered last, where no window before has that', async ({
    onTestFinished,
  }) => {
    const { numbers, why } = run(onTestFinished, heard);
    expect((await numbers(30, 50)).each.map((e) => e.delta)).toEqual([200, 310]);
    expect((await why(30, 50)).verdict).toEqual({
      sign: 'thin',
      sentence: `Not of the window alone. w1 did not answer when the window began: what it counted since ${clock(19)} is in it.`,
    });
  });

  it('lacks at the next step what the step before has', async ({ onTestFinished }) => {
    const { why } = run(onTestFinished, heard);
    const step = (n: number) => ({ step: { source: 'fixed' as const, n } });
    const [one, two] = [await why(10, 30, step(0)), await why(30, 59, step(1))];
    expect([one.value, two.value]).toEqual([200 + 350, 290 + 140]);
    expect(one.verdict.sentence).toMatch(/^Not of the step alone\. w1 did not answer when the step ended/);
    expect(two.verdict).toEqual({
      sign: 'thin',
      sentence: `Not complete. w1 did not answer when the step began: what it counted until ${clock(45)} is in another one.`,
    });
    // the other one's own number is whole
    const own = await why(30, 59, { ...step(1), population: 'time', w: 0 });
    expect(own).toMatchObject({ value: 290, samples: 29, verdict: { sign: 'complete' } });
  });
});

it('a worker without traffic did answer', async ({ onTestFinished }) => {
  const { why } = run(onTestFinished, () => true);
  const hits = { metric: 'prefix_cache_hit_rate', statistic: 'pooled', population: 'pooled' } as const;
  expect(await why(20, 30, { ...hits, w: 1 })).toMatchObject({
    ...{ value: null, samples: 10, expected: 10 },
    ...{ sentence: 'Nothing was counted in this window: no traffic.', verdict: { sign: 'complete' } },
  });
});
