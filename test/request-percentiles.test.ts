/**
 * Percentiles over requests out of histogram buckets: those of two recordings of a real vLLM, step by step, against what
 * Python makes of the first and last body (fixtures/latencies.py); and made-up runs with restarts, late families, other
 * bounds and breaks against what was put in.
 */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { RequestPercentiles } from '../electron/engine/api.ts';
import { bucketSources } from '../electron/engine/catalogue.ts';
import type { ParsedHistogram } from '../electron/engine/parse.ts';
import { know, makeEdges } from '../electron/engine/edge-queries.ts';
import { requestCounts, requestPercentiles } from '../electron/engine/request-percentiles.ts';
import { temporaryTables } from '../electron/engine/statistics.ts';
import { RunStore } from '../electron/engine/store.ts';
import type { RunFile } from '../electron/engine/timelines.ts';
import { WorkerBook } from '../electron/engine/workers.ts';
import { rowsOf } from './engines.ts';
import { writeRecording } from './recordings.ts';
import { answerOf, bodyOf, readerFor, RunMaker, START, temporaryFolder } from './run-files.ts';

const latencies = bucketSources.map(({ metric }) => metric);
const runIn = (folder: string) => path.join(folder, 'run.sqlite');
const newFile = () => runIn(temporaryFolder(onTestFinished));

/** A run file as the reading thread has it, with what a test needs of it. */
function opened(file: string): RunFile {
  const db = new Database(file, { readonly: true });
  onTestFinished(() => void db.close());
  db.exec(temporaryTables);
  const all = <Row>(sql: string, params: Record<string, unknown> = {}): Row[] => {
    const statement = db.prepare(sql);
    if (statement.reader) return statement.all(params) as Row[];
    statement.run(params);
    return [];
  };
  return { all } as RunFile;
}

/** Of windows that touch, made at once. */
function counted(file: string, windows: [number, number][]) {
  const run = opened(file);
  run.all(know);
  run.all(makeEdges, { n: 0, windows: JSON.stringify(windows), grace: 7000 });
  return windows.map((_, n) => requestCounts(run, n, [{ first: 0, last: 1_000_000 }]));
}

/** Cumulative, as a body has it, out of the counts within each bucket. */
const histogram = (bounds: number[], counts: number[]): ParsedHistogram => ({
  bounds: JSON.stringify(bounds),
  counts: counts.map((_, i) => counts.slice(0, i + 1).reduce((a, b) => a + b, 0)),
});

interface Reference {
  all: RequestPercentiles;
  each: RequestPercentiles[];
}
const close = (got: RequestPercentiles, want: RequestPercentiles, what: string) => {
  expect([got.n, got.atLeast], what).toEqual([want.n, want.atLeast]);
  for (const p of ['p50', 'p95', 'p99'] as const)
    if (want[p] === null) expect(got[p], `${what} ${p}`).toBeNull();
    else expect(got[p], `${what} ${p}`).toBeCloseTo(want[p], 9);
};

describe.each(['rollouts', 'dp2'] as const)('the recording %s', (name) => {
  const folder = path.join(import.meta.dirname, 'fixtures/recorded');
  const read = (file: string) => JSON.parse(fs.readFileSync(path.join(folder, file), 'utf8')) as unknown;
  const reference = (read('latencies.json') as Record<string, Record<string, Reference>[]>)[name]!;
  const { steps } = read(`${name}.truth.json`) as { steps: { begin: number; end: number }[] };

  test('every step has the percentiles that Python computes, over all and for each worker', async () => {
    const file = newFile();
    writeRecording(name, file);
    const reader = readerFor(onTestFinished);
    const spans = steps.map(({ begin, end }): [number, number] => [
      Math.round(START + begin * 1000),
      Math.round(START + end * 1000),
    ]);
    for (const [i, [from, to]] of spans.entries()) {
      const found = await reader.statistics(file, { run: '', metrics: latencies, from, to });
      const [own] = counted(file, [[from, to]]);
      for (const [m, metric] of latencies.entries()) {
        const want = reference[i]![metric]!;
        close(found[m]!.requests!, want.all, `step ${i}, ${metric}`);
        want.each.forEach((each, w) =>
          close(requestPercentiles(own!, metric, w)!, each, `step ${i}, ${metric}, w${w}`),
        );
        expect(found[m]!.requests!.n).toBe(found[m]!.each.reduce((sum, { whole }) => sum + (whole ?? 0), 0));
      }
    }
    expect(reference.every((step) => step.ttft!.all.n > 0)).toBe(true);
  });
});

test('other metrics, and those that come from buckets of time, have none', async () => {
  const file = newFile();
  const run = new RunMaker(file, 1);
  run.tick(0, START, [answerOf(0, START, bodyOf([{ values: { running: 1, ttft_count: 1, ttft_sum: 1 } }]))]);
  run.store.close(START);
  const reader = readerFor(onTestFinished);
  const query = { run: '', metrics: ['running', 'tokens_per_step', 'ttft'], from: START, to: START + 1000 };
  expect((await reader.statistics(file, query)).map((s) => s.requests)).toEqual([
    null,
    null,
    { p50: null, p95: null, p99: null, n: 0, atLeast: { p50: false, p95: false, p99: false } },
  ]);
  const day = { ...query, to: START + 86_400_000, coarse: true };
  expect((await reader.statistics(file, day)).map((s) => [s.bucketSeconds > 0, s.requests])).toEqual(
    Array(3).fill([true, null]),
  );
});

/** Writes one body a second, of one worker a list; null: no answer. Counts are those within each bucket. */
function write(
  run: RunMaker,
  from: number,
  bodies: ({ bounds: number[]; counts: number[]; created?: number } | 'bare' | null)[],
): void {
  bodies.forEach((body, i) => {
    const at = START + (from + i) * 1000;
    if (body === null) return run.tick(from + i, at, []);
    const values = { running: 1 };
    const worker =
      body === 'bare'
        ? { values, created: 1e9 }
        : {
            values: { ...values, ttft_count: body.counts.reduce((a, b) => a + b, 0) },
            created: body.created ?? 1e9,
            buckets: { ttft: histogram(body.bounds, body.counts) },
          };
    run.tick(from + i, at, [answerOf(0, at, bodyOf([worker]))]);
  });
}
/** Counts within each bucket of ttft over the whole run, by the histograms' own bounds. */
const totals = (file: string) =>
  counted(file, [[START - 1000, START + 1e6]])[0]!
    .get('ttft')!
    .map((h) => [h.bounds, [...h.counts]]);
const le = [0.1, 1];

describe('what counts', () => {
  test('of the first body nothing, then what grew; a gap belongs to the sample after it', () => {
    const file = newFile();
    const run = new RunMaker(file, 1);
    write(run, 0, [
      { bounds: le, counts: [100, 50, 7] },
      { bounds: le, counts: [100, 50, 7] },
      { bounds: le, counts: [101, 50, 7] },
      null,
      { bounds: le, counts: [103, 54, 7] },
    ]);
    run.store.close(START);
    expect(totals(file)).toEqual([[le, [3, 4, 0]]]);
    // rows only where something grew, those of the samples
    expect(rowsOf(file, 'SELECT k FROM bucket ORDER BY k')).toEqual([{ k: 2 * 4096 }, { k: 4 * 4096 }]);
    expect(rowsOf(file, 'SELECT * FROM histogram')).toEqual([{ h: 0, metric: 'ttft', bounds: '[0.1,1]' }]);
  });

  test('of a family that comes later, all of it', () => {
    const file = newFile();
    const run = new RunMaker(file, 1);
    write(run, 0, ['bare', { bounds: le, counts: [2, 3, 1] }, { bounds: le, counts: [2, 4, 1] }]);
    run.store.close(START);
    expect(totals(file)).toEqual([[le, [2, 4, 1]]]);
  });

  test('of an engine that starts within the run, its first sample too', () => {
    const file = newFile();
    const run = new RunMaker(file, 2);
    const body = (created: number, counts: number[]) =>
      bodyOf([{ created, values: { running: 1 }, buckets: { ttft: histogram(le, counts) } }]);
    const began = START / 1000;
    for (let t = 0; t < 5; t++) {
      const at = START + t * 1000;
      const old = answerOf(0, at, body(began - 100, [50, 50, 50]));
      // there from slot 3 on, made after slot 2 began by the server's clock, which says whole seconds
      const young = { ...answerOf(1, at + 600, body(began + 2.5, [t, 1, 0])), serverAt: at };
      run.tick(t, at, t < 3 ? [old] : [old, young]);
    }
    run.store.close(START);
    expect(totals(file)).toEqual([[le, [4, 1, 0]]]);
    // also where its first sample is the first that the window owns
    const [first] = counted(file, [[START + 2500, START + 3000]]);
    expect(first!.get('ttft')!.map((h) => [h.w, [...h.counts]])).toEqual([]);
    const [both] = counted(file, [[START + 2500, START + 4000]]);
    expect(both!.get('ttft')!.map((h) => [h.w, [...h.counts]])).toEqual([[1, [4, 1, 0]]]);
  });

  test('after a restart, what was counted since, also with other bounds', () => {
    const file = newFile();
    const run = new RunMaker(file, 1);
    write(run, 0, [
      { bounds: le, counts: [100, 50, 7] },
      { bounds: le, counts: [110, 50, 7] },
      // more than before in all: only the start time tells
      { bounds: le, counts: [200, 60, 10], created: 2e9 },
      { bounds: le, counts: [201, 60, 10], created: 2e9 },
      { bounds: [0.5], counts: [3, 2], created: 3e9 },
      { bounds: [0.5], counts: [3, 4], created: 3e9 },
    ]);
    run.store.close(START);
    expect(totals(file)).toEqual([
      [le, [211, 60, 10]],
      [[0.5], [3, 4]],
    ]);
  });

  test('a bucket that fell counts anew, with its histogram', () => {
    const file = newFile();
    const run = new RunMaker(file, 1);
    write(run, 0, [
      { bounds: le, counts: [100, 50, 7] },
      { bounds: le, counts: [0, 150, 8] },
    ]);
    run.store.close(START);
    expect(totals(file)).toEqual([[le, [0, 150, 8]]]);
  });

  test('other bounds without a restart count from the next sample on', () => {
    const file = newFile();
    const run = new RunMaker(file, 1);
    write(run, 0, [
      { bounds: le, counts: [100, 50, 7] },
      { bounds: [0.1], counts: [104, 57] },
      { bounds: [0.1], counts: [105, 57] },
      { bounds: le, counts: [106, 50, 8] },
    ]);
    run.store.close(START);
    expect(totals(file)).toEqual([
      [[0.1], [1, 0]],
      [le, [6, 0, 1]],
    ]);
  });

  test('nothing of a worker behind which several servers answer, earlier rows included', () => {
    const file = newFile();
    const run = new RunMaker(file, 1);
    write(run, 0, [
      { bounds: le, counts: [100, 50, 7], created: 2e9 },
      { bounds: le, counts: [101, 50, 7], created: 2e9 },
      { bounds: le, counts: [102, 50, 7], created: 1e9 },
      { bounds: le, counts: [109, 50, 7], created: 1e9 },
    ]);
    run.store.close(START);
    expect(rowsOf(file, 'SELECT k FROM bucket')).toEqual([{ k: 4096 }]);
    expect(totals(file)).toEqual([]);
  });
});

describe('a run that goes on after a break', () => {
  /** As the engine does after it was killed: the file as it is, a book out of what it remembers. */
  function goOn(file: string): RunMaker {
    const store = RunStore.open(file);
    const book = new WorkerBook(['http://host-0:8000/metrics'], store.remembered());
    return Object.assign(Object.create(RunMaker.prototype) as RunMaker, { store, book });
  }

  test.each([
    ['at once', 1, false],
    ['after a while', 4, false],
    ['after states were written', 4, true],
  ])('%s: nothing is lost and nothing twice', (_, killedAfter, states) => {
    const file = newFile();
    const bodies = [
      { bounds: le, counts: [100, 0, 0] },
      { bounds: le, counts: [100, 5, 0] },
      { bounds: le, counts: [160, 5, 9] },
      { bounds: le, counts: [160, 6, 9] },
      { bounds: le, counts: [170, 6, 9] },
      { bounds: le, counts: [170, 6, 300] },
    ];
    const before = new RunMaker(file, 1);
    write(before, 0, bodies.slice(0, 2));
    if (states) before.store.buckets.writeStates(before.book.bucketStates());
    write(before, 2, bodies.slice(2, killedAfter));
    // not closed: what a killed engine leaves
    onTestFinished(() => before.store.close(START));
    const after = goOn(file);
    write(after, killedAfter, bodies.slice(killedAfter));
    after.store.close(START);
    expect(totals(file)).toEqual([[le, [70, 6, 300]]]);
  });

  test('after a restart that was seen before the break', () => {
    const file = newFile();
    const before = new RunMaker(file, 1);
    write(before, 0, [{ bounds: le, counts: [9, 9, 9] }, { bounds: le, counts: [10, 9, 9] }, 'bare']);
    const at = START + 3000;
    before.tick(3, at, [answerOf(0, at, bodyOf([{ values: { running: 0 }, created: 2e9 }]))]);
    onTestFinished(() => before.store.close(START));
    const after = goOn(file);
    write(after, 4, [{ bounds: le, counts: [20, 20, 20], created: 2e9 }]);
    after.store.close(START);
    expect(totals(file)).toEqual([[le, [21, 20, 20]]]);
  });

  test('where buckets were not kept before, they count from the next sample on', () => {
    const file = newFile();
    const before = new RunMaker(file, 1);
    write(before, 0, [{ bounds: le, counts: [9, 9, 9] }]);
    before.store.close(START);
    // as a version without buckets left it
    const db = new Database(file);
    db.exec('DELETE FROM bucket; DELETE FROM bucket_state; DELETE FROM histogram;');
    db.close();
    const after = goOn(file);
    write(after, 1, [
      { bounds: le, counts: [19, 9, 9] },
      { bounds: le, counts: [19, 11, 9] },
    ]);
    after.store.close(START);
    expect(totals(file)).toEqual([[le, [0, 2, 0]]]);
  });
});

/** mulberry32, as in properties.test.ts. */
function random(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

test.each([1, 2, 3, 4, 5, 6])('increases over any split of a run add up, seed %i', (seed) => {
  const rnd = random(seed);
  const slots = 120;
  const file = newFile();
  const endpoints = 3;
  const run = new RunMaker(file, endpoints);
  const bounds = [0.1, 0.5, 2];
  const zero = [0, 0, 0, 0];
  const engines = Array.from({ length: endpoints }, () => ({ counts: zero, life: 0 }));
  /** What was seen of each last. */
  const seen: ((typeof engines)[number] | undefined)[] = [];
  /** What was seen to be counted, plainly: since the body before, or since the restart. */
  const want = [0, 0, 0, 0];
  for (let t = 0; t < slots; t++) {
    const at = START + t * 1000;
    const answers = engines.flatMap((engine, e) => {
      if (rnd() < 0.05) engines[e] = engine = { counts: zero, life: engine.life + 1 };
      const counts = engine.counts.map((n) => (rnd() < 0.4 ? n + Math.floor(rnd() * 300) : n));
      engines[e] = engine = { ...engine, counts };
      if (rnd() < 0.2) return [];
      const before = seen[e];
      const base = before?.life === engine.life ? before.counts : zero;
      if (before) counts.forEach((n, i) => (want[i]! += n - base[i]!));
      seen[e] = engine;
      const buckets = { ttft: histogram(bounds, counts) };
      return [
        answerOf(e, at, bodyOf([{ created: 1e9 + engine.life * 100, values: { running: 1 }, buckets }])),
      ];
    });
    run.tick(t, at, answers);
  }
  run.store.close(START);
  for (let i = 0; i < 20; i++) {
    const cuts = Array.from({ length: 1 + Math.floor(rnd() * 6) }, () => START + rnd() * slots * 1000);
    const edges = [START - 5000, ...cuts.sort((a, b) => a - b), START + (slots + 5) * 1000];
    const parts = counted(
      file,
      edges.slice(1).map((to, j): [number, number] => [edges[j]!, to]),
    );
    const sum = [0, 0, 0, 0];
    for (const part of parts) for (const h of part.get('ttft')!) h.counts.forEach((n, j) => (sum[j]! += n));
    expect(sum).toEqual(want);
  }
});
