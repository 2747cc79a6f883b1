/** Statistics of long windows from buckets, against plain SQL over the raw rows of the same bucket borders. */
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { rollUpRun } from '../electron/engine/recording.ts';
import { RunStore } from '../electron/engine/store.ts';
import { startReader } from '../electron/engine/reader-thread.ts';
import { rowsOf } from './engines.ts';
import { makeLongRun } from './long-run.ts';
import { readerFor, START, temporaryFolder } from './run-files.ts';

const WORKERS = 64;
/** On borders of 10 s buckets; 40 minutes, of which 1 % is more than 10 s and less than 60. */
const from = START + 600_000;
const to = START + 3_000_000;
const query = { run: '', from, to, coarse: true };
const inWindow = `at BETWEEN ${from} AND ${to}`;

describe('64 workers over 40 minutes', () => {
  const ends: (() => void)[] = [];
  let file = '';
  beforeAll(async () => {
    file = path.join(
      temporaryFolder((end) => ends.push(end)),
      'run.sqlite',
    );
    makeLongRun(file, WORKERS, 3600);
    const store = RunStore.open(file);
    const reader = startReader((error) => console.error(error));
    await rollUpRun(store, reader.calls, Infinity);
    await reader.close();
    store.close(START);
  }, 300_000);
  afterAll(() => ends.forEach((end) => end()));

  it('a gauge: n, mean, extremes and coverage of all samples and of each worker', async () => {
    const reader = readerFor(onTestFinished);
    const [running] = await reader.statistics(file, { ...query, metrics: ['running'] });
    const [all] = rowsOf<Record<string, number>>(
      file,
      `SELECT count(*) AS n, avg(running) AS mean, min(running) AS min, max(running) AS max FROM sample WHERE ${inWindow}`,
    );
    expect(running!.bucketSeconds).toBe(10);
    expect(running!.samples).toMatchObject({ n: all!.n, min: all!.min, max: all!.max, p50: null, p95: null });
    expect(running!.samples.mean).toBeCloseTo(all!.mean!, 9);
    expect(running!.samples.n).toBe(2400 * WORKERS);
    expect(running!.coverage).toBe(1);
    const [w7] = rowsOf<{ mean: number }>(
      file,
      `SELECT avg(running) AS mean FROM sample WHERE ${inWindow} AND k % 4096 = 7`,
    );
    expect(running!.each[7]!.mean).toBeCloseTo(w7!.mean, 9);
    expect(running!.workers.n).toBe(WORKERS);
  });

  it('a counter and a ratio: what they counted, and the rate over time', async () => {
    const reader = readerFor(onTestFinished);
    const [tokens, hits] = await reader.statistics(file, {
      ...query,
      metrics: ['generation_tokens', 'prefix_cache_hit_rate'],
    });
    const grown = (column: string) =>
      rowsOf<{ w: number; d: number }>(
        file,
        `SELECT k % 4096 AS w, max(${column}) - min(${column}) AS d FROM sample
         WHERE at BETWEEN ${from} - 1000 AND ${to} GROUP BY w ORDER BY w`,
      ).map((r) => r.d);
    const generated = grown('generation_tokens');
    expect(tokens!.each.map((e) => e.delta)).toEqual(generated);
    const sum = generated.reduce((a, b) => a + b);
    expect(tokens!.samples.sum).toBe(sum);
    expect(tokens!.samples.mean).toBeCloseTo(sum / WORKERS / 2400, 9);
    const [parts, wholes] = [grown('prefix_hits'), grown('prefix_queries')];
    expect(hits!.each.map((e) => [e.part, e.whole])).toEqual(parts.map((p, w) => [p, wholes[w]]));
    expect(hits!.pooled).toBe(parts.reduce((a, b) => a + b) / wholes.reduce((a, b) => a + b));
    expect(hits!.samples).toMatchObject({ mean: null, min: null, max: null, p95: null });
    // exact: one sample more at its end
    const [exact] = await reader.statistics(file, {
      ...query,
      coarse: false,
      metrics: ['generation_tokens'],
    });
    expect(exact!.bucketSeconds).toBe(0);
    expect(exact!.samples.p95).not.toBeNull();
    expect(tokens!.samples.sum! / exact!.samples.sum!).toBeCloseTo(1, 2);
  });

  it('a short window is exact all the same', async () => {
    const reader = readerFor(onTestFinished);
    const short = { run: '', from, to: from + 60_000, metrics: ['running', 'generation_tokens'] };
    expect(await reader.statistics(file, { ...short, coarse: true })).toEqual(
      await reader.statistics(file, short),
    );
  });
});

it('a restart inside makes the deltas of a long window lower bounds', async () => {
  const file = path.join(temporaryFolder(onTestFinished), 'run.sqlite');
  makeLongRun(file, WORKERS, 1200);
  const store = RunStore.open(file);
  const restart = { kind: 'restart' as const, endpoint: 0, w: 3, detail: 'w3 restarted.' };
  store.writeEvents([{ t: 700, at: START + 700_000, ...restart }]);
  const reader = readerFor(onTestFinished);
  await rollUpRun(store, reader, Infinity);
  const [tokens, running] = await reader.statistics(file, {
    run: '',
    from: START,
    to: START + 1_200_000,
    coarse: true,
    metrics: ['generation_tokens', 'running'],
  });
  expect(tokens).toMatchObject({ bucketSeconds: 10, lowerBound: true });
  expect(tokens!.each.map((e) => e.resets)).toEqual(Array.from({ length: WORKERS }, (_, w) => +(w === 3)));
  expect(running!.lowerBound).toBe(false);
  await reader.release(file);
  store.close(START);
});
