/** The second lines of vital numbers: which worker is worst, why requests wait; words and workers in turn. Pure. */
import type { Run } from '../electron/engine/api.ts';
import { namesOf } from './event-rows.ts';
import { count, many } from './format.ts';

/** A stretch of a line: words, or workers that a click isolates. */
export type Piece = string | { workers: number[]; name: string };

/** One value a worker; workers without one are left out. */
export interface Own {
  w: number;
  v: number;
}

export const button = (run: Run, workers: number[]): Piece => ({
  workers,
  name: workers.length <= 1 ? nameOf(run, workers[0] ?? 0) : many(workers.length, 'worker'),
});
const nameOf = (run: Run, w: number) => namesOf([run.workerList[w] ?? { w, name: `w${w}` }]);

/** `highest w6 16`; `lowest 0 on 18 workers` where they share it. */
function extreme(run: Run, own: Own[], word: 'highest' | 'lowest', show: (v: number) => string): Piece[] {
  const values = own.map(({ v }) => v);
  const best = word === 'highest' ? Math.max(...values) : Math.min(...values);
  const tied = own.filter(({ v }) => v === best).map(({ w }) => w);
  if (tied.length === 1) return [`${word} `, button(run, tied), ` ${show(best)}`];
  if (tied.length === own.length) return [`${show(best)} on each`];
  return [`${word} ${show(best)} on `, button(run, tied)];
}

/** Up to two workers both; otherwise the worst. */
export function worst(
  run: Run,
  own: Own[],
  word: 'highest' | 'lowest',
  show: (v: number) => string,
): Piece[] {
  if (own.length === 0) return [];
  if (own.length > 2) return extreme(run, own, word, show);
  return own.flatMap(({ w, v }, i) => [i > 0 ? ' · ' : '', button(run, [w]), ` ${show(v)}`]);
}

export const total = (own: Own[]) => own.reduce((sum, { v }) => sum + v, 0);

/** `w2 0 to w6 16`, without a name where several share it. */
export function bothEnds(run: Run, own: Own[], show: (v: number) => string): Piece[] {
  if (own.length <= 2) return worst(run, own, 'highest', show);
  const [high, low] = [Math.max(...own.map(({ v }) => v)), Math.min(...own.map(({ v }) => v))];
  if (high === low) return [`${show(high)} on each`];
  const end = (v: number): Piece[] => {
    const tied = own.filter((o) => o.v === v);
    return tied.length === 1 ? [button(run, [tied[0]?.w ?? 0]), ` ${show(v)}`] : [show(v)];
  };
  return [...end(low), ' to ', ...end(high)];
}

/** More letters than this find no room beside the sign in a narrow window. */
const lettersUpTo = 19;

/** Why requests wait; then where, or where alone. */
export function reasons(
  run: Run,
  capacity: number,
  deferred: number,
  own: Own[],
): { line: Piece[]; attention: boolean } {
  const why = [
    capacity > 0 ? `capacity ${count(capacity)}` : '',
    deferred > 0 ? `deferred ${count(deferred)}` : '',
  ].filter((text) => text !== '');
  const attention = capacity > 0;
  if (why.length === 0) return { line: worst(run, own, 'highest', count), attention };
  const said = why.join(' · ');
  const most = Math.max(...own.map(({ v }) => v));
  const tied = own.filter(({ v }) => v === most).map(({ w }) => w);
  const where = ` ${count(most)}`;
  const fits =
    said.length + 3 + (run.workerList[tied[0] ?? 0]?.name.length ?? 0) + where.length <= lettersUpTo;
  return { line: tied.length === 1 && fits ? [`${said} · `, button(run, tied), where] : [said], attention };
}
