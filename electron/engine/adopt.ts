/**
 * A run file from outside the data folder, taken into the list of runs where it lies. It is looked at before anything of
 * it is changed: reading a run brings its schema up to date and keeps what is computed.
 */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { EngineError } from './errors.ts';
import { refuseRemoteFolder, type StoredRun } from './library.ts';
import { asEngineError, refuseOther, RUN_APPLICATION_ID, runSteps } from './schema.ts';
import { RunStore } from './store.ts';

/** Throws `file-foreign`, `file-newer`, `file-damaged`, and `bad-input` where another process has it open. */
export function adoptedRun(file: string): StoredRun {
  refuseRemoteFolder(path.dirname(file));
  refuseStrange(file);
  const store = RunStore.open(file);
  const { meta, ticks, workers } = store;
  const ended = store.lastTick()?.at ?? null;
  const endpoints = store.endpoints().length;
  store.close(ended ?? meta.startedAt);
  return {
    id: meta.id,
    file,
    name: meta.name,
    cluster: meta.cluster,
    cluster_name: meta.clusterName,
    state: 'ended',
    started: meta.startedAt,
    ended,
    interval_ms: meta.intervalMs,
    endpoints,
    workers,
    ticks,
    bytes: fs.statSync(file).size,
    generation_tokens: null,
  };
}

/** Whoever only reads leaves its log beside the file; the last one that may write takes it away. */
export function tidy(file: string): void {
  const db = new Database(file, { fileMustExist: true });
  db.pragma('user_version');
  db.close();
}

function refuseStrange(file: string): void {
  let db: Database.Database | null = null;
  try {
    db = new Database(file, { fileMustExist: true, timeout: 0 });
    // with it, the first look fails where anybody else has the file open
    db.pragma('locking_mode = EXCLUSIVE');
    // an empty file would be made a run
    if (refuseOther(db, runSteps, RUN_APPLICATION_ID, file) === 0)
      throw new EngineError('file-foreign', `${file} is empty and no run of vLLM Scope's.`);
  } catch (error) {
    if (error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY'))
      throw new EngineError(
        'bad-input',
        `${file} is open in another program. If it is being recorded, ask again when that is over.`,
      );
    throw asEngineError(error, file);
  } finally {
    db?.close();
  }
}
