/**
 * Every analysing SQL statement, named by the question it answers. The arithmetic of the whole project stands here,
 * as window queries over raw rows; rollups are made by the same text. docs/metrics.md says what each number means.
 *
 * better-sqlite3 binds every JS number as REAL, so integers are cast where division or modulo depends on it.
 */
import { columns, metrics as allMetrics, type Metric } from './catalogue.ts';

const kindOf = new Map(columns.map((c) => [c.id, c.kind]));

/** Column names come from the catalogue only, never from outside; anything else is a bug. */
function checked(column: string): string {
  if (!kindOf.has(column)) throw new Error(`no column ${column} in the catalogue`);
  return column;
}

/** `sample` in slots :first..:last. */
const inSlots = 'BETWEEN CAST(:first AS INTEGER) * 4096 AND CAST(:last AS INTEGER) * 4096 + 4095';

/**
 * Where the sample before has no value of this column: the nearest row before it that has one, through `back`. Looked
 * for only where `series` says that there is one.
 */
const anchor = (c: string, gives: string) => `(SELECT ${gives} FROM sample q WHERE q.k = (
      WITH RECURSIVE step(k, back, v) AS (
        SELECT p.k, p.back, NULL
        UNION ALL
        SELECT x.k, x.back, x.${c} FROM step JOIN sample x ON x.k = step.k - step.back * 4096 WHERE step.v IS NULL)
      SELECT k FROM step WHERE v IS NOT NULL))`;

/** A choice for counter c: of the usual pair, of one with a gap in the column, of a series known to have begun at 0. */
const choose = (c: string, pair: string, far: string, zero: string) => `
    CASE WHEN s.${c} IS NULL OR o.several IS NOT NULL THEN NULL WHEN p.${c} IS NOT NULL THEN ${pair}
      ELSE (SELECT iif(r.first < s.k, ${anchor(c, far)}, iif(r.zero_at IS NULL, NULL, ${zero}))
        FROM series r WHERE r.metric = '${c}' AND r.w = o.w) END`;

/**
 * The samples in slots :first..:last, each with what these columns did since the sample before it: gauges as they are
 * (`c`), of a counter
 *   c_delta  arithmetic.md, "Delta of a counter": v - p in one epoch; v after a reset (a lower bound); v - 0 for a
 *            series known to have begun at 0; NULL for the first of a worker, and where several servers answer in its
 *            name
 *   c_ms     between the two samples' own times, NULL without a delta
 *   c_reset  1 after a restart
 * The sample before is one look-up through `back`; that is lag() without its sort, measured 3 times as fast for one
 * column and 14 times for the seven default panels in one pass. Within an epoch v >= p holds, since workers.ts raises
 * it at every fall; max() absorbs the last bit of float sums.
 */
const deltas = (ids: readonly string[]) => `
  SELECT s.k, s.at, o.w, ${[...new Set(ids)]
    .map(checked)
    .map((c) =>
      kindOf.get(c) === 'gauge'
        ? `s.${c}`
        : `s.${c},
    ${choose(c, `iif(s.epoch = p.epoch, max(s.${c} - p.${c}, 0), s.${c})`, `iif(s.epoch = q.epoch, max(s.${c} - q.${c}, 0), s.${c})`, `s.${c}`)} AS ${c}_delta,
    ${choose(c, 's.at - p.at', 's.at - q.at', 's.at - r.zero_at')} AS ${c}_ms,
    ${choose(c, 's.epoch <> p.epoch', 's.epoch <> q.epoch', '0')} AS ${c}_reset`,
    )
    .join(', ')}
  FROM sample s CROSS JOIN worker o ON o.w = s.k % 4096
  LEFT JOIN sample p ON p.k = s.k - s.back * 4096
  WHERE s.k ${inSlots}`;

/** A second's rate; NULL without a delta or where the clock stood still between the two samples. */
const rate = (c: string) => `iif(${c}_ms > 0, ${c}_delta * 1000.0 / ${c}_ms, NULL)`;
const ratio = (part: string, whole: string) =>
  `iif(${whole}_delta > 0, ${part}_delta * 1.0 / ${whole}_delta, NULL)`;
/** A whole whose part is absent is no part of a pooled ratio. */
const wholeOf = (part: string, whole: string) => `iif(${part}_delta IS NULL, NULL, ${whole}_delta)`;

/**
 * Raw timelines of several metrics in one pass: k, at, and of each metric its value (a level, a rate, a ratio), of
 * ratios the parts too. Columns stand in the order of `of`.
 */
export const samplesOf = (metrics: readonly (readonly string[])[]) => `
  SELECT k, at, ${metrics
    .map(([c = '', whole]) =>
      whole !== undefined
        ? `${ratio(c, whole)}, ${c}_delta, ${wholeOf(c, whole)}`
        : kindOf.get(c) === 'gauge'
          ? c
          : rate(c),
    )
    .join(', ')}
  FROM (${deltas(metrics.flat())})`;

/** Delta, its time and rate of every sample of a counter in slots :first..:last. */
export const counterSamples = (c: string) => `
  SELECT k, at, ${c}_delta AS delta, ${c}_ms AS ms, ${rate(c)} AS v, ${c}_reset AS reset
  FROM (${deltas([c])}) WHERE ${c} IS NOT NULL`;

/** Ticks that began in :from..:to. */
export const ticksBetween = 'SELECT t, at FROM tick WHERE at BETWEEN :from AND :to ORDER BY t';

/** The last slot that had begun at :at, and the first that begins later. */
export const slotAt = `
  SELECT (SELECT t FROM tick WHERE at <= :at ORDER BY at DESC LIMIT 1) AS before,
    (SELECT t FROM tick WHERE at > :at ORDER BY at LIMIT 1) AS after`;

/**
 * Rolled up, several columns in one pass: per worker and bucket of :width ms since :origin, by the samples' own times
 * from :from to :until (epoch ms, not included). Gives b, w, then of each column n, ms, sum, min, max (vectors.ts).
 */
export const bucketsOf = (ids: readonly string[]) => `
  SELECT (at - CAST(:origin AS INTEGER)) / CAST(:width AS INTEGER) AS b, w, ${ids
    .map((c) =>
      kindOf.get(c) === 'gauge'
        ? `count(${c}), 0, sum(${c}), min(${c}), max(${c})`
        : `count(${c}), sum(${c}_ms), sum(${c}_delta), min(${rate(c)}), max(${rate(c)})`,
    )
    .join(', ')}
  FROM (${deltas(ids)}) WHERE at >= :from AND at < :until GROUP BY b, w`;

/**
 * By how much histogram buckets grew in each sample that window :n owns in slots :first..:last; none of a worker whose deltas
 * mean nothing.
 */
export const bucketsOfWindow = `
  SELECT own.w, s.counts FROM bucket s
  JOIN temp.own ON own.n = :n AND own.w = s.k % 4096 AND s.k > own.a AND s.k <= own.b
  JOIN worker o ON o.w = own.w AND o.several IS NULL
  WHERE s.k ${inSlots}`;

/** What a sample gives of a metric: see `measuredRows`. */
const partsOf = ({ kind, of: [c, whole] }: Metric): Record<string, string> => {
  if (kind === 'gauge') return { value: `iif(d.at BETWEEN :from AND :to, ${c}, NULL)` };
  const owned = (sql: string) => `iif(own.w IS NULL, NULL, ${sql})`;
  if (whole === undefined)
    return { value: owned(rate(c)), delta: owned(`${c}_delta`), reset: owned(`${c}_reset`) };
  return {
    value: owned(ratio(c, whole)),
    delta: owned(`iif(${whole} IS NULL, NULL, ${c}_delta)`),
    reset: owned(`${whole}_reset`),
    whole: owned(wholeOf(c, whole)),
  };
};

/**
 * What each sample of window :n gives for these metrics, in one pass: k, w, at, and of each metric, under `name(id, part)`,
 *   value  a level, a rate, or part / whole of that sample's deltas, NULL where the whole did not move
 *   delta, reset (counters), whole (ratios)
 * A gauge is in the window by its time (:from..:to, without the two edge samples outside), a counter by the edges in
 * `own`. :first..:last are slots that hold all of them. LIMIT -1 keeps SQLite from computing a delta anew wherever it
 * is named.
 */
export const measuredRows = (metrics: readonly Metric[], own: string, name = partName) => `
  SELECT d.k, d.w, d.at${metrics
    .flatMap((m) => Object.entries(partsOf(m)).map(([part, sql]) => `,\n    ${sql} AS ${name(m.id, part)}`))
    .join('')}
  FROM (${deltas(metrics.flatMap((m) => m.of))} LIMIT -1) d ${
    metrics.every((m) => m.kind === 'gauge')
      ? 'WHERE'
      : `LEFT JOIN ${own} ON own.n = :n AND own.w = d.w AND d.k > own.a AND d.k <= own.b
  WHERE own.w IS NOT NULL OR`
  } d.at BETWEEN :from AND :to`;

const partName = (id: string, part: string) => `${id}_${part}`;
const measuredColumns = (metrics: readonly Metric[]) =>
  metrics.flatMap((m) => Object.keys(partsOf(m)).map((part) => partName(m.id, part)));

/** Where `measuredRows` are kept while they are aggregated. */
export const measuredTable = `
  CREATE TEMP TABLE measured(w INTEGER, k INTEGER, at INTEGER, ${measuredColumns(allMetrics).join(', ')},
    PRIMARY KEY(w, k)) WITHOUT ROWID`;

export const measure = (metrics: readonly Metric[]) =>
  `INSERT INTO temp.measured(k, w, at, ${measuredColumns(metrics).join(', ')}) ${measuredRows(metrics, 'temp.own')}`;

/** Linear interpolation as numpy's default: SQLite's percentile(). */
const aggregate = (value: string) => [
  `avg(${value})`,
  `min(${value})`,
  `max(${value})`,
  `percentile(${value}, 50)`,
  `percentile(${value}, 95)`,
  `count(${value})`,
];

const sums = (metrics: readonly Metric[]) =>
  metrics
    .flatMap((m) => [
      ...aggregate(partName(m.id, 'value')),
      ...['delta', 'whole', 'reset'].map((part) =>
        part in partsOf(m) ? `sum(${partName(m.id, part)})` : 'NULL',
      ),
      ...(m.kind === 'counter'
        ? aggregate(partName(m.id, 'delta')).slice(0, -1)
        : Array<string>(5).fill('NULL')),
    ])
    .join(', ');

/**
 * Of each metric MEASURED_VALUES columns: mean, min, max, p50, p95, n, then delta, whole and resets added up, then mean, min,
 * max, p50 and p95 of a counter's deltas.
 */
export const MEASURED_VALUES = 14;
/** Over samples: all samples of all workers. */
export const overSamples = (metrics: readonly Metric[]) => `SELECT ${sums(metrics)} FROM temp.measured`;
/** Over time: w, then the same of each worker's samples. */
export const overTime = (metrics: readonly Metric[]) =>
  `SELECT w, ${sums(metrics)} FROM temp.measured GROUP BY w ORDER BY w`;

/** Over workers: one value a worker, handed in as JSON; null ones do not count. */
export const overWorkers = `
  SELECT avg(value) AS mean, min(value) AS min, max(value) AS max, percentile(value, 50) AS p50,
    percentile(value, 95) AS p95, sum(value) AS sum, count(value) AS n FROM json_each(:values)`;

/**
 * Of each metric, how many samples with a value lie inside the window, in slots :first..:last, whoever owns them: the edge
 * samples outside, and of a counter those of a worker whose deltas mean nothing, do not count. `of`: of all workers, or of
 * worker :w alone.
 */
export const coveredSamples = (metrics: readonly Metric[], of: 'all' | 'one' = 'all') => `
  SELECT ${metrics
    .map(({ kind, of }) => {
      const value = `s.${checked(of.at(-1)!)}`;
      return kind === 'gauge'
        ? `count(${value})`
        : `count(iif(s.at > :from AND o.several IS NULL, ${value}, NULL))`;
    })
    .join(', ')}
  FROM sample s JOIN worker o ON o.w = s.k % 4096 WHERE s.k ${inSlots} AND s.at BETWEEN :from AND :to${of === 'one' ? ' AND o.w = :w' : ''}`;

/** Samples that a window should have of each worker: its seconds, from when that was seen to when it was removed. */
export const expectedOfWorkers = `
  SELECT o.w, gone.at AS goneAt,
    max(0.0, min(:to, coalesce(gone.at, :to)) - max(:from, coalesce(seen.at, :to))) / :interval AS n
  FROM worker o LEFT JOIN tick seen ON seen.t = o.first LEFT JOIN tick gone ON gone.t = o.removed`;

/** Of all of them, whatever we polled. */
export const expectedSamples = `SELECT sum(n) AS n FROM (${expectedOfWorkers})`;

/** Restarts of each worker in :from..:to, not counting those taken for one before several servers were found out. */
export const restartsOf = `
  SELECT e.w, count(*) AS n FROM event e JOIN worker o ON o.w = e.w
  WHERE e.kind = 'restart' AND o.several IS NULL AND e.at BETWEEN :from AND :to GROUP BY e.w`;

/** The newest 10,000 that touch :from..:to, oldest first. */
export const events = `
  SELECT at, until, kind, endpoint, w, reason, count, detail FROM (
    SELECT id, at, NULL AS until, kind, (SELECT url FROM endpoint WHERE e = event.endpoint) AS endpoint, w, NULL AS reason,
      1 AS count, detail FROM event WHERE at BETWEEN :from AND :to
    UNION ALL
    SELECT id, began, ended, 'outage', (SELECT url FROM endpoint WHERE e = outage.endpoint), NULL, reason, count, detail
    FROM outage WHERE ended >= :from AND began <= :to
    ORDER BY 2 DESC, 1 DESC LIMIT 10000) ORDER BY at, id`;

export const workerList = `
  SELECT o.*, e.url, e.labels AS endpoint_labels, e.version, coalesce(t.at, 0) AS first_at, gone.at AS gone_at FROM worker o
  JOIN endpoint e ON e.e = o.endpoint LEFT JOIN tick t ON t.t = o.first
  LEFT JOIN tick gone ON gone.t = o.removed ORDER BY o.w`;

export const ticksOfSlots = 'SELECT t, at FROM tick WHERE t BETWEEN :first AND :last ORDER BY t';

/**
 * What finding steps needs of each row: when it was asked for and answered, requests running and waiting, tokens counted so
 * far (they only grow at work), level of sleep.
 */
export const workOfSlots = `
  SELECT k, at, took, epoch, running + coalesce(waiting, 0), coalesce(prompt_tokens, 0) + coalesce(generation_tokens, 0),
    sleep_level
  FROM sample WHERE k ${inSlots} ORDER BY k`;

/** Of each slot, whether anybody was at work in it, and awake. Stops at the first worker that was. */
export const worksInSlots = `
  SELECT t.t,
    EXISTS (SELECT 1 FROM sample s WHERE s.k BETWEEN t.t * 4096 AND t.t * 4096 + 4095 AND (s.running > 0 OR s.waiting > 0)),
    EXISTS (SELECT 1 FROM sample s WHERE s.k BETWEEN t.t * 4096 AND t.t * 4096 + 4095 AND s.sleep_level = 0)
  FROM tick t WHERE t.t BETWEEN CAST(:first AS INTEGER) AND CAST(:last AS INTEGER) ORDER BY t.t`;

/** How many answered in each slot, and what they had counted. */
export const answersInSlots = `
  SELECT t.t, count(s.running), sum(coalesce(s.prompt_tokens, 0) + coalesce(s.generation_tokens, 0))
  FROM tick t CROSS JOIN sample s ON s.k BETWEEN t.t * 4096 AND t.t * 4096 + 4095
  WHERE t.t BETWEEN CAST(:first AS INTEGER) AND CAST(:last AS INTEGER) GROUP BY t.t`;

/** Samples with a full KV cache: requests without room, and preemptions since the sample before. */
export const fullOfSlots = `
  SELECT s.k, s.at, coalesce(s.waiting_capacity, s.waiting), iif(s.epoch = p.epoch, max(s.preemptions - p.preemptions, 0), 0)
  FROM sample s LEFT JOIN sample p ON p.k = s.k - s.back * 4096
  WHERE s.k ${inSlots} AND s.kv_usage >= :full ORDER BY s.k`;

/** Ranges in which an endpoint gave no answer, that touch :from..:to. */
export const outagesBetween = `
  SELECT endpoint, began, ended, reason FROM outage WHERE ended >= :from AND began <= :to ORDER BY began`;

/** Endpoints that were taken away in :from..:to. */
export const endpointsTakenAway = `
  SELECT e, t.at FROM endpoint JOIN tick t ON t.t = endpoint.removed WHERE t.at > :from AND t.at <= :to`;

/** A worker's prefix cache counters in its last sample of a slot that had begun at :at. */
export const hitsAt = `
  SELECT s.epoch, s.prefix_hits AS hits, s.prefix_queries AS queries
  FROM tick t CROSS JOIN sample s ON s.k = t.t * 4096 + CAST(:w AS INTEGER) WHERE t.at <= :at ORDER BY t.at DESC LIMIT 1`;

/**
 * What each worker did in :from..:to, by its samples in slots :first..:last: samples at work, samples without work while
 * another one worked in the same slot, when it was seen at work first and last, and when it was asked next and was idle
 * (NULL: not seen idle again in these slots, which go on a little after :to).
 */
export const workDone = `
  WITH s AS (
    SELECT k / 4096 AS t, k % 4096 AS w, at, at - took / 2.0 AS asked, running + coalesce(waiting, 0) > 0 AS busy
    FROM sample WHERE k ${inSlots} AND running IS NOT NULL),
  inside AS (SELECT * FROM s WHERE at BETWEEN :from AND :to),
  slot AS (SELECT t, max(busy) AS works FROM inside GROUP BY t),
  done AS (
    SELECT w, sum(busy) AS busy, sum(works AND NOT busy) AS idle, min(iif(busy, at, NULL)) AS began,
      max(iif(busy, at, NULL)) AS last
    FROM inside JOIN slot USING (t) GROUP BY w)
  SELECT d.w, d.busy, d.idle, d.began, d.last, min(iif(s.at > d.last AND NOT s.busy, s.asked, NULL)) AS next
  FROM s JOIN done d ON d.w = s.w GROUP BY d.w ORDER BY d.w`;

/** A column of one sample. */
export const valueAt = (c: string) =>
  `SELECT at, ${checked(c)} AS value FROM sample WHERE k = CAST(:k AS INTEGER) AND ${c} IS NOT NULL`;

/** A column of one worker in :from..:to, in slots :first..:last. */
export const valuesOfWorker = (c: string) => `
  SELECT s.at, s.${checked(c)} AS value FROM tick t CROSS JOIN sample s ON s.k = t.t * 4096 + CAST(:w AS INTEGER)
  WHERE t.t BETWEEN CAST(:first AS INTEGER) AND CAST(:last AS INTEGER) AND s.at BETWEEN :from AND :to AND s.${c} IS NOT NULL
  ORDER BY t.t`;

/** One worker's raw part and whole in samples from :from to :to, in slots :first..:last. */
export const rawPairs = (part: string, whole: string) => `
  SELECT s.at, s.epoch, s.${checked(part)} AS part, s.${checked(whole)} AS whole
  FROM tick t CROSS JOIN sample s ON s.k = t.t * 4096 + CAST(:w AS INTEGER)
  WHERE t.t BETWEEN CAST(:first AS INTEGER) AND CAST(:last AS INTEGER) AND s.at BETWEEN :from AND :to
    AND s.${part} IS NOT NULL AND s.${whole} IS NOT NULL ORDER BY t.t`;
