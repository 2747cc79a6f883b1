/** What rows.py makes of a run's file, and what on W&B is otherwise. */
import { execFile, spawnSync } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { parseLoose } from '../fake-wandb-runs.ts';

export type Row = Record<string, number>;
export const parsed = (line: string) => parseLoose(line) as Row;

/** What rows.py makes of a run's file. */
export interface MadeRows {
  lines: Row[];
  summary: Row;
  keys: number;
}

const python = ['python3', '/usr/bin/python3'].find(
  (file) => spawnSync(file, ['-c', 'import sqlite3'], { stdio: 'ignore' }).status === 0,
);

/** Throws where there is no Python: a comparison with nothing would pass. */
export async function rowsByPython(file: string, ...args: string[]): Promise<MadeRows> {
  if (python === undefined)
    throw new Error(
      'test/wandb-rows/rows.py needs a python3 with sqlite3; on Debian: apt-get install python3',
    );
  const script = path.join(import.meta.dirname, 'rows.py');
  const { stdout } = await promisify(execFile)(python, ['-B', script, file, ...args], { maxBuffer: 1 << 28 });
  return JSON.parse(stdout) as MadeRows;
}

/** Sums of the same numbers in another order. */
const CLOSE = 1e-9;
const isClose = (a: number | undefined, b: number | undefined) =>
  a !== undefined && b !== undefined && Math.abs(a - b) <= CLOSE * Math.max(Math.abs(a), Math.abs(b));

/** What differs between two rows, in words. */
const differences = (got: Row, wanted: Row, where: string): string[] =>
  [...new Set([...Object.keys(got), ...Object.keys(wanted)])]
    .filter((key) => !isClose(got[key], wanted[key]))
    .map((key) => `${where}: ${key} is ${got[key]}, by rows.py ${wanted[key]}`);

/** Line by line, and the summary; in words. */
export function differencesOf(
  stored: { history: readonly string[]; summary: string | null },
  made: MadeRows,
): string[] {
  const rows = stored.history.map(parsed);
  const { _wandb, ...summary } = parsed(stored.summary ?? '{}') as Row & { _wandb?: unknown };
  const runtime = (_wandb as { runtime?: number } | undefined)?.runtime;
  return [
    ...(rows.length === made.lines.length ? [] : [`${rows.length} rows, by rows.py ${made.lines.length}`]),
    ...rows.flatMap((row, i) => differences(row, made.lines[i] ?? {}, `row ${i}`)),
    ...differences(summary, made.summary, 'summary'),
    ...(runtime === Math.floor(made.summary._runtime!) ? [] : [`summary: _wandb.runtime is ${runtime}`]),
  ];
}
