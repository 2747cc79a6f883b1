/**
 * The parser cases that Prometheus and OpenMetrics publish, on names that we read: fixtures/vectors.json, with what
 * their own parsers read of each (fixtures/vectors.py). Ours reads the same, or a reason stands there why not.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { columns } from '../electron/engine/catalogue.ts';
import { parse, type ParsedBody } from '../electron/engine/parse.ts';
import { checkBody } from '../electron/engine/scrape-faults.ts';

type Series = [name: string, labels: Record<string, string>, value: string];
interface Row {
  source: string;
  case: string;
  dialect: 'text' | 'openmetrics';
  about: string;
  /** Bytes, a character each. */
  input: string;
  /** null: refused. */
  theirs: Series[] | null;
  /** Bad lines; none where it is absent. */
  bad?: number;
  /** A key of `reasons`, and what is read instead; null: nothing. */
  why?: string;
  ours?: Series[] | null;
}
const { rows, reasons } = JSON.parse(
  readFileSync(new URL('fixtures/vectors.json', import.meta.url), 'utf8'),
) as { rows: Row[]; reasons: Record<string, string> };

interface Worker {
  engine: string;
  model: string;
  labels: Record<string, string>;
  /** By column; `created` beside them. */
  values: Record<string, number>;
  ttft: [bounds: number[], counts: number[]] | null;
}

const family = 'vllm:time_to_first_token_seconds';
const columnOf: Record<string, string> = {
  'vllm:num_requests_running': 'running',
  'vllm:num_requests_waiting': 'waiting',
  'vllm:generation_tokens_total': 'generation_tokens',
  'vllm:generation_tokens_created': 'created',
  [`${family}_sum`]: 'ttft_sum',
  [`${family}_count`]: 'ttft_count',
  [`${family}_created`]: 'created',
};
const sorted = (workers: Worker[]) =>
  workers.sort((a, b) => (a.engine + a.model < b.engine + b.model ? -1 : 1));

/** Series of a fixture as the workers that they are of. */
function workersOf(series: Series[]): Worker[] {
  const found = new Map<string, Worker>();
  const buckets = new Map<Worker, Map<number, number>>();
  for (const [name, { engine = '0', model_name: model = '', le, ...labels }, text] of series) {
    const column = columnOf[name];
    if (column === undefined && name !== `${family}_bucket`) continue; // a family of others
    const key = JSON.stringify([engine, model]);
    const worker = found.get(key) ?? { engine, model, labels, values: {}, ttft: null };
    found.set(key, worker);
    if (column === undefined) {
      const into = buckets.get(worker) ?? new Map<number, number>();
      buckets.set(worker, into.set(le === '+Inf' ? Infinity : Number(le), Number(text)));
    } else worker.values[column] = column in worker.values ? NaN : Number(text); // two would need a reason
  }
  for (const [worker, into] of buckets) {
    const bounds = [...into.keys()].sort((a, b) => a - b);
    worker.ttft = [bounds.filter(Number.isFinite), bounds.map((le) => into.get(le)!)];
  }
  return sorted([...found.values()]);
}

const asRead = ({ workers }: ParsedBody): Worker[] =>
  sorted(
    workers.map(({ engine, model, labels, values, created, buckets }) => {
      const all = [...columns.map((c, i) => [c.id, values[i]!] as const), ['created', created] as const];
      const ttft = buckets.get('ttft');
      return {
        ...{ engine, model, labels },
        values: Object.fromEntries(all.filter(([, value]) => !Number.isNaN(value))),
        ttft: ttft ? [JSON.parse(ttft.bounds) as number[], [...ttft.counts]] : null,
      };
    }),
  );

/** What a scrape makes of it; null where the body is refused or nothing of it could be read. */
function ours({ input, dialect }: Row): { workers: Worker[] | null; bad: number } {
  const read = parse(input);
  const asked = { name: 'h:1', url: 'http://h:1/metrics', timeoutMs: 1, secret: null, ca: false };
  const type =
    dialect === 'text' ? 'text/plain; version=0.0.4' : 'application/openmetrics-text; version=1.0.0';
  let refused = read.badLines > 0 && read.workers.length === 0;
  try {
    checkBody(asked, input, read, type);
  } catch {
    refused = true;
  }
  return { workers: refused ? null : asRead(read), bad: read.badLines };
}

const titled = rows.map((row) => [`${row.source} ${row.case}: ${row.about}`, row] as const);

describe('reads as theirs do', () => {
  test.each(titled.filter(([, { why }]) => why === undefined))('%s', (_, row) => {
    expect(ours(row)).toEqual({ workers: row.theirs && workersOf(row.theirs), bad: row.bad ?? 0 });
  });
});

describe('differs for a reason', () => {
  test.each(titled.filter(([, { why }]) => why !== undefined))('%s', (_, row) => {
    const said = row.ours ? workersOf(row.ours) : null;
    expect(ours(row)).toEqual({ workers: said, bad: row.bad ?? 0 });
    expect(said).not.toEqual(row.theirs && workersOf(row.theirs));
    expect(Object.keys(reasons)).toContain(row.why);
  });
});

test('docs/parsing.md gives every reason with its numbers', () => {
  const lines = readFileSync(new URL('../docs/parsing.md', import.meta.url), 'utf8')
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()));
  for (const [why, reason] of Object.entries(reasons)) {
    const of = rows.filter((row) => row.why === why);
    const refused = of.filter((row) => row.theirs === null).length;
    const cells = lines.find((line) => line[1] === reason);
    expect(cells?.slice(2, 4).map(Number), reason).toEqual([refused, of.length - refused]);
  }
  const alike = rows.filter((row) => row.why === undefined);
  expect(
    lines
      .find((line) => line[1] === 'all')
      ?.slice(3, 7)
      .map(Number),
  ).toEqual([
    alike.filter((row) => row.theirs !== null).length,
    alike.filter((row) => row.theirs === null).length,
    rows.filter((row) => row.why !== undefined && row.theirs === null).length,
    rows.filter((row) => row.why !== undefined && row.theirs !== null).length,
  ]);
});

describe('a name in the braces', () => {
  const read = (body: string) => {
    const { badLines, workers } = parse(body);
    return { bad: badLines, workers: workers.map((w) => ({ ...w, values: [...w.values] })) };
  };

  test('is read as one before them', () => {
    const line = 'vllm:num_requests_running{engine="1"} 3\n';
    for (const [plain, named] of [
      ['process_start_time_seconds 17\n', '{"process_start_time_seconds"} 17\n'],
      ['vllm:process_start_time_seconds 17\n', '{"vllm:process_start_time_seconds"} 17\n'],
      ['ray_vllm_num_requests_waiting 4\n', '{"ray_vllm_num_requests_waiting"} 4\n'],
      ['vllm:unknown 4\n', '{"vllm:unknown"} 4\n'],
    ])
      expect(read(line + named), named).toEqual(read(line + plain));
  });

  test('beside one before them is a bad line, also where that block was read before', () => {
    const block = '{"vllm:num_requests_running"}';
    const body = `${block} 1\nvllm:num_requests_waiting${block} 2\nvllm:num_requests_waiting${block} 3\n`;
    expect(read(body)).toEqual({ ...read(`${block} 1\n`), bad: 2 });
  });
});

test('a comment that begins like # EOF does not end a text', () => {
  expect(parse('vllm:num_requests_running 1\n# EOF of these\n').dialect).toBe('text');
});
