/** What is said of steps: names, lengths, facts, and the third line of vital numbers. */
import { describe, expect, test } from 'vitest';
import type { Scalars, ScalarSeries, StatisticArrays, Step, TrainerSteps } from '../electron/engine/api.ts';
import { clock } from '../renderer/clock.ts';
import { thin } from '../renderer/format.ts';
import { lastFull, stepLines } from '../renderer/step-vitals.ts';
import {
  kindWord,
  lengthWords,
  since,
  stepFacts,
  stepLength,
  stepName,
  summary,
  trainerFacts,
} from '../renderer/step-words.ts';

/** A plain space in an expected text stands for the narrow one before a unit. */
const narrow = (text: string) => text.replaceAll('_', thin);
const begin = 1_796_000_400_000;
const step = (more: Partial<Step> = {}): Step => ({
  n: 5,
  number: 5,
  kind: 'train',
  suggested: null,
  from: begin,
  to: begin + 54_200,
  ...more,
});

describe('words', () => {
  test('lengths: seconds up to a minute, then a clock', () => {
    expect([8400, 54_200, 60_000, 80_900, 3_660_000].map(stepLength)).toEqual(
      ['8.40_s', '54.2_s', '1:00', '1:20', '1_h_01'].map(narrow),
    );
    expect([0, 999, 23_400, 119_999, 125_000].map(since)).toEqual(
      ['+0_s', '+0_s', '+23_s', '+119_s', '+2:05'].map(narrow),
    );
  });

  test('names and kinds; a suggestion is a question until it is answered', () => {
    expect(stepName(step())).toBe('step 5');
    expect(stepName(step({ kind: 'eval' }))).toBe('eval 5');
    expect(kindWord(step())).toBe('');
    expect(kindWord(step({ suggested: 'eval' }))).toBe('eval?');
    expect(kindWord(step({ kind: 'eval', suggested: 'eval' }))).toBe('eval');
    expect(kindWord(step({ kind: 'other' }))).toBe('other');
  });

  test('one that runs says so; one that the recording cut off is at least that long', () => {
    const open = step({ to: null });
    expect(lengthWords(open, begin + 12_300, true)).toBe(narrow('12.3_s so far'));
    expect(lengthWords(open, begin + 12_300, false)).toBe(narrow('≥_12.3_s'));
    expect(lengthWords(step(), begin + 54_200, true)).toBe(narrow('54.2_s'));
  });

  test('the facts of one', () => {
    const end = begin + 54_200;
    expect(stepFacts(step(), end, true, ['w1'])).toBe(
      narrow(`Step 5, train, 54.2_s, ${clock(begin)} to ${clock(end)}. w1 restarted in it.`),
    );
    expect(stepFacts(step({ suggested: 'eval' }), end, true, [])).toContain(
      'Much shorter than its neighbours: eval?',
    );
    expect(stepFacts(step(), end, true, ['w0', 'w1', 'w2', 'w3'])).toContain('4 workers restarted in it.');
    expect(stepFacts(step({ to: null }), end, false, [])).toContain('to the end of the recording.');
  });

  test('many in a sentence: counts, lengths of those that are over, suggestions', () => {
    const lengths = [8400, 27_300, 80_000];
    const steps = lengths.map((ms, n) =>
      step({ n, from: n * 1e6, to: n * 1e6 + ms, suggested: n === 0 ? 'eval' : null }),
    );
    expect(summary([...steps, step({ n: 3, from: 4e6, to: null })])).toBe(
      narrow('4 steps, 8.40_s to 1:20, half of them up to 27.3_s; 1 may be an evaluation.'),
    );
    expect(summary([step()])).toBe(narrow('1 step, 54.2_s.'));
    expect(summary([step({ to: null })])).toBe('1 step.');
    expect(summary([])).toBe('No step.');
  });
});

describe('the trainer’s run', () => {
  const seen = (more: Partial<TrainerSteps> = {}): TrainerSteps => ({
    set: { source: 'wandb', steps: [], settings: { minIdleSeconds: 2, minStepSeconds: 2, everySeconds: 60 } },
    ...{ rows: 4, inside: 3, leftOut: 0, none: null, firstAt: begin, lastAt: begin },
    ...{ serverAheadSeconds: null, trainerAheadSeconds: null, ...more },
  });

  test('what its rows give, what is left out, or why there is nothing', () => {
    expect(trainerFacts(seen())).toBe('3 steps in this recording, of 4.');
    expect(trainerFacts(seen({ leftOut: 1 }))).toBe(
      '3 steps in this recording, of 4. 1 row without a whole number or a time is left out.',
    );
    expect(trainerFacts(seen({ leftOut: 1200 }))).toContain(
      '1,200 rows without a whole number or a time are',
    );
    const none = 'No row of that run has both "\u202Ea" and a time.';
    expect(trainerFacts(seen({ rows: 0, inside: 0, leftOut: 20, none }))).toBe(
      'No row of that run has both "\\u202ea" and a time.',
    );
  });

  test('clocks are told where they are more than 2 s apart; that the trainer’s is behind cannot be known', () => {
    const said = (server: number | null, trainer: number | null) =>
      trainerFacts(seen({ serverAheadSeconds: server, trainerAheadSeconds: trainer })).replace(
        /^.*?4\. ?/,
        '',
      );
    expect(said(1.9, 2)).toBe('');
    expect(said(-2, -40)).toBe('');
    expect(said(-2.5, null)).toBe(narrow('W&B’s clock is 2.5_s behind this machine’s.'));
    expect(said(null, 15)).toBe(narrow('The trainer’s clock is at least 15.0_s ahead of W&B’s.'));
  });
});

const blank = (n: number): StatisticArrays => {
  const none = () => new Float64Array(n).fill(NaN);
  return { mean: none(), min: none(), max: none(), p50: none(), p95: none(), sum: none(), n: none() };
};
/** One value a step of what a line is made of. */
function series(metric: string, values: number[], more: Partial<ScalarSeries> = {}): ScalarSeries {
  const n = values.length;
  const own = Float64Array.from(values);
  return {
    metric,
    samples: { ...blank(n), mean: own },
    workers: { ...blank(n), sum: own },
    deltas: null,
    requests: null,
    pooled: own,
    coverage: Float64Array.from(values, (v) => (Number.isNaN(v) ? NaN : 0.839)),
    lowerBound: new Float64Array(n),
    each: [],
    ...more,
  };
}
const scalars = (steps: Step[], all: ScalarSeries[]): Scalars => ({
  source: 'mark',
  steps,
  series: all,
  missing: 0,
  stopped: false,
});

describe('vital numbers over the last full step', () => {
  const at = (n: number, more: Partial<Step> = {}) =>
    step({ n, number: n, from: begin + n * 60_000, to: begin + n * 60_000 + 50_000, ...more });

  test('the last one is a train step that is over, by the time that is looked at', () => {
    const steps = [at(0), at(1), at(2, { kind: 'eval' }), at(3, { suggested: 'eval' }), at(4, { to: null })];
    expect(lastFull(steps, Infinity)).toBe(1);
    expect(lastFull(steps, begin + 100_000)).toBe(0);
    expect(lastFull(steps.slice(2), Infinity)).toBe(1);
    expect(lastFull([at(0, { to: null })], Infinity)).toBe(null);
  });

  test('each line says of which step it is; the hit rate stands beside the one before of its kind', () => {
    const steps = [at(3), at(4, { kind: 'eval' }), at(5)];
    const lines = stepLines(
      scalars(steps, [
        series('running', [1, 1, 5.9]),
        series('waiting', [1, 1, 30.3]),
        series('kv_cache_usage', [0.1, 0.1, 0.697]),
        series('prefix_cache_hit_rate', [0.807, 0.5, 0.806]),
        series('generation_tokens', [1, 1, 82_950]),
        series('preemptions', [1, 1, 251], { lowerBound: Float64Array.from([0, 0, 1]) }),
      ]),
      2,
    );
    expect(Object.fromEntries(lines)).toEqual({
      Workers: narrow('step 5: coverage 83_%'),
      Running: 'step 5: 5.9 a worker',
      Waiting: 'step 5: 30.3 a worker',
      'KV cache': narrow('step 5: 69.7_% mean'),
      'Hit rate': narrow('steps 5, 3: 80.6, 80.7_%'),
      Generation: 'step 5: 1,659 tok/s',
      Preemptions: narrow('step 5: ≥_251 in 50.0_s'),
    });
  });

  test('what is not computed or absent is left out, never 0', () => {
    expect(stepLines(scalars([at(0)], [series('prefix_cache_hit_rate', [NaN])]), 0).size).toBe(0);
    const idle = series('prefix_cache_hit_rate', [NaN], { coverage: Float64Array.from([1]) });
    expect(stepLines(scalars([at(0)], [idle]), 0)).toEqual(new Map([['Hit rate', 'step 0: no traffic']]));
    expect(stepLines(scalars([at(0, { to: null })], [series('running', [1])]), 0).size).toBe(0);
  });
});
