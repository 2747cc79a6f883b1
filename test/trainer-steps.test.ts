/**
 * Steps out of the trainer's run on W&B: what its rows mean, and from the stand-in for the server into a run. The recorded
 * run began at START and lasted 338 s (fixtures/recorded/README.md).
 */
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Events, TrainerRun } from '../electron/engine/api.ts';
import {
  readRows,
  stepsOfRows,
  trainerRows,
  whyNone,
  type ReadRows,
} from '../electron/engine/trainer-steps.ts';
import type { HistoryRow } from '../electron/engine/wandb/graphql.ts';
import { engineFor, until, type OnEnd } from './engines.ts';
import type { LeftRun } from './fake-wandb-runs.ts';
import { fakeKey, startFakeWandb, type FakeWandb, type FakeWandbOptions } from './fake-wandb.ts';
import { writeRecording } from './recordings.ts';
import { START } from './run-files.ts';

const KEY = 'train/global_step';
const trainer = (more: Partial<TrainerRun> = {}): TrainerRun => ({
  ...{ server: 'http://127.0.0.1:1', entity: 'ent', project: 'rl', runId: 'train01' },
  ...{ key: KEY, offsetSeconds: 0, ...more },
});
const row = (step: unknown, seconds: unknown) => ({ [KEY]: step, _timestamp: seconds });
const read = (rows: HistoryRow[]): ReadRows => {
  const found: ReadRows = { said: [], noNumber: 0, noTime: 0 };
  readRows(found, rows, KEY);
  return found;
};
const told = (rows: HistoryRow[], offsetSeconds = 0) => trainerRows(read(rows).said, offsetSeconds);

describe('rows', () => {
  it('say a step and when it ended; the first of each step counts, in the order of time', () => {
    const rows = [row(2, 30.5), row(1, 10), row(1, 12), row(2, 31), row('3', '40')];
    expect(told(rows)).toEqual([
      { number: 1, at: 10_000 },
      { number: 2, at: 30_500 },
      { number: 3, at: 40_000 },
    ]);
    expect(told([row(1, 10)], -2.5)).toEqual([{ number: 1, at: 7500 }]);
  });

  it('that say no number or no time are left out and counted; nothing is taken for 0', () => {
    const noNumber = ['NaN', 1.5, -1, null, '', ' ', true, [], {}, 'Infinity', '0x10', 2 ** 53].map((v) =>
      row(v, 10),
    );
    const noTime = ['NaN', 'Infinity', null, '', undefined, 1e300].map((v) => row(1, v));
    const found = read([...noNumber, ...noTime, {}, row(4, 20), row(' 5 ', '2.5e1')]);
    expect(found).toEqual({
      ...{ noNumber: noNumber.length + 1, noTime: noTime.length },
      said: [
        { number: 4, seconds: 20 },
        { number: 5, seconds: 25 },
      ],
    });
  });

  it('that come late, or again after a restart, make no step', () => {
    // as a trainer logs that writes evaluations of a step into the next one
    const rows = [row(0, 10), row(1, 50), row(0, 80), row(2, 90), row(1, 120)];
    expect(stepsOfRows(told(rows), 0, 200_000)).toEqual([
      { number: 1, from: 10_000, to: 50_000 },
      { number: 2, from: 50_000, to: 90_000 },
    ]);
    const again = [row(1, 10), row(2, 20), row(1, 30), row(2, 40), row(3, 50)];
    expect(told(again).map((r) => [r.number, r.at])).toEqual([
      [1, 10_000],
      [2, 20_000],
      [3, 50_000],
    ]);
  });

  it('that give no step: why', () => {
    const why = (rows: HistoryRow[]) => whyNone(read(rows), told(rows), KEY, 100_000, 200_000);
    expect(why([])).toBe(`No row of that run has both "${KEY}" and a time (_timestamp). Choose another key.`);
    expect(why([row(0.5, 110), row(1.5, 120)])).toMatch(
      /^No row of that run holds a whole number under "train/,
    );
    expect(why([row(1, null), row(2, 'NaN')])).toMatch(/^No row of that run with ".*" holds a time/);
    expect(why([row(7, 110), row(7, 120)])).toMatch(/^Its rows tell of step 7 only;/);
    expect(why([row(1, 110), row(2, 110)])).toBe('All of its rows have the same time.');
    expect(why([row(1, 7400), row(2, 7410)])).toBe(
      'Its first row is 7,200 s after the end of this recording. Do the clocks agree?',
    );
    expect(why([row(1, 10), row(2, 40)])).toBe(
      'Its last row is 60 s before the beginning of this recording. Do the clocks agree?',
    );
    expect(why([row(1, 90), row(2, 150)])).toBe('None of its steps lies wholly in this recording.');
    const long = whyNone(read([]), [], 'k'.repeat(400), 0, 1);
    expect(long.length).toBeLessThan(200);
  });

  it('make steps from one to the next, of those that lie in the recording', () => {
    const rows = [5, 10, 20, 30, 45].map((at, number) => ({ number, at: at * 1000 }));
    expect(stepsOfRows(rows, 8000, 40_000)).toEqual([
      { number: 2, from: 10_000, to: 20_000 },
      { number: 3, from: 20_000, to: 30_000 },
    ]);
    expect(stepsOfRows(rows.slice(0, 1), 0, 100_000)).toEqual([]);
  });
});

async function beside(onEnd: OnEnd, left: LeftRun, options: FakeWandbOptions = {}) {
  const wandb = await startFakeWandb(options);
  onEnd(() => wandb.stop());
  wandb.leave('ent', 'rl', 'train01', { displayName: 'grpo seed 3', ...left });
  const { engine, methods, folder } = await engineFor(onEnd);
  const file = path.join(folder, 'run.sqlite');
  writeRecording('rollouts', file);
  const { id } = engine.adopt(file);
  await methods.setWandbKey(wandb.url, fakeKey, false);
  return { wandb, engine, methods, id, trainer: trainer({ server: wandb.url }) };
}

describe('the trainer’s run', () => {
  /** Steps 100 to 105, ended every 60 s from 20 s into the recording on, by a clock that is 5 s behind. */
  const history = Array.from({ length: 12 }, (_, i) => ({
    ...{ _step: i, _runtime: i, _timestamp: START / 1000 + 20 + 60 * Math.floor(i / 2) - 5 + (i % 2) },
    ...(i % 2 === 0 ? { 'train/global_step': 100 + i / 2 } : { 'train/loss': 0.5 }),
  }));

  it('is found, previewed with an offset, and its steps become the current ones', async ({
    onTestFinished,
  }) => {
    const { wandb, methods, id, trainer } = await beside(onTestFinished, { history });
    expect(await methods.wandbRuns(wandb.url, null, 'rl', null)).toMatchObject({
      runs: [{ runId: 'train01', name: 'grpo seed 3', state: 'finished', rows: 12 }],
      next: null,
    });
    expect(await methods.wandbKeys(wandb.url, 'ent', 'rl', 'train01')).toContain('train/global_step');
    const asked = { ...trainer, offsetSeconds: 5 };
    const seen = await methods.previewTrainerSteps(id, asked, 'look');
    expect(seen).toMatchObject({
      rows: 6,
      inside: 5,
      leftOut: 0,
      none: null,
      firstAt: START + 20_000,
      lastAt: START + 320_000,
    });
    expect(Math.abs(seen.serverAheadSeconds!)).toBeLessThan(30);
    expect(seen.trainerAheadSeconds).toBeNull();
    expect(seen.set.steps.map((s) => [s.number, s.from - START, s.to! - START])).toEqual([
      [101, 20_000, 80_000],
      [102, 80_000, 140_000],
      [103, 140_000, 200_000],
      [104, 200_000, 260_000],
      [105, 260_000, 320_000],
    ]);
    expect((await methods.steps(id, null)).source).not.toBe('wandb');

    const now = await methods.useTrainerSteps(id, asked, 'use');
    expect(now).toMatchObject({ source: 'wandb', chosen: true, settings: { trainer: asked } });
    expect(now.counts.wandb).toBe(5);
    const { steps, series } = await methods.scalars({
      ...{ run: id, source: null, metrics: ['generation_tokens'], workers: [], quick: false },
    });
    expect(steps.map((s) => s.number)).toEqual([101, 102, 103, 104, 105]);
    expect(series[0]!.samples.sum.every((v) => v >= 0)).toBe(true);
    // read only: nothing was asked of W&B that changes anything
    expect(
      wandb.requests().every((r) => !['UpsertBucket', 'CreateRunFiles'].includes(r.operation ?? '')),
    ).toBe(true);
  });

  it('that is still going on tells whether its clock is ahead, whatever offset is given', async ({
    onTestFinished,
  }) => {
    const { methods, id, trainer } = await beside(onTestFinished, {
      ...{ history, state: 'running', heartbeatAt: START + 300_000 },
    });
    for (const offsetSeconds of [0, 5, -90]) {
      const seen = await methods.previewTrainerSteps(id, { ...trainer, offsetSeconds }, 'look');
      expect(seen.trainerAheadSeconds).toBeCloseTo(15, 3);
    }
  });

  it('without a step in the recording, and one that is not there, are refused with a sentence', async ({
    onTestFinished,
  }) => {
    const { methods, id, trainer } = await beside(onTestFinished, { history });
    const look = (more: Partial<TrainerRun>) =>
      methods.previewTrainerSteps(id, { ...trainer, ...more }, 'look');
    const late = { ...trainer, offsetSeconds: 86_400 };
    // the recording lasted 338 s, and the first row is 15 s after its beginning
    const sentence = /^Its first row is 86,07\d s after the end of this recording\. Do the clocks agree\?$/;
    expect((await look(late)).none).toMatch(sentence);
    await expect(methods.useTrainerSteps(id, late, 'use')).rejects.toThrow(sentence);
    await expect(look({ runId: 'gone' })).rejects.toThrow('There is no run gone in ent/rl.');
    await expect(look({ key: '' })).rejects.toThrow('A key');
    await expect(look({ offsetSeconds: NaN })).rejects.toThrow('The offset must be a number.');
    await expect(methods.previewTrainerSteps(id, trainer, '')).rejects.toThrow('The name of the task');
  });

  it('of other teams can be had, and all runs of a project', async ({ onTestFinished }) => {
    const users = [{ key: fakeKey, username: 'user', entity: 'ent', teams: ['team'] }];
    const { wandb, methods } = await beside(onTestFinished, { history }, { users });
    for (let i = 0; i < 60; i++) wandb.leave('team', 'rl', `run${i}`, { history: [{ _step: 0 }] });
    const first = await methods.wandbRuns(wandb.url, 'team', 'rl', null);
    const rest = await methods.wandbRuns(wandb.url, 'team', 'rl', first.next);
    expect([first.runs.length, rest.runs.length, rest.next]).toEqual([50, 10, null]);
    expect(new Set([...first.runs, ...rest.runs].map((r) => r.runId)).size).toBe(60);
  });
});

describe('a long run', () => {
  const pages = (wandb: FakeWandb) =>
    wandb.requests().filter(({ operation }) => operation === 'SampledHistoryPage').length;
  const rowsFrom = (n: number, step: (i: number) => number) =>
    Array.from({ length: n }, (_, i) => ({
      ...{ _step: step(i), _timestamp: START / 1000 + 20 + i * 0.02, [KEY]: i >> 8 },
    }));

  it('is read once for looking and taking, and tells how far it is', async ({ onTestFinished }) => {
    const { wandb, engine, methods, id, trainer } = await beside(onTestFinished, {
      history: rowsFrom(2500, (i) => i),
    });
    const told: Events['progress'][] = [];
    engine.on('progress', (data) => void (data.task === 'look' && told.push(data)));
    const seen = await methods.previewTrainerSteps(id, trainer, 'look');
    expect([seen.rows, seen.inside, pages(wandb)]).toEqual([10, 9, 3]);
    expect(told.at(-1)).toEqual({ task: 'look', done: 2500, total: 2500 });
    expect(told[0]).toEqual({ task: 'look', done: 1000, total: 2500 });
    // another offset needs no other rows
    await methods.previewTrainerSteps(id, { ...trainer, offsetSeconds: 1 }, 'look');
    expect((await methods.useTrainerSteps(id, trainer, 'use')).counts.wandb).toBe(9);
    expect(pages(wandb)).toBe(3);
    // another key, and rows that came since
    await methods.previewTrainerSteps(id, { ...trainer, key: '_step' }, 'look');
    expect(pages(wandb)).toBe(6);
    wandb.leave('ent', 'rl', 'train01', { history: rowsFrom(600, (i) => i) });
    expect((await methods.previewTrainerSteps(id, trainer, 'look')).rows).toBe(3);
    // of a run that went on meanwhile what was seen is taken
    const before = pages(wandb);
    wandb.leave('ent', 'rl', 'train01', { history: rowsFrom(900, (i) => i), state: 'running' });
    expect((await methods.useTrainerSteps(id, trainer, 'use')).counts.wandb).toBe(2);
    expect(pages(wandb)).toBe(before);
  }, 30_000);

  it('is read no further once that is cancelled', async ({ onTestFinished }) => {
    const { wandb, methods, id, trainer } = await beside(onTestFinished, {
      history: rowsFrom(9000, (i) => i),
    });
    const control = new AbortController();
    const asked = methods.previewTrainerSteps(id, trainer, 'look', control.signal);
    await until(() => pages(wandb) === 2);
    control.abort();
    await expect(asked).rejects.toMatchObject({ kind: 'cancelled' });
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(pages(wandb)).toBeLessThanOrEqual(3);
  });

  it('is one of many rows, not of high numbers', async ({ onTestFinished }) => {
    const sparse = [0, 1, 2, 3].map((i) => ({
      ...{ _step: i * 1_000_000, _timestamp: START / 1000 + 20 + i * 60, [KEY]: i },
    }));
    const { wandb, methods, id, trainer } = await beside(onTestFinished, { history: sparse });
    expect(await methods.previewTrainerSteps(id, trainer, 'look')).toMatchObject({ rows: 4, inside: 3 });
    expect(pages(wandb)).toBe(1);
    wandb.inject('Run', { historyLineCountOff: 199_997 });
    await expect(methods.previewTrainerSteps(id, trainer, 'look')).rejects.toThrow(
      'That run has 200,001 rows; up to 200,000 are read.',
    );
  });
});
