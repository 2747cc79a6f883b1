/**
 * The tables of latency histograms in a run file, the writing end: which histograms there are, by how much their buckets
 * grew in each sample, and what each worker counted so far, for going on after a break. histograms.ts has the packing.
 */
import type Database from 'better-sqlite3';
import type { BucketChange, HistogramCounts } from './bucket-counts.ts';
import { bucketSources } from './catalogue.ts';
import { decode, encode } from './histograms.ts';
import { WORKERS_MAX } from './schema.ts';

/** What a worker had counted as of its row k. */
export interface BucketState {
  k: number;
  counts: HistogramCounts[];
}

export class BucketStore {
  private readonly db: Database.Database;
  private readonly insert: Database.Statement;
  private readonly putState: Database.Statement;
  private readonly insertHistogram: Database.Statement;
  /** histogram.h by metric and bounds. */
  private readonly numbers = new Map<string, number>();
  private readonly histograms = new Map<number, { metric: string; bounds: string }>();

  constructor(db: Database.Database) {
    this.db = db;
    this.insert = db.prepare('INSERT INTO bucket(k, counts) VALUES (?, ?)');
    this.putState = db.prepare('INSERT OR REPLACE INTO bucket_state(w, k, counts) VALUES (?, ?, ?)');
    this.insertHistogram = db.prepare('INSERT INTO histogram(h, metric, bounds) VALUES (?, ?, ?)');
    const rows = db.prepare('SELECT h, metric, bounds FROM histogram').all() as {
      h: number;
      metric: string;
      bounds: string;
    }[];
    for (const { h, metric, bounds } of rows) this.keep(h, metric, bounds);
  }

  /** What a sample adds; in the transaction that writes the sample. */
  write(k: number, { increases, state }: BucketChange): void {
    if (increases.length > 0) this.insert.run(k, this.pack(increases));
    if (state) this.putState.run(k % WORKERS_MAX, k, this.pack(state));
  }

  writeStates(states: readonly BucketState[]): void {
    this.db.transaction(() => {
      for (const { k, counts } of states) this.putState.run(k % WORKERS_MAX, k, this.pack(counts));
    })();
  }

  /** What a worker had counted as of its last row; null where it had histograms and nobody kept their buckets. */
  remembered(w: number): HistogramCounts[] | null {
    const state = this.db.prepare('SELECT k, counts FROM bucket_state WHERE w = ?').get(w) as
      { k: number; counts: Uint8Array } | undefined;
    if (!state) {
      const columns = JSON.stringify(bucketSources.map(({ count }) => count));
      const seen = this.db
        .prepare('SELECT 1 FROM series WHERE w = ? AND metric IN (SELECT value FROM json_each(?))')
        .get(w, columns);
      return seen ? null : [];
    }
    const counted = new Map<number, HistogramCounts & { counts: number[] }>();
    const into = (h: number) => {
      const histogram = this.histograms.get(h);
      if (!histogram) return null; // of a damaged file
      let found = counted.get(h);
      if (!found) {
        const buckets = (JSON.parse(histogram.bounds) as number[]).length + 1;
        counted.set(h, (found = { ...histogram, counts: Array<number>(buckets).fill(0) }));
      }
      return found.counts;
    };
    decode(state.counts, into);
    const later = this.db
      .prepare(
        `SELECT b.counts FROM tick t CROSS JOIN bucket b ON b.k = t.t * ${WORKERS_MAX} + CAST(? AS INTEGER)
         WHERE t.t > ? ORDER BY t.t`,
      )
      .pluck()
      .all(w, Math.floor(state.k / WORKERS_MAX)) as Uint8Array[];
    for (const increases of later) decode(increases, into);
    return [...counted.values()];
  }

  private pack(counted: readonly HistogramCounts[]): Uint8Array {
    return encode(
      counted.map(({ metric, bounds, counts }) => ({ h: this.numberOf(metric, bounds), counts })),
    );
  }

  private numberOf(metric: string, bounds: string): number {
    const known = this.numbers.get(metric + bounds);
    if (known !== undefined) return known;
    const h = this.numbers.size;
    this.insertHistogram.run(h, metric, bounds);
    this.keep(h, metric, bounds);
    return h;
  }

  private keep(h: number, metric: string, bounds: string): void {
    this.numbers.set(metric + bounds, h);
    this.histograms.set(h, { metric, bounds });
  }
}
