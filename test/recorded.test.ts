/**
 * Two recordings of a real vLLM under RL rollouts against what its requests said of themselves: the scrapes go through
 * parser, book and store with their own times, and every figure of the recordings' README must come out of the rows.
 */
import fs from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { MetricStatistics } from '../electron/engine/api.ts';
import { columnIndex, rolledColumns } from '../electron/engine/catalogue.ts';
import { rollUpRun } from '../electron/engine/recording.ts';
import { unpack, vecId, WIDTHS } from '../electron/engine/vectors.ts';
import Database from 'better-sqlite3';
import { writeRecording } from './recordings.ts';
import { readerFor, START, temporaryFolder } from './run-files.ts';
import { counterSamples, samplesOf } from '../electron/engine/queries.ts';

const folder = path.join(import.meta.dirname, 'fixtures/recorded');

interface Truth {
  steps: { step: number; kind: string; begin: number; end: number }[];
  requests: {
    step: number;
    endpoint: number;
    prompt_tokens: number | null;
    completion_tokens: number | null;
    error?: string;
  }[];
  events: { t: number; endpoint: number; event: string }[];
}
const at = (second: number) => Math.round(START + second * 1000);

// the tables of test/fixtures/recorded/README.md: generation, prompt, hits, preemptions
const rollouts = [
  [
    [33496, 36188, 29056, 93],
    [27131, 33572, 26752, 83],
  ],
  [
    [36759, 38804, 31360, 112],
    [27549, 30956, 24448, 59],
  ],
  [
    [3367, 7412, 5248, 0],
    [4726, 6540, 4480, 0],
  ],
  [
    [27541, 22672, 17408, 80],
    [47405, 47088, 38912, 158],
  ],
  [[36558, 39676, 32128, 137], null],
  [
    [47779, 52728, 42624, 133],
    [42138, 55432, 44544, 118],
  ],
  [
    [37986, 35316, 28288, 131],
    [32597, 34444, 27520, 101],
  ],
];
const dp2 = [
  [16506, 38976, 30208, 0],
  [40833, 56672, 37760, 134],
  [39528, 56672, 35456, 123],
  [41202, 56672, 35840, 122],
];
const metrics = ['generation_tokens', 'prompt_tokens', 'prefix_cache_hit_rate', 'preemptions'];

describe.each([
  { name: 'rollouts', endpoints: 2 },
  { name: 'dp2', endpoints: 1 },
] as const)('$name', ({ name, endpoints }) => {
  let file = '';
  let truth: Truth;
  beforeAll(() => {
    const ends: (() => void)[] = [];
    file = path.join(
      temporaryFolder((end) => ends.push(end)),
      `${name}.sqlite`,
    );
    writeRecording(name, file);
    truth = JSON.parse(fs.readFileSync(path.join(folder, `${name}.truth.json`), 'utf8')) as Truth;
    return () => ends.forEach((end) => end());
  });

  test('tokens, hits and preemptions of every step and worker are those of the requests', async () => {
    const reader = readerFor(onTestFinished);
    for (const { step, begin, end } of truth.steps) {
      const all = await reader.statistics(file, { run: '', metrics, from: at(begin), to: at(end) });
      const [generation, prompt, hits, preemptions] = all as [
        MetricStatistics,
        MetricStatistics,
        MetricStatistics,
        MetricStatistics,
      ];
      expect(
        hits.each.map((w) => w.whole),
        'queries are prompt tokens',
      ).toEqual(prompt.each.map((w) => w.delta));
      const figures = generation.each.map((g, w) => [
        g.delta,
        prompt.each[w]!.delta,
        hits.each[w]!.part,
        preemptions.each[w]!.delta,
      ]);
      if (name === 'dp2') {
        const both = figures[0]!.map((n, i) => n! + figures[1]![i]!);
        expect(both, `step ${step}`).toEqual(dp2[step]);
        expect(generation.lowerBound).toBe(false);
        expect(generation.samples.sum).toBe(dp2[step]![0]);
      } else {
        figures.forEach((f, w) => {
          if (rollouts[step]![w]) expect(f, `step ${step}, worker ${w}`).toEqual(rollouts[step]![w]);
        });
        // only the step in which the engine was killed is a lower bound, and only for that worker
        expect(generation.lowerBound, `step ${step}`).toBe(step === 4);
        expect(generation.each.map((g) => g.resets)).toEqual(step === 4 ? [0, 1] : [0, 0]);
      }
      const usage = truth.requests.filter((r) => r.step === step);
      for (let e = 0; e < endpoints; e++) {
        const own = usage.filter((r) => r.endpoint === e);
        if (own.some((r) => r.error)) continue; // the killed server's requests have no usage
        const counted = endpoints === 1 ? generation.samples.sum : generation.each[e]!.delta;
        expect(counted).toBe(own.reduce((sum, r) => sum + (r.completion_tokens ?? 0), 0));
      }
    }
  });

  test('windows on bucket borders: rollups equal raw', async () => {
    const reader = readerFor(onTestFinished);
    const { RunStore } = await import('../electron/engine/store.ts');
    const store = RunStore.open(file);
    await rollUpRun(store, reader, Infinity);
    store.close(START);
    const db = new Database(file, { readonly: true });
    onTestFinished(() => void db.close());
    const last = db.prepare('SELECT max(t) FROM tick').pluck().get() as number;
    let compared = 0;
    for (const column of rolledColumns) {
      const counter = ![
        'running',
        'waiting',
        'kv_usage',
        'waiting_capacity',
        'waiting_deferred',
        'sleep_level',
      ].includes(column);
      const rows = db
        .prepare(
          counter ? counterSamples(column) : `SELECT k, at, ${column} AS v FROM (${samplesOf([[column]])})`,
        )
        .all({ first: 0, last }) as {
        k: number;
        at: number;
        v: number | null;
        delta?: number | null;
        ms?: number | null;
      }[];
      for (const width of WIDTHS) {
        const expected = new Map<string, { n: number; sum: number; ms: number; min: number; max: number }>();
        for (const row of rows) {
          if (!counter && row.v === null) continue;
          const key = `${Math.floor((row.at - START) / (width * 1000))} ${row.k % 4096}`;
          const sum = expected.get(key) ?? { n: 0, sum: 0, ms: 0, min: NaN, max: NaN };
          expected.set(key, sum);
          sum.n++;
          sum.sum += (counter ? row.delta : row.v) ?? 0;
          sum.ms += row.delta == null ? 0 : (row.ms ?? 0);
          if (row.v !== null) {
            sum.min = Number.isNaN(sum.min) ? row.v : Math.min(sum.min, row.v);
            sum.max = Number.isNaN(sum.max) ? row.v : Math.max(sum.max, row.v);
          }
        }
        const c = columnIndex(column);
        for (const [key, want] of expected) {
          const [b, w] = key.split(' ').map(Number) as [number, number];
          const row = db.prepare('SELECT * FROM vec WHERE id = ?').get(vecId(width, c, b));
          expect(row, `${column} ${width} s ${key}`).toBeDefined();
          const got = unpack(row as Parameters<typeof unpack>[0], 2);
          expect(got.n[w]).toBe(want.n);
          expect(got.ms[w]).toBe(want.ms);
          expect(got.sum[w]).toBeCloseTo(want.sum, 6);
          if (Number.isInteger(want.sum)) expect(got.sum[w]).toBe(want.sum);
          expect(got.min[w]).toBe(Math.fround(want.min));
          expect(got.max[w]).toBe(Math.fround(want.max));
          compared++;
        }
      }
    }
    expect(compared).toBeGreaterThan(500);
    // the whole run, from the widest buckets, is what the requests got (lost ones of the killed server aside)
    const total = await reader.generationTokens(file);
    const raw = (
      db.prepare(counterSamples('generation_tokens')).all({ first: 0, last }) as { delta: number | null }[]
    ).reduce((sum, r) => sum + (r.delta ?? 0), 0);
    expect(total).toBe(raw);
  });

  test('sample times are the middle of the scrape, so late answers make no false spikes', async () => {
    const reader = readerFor(onTestFinished);
    const { series } = await reader.timelines(file, {
      run: '',
      metrics: ['generation_tokens'],
      from: START,
      to: at(400),
      points: 1000,
    });
    const top = Math.max(...[...series[0]!.values].filter((v) => !Number.isNaN(v)));
    // with the time of the answer these would be 23,171 and 23,227 tok/s; times are kept in whole ms
    const right = name === 'rollouts' ? 5766 : 2207;
    expect(Math.abs(top / right - 1)).toBeLessThan(0.001);
  });
});
