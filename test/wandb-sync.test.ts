/**
 * One run on two ways to W&B: by our client, and by our export and the real `wandb sync`. What the stand-in has in the
 * end must be the same. The real wandb comes from PyPI (real-wandb/install.ts); where it cannot be had, a line says so.
 */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import type { WandbChoice } from '../electron/engine/api-wandb.ts';
import { metrics } from '../electron/engine/catalogue.ts';
import { folderFor, type OnEnd } from './engines.ts';
import { startFakeWandb } from './fake-wandb.ts';
import type { StoredRun } from './fake-wandb-runs.ts';
import { realWandb, surroundings, type RealWandb } from './real-wandb/install.ts';
import { writeRecording } from './recordings.ts';
import { parsed } from './wandb-rows/by-python.ts';
import { makeRun } from './wandb-rows/made-run.ts';
import { configOf, definitions, engineWith, inputFor, uploaded } from './wandb-rows/uploading.ts';

let real: RealWandb | null = null;
beforeAll(async () => {
  real = await realWandb(console.log);
}, 130_000);

const call = promisify(execFile);

/** What somebody sees of a run on W&B. Files that only the SDK writes of itself are left out. */
function shownOf(stored: StoredRun) {
  const { displayName, notes, group, jobType, tags, state, complete, exitcode, events, output } = stored;
  const media = [...stored.files].filter(([name]) => name.startsWith('media/'));
  const { values, own } = configOf(stored);
  return {
    ...{ displayName, notes, group, jobType, tags, state, complete, exitcode, events, output },
    history: stored.history.map(parsed),
    summary: parsed(stored.summary!),
    config: values,
    metrics: definitions(own.m),
    files: Object.fromEntries(media.map(([name, bytes]) => [name, bytes.toString('base64')])),
    uploaded: stored.uploaded.filter((name) => name.startsWith('media/')).sort(),
  };
}

async function bothWays(
  { python, wandb }: RealWandb,
  onEnd: OnEnd,
  make: (file: string) => void,
  choice: Partial<WandbChoice>,
) {
  const ours = await startFakeWandb();
  onEnd(() => ours.stop());
  const synced = await startFakeWandb();
  onEnd(() => synced.stop());
  const engine = await engineWith(onEnd, ours, make);
  const input = inputFor(engine.run, ours.url, choice);
  const { runId } = await uploaded(engine, input);

  const home = folderFor(onEnd);
  const { folder, rows } = await engine.methods.exportWandb(input, path.join(home, 'exports'));
  const exported = folder.split('-').at(-1)!;
  await call(python, [wandb, 'sync', folder], {
    cwd: home,
    env: surroundings(synced.url, home),
    timeout: 100_000,
  });
  return {
    rows,
    ours: shownOf(ours.stored('ent', 'rl', runId)!),
    synced: shownOf(synced.stored('ent', 'rl', exported)!),
  };
}

describe('the real wandb sync leaves on W&B what our client leaves', { timeout: 120_000 }, () => {
  it('a recording, with timeline plots', async ({ onTestFinished }) => {
    if (real === null) return;
    const make = (file: string) => writeRecording('rollouts', file);
    const { rows, ours, synced } = await bothWays(real, onTestFinished, make, { plots: true });
    expect(synced).toEqual(ours);
    expect([rows, ours.history.length]).toEqual([7, 7]);
    // 7 steps x 8 metrics x 2 plots
    expect(ours.uploaded).toHaveLength(112);
  });

  it('marked steps with their evaluations, all metrics', async ({ onTestFinished }) => {
    if (real === null) return;
    const make = (file: string) => makeRun(file, { seed: 5, steps: 30 });
    const choice: Partial<WandbChoice> = {
      source: 'mark',
      evals: true,
      metrics: metrics.map(({ id }) => id),
    };
    const { ours, synced } = await bothWays(real, onTestFinished, make, choice);
    expect(synced).toEqual(ours);
    expect(ours.history.length).toBeGreaterThan(20);
  });
});
