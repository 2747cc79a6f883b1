/**
 * Uploads as the engine makes them, of a recorded run, to the strict stand-in for W&B: what goes on where, what needs a
 * new run, what is refused, and that the key stays where it belongs. What stands in the rows is in wandb-rows.test.ts.
 */
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Upload } from '../electron/engine/api.ts';
import { engineFor, folderFor, run as runCli, until, type OnEnd } from './engines.ts';
import { fakeKey } from './fake-wandb.ts';
import { numbersOf, recordedFile, soon, uploading, wandbFor } from './uploading.ts';

describe.concurrent('an upload', () => {
  it('sends a row a step, and has nothing to send after it', async ({ onTestFinished }) => {
    const { input, sent, history, wandb, methods, run } = await uploading(onTestFinished);
    const first = await sent(await input());
    expect(first).toMatchObject({ state: 'done', rows: 7, rowsTotal: 7, problem: null });
    expect(first.url).toBe(`${wandb.url}/ent/rl/runs/${first.runId}`);
    expect(numbersOf(history(first))).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(wandb.stored('ent', 'rl', first.runId)).toMatchObject({ exitcode: 0, state: 'finished' });
    const before = wandb.requests().length;
    const again = await sent(await input());
    expect(again).toMatchObject({ state: 'done', rows: 7, runId: first.runId });
    expect(wandb.requests().length).toBe(before);
    expect((await methods.planUpload(await input())).acked).toBe(7);
    expect((await methods.uploadStart(run)).target).toMatchObject({ project: 'rl', server: wandb.url });
  });

  it('goes on where it was before, though it went elsewhere meanwhile', async ({ onTestFinished }) => {
    const { input, sent, history } = await uploading(onTestFinished);
    const asked = await input();
    const first = await sent(asked);
    const other = { ...asked, target: { ...asked.target, project: 'rl2' } };
    const second = await sent({ ...other, anew: true });
    expect(second.runId).not.toBe(first.runId);
    const third = await sent(asked);
    expect(third).toMatchObject({ runId: first.runId, rows: 7, state: 'done' });
    expect(history(third)).toHaveLength(7);
  });

  it('becomes the run that a lost reply made', async ({ onTestFinished }) => {
    const { input, sent, wandb } = await uploading(onTestFinished);
    wandb.inject('UpsertBucket', { lost: 'after' }, 1);
    wandb.inject('UpsertBucket', { status: 403, body: { errors: [{ message: 'not now' }] } });
    const asked = await input();
    const first = await sent(asked);
    expect(first).toMatchObject({ state: 'failed', problem: { kind: 'permission' } });
    const second = await sent(asked);
    expect(second).toMatchObject({ state: 'done', rows: 7, runId: first.runId });
    expect(wandb.stored('ent', 'rl', first.runId)!.history).toHaveLength(7);
  });

  it('ends where steps whose rows are up become others amid it', async ({ onTestFinished }) => {
    const { input, sent, methods, run, wandb, stateOf } = await uploading(onTestFinished);
    const first = await sent(await input());
    expect(first.rows).toBe(7);
    await methods.setStepKind(run, 'idle', 2, 'eval');
    // asked to go on by somebody who saw the plan before that
    await methods.resumeUpload(run);
    const end = await soon(stateOf, ({ state }) => state !== 'sending');
    expect(end).toMatchObject({ state: 'failed', problem: { kind: 'refused' } });
    expect(end.problem!.message).toBe('Steps whose rows are on W&B have other edges, numbers or kinds now.');
    expect(wandb.stored('ent', 'rl', first.runId)!.history).toHaveLength(7);
  });

  it('begins once, however often it is asked for at once', async ({ onTestFinished }) => {
    const { input, methods, stateOf, wandb } = await uploading(onTestFinished);
    const asked = await input();
    const starts = await Promise.allSettled([1, 2, 3].map(() => methods.startUpload(asked)));
    expect(starts.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected']);
    const { runId } = await soon(stateOf, ({ state }) => state === 'done');
    expect(wandb.stored('ent', 'rl', runId)?.history).toHaveLength(7);
    expect(wandb.violations()).toEqual([]);
  });

  it('changes name, tags and notes of a run that is up, and leaves them alone otherwise', async ({
    onTestFinished,
  }) => {
    const { input, sent, wandb, methods } = await uploading(onTestFinished);
    const first = await sent(await input());
    const asked = await input();
    expect((await methods.planUpload(asked)).described).toBe(true);
    const target = { ...asked.target, name: 'other', tags: ['a'], notes: '', group: 'g2' };
    expect(await methods.planUpload({ ...asked, target })).toMatchObject({
      ...{ described: false, acked: 7, changed: null },
    });
    await sent({ ...asked, target: { ...target, notes: 'seen' } });
    const now = () => wandb.stored('ent', 'rl', first.runId);
    expect(now()).toMatchObject({ displayName: 'other', tags: ['a'], group: 'g2', notes: 'seen' });
    await sent({ ...asked, target });
    expect(now()).toMatchObject({ notes: '', state: 'finished', exitcode: 0 });
    expect(now()!.history).toHaveLength(7);
    const before = wandb.requests().length;
    await sent(await input());
    expect(wandb.requests().length).toBe(before);
  });

  it('needs a new run where something else is chosen, or steps are others', async ({ onTestFinished }) => {
    const { input, sent, history, methods, run } = await uploading(onTestFinished);
    const first = await sent(await input());
    const other = await input({ choice: { statistics: ['mean'] } });
    const changed = 'What goes up is chosen otherwise than before.';
    expect(await methods.planUpload(other)).toMatchObject({ changed, acked: 0 });
    await expect(methods.startUpload(other)).rejects.toThrow(`${changed} Upload it as a new run.`);
    const second = await sent({ ...other, anew: true });
    expect(second.runId).not.toBe(first.runId);
    expect(history(second)).toHaveLength(7);

    await methods.setStepKind(run, 'idle', 2, 'eval');
    const others = 'Steps whose rows are on W&B have other edges, numbers or kinds now.';
    const now = await input();
    expect((await methods.planUpload(now)).changed).toBe(others);
    await expect(methods.startUpload(now)).rejects.toThrow(others);
    const third = await sent({ ...now, anew: true });
    expect(numbersOf(history(third))).toEqual([0, 1, 3, 4, 5, 6]);
    const evals = await input({ anew: true, choice: { evals: true } });
    const fourth = history(await sent(evals));
    expect(numbersOf(fourth)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(Object.keys(JSON.parse(fourth[2]!) as object)).toContain(
      'eval/generation_metrics/generation_tokens/agg/mean',
    );
    expect(history(first)).toHaveLength(7);
  });

  it('is paused, goes on, is cancelled, and goes on later', async ({ onTestFinished }) => {
    const { input, methods, run, stateOf, wandb, history } = await uploading(onTestFinished);
    wandb.inject('file_stream', { status: 503, body: 'busy' }, 1);
    await methods.startUpload(await input());
    const waiting = await soon(stateOf, (now) => !!now.progress?.waiting);
    expect(waiting.progress!.waiting).toMatch(/busy|try again|again/);
    expect((await methods.pauseUpload(run)).state).toBe('paused');
    await expect(methods.startUpload(await input())).rejects.toThrow('being uploaded already');
    expect((await methods.cancelUpload(run)).state).toBe('cancelled');
    await methods.resumeUpload(run);
    const end = await soon(stateOf, (now) => now.state === 'done');
    expect(numbersOf(history(end))).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  it('of a run that was deleted on W&B needs a new one', async ({ onTestFinished }) => {
    const { input, sent, wandb, methods, run } = await uploading(onTestFinished);
    const first = await sent(await input());
    wandb.remove('ent', 'rl', first.runId);
    await methods.setStepKind(run, 'idle', 6, 'train'); // nothing new: it would be up to date
    const other = await input();
    const { upload } = await methods.uploadStart(run);
    expect(upload!.state).toBe('done');
    const anew = await sent({ ...other, anew: true });
    expect(anew).toMatchObject({ state: 'done', rows: 7 });
  });

  it('says what W&B says', async ({ onTestFinished }) => {
    const { input, sent, methods, wandb } = await uploading(onTestFinished);
    const nowhere = await input();
    const end = await sent({ ...nowhere, target: { ...nowhere.target, entity: 'nobody' } });
    expect(end).toMatchObject({ state: 'failed', problem: { kind: 'not-found' }, url: null, rows: 0 });
    expect(end.problem!.message).toContain('nobody');
    expect(end.problem!.advice).not.toBe('');
    const wrong = await methods.setWandbKey(wandb.url, 'y'.repeat(40), false);
    expect(wrong).toMatchObject({ key: null, user: null, problem: { kind: 'key' } });
    // the one from before is still there
    expect(await methods.wandbAccount(wandb.url)).toMatchObject({ key: 'memory', entities: ['ent'] });
    await expect(methods.setWandbKey(wandb.url, 'short', false)).rejects.toThrow('too short');
  });

  it('sends timeline plots last, where they are wanted', async ({ onTestFinished }) => {
    const { input, sent, history, wandb, methods } = await uploading(onTestFinished);
    const plots = await input({ choice: { plots: true, metrics: ['running', 'generation_tokens'] } });
    const plan = await methods.planUpload(plots);
    expect(plan.files).toBe(7 * 4);
    const end = await sent(plots);
    const { files, uploaded } = wandb.stored('ent', 'rl', end.runId)!;
    expect(end.failedFiles).toEqual([]);
    expect(uploaded).toHaveLength(28);
    const row = JSON.parse(history(end)[3]!) as Record<string, { path: string; size: number }>;
    const plot = row['generation_metrics/per_worker_generation_tokens']!;
    const bytes = files.get(plot.path)!;
    expect(bytes.length).toBe(plot.size);
    const figure = JSON.parse(Buffer.from(bytes).toString()) as { data: { name: string; y: number[] }[] };
    expect(figure.data.map((d) => d.name)).toEqual(['worker_0', 'worker_1']);
    const all = wandb.requests().map((r) => r.kind ?? '');
    expect(all.lastIndexOf('put')).toBeGreaterThan(all.indexOf('file_stream'));
  });
});

describe.concurrent('the command line', () => {
  const prepared = async (onEnd: OnEnd) => {
    const wandb = await wandbFor(onEnd);
    const test = await engineFor(onEnd);
    const file = path.join(test.folder, 'copy.sqlite');
    fs.copyFileSync(recordedFile(), file);
    test.engine.adopt(file);
    await test.close();
    const env = { WANDB_API_KEY: fakeKey, WANDB_BASE_URL: wandb.url, HOME: folderFor(onEnd) };
    const upload = (...more: string[]) =>
      runCli(onEnd, ['upload', file, '--project', 'rl', '--data', test.folder, ...more], env);
    const stored = (url: string) => wandb.stored('ent', 'rl', url.trim().split('/').at(-1)!)!;
    return { wandb, upload, stored, folder: test.folder, file, env };
  };

  it('killed again and again, given again: the rows and files are there once', async ({ onTestFinished }) => {
    const { wandb, upload: send, stored } = await prepared(onTestFinished);
    const upload = (...more: string[]) => send('--plots', '--metric', 'running', ...more);
    // each once, at a request that W&B took and did not answer before the kill
    for (const on of ['UpsertBucket', 'file_stream', 'CreateRunFiles', 'put', 'file_stream'] as const) {
      const before = wandb.requests().length;
      wandb.inject(on, { delayMs: 20_000 });
      const { child, ended } = upload();
      await until(() =>
        wandb
          .requests()
          .slice(before)
          .some(({ kind, operation }) => kind === on || operation === on),
      );
      child.kill('SIGKILL');
      expect(await ended).toBe('SIGKILL');
    }
    const last = upload('--json');
    expect(await last.ended).toBe(0);
    const end = JSON.parse(last.stdout()) as Upload;
    expect(end).toMatchObject({ state: 'done', rows: 7, failedFiles: [] });
    const { history, uploaded, state } = stored(end.url!);
    expect(numbersOf(history)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect([uploaded.length, new Set(uploaded).size, state]).toEqual([14, 14, 'finished']);
    expect(wandb.violations()).toEqual([]);
  }, 60_000);

  it('of a file that lies elsewhere, given again: goes on, also where the file was moved', async ({
    onTestFinished,
  }) => {
    const { wandb, stored, file, env } = await prepared(onTestFinished);
    const data = folderFor(onTestFinished);
    const upload = async (path: string) => {
      const sent = runCli(onTestFinished, ['upload', path, '--project', 'rl', '--data', data, '--json'], env);
      expect(await sent.ended).toBe(0);
      return JSON.parse(sent.stdout()) as Upload;
    };
    const first = await upload(file);
    const before = wandb.requests().length;
    const moved = path.join(folderFor(onTestFinished), 'moved.sqlite');
    fs.renameSync(file, moved);
    expect(await upload(moved)).toMatchObject({ runId: first.runId, rows: 7, state: 'done' });
    expect(wandb.requests().length).toBe(before);
    expect(stored(first.url!).history).toHaveLength(7);
  });

  it("with an engine running: what this command's environment says counts", async ({ onTestFinished }) => {
    const { folder, file, env } = await prepared(onTestFinished);
    const serve = runCli(onTestFinished, ['serve', '--port', '0', '--data', folder], env);
    await until(() => serve.stdout().includes('token='));
    const own = { ...env, WANDB_PROJECT: 'from-here' };
    const sent = runCli(onTestFinished, ['upload', file, '--data', folder, '--json'], own);
    expect(await sent.ended).toBe(0);
    expect(new URL((JSON.parse(sent.stdout()) as Upload).url!).pathname).toMatch(/^\/ent\/from-here\/runs\//);
  });

  it('a dry run sends nothing', async ({ onTestFinished }) => {
    const { wandb, upload } = await prepared(onTestFinished);
    const dry = upload('--dry-run');
    expect(await dry.ended).toBe(0);
    expect(dry.stdout()).toMatch(/^Nothing was sent\. To \(your default\)\/rl on http/);
    expect(dry.stdout()).toContain('7 rows, one a step');
    expect(wandb.requests()).toEqual([]);
  });

  it('the key is in no file and in nothing that is said', async ({ onTestFinished }) => {
    const { upload, folder, wandb } = await prepared(onTestFinished);
    const sent = upload();
    expect(await sent.ended).toBe(0);
    wandb.inject('UpsertBucket', { status: 403, body: { errors: [{ message: 'permission denied' }] } });
    const wrong = upload('--new');
    expect(await wrong.ended).toBe(1);
    expect(wrong.stdout()).toContain('permission denied');
    const said = [sent, wrong].flatMap((r) => [r.stdout(), r.stderr()]);
    const files = fs.readdirSync(folder, { recursive: true, withFileTypes: true }).filter((f) => f.isFile());
    const written = files.map((f) => fs.readFileSync(path.join(f.parentPath, f.name)).toString('latin1'));
    const hidden = Buffer.from(`api:${fakeKey}`).toString('base64');
    for (const text of [...said, ...written]) {
      expect(text).not.toContain(fakeKey);
      expect(text).not.toContain(hidden);
    }
  });
});
