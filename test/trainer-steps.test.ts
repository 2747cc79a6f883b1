/**
 * Steps out of the trainer's run on W&B: what its rows mean, and from the stand-in for the server into a run. The recorded
 * run began at START and lasted 338 s (fixtures/recorded/README.md).
 */
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { TrainerRun } from '../electron/engine/api.ts';
import { stepsOfRows, trainerRows } from '../electron/engine/trainer-steps.ts';
import { engineFor, type OnEnd } from './engines.ts';
import type { LeftRun } from './fake-wandb-runs.ts';
import { fakeKey, startFakeWandb } from './fake-wandb.ts';
import { writeRecording } from './recordings.ts';
import { START } from './run-files.ts';

const trainer = (more: Partial<TrainerRun> = {}): TrainerRun => ({
  ...{ server: 'http://127.0.0.1:1', entity: 'ent', project: 'rl', runId: 'train01' },
  ...{ key: 'train/global_step', offsetSeconds: 0, ...more },
});
const row = (step: unknown, seconds: unknown) => ({ 'train/global_step': step, _timestamp: seconds });

describe('rows', () => {
  it('say a step and when it ended; the first of each step counts, in the order of time', () => {
    const rows = [row(2, 30.5), row(1, 10), row(1, 12), row(2, 31), row('3', '40')];
    expect(trainerRows(rows, trainer())).toEqual([
      { number: 1, at: 10_000 },
      { number: 2, at: 30_500 },
      { number: 3, at: 40_000 },
    ]);
    expect(trainerRows([row(1, 10)], trainer({ offsetSeconds: -2.5 }))).toEqual([{ number: 1, at: 7500 }]);
  });

  it('that say neither are left out', () => {
    const rows = [
      row('NaN', 10),
      row(1.5, 10),
      row(-1, 10),
      row(1, 'NaN'),
      row(1, 'Infinity'),
      {},
      row(4, 20),
    ];
    expect(trainerRows(rows, trainer())).toEqual([{ number: 4, at: 20_000 }]);
  });

  it('of a trainer that began again at an earlier step stand as they came', () => {
    const rows = [row(1, 10), row(2, 20), row(1, 30), row(2, 40)];
    expect(trainerRows(rows, trainer()).map((r) => r.number)).toEqual([1, 2, 1, 2]);
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

async function beside(onEnd: OnEnd, left: LeftRun) {
  const wandb = await startFakeWandb();
  onEnd(() => wandb.stop());
  wandb.leave('ent', 'rl', 'train01', { displayName: 'grpo seed 3', ...left });
  const { engine, methods, folder } = await engineFor(onEnd);
  const file = path.join(folder, 'run.sqlite');
  writeRecording('rollouts', file);
  const { id } = engine.adopt(file);
  await methods.setWandbKey(wandb.url, fakeKey, false);
  return { wandb, methods, id, trainer: trainer({ server: wandb.url }) };
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
    expect(await methods.wandbRuns(wandb.url, null, 'rl')).toMatchObject([
      { runId: 'train01', name: 'grpo seed 3', state: 'finished', rows: 12 },
    ]);
    expect(await methods.wandbKeys(wandb.url, 'ent', 'rl', 'train01')).toContain('train/global_step');
    const asked = { ...trainer, offsetSeconds: 5 };
    const seen = await methods.previewTrainerSteps(id, asked);
    expect(seen).toMatchObject({ rows: 6, inside: 5, firstAt: START + 20_000, lastAt: START + 320_000 });
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

    const now = await methods.useTrainerSteps(id, asked);
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

  it('that is still going on tells whether its clock is ahead', async ({ onTestFinished }) => {
    const { methods, id, trainer } = await beside(onTestFinished, {
      ...{ history, state: 'running', heartbeatAt: START + 300_000 },
    });
    const seen = await methods.previewTrainerSteps(id, trainer);
    expect(seen.trainerAheadSeconds).toBeCloseTo(15, 3);
  });

  it('without a step in the recording, and one that is not there, are refused with a sentence', async ({
    onTestFinished,
  }) => {
    const { methods, id, trainer } = await beside(onTestFinished, { history });
    await expect(methods.useTrainerSteps(id, { ...trainer, offsetSeconds: 86_400 })).rejects.toThrow(
      'No step of that run ends in this recording. Do the clocks agree?',
    );
    await expect(methods.previewTrainerSteps(id, { ...trainer, runId: 'gone' })).rejects.toThrow(
      'There is no run gone in ent/rl.',
    );
    await expect(methods.previewTrainerSteps(id, { ...trainer, key: '' })).rejects.toThrow('A key');
    await expect(methods.previewTrainerSteps(id, { ...trainer, offsetSeconds: NaN })).rejects.toThrow(
      'The offset must be a number.',
    );
  });
});
