/**
 * What the engine says of folders and run files that are not as they should be: taken, remote, damaged, foreign, newer,
 * gone. Each is one sentence with its kind, and the other runs are as before.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ErrorKind } from '../electron/engine/api.ts';
import { createEngine } from '../electron/engine/engine.ts';
import { Library, refuseRemoteFolder, type StoredRun } from '../electron/engine/library.ts';
import {
  clusterOf,
  engineFor,
  fakes,
  folderFor,
  quick,
  rowsOf,
  ticked,
  until,
  urlsOf,
  type OnEnd,
  type TestEngine,
} from './engines.ts';
import { answerOf, bodyOf, RunMaker, START } from './run-files.ts';

const SECONDS = 400;
const ALL = { from: START - 1, to: START + SECONDS * 1000 };

let template: Buffer;
beforeAll(() => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-test-'));
  const file = path.join(folder, 'run.sqlite');
  const run = new RunMaker(file, 2);
  for (let t = 0; t < SECONDS; t++) {
    const at = START + t * 1000;
    const body = bodyOf([{ values: { running: t % 7, generation_tokens: t * 10, kv_usage: t / SECONDS } }]);
    run.tick(t, at, [answerOf(0, at, body), answerOf(1, at, body)]);
  }
  run.store.close(ALL.to);
  template = fs.readFileSync(file);
  fs.rmSync(folder, { recursive: true });
});

/** A data folder with ended runs, all the same; `spoil` does something to the file of each by its name. */
function folderWith(onEnd: OnEnd, spoil: Record<string, (file: string) => void>): string {
  const folder = folderFor(onEnd);
  fs.mkdirSync(path.join(folder, 'runs'));
  const library = new Library(folder);
  for (const [i, [id, act]] of Object.entries(spoil).entries()) {
    const file = path.join(folder, 'runs', `${id}.sqlite`);
    fs.writeFileSync(file, template);
    library.putRun({
      ...{ id, file, name: id, cluster: 'c', cluster_name: 'c', state: 'ended', started: START + i },
      ...{ ended: ALL.to, interval_ms: 1000, endpoints: 2, workers: 2, ticks: SECONDS },
      ...{ bytes: 0, generation_tokens: 0 },
    } satisfies StoredRun);
    act(file);
  }
  library.close();
  return folder;
}

/** The pages of a table, by SQLite's own account, and the size of a page. */
function pagesOf(file: string, table: string): { pages: number[]; size: number } {
  const db = new Database(file, { readonly: true });
  const pages = db
    .prepare('SELECT pageno FROM dbstat WHERE name = ? ORDER BY pageno')
    .pluck()
    .all(table) as number[];
  const size = db.pragma('page_size', { simple: true }) as number;
  db.close();
  return { pages, size };
}

/** Overwrites the pages of a table with what no page of SQLite looks like. */
function overwrite(file: string, table: string): void {
  const { pages, size } = pagesOf(file, table);
  const fd = fs.openSync(file, 'r+');
  for (const page of pages) fs.writeSync(fd, Buffer.alloc(size, 0xff), 0, size, (page - 1) * size);
  fs.closeSync(fd);
}

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => {
      throw new Error('it did not fail');
    },
    (error: unknown) => error as { kind: ErrorKind; message: string },
  );

/** Every call that reads a run. */
const reads = (methods: TestEngine['methods'], run: string): (() => Promise<unknown>)[] => [
  () => methods.getRun(run),
  () => methods.events(run, ALL.from, ALL.to),
  () => methods.timelines({ run, metrics: ['running', 'generation_tokens'], ...ALL, points: 1000 }),
  () => methods.timelines({ run, metrics: ['running', 'generation_tokens'], ...ALL, points: 10 }),
  () => methods.statistics({ run, metrics: ['running', 'generation_tokens'], ...ALL }),
  () => methods.renameRun(run, 'another name'),
];

/** What may have become of a file, and what is said of it. */
const spoilt: Record<string, [spoil: (file: string) => void, kind: ErrorKind, words: string]> = {
  gone: [(file) => fs.rmSync(file), 'not-found', 'is gone.'],
  foreign: [
    (file) => {
      fs.rmSync(file);
      const db = new Database(file);
      db.exec('CREATE TABLE bookmarks(url); INSERT INTO bookmarks VALUES (1)');
      db.close();
    },
    'file-foreign',
    "is an SQLite file, but not one of vLLM Scope's.",
  ],
  newer: [
    (file) => {
      const db = new Database(file);
      db.pragma('user_version = 99');
      db.close();
    },
    'file-newer',
    'was written by a newer vLLM Scope (schema 99',
  ],
  'no-database': [(file) => fs.writeFileSync(file, 'Not Found\n'.repeat(5000)), 'file-damaged', 'is damaged'],
  'cut-short': [(file) => fs.truncateSync(file, 100_000), 'file-damaged', 'is damaged'],
  'damaged-at-its-beginning': [(file) => overwrite(file, 'meta'), 'file-damaged', 'is damaged'],
  'damaged-in-the-middle': [
    (file) => ['tick', 'tick_at'].forEach((table) => overwrite(file, table)),
    'file-damaged',
    'is damaged',
  ],
};

describe('a run file that is not as it should be', () => {
  const ends: (() => void | Promise<void>)[] = [];
  let engine: TestEngine;
  const found = new Map<string, Buffer | null>();
  const fileOf = (id: string) => path.join(engine.folder, 'runs', `${id}.sqlite`);
  const bytesOf = (id: string) => (fs.existsSync(fileOf(id)) ? fs.readFileSync(fileOf(id)) : null);

  beforeAll(async () => {
    const spoil = Object.fromEntries(Object.entries(spoilt).map(([id, [act]]) => [id, act]));
    const { gone } = spoil;
    spoil.gone = () => {}; // while the engine works; a file that is gone at its start is a deleted run
    spoil.deleted = gone!;
    const onEnd: OnEnd = (end) => void ends.push(end);
    const dataFolder = folderWith(onEnd, { good: () => {}, ...spoil });
    engine = await engineFor(onEnd, { dataFolder });
    gone!(fileOf('gone'));
    for (const id of Object.keys(spoilt)) found.set(id, bytesOf(id));
    return async () => {
      for (const end of ends.reverse()) await end();
    };
  });

  it.each(Object.entries(spoilt))('%s: every call says so in a sentence', async (id, [, kind, words]) => {
    for (const read of reads(engine.methods, id)) {
      const { kind: got, message } = await failure(read());
      expect([got, message]).toEqual([kind, expect.stringContaining(words)]);
      expect(message).toContain(fileOf(id));
    }
    expect(engine.bugs).toEqual([]);
    // it is still in the list, and as it was found
    expect((await engine.methods.listRuns()).some((r) => r.id === id)).toBe(true);
    expect(bytesOf(id)).toEqual(found.get(id));
  });

  it('a run whose file was deleted while no engine worked is no longer listed', async () => {
    expect((await engine.methods.listRuns()).map((r) => r.id)).not.toContain('deleted');
  });

  it('the others can be read', async () => {
    for (const read of reads(engine.methods, 'good')) await read();
    expect(engine.said).toEqual([]);
  });
});

describe.concurrent('a run file', () => {
  it('is counted right though many others are read at the same time', async ({ onTestFinished }) => {
    const names = Array.from({ length: 12 }, (_, i) => `run-${i}`);
    const folder = folderWith(onTestFinished, Object.fromEntries(names.map((n) => [n, () => {}])));
    const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
    const metrics = ['running', 'generation_tokens', 'kv_cache_usage'];
    const alone = await methods.statistics({ run: 'run-0', metrics, ...ALL });
    // tokens rise by 10 a second on two workers
    expect(alone.map((m) => [m.samples.n, m.samples.sum])).toEqual([
      [2 * SECONDS, null],
      [2 * (SECONDS - 1), 2 * 10 * (SECONDS - 1)],
      [2 * SECONDS, null],
    ]);
    for (const run of names) await methods.getRun(run); // so that all of them are ready to be read
    const all = await Promise.all(names.map((run) => methods.statistics({ run, metrics, ...ALL })));
    for (const found of all) expect(found).toEqual(alone);
  });

  it('that is damaged among its samples: who reads those is told, and what is not read is not lost', async ({
    onTestFinished,
  }) => {
    const folder = folderWith(onTestFinished, { bad: (file) => overwrite(file, 'sample') });
    const engine = await engineFor(onTestFinished, { dataFolder: folder });
    for (const read of reads(engine.methods, 'bad').slice(2, 5)) {
      const { kind, message } = await failure(read());
      expect(kind).toBe('file-damaged');
      expect(message).toContain(path.join(folder, 'runs', 'bad.sqlite'));
      expect(message).toContain('Restore it from a copy, or delete it.');
    }
    expect(engine.bugs).toEqual([]);
  });

  it('that is damaged while it is written: recording stops with a sentence that names it', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const engine = await engineFor(onTestFinished);
    const { methods } = engine;
    const bad = await methods.addCluster(quick(fake.endpoints[0]!.url, 'bad'));
    const good = await methods.addCluster(quick(fake.endpoints[1]!.url, 'good'));
    await ticked(engine, bad.recording!, 3);
    const { file } = await methods.getRun(bad.recording!);
    // Another writer's commit makes the engine read its pages anew; all of it between two ticks.
    const db = new Database(file);
    db.exec("UPDATE meta SET value = value WHERE key = 'name'");
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
    for (const table of ['tick', 'sample']) overwrite(file, table);

    const stopped = await until(async () => {
      const cluster = await clusterOf(methods, bad.id);
      return cluster.stopped !== null && cluster.recording === null ? cluster.stopped : false;
    });
    expect(stopped).toMatch(/^Recording stopped: /);
    expect(stopped).toContain(file);
    expect(stopped).toContain('is damaged');
    expect(engine.said.some((s) => s === stopped)).toBe(true);
    // it is no run that is being recorded any more
    await until(async () =>
      (await methods.listRuns()).some((r) => r.id === bad.recording && r.state === 'ended-unexpectedly'),
    );
    // the other one goes on, and so does the scraping
    await ticked(engine, good.recording!, 3);
    await until(() => engine.ticks.some((t) => t.cluster === bad.id && t.run === null && t.answered === 1));
    // a new run can begin at once, and clears the sentence
    const next = await methods.startRecording(bad.id, null);
    await ticked(engine, next.id, 2);
    expect((await clusterOf(methods, bad.id)).stopped).toBeNull();
    expect((await methods.stopRecording(bad.id)).state).toBe('ended');
    await engine.close();
    expect(engine.bugs).toEqual([]);
  });

  it('that is damaged when the engine ends does not keep the others from being closed', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const engine = await engineFor(onTestFinished);
    const { methods } = engine;
    const bad = await methods.addCluster(quick(fake.endpoints[0]!.url));
    const good = await methods.addCluster(quick(fake.endpoints[1]!.url));
    await ticked(engine, bad.recording!, 2);
    await ticked(engine, good.recording!, 2);
    const { file } = await methods.getRun(bad.recording!);
    const db = new Database(file);
    db.exec("UPDATE meta SET value = value WHERE key = 'name'");
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
    for (const table of ['tick', 'sample', 'stretch']) overwrite(file, table);
    await engine.close();
    const { file: other } = rowsOf<StoredRun>(
      path.join(engine.folder, 'library.db'),
      'SELECT * FROM run',
    ).find((r) => r.id === good.recording)!;
    expect(fs.existsSync(`${other}-wal`)).toBe(false);
    expect(rowsOf(other, 'SELECT ended IS NOT NULL AS ended FROM stretch')).toEqual([{ ended: 1 }]);
    // and the folder is free
    const again = await engineFor(onTestFinished, { dataFolder: engine.folder, idle: true });
    const runs = await again.methods.listRuns();
    expect(runs.find((r) => r.id === good.recording)!.state).toBe('ended');
    expect(runs.find((r) => r.id === bad.recording)!.state).not.toBe('recording');
  });

  it('that a crash left open and damaged does not keep the engine from starting', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished);
    const folder = folderWith(onTestFinished, { bad: (file) => overwrite(file, 'tick') });
    const library = new Library(folder);
    library.putCluster({
      ...{
        id: 'c',
        name: 'c',
        endpoints: [fake.endpoints[0]!.url],
        files: [],
        intervalMs: 200,
        timeoutMs: 5000,
      },
      ...{ caFile: null, headers: [], logins: [], record: true, connected: true, added: 1 },
    });
    library.putRun({ ...library.run('bad')!, state: 'recording' });
    library.close();
    for (const resume of [false, true]) {
      const engine = await engineFor(onTestFinished, { dataFolder: folder, resume });
      const runs = await engine.methods.listRuns();
      expect(runs.find((r) => r.id === 'bad')!.state).toBe('ended-unexpectedly');
      expect(engine.said.join('\n')).toContain('bad.sqlite is damaged');
      const [cluster] = await engine.methods.listClusters();
      await ticked(engine, cluster!.recording!, 2); // records anew
      await engine.close();
      const again = new Library(folder);
      again.putRun({ ...again.run('bad')!, state: 'recording' });
      again.close();
    }
  });
});

describe.concurrent('the data folder', () => {
  it('belongs to one engine at a time', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const first = await engineFor(onTestFinished);
    await first.methods.addCluster(quick(urlsOf(fake)));
    const second = await failure(createEngine({ dataFolder: first.folder, version: '0' }));
    expect(second.kind).toBe('folder-locked');
    expect(second.message).toContain(first.folder);
    expect(second.message).toContain('--data DIR');
    // the first one was not disturbed
    await until(() => first.ticks.length >= 2);
    await first.close();
    await engineFor(onTestFinished, { dataFolder: first.folder, idle: true });
  });

  it.for([
    [0x6969, 'NFS'],
    [0xff534d42, 'CIFS'],
    [0x0bd00bd0, 'Lustre'],
    [0x47504653, 'GPFS'],
  ] as const)('on a network filesystem is refused: %i is %s', async ([kind, name]) => {
    const { kind: got, message } = await failure(
      Promise.resolve().then(() => refuseRemoteFolder('/home/me/runs', kind)),
    );
    expect(got).toBe('folder-remote');
    expect(message).toContain(`/home/me/runs lies on a network filesystem (${name})`);
    expect(message).toContain('--data DIR');
  });

  it.for([
    [0xef53, 'ext4'],
    [0x58465342, 'xfs'],
    [0x9123683e, 'btrfs'],
    [0x01021994, 'tmpfs'],
    [0x794c7630, 'overlayfs'],
  ] as const)('on a local one is taken: %i is %s', ([kind]) => {
    expect(() => refuseRemoteFolder('/var/runs', kind)).not.toThrow();
  });

  it.for<[string, (file: string) => void, ErrorKind]>([
    ['no database', (file) => fs.writeFileSync(file, 'x'.repeat(50_000)), 'file-damaged'],
    [
      'of a newer version',
      (file) => {
        const db = new Database(file);
        db.pragma('user_version = 99');
        db.close();
      },
      'file-newer',
    ],
  ])(
    'with a library.db that is %s: a sentence, and the folder is free again',
    async ([, spoil, kind], { onTestFinished }) => {
      const folder = folderWith(onTestFinished, { good: () => {} });
      const file = path.join(folder, 'library.db');
      const copy = fs.readFileSync(file);
      spoil(file);
      for (let i = 0; i < 2; i++) {
        const { kind: got, message } = await failure(createEngine({ dataFolder: folder, version: '0' }));
        expect(got).toBe(kind);
        expect(message).toContain(file);
      }
      for (const name of fs.readdirSync(folder))
        if (name.startsWith('library')) fs.rmSync(path.join(folder, name));
      fs.writeFileSync(file, copy);
      const engine = await engineFor(onTestFinished, { dataFolder: folder });
      expect(await engine.methods.listRuns()).toHaveLength(1);
    },
  );
});
