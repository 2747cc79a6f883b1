/**
 * Every statistic of random runs against numpy: test/fixtures/statistics/make.py wrote the runs and what is expected of
 * them, and shares no code with the engine. The runs go through the real book, store and SQL.
 */
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, expect, onTestFinished, test } from 'vitest';
import type { Aggregate, DeltaStatistics } from '../electron/engine/api.ts';
import { answerOf, bodyOf, readerFor, RunMaker, START, temporaryFolder } from './run-files.ts';

interface Expected {
  samples: Aggregate;
  workers: Aggregate;
  each: (Omit<Aggregate, 'n'> & {
    n: number;
    own: number | null;
    part?: number | null;
    whole?: number | null;
    deltas?: DeltaStatistics;
  })[];
  /** Of counters. */
  deltas?: DeltaStatistics;
  pooled?: number | null;
  coverage: number | null;
}
interface RandomRun {
  ticks: {
    t: number;
    at: number;
    answers: { w: number; sent: number; took: number; values: Record<string, number> }[];
  }[];
  windows: [number, number][];
  expected: Record<string, Expected>[];
}

const { runs } = JSON.parse(
  fs.readFileSync(path.join(import.meta.dirname, 'fixtures/statistics/statistics.json'), 'utf8'),
) as { runs: RandomRun[] };
const keys = ['mean', 'min', 'max', 'p50', 'p95', 'sum', 'n'] as const;
const deltaKeys = ['mean', 'min', 'max', 'p50', 'p95'] as const;

/** Equal up to the last bits: sums are added up in another order. */
function equal(found: number | null, wanted: number | null, what: string): void {
  if (wanted === null || found === null) expect(found, what).toBe(wanted);
  else
    expect(Math.abs(found - wanted), `${what}: ${found}, numpy ${wanted}`).toBeLessThanOrEqual(
      1e-9 * Math.max(1, Math.abs(wanted)),
    );
}

const reader = readerFor(afterAll);

test('what is compared holds every kind of case', () => {
  const all = runs.flatMap((r) => r.expected.flatMap((e) => Object.values(e)));
  for (const n of [0, 1, 2]) expect(all.some((e) => e.samples.n === n)).toBe(true);
  expect(all.some((e) => e.coverage !== null && e.coverage < 0.5)).toBe(true);
  expect(all.some((e) => e.pooled === null)).toBe(true);
  expect(all.length).toBeGreaterThan(400);
});

test.each(runs.map((run, i) => ({ i, ...run })))('run $i', async ({ i, ticks, windows, expected }) => {
  const file = path.join(temporaryFolder(onTestFinished), `random-${i}.sqlite`);
  const run = new RunMaker(file, 5);
  for (const tick of ticks)
    run.tick(
      tick.t,
      START + tick.at,
      tick.answers.map((a) =>
        answerOf(a.w, START + a.sent + a.took / 2, bodyOf([{ values: a.values }]), a.took),
      ),
    );
  run.store.close(START);
  for (const [n, [from, to]] of windows.entries()) {
    const before = windows[n - 1];
    const metrics = Object.keys(expected[n]!);
    const found = await reader.statistics(file, {
      run: '',
      metrics,
      from: START + from,
      to: START + to,
      previous: before ? { from: START + before[0], to: START + before[1] } : null,
    });
    for (const [m, metric] of metrics.entries()) {
      const [own, wanted] = [found[m]!, expected[n]![metric]!];
      const where = `window ${n}, ${metric}`;
      for (const key of keys) {
        equal(own.samples[key], wanted.samples[key], `${where}, over samples: ${key}`);
        equal(own.workers[key], wanted.workers[key], `${where}, over workers: ${key}`);
      }
      for (const key of deltaKeys)
        equal(own.deltas?.[key] ?? null, wanted.deltas?.[key] ?? null, `${where}, of deltas: ${key}`);
      if (wanted.pooled !== undefined) equal(own.pooled, wanted.pooled, `${where}, pooled`);
      equal(own.coverage, wanted.coverage, `${where}, coverage`);
      expect(own.each).toHaveLength(wanted.each.length);
      for (const [w, worker] of wanted.each.entries()) {
        for (const key of keys) equal(own.each[w]![key], worker[key], `${where}, over time of w${w}: ${key}`);
        for (const key of deltaKeys)
          equal(
            own.each[w]!.deltas?.[key] ?? null,
            worker.deltas?.[key] ?? null,
            `${where}, deltas of w${w}: ${key}`,
          );
        if (worker.whole !== undefined) {
          equal(own.each[w]!.ratio, worker.own, `${where}, ratio of w${w}`);
          equal(own.each[w]!.part, worker.part ?? null, `${where}, part of w${w}`);
        }
      }
    }
  }
});
