/**
 * Latency histograms by themselves: reading their lines, packing, merging, quantiles. Packed bytes are those of the LEB128
 * examples in the DWARF standard and on Wikipedia; quantiles those of Prometheus' own tests (promql/promqltest/testdata,
 * histograms.test), with its data.
 */
import { describe, expect, test } from 'vitest';
import { decode, encode, merge, percentilesOf, quantile } from '../electron/engine/histograms.ts';
import { parse } from '../electron/engine/parse.ts';

describe('packed', () => {
  const unpacked = (bytes: Uint8Array, buckets: number) => {
    const found = new Map<number, number[]>();
    const sums = new Map<number, Float64Array>();
    decode(bytes, (h) => {
      const sum = sums.get(h) ?? new Float64Array(buckets);
      sums.set(h, sum);
      return sum;
    });
    for (const [h, sum] of sums) found.set(h, [...sum]);
    return found;
  };

  test('as numbers of 7 bits', () => {
    // 2, 127, 128, 129, 12857 as in DWARF 4, figure 22; 624485 as in Wikipedia
    const counts = [0, 2, 127, 0, 128, 129, 12857, 624485];
    const bytes = encode([{ h: 130, counts }]);
    const hex = Buffer.from(bytes).toString('hex');
    expect(hex).toBe('8201' + '06' + '0102' + '007f' + '018001' + '008101' + '00b964' + '00e58e26');
    expect(unpacked(bytes, 8)).toEqual(new Map([[130, counts]]));
  });

  test('several behind each other, empty ones and great counts too', () => {
    const most = [Number.MAX_SAFE_INTEGER, 0, 2 ** 32];
    const bytes = encode([
      { h: 0, counts: [0, 0, 0] },
      { h: 1, counts: most },
      { h: 2, counts: [0, 0, 1] },
    ]);
    expect(unpacked(bytes, 3)).toEqual(
      new Map([
        [0, [0, 0, 0]],
        [1, most],
        [2, [0, 0, 1]],
      ]),
    );
    expect(encode([])).toHaveLength(0);
  });

  test('what is not wanted is passed over, and the counts are added', () => {
    const bytes = encode([
      { h: 5, counts: [1, 2, 3] },
      { h: 6, counts: [4, 0, 6] },
    ]);
    const sum = Float64Array.of(10, 10, 10);
    decode(bytes, (h) => (h === 6 ? sum : null));
    expect([...sum]).toEqual([14, 10, 16]);
  });

  test('bytes that are none of ours end', () => {
    for (let i = 0; i < 300; i++) {
      const bytes = Uint8Array.from({ length: i % 40 }, (_, j) => (i * 37 + j * j * 101) % 256);
      unpacked(bytes, 4);
    }
    unpacked(new Uint8Array(50).fill(255), 4);
    unpacked(Uint8Array.of(1, 255, 255, 255, 255, 255, 255, 127), 4);
    expect([...unpacked(Uint8Array.of(1, 1, 9, 5), 4).get(1)!]).toEqual([0, 0, 0, 0]);
  });
});

describe('a quantile', () => {
  // cumulative 50, 70, 110, 120 and 10, 20, 20, 30 there
  const positive = { bounds: [0.1, 0.2, 1], counts: Float64Array.of(50, 20, 40, 10) };
  const negative = { bounds: [-0.2, -0.1, 0.3], counts: Float64Array.of(10, 10, 0, 10) };
  test.each([
    [positive, 0, 0, false],
    [positive, 0.2, 0.048, false],
    [positive, 0.5, 0.15, false],
    [positive, 0.8, 0.72, false],
    [positive, 1, 1, true],
    [negative, 0.2, -0.2, false],
    [negative, 0.5, -0.15, false],
    [negative, 0.8, 0.3, true],
  ])('of %j at %d is %d', (histogram, q, value, atLeast) => {
    const got = quantile(histogram, q);
    expect(got.value).toBeCloseTo(value, 12);
    expect(got.atLeast).toBe(atLeast);
  });

  test('is nothing without observations or bounds', () => {
    const none = { value: null, atLeast: false };
    expect(quantile({ bounds: [1, 2], counts: new Float64Array(3) }, 0.5)).toEqual(none);
    expect(quantile({ bounds: [], counts: Float64Array.of(5) }, 0.5)).toEqual(none);
  });

  test('says which of the three lie in the last bucket', () => {
    expect(percentilesOf({ bounds: [1], counts: Float64Array.of(97, 3) })).toEqual({
      p50: 50 / 97,
      p95: 95 / 97,
      p99: 1,
      n: 100,
      atLeast: { p50: false, p95: false, p99: true },
    });
  });
});

describe('merged', () => {
  test('are counts on the bounds that all have', () => {
    const a = { bounds: [1, 2, 5, 10], counts: Float64Array.of(1, 2, 3, 4, 5) };
    const b = { bounds: [2, 10, 20], counts: Float64Array.of(10, 20, 30, 40) };
    // up to 2: 1 + 2 + 10; up to 10: 3 + 4 + 20; above: 5 + 30 + 40
    expect(merge([a, b])).toEqual({ bounds: [2, 10], counts: Float64Array.of(13, 27, 75) });
    expect(merge([b, a])).toEqual(merge([a, b]));
    expect(merge([a])).toEqual(a);
  });

  test('one that counted nothing takes no bound away', () => {
    const a = { bounds: [1, 2], counts: Float64Array.of(1, 2, 3) };
    const idle = { bounds: [7], counts: Float64Array.of(0, 0) };
    expect(merge([idle, a])).toEqual(a);
    expect(merge([idle]).counts.every((n) => n === 0)).toBe(true);
  });

  test('without a common bound there is a number of requests and no percentile', () => {
    const merged = merge([
      { bounds: [1], counts: Float64Array.of(1, 2) },
      { bounds: [3], counts: Float64Array.of(3, 4) },
    ]);
    expect(percentilesOf(merged)).toMatchObject({ p50: null, n: 10, atLeast: { p50: false } });
  });
});

describe('lines of buckets', () => {
  const ttft = 'vllm:time_to_first_token_seconds_bucket';
  const alive = 'vllm:num_requests_running{engine="0",model_name="m"} 1\n';
  const read = (lines: [name: string, labels: string, value: string][]) => {
    const body = lines.map(
      ([name, labels, value]) => `${name}{engine="0",model_name="m",${labels}} ${value}\n`,
    );
    const { workers, badLines } = parse(alive + body.join(''));
    expect(workers).toHaveLength(1);
    const found = Object.fromEntries(
      [...workers[0]!.buckets].map(([metric, { bounds, counts }]) => [metric, [bounds, [...counts]]]),
    );
    return { found, badLines };
  };
  const whole = (pid = '') =>
    [
      ['0.5', 1],
      ['2.0', 4],
      ['+Inf', 6],
    ].map(([le, n]): [string, string, string] => [ttft, `${pid}le="${le}"`, `${n}.0`]);
  const good = { ttft: ['[0.5,2]', [1, 4, 6]] };

  test('in order, out of order, with other spellings of a bound', () => {
    expect(read(whole())).toEqual({ found: good, badLines: 0 });
    expect(read(whole().reverse())).toEqual({ found: good, badLines: 0 });
    const spelled = whole().map(([name, labels, n]): [string, string, string] => [
      name,
      labels.replace('2.0', '2e0').replace('+Inf', 'Inf'),
      n,
    ]);
    expect(read(spelled)).toEqual({ found: good, badLines: 0 });
  });

  test('of several series the greatest, of several names the newest', () => {
    const other = whole('pid="7",').map(([n, l, v]): [string, string, string] => [
      n,
      l,
      v === '4.0' ? '5.0' : '0.0',
    ]);
    expect(read([...whole('pid="9",'), ...other])).toEqual({
      found: { ttft: ['[0.5,2]', [1, 5, 6]] },
      badLines: 0,
    });
    const [now, before] = ['inter_token_latency_seconds_bucket', 'time_per_output_token_seconds_bucket'].map(
      (name, i): [string, string, string][] => [
        [`vllm:${name}`, 'le="1"', String(3 + i)],
        [`vllm:${name}`, 'le="+Inf"', String(8 + i)],
      ],
    ) as [[string, string, string][], [string, string, string][]];
    const found = { inter_token_latency: ['[1]', [3, 8]] };
    expect(read([...now, ...before])).toEqual({ found, badLines: 0 });
    expect(read([...before, ...now])).toEqual({ found, badLines: 0 });
  });

  test.each([
    ['without +Inf', whole().slice(0, 2), 1],
    ['with a count that falls', [...whole().slice(0, 2), [ttft, 'le="+Inf"', '3']], 1],
    ['with half a request', [[ttft, 'le="0.5"', '0.5'], ...whole().slice(1)], 1],
    ['with fewer than none', [[ttft, 'le="0.1"', '-1'], ...whole()], 1],
  ] as [string, [string, string, string][], number][])(
    'one %s is left out, and counted',
    (_, lines, badLines) => {
      expect(read(lines)).toEqual({ found: {}, badLines });
    },
  );

  test('a line without a bound, or with a value that is none, is a bad line and no more', () => {
    const bad: [string, string, string][] = [
      [ttft, 'le="x"', '1'],
      [ttft, 'pid="1"', '1'],
      [ttft, 'le="7"', 'NaN'],
    ];
    expect(read([...bad, ...whole()])).toEqual({ found: good, badLines: 3 });
  });

  test('bounds that another body had do not stick', () => {
    expect(read(whole()).found).toEqual(good);
    expect(read(whole().slice(1)).found).toEqual({ ttft: ['[2]', [4, 6]] });
    expect(read(whole()).found).toEqual(good);
  });

  test('alone make no worker', () => {
    expect(parse(`${ttft}{le="1"} 2\n${ttft}{le="+Inf"} 2\n`)).toMatchObject({ workers: [], badLines: 0 });
  });
});
