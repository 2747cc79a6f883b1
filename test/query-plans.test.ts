/**
 * How SQLite goes about the hot queries: by a key or an index, never through all of `sample` or `tick`. Asked of
 * SQLite itself (EXPLAIN QUERY PLAN), for what queries.ts gives and for every statement written in the engine's files.
 */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { columns, findMetric, metrics } from '../electron/engine/catalogue.ts';
import * as edges from '../electron/engine/edge-queries.ts';
import * as queries from '../electron/engine/queries.ts';
import { RUN_APPLICATION_ID, runSteps, upgrade } from '../electron/engine/schema.ts';
import { temporaryTables } from '../electron/engine/statistics.ts';

const engineFolder = path.join(import.meta.dirname, '../electron/engine');

/** Tables that grow with the length of a run. */
const long = ['sample', 'tick', 'vec', 'bucket'];

function database(): Database.Database {
  const db = new Database(':memory:');
  onTestFinished(() => void db.close());
  upgrade(db, runSteps, RUN_APPLICATION_ID, 'x');
  db.exec(temporaryTables);
  return db;
}

function planOf(db: Database.Database, sql: string): string[] {
  const named: Record<string, number> = Object.fromEntries(
    [...sql.matchAll(/:(\w+)/g)].map(([, name]) => [name!, 0]),
  );
  const places = Array<number>((sql.match(/\?/g) ?? []).length).fill(0);
  const statement = db.prepare(`EXPLAIN QUERY PLAN ${sql}`);
  const rows = (places.length > 0 ? statement.all(...places) : statement.all(named)) as { detail: string }[];
  return rows.map((r) => r.detail);
}

/** The lines of a plan that go through a whole long table, under whatever name the statement gives it. */
function scansOf(db: Database.Database, sql: string): string[] {
  const names = new Set(long);
  for (const [, table, alias] of sql.matchAll(/\b(?:FROM|JOIN)\s+(\w+)\s+(?:AS\s+)?([a-z]\w*)/g))
    if (long.includes(table!)) names.add(alias!);
  return planOf(db, sql).filter((line) => {
    // `SEARCH sample` without USING is what it calls a max() over all rows
    const [, scanned, searched] = /^(?:SCAN (\w+)|SEARCH (\w+)$)/.exec(line) ?? [];
    return names.has(scanned ?? searched ?? '');
  });
}

const counters = columns.filter((c) => c.kind === 'counter').map((c) => c.id);
const hot: [string, string][] = [
  ['samplesOf a gauge', queries.samplesOf([['running']])],
  [
    'samplesOf all kinds',
    queries.samplesOf([['running'], ['generation_tokens'], ['prefix_hits', 'prefix_queries']]),
  ],
  ['counterSamples', queries.counterSamples('generation_tokens')],
  ['bucketsOf', queries.bucketsOf(['running', ...counters.slice(0, 6)])],
  ['ticksBetween', queries.ticksBetween],
  ['slotAt', queries.slotAt],
  ['makeEdges', edges.makeEdges],
  ['know', edges.know],
  ['lostBy', edges.lostBy],
  ['ownedSlots', edges.ownedSlots],
  ['measure a gauge', queries.measure([findMetric('running')!])],
  ['measure all', queries.measure(metrics)],
  ['bucketsOfWindow', queries.bucketsOfWindow],
  ['coveredSamples', queries.coveredSamples(metrics)],
  ['expectedSamples', queries.expectedSamples],
  ['workerList', queries.workerList],
  ['a range of vec', 'SELECT * FROM vec WHERE id >= :from AND id < :until'],
];

describe('the hot queries', () => {
  it.each(hot)('%s: by key', (_name, sql) => {
    const db = database();
    expect(scansOf(db, sql)).toEqual([]);
    const finds = planOf(db, sql).filter((line) => /^SEARCH \w+ USING/.test(line));
    expect(finds.length).toBeGreaterThan(0);
  });

  it('a range of slots is a range of the table’s own key', () => {
    for (const sql of [queries.samplesOf([['running']]), queries.measure([findMetric('running')!])])
      expect(planOf(database(), sql).find((line) => line.startsWith('SEARCH'))).toMatch(
        /^SEARCH (s|sample) USING INTEGER PRIMARY KEY \(rowid>\? AND rowid<\?\)$/,
      );
    expect(planOf(database(), 'SELECT * FROM vec WHERE id >= :from AND id < :until')).toEqual([
      'SEARCH vec USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)',
    ]);
  });

  it('events by their time', () => {
    expect(planOf(database(), queries.events)).toContain('SEARCH event USING INDEX event_at (at>? AND at<?)');
  });

  it('what goes through a whole table is found out here', () => {
    const db = database();
    expect(scansOf(db, 'SELECT max(at) FROM sample')).toHaveLength(1);
    expect(scansOf(db, 'SELECT s.k FROM tick t JOIN sample s ON s.at = t.at')).not.toEqual([]);
    expect(scansOf(db, 'SELECT k FROM sample s WHERE k % 4096 = 3')).toHaveLength(1);
    expect(scansOf(db, 'SELECT k FROM sample WHERE k > 5')).toEqual([]);
  });
});

/** Goes through all ticks on purpose: once an opened file, over the small index, or in order and to the first that fits. */
const meant = [
  'SELECT count(*) FROM tick',
  'SELECT min(at) AS first, max(at) AS last, count(*) AS n FROM tick',
  'SELECT t, at FROM tick ORDER BY t DESC LIMIT 1',
];

it('the statements that stand in other files of the engine', () => {
  const db = database();
  const found: string[] = [];
  for (const name of ['reader.ts', 'statistics.ts', 'timelines.ts', 'store.ts', 'recording.ts']) {
    const text = fs.readFileSync(path.join(engineFolder, name), 'utf8').replaceAll('${WORKERS_MAX}', '4096');
    for (const [, , sql] of text.matchAll(/(['"`])((?:SELECT|INSERT|UPDATE|DELETE)\b(?:(?!\1)[^\\])*)\1/g))
      if (!sql!.includes('${')) found.push(sql!.trim());
  }
  const touched = found.filter((sql) => /\b(sample|tick|vec)\b/.test(sql) && !sql.startsWith('DELETE'));
  expect(touched.length).toBeGreaterThanOrEqual(6);
  const scans = touched
    .filter((sql) => !meant.includes(sql) && !/ORDER BY t(\.t)? DESC LIMIT 1$/.test(sql))
    .flatMap((sql) => scansOf(db, sql).map((line) => `${line}: ${sql}`));
  expect(scans).toEqual([]);
  // those that stop at the first row still find their samples by key
  for (const sql of touched)
    expect(scansOf(db, sql).filter((line) => /^\w+ (s|sample)\b/.test(line))).toEqual([]);
});
