/** Tables for a terminal and for a spreadsheet. Cells that are not there are empty in both, never 0. */
import { shown } from './shown.ts';

/** null: absent. */
export type Cell = string | number | null;

const absent = '–';

/** Three digits (two where it is small) and mostly at most six characters, for many columns: `--json` and `--csv` have all digits. */
export function figure(value: number | null): string {
  if (value === null || Number.isNaN(value)) return absent;
  const size = Math.abs(value);
  const unit = size >= 999_500_000 ? 'G' : size >= 999_500 ? 'M' : size >= 99_999.5 ? 'k' : '';
  if (unit) return Number((value / { G: 1e9, M: 1e6, k: 1e3 }[unit]).toPrecision(3)) + unit;
  return size >= 1000
    ? Math.round(value).toLocaleString('en')
    : String(Number(value.toPrecision(size < 0.01 ? 2 : 3)));
}

/** Enough digits to count with: a counter's start and end. */
export function exact(value: number | null): string {
  if (value === null || Number.isNaN(value)) return absent;
  return Math.abs(value) >= 1
    ? value.toLocaleString('en', { maximumFractionDigits: 3 })
    : String(Number(value.toPrecision(4)));
}

/** Numbers to the right, text to the left. Columns in which nothing stands are left out. */
export function table(
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
  form: (value: number | null) => string = figure,
): string {
  const columns = head
    .map((name, i) => ({ name, cells: rows.map((row) => row[i] ?? null) }))
    .filter(({ cells }) => cells.some((cell) => cell !== null && cell !== ''))
    .map(({ name, cells }) => {
      const right = cells.every((cell) => typeof cell !== 'string' || cell.startsWith('≥'));
      const text = [name, ...cells.map((cell) => (typeof cell === 'string' ? shown(cell) : form(cell)))];
      const width = Math.max(...text.map((t) => t.length));
      return text.map((t) => (right ? t.padStart(width) : t.padEnd(width)));
    });
  return ['', ...rows]
    .map((_, i) =>
      columns
        .map((cells) => cells[i])
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Text that a spreadsheet would take for a formula gets an apostrophe; numbers are as they are. */
export function csv(rows: readonly (readonly Cell[])[]): string {
  const cell = (value: Cell) => {
    if (value === null || typeof value === 'number') return Number.isNaN(value ?? NaN) ? '' : String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(',')).join('\n');
}
