/**
 * The SQL behind a number, as one statement that runs as it stands in sqlite3 on the run's file: the same text that the
 * engine runs (queries.ts), with its numbers written in. Percentiles are spelled out, since sqlite3 on many systems has no
 * percentile().
 */
import type { Population, Statistic } from './api-steps.ts';
import type { Metric } from './catalogue.ts';
import { edges } from './edge-queries.ts';
import { measuredRows } from './queries.ts';

export interface SqlWindow {
  from: number;
  to: number;
  previous: { from: number; to: number } | null;
  /** Slots that hold all samples of it. */
  first: number;
  last: number;
  /** See `edges`. */
  grace: number;
}

/** Parameters as literals: numbers and the JSON of windows. */
function written(sql: string, values: Record<string, number | string>): string {
  return sql.replace(/:([a-z]+)\b/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === 'number' ? String(value) : `'${value}'`;
  });
}

/** numpy's default: between the two values around place (n - 1) * share, in their proportion. */
const percentile = (share: number, from: string) => `
SELECT sum(value * CASE i WHEN CAST(h AS INTEGER) THEN 1 - (h - CAST(h AS INTEGER))
    WHEN CAST(h AS INTEGER) + 1 THEN h - CAST(h AS INTEGER) END)
FROM (SELECT value, row_number() OVER (ORDER BY value) - 1 AS i, (count(*) OVER () - 1) * ${share} AS h
  FROM (${from}) WHERE value IS NOT NULL)`;

function aggregate(statistic: Statistic, sum: string, from: string): string {
  switch (statistic) {
    case 'p50':
      return percentile(0.5, from);
    case 'p95':
      return percentile(0.95, from);
    case 'sum':
      return `\nSELECT sum(${sum}) FROM (${from})`;
    case 'pooled':
      return `\nSELECT sum(delta) * 1.0 / nullif(sum(whole), 0) FROM (${from})`;
    case 'mean':
      return `\nSELECT avg(value) FROM (${from})`;
    default:
      return `\nSELECT ${statistic}(value) FROM (${from})`;
  }
}

/** One value a worker, as the population "over workers" has it. */
function ownValues(metric: Metric): string {
  const value =
    metric.kind === 'gauge'
      ? 'avg(value)'
      : metric.of.length === 2
        ? 'sum(delta) * 1.0 / nullif(sum(whole), 0)'
        : 'sum(delta)';
  return `SELECT ${value} AS value FROM measured GROUP BY w`;
}

export function whySql(
  metric: Metric,
  window: SqlWindow,
  population: Population,
  statistic: Statistic,
  w: number | null,
): string {
  const windows = [...(window.previous ? [window.previous] : []), window].map((x) => [x.from, x.to]);
  const values = {
    windows: JSON.stringify(windows),
    n: 0,
    first: window.first,
    last: window.last,
    from: window.from,
    to: window.to,
    grace: window.grace,
  };
  const measured = written(
    measuredRows([metric], 'own', (_, part) => part),
    { ...values, n: windows.length - 1 },
  );
  const own =
    metric.kind === 'gauge'
      ? ''
      : `-- the samples that each worker's window owns: (a, b]\nown AS (${written(edges, values)}),\n`;
  const head = `WITH ${own}-- what each of them gives\nmeasured AS (${measured})`;
  if (population === 'requests')
    return `-- percentiles over requests come from table bucket, whose increases are packed; this counts the requests\n${head}\nSELECT sum(whole) FROM measured;`;
  const rows = w === null ? 'SELECT * FROM measured' : `SELECT * FROM measured WHERE w = ${w}`;
  const from = population === 'workers' ? ownValues(metric) : rows;
  return `${head}${aggregate(statistic, population === 'workers' ? 'value' : 'delta', from)};`;
}
