/**
 * Numbers as the page shows them (look.md, section 5). Pure: a number in, a text out; absent is an en dash.
 * Three significant digits, except counts below 10,000; ratios in percent; a narrow space before unit and SI letter.
 */

/** Narrow no-break space. */
export const thin = '\u202f';
export const absent = '–';

type Maybe = number | null | undefined;
const missing = (v: Maybe): v is null | undefined => v === null || v === undefined || !Number.isFinite(v);

const group = (digits: string) => digits.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
const signed = (v: number, text: string) => (v < 0 ? `−${text}` : text);

/** Three significant digits of a number of 0 or more, without an exponent. */
function significant(a: number): string {
  if (a === 0) return '0';
  if (a < 0.0001) return '<0.0001';
  const r = Number(a.toPrecision(3));
  if (r >= 100) return group(r.toFixed(0));
  if (r >= 10) return r.toFixed(1);
  if (r >= 1) return r.toFixed(2);
  return r.toFixed(Math.min(4, 2 - Math.floor(Math.log10(r))));
}

const letters: [number, string][] = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
];

/** `16.3 k`; for numbers of 10,000 and more. */
function large(a: number): string {
  const r = Number(a.toPrecision(3));
  for (const [size, letter] of letters) if (r >= size) return `${significant(r / size)}${thin}${letter}`;
  return significant(r);
}

/** Requests, tokens, events: whole ones exact below 10,000, means with a decimal or two. */
export function count(v: Maybe): string {
  if (missing(v)) return absent;
  const a = Math.abs(v);
  if (Math.round(a) >= 10_000) return signed(v, large(a));
  if (Number.isInteger(a) || a >= 100) return signed(v, group(Math.round(a).toString()));
  if (a < 0.005) return signed(v, '<0.01');
  return signed(v, a >= 1 ? a.toFixed(1) : a.toFixed(2));
}

/** Something a second, without its unit. */
export function rate(v: Maybe): string {
  if (missing(v)) return absent;
  const a = Math.abs(v);
  if (Math.round(a) >= 10_000) return signed(v, large(a));
  return signed(v, a >= 100 ? group(Math.round(a).toString()) : significant(a));
}

/** A ratio of 0..1. */
export function percent(v: Maybe): string {
  if (missing(v)) return absent;
  const a = Math.abs(v);
  if (a === 0 || a === 1) return signed(v, `${a * 100}${thin}%`);
  if (a < 0.0005) return signed(v, `<0.1${thin}%`);
  if (a < 1 && a >= 0.9995) return signed(v, `>99.9${thin}%`);
  return signed(v, `${(a * 100).toFixed(1)}${thin}%`);
}

/** A time that something took. */
export function seconds(v: Maybe): string {
  if (missing(v)) return absent;
  const a = Math.abs(v);
  if (a === 0) return `0${thin}s`;
  if (Number((a * 1000).toPrecision(3)) < 1000) return signed(v, `${significant(a * 1000)}${thin}ms`);
  if (a < 120) return signed(v, `${significant(a)}${thin}s`);
  const whole = Math.round(a);
  if (whole < 3600) return signed(v, `${Math.floor(whole / 60)}${thin}min ${whole % 60}${thin}s`);
  const minutes = Math.round(whole / 60);
  return signed(v, `${Math.floor(minutes / 60)}${thin}h ${minutes % 60}${thin}min`);
}

/** A length of a run or a window: `0:07`, `5:25`, `12 h 49`. */
export function duration(v: Maybe): string {
  if (missing(v)) return absent;
  const whole = Math.max(0, Math.floor(v));
  const pad = (n: number) => String(n).padStart(2, '0');
  if (whole < 3600) return `${Math.floor(whole / 60)}:${pad(whole % 60)}`;
  return `${Math.floor(whole / 3600)}${thin}h${thin}${pad(Math.floor((whole % 3600) / 60))}`;
}

export function bytes(v: Maybe): string {
  if (missing(v)) return absent;
  if (v < 1000) return `${Math.round(v)}${thin}B`;
  for (const [size, letter] of letters)
    if (Number(v.toPrecision(3)) >= size) return `${significant(v / size)}${thin}${letter}B`;
  return absent;
}

/** A value of a metric, by the catalogue's unit; the unit itself stands only where it is part of the number (% and s). */
export function value(unit: string, v: Maybe): string {
  if (unit === 'ratio') return percent(v);
  if (unit === 's') return seconds(v);
  if (unit.endsWith('/s')) return rate(v);
  return count(v);
}

/** The same for the narrow column at the right end of a plot. */
export const narrow = (unit: string, v: Maybe) => tight(value(unit, v));

export const tight = (text: string) => text.replaceAll(thin, '').replace('.0%', '%');

/** A tick of a y axis: no trailing zeros. */
export function tick(unit: string, v: number): string {
  if (unit === 'ratio') return `${Number((v * 100).toPrecision(3))}${thin}%`;
  if (unit === 's') {
    if (v === 0) return '0';
    return v < 1 ? `${Number((v * 1000).toPrecision(3))}${thin}ms` : `${plainTick(v)}${thin}s`;
  }
  return plainTick(v);
}

function plainTick(v: number): string {
  for (const [size, letter] of letters)
    if (v >= size && v >= 10_000) return `${Number((v / size).toPrecision(3))}${thin}${letter}`;
  return group(String(Number(v.toPrecision(3))));
}

/** The unit as heads and lists write it. */
export function unitName(unit: string): string {
  if (unit === 'ratio') return '%';
  return unit === 'tokens/s' ? 'tok/s' : unit;
}

/** "1 worker", "8 workers". */
export const many = (n: number, one: string, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;

const unsafe = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Control and bidi characters escaped, however long it is. */
export const escaped = (text: string) =>
  text.replace(unsafe, (c) => `\\u${(c.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);

/** Text from outside, fit to be shown: escaped, cut at 200 characters. */
export const plain = (text: string) => escaped(text.length > 200 ? `${text.slice(0, 199)}…` : text);
