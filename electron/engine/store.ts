/**
 * One run file, the writing end: made, opened to go on, written a tick at a time in one transaction, closed.
 * Reading for people is reader.ts' work, in a thread of its own.
 */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import type { OutcomeReason } from './api.ts';
import { BucketStore } from './bucket-store.ts';
import { columns } from './catalogue.ts';
import { EngineError } from './errors.ts';
import { asEngineError, openForWriting, RUN_APPLICATION_ID, runSteps, WORKERS_MAX } from './schema.ts';
import { SCALARS_VERSION } from './scalars.ts';
import { StepStore } from './step-store.ts';
import { ROLLUP_VERSION } from './vectors.ts';
import type { Changes, EventRow, Remembered, WorkerRow } from './workers.ts';

/** What a run file says of itself; rows of `meta`. */
export interface RunMeta {
  id: string;
  name: string;
  cluster: string;
  clusterName: string;
  startedAt: number;
  intervalMs: number;
  timeoutMs: number;
  appVersion: string;
}

export interface Outage {
  endpoint: number;
  reason: OutcomeReason;
  detail: string;
  /** Scrapes asked and failed; a slot skipped by back-off lengthens the range and counts none. */
  asked: boolean;
}

/** One rolled-up bucket of one column: blobs as vectors.ts packs them. */
export interface PackedBucket {
  id: number;
  /** Workers known when it was made; a vector of one element stands for all of them. */
  workers: number;
  n: Uint8Array;
  ms: Uint8Array;
  sum: Uint8Array;
  min: Uint8Array;
  max: Uint8Array;
}

/** A row of `endpoint`; its number is its place. */
export interface StoredEndpoint {
  url: string;
  /** Of its file_sd entry. */
  labels: Record<string, string>;
}

const insertEndpoint = 'INSERT INTO endpoint(e, url, added, labels) VALUES (?, ?, ?, ?)';

interface OpenOutage {
  id: number;
  reason: string;
}

export class RunStore {
  readonly file: string;
  readonly meta: RunMeta;
  private readonly db: Database.Database;
  private readonly insertTick: Database.Statement;
  private readonly insertSample: Database.Statement;
  private readonly putWorker: Database.Statement;
  private readonly insertSeries: Database.Statement;
  private readonly insertEvent: Database.Statement;
  private readonly insertOutage: Database.Statement;
  private readonly lengthenOutage: Database.Statement;
  private readonly outages = new Map<number, OpenOutage>();
  readonly steps: StepStore;
  readonly buckets: BucketStore;
  private readonly row: (number | null)[] = [];
  ticks: number;
  workers: number;
  /** Rises when rollups are thrown away: what was being made then must not be written. */
  rollupsThrown = 0;

  private constructor(db: Database.Database, file: string) {
    this.db = db;
    this.file = file;
    this.meta = readMeta(db, file);
    this.insertTick = db.prepare('INSERT OR IGNORE INTO tick(t, at) VALUES (?, ?)');
    const names = columns.map((c) => c.id);
    this.insertSample = db.prepare(
      `INSERT INTO sample(k, at, took, epoch, back, ${names.join(', ')}) VALUES (?, ?, ?, ?, ?${', ?'.repeat(names.length)})`,
    );
    this.putWorker = db.prepare(
      `INSERT INTO worker(w, endpoint, engine, model, replica, labels, first, created, several)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT(w) DO UPDATE SET created = excluded.created, several = excluded.several`,
    );
    this.insertSeries = db.prepare(
      'INSERT OR IGNORE INTO series(metric, w, first, zero_at) VALUES (?, ?, ?, ?)',
    );
    this.insertEvent = db.prepare(
      'INSERT INTO event(t, at, kind, endpoint, w, detail) VALUES (?, ?, ?, ?, ?, ?)',
    );
    this.insertOutage = db.prepare(
      `INSERT INTO outage(endpoint, first, last, began, ended, reason, detail, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.lengthenOutage =
      db.prepare(`UPDATE outage SET last = ?, ended = ?, count = count + ?, reason = coalesce(?, reason),
         detail = coalesce(?, detail) WHERE id = ?`);
    this.steps = new StepStore(db);
    this.buckets = new BucketStore(db);
    if (db.prepare("SELECT value FROM meta WHERE key = 'scalars'").pluck().get() !== SCALARS_VERSION) {
      this.steps.dropScalars();
      db.prepare("INSERT OR REPLACE INTO meta(key, value) VALUES ('scalars', CAST(? AS INTEGER))").run(
        SCALARS_VERSION,
      );
    }
    const rollups = db.prepare("SELECT value FROM meta WHERE key = 'rollups'").pluck().get();
    if (rollups !== ROLLUP_VERSION) {
      this.dropRollups();
      db.prepare("INSERT OR REPLACE INTO meta(key, value) VALUES ('rollups', CAST(? AS INTEGER))").run(
        ROLLUP_VERSION,
      );
    }
    this.ticks = db.prepare('SELECT count(*) FROM tick').pluck().get() as number;
    this.workers = db.prepare('SELECT count(*) FROM worker').pluck().get() as number;
  }

  /** A new file; throws where one is already. */
  static create(file: string, meta: RunMeta, endpoints: readonly StoredEndpoint[]): RunStore {
    if (fs.existsSync(file))
      throw new EngineError('bad-input', `${file} exists already; choose another name.`);
    // not made here: mkdir of a path under /proc never returns
    if (!fs.existsSync(path.dirname(file)))
      throw new EngineError('bad-input', `The folder ${path.dirname(file)} is not there.`);
    const db = openForWriting(file, runSteps, RUN_APPLICATION_ID);
    try {
      const put = db.prepare('INSERT INTO meta(key, value) VALUES (?, ?)');
      db.transaction(() => {
        for (const [key, value] of Object.entries(meta)) put.run(key, value);
        const endpoint = db.prepare(insertEndpoint);
        endpoints.forEach(({ url, labels }, e) => endpoint.run(e, url, 0, JSON.stringify(labels)));
        db.prepare('INSERT INTO stretch(first, began) VALUES (0, ?)').run(meta.startedAt);
      })();
      return new RunStore(db, file);
    } catch (error) {
      db.close();
      throw asEngineError(error, file);
    }
  }

  /** An existing run, to write more into it or to close what a crash left open. */
  static open(file: string): RunStore {
    if (!fs.existsSync(file)) throw new EngineError('not-found', `${file} is gone.`);
    const db = openForWriting(file, runSteps, RUN_APPLICATION_ID);
    try {
      return new RunStore(db, file);
    } catch (error) {
      db.close();
      throw asEngineError(error, file);
    }
  }

  /** The last slot and its time; null before the first. */
  lastTick(): { t: number; at: number } | null {
    return (
      (this.db.prepare('SELECT t, at FROM tick ORDER BY t DESC LIMIT 1').get() as
        { t: number; at: number } | undefined) ?? null
    );
  }

  /** null: none yet. */
  firstTickAt(): number | null {
    return this.db.prepare('SELECT min(at) FROM tick').pluck().get() as number | null;
  }

  get closed(): boolean {
    return !this.db.open;
  }

  endpoints(): StoredEndpoint[] {
    const rows = this.db.prepare('SELECT url, labels FROM endpoint ORDER BY e').all() as {
      url: string;
      labels: string;
    }[];
    return rows.map((r) => ({ url: r.url, labels: JSON.parse(r.labels) as Record<string, string> }));
  }

  /**
   * Further endpoints, from the next tick on; those of which, and of whose workers, nothing is expected from the last
   * tick on; and those that are asked again.
   */
  writeEndpoints(
    joined: readonly (StoredEndpoint & { e: number })[],
    left: readonly number[],
    back: readonly number[],
  ): void {
    const last = this.lastTick()?.t ?? -1;
    const add = this.db.prepare(insertEndpoint);
    const set = ['endpoint SET removed = ? WHERE e = ?', 'worker SET removed = ? WHERE endpoint = ?'].map(
      (to) => this.db.prepare(`UPDATE ${to}`),
    );
    this.db.transaction(() => {
      for (const { e, url, labels } of joined) add.run(e, url, last + 1, JSON.stringify(labels));
      for (const statement of set) {
        for (const e of left) statement.run(Math.max(last, 0), e);
        for (const e of back) statement.run(null, e);
      }
    })();
    for (const e of left) this.outages.delete(e);
  }

  writeVersion(endpoint: number, version: string): void {
    this.db.prepare('UPDATE endpoint SET version = ? WHERE e = ?').run(version, endpoint);
  }

  /** What a WorkerBook needs to go on. */
  remembered(): Remembered {
    const last = this.db.prepare(
      `SELECT s.* FROM tick t CROSS JOIN sample s ON s.k = t.t * ${WORKERS_MAX} + CAST(? AS INTEGER) ORDER BY t.t DESC LIMIT 1`,
    );
    const seen = this.db.prepare('SELECT metric FROM series WHERE w = ?').pluck();
    const rows = this.db.prepare('SELECT * FROM worker ORDER BY w').all() as Record<string, unknown>[];
    const workers = rows.map((r) => {
      const sample = last.get(r.w) as Record<string, number | null> | undefined;
      return {
        w: r.w as number,
        endpoint: r.endpoint as number,
        engine: r.engine as string,
        model: r.model as string,
        replica: r.replica as string,
        labels: JSON.parse(r.labels as string) as Record<string, string>,
        first: r.first as number,
        created: (r.created as number | null) ?? NaN,
        several: r.several as number | null,
        epoch: sample?.epoch ?? 0,
        lastT: sample ? Math.floor(sample.k! / WORKERS_MAX) : -1,
        lastAt: sample?.at ?? null,
        values: Float64Array.from(columns, (c) => sample?.[c.id] ?? NaN),
        columnsSeen: seen.all(r.w) as string[],
        buckets: this.buckets.remembered(r.w as number),
      };
    });
    return { workers, lastTickAt: this.lastTick()?.at ?? null };
  }

  /** Marks that the run goes on after a break, at the time of the first tick of the new stretch. */
  beginStretch(first: number, at: number, detail: string): void {
    this.db.transaction(() => {
      // the one before ended with its last tick: whoever wrote it could not say so
      this.db
        .prepare('UPDATE stretch SET ended = coalesce((SELECT max(at) FROM tick), began) WHERE ended IS NULL')
        .run();
      this.db.prepare('INSERT OR REPLACE INTO stretch(first, began) VALUES (?, ?)').run(first, at);
      this.insertEvent.run(first, at, 'stretch', null, null, detail);
    })();
  }

  /**
   * One batch of a tick, in one transaction: rows, what is new about workers, failures as ranges. May be called again
   * for the same tick with what came later. `answered`: endpoints that did answer, which ends their outages.
   */
  write(
    t: number,
    at: number,
    changes: Changes,
    failed: readonly Outage[],
    answered: readonly number[],
  ): void {
    try {
      this.db.transaction(() => {
        this.ticks += this.insertTick.run(t, at).changes;
        for (const worker of changes.workers) this.writeWorker(worker);
        for (const s of changes.series) this.insertSeries.run(s.column, s.w, s.first, s.zeroAt);
        for (const s of changes.samples) {
          const row = this.row;
          row.length = 5 + s.values.length;
          row[0] = t * WORKERS_MAX + s.w;
          row[1] = s.at;
          row[2] = s.took;
          row[3] = s.epoch;
          row[4] = s.back;
          for (let i = 0; i < s.values.length; i++) {
            const value = s.values[i]!;
            row[5 + i] = Number.isNaN(value) ? null : value;
          }
          this.insertSample.run(row);
          if (s.buckets) this.buckets.write(row[0], s.buckets);
        }
        this.writeEvents(changes.events);
        for (const endpoint of answered) this.outages.delete(endpoint);
        for (const outage of failed) this.writeOutage(t, at, outage);
      })();
    } catch (error) {
      throw asEngineError(error, this.file);
    }
  }

  writeEvents(events: readonly EventRow[]): void {
    this.db.transaction(() => {
      for (const e of events) this.insertEvent.run(e.t, e.at, e.kind, e.endpoint, e.w, e.detail);
    })();
  }

  private writeWorker(w: WorkerRow): void {
    const created = Number.isNaN(w.created) ? null : w.created;
    this.putWorker.run(
      w.w,
      w.endpoint,
      w.engine,
      w.model,
      w.replica,
      JSON.stringify(w.labels),
      w.first,
      created,
      w.several,
    );
    this.workers = Math.max(this.workers, w.w + 1);
    // the counts made in its name before it was found out are as wrong as those to come
    if (w.several !== null) this.dropRollups();
  }

  private writeOutage(t: number, at: number, { endpoint, reason, detail, asked }: Outage): void {
    const open = this.outages.get(endpoint);
    // a scrape that is late may become one that timed out: one range, and the time-out is its reason
    const becomes = open?.reason === 'late' && reason === 'timeout';
    if (open && (open.reason === reason || becomes || (open.reason === 'timeout' && reason === 'late'))) {
      this.lengthenOutage.run(
        t,
        at,
        asked ? 1 : 0,
        becomes ? reason : null,
        becomes ? detail : null,
        open.id,
      );
      if (becomes) open.reason = reason;
      return;
    }
    const { lastInsertRowid } = this.insertOutage.run(endpoint, t, t, at, at, reason, detail, asked ? 1 : 0);
    this.outages.set(endpoint, { id: Number(lastInsertRowid), reason });
  }

  /** Rollups are a cache: thrown away, they are made again from the raw rows. */
  dropRollups(): void {
    this.rollupsThrown++;
    this.db.exec('DELETE FROM vec; DELETE FROM rolled;');
    this.steps.dropScalars();
  }

  /** Buckets of one width up to `until` (not included) are final from here on. */
  writeRollups(width: number, until: number, buckets: readonly PackedBucket[]): void {
    const put = this.db.prepare(
      'INSERT OR REPLACE INTO vec(id, workers, n, ms, sum, min, max) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.db.transaction(() => {
      for (const b of buckets) put.run(b.id, b.workers, b.n, b.ms, b.sum, b.min, b.max);
      this.db.prepare('INSERT OR REPLACE INTO rolled(width, until) VALUES (?, ?)').run(width, until);
    })();
  }

  rename(name: string): void {
    this.db.prepare("INSERT OR REPLACE INTO meta(key, value) VALUES ('name', ?)").run(name);
    this.meta.name = name;
  }

  /** Ends the stretch and folds the WAL into the file, so that it can be copied as it is. */
  close(endedAt: number): void {
    try {
      this.db.prepare('UPDATE stretch SET ended = ? WHERE ended IS NULL').run(endedAt);
      this.db.pragma('wal_checkpoint(TRUNCATE)');
    } catch (error) {
      throw asEngineError(error, this.file);
    } finally {
      this.db.close();
    }
  }
}

/** What the file says of itself; throws `file-damaged` where it says nothing. */
export function readMeta(db: Database.Database, file: string): RunMeta {
  const rows = db.prepare('SELECT key, value FROM meta').all() as { key: string; value: unknown }[];
  const meta = Object.fromEntries(rows.map((r) => [r.key, r.value])) as unknown as RunMeta;
  if (typeof meta.id !== 'string' || typeof meta.intervalMs !== 'number')
    throw new EngineError(
      'file-damaged',
      `${file} says nothing of its run (table meta). It is no whole run file.`,
    );
  return meta;
}
