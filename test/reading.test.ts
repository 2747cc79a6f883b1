/** What is read out of the data that is held: who is silent, and who was not there to answer. */
import { expect, test } from 'vitest';
import type { Run } from '../electron/engine/api.ts';
import { keep } from '../renderer/kept.ts';
import { hasLeft, silent, silentShare } from '../renderer/reading.ts';

/** `.` answers, `x` does not: a text a worker, a letter a tick of a second. */
function answersOf(...rows: string[]) {
  const offsets = rows.flatMap((row) => [...row].map((c) => (c === '.' ? 0 : NaN)));
  const times = Float64Array.from([...(rows[0] ?? '')], (_, i) => i * 1000);
  return keep({
    widthSeconds: 0,
    times,
    workers: rows.length,
    offsets: Float32Array.from(offsets),
    series: [],
  });
}
const runOf = (...lives: [firstAt: number, goneAt: number | null][]) =>
  ({ intervalSeconds: 1, workerList: lives.map(([firstAt, goneAt], w) => ({ w, firstAt, goneAt })) }) as Run;

test('a worker is silent from when it was seen first until its endpoint is taken away', () => {
  const k = answersOf('.x....', 'xx.x..', '.x.xxx');
  const run = runOf([0, null], [2000, null], [0, 4000]);
  const said = [0, 1, 2].map((w) =>
    [0, 1, 2, 3, 4, 5].map((i) => (silent(k, run, w, i) ? 'silent' : '')).join(),
  );
  expect(said).toEqual([',silent,,,,', ',,,silent,,', ',silent,,silent,,']);
  expect([3999, 4000, 9000].map((at) => hasLeft(run, 2, at))).toEqual([false, true, true]);
  expect(hasLeft(run, 0, 9000)).toBe(false);
});

test('the share that is silent is of those that should answer', () => {
  const k = answersOf('.x.xx', '...xx', '..xxx');
  const run = runOf([0, 4000], [0, 4000], [0, 2000]);
  expect([0, 1, 2, 3, 4].map((i) => silentShare(k, run, i))).toEqual([0, 1 / 3, 0, 1, null]);
});
