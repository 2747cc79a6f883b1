/**
 * Whose key goes where, as the engine and the command line do it, and what stays possible where a key, a CA file, a name
 * or a folder is none. How keys are found is in wandb-account.test.ts.
 */
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { newAuthority } from './certificates.ts';
import { engineFor, folderFor, run as runCli } from './engines.ts';
import { fakeKey, startFakeWandb } from './fake-wandb.ts';
import { recordedFile, wandbFor } from './uploading.ts';

/** An engine in such an environment, with nothing that this machine's own W&B left. */
async function engineIn(env: NodeJS.ProcessEnv) {
  const before = process.env;
  onTestFinished(() => void (process.env = before));
  const none = { SSL_CERT_FILE: '', REQUESTS_CA_BUNDLE: '', WANDB_API_KEY: '', WANDB_BASE_URL: '' };
  process.env = { ...before, HOME: folderFor(onTestFinished), NETRC: '/dev/null', ...none, ...env };
  return engineFor(onTestFinished);
}

/** The command line on a copy of the recorded run. */
function commandIn(env: NodeJS.ProcessEnv) {
  const folder = folderFor(onTestFinished);
  const file = path.join(folder, 'run.sqlite');
  fs.copyFileSync(recordedFile(), file);
  const own = { HOME: folder, NETRC: '/dev/null', WANDB_API_KEY: '', WANDB_BASE_URL: '', ...env };
  return async (verb: string, ...more: string[]) => {
    const args = [verb, file, '--data', path.join(folder, 'data'), ...more];
    const ran = runCli(onTestFinished, args, own);
    return { code: await ran.ended, said: ran.stdout() + ran.stderr(), folder };
  };
}

describe('a key of the environment', () => {
  it('goes to its own server only, however another one is named', async () => {
    const own = await wandbFor(onTestFinished);
    const other = await wandbFor(onTestFinished);
    const env = { WANDB_API_KEY: fakeKey, WANDB_BASE_URL: own.url };
    const command = commandIn(env);
    const { code, said } = await command('upload', '--project', 'rl', '--server', other.url);
    expect(code).toBe(1);
    expect(said).toContain(`There is no API key for ${other.url}. WANDB_API_KEY is sent to ${own.url} only.`);
    expect(said).toContain('Give one under “Upload to W&B”');
    const { methods } = await engineIn(env);
    expect(await methods.wandbAccount(own.url)).toMatchObject({ key: 'environment', user: 'user' });
    expect(await methods.wandbAccount(other.url)).toMatchObject({ key: null, user: null, problem: null });
    await expect(methods.wandbProjects(other.url, null)).rejects.toThrow('There is no API key');
    expect(other.requests()).toEqual([]);
  });

  it('that cannot be one hinders nothing that needs none, and another one can be given', async () => {
    const wandb = await wandbFor(onTestFinished);
    const env = { WANDB_API_KEY: 'short', WANDB_BASE_URL: wandb.url };
    const command = commandIn(env);
    const dry = await command('upload', '--project', 'rl', '--dry-run');
    expect([dry.code, dry.said]).toEqual([0, expect.stringContaining('7 rows, one a step')]);
    const written = await command('export', '--wandb', path.join(dry.folder, 'out'));
    expect([written.code, written.said]).toEqual([0, expect.stringContaining('wandb sync')]);
    const sent = await command('upload', '--project', 'rl');
    expect([sent.code, sent.said]).toEqual([1, expect.stringContaining('In WANDB_API_KEY: The API key is')]);

    const { engine, folder, methods } = await engineIn(env);
    fs.copyFileSync(recordedFile(), path.join(folder, 'run.sqlite'));
    const { id } = engine.adopt(path.join(folder, 'run.sqlite'));
    expect((await methods.uploadStart(id)).target.server).toBe(wandb.url);
    expect((await methods.wandbAccount(null)).problem).toMatchObject({
      message: expect.stringContaining('In WANDB_API_KEY') as string,
      advice: 'Correct it, or give a key here.',
    });
    expect(await methods.setWandbKey(wandb.url, fakeKey, false)).toMatchObject({ user: 'user' });
    expect(await methods.wandbAccount(null)).toMatchObject({ user: 'user', problem: null });
  });
});

describe('a CA file of the environment', () => {
  it('stands there until another one is given, or none', async () => {
    const authority = newAuthority();
    const wandb = await startFakeWandb({ certificate: authority.issue('IP:127.0.0.1') });
    onTestFinished(() => wandb.stop());
    const file = path.join(folderFor(onTestFinished), 'ca.pem');
    fs.writeFileSync(file, authority.pem);
    const { methods } = await engineIn({
      ...{ SSL_CERT_FILE: file, WANDB_API_KEY: fakeKey, WANDB_BASE_URL: wandb.url },
    });
    expect(await methods.wandbAccount(null)).toMatchObject({ caFile: file, user: 'user', problem: null });
    const without = await methods.setWandbCa(wandb.url, null);
    expect(without).toMatchObject({ caFile: null, user: null, problem: { kind: 'tls' } });
    expect((await methods.wandbAccount(null)).caFile).toBeNull();
    expect(await methods.setWandbCa(wandb.url, file)).toMatchObject({ caFile: file, user: 'user' });
  });

  it('that is none is told where it can be corrected', async () => {
    const wandb = await wandbFor(onTestFinished);
    const { methods } = await engineIn({
      ...{ SSL_CERT_FILE: '/nowhere.pem', WANDB_API_KEY: fakeKey, WANDB_BASE_URL: wandb.url },
    });
    const { caFile, problem } = await methods.wandbAccount(null);
    expect([caFile, problem?.kind]).toEqual(['/nowhere.pem', 'tls']);
    expect(problem?.message).toContain('/nowhere.pem cannot be used as a CA file');
    expect(await methods.setWandbCa(wandb.url, null)).toMatchObject({ caFile: null, user: 'user' });
  });
});

describe('what is refused', () => {
  it('names that are no project’s', async () => {
    const { engine, folder, methods } = await engineIn({});
    fs.copyFileSync(recordedFile(), path.join(folder, 'run.sqlite'));
    const { id } = engine.adopt(path.join(folder, 'run.sqlite'));
    const { target, choice } = await methods.uploadStart(id);
    const plan = (project: string) =>
      methods.planUpload({ run: id, target: { ...target, project }, choice, live: false, anew: false });
    for (const name of ['.', '..', ' .. '])
      await expect(plan(name)).rejects.toThrow('is no name of a project');
    for (const name of ['a\tb', 'a\nb', 'a\u2028b', 'a/b', 'x'.repeat(129)])
      await expect(plan(name)).rejects.toThrow('A project’s name has at most 128 characters');
    await expect(plan(' ')).rejects.toThrow('The name of the project is missing.');
    expect((await plan('grpo 7b, v1.2…')).rows).toBe(7);
  });

  it('a folder to export into that is a file, with a sentence', async () => {
    const command = commandIn({});
    const inFile = path.join(folderFor(onTestFinished), 'file');
    fs.writeFileSync(inFile, '');
    const { code, said } = await command('export', '--wandb', inFile);
    expect(code).toBe(1);
    expect(said).toMatch(/Nothing can be written into \S+ \(ENOTDIR: .*\)\. Give another folder\.\n$/);
    expect(said).not.toContain('[Error');
  });

  it('the words of W&B stand in quotes before what to do', async () => {
    const wandb = await wandbFor(onTestFinished);
    const { methods } = await engineIn({ WANDB_API_KEY: fakeKey, WANDB_BASE_URL: wandb.url });
    wandb.inject('GetProjects', { status: 403, body: { errors: [{ message: 'permission denied' }] } });
    await expect(methods.wandbProjects(wandb.url, 'ent')).rejects.toThrow(
      /^The server said: “permission denied”\. Choose another entity or project/,
    );
  });
});
