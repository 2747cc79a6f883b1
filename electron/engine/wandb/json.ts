/**
 * JSON as W&B's clients write and read it. Lines of history and the summary hold NaN and Infinity bare, which
 * JSON.stringify turns into null; config has its own rule. Numbers are written with the fewest digits that read back as
 * the same number; the SDK writes the same numbers, now and then in another notation.
 */
import type { Json, JsonObject } from './contract.ts';

interface Rules {
  nan: 'NaN' | 'null';
  /** Members without a value are left out. */
  dropEmpty: boolean;
  dropNull: boolean;
}
const LINE: Rules = { nan: 'NaN', dropEmpty: true, dropNull: false };
const SUMMARY: Rules = { nan: 'NaN', dropEmpty: true, dropNull: true };
const CONFIG: Rules = { nan: 'null', dropEmpty: true, dropNull: false };
/** What stands in a list is kept as it is. */
const inList = (to: Rules): Rules => (to.dropEmpty ? { nan: to.nan, dropEmpty: false, dropNull: false } : to);

const TOO_LONG = 2 ** 63;
/** An integer beyond 64 bits is written as a float: W&B's clients read no other. */
function encodeNumber(value: number, nan: string): string {
  if (Number.isNaN(value)) return nan;
  if (!Number.isFinite(value) || Math.abs(value) < TOO_LONG) return String(value === 0 ? 0 : value);
  return value.toExponential();
}

const isList = (value: readonly Json[] | JsonObject): value is readonly Json[] => Array.isArray(value);

function encode(value: Json, to: Rules): string {
  if (typeof value === 'number') return encodeNumber(value, to.nan);
  if (typeof value === 'bigint')
    return BigInt.asIntN(64, value) === value ? String(value) : encodeNumber(Number(value), to.nan);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (!isList(value)) return encodeObject(value, to);
  const rules = inList(to);
  return `[${value.map((item) => encode(item, rules)).join()}]`;
}

function encodeObject(object: JsonObject, to: Rules): string {
  let members = '';
  for (const key in object) {
    const value = object[key]!;
    if (to.dropNull && value === null) continue;
    const text = encode(value, to);
    if (to.dropEmpty && text === '{}') continue;
    members += `${members && ','}${JSON.stringify(key)}:${text}`;
  }
  return `{${members}}`;
}

/** One row of the history. The same object always gives the same text. Objects without a value are left out. */
export const encodeLine = (row: JsonObject): string => encodeObject(row, LINE);

/** The summary: keys with null are left out too, which is how W&B has them removed. */
export const encodeSummary = (summary: JsonObject): string => encodeObject(summary, SUMMARY);

/** The config: NaN becomes null; Infinity stays bare. */
export const encodeConfig = (config: JsonObject): string => encodeObject(config, CONFIG);

/** A value by itself, as .wandb files have them; `nan` is `null` in the config. */
export const encodeValue = (value: Json, nan: Rules['nan']): string =>
  encode(value, nan === 'NaN' ? LINE : CONFIG);

/** Bare words outside strings. */
const BARE = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\bInfinity\b|\bNaN\b/g;
/** JSON has no word for NaN. Nobody writes zero like this, and a reviver sees how a number was written. */
const NAN = '-0e999';
const words: Record<string, string> = { NaN: NAN, Infinity: '1e999', '-Infinity': '-1e999' };

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
const revive: Reviver = (_key, value, { source }) => (source === NAN ? NaN : value);

/** Reads bare NaN and Infinity too. Throws a SyntaxError where it is no JSON. */
export function decode(text: string): unknown {
  if (!/NaN|Infinity/.test(text)) return JSON.parse(text);
  const known = text.replace(BARE, (found) => words[found] ?? found);
  // TypeScript does not know the third argument yet
  return JSON.parse(known, known.includes(NAN) ? (revive as Parameters<typeof JSON.parse>[1]) : undefined);
}
