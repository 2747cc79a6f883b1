// What the desktop app's engine does more than `serve` alone: it waits for a folder on which another engine works,
// takes over when that one is gone, and tells what is being recorded. The other engines are processes of their own.
import fs from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it, vi } from 'vitest';
import type { Engine, EngineOptions } from '../electron/engine/engine.ts';
import type { Parent, ToMain } from '../electron/engine/parent.ts';
import { engineOnceFree, tellRecording } from '../electron/engine/under-main.ts';
import { engineFor, fakes, folderFor, quick, run, ticked, until, urlsOf, type OnEnd } from './engines.ts';
import { connect } from './pages.ts';

// each starts an engine as a process, and some wait for one to be given up
vi.setConfig({ testTimeout: 90_000 });

/** Hears what main would. */
function listening() {
  const posts: ToMain[] = [];
  const main: Parent = { post: (message) => posts.push(message), onMessage: () => undefined, keychain: null };
  return { posts, main };
}

const never = new Promise<void>(() => {});
const optionsFor = (dataFolder: string): EngineOptions => ({ dataFolder, version: '0.0.0', keychain: null });

/** A `serve` that records, and a page of it. */
async function serving(onEnd: OnEnd, folder: string, addresses: string) {
  const args = ['serve', '--port', '0', '--data', folder, '--connect', addresses, '--interval', '0.2'];
  const other = run(onEnd, args);
  const [, port, token] = await until(
    () => /^http:\/\/127\.0\.0\.1:(\d+)\/#token=(\S+)/.exec(other.stdout()) ?? (false as never),
  );
  const page = await connect(onEnd, Number(port), token!);
  const recording = await until(async () => (await page.methods.listClusters())[0]?.recording ?? false);
  return { other, page, port: Number(port), token: token!, recording: recording as string };
}

const closing = (onEnd: OnEnd, engine: Engine | null): Engine => {
  if (engine === null) throw new Error('no engine');
  onEnd(() => engine.close());
  return engine;
};

describe('a folder on which another engine works', () => {
  it('is said, with where that one is; its run goes on here when it is killed', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const folder = folderFor(onTestFinished);
    const { other, port, token, recording } = await serving(onTestFinished, folder, urlsOf(fake));
    const { posts, main } = listening();
    const pending = engineOnceFree(optionsFor(folder), main, never);
    await until(() => posts.length > 0);
    expect(posts).toEqual([{ type: 'taken', port, token }]);

    other.child.kill('SIGKILL');
    const engine = closing(onTestFinished, await pending);
    const runs = await engine.methods.listRuns();
    expect(runs.map(({ id, state }) => ({ id, state }))).toEqual([{ id: recording, state: 'recording' }]);
    expect(posts).toHaveLength(1);
  });

  it('is taken over after an orderly end, with a run of its own', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const folder = folderFor(onTestFinished);
    const { other, recording } = await serving(onTestFinished, folder, urlsOf(fake));
    const { posts, main } = listening();
    const pending = engineOnceFree(optionsFor(folder), main, never);
    await until(() => posts.length > 0);

    other.child.kill('SIGTERM');
    const engine = closing(onTestFinished, await pending);
    const runs = await engine.methods.listRuns();
    expect(runs.map(({ state }) => state)).toEqual(['recording', 'ended']);
    expect(runs[1]?.id).toBe(recording);
  });

  it('is left alone when the app ends', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const folder = folderFor(onTestFinished);
    const { other, page, recording } = await serving(onTestFinished, folder, urlsOf(fake));
    const { posts, main } = listening();
    let end = () => {};
    const ending = new Promise<void>((resolve) => (end = resolve));
    const pending = engineOnceFree(optionsFor(folder), main, ending);
    await until(() => posts.length > 0);
    end();
    expect(await pending).toBeNull();
    expect(other.child.exitCode).toBeNull();
    expect((await page.methods.listClusters())[0]?.recording).toBe(recording);
  });

  it('is a fault where no window can be opened on that engine', async ({ onTestFinished }) => {
    // as `record` holds it: without an address
    const { folder } = await engineFor(onTestFinished);
    const { posts, main } = listening();
    await expect(engineOnceFree(optionsFor(folder), main, never)).rejects.toMatchObject({
      kind: 'folder-locked',
    });
    expect(posts).toEqual([]);
  });
});

it('a command that holds the folder for a moment is waited for', async ({ onTestFinished }) => {
  const holder = await engineFor(onTestFinished);
  const { main } = listening();
  const pending = engineOnceFree(optionsFor(holder.folder), main, never);
  setTimeout(() => void holder.close(), 1500);
  expect(closing(onTestFinished, await pending).methods).toBeDefined();
});

it('main is told what is being recorded and what stopped by itself, at changes only', async ({
  onTestFinished,
}) => {
  const fake = await fakes(onTestFinished, { workers: 2 });
  const engine = await engineFor(onTestFinished);
  const { posts, main } = listening();
  tellRecording(engine.engine, main);
  const last = (state: unknown) => until(() => JSON.stringify(posts.at(-1)) === JSON.stringify(state));
  await last({ type: 'state', recording: [], stopped: [] });

  // a name that would turn a menu's text around
  const first = await engine.methods.addCluster(quick(fake.endpoints[0]!.url, 'grpo\u202e'));
  await last({ type: 'state', recording: ['grpo\\u202e'], stopped: [] });
  const second = await engine.methods.addCluster(quick(fake.endpoints[1]!.url, 'eval'));
  await last({ type: 'state', recording: ['grpo\\u202e', 'eval'], stopped: [] });
  await engine.methods.stopRecording(first.id);
  await last({ type: 'state', recording: ['eval'], stopped: [] });
  expect(posts).toHaveLength(4);

  await ticked(engine, second.recording!, 3);
  const { file } = await engine.methods.getRun(second.recording!);
  // another writer's commit makes the engine read its pages anew
  const db = new Database(file);
  db.exec("UPDATE meta SET value = value WHERE key = 'name'");
  db.pragma('wal_checkpoint(TRUNCATE)');
  db.close();
  fs.writeFileSync(file, Buffer.alloc(fs.statSync(file).size, 7));
  const stopped = await until(() => {
    const post = posts.at(-1);
    return post?.type === 'state' && post.stopped.length > 0 ? post : (false as never);
  });
  expect(stopped.recording).toEqual([]);
  expect(stopped.stopped).toHaveLength(1);
  expect(stopped.stopped[0]).toMatch(/^eval: Recording stopped: .*is damaged/);
});
