/**
 * A long run of many workers, made quickly for benchmarks: raw rows by one SQL statement, phases of a rollout, a restart
 * now and then, and workers that are silent for most of it where wanted. Values are made up; what is measured is reading
 * and writing them.
 */
import Database from 'better-sqlite3';
import { columns } from '../electron/engine/catalogue.ts';
import { RunMaker, START } from './run-files.ts';

/** Columns that a usual vLLM does not have: they stay NULL. */
const absent = new Set(['swapped', 'spec_drafts', 'spec_draft_tokens', 'spec_accepted_tokens']);

/** So long are silent workers heard at the begin, and every second of them at the end. */
const HEARD = 600;

/**
 * Writes `seconds` ticks of `workers` workers (8 an endpoint), closed as a crash would leave it: without rollups. The last
 * `silent` workers do not answer after ten minutes; those of them with an odd number are there again for the last ten.
 */
export function makeLongRun(file: string, workers: number, seconds: number, silent = 0): void {
  new RunMaker(file, Math.ceil(workers / 8)).store.close(START);
  const db = new Database(file);
  db.pragma('synchronous = OFF');
  const phase = '((t + w * 3) % 60)';
  const value = (id: string, kind: string, type: string, i: number): string => {
    if (absent.has(id)) return 'NULL';
    if (id === 'kv_usage') return `min(1.0, ${phase} / 45.0)`;
    if (id === 'process_start') return '1796000000.25';
    if (id === 'block_size') return '16';
    if (id === 'num_blocks') return '2021';
    if (id === 'sleep_level' || id.startsWith('success_e') || id.startsWith('external')) return '0';
    // steps of a minute, between which nothing runs
    if (kind === 'gauge') return `iif(t % 60 < 52, 1 + (${phase} * ${i + 1}) % 64, 0)`;
    // seconds at work so far
    const done = '(t / 60 * 52 + min(t % 60, 52))';
    const grown = `(${done} * ${97 + i} + (${done} * ${done}) % ${31 + i} + w * 1000)`;
    return type === 'REAL' ? `${grown} * 0.0137` : grown;
  };
  const names = columns.map((c) => c.id).join(', ');
  const values = columns.map((c, i) => value(c.id, c.kind, c.type, i)).join(', ');
  const isSilent = `w >= ${workers - silent}`;
  const back = seconds - HEARD;
  db.transaction(() => {
    db.exec(`
      INSERT INTO worker(w, endpoint, engine, model, replica, labels, first)
      WITH RECURSIVE n(w) AS (SELECT 0 UNION ALL SELECT w + 1 FROM n WHERE w + 1 < ${workers})
      SELECT w, w / 8, w % 8, 'model', '', '{}', 0 FROM n;
      INSERT INTO tick(t, at)
      WITH RECURSIVE n(t) AS (SELECT 0 UNION ALL SELECT t + 1 FROM n WHERE t + 1 < ${seconds})
      SELECT t, ${START} + t * 1000 FROM n;
      INSERT INTO sample(k, at, took, epoch, back, ${names})
      SELECT t * 4096 + w, at + 10, 20, t / 40000,
        CASE WHEN t = 0 THEN NULL WHEN ${isSilent} AND t = ${back} THEN ${back - HEARD + 1} ELSE 1 END, ${values}
      FROM tick, worker WHERE NOT ${isSilent} OR t < ${HEARD} OR (w % 2 = 1 AND t >= ${back}) ORDER BY t, w;
    `);
    const series = db.prepare('INSERT INTO series(metric, w, first) SELECT ?, w, w FROM worker');
    for (const c of columns) if (!absent.has(c.id)) series.run(c.id);
  })();
  db.close();
}
