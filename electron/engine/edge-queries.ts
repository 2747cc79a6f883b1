/**
 * SQL: which samples a window owns of each worker (docs/metrics.md, "Edges of a window"), and who was lost in it. Neither a
 * worker that is gone nor a gap of hours costs a walk through the run: queries.ts has what is made of the samples.
 */

/** Slots that are looked at one by one before a gap is taken for a long one. */
const NEAR = 32;

/** The last slot that had begun at a time; -1: none. */
const slotBegunAt = (at: string) =>
  `coalesce((SELECT t FROM tick WHERE at <= ${at} ORDER BY at DESC LIMIT 1), -1)`;

/** Samples of worker `o` in a range of slots. */
const samplesIn = (from: string, to: string) =>
  `SELECT s.k FROM tick t CROSS JOIN sample s ON s.k = t.t * 4096 + o.w WHERE t.t BETWEEN ${from} AND ${to}`;

/**
 * The slot of the first sample of worker `o` behind `slot` (hi), or of the one before that (before); NULL where its last
 * sample (`r`) is not behind it. Found by halving what lies between. `back` makes it exact: hi is the first one as soon as
 * the sample before it is not behind the slot.
 */
const firstBehind = (slot: string, gives: 'hi' | 'before') => `(
      WITH RECURSIVE seek(lo, hi, before) AS (
        SELECT ${slot}, l.k / 4096, coalesce(l.k / 4096 - l.back, -1) FROM sample l WHERE l.k = r.last AND l.k / 4096 > ${slot}
        UNION ALL
        SELECT iif(n.k / 4096 < before, lo, (lo + before) / 2), n.k / 4096, coalesce(n.k / 4096 - n.back, -1)
        FROM seek CROSS JOIN sample n ON n.k = coalesce(
          (${samplesIn('(lo + before) / 2', 'min((lo + before) / 2 + 7, before - 1)')} ORDER BY t.t LIMIT 1),
          before * 4096 + o.w)
        WHERE before > ${slot})
      SELECT ${gives} FROM seek WHERE before <= ${slot})`;

/** The last sample of worker `o` up to `slot` that was answered at or before the begin; NULL: none. */
const lastBefore = (slot: string) => {
  const reach = `min(${slot}, r.last / 4096)`;
  const walk = (from: string, to: string) =>
    `(${samplesIn(from, to)} AND s.at + s.took / 2.0 <= win.begin ORDER BY t.t DESC LIMIT 1)`;
  return `coalesce(${walk(`${reach} - ${NEAR}`, reach)},
        iif(${reach} - ${NEAR} > o.first, ${walk('o.first', firstBehind(`${reach} - ${NEAR}`, 'before'))}, NULL))`;
};

/** The first sample of worker `o` from `slot` on that was asked for at or after the end; NULL: none. */
const firstFrom = (slot: string) => {
  const walk = (from: string, to: string) =>
    `(${samplesIn(from, to)} AND s.at - s.took / 2.0 >= win.end ORDER BY t.t LIMIT 1)`;
  return `coalesce(${walk(slot, `${slot} + ${NEAR}`)}, ${walk(firstBehind(`${slot} + ${NEAR}`, 'hi'), 'r.last / 4096')})`;
};

/** The last sample of worker `o` from slot `from` on. */
const lastSample = (from: string) => `(SELECT s.k FROM tick t CROSS JOIN sample s ON s.k = t.t * 4096 + o.w
      WHERE t.t >= ${from} ORDER BY t.t DESC LIMIT 1)`;

/**
 * The edges of each window of :windows (JSON [[begin, end], ...] in epoch ms, in their order) per worker, into
 * own(n, w, a, b, lost), n from :n on: it owns the samples k in (a, b].
 *   a  its last sample whose answer was there at or before the begin; where windows touch, not before the b of the
 *      window before; its first sample's predecessor (-1) where it has none so early
 *      (a worker whose very first sample is the b owns nothing: it was not there in the window)
 *   b  its first sample that was asked for at or after the end; where there is none, its last one. `lost` where the run
 *      went on after the end, or where the worker has been silent for longer than :grace ms (a time-out and two
 *      intervals) when the run ends and was not taken away: what it did from there to the end was not seen
 * A sample in slot t was answered in slot t, so a is searched from the last slot that had begun at `begin` backwards, b
 * from the last slot that had begun at `end` onwards.
 */
const edgesWithin = (reach: string) => `
  WITH win(n, begin, end, x, y) AS (
    SELECT CAST(:n AS INTEGER) + key, value ->> 0, value ->> 1, ${slotBegunAt('value ->> 0')}, ${slotBegunAt('value ->> 1')}
    FROM json_each(:windows)),
  edge(n, w, end, removed, first, a, b, last) AS (
    SELECT win.n, o.w, win.end, o.removed, o.first * 4096 + o.w,
      coalesce(${lastBefore('win.x')}, -1),
      ${firstFrom('win.y')},
      r.last
    FROM win CROSS JOIN worker o CROSS JOIN ${reach} r ON r.w = o.w)
  SELECT n, w, max(a, coalesce(lag(iif(a = -1 AND b = first, -1, coalesce(b, last))) OVER (PARTITION BY w ORDER BY n), a)) AS a,
    iif(a = -1 AND b = first, -1, coalesce(b, last)) AS b,
    b IS NULL AND (EXISTS (SELECT 1 FROM tick WHERE at > edge.end) OR removed IS NULL
      AND (SELECT max(at) FROM tick) - (SELECT at FROM sample WHERE k = last) > :grace) AS lost
  FROM edge`;

/** As one statement that stands alone. LIMIT -1 keeps SQLite from looking for the last sample wherever it is named. */
export const edges = edgesWithin(`(SELECT o.w, ${lastSample('o.first')} AS last FROM worker o LIMIT -1)`);

/** The same after `know`. */
export const knownEdges = edgesWithin('temp.reach');
export const makeEdges = `INSERT INTO temp.own(n, w, a, b, lost) ${knownEdges}`;

/** The last sample of each worker, and up to which slot that was looked for: what came since is all that is looked at. */
export const reachTable = 'CREATE TEMP TABLE reach(w INTEGER PRIMARY KEY, last INTEGER, looked INTEGER)';
export const know = `
  INSERT OR REPLACE INTO temp.reach(w, last, looked)
  SELECT o.w, coalesce(${lastSample('max(o.first, coalesce(r.looked, 0))')}, r.last), (SELECT t FROM tick WHERE at = (SELECT max(at) FROM tick))
  FROM worker o LEFT JOIN temp.reach r ON r.w = o.w`;

/** Workers that were silent for longer than :grace ms at :to, or at the run's end, did not answer again, and were not taken away. */
export const lostBy = `
  SELECT o.w FROM worker o JOIN temp.reach r ON r.w = o.w JOIN sample s ON s.k = r.last
  WHERE o.removed IS NULL AND s.at + :grace < min(:to, (SELECT max(at) FROM tick))`;

/**
 * The slots in which window :n, that begins at :from, owns samples: from `first` on (nothing was answered before its slot)
 * to one worker's `last`, and where that is silent for long at the window's end, in the slot `far` of its next answer alone.
 */
export const ownedSlots = `
  SELECT max(${slotBegunAt(':from')}, 0) AS first, own.b / 4096 - iif(s.back > ${NEAR}, s.back, 0) AS last,
    iif(s.back > ${NEAR}, own.b / 4096, NULL) AS far
  FROM temp.own JOIN sample s ON s.k = own.b WHERE own.n = :n AND own.b > own.a`;
