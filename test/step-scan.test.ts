/**
 * Long stretches are read sparsely: what is found must be what all rows give. Random rests and work, long and short, with
 * failing scrapes, an endpoint that is gone for good and work too short to be seen.
 */
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { outagesBetween } from '../electron/engine/queries.ts';
import { StepScan } from '../electron/engine/step-scan.ts';
import { slotsThatMatter, WHOLE_UP_TO } from '../electron/engine/step-slots.ts';
import { defaultSettings } from '../electron/engine/steps.ts';
import type { RunFile } from '../electron/engine/timelines.ts';
import { seeded } from './fake-engine.ts';
import { answerOf, bodyOf, RunMaker, START, temporaryFolder } from './run-files.ts';

const WORKERS = 5;
const LENGTH = 1500;
/** No timer fires on the millisecond. */
const tickAt = (t: number) => START + t * 1000 + ((t * 37) % 41);

/** A run file read without the thread: the scan is asked by itself. */
function opened(file: string): RunFile {
  const db = new Database(file, { readonly: true });
  onTestFinished(() => void db.close());
  return {
    all: <Row>(sql: string, params: Record<string, unknown> = {}) => db.prepare(sql).all(params) as Row[],
    rows: (sql, params) => db.prepare(sql).raw().all(params) as (number | null)[][],
    workers: WORKERS,
    intervalMs: 1000,
    timeoutMs: 5000,
    startedAt: START,
    memo: (_key, make) => make(),
    breathe: () => Promise.resolve(),
  };
}

function randomRun(seed: number): RunFile {
  const random = seeded(seed);
  const file = path.join(temporaryFolder(onTestFinished), `${seed}.sqlite`);
  const run = new RunMaker(file, WORKERS);
  const tokens = new Array<number>(WORKERS).fill(1000);
  let [works, until] = [false, 20];
  const ends = new Array<number>(WORKERS).fill(0);
  for (let t = 0; t < LENGTH; t++) {
    if (t >= until) {
      works = !works;
      // some rests are as long as a training phase, some shorter than the shortest break
      until = t + 1 + Math.floor(random() ** 2 * (works ? 80 : 150));
      for (let w = 0; w < WORKERS; w++) ends[w] = until - Math.floor(random() * 10);
    }
    const answers = [];
    const misses = [];
    for (let w = 0; w < WORKERS; w++) {
      const busy = works && t < ends[w]!;
      const blip = !busy && random() < 0.003;
      if (busy || blip) tokens[w]! += 10;
      if (random() < 0.08 || (w === 4 && t > 900)) {
        const reason = w === 4 && t > 900 ? ('refused' as const) : ('timeout' as const);
        misses.push({ endpoint: w, reason, sentence: 'said nothing.', asked: true });
        continue;
      }
      const values = {
        running: busy ? 1 + Math.floor(random() * 9) : 0,
        waiting: 0,
        generation_tokens: tokens[w]!,
        sleep_level: works ? 0 : 1,
      };
      answers.push(answerOf(w, tickAt(t) + 20 + w, bodyOf([{ values }]), 10));
    }
    run.tick(t, tickAt(t), answers, misses);
  }
  run.store.close(START + LENGTH * 1000);
  return opened(file);
}

function foundIn(run: RunFile, slotsASlice: number) {
  const settings = defaultSettings(1000);
  const query = { settings: { idle: settings, sleep: settings }, known: { idle: 0, sleep: 0 }, ended: true };
  const scan = new StepScan(run, query.settings, slotsASlice);
  for (;;) {
    const { slot, slots, idle, sleep } = scan.next(run, query);
    if (slot >= slots)
      return { idle: [...idle.final, ...idle.pending], sleep: [...sleep.final, ...sleep.pending] };
  }
}

/** Slot by slot, as while it is recorded: nothing of what comes later is there yet. */
function foundLive(run: RunFile, length: number) {
  const settings = defaultSettings(1000);
  const query = { settings: { idle: settings, sleep: settings }, known: { idle: 0, sleep: 0 }, ended: false };
  let [slot, at] = [0, START];
  const upToNow: RunFile = {
    ...run,
    all: <Row>(sql: string, params?: Record<string, unknown>) => {
      if (sql === 'SELECT max(t) AS t FROM tick') return [{ t: slot }] as Row[];
      if (sql !== outagesBetween) return run.all<Row>(sql, params);
      const all = run.all<{ began: number; ended: number }>(sql, params);
      return all.filter((o) => o.began <= at).map((o) => ({ ...o, ended: Math.min(o.ended, at) })) as Row[];
    },
  };
  const scan = new StepScan(upToNow, query.settings);
  for (; slot < length; slot++) {
    at = tickAt(slot);
    scan.next(upToNow, query);
  }
  slot = length - 1;
  const { idle } = scan.next(upToNow, { ...query, ended: true });
  return [...idle.final, ...idle.pending];
}

test.each([1, 2])('random run %i: live is as afterwards, also when a worker is gone for good', (seed) => {
  const run = randomRun(seed);
  expect(foundLive(run, LENGTH)).toEqual(foundIn(run, WHOLE_UP_TO).idle);
});

test('a server that dies at work is given up while the run goes on', () => {
  const file = path.join(temporaryFolder(onTestFinished), 'dead.sqlite');
  const run = new RunMaker(file, 2);
  for (let t = 0; t < 60; t++) {
    const busy = Number((t > 4 && t < 15) || (t > 34 && t < 45));
    const body = bodyOf([{ values: { running: busy } }]);
    const dead = t >= 10;
    run.tick(
      t,
      tickAt(t),
      (dead ? [0] : [0, 1]).map((e) => answerOf(e, tickAt(t) + 20, body, 10)),
      dead ? [{ endpoint: 1, reason: 'refused', sentence: 'refused.', asked: true }] : [],
    );
  }
  run.store.close(START + 60_000);
  const steps = foundIn(opened(file), 3600).idle;
  expect(steps.map((s) => s.to === null)).toEqual([false, false]);
  expect(steps[0]!.to! - START).toBeLessThan(16_000);
  expect(foundLive(opened(file), 60)).toEqual(steps);
});

test('a worker that is not in its endpoint’s answers any more is given up', () => {
  const file = path.join(temporaryFolder(onTestFinished), 'absent.sqlite');
  const run = new RunMaker(file, 1);
  for (let t = 0; t < 60; t++) {
    const busy = Number((t > 4 && t < 15) || (t > 34 && t < 45));
    const engines = [{ engine: '0', values: { running: busy } }];
    // engine 1 dies at work
    if (t < 10) engines.push({ engine: '1', values: { running: busy } });
    run.tick(t, tickAt(t), [answerOf(0, tickAt(t) + 20, bodyOf(engines), 10)]);
  }
  run.store.close(START + 60_000);
  const steps = foundIn(opened(file), 3600).idle;
  expect(steps.map((s) => s.to === null)).toEqual([false, false]);
  expect(steps[0]!.to! - START).toBeLessThan(16_000);
  expect(foundLive(opened(file), 60)).toEqual(steps);
});

test.each([1, 2, 3, 4, 5, 6])('random run %i: sparse is whole', (seed) => {
  const run = randomRun(seed);
  const whole = foundIn(run, WHOLE_UP_TO);
  expect(whole.idle.length).toBeGreaterThan(5);
  expect(foundIn(run, 3600)).toEqual(whole);
  expect(foundIn(run, 400)).toEqual(whole);
  const read = slotsThatMatter(run, 0, LENGTH).reduce((n, [from, to]) => n + to - from + 1, 0);
  expect(read, 'and it is sparse').toBeLessThan(0.8 * LENGTH);
});
