/**
 * The schemas of a run file and of library.db, as append-only lists of steps: step N takes a file from version N to
 * N + 1 (`user_version`). A released step is never edited; docs/database.md explains every table. Opening a file for
 * writing brings it up to the newest.
 */
import path from 'node:path';
import Database from 'better-sqlite3';
import { EngineError, sentenceOf } from './errors.ts';

/** `PRAGMA application_id` of a run file: "vLSc". */
export const RUN_APPLICATION_ID = 0x764c5363;
/** ... and of library.db: "vLSl". */
export const LIBRARY_APPLICATION_ID = 0x764c536c;

/** Slots are multiplied by this in `sample.k`; so a run has at most this many workers. */
export const WORKERS_MAX = 4096;

export const runSteps: readonly string[] = [
  `
  CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE endpoint(
    e INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, added INTEGER NOT NULL, removed INTEGER) STRICT;
  CREATE TABLE worker(
    w INTEGER PRIMARY KEY CHECK(w BETWEEN 0 AND 4095),
    endpoint INTEGER NOT NULL REFERENCES endpoint(e), engine TEXT NOT NULL, model TEXT NOT NULL, replica TEXT NOT NULL,
    labels TEXT NOT NULL, first INTEGER NOT NULL, removed INTEGER, created REAL, several INTEGER,
    UNIQUE(endpoint, engine, model, replica)) STRICT;
  CREATE TABLE stretch(first INTEGER PRIMARY KEY, began INTEGER NOT NULL, ended INTEGER) STRICT;
  CREATE TABLE tick(t INTEGER PRIMARY KEY, at INTEGER NOT NULL) STRICT;
  CREATE UNIQUE INDEX tick_at ON tick(at);
  CREATE TABLE sample(
    k INTEGER PRIMARY KEY, at INTEGER NOT NULL, took INTEGER NOT NULL, epoch INTEGER NOT NULL, back INTEGER,
    running INTEGER, waiting INTEGER, waiting_capacity INTEGER, waiting_deferred INTEGER, swapped INTEGER,
    kv_usage REAL, sleep_level INTEGER, block_size INTEGER, num_blocks INTEGER, process_start REAL,
    prompt_tokens INTEGER, prompt_tokens_cached INTEGER, generation_tokens INTEGER,
    prefix_queries INTEGER, prefix_hits INTEGER, external_queries INTEGER, external_hits INTEGER,
    preemptions INTEGER,
    success_stop INTEGER, success_length INTEGER, success_abort INTEGER, success_error INTEGER,
    success_repetition INTEGER,
    ttft_sum REAL, ttft_count INTEGER, itl_sum REAL, itl_count INTEGER, queue_sum REAL, queue_count INTEGER,
    prefill_sum REAL, prefill_count INTEGER, decode_sum REAL, decode_count INTEGER, e2e_sum REAL, e2e_count INTEGER,
    iteration_tokens_sum INTEGER, iteration_tokens_count INTEGER,
    spec_drafts INTEGER, spec_draft_tokens INTEGER, spec_accepted_tokens INTEGER);
  CREATE TABLE series(
    metric TEXT NOT NULL, w INTEGER NOT NULL REFERENCES worker(w), first INTEGER NOT NULL, zero_at INTEGER,
    PRIMARY KEY(metric, w)) STRICT, WITHOUT ROWID;
  CREATE TABLE outage(
    id INTEGER PRIMARY KEY, endpoint INTEGER NOT NULL REFERENCES endpoint(e),
    first INTEGER NOT NULL, last INTEGER NOT NULL, began INTEGER NOT NULL, ended INTEGER NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL, count INTEGER NOT NULL) STRICT;
  CREATE TABLE event(
    id INTEGER PRIMARY KEY, t INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL,
    endpoint INTEGER REFERENCES endpoint(e), w INTEGER REFERENCES worker(w), detail TEXT NOT NULL) STRICT;
  CREATE INDEX event_at ON event(at);
  CREATE TABLE rolled(width INTEGER PRIMARY KEY, until INTEGER NOT NULL) STRICT;
  CREATE TABLE vec(
    id INTEGER PRIMARY KEY, workers INTEGER NOT NULL,
    n BLOB NOT NULL, ms BLOB NOT NULL, sum BLOB NOT NULL, min BLOB NOT NULL, max BLOB NOT NULL
  ) STRICT;
  `,
  // labels of its file_sd entry
  `ALTER TABLE endpoint ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';`,
  // steps with their scalars, histogram buckets, spells of KV pressure
  `
  CREATE TABLE step_set(
    source TEXT PRIMARY KEY CHECK(source IN ('mark', 'idle', 'sleep', 'fixed')),
    settings TEXT NOT NULL, finder INTEGER NOT NULL, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE step(
    source TEXT NOT NULL REFERENCES step_set(source), n INTEGER NOT NULL, number INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK(kind IN ('train', 'eval', 'other')), began INTEGER NOT NULL, ended INTEGER,
    PRIMARY KEY(source, n)) STRICT, WITHOUT ROWID;
  CREATE TABLE scalar(
    source TEXT NOT NULL, n INTEGER NOT NULL, began INTEGER NOT NULL, ended INTEGER NOT NULL, fleet BLOB NOT NULL,
    PRIMARY KEY(source, n)) STRICT, WITHOUT ROWID;
  CREATE TABLE worker_scalar(
    source TEXT NOT NULL, metric TEXT NOT NULL, n INTEGER NOT NULL, each BLOB NOT NULL,
    PRIMARY KEY(source, metric, n)) STRICT, WITHOUT ROWID;
  CREATE TABLE histogram(
    h INTEGER PRIMARY KEY, metric TEXT NOT NULL, bounds TEXT NOT NULL, UNIQUE(metric, bounds)) STRICT;
  CREATE TABLE bucket(k INTEGER PRIMARY KEY, counts BLOB NOT NULL) STRICT;
  CREATE TABLE bucket_state(w INTEGER PRIMARY KEY REFERENCES worker(w), k INTEGER NOT NULL, counts BLOB NOT NULL) STRICT;
  CREATE TABLE pressure(
    w INTEGER NOT NULL REFERENCES worker(w), began INTEGER NOT NULL, ended INTEGER NOT NULL,
    preemptions INTEGER NOT NULL, waiting INTEGER NOT NULL, hits_before REAL, hits REAL,
    PRIMARY KEY(began, w)) STRICT, WITHOUT ROWID;
  `,
  // steps out of the trainer's run on W&B; a table with a CHECK is made anew, and what refers to it with it
  `
  ALTER TABLE step RENAME TO step_before;
  ALTER TABLE step_set RENAME TO step_set_before;
  CREATE TABLE step_set(
    source TEXT PRIMARY KEY CHECK(source IN ('mark', 'wandb', 'idle', 'sleep', 'fixed')),
    settings TEXT NOT NULL, finder INTEGER NOT NULL, until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE step(
    source TEXT NOT NULL REFERENCES step_set(source), n INTEGER NOT NULL, number INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK(kind IN ('train', 'eval', 'other')), began INTEGER NOT NULL, ended INTEGER,
    PRIMARY KEY(source, n)) STRICT, WITHOUT ROWID;
  INSERT INTO step_set SELECT source, settings, finder, until FROM step_set_before;
  INSERT INTO step SELECT source, n, number, kind, began, ended FROM step_before;
  DROP TABLE step_before;
  DROP TABLE step_set_before;
  `,
  // which vLLM answers there, as it says itself
  `ALTER TABLE endpoint ADD COLUMN version TEXT;`,
];

export const librarySteps: readonly string[] = [
  `
  CREATE TABLE cluster(
    id TEXT PRIMARY KEY, name TEXT NOT NULL, endpoints TEXT NOT NULL, interval_ms INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL, record INTEGER NOT NULL, connected INTEGER NOT NULL, added INTEGER NOT NULL) STRICT;
  CREATE TABLE preference(key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE run(
    id TEXT PRIMARY KEY, file TEXT NOT NULL, name TEXT NOT NULL, cluster TEXT NOT NULL, cluster_name TEXT NOT NULL,
    state TEXT NOT NULL CHECK(state IN ('recording', 'ended', 'ended-unexpectedly')),
    started INTEGER NOT NULL, ended INTEGER, interval_ms INTEGER NOT NULL, endpoints INTEGER NOT NULL,
    workers INTEGER NOT NULL, ticks INTEGER NOT NULL, bytes INTEGER, generation_tokens INTEGER) STRICT;
  CREATE INDEX run_started ON run(started DESC);
  `,
  // paths of file_sd files; of secrets the names only: of headers, and the URLs that have a user and password
  `
  ALTER TABLE cluster ADD COLUMN files TEXT NOT NULL DEFAULT '[]';
  ALTER TABLE cluster ADD COLUMN ca_file TEXT;
  ALTER TABLE cluster ADD COLUMN headers TEXT NOT NULL DEFAULT '[]';
  ALTER TABLE cluster ADD COLUMN logins TEXT NOT NULL DEFAULT '[]';
  `,
  // runs on their way to W&B, and what W&B has of them; no keys
  `
  CREATE TABLE upload(
    id TEXT PRIMARY KEY, run TEXT NOT NULL, target TEXT NOT NULL, mapping TEXT NOT NULL, live INTEGER NOT NULL,
    state TEXT NOT NULL, problem TEXT, failed TEXT NOT NULL, digest TEXT, digest_rows INTEGER NOT NULL,
    created INTEGER NOT NULL, storage TEXT, entity TEXT, project TEXT, display_name TEXT,
    acked INTEGER NOT NULL, files TEXT NOT NULL, complete INTEGER NOT NULL,
    began INTEGER NOT NULL, updated INTEGER NOT NULL) STRICT;
  CREATE INDEX upload_run ON upload(run, began DESC);
  `,
  // whether W&B has the name, group, tags and notes that are wanted
  `ALTER TABLE upload ADD COLUMN described INTEGER NOT NULL DEFAULT 1;`,
];

/** Throws `file-foreign` for another application's file, `file-newer` for a newer version. Gives its version. */
export function refuseOther(
  db: Database.Database,
  steps: readonly string[],
  applicationId: number,
  file: string,
): number {
  const version = db.pragma('user_version', { simple: true }) as number;
  const application = db.pragma('application_id', { simple: true }) as number;
  const empty = version === 0 && db.prepare('SELECT count(*) FROM sqlite_schema').pluck().get() === 0;
  if (!empty && application !== applicationId)
    throw new EngineError('file-foreign', `${file} is an SQLite file, but not one of vLLM Scope's.`);
  if (version > steps.length)
    throw new EngineError(
      'file-newer',
      `${file} was written by a newer vLLM Scope (schema ${version}, this one knows ${steps.length}). Update vLLM Scope to open it.`,
    );
  return version;
}

/**
 * Brings a file up to the newest version, each step in a transaction of its own. Throws as refuseOther does; a step
 * that fails throws and leaves the file as that step found it.
 */
export function upgrade(
  db: Database.Database,
  steps: readonly string[],
  applicationId: number,
  file: string,
): void {
  const version = refuseOther(db, steps, applicationId, file);
  for (let step = version; step < steps.length; step++) {
    db.transaction(() => {
      db.exec(steps[step]!);
      db.pragma(`application_id = ${applicationId}`);
      db.pragma(`user_version = ${step + 1}`);
    })();
  }
}

/**
 * A connection that writes, its file made or brought up to the newest schema. What is not ours is refused before
 * anything of it is changed. page_size only takes effect before WAL.
 */
export function openForWriting(
  file: string,
  steps: readonly string[],
  applicationId: number,
): Database.Database {
  const db = new Database(file);
  try {
    refuseOther(db, steps, applicationId, file);
    db.pragma('page_size = 16384');
    db.pragma('journal_mode = WAL');
    db.pragma('synchronous = NORMAL');
    db.pragma('wal_autocheckpoint = 0');
    db.pragma('journal_size_limit = 67108864');
    db.pragma('foreign_keys = ON');
    distrust(db);
    upgrade(db, steps, applicationId, file);
    return db;
  } catch (error) {
    db.close();
    throw asEngineError(error, file);
  }
}

/** A file that anybody may have made runs nothing by its schema, and its pages are checked as they are read. */
export function distrust(db: Database.Database): void {
  db.pragma('trusted_schema = OFF');
  db.pragma('cell_size_check = ON');
}

/** SQLite's codes for "this is no intact database" and "no room", as our own kinds with a sentence. */
export function asEngineError(error: unknown, file: string): unknown {
  const code = error instanceof Database.SqliteError ? error.code : (error as NodeJS.ErrnoException)?.code;
  if (code === 'SQLITE_CORRUPT' || code === 'SQLITE_NOTADB' || code?.startsWith('SQLITE_CORRUPT_'))
    return new EngineError(
      'file-damaged',
      `${file} is damaged (${sentenceOf(error)}). Restore it from a copy, or delete it.`,
    );
  if (code === 'SQLITE_FULL' || code === 'ENOSPC')
    return new EngineError(
      'disk-full',
      `No room left on the disk of ${path.dirname(file)}. Free some space.`,
    );
  if (code?.startsWith('SQLITE_CANTOPEN'))
    return new EngineError('not-found', `${file} cannot be opened. Was it moved or deleted?`);
  if (code?.startsWith('SQLITE_READONLY') || code?.startsWith('SQLITE_IOERR'))
    return new EngineError(
      'file-damaged',
      `${file} cannot be read or written (${code}). Is its disk still there, and writable?`,
    );
  return error;
}
