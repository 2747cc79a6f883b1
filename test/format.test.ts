/** Numbers as the page shows them: every rule of look.md section 5 that a pure function can hold. */
import { describe, expect, test } from 'vitest';
import {
  bytes,
  count,
  duration,
  many,
  narrow,
  percent,
  plain,
  rate,
  seconds,
  thin,
  tick,
  value,
} from '../renderer/format.ts';

/** A plain space in an expected text stands for the narrow one. */
const t = (text: string) => text.replaceAll(' ', thin);

describe('count', () => {
  test.each([
    [0, '0'],
    [7, '7'],
    [999, '999'],
    [9999, '9,999'],
    [10_000, '10.0 k'],
    [16_260, '16.3 k'],
    [999_499, '999 k'],
    [999_500, '1.00 M'],
    [3_339_000_000, '3.34 G'],
    [13.14, '13.1'],
    [0.4286, '0.43'],
    [0.0012, '<0.01'],
    [1234.4, '1,234'],
    [9999.7, '10.0 k'],
    [-12, '−12'],
    [-16_260, '−16.3 k'],
  ])('%d is %s', (v, text) => expect(count(v)).toBe(t(text)));

  test('absent is an en dash, never 0 or NaN', () => {
    for (const f of [count, rate, percent, seconds, duration, bytes])
      for (const v of [null, undefined, NaN, Infinity]) expect(f(v)).toBe('–');
  });
});

describe('rate', () => {
  test.each([
    [0, '0'],
    [1754.3, '1,754'],
    [99.96, '100'],
    [5.756, '5.76'],
    [0.0432, '0.0432'],
    [0.00001, '<0.0001'],
    [33_640, '33.6 k'],
    [9999.4, '9,999'],
    [9999.6, '10.0 k'],
  ])('%d is %s', (v, text) => expect(rate(v)).toBe(t(text)));
});

describe('percent', () => {
  test.each([
    [0.8057, '80.6 %'],
    [1, '100 %'],
    [0, '0 %'],
    [0.0004, '<0.1 %'],
    [0.0005, '0.1 %'],
    [0.9994, '99.9 %'],
    [0.99999, '>99.9 %'],
    [1.25, '125.0 %'],
  ])('%d is %s', (v, text) => expect(percent(v)).toBe(t(text)));
});

describe('seconds', () => {
  test.each([
    [0, '0 s'],
    [0.0278, '27.8 ms'],
    [0.00005, '0.0500 ms'],
    [0.9996, '1.00 s'],
    [7.583, '7.58 s'],
    [119.96, '120 s'],
    [134, `2 min${' '}14 s`],
    [179.7, '3 min 0 s'],
    [3599.8, '1 h 0 min'],
    [7500, '2 h 5 min'],
  ])('%d is %s', (v, text) => expect(seconds(v).replaceAll(' ', thin)).toBe(t(text)));
});

describe('duration', () => {
  test.each([
    [0.9, '0:00'],
    [7, '0:07'],
    [325.9, '5:25'],
    [3599.9, '59:59'],
    [46_140, '12 h 49'],
    [100_000, '27 h 46'],
  ])('%d is %s', (v, text) => expect(duration(v)).toBe(t(text)));
});

test('bytes', () => {
  expect(bytes(22)).toBe(t('22 B'));
  expect(bytes(41_300_000_000)).toBe(t('41.3 GB'));
  expect(bytes(999_600)).toBe(t('1.00 MB'));
});

test('a value goes by the unit of the catalogue', () => {
  expect(value('ratio', 0.5)).toBe(t('50.0 %'));
  expect(value('s', 0.5)).toBe(t('500 ms'));
  expect(value('tokens/s', 1754.3)).toBe('1,754');
  expect(value('1/s', 0.5)).toBe('0.500');
  expect(value('requests', 3)).toBe('3');
  expect(narrow('ratio', 0.5)).toBe('50%');
  expect(narrow('ratio', 0.763)).toBe('76.3%');
});

test('ticks of an axis have no trailing zeros', () => {
  expect(tick('ratio', 0.5)).toBe(t('50 %'));
  expect(tick('s', 30)).toBe(t('30 s'));
  expect(tick('s', 0)).toBe('0');
  expect(tick('s', 0.05)).toBe(t('50 ms'));
  expect(tick('tokens/s', 6000)).toBe('6,000');
  expect(tick('tokens/s', 16_000)).toBe(t('16 k'));
  expect(tick('1/s', 0.8)).toBe('0.8');
});

test('one worker, several workers', () => {
  expect(many(1, 'worker')).toBe('1 worker');
  expect(many(8, 'worker')).toBe('8 workers');
  expect(many(0, 'worker')).toBe('0 workers');
});

describe('text from outside', () => {
  test('control and bidi characters are shown, not obeyed', () => {
    expect(plain('a\u202eb\u0000c\n')).toBe('a\\u202eb\\u0000c\\u000a');
    expect(plain('Qwen3-32B <b>ü 模型')).toBe('Qwen3-32B <b>ü 模型');
  });
  test('it is cut at 200 characters', () => {
    expect(plain('x'.repeat(500))).toHaveLength(200);
    expect(plain('x'.repeat(500)).endsWith('…')).toBe(true);
    expect(plain('x'.repeat(200))).toBe('x'.repeat(200));
  });
});
