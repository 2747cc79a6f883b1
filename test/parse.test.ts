/**
 * parse.ts against what Python's prometheus_client reads out of the same bodies: fixtures/expected.json, written by
 * fixtures/expected.py. fixtures/README.md says where each body comes from.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { columns } from '../electron/engine/catalogue.ts';
import { parse, type ParsedWorker } from '../electron/engine/parse.ts';

interface ExpectedWorker {
  engine: string;
  model: string;
  replica: string;
  labels: Record<string, string>;
  created: number | null;
  values: Record<string, number>;
  /** By metric: upper bounds without +Inf, and cumulative counts with it. */
  buckets: Record<string, [number[], number[]]>;
}
interface Expected {
  dialect: string;
  badLines: number;
  samples: number;
  names: string[];
  workers: ExpectedWorker[];
}

const folder = new URL('./fixtures/', import.meta.url);
const bodyOf = (file: string) => readFileSync(new URL(`samples/${file}`, folder), 'latin1');
const { 'made with': madeWith, ...expectedBodies } = JSON.parse(
  readFileSync(new URL('expected.json', folder), 'utf8'),
) as { 'made with': string } & Record<string, Expected>;
const expectedOf = (file: string) => (expectedBodies as Record<string, Expected>)[file]!;

const valuesOf = (worker: ParsedWorker) =>
  Object.fromEntries(
    columns.map((c, i) => [c.id, worker.values[i]!] as const).filter(([, v]) => !Number.isNaN(v)),
  );
const inExpectedForm = (workers: ParsedWorker[]): ExpectedWorker[] => {
  const who = (w: { engine: string; model: string; replica: string }) =>
    `${w.engine}\0${w.model}\0${w.replica}`;
  return workers
    .map(({ engine, model, replica, labels, created, ...rest }) => ({
      engine,
      model,
      replica,
      labels,
      created: Number.isNaN(created) ? null : created,
      values: valuesOf({ engine, model, replica, labels, created, ...rest }),
      buckets: Object.fromEntries(
        [...rest.buckets].map(([metric, { bounds, counts }]): [string, [number[], number[]]] => [
          metric,
          [JSON.parse(bounds) as number[], [...counts]],
        ]),
      ),
    }))
    .sort((a, b) => (who(a) < who(b) ? -1 : 1));
};
const only = (workers: ParsedWorker[]) => {
  expect(workers).toHaveLength(1);
  return valuesOf(workers[0]!);
};

const files = readdirSync(new URL('samples/', folder)).filter((name) => name.endsWith('.prom'));

test('every sample has its expected values, and the other way round', () => {
  expect(madeWith).toMatch(/^prometheus_client \d/);
  expect(Object.keys(expectedBodies).sort()).toEqual([...files].sort());
  expect(files.length).toBeGreaterThan(20);
});

describe.each(files)('%s', (file) => {
  const expected = expectedOf(file);
  const read = parse(bodyOf(file));

  test('gives what prometheus_client reads', () => {
    expect(inExpectedForm(read.workers)).toEqual(expected.workers);
  });

  test('is counted alike: lines, bad lines, names, dialect', () => {
    expect({ ...read, workers: read.workers.length, names: [...read.names].sort() }).toEqual({
      dialect: expected.dialect,
      badLines: expected.badLines,
      samples: expected.samples,
      names: expected.names,
      complete: true,
      workers: expected.workers.length,
    });
  });
});

test('the fixtures fill every column of the catalogue', () => {
  const filled = new Set(
    Object.values(expectedBodies as Record<string, Expected>).flatMap((body) =>
      body.workers.flatMap((w) => Object.keys(w.values)),
    ),
  );
  expect(columns.map((c) => c.id).filter((id) => !filled.has(id))).toEqual([]);
});

test('the pair of one server moves as its side file says', () => {
  const before = only(parse(bodyOf('vllm-0.30-single-before.prom')).workers);
  const after = only(parse(bodyOf('vllm-0.30-single-after.prom')).workers);
  const moved = (id: string) => after[id]! - before[id]!;
  expect(moved('prompt_tokens')).toBe(2816);
  expect(moved('generation_tokens')).toBe(32000);
  expect(moved('preemptions')).toBe(3);
  expect(moved('prefix_queries')).toBe(2816);
  expect(moved('success_length')).toBe(32);
});

test('the `...` lines of the Triton body count as bad lines', () => {
  const body = bodyOf('triton-vllm-backend-readme.prom');
  const dots = body.split('\n').filter((line) => line === '...').length;
  expect(dots).toBe(6);
  expect(parse(body).badLines).toBe(dots);
  expect(parse(body.replaceAll('...\n', '')).badLines).toBe(0);
});

test('old and new names of one metric are never added', () => {
  const [same, differ, old] = ['0.10-both-names-same', '0.10-both-names-differ', '0.8-old-names-only'].map(
    (name) => only(parse(bodyOf(`made-${name}.prom`)).workers),
  );
  for (const id of ['kv_usage', 'prefix_queries', 'prefix_hits', 'itl_sum', 'itl_count']) {
    expect(differ![id], id).toBe(same![id]); // where they differ, the new name's
    expect(old![id], id).toBe(same![id]);
  }
});

describe('a cut body', () => {
  const body = bodyOf('vllm-0.30-single-before.prom');

  test('is complete only where it ends with a line', () => {
    for (let at = 0; at <= body.length; at += 397)
      expect(parse(body.slice(0, at)).complete, `cut at ${at}`).toBe(body[at - 1] === '\n');
    expect(parse('').complete).toBe(false);
  });

  test('has a bad line for a sample that is cut before its value', () => {
    const at = body.indexOf('vllm:generation_tokens_total{');
    for (const cut of ['{', 'engine="', 'model_name="qwen3-8b"', '} ']) {
      const read = parse(body.slice(0, body.indexOf(cut, at) + cut.length));
      expect([read.badLines, read.complete], cut).toEqual([1, false]);
      expect(only(read.workers)['generation_tokens'], cut).toBeUndefined();
      expect(only(read.workers)['prompt_tokens'], cut).toBe(63);
    }
  });
});

describe('the dialect', () => {
  test('is OpenMetrics where the body says # EOF, whatever the line ends', () => {
    const body = bodyOf('made-openmetrics.prom');
    expect(body.endsWith('# EOF\n')).toBe(true);
    expect(parse(body).dialect).toBe('openmetrics');
    expect(parse(body.replaceAll('\n', '\r\n')).dialect).toBe('openmetrics');
    expect(parse(body.replace('# EOF\n', '')).dialect).toBe('text');
  });

  test('needs no newline after # EOF, as OpenMetrics says', () => {
    const body = bodyOf('made-openmetrics.prom').slice(0, -1);
    expect([parse(body).dialect, parse(body).complete]).toEqual(['openmetrics', true]);
    expect(parse(body.slice(0, -1)).complete).toBe(false);
  });

  test('makes no difference to the values', () => {
    const plain = bodyOf('vllm-0.30-single-after.prom');
    const expected = expectedOf('vllm-0.30-single-after.prom').workers;
    expect(inExpectedForm(parse(plain.replaceAll('\n', '\r\n')).workers)).toEqual(expected);
    expect(inExpectedForm(parse('\xef\xbb\xbf' + plain).workers)).toEqual(expected);
    expect(inExpectedForm(parse(plain.replaceAll('vllm:', 'ray_vllm_')).workers)).toEqual(expected);
    expect(inExpectedForm(parse(plain.replaceAll('vllm:', 'vllm_') + '# EOF\n').workers)).toEqual(expected);
  });
});

describe('one line', () => {
  const running = 'vllm:num_requests_running';
  /** The value stored for it, or how many bad lines it makes. */
  const stored = (line: string) => {
    const read = parse(line + '\n');
    if (read.workers.length === 0) return `${read.badLines} bad`;
    expect(read.badLines).toBe(0);
    return only(read.workers)['running'];
  };

  test.each([
    [`${running} 3`],
    [`  \t${running}{} 3`],
    [`${running}{engine="0"}3`],
    [`${running} { engine = "0" , model_name\t=\t"m" , }  3  `],
    [`${running}{engine="0"} 3 1790843211386`],
    [`${running}{engine="0"} 3 -1.5 # {trace_id="a}b"} 1 2`],
    [`${running}{engine="0"} +3.`],
    [`${running}{engine="0"} .3e1\r`],
  ])('%j is read', (line) => {
    expect(stored(line)).toBe(3);
  });

  test.each([
    ...['NaN', '+Inf', '-Inf', '1e999', '0x10', '1_000', '3,5', '3x', '', '-', '"3"', '\uff13'].map(
      (value) => `${running}{engine="0"} ${value}`,
    ),
    ...['"0', '0"', '0', '"0",,', '"0" model="m"', '"0","m"', '"0",engine="1"', '"0",model\f="m"'].map(
      (rest) => `${running}{engine=${rest}} 3`,
    ),
    `${running}{,engine="0"} 3`,
    `${running}{engine="0" 3`,
    `${running}{engine="0"} 3 x`,
    `${running}{engine="0"} 3 4 5`,
    `${running}{engine="0"} 3 ${running}{engine="1"} 4`,
    `${running}{engine="0"} 3${running}{engine="1"} 4`,
    `.${running} 3`,
  ])('%j is a bad line', (line) => {
    expect(stored(line)).toBe('1 bad');
  });

  test('of a million digits is read or refused at once', () => {
    const digits = '1'.repeat(1_000_000);
    for (const value of [
      `${digits}x`,
      `1.${digits}x`,
      `1e${digits}x`,
      `3 ${digits}x`,
      `3${' '.repeat(1e6)}x`,
    ])
      expect(stored(`${running}{engine="0"} ${value}`)).toBe('1 bad');
    expect(stored(`${running}{engine="${digits}`)).toBe('1 bad');
    expect(stored(`${running}{${digits}="0"} 3`)).toBe('1 bad');
  });

  test('keeps a byte order mark in a label apart', () => {
    const read = parse(`${running}{model_name="\xef\xbb\xbfm"} 1\n${running}{model_name="m"} 2\n`);
    expect(read.workers.map((w) => w.model)).toEqual(['\ufeffm', 'm']);
  });
});

test.each([
  ['nothing', ''],
  ['a page', '<!doctype html>\n<html><body>vllm: 404</body></html>\n'],
  ['JSON', '{"vllm:num_requests_running": 3}\n'],
  ['process families only', 'process_start_time_seconds 1.5e9\n'],
  ['another engine', 'sglang:num_running_reqs{model_name="m"} 3\n'],
])('%s has no workers', (_, body) => {
  expect(parse(body).workers).toEqual([]);
});
