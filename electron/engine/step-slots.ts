/**
 * Which slots of a long stretch have to be read to find its steps: the turns from work to rest and back. In the midst of
 * work of somebody nothing that others do is an edge of a step, and of a rest only its ends are. What is found is the
 * same as from all rows (test/step-scan.test.ts), at a fraction of the rows.
 */
import * as queries from './queries.ts';
import type { RunFile } from './timelines.ts';

/** Slots that are read before and after a turn, for answers that were late right there. */
const AROUND = 2;
/** Shorter stretches are read whole. */
export const WHOLE_UP_TO = 64;

/** Ranges of slots [first, last] within [first, until), in their order. */
export function slotsThatMatter(run: RunFile, first: number, until: number): [number, number][] {
  if (until - first <= WHOLE_UP_TO) return [[first, until - 1]];
  const slots = run.rows(queries.worksInSlots, { first, last: until - 1 });
  const wanted = new Uint8Array(until - first);
  const want = (from: number, to: number) => {
    for (let t = Math.max(first, from); t <= Math.min(until - 1, to); t++) wanted[t - first] = 1;
  };
  // what was before and comes after this stretch is not known here
  want(first, first + AROUND);
  want(until - 1 - AROUND, until - 1);
  for (const column of [1, 2])
    for (const [from, to] of rests(slots, column)) {
      want(from - AROUND, from - 1);
      want(to + 1, to + AROUND);
      // all of them asleep the whole time, or a run whose engines do not say: only the turns matter
      if (column === 2) {
        want(from, from + AROUND);
        want(to - AROUND, to);
      } else wantOfRest(run, from, to, want);
    }
  return ranges(wanted, first);
}

/** Stretches of slots in which nobody was at work (column 1) or awake (column 2). */
function rests(slots: readonly (number | null)[][], column: number): [number, number][] {
  const found: [number, number][] = [];
  let begin: number | null = null;
  for (const row of slots) {
    if (row[column]) begin = null;
    else {
      if (begin === null) found.push([row[0]!, row[0]!]);
      begin ??= row[0]!;
      found.at(-1)![1] = row[0]!;
    }
  }
  return found;
}

/** Of a rest: to the first slot in which as many answered as ever in it, from the last such slot on, and where tokens were
 * counted between two that were idle. */
function wantOfRest(run: RunFile, from: number, to: number, want: (from: number, to: number) => void): void {
  if (to - from < 4 * AROUND) {
    want(from, to);
    return;
  }
  const answers = run.rows(queries.answersInSlots, { first: from, last: to });
  const most = Math.max(0, ...answers.map((r) => r[1]!));
  const full = answers.filter((r) => r[1] === most);
  want(from, (full[0]?.[0] ?? to) + AROUND);
  want((full.at(-1)?.[0] ?? from) - AROUND, to);
  for (let i = 1; i < full.length; i++)
    if (full[i]![2] !== full[i - 1]![2]) want(full[i - 1]![0]! - AROUND, full[i]![0]! + AROUND);
}

function ranges(wanted: Uint8Array, first: number): [number, number][] {
  const found: [number, number][] = [];
  for (let i = 0; i < wanted.length; i++) {
    if (!wanted[i]) continue;
    if (i > 0 && wanted[i - 1]) found.at(-1)![1] = first + i;
    else found.push([first + i, first + i]);
  }
  return found;
}
