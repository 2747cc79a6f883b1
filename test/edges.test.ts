/**
 * Which samples a window owns, where workers are gone for good or silent for long: the same as a plain search through all
 * of them says, without a walk through the run.
 */
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { edges, know, knownEdges } from '../electron/engine/edge-queries.ts';
import { statistics, temporaryTables } from '../electron/engine/statistics.ts';
import type { RunFile } from '../electron/engine/timelines.ts';
import { seeded } from './fake-engine.ts';
import { answerOf, bodyOf, RunMaker, START, temporaryFolder } from './run-files.ts';

interface Sample {
  k: number;
  asked: number;
  answered: number;
}
interface Edge {
  n: number;
  w: number;
  a: number;
  b: number;
}

/** A run of `slots` seconds; `took(w, t)`: in which slots a worker answers, and in how many ms. Worker 0 answers first. */
function record(workers: number, slots: readonly number[], took: (w: number, t: number) => number | null) {
  const file = path.join(temporaryFolder(onTestFinished), 'run.sqlite');
  const run = new RunMaker(file, workers);
  const samples: Sample[][] = Array.from({ length: workers }, () => []);
  for (const t of slots) {
    const at = START + t * 1000;
    const answers = samples.flatMap((own, w) => {
      const ms = took(w, t);
      if (ms === null) return [];
      own.push({ k: t * 4096 + w, asked: at, answered: at + ms });
      return [answerOf(w, at + ms / 2, bodyOf([{ values: { running: 1, generation_tokens: 10 * t } }]), ms)];
    });
    run.tick(t, at, answers);
  }
  run.store.close(START);
  const db = new Database(file, { readonly: true });
  onTestFinished(() => void db.close());
  return { db, samples };
}

const parametersOf = (windows: readonly (readonly [number, number])[]) => ({
  ...{ n: 0, grace: 7000, windows: JSON.stringify(windows) },
});

/** docs/metrics.md, "Edges of a window", word by word. */
function searched(samples: readonly Sample[][], windows: readonly (readonly [number, number])[]): Edge[] {
  return samples.flatMap((own, w) => {
    let before = -1;
    return windows.map(([begin, end], n) => {
      const a = own.findLast((s) => s.answered <= begin)?.k ?? -1;
      const next = own.find((s) => s.asked >= end);
      const wasThere = a !== -1 || next === undefined || next !== own[0];
      const b = wasThere ? (next ?? own.at(-1)!).k : -1;
      const found = { n, w, a: Math.max(a, before), b };
      before = b;
      return found;
    });
  });
}

const sorted = (rows: readonly Edge[]) =>
  rows.map(({ n, w, a, b }) => ({ n, w, a, b })).toSorted((x, y) => x.w - y.w || x.n - y.n);

test.each([1, 2, 3, 4, 5, 6])('edges are those of a search through all samples, seed %i', (seed) => {
  const draw = seeded(seed);
  const whole = (below: number) => Math.floor(draw() * below);
  const workers = 2 + whole(4);
  const length = 900;
  // a laptop that slept for minutes
  const asleep = 100 + whole(600);
  const slots = Array.from({ length }, (_, t) => t).filter((t) => t < asleep || t > asleep + 150);
  /** Stretches in which a worker answers, from rarely to nearly always. */
  const shares = Array.from({ length: workers }, () => {
    let share = 1;
    return slots.map(() => {
      if (draw() < 0.01) share = [0, 0, 0.05, 0.5, 0.97, 1][whole(6)]!;
      return share;
    });
  });
  const { db, samples } = record(workers, slots, (w, t) => {
    if (t === 0) return w === 0 ? 10 : null;
    // all are seen in the order of their numbers
    if (t < 10) return t >= w ? 10 : null;
    return draw() < shares[w]![slots.indexOf(t)]! ? [10, 300, 700, 990][whole(4)]! : null;
  });
  db.exec(temporaryTables);
  db.prepare(know).run();
  for (let i = 0; i < 60; i++) {
    const cuts = Array.from({ length: 5 }, () => START - 3000 + whole(length * 1000 + 9000)).sort(
      (x, y) => x - y,
    );
    const windows = cuts.slice(1).map((end, n) => [cuts[n]!, end] as const);
    const wanted = sorted(searched(samples, windows));
    expect(sorted(db.prepare(knownEdges).all(parametersOf(windows)) as Edge[])).toEqual(wanted);
    // what "why" shows stands alone
    if (i < 5) expect(sorted(db.prepare(edges).all(parametersOf(windows)) as Edge[])).toEqual(wanted);
  }
});

/** Counts the ticks and samples that statements go to. */
function counting(db: Database.Database) {
  let looked = 0;
  db.function('look', { deterministic: false }, () => {
    looked++;
    return 1;
  });
  db.exec(temporaryTables);
  for (const table of ['tick', 'sample'])
    db.exec(`CREATE TEMP VIEW ${table} AS SELECT * FROM main.${table} WHERE look()`);
  return async (work: () => unknown): Promise<number> => {
    looked = 0;
    await work();
    return looked;
  };
}

/** As the reading thread has it. */
const runOf = (db: Database.Database, workers: number): RunFile => ({
  all: <Row>(sql: string, params: Record<string, unknown> = {}): Row[] => {
    const statement = db.prepare(sql);
    if (statement.reader) return statement.all(params) as Row[];
    statement.run(params);
    return [];
  },
  rows: (sql, params) => db.prepare(sql).raw().all(params) as (number | null)[][],
  ...{ workers, intervalMs: 1000, timeoutMs: 5000, startedAt: START },
  memo: (_key, make) => make(),
  breathe: () => Promise.resolve(),
});

test('neither a worker that is gone nor a gap of hours costs a walk through the run', async () => {
  const length = 6000;
  const slots = Array.from({ length }, (_, t) => t);
  const { db } = record(4, slots, (w, t) => {
    if (w === 1) return t < 200 ? 10 : null;
    if (w === 2) return t < 500 || t > 5500 ? 10 : null;
    // asked for before a window's end, and then silent
    if (w === 3) return t <= 3000 || t > 5000 ? 10 : null;
    return 10;
  });
  const costOf = counting(db);
  const knows = () => db.prepare(know).run();
  // looked for once ...
  expect(await costOf(knows)).toBeGreaterThan(length - 200);
  // ... and then only in what came since
  expect(await costOf(knows)).toBeLessThan(50);
  const run = runOf(db, 4);
  const metrics = ['generation_tokens', 'running'];
  for (const at of [150, 210, 505, 2999, 3001, 4000, 5490, 5990]) {
    const [from, to] = [START + at * 1000 - 20_500, START + at * 1000 + 500];
    const cost = await costOf(() => db.prepare(knownEdges).all(parametersOf([[from, to]])));
    expect(cost, `edges at ${at}`).toBeLessThan(2500);
    const all = await costOf(() => statistics(run, { run: '', metrics, from, to }));
    expect(all, `statistics at ${at}`).toBeLessThan(4500);
  }

  // what was counted in a gap belongs to the window in which it begins, and to no other
  const times = [480, 900, 4000, 5400, 5600].map((t) => START + t * 1000 + 500);
  const deltas: (number | null)[][] = [];
  let previous: { from: number; to: number } | null = null;
  for (const [i, from] of times.slice(0, -1).entries()) {
    const to = times[i + 1]!;
    const [tokens] = await statistics(run, { run: '', metrics, from, to, previous });
    deltas.push(tokens!.each.map((e) => e.delta));
    previous = { from, to };
  }
  expect(deltas).toEqual([
    [4210, null, 50_210, 4210],
    [31_000, null, null, 41_000],
    [14_000, null, null, 4000],
    [2000, null, 1000, 2000],
  ]);
});
