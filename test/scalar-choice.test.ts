/** What is chosen in Scalars: what a stored preference means, and what the switches make of it. */
import { expect, test } from 'vitest';
import {
  asNemoRl,
  choiceOf,
  likeAll,
  onIn,
  switchAll,
  switchOne,
  type ScalarChoice,
} from '../renderer/scalar-choice.ts';

const usual = choiceOf(undefined);
/** As it comes back from library.db. */
const stored = (choice: ScalarChoice) => choiceOf(JSON.parse(JSON.stringify(choice)));

test('nobody has chosen: those of the design, by step, latencies over requests', () => {
  expect(usual.on.toSorted()).toEqual(['max', 'mean', 'p95', 'pooled', 'sum', 'workers']);
  expect(usual).toMatchObject({ own: {}, population: 'requests', axis: 'step' });
});

test('what is stored comes back; what makes no sense is as if nobody had chosen', () => {
  const chosen = {
    ...switchOne(switchAll(usual, 'min'), 'running', 'max'),
    population: 'time',
    w: 3,
    axis: 'time',
  } as const;
  expect(stored(chosen)).toEqual(chosen);
  const wrong = { on: ['mean', 'no such', 7], own: { running: 'mean' }, population: 'no', w: -1, axis: 4 };
  expect(choiceOf(wrong)).toEqual({ ...usual, on: ['mean'] });
  for (const nonsense of [null, 7, 'mean', []]) expect(choiceOf(nonsense)).toEqual(usual);
});

test('a switch for all reaches the panels with a choice of their own', () => {
  const own = switchOne(usual, 'running', 'min');
  expect(onIn(own, 'running')).toContain('min');
  expect(onIn(own, 'waiting')).not.toContain('min');
  const without = switchAll(own, 'mean');
  expect(onIn(without, 'running')).not.toContain('mean');
  expect(onIn(without, 'running')).toContain('min');
  expect(onIn(without, 'waiting')).not.toContain('mean');
  // on for all is on everywhere, where it was on already too
  expect(onIn(switchAll(own, 'min'), 'running')).toContain('min');
});

test('a panel goes back to what all have', () => {
  const own = switchOne(switchOne(usual, 'running', 'min'), 'waiting', 'min');
  expect(onIn(likeAll(own, 'running'), 'running')).toEqual(usual.on);
  expect(onIn(likeAll(own, 'running'), 'waiting')).toContain('min');
});

test('as NeMo RL: mean, max and p95 of all, no other statistic of samples', () => {
  const changed = switchOne(switchAll(switchAll(usual, 'min'), 'mean'), 'running', 'p50');
  const nemo = asNemoRl(changed);
  expect(nemo.on.filter((s) => !['sum', 'pooled', 'workers'].includes(s))).toEqual(['mean', 'max', 'p95']);
  expect(onIn(nemo, 'running')).toEqual(nemo.on);
  expect(nemo.on).toContain('sum');
  expect(asNemoRl(switchAll(usual, 'sum')).on).not.toContain('sum');
});
