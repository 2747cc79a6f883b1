/**
 * Long stretches are read sparsely: what is found must be what all rows give. Random rests and work, long and short, with
 * failing scrapes, an endpoint that is gone for good and work too short to be seen.
 */
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { StepScan } from '../electron/engine/step-scan.ts';
import { slotsThatMatter, WHOLE_UP_TO } from '../electron/engine/step-slots.ts';
import { defaultSettings } from '../electron/engine/steps.ts';
import type { RunFile } from '../electron/engine/timelines.ts';
import { seeded } from './fake-engine.ts';
import { answerOf, bodyOf, RunMaker, START, temporaryFolder } from './run-files.ts';

const WORKERS = 5;
const LENGTH = 1500;

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
      answers.push(answerOf(w, START + t * 1000 + 20 + w, bodyOf([{ values }]), 10));
    }
    run.tick(t, START + t * 1000, answers, misses);
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

test.each([1, 2, 3, 4, 5, 6])('random run %i: sparse is whole', (seed) => {
  const run = randomRun(seed);
  const whole = foundIn(run, WHOLE_UP_TO);
  expect(whole.idle.length).toBeGreaterThan(5);
  expect(foundIn(run, 3600)).toEqual(whole);
  expect(foundIn(run, 400)).toEqual(whole);
  const read = slotsThatMatter(run, 0, LENGTH).reduce((n, [from, to]) => n + to - from + 1, 0);
  expect(read, 'and it is sparse').toBeLessThan(0.8 * LENGTH);
});
