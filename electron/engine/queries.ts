/**
 * Every analysing SQL statement, named by the question it answers. The arithmetic of the whole project stands here,
 * as window queries over raw rows; rollups are made by the same text. docs/metrics.md says what each number means.
 *
 * better-sqlite3 binds every JS number as REAL, so integers are cast where division or modulo depends on it.
 */
import { columns } from './catalogue.ts';

const kindOf = new Map(columns.map((c) => [c.id, c.kind]));

/** Column names come from the catalogue only, never from outside; anything else is a bug. */
function checked(column: string): string {
  if (!kindOf.has(column)) throw new Error(`no column ${column} in the catalogue`);
  return column;
}

/**
 * The samples of one column in slots :first..:last that have a value, each with the one before it (`p`, `pe` its
 * epoch, `pat` its time), however far back in the run that lies: it is reached through `back`, and looked for only
 * where `series` says that there is one. Gives `pair(k, w, at, v, ms, delta, reset)`:
 *   delta  arithmetic.md, "Delta of a counter": v - p in one epoch; v after a reset (a lower bound); v - 0 for a series
 *          known to have begun at 0; NULL for the first of a worker, and where several servers answer in its name
 *   ms     between the two samples' own times, NULL without a delta
 * Within an epoch v >= p holds, since workers.ts raises it at every fall; max() absorbs the last bit of float sums.
 */
const pairs = (column: string, name = 'pair') => `
  ${name}_inside(k, w, at, epoch, back, v) AS (
    SELECT k, k % 4096, at, epoch, back, ${checked(column)} FROM sample
    WHERE k BETWEEN CAST(:first AS INTEGER) * 4096 AND CAST(:last AS INTEGER) * 4096 + 4095),
  ${name}_before(w, k, at, epoch, back, v) AS (
    SELECT f.w, p.k, p.at, p.epoch, p.back, p.${column}
    FROM (SELECT w, min(k) AS k, back FROM ${name}_inside GROUP BY w) f
    JOIN series r ON r.metric = '${column}' AND r.w = f.w AND r.first < f.k
    JOIN sample p ON p.k = f.k - f.back * 4096
    UNION ALL
    SELECT b.w, p.k, p.at, p.epoch, p.back, p.${column} FROM ${name}_before b JOIN sample p ON p.k = b.k - b.back * 4096
    WHERE b.v IS NULL),
  ${name}_lagged AS (
    SELECT k, w, at, v, epoch, own, lag(v) OVER x AS p, lag(epoch) OVER x AS pe, lag(at) OVER x AS pat
    FROM (
      SELECT k, w, at, epoch, v, 1 AS own FROM ${name}_inside WHERE v IS NOT NULL
      UNION ALL SELECT k, w, at, epoch, v, 0 FROM ${name}_before WHERE v IS NOT NULL)
    WINDOW x AS (PARTITION BY w ORDER BY k)),
  ${name} AS (
    SELECT l.k, l.w, l.at, l.v,
      CASE WHEN o.several IS NOT NULL THEN NULL
        WHEN l.p IS NOT NULL THEN l.at - l.pat
        WHEN r.first = l.k THEN l.at - r.zero_at END AS ms,
      CASE WHEN o.several IS NOT NULL THEN NULL
        WHEN l.p IS NOT NULL THEN iif(l.epoch = l.pe, max(l.v - l.p, 0), l.v)
        WHEN r.first = l.k AND r.zero_at IS NOT NULL THEN l.v END AS delta,
      l.p IS NOT NULL AND l.epoch <> l.pe AS reset
    FROM ${name}_lagged l
    JOIN worker o ON o.w = l.w
    LEFT JOIN series r ON r.metric = '${column}' AND r.w = l.w
    WHERE l.own)`;

/** A second's rate of a pair; NULL without a delta or where the clock stood still between the two. */
const rate = (name = 'pair') => `iif(${name}.ms > 0, ${name}.delta * 1000.0 / ${name}.ms, NULL)`;

/** Raw values of a gauge in slots :first..:last. */
export const gaugeSamples = (column: string) => `
  SELECT k, at, ${checked(column)} AS v FROM sample
  WHERE k BETWEEN CAST(:first AS INTEGER) * 4096 AND CAST(:last AS INTEGER) * 4096 + 4095`;

/** Delta and rate of every sample of a counter in slots :first..:last. */
export const counterSamples = (column: string) => `
  WITH RECURSIVE ${pairs(column)}
  SELECT k, at, delta, ms, ${rate()} AS v, reset FROM pair`;

/** Part and whole of every sample's deltas, and their ratio; NULL where the whole did not move. */
export const ratioSamples = (part: string, whole: string) => `
  WITH RECURSIVE ${pairs(part, 'p')}, ${pairs(whole, 'q')}
  SELECT q.k, q.at, p.delta AS part, q.delta AS whole, iif(q.delta > 0, p.delta * 1.0 / q.delta, NULL) AS v
  FROM q LEFT JOIN p ON p.k = q.k`;

/** Where the samples of slots :first..:last stand: of every worker that answered. */
export const answers = `
  SELECT k, at FROM sample WHERE k BETWEEN CAST(:first AS INTEGER) * 4096 AND CAST(:last AS INTEGER) * 4096 + 4095`;

/** Ticks that began in :from..:to. */
export const ticksBetween = 'SELECT t, at FROM tick WHERE at BETWEEN :from AND :to ORDER BY t';

/** The last slot that had begun at :at, and the first that begins later. */
export const slotAt = `
  SELECT (SELECT t FROM tick WHERE at <= :at ORDER BY at DESC LIMIT 1) AS before,
    (SELECT t FROM tick WHERE at > :at ORDER BY at LIMIT 1) AS after`;

/**
 * Rolled up: per worker and bucket of :width ms since :origin, by the samples' own times. Buckets from :from to
 * :until (not included) that have samples in slots :first..:last.
 */
export const bucketsOf = (column: string) =>
  kindOf.get(column) === 'counter'
    ? `WITH RECURSIVE ${pairs(column)}
       SELECT (at - CAST(:origin AS INTEGER)) / CAST(:width AS INTEGER) AS b, w, count(*) AS n,
         coalesce(sum(iif(delta IS NULL, 0, ms)), 0) AS ms, coalesce(sum(delta), 0) AS sum,
         min(${rate()}) AS min, max(${rate()}) AS max
       FROM pair WHERE b >= :from AND b < :until GROUP BY b, w ORDER BY b`
    : `SELECT (at - CAST(:origin AS INTEGER)) / CAST(:width AS INTEGER) AS b, k % 4096 AS w, count(*) AS n, 0 AS ms,
         sum(${checked(column)}) AS sum, min(${column}) AS min, max(${column}) AS max
       FROM sample
       WHERE k BETWEEN CAST(:first AS INTEGER) * 4096 AND CAST(:last AS INTEGER) * 4096 + 4095
         AND ${column} IS NOT NULL AND b >= :from AND b < :until GROUP BY b, w ORDER BY b`;

/**
 * The edges of each window of :windows (JSON [[begin, end], ...] in epoch ms, in their order) per worker, into
 * temp.own(n, w, a, b, lost), n from :n on: it owns the samples k in (a, b].
 *   a  its last sample whose answer was there at or before the begin; where windows touch, not before the b of the
 *      window before; its first sample's predecessor (-1) where it has none so early
 *   b  its first sample that was asked for at or after the end; where there is none, its last one (`lost` where the run
 *      went on after the end: what it did from there to the end was not seen)
 * A sample in slot t was answered in slot t, so a is searched from the last slot that had begun at `begin` backwards
 * (`back` makes that one look-up), b from the last slot that had begun at `end` onwards.
 */
export const makeEdges = `
  INSERT INTO temp.own(n, w, a, b, lost)
  WITH win(n, begin, end) AS (
    SELECT CAST(:n AS INTEGER) + key, value ->> 0, value ->> 1 FROM json_each(:windows)),
  edge(n, w, a, b, last) AS (
    SELECT win.n, o.w,
      coalesce((SELECT s.k FROM tick t CROSS JOIN sample s ON s.k = t.t * 4096 + o.w
        WHERE t.at <= win.begin AND t.t >= o.first AND s.at + s.took / 2.0 <= win.begin ORDER BY t.at DESC LIMIT 1), -1),
      (SELECT s.k FROM tick t CROSS JOIN sample s ON s.k = t.t * 4096 + o.w
        WHERE t.t >= max(o.first, coalesce((SELECT t FROM tick WHERE at <= win.end ORDER BY at DESC LIMIT 1), 0))
          AND s.at - s.took / 2.0 >= win.end ORDER BY t.t LIMIT 1),
      (SELECT s.k FROM tick t CROSS JOIN sample s ON s.k = t.t * 4096 + o.w ORDER BY t.t DESC LIMIT 1)
    FROM win CROSS JOIN worker o)
  SELECT n, w, max(a, coalesce(lag(coalesce(b, last)) OVER (PARTITION BY w ORDER BY n), a)), coalesce(b, last),
    b IS NULL AND EXISTS (SELECT 1 FROM tick, win WHERE win.n = edge.n AND tick.at > win.end)
  FROM edge`;

/** The slots between which all windows of temp.own lie. */
export const edgeSlots =
  'SELECT max(min(a), 0) / 4096 AS first, max(b) / 4096 AS last FROM temp.own WHERE n = :n';

/**
 * What each sample of window :n gives for a counter, into temp.measured(k, w, value, delta, whole, ms, reset):
 * value = its rate.
 */
export const measureCounter = (column: string) => `
  INSERT INTO temp.measured(k, w, value, delta, whole, ms, reset)
  WITH RECURSIVE ${pairs(column)}
  SELECT pair.k, pair.w, ${rate()}, delta, NULL, ms, reset
  FROM pair JOIN temp.own ON own.n = :n AND own.w = pair.w AND pair.k > own.a AND pair.k <= own.b`;

/** ... for a ratio: value = part / whole of that sample's deltas, NULL where the whole did not move. */
export const measureRatio = (part: string, whole: string) => `
  INSERT INTO temp.measured(k, w, value, delta, whole, ms, reset)
  WITH RECURSIVE ${pairs(part, 'p')}, ${pairs(whole, 'q')}
  SELECT q.k, q.w, iif(q.delta > 0, p.delta * 1.0 / q.delta, NULL), p.delta, q.delta, q.ms, q.reset
  FROM q LEFT JOIN p ON p.k = q.k
  JOIN temp.own ON own.n = :n AND own.w = q.w AND q.k > own.a AND q.k <= own.b`;

/** ... for a gauge: the samples from :from to :to, without the two edge samples outside. */
export const measureGauge = (column: string) => `
  INSERT INTO temp.measured(k, w, value, delta, whole, ms, reset)
  SELECT k, k % 4096, ${checked(column)}, NULL, NULL, NULL, 0 FROM sample
  WHERE k BETWEEN CAST(:first AS INTEGER) * 4096 AND CAST(:last AS INTEGER) * 4096 + 4095
    AND at BETWEEN :from AND :to AND ${column} IS NOT NULL`;

/** Linear interpolation as numpy's default: SQLite's percentile(). */
const aggregate = (value: string) =>
  `avg(${value}) AS mean, min(${value}) AS min, max(${value}) AS max, percentile(${value}, 50) AS p50,
   percentile(${value}, 95) AS p95, count(${value}) AS n`;

/** Over samples: all samples of all workers. */
export const overSamples = `SELECT ${aggregate('value')}, sum(delta) AS sum FROM temp.measured`;

/** Over time: the samples of each worker. */
export const overTime = `
  SELECT w, ${aggregate('value')}, sum(delta) AS delta, sum(whole) AS whole, sum(reset) AS resets
  FROM temp.measured GROUP BY w ORDER BY w`;

/** Over workers: one value a worker, handed in as JSON; null ones do not count. */
export const overWorkers = `
  SELECT ${aggregate('value')}, sum(value) AS sum FROM json_each(:values)`;

/** Samples that a window should have: its seconds x workers seen by its end and not removed, whatever we polled. */
export const expectedSamples = `
  SELECT sum(max(0.0, min(:to, coalesce(gone.at, :to)) - max(:from, coalesce(seen.at, :to))) / :interval) AS n
  FROM worker o LEFT JOIN tick seen ON seen.t = o.first LEFT JOIN tick gone ON gone.t = o.removed`;

export const events = `
  SELECT at, NULL AS until, kind, (SELECT url FROM endpoint WHERE e = event.endpoint) AS endpoint, w, NULL AS reason,
    1 AS count, detail FROM event WHERE at BETWEEN :from AND :to
  UNION ALL
  SELECT began, ended, 'outage', (SELECT url FROM endpoint WHERE e = outage.endpoint), NULL, reason, count, detail
  FROM outage WHERE ended >= :from AND began <= :to
  ORDER BY 1 LIMIT 10000`;

export const workerList = `
  SELECT o.*, e.url, coalesce(t.at, 0) AS first_at FROM worker o
  JOIN endpoint e ON e.e = o.endpoint LEFT JOIN tick t ON t.t = o.first ORDER BY o.w`;
