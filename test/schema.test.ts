/**
 * The schemas: that they are the catalogue's, and that files of every earlier version are brought up to the newest
 * with their rows. Files of every version lie in fixtures/schema;
 * after a step was added to schema.ts, `node test/fixtures/schema/make.ts` adds those of the new version.
 */
import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { columns, metrics, rolledColumns } from '../electron/engine/catalogue.ts';
import { Library } from '../electron/engine/library.ts';
import {
  LIBRARY_APPLICATION_ID,
  librarySteps,
  RUN_APPLICATION_ID,
  runSteps,
  upgrade,
} from '../electron/engine/schema.ts';
import { RunStore } from '../electron/engine/store.ts';
import { WorkerBook } from '../electron/engine/workers.ts';
import { rowsOf } from './engines.ts';
import { answerOf, bodyOf, readerFor, START, temporaryFolder } from './run-files.ts';

const fixtures = path.join(import.meta.dirname, 'fixtures/schema');

/** A kept file as that version wrote it, in a folder of the test's own. */
function kept(name: string, as: string): string {
  const file = path.join(temporaryFolder(onTestFinished), as);
  fs.writeFileSync(file, gunzipSync(fs.readFileSync(path.join(fixtures, `${name}.gz`))));
  return file;
}
function opened(file: string): Database.Database {
  const db = new Database(file);
  onTestFinished(() => void db.close());
  return db;
}
const versionOf = (db: Database.Database) => db.pragma('user_version', { simple: true });
/** Every table and index with the text that made it. */
const textOf = (db: Database.Database) =>
  db.prepare("SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name").all();
/** Every row of every table. */
function rowsIn(db: Database.Database): Record<string, unknown[]> {
  const tables = db
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .pluck()
    .all() as string[];
  return Object.fromEntries(tables.map((t) => [t, db.prepare(`SELECT * FROM ${t}`).all()]));
}
/** What a table is made of, however it came to be so. */
const shapeOf = (db: Database.Database) =>
  (textOf(db) as { name: string }[]).map(({ name }) => [
    name,
    (db.pragma(`table_xinfo(${name})`) as Record<string, unknown>[]).map((c) => [
      c.name,
      c.type,
      c.notnull,
      c.pk,
    ]),
  ]);

const kinds = [
  { kind: 'run', steps: runSteps, id: RUN_APPLICATION_ID, name: (v: number) => `run-${v}.sqlite` },
  {
    kind: 'library',
    steps: librarySteps,
    id: LIBRARY_APPLICATION_ID,
    name: (v: number) => `library-${v}.db`,
  },
];
const versions = kinds.flatMap((k) => k.steps.map((_, i) => ({ ...k, version: i + 1 })));

describe('the tables', () => {
  it('sample has the catalogue’s columns, in its order and with its types', () => {
    const db = opened(':memory:');
    upgrade(db, runSteps, RUN_APPLICATION_ID, 'x');
    const info = db.pragma('table_info(sample)') as { name: string; type: string }[];
    expect(info.slice(0, 5).map((c) => c.name)).toEqual(['k', 'at', 'took', 'epoch', 'back']);
    expect(info.slice(5).map((c) => [c.name, c.type])).toEqual(columns.map((c) => [c.id, c.type]));
  });

  it('what a metric is made of are columns', () => {
    const known = new Set(columns.map((c) => c.id));
    expect(
      [...metrics.flatMap((m) => m.of as string[]), ...rolledColumns].filter((c) => !known.has(c)),
    ).toEqual([]);
  });

  it('a worker has a number below 4096', () => {
    const db = opened(':memory:');
    upgrade(db, runSteps, RUN_APPLICATION_ID, 'x');
    db.exec("INSERT INTO endpoint(e, url, added) VALUES (0, 'u', 0)");
    const put = db.prepare("INSERT INTO worker VALUES (?, 0, ?, '', '', '{}', 0, NULL, NULL, NULL)");
    put.run(4095, 'a');
    expect(() => put.run(4096, 'b')).toThrow('CHECK constraint failed');
    expect(() => put.run(-1, 'c')).toThrow('CHECK constraint failed');
  });
});

describe.each(versions)('a $kind file of version $version', ({ steps, id, name, version }) => {
  it('is kept: made by that version, and its steps were not edited since', () => {
    const db = opened(kept(name(version), 'x.sqlite'));
    expect(versionOf(db)).toBe(version);
    expect(db.pragma('application_id', { simple: true })).toBe(id);
    const made = opened(':memory:');
    upgrade(made, steps.slice(0, version), id, 'x');
    expect(textOf(db)).toEqual(textOf(made));
  });

  it('is brought up to the newest, which is what a new file has', () => {
    const db = opened(kept(name(version), 'x.sqlite'));
    upgrade(db, steps, id, 'x');
    expect(versionOf(db)).toBe(steps.length);
    const made = opened(':memory:');
    upgrade(made, steps, id, 'x');
    expect(shapeOf(db)).toEqual(shapeOf(made));
    expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
    expect(db.pragma('foreign_key_check')).toEqual([]);
  });

  it('a step that fails leaves it as that step found it', () => {
    const file = kept(name(version), 'x.sqlite');
    const db = opened(file);
    const before = { text: textOf(db), rows: rowsIn(db) };
    const bad = 'CREATE TABLE extra(x); DELETE FROM sqlite_sequence_of_nothing;';
    const own = steps.slice(0, version);
    expect(() => upgrade(db, [...own, bad], id, file)).toThrow('no such table');
    expect({ text: textOf(db), rows: rowsIn(db) }).toEqual(before);
    expect(versionOf(db)).toBe(version);
    // the steps before it are done and stay
    const good = 'CREATE TABLE more(x INTEGER); INSERT INTO more VALUES (7);';
    expect(() => upgrade(db, [...own, good, bad], id, file)).toThrow('no such table');
    expect(versionOf(db)).toBe(version + 1);
    expect(rowsIn(db)).toEqual({ ...before.rows, more: [{ x: 7 }] });
    // and it can be brought up further when the step is put right
    upgrade(db, [...own, good, 'ALTER TABLE more ADD COLUMN y INTEGER DEFAULT 5'], id, file);
    expect(rowsIn(db)).toEqual({ ...before.rows, more: [{ x: 7, y: 5 }] });
  });

  it('is refused by one that is older', () => {
    const file = kept(name(version), 'x.sqlite');
    const db = opened(file);
    const before = fs.readFileSync(file);
    let error: unknown;
    try {
      upgrade(db, steps.slice(0, version - 1), id, '/there/x.sqlite');
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({
      kind: 'file-newer',
      message: `/there/x.sqlite was written by a newer vLLM Scope (schema ${version}, this one knows ${version - 1}). Update vLLM Scope to open it.`,
    });
    expect(fs.readFileSync(file).equals(before)).toBe(true);
  });

  it('is refused where the other kind is wanted', () => {
    const file = kept(name(version), 'x.sqlite');
    const other = kinds.find((k) => k.id !== id)!;
    expect(() => upgrade(opened(file), other.steps, other.id, file)).toThrow('not one of vLLM Scope');
  });
});

describe.each(versions.filter((v) => v.kind === 'run'))('a run of version $version', ({ name, version }) => {
  it('has the numbers of the worked example, and can be gone on with', async () => {
    const file = kept(name(version), 'run.sqlite');
    const store = RunStore.open(file);
    let closed = false;
    onTestFinished(() => (closed ? undefined : store.close(START)));
    expect(store.meta).toMatchObject({ id: 'run.sqlite', name: 'test', startedAt: START, intervalMs: 1000 });
    expect([store.ticks, store.workers, store.lastTick()]).toEqual([7, 3, { t: 60, at: START + 60_000 }]);
    const reader = readerFor(onTestFinished);
    // asked 10 ms before and answered 10 ms after the second: the sample at 0 is the anchor, the one at 5 the last
    const query = { run: '', from: START + 10, to: START + 4990 };
    const [rate] = await reader.statistics(file, { ...query, metrics: ['prefix_cache_hit_rate'] });
    expect(rate!.each.map((w) => [w.part, w.whole])).toEqual([
      [90000, 100000],
      [500, 5000],
      [29920, 44000],
    ]);
    expect(rate!.pooled).toBe(120420 / 149000);
    expect(rate!.each.map((w) => w.resets)).toEqual([0, 0, 1]);
    const [ttft] = await reader.statistics(file, { ...query, metrics: ['ttft'] });
    expect(ttft!.requests).toMatchObject(
      version < 3
        ? { n: 0, p50: null }
        : // 4 up to 0.1 s, 6 up to 1 s, 3 above
          { n: 13, p50: 0.1 + (0.9 * 2.5) / 6, p95: 1, atLeast: { p50: false, p95: true } },
    );
    const whole = { run: '', from: START, to: START + 5000, metrics: ['running'] };
    const [running] = await reader.statistics(file, whole);
    expect(running!.samples).toMatchObject({ n: 18, min: 0, max: 25, mean: 12.5 });
    const { workerList, endpointList } = await reader.contents(file);
    expect(workerList.map((w) => [w.name, w.model, w.endpoint])).toEqual(
      [0, 1, 2].map((w) => [`w${w}`, 'qwen3-8b', `http://host-${w}:8000/metrics`]),
    );
    expect(endpointList).toHaveLength(4);
    const events = await reader.events(file, 0, Number.MAX_SAFE_INTEGER);
    expect(events.map((e) => [e.kind, e.w, e.reason, e.count])).toEqual([
      ['outage', null, 'refused', 6],
      ['restart', 2, null, 1],
      ['stretch', null, null, 1],
    ]);
    // rolled up: the first 10 s hold all of the example
    const wide = await reader.timelines(file, {
      ...query,
      to: START + 100_000,
      metrics: ['prefix_cache_hit_rate'],
      points: 10,
    });
    expect(wide.widthSeconds).toBe(10);
    expect(wide.series[0]!.average[0]).toBe(Math.fround(120420 / 149000));

    const book = new WorkerBook(endpointList, store.remembered());
    const body = bodyOf([
      {
        model: 'qwen3-8b',
        values: { prefix_queries: 1200500, prefix_hits: 690100 },
        buckets: { ttft: { bounds: '[0.1,1]', counts: [105, 161, 171] } },
      },
    ]);
    const changes = book.take(61, START + 61_000, [answerOf(0, START + 61_000, body)]);
    store.write(61, START + 61_000, changes, [], [0]);
    const [after, later] = await reader.statistics(file, {
      run: '',
      from: START + 60_000,
      to: START + 61_000,
      metrics: ['prefix_cache_hit_rate', 'ttft'],
    });
    expect(after!.each[0]).toMatchObject({ part: 100, whole: 500 });
    // it had counted 170; to an older version, whose bodies had no such family, all of it is new
    expect(later!.requests!.n).toBe(version < 3 ? 171 : 1);
    await reader.release(file);
    store.close(START + 61_000);
    closed = true;
    expect(
      rowsOf(file, 'SELECT w, back FROM (SELECT k % 4096 AS w, * FROM sample) WHERE k / 4096 = 61'),
    ).toEqual([{ w: 0, back: 1 }]);
  });
});

describe.each(versions.filter((v) => v.kind === 'run'))(
  'step 3 in a run of version $version',
  ({ name, version }) => {
    it('has steps, scalars, buckets and spells as they were written, or none', () => {
      const db = opened(kept(name(version), 'run.sqlite'));
      upgrade(db, runSteps, RUN_APPLICATION_ID, 'x');
      const rows = rowsIn(db);
      const { step_set, step, scalar, worker_scalar, histogram, bucket, bucket_state, pressure } = rows;
      const found = { step_set, step, scalar, worker_scalar, histogram, bucket, bucket_state, pressure };
      if (version < 3) {
        expect(Object.values(found)).toEqual(Array(8).fill([]));
        return;
      }
      const at = (seconds: number) => START + seconds * 1000;
      const blob = (...bytes: number[]) => Buffer.from(bytes);
      const settings = '{"minIdleSeconds":2,"minStepSeconds":2,"everySeconds":60}';
      const of = { finder: 1, settings };
      expect(found).toEqual({
        step_set: [
          { ...of, source: 'fixed', until: at(5) },
          { ...of, source: 'mark', until: at(3) },
        ],
        step: [
          { source: 'fixed', n: 0, number: 0, kind: 'other', began: at(0), ended: at(2) },
          { source: 'fixed', n: 1, number: 1, kind: 'train', began: at(2), ended: null },
          { source: 'mark', n: 0, number: 7, kind: 'train', began: at(0.01), ended: at(3) },
          { source: 'mark', n: 1, number: 0, kind: 'eval', began: at(3), ended: at(4.99) },
        ],
        scalar: [{ source: 'mark', n: 0, began: at(0.01), ended: at(3), fleet: blob(1, 2, 3) }],
        worker_scalar: [{ source: 'mark', metric: 'running', n: 0, each: blob(4, 5) }],
        histogram: [{ h: 0, metric: 'ttft', bounds: '[0.1,1]' }],
        bucket: [
          { k: 2 * 4096, counts: blob(0, 2, 0, 3, 0, 1) },
          { k: 3 * 4096, counts: blob(0, 2, 1, 1, 0, 1) },
          { k: 4 * 4096, counts: blob(0, 1, 0, 1) },
          { k: 5 * 4096, counts: blob(0, 2, 1, 4, 0, 2) },
        ],
        bucket_state: [
          { w: 0, k: 0, counts: blob(0, 3, 0, 100, 0, 50, 0, 7) },
          // it restarted, and has counted nothing since
          { w: 2, k: 3 * 4096 + 2, counts: blob() },
        ],
        pressure: [
          { w: 1, began: at(1), ended: at(3), preemptions: 5, waiting: 9, hits_before: 0.5, hits: null },
        ],
      });
    });
  },
);

describe.each(versions.filter((v) => v.kind === 'library'))(
  'a library of version $version',
  ({ name, version }) => {
    it('has its clusters, preferences and runs, and takes more', () => {
      const file = kept(name(version), 'library.db');
      const library = new Library(path.dirname(file));
      onTestFinished(() => library.close());
      expect(library.clusters()).toMatchObject([
        {
          id: 'c1',
          name: 'grpo ✓',
          endpoints: ['http://gpu-01:8000/metrics', 'http://[::1]:8001/metrics'],
          intervalMs: 500,
          timeoutMs: 5000,
          record: true,
          connected: false,
          // what a version did not know is empty in it
          files: version < 2 ? [] : ['/shared/grpo/*.json'],
          caFile: version < 2 ? null : '/etc/lab-ca.pem',
          headers: version < 2 ? [] : ['Authorization'],
          logins: version < 2 ? [] : ['http://gpu-01:8000/metrics'],
        },
      ]);
      library.putCluster({ ...library.clusters()[0]!, files: ['/other/*.yml'], caFile: null });
      expect(library.clusters()).toMatchObject([{ id: 'c1', files: ['/other/*.yml'], caFile: null }]);
      expect(library.preferences()).toEqual({ panels: { order: ['running', 'waiting'], log: true } });
      expect(library.runs()).toMatchObject([
        {
          id: 'r2',
          state: 'ended-unexpectedly',
          workers: 4,
          ticks: 200,
          bytes: 8192,
          generation_tokens: 246913578024,
        },
        { id: 'r1', state: 'ended', ended: START + 1000, generation_tokens: 123456789012 },
        { id: 'r0', state: 'recording', ended: null, bytes: null, generation_tokens: null },
      ]);
      library.putRun({ ...library.run('r0')!, state: 'ended', ended: START + 5 });
      library.setPreference('more', 1);
      expect(library.run('r0')).toMatchObject({ state: 'ended', ended: START + 5 });
      expect(library.preferences()).toHaveProperty('more', 1);
    });
  },
);
