/** Uploads of a run that is still recorded: what is added later, and what goes up by itself as steps end. */
import { describe, expect, it, vi } from 'vitest';
import { engineFor, fakes, recorded, ticked, urlsOf, type OnEnd } from './engines.ts';
import { numbersOf, soon, wandbFor, withWandb } from './uploading.ts';

describe.concurrent('of a run that is recorded', () => {
  /** Two workers, and marks as a trainer sets them. */
  const recordedRun = async (onEnd: OnEnd) => {
    const fake = await fakes(onEnd, { workers: 2 });
    const test = await engineFor(onEnd);
    const { id: cluster, recording: run } = await recorded(test, urlsOf(fake));
    await ticked(test, run, 2);
    const mark = async (step: number, ticks: number) => {
      await test.methods.mark({ step, kind: null, at: null, end: false, run });
      const seen = new Set(test.ticks.map((t) => t.t)).size;
      await ticked(test, run, seen + ticks);
    };
    return { ...(await withWandb(test, await wandbFor(onEnd), run)), mark, cluster };
  };

  it('a second upload adds the steps that ended since', async ({ onTestFinished }) => {
    const { mark, input, sent, history } = await recordedRun(onTestFinished);
    await mark(10, 3);
    await mark(11, 3);
    const choice = { source: 'mark' as const };
    // a step's numbers are final when everybody has answered after its end, or could have
    const first = await soon(
      async () => sent(await input({ choice })),
      (end) => end.rows > 0,
    );
    expect(numbersOf(history(first))).toEqual([10]);
    await mark(12, 3);
    const second = await soon(
      async () => sent(await input({ choice })),
      (end) => end.rows > 1,
    );
    expect(second.runId).toBe(first.runId);
    const lines = history(second);
    expect(numbersOf(lines)).toEqual([10, 11]);
    expect(JSON.parse(lines[1]!)).toMatchObject({ _step: 1, 'trainer/global_step': 11 });
  });

  // a live upload looks every 15 s
  it('live: ends where a step whose row is up becomes another one', async ({ onTestFinished }) => {
    const { mark, input, methods, stateOf, history, run, wandb } = await recordedRun(onTestFinished);
    await mark(1, 3);
    await methods.startUpload(await input({ live: true, choice: { source: 'mark' } }));
    await mark(2, 3);
    await mark(3, 3);
    const { runId } = await soon(stateOf, ({ rows }) => rows >= 1);
    await methods.setStepKind(run, 'mark', 0, 'eval');
    await mark(4, 3);
    const end = await vi.waitFor(async () => {
      const now = (await stateOf())!;
      expect(now.state).not.toBe('sending');
      return now;
    }, 60_000);
    expect(end).toMatchObject({ state: 'failed', problem: { kind: 'refused' } });
    // none is left out and none is sent that does not belong there
    expect(numbersOf(history(end))).toEqual([1, 2, 3].slice(0, end.rows));
    expect(wandb.stored('ent', 'rl', runId)).toMatchObject({ complete: false });
  }, 90_000);

  it('live: stays paused when the engine ends and begins', async ({ onTestFinished }) => {
    const { mark, input, methods, stateOf, close, folder, run } = await recordedRun(onTestFinished);
    await mark(1, 3);
    await methods.startUpload(await input({ live: true, choice: { source: 'mark' } }));
    await soon(stateOf, ({ url }) => url !== null);
    await methods.pauseUpload(run);
    await close();
    const again = await engineFor(onTestFinished, { dataFolder: folder, resume: true });
    const start = await again.methods.uploadStart(run);
    expect(start.upload).toMatchObject({ state: 'paused', live: true });
  });

  it('live: rows go up as steps end, and the run on W&B ends with the recording', async ({
    onTestFinished,
  }) => {
    const { mark, input, methods, stateOf, history, cluster, wandb } = await recordedRun(onTestFinished);
    await mark(1, 3);
    await methods.startUpload(await input({ live: true, choice: { source: 'mark' } }));
    await mark(2, 3);
    await mark(3, 3);
    const now = await soon(stateOf, (upload) => upload.rows >= 1);
    expect(now).toMatchObject({ state: 'sending', live: true });
    expect(wandb.stored('ent', 'rl', now.runId)).toMatchObject({ complete: false });
    await methods.stopRecording(cluster);
    const end = await soon(stateOf, (now) => now.state === 'done');
    expect(numbersOf(history(end))).toEqual([1, 2]);
    expect(wandb.stored('ent', 'rl', end.runId)).toMatchObject({ complete: true, exitcode: 0 });
  });
});
