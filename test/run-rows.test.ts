/** How far a run in the list of runs is. */
import { expect, test } from 'vitest';
import type { RunSummary, Ticked } from '../electron/engine/api.ts';
import { reached } from '../renderer/run-rows.ts';

const run = { id: 'a', state: 'recording', endedAt: 100_000, ticks: 40, intervalSeconds: 2 } as RunSummary;
const tick = { run: 'a', at: 110_010, t: 60 } as Ticked;

test('of a run that is being recorded the last tick of its cluster counts', () => {
  // 15 slots were missed before the list was read
  expect(reached(run, tick)).toEqual({ at: 110_010, ticks: 45 });
  expect(reached({ ...run, endedAt: null, ticks: 0 }, { ...tick, at: 4000, t: 2 })).toEqual({
    at: 4000,
    ticks: 3,
  });
});

test('otherwise what the list says', () => {
  const listed = { at: 100_000, ticks: 40 };
  expect(reached(run, undefined)).toEqual(listed);
  expect(reached(run, { ...tick, run: 'b' }), 'of another run').toEqual(listed);
  expect(reached(run, { ...tick, at: 90_000 }), 'older than the list').toEqual(listed);
  expect(reached({ ...run, state: 'ended' }, tick)).toEqual(listed);
});
