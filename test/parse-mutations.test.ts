/**
 * 5,000 damaged bodies: parse() throws on none, stores nothing that is not finite, and every value it stores stands on
 * a line of that body for that worker. Which these are is said by a second, plain reading in another language:
 * fixtures/plain_reading.py.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { columns } from '../electron/engine/catalogue.ts';
import { parse, type ParsedBody } from '../electron/engine/parse.ts';
import { baseOf, mutant, mutations } from './fixtures/mutate.ts';

const MUTANTS = 5000;

interface Case {
  id: number | string;
  body: string;
  workers: {
    engine: string;
    model: string;
    replica: string;
    created: number | null;
    values: Record<string, number>;
    buckets: Record<string, [bounds: number[], counts: number[]]>;
  }[];
}
interface Complaint {
  id: number | string;
  what: 'unfounded' | 'lost';
  column: string;
}

const folder = new URL('./fixtures/samples/', import.meta.url);
const bases = readdirSync(folder)
  .filter((name) => name.endsWith('.prom'))
  .map((name) => baseOf(readFileSync(new URL(name, folder), 'latin1')));

const asCase = (id: number | string, body: string, read: ParsedBody): Case => ({
  id,
  body,
  workers: read.workers.map(({ engine, model, replica, created, values, buckets }) => ({
    engine,
    model,
    replica,
    created: Number.isNaN(created) ? null : created,
    values: Object.fromEntries(
      columns.map((c, i) => [c.id, values[i]!] as const).filter(([, v]) => !Number.isNaN(v)),
    ),
    buckets: Object.fromEntries(
      [...buckets].map(([metric, { bounds, counts }]) => [
        metric,
        [JSON.parse(bounds) as number[], [...counts]],
      ]),
    ),
  })),
});

/** What the plain reading has to say against these cases. */
function secondReading(cases: Case[]): { complaints: Complaint[]; bodies: number; values: number } {
  const script = fileURLToPath(new URL('./fixtures/plain_reading.py', import.meta.url));
  const ran = spawnSync('python3', [script], {
    input: cases.map((c) => JSON.stringify(c)).join('\n'),
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (ran.error)
    throw new Error(
      `This test needs python3 (3.9 or newer) on PATH, and it could not be run: ${ran.error.message}`,
    );
  if (ran.status !== 0) throw new Error(`plain_reading.py failed: ${ran.stderr}`);
  const lines = ran.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
  return { ...(lines.pop() as { bodies: number; values: number }), complaints: lines as Complaint[] };
}

describe('5,000 damaged bodies', () => {
  const cases: Case[] = [];
  const thrown: string[] = [];
  const nonFinite: string[] = [];
  const counts = { workers: 0, bad: 0 };

  beforeAll(() => {
    for (let id = 0; id < MUTANTS; id++) {
      const { body, done } = mutant(bases, id);
      try {
        const read = parse(body);
        counts.bad += read.badLines;
        counts.workers += read.workers.length;
        for (const { values, created } of read.workers)
          if ([...values, created].some((v) => !Number.isFinite(v) && !Number.isNaN(v)))
            nonFinite.push(`mutant ${id} (${done})`);
        cases.push(asCase(id, body, read));
      } catch (error) {
        thrown.push(`mutant ${id} (${done}): ${String(error)}`);
      }
    }
  }, 120_000);

  test('throw nothing', () => {
    expect(thrown).toEqual([]);
    expect(cases).toHaveLength(MUTANTS);
  });

  test('store nothing that is not finite', () => {
    expect(nonFinite).toEqual([]);
  });

  test('are damaged enough and not too much', () => {
    expect(MUTANTS).toBeGreaterThan(50 * Object.keys(mutations).length);
    expect(counts.bad).toBeGreaterThan(MUTANTS);
    expect(counts.workers).toBeGreaterThan(MUTANTS);
  });

  test('every stored value stands on a line of its body for its worker', () => {
    const { complaints, bodies, values } = secondReading(cases);
    const told = complaints.slice(0, 10).map((c) => ({ ...c, done: mutant(bases, Number(c.id)).done }));
    expect(told).toEqual([]);
    expect(bodies).toBe(MUTANTS);
    expect(values).toBeGreaterThan(8 * MUTANTS);
  }, 120_000);
});

describe('the plain reading', () => {
  const body =
    'process_start_time_seconds 17\n' +
    'vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="None"} 1.0\n' +
    'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n' +
    'vllm:num_requests_running{engine="1",model_name="m"} 4.0\n' +
    'vllm:prompt_tokens_created{engine="1",model_name="m"} 15.5\n' +
    'vllm:engine_sleep_state{engine="1",model_name="m",sleep_state="discard_all"} 1.0\n' +
    'vllm:time_to_first_token_seconds_bucket{engine="1",le="0.5",model_name="m"} 2.0\n' +
    'vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf",model_name="m"} 5.0\n';
  const wrongs: Record<string, [change: (c: Case) => unknown, complaint: string]> = {
    'another value': [(c) => (c.workers[0]!.values['running'] = 3.5), 'unfounded running'],
    "another worker's value": [(c) => (c.workers[0]!.values['running'] = 4), 'unfounded running'],
    'a sum': [(c) => (c.workers[1]!.values['running'] = 7), 'unfounded running'],
    'a value from nowhere': [(c) => (c.workers[1]!.values['waiting'] = 4), 'unfounded waiting'],
    'another level': [(c) => (c.workers[1]!.values['sleep_level'] = 1), 'unfounded sleep_level'],
    "another engine's blocks": [(c) => (c.workers[0]!.values['block_size'] = 16), 'unfounded block_size'],
    'blocks of None': [(c) => (c.workers[1]!.values['num_blocks'] = 0), 'unfounded num_blocks'],
    'another start': [(c) => (c.workers[1]!.values['process_start'] = 15.5), 'unfounded process_start'],
    'another birth': [(c) => (c.workers[1]!.created = 17), 'unfounded created'],
    'a column left out': [(c) => delete c.workers[1]!.values['running'], 'lost running'],
    'another count': [(c) => (c.workers[1]!.buckets['ttft']![1][0] = 5), 'unfounded ttft 0.5'],
    'another bound': [(c) => (c.workers[1]!.buckets['ttft']![0][0] = 0.25), 'unfounded ttft 0.25'],
    "another metric's counts": [
      (c) => (c.workers[1]!.buckets['queue_time'] = [[], [5]]),
      'unfounded queue_time inf',
    ],
    'a worker left out': [(c) => c.workers.shift(), 'lost all'],
  };

  test('has nothing against what stands there, and objects to every kind of wrong', () => {
    const cases = ['right', ...Object.keys(wrongs)].map((id) => asCase(id, body, parse(body)));
    for (const c of cases) wrongs[c.id]?.[0](c);
    expect(secondReading(cases).complaints.map((c) => `${c.id}: ${c.what} ${c.column}`)).toEqual(
      Object.entries(wrongs).map(([id, [, complaint]]) => `${id}: ${complaint}`),
    );
  });
});
