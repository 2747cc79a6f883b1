/**
 * What outlives a run: clusters, preferences and the list of runs, in library.db of the data folder; and the lock that
 * lets one engine write there at a time. Run files themselves are store.ts' work.
 */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import type { RunState, UploadState, WandbProblem, WandbTarget } from './api.ts';
import { EngineError } from './errors.ts';
import { LIBRARY_APPLICATION_ID, librarySteps, openForWriting } from './schema.ts';
import type { Mapping } from './upload-mapping.ts';
import type { LedgerState } from './wandb/contract.ts';

export interface StoredCluster {
  id: string;
  name: string;
  /** Pasted ones; those of file_sd files are found anew. */
  endpoints: string[];
  /** Paths and globs of file_sd files. */
  files: string[];
  intervalMs: number;
  timeoutMs: number;
  caFile: string | null;
  /** Names of headers whose values are in secrets.ts' keeping. */
  headers: string[];
  /** URLs whose user and password are. */
  logins: string[];
  record: boolean;
  /** Whether it was being scraped when the engine last knew. */
  connected: boolean;
  added: number;
}

export interface StoredRun {
  id: string;
  file: string;
  name: string;
  cluster: string;
  cluster_name: string;
  state: RunState;
  started: number;
  ended: number | null;
  interval_ms: number;
  endpoints: number;
  workers: number;
  ticks: number;
  bytes: number | null;
  generation_tokens: number | null;
}

/** A run on its way to W&B, and what W&B has of it: the authority on where to go on. */
export interface StoredUpload extends LedgerState {
  /** The run's id on W&B. */
  id: string;
  run: string;
  target: WandbTarget;
  mapping: Mapping;
  live: boolean;
  /** As it was left; `sending` where nothing sends: the engine ended meanwhile. */
  state: UploadState;
  problem: WandbProblem | null;
  failed: { name: string; reason: string }[];
  /** Of the first `digestRows` rows; null: none was sent. */
  digest: string | null;
  digestRows: number;
  began: number;
  updated: number;
}

/** Filesystems on which SQLite's WAL is unsafe, since its shared memory is not shared: magic numbers of statfs(2). */
const remote = new Map([
  [0x6969, 'NFS'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
  [0x517b, 'SMB'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x19830326, 'BeeGFS'],
  [0x00c36400, 'Ceph'],
  [0x01021997, '9P'],
]);

/** Throws `folder-remote` where the folder lies on a network filesystem; `kind` is given by tests. */
export function refuseRemoteFolder(folder: string, kind = fs.statfsSync(folder).type): void {
  const name = remote.get(kind);
  if (name)
    throw new EngineError(
      'folder-remote',
      `${folder} lies on a network filesystem (${name}), where SQLite files can be damaged. Choose a local disk with --data DIR.`,
    );
}

export interface FolderLock {
  release(): void;
}

/** One engine a data folder. A lock of SQLite's own: it dies with the process, however that ends. */
export function lockFolder(folder: string): FolderLock {
  const db = new Database(path.join(folder, 'lock'), { timeout: 0 });
  try {
    db.pragma('journal_mode = DELETE');
    db.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    db.close();
    if (error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY'))
      throw new EngineError(
        'folder-locked',
        `Another vLLM Scope records into ${folder}. Use that one, or give this one a folder of its own with --data DIR.`,
      );
    throw error;
  }
  return { release: () => db.close() };
}

export class Library {
  private readonly db: Database.Database;

  constructor(folder: string) {
    const file = path.join(folder, 'library.db');
    this.db = openForWriting(file, librarySteps, LIBRARY_APPLICATION_ID);
    this.db.pragma('synchronous = FULL');
    this.db.pragma('wal_autocheckpoint = 1000');
  }

  clusters(): StoredCluster[] {
    const rows = this.db.prepare('SELECT * FROM cluster ORDER BY added').all() as Record<string, unknown>[];
    const list = (json: unknown) => JSON.parse(json as string) as string[];
    return rows.map((r) => ({
      id: r.id as string,
      name: r.name as string,
      endpoints: list(r.endpoints),
      files: list(r.files),
      intervalMs: r.interval_ms as number,
      timeoutMs: r.timeout_ms as number,
      caFile: r.ca_file as string | null,
      headers: list(r.headers),
      logins: list(r.logins),
      record: r.record === 1,
      connected: r.connected === 1,
      added: r.added as number,
    }));
  }

  putCluster(c: StoredCluster): void {
    this.put('cluster', {
      id: c.id,
      name: c.name,
      endpoints: JSON.stringify(c.endpoints),
      files: JSON.stringify(c.files),
      interval_ms: c.intervalMs,
      timeout_ms: c.timeoutMs,
      ca_file: c.caFile,
      headers: JSON.stringify(c.headers),
      logins: JSON.stringify(c.logins),
      record: Number(c.record),
      connected: Number(c.connected),
      added: c.added,
    });
  }

  removeCluster(id: string): void {
    this.db.prepare('DELETE FROM cluster WHERE id = ?').run(id);
  }

  preferences(): Record<string, unknown> {
    const rows = this.db.prepare('SELECT key, value FROM preference').all() as {
      key: string;
      value: string;
    }[];
    return Object.fromEntries(rows.map((r) => [r.key, JSON.parse(r.value) as unknown]));
  }

  setPreference(key: string, value: unknown): void {
    if (value === null || value === undefined)
      this.db.prepare('DELETE FROM preference WHERE key = ?').run(key);
    else
      this.db
        .prepare('INSERT OR REPLACE INTO preference(key, value) VALUES (?, ?)')
        .run(key, JSON.stringify(value));
  }

  /** Newest first. */
  runs(): StoredRun[] {
    return this.db.prepare('SELECT * FROM run ORDER BY started DESC').all() as StoredRun[];
  }

  run(id: string): StoredRun | undefined {
    return this.db.prepare('SELECT * FROM run WHERE id = ?').get(id) as StoredRun | undefined;
  }

  putRun(r: StoredRun): void {
    this.put('run', { ...r });
  }

  private put(table: 'cluster' | 'run' | 'upload', row: Record<string, unknown>): void {
    const names = Object.keys(row);
    this.db
      .prepare(
        `INSERT OR REPLACE INTO ${table}(${names.join(', ')}) VALUES (${names.map((n) => `:${n}`).join(', ')})`,
      )
      .run(row);
  }

  removeRun(id: string): void {
    this.db.prepare('DELETE FROM run WHERE id = ?').run(id);
  }

  /** Of one run, or of all; newest first. */
  uploads(run: string | null = null): StoredUpload[] {
    const rows = this.db
      .prepare('SELECT * FROM upload WHERE run = coalesce(?, run) ORDER BY began DESC, rowid DESC')
      .all(run) as Record<string, unknown>[];
    return rows.map(uploadOf);
  }

  putUpload(u: StoredUpload): void {
    this.put('upload', {
      ...{ id: u.id, run: u.run, target: JSON.stringify(u.target), mapping: JSON.stringify(u.mapping) },
      ...{ live: Number(u.live), state: u.state, problem: u.problem && JSON.stringify(u.problem) },
      ...{ failed: JSON.stringify(u.failed), digest: u.digest, digest_rows: u.digestRows },
      ...{ created: Number(u.created), storage: u.storageId, entity: u.entity, project: u.project },
      ...{ display_name: u.displayName, acked: u.acked, files: JSON.stringify(u.files) },
      ...{ complete: Number(u.complete), described: Number(u.described), began: u.began, updated: u.updated },
    });
  }

  close(): void {
    try {
      this.db.pragma('wal_checkpoint(TRUNCATE)');
    } catch {
      // on a full disk: its log stays beside it, and is read the next time
    } finally {
      this.db.close();
    }
  }
}

function uploadOf(r: Record<string, unknown>): StoredUpload {
  const json = <T>(value: unknown) => JSON.parse(value as string) as T;
  return {
    ...{ id: r.id as string, run: r.run as string, target: json(r.target), mapping: json(r.mapping) },
    ...{
      live: r.live === 1,
      state: r.state as UploadState,
      problem: r.problem === null ? null : json(r.problem),
    },
    ...{ failed: json(r.failed), digest: r.digest as string | null, digestRows: r.digest_rows as number },
    ...{ created: r.created === 1, storageId: r.storage as string | null, entity: r.entity as string | null },
    ...{ project: r.project as string | null, displayName: r.display_name as string | null },
    ...{ acked: r.acked as number, files: json(r.files), complete: r.complete === 1 },
    described: r.described === 1,
    ...{ began: r.began as number, updated: r.updated as number },
  };
}
