/** What stands in a run file of its steps, when they are found anew by slices and somebody gave kinds to some. */
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { defaultSettings, type FoundStep } from '../electron/engine/steps.ts';
import { folderFor, type OnEnd } from './engines.ts';
import { RunMaker, START } from './run-files.ts';

const settings = defaultSettings(1000);
const at = (n: number) => START + n * 60_000;
const step = (n: number, ended = true): FoundStep => ({ from: at(n), to: ended ? at(n) + 50_000 : null });
const stepsOf = (...numbers: number[]) => numbers.map((n) => step(n));

function stepStore(onEnd: OnEnd) {
  const { store } = new RunMaker(path.join(folderFor(onEnd), 'run.sqlite'), 1);
  onEnd(() => store.close(START));
  const found = (first: number, steps: FoundStep[], all: boolean) =>
    store.steps.writeFound([{ source: 'idle', settings, first, steps }], at(99), { all, look: false });
  const kept = () => store.steps.steps('idle').map(({ began, kind }) => [(began - START) / 60_000, kind]);
  return { store, found, kept };
}

describe('steps that are found anew', () => {
  it('stay, with their kinds, while the look over the run goes on', ({ onTestFinished }) => {
    const { store, found, kept } = stepStore(onTestFinished);
    expect(found(0, stepsOf(0, 1, 2, 3, 4), true)).toBe(true);
    store.steps.setKind('idle', 3, 'eval');
    const before = kept();
    // the first slice of a look after a crash: it has come to step 1
    expect(found(0, stepsOf(0, 1), false)).toBe(false);
    expect(kept()).toEqual(before);
    expect(found(2, stepsOf(2, 3, 4), true)).toBe(false);
    expect(kept()).toEqual(before);
  });

  it('take their kinds along where a step more is found before them', ({ onTestFinished }) => {
    const { store, found, kept } = stepStore(onTestFinished);
    found(0, stepsOf(0, 2, 3), true);
    store.steps.setKind('idle', 1, 'eval');
    expect(found(0, stepsOf(0, 1, 2, 3), true)).toBe(true);
    expect(kept()).toEqual([
      [0, 'train'],
      [1, 'train'],
      [2, 'eval'],
      [3, 'train'],
    ]);
    expect(found(0, stepsOf(0, 2), true)).toBe(true);
    expect(kept()).toEqual([
      [0, 'train'],
      [2, 'eval'],
    ]);
  });

  it('keep the kind that was given while they still ran', ({ onTestFinished }) => {
    const { store, found, kept } = stepStore(onTestFinished);
    found(0, [step(0), step(1, false)], true);
    store.steps.setKind('idle', 1, 'other');
    expect(found(1, [step(1)], true)).toBe(true);
    expect(kept()[1]).toEqual([1, 'other']);
  });
});
