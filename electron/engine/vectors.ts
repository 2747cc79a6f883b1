/**
 * Rolled-up buckets as vectors over workers, and how they are packed into blobs. A blob of one element stands for all
 * workers (an idle fleet's zeros cost a few bytes). n, min and max are Float32, ms and sum Float64; absent is NaN in
 * min and max, 0 in n.
 */
import type { PackedBucket } from './store.ts';

/** Bucket widths in seconds, and the classes that stand in `vec.id`. */
export const WIDTHS = [10, 60, 600] as const;
export type Width = (typeof WIDTHS)[number];

/** Raise when the meaning of a rollup changes: the ones of old files are then made anew. */
export const ROLLUP_VERSION = 1;

/** (class * 1024 + column) * 2^24 + bucket: clustered by width, then column, then time. */
export const vecId = (width: Width, column: number, bucket: number) =>
  (WIDTHS.indexOf(width) * 1024 + column) * 0x1000000 + bucket;
export const bucketOfId = (id: number) => id % 0x1000000;

/** Of one column in one bucket, each indexed by worker. */
export interface Bucket {
  n: Float64Array;
  /** Of counters: the time its deltas took. */
  ms: Float64Array;
  /** Gauges: of the samples. Counters: of the deltas. */
  sum: Float64Array;
  /** Gauges: of the samples. Counters: of the rates, a second. */
  min: Float64Array;
  max: Float64Array;
}

export const emptyBucket = (workers: number): Bucket => ({
  n: new Float64Array(workers),
  ms: new Float64Array(workers),
  sum: new Float64Array(workers),
  min: new Float64Array(workers).fill(NaN),
  max: new Float64Array(workers).fill(NaN),
});

/** Adds `other`, a bucket of the same column beside it in time (it may know fewer workers). */
export function addBucket(into: Bucket, other: Bucket): void {
  for (let w = 0; w < other.n.length; w++) {
    into.n[w]! += other.n[w]!;
    into.ms[w]! += other.ms[w]!;
    into.sum[w]! += other.sum[w]!;
    // NaN loses against a number in both
    if (!(into.min[w]! <= other.min[w]!))
      into.min[w] = Number.isNaN(other.min[w]!) ? into.min[w]! : other.min[w]!;
    if (!(into.max[w]! >= other.max[w]!))
      into.max[w] = Number.isNaN(other.max[w]!) ? into.max[w]! : other.max[w]!;
  }
}

function packVector(values: Float64Array, small: boolean): Uint8Array {
  const same = values.every((v) => Object.is(v, values[0]));
  const kept = same ? values.subarray(0, 1) : values;
  return new Uint8Array((small ? new Float32Array(kept) : new Float64Array(kept)).buffer);
}

/** Into `out`, which has as many places as there were workers when the bucket was packed, or more. */
function unpackVector(blob: Uint8Array, small: boolean, workers: number, out: Float64Array): void {
  const size = small ? 4 : 8;
  // a typed array must begin at a multiple of its elements' size
  const bytes = blob.byteOffset % size === 0 ? blob : Uint8Array.from(blob);
  const length = bytes.byteLength / size;
  const values = small
    ? new Float32Array(bytes.buffer, bytes.byteOffset, length)
    : new Float64Array(bytes.buffer, bytes.byteOffset, length);
  if (length === 1) out.fill(values[0]!, 0, workers);
  else out.set(values);
}

export const pack = (id: number, b: Bucket): PackedBucket => ({
  id,
  workers: b.n.length,
  n: packVector(b.n, true),
  ms: packVector(b.ms, false),
  sum: packVector(b.sum, false),
  min: packVector(b.min, true),
  max: packVector(b.max, true),
});

/** With room for `workers` (those that came later have n = 0). */
export function unpack(row: PackedBucket, workers: number): Bucket {
  const b = emptyBucket(Math.max(workers, row.workers));
  unpackVector(row.n, true, row.workers, b.n);
  unpackVector(row.ms, false, row.workers, b.ms);
  unpackVector(row.sum, false, row.workers, b.sum);
  unpackVector(row.min, true, row.workers, b.min);
  unpackVector(row.max, true, row.workers, b.max);
  return b;
}
