/**
 * What goes to W&B against what wandb-rows/rows.py makes of the same file: a script in another language that reads raw
 * samples only. Runs are uploaded by the real engine, over real HTTP, to the strict stand-in.
 */
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { WandbChoice } from '../electron/engine/api-wandb.ts';
import { metrics } from '../electron/engine/catalogue.ts';
import type { OnEnd } from './engines.ts';
import { startFakeWandb } from './fake-wandb.ts';
import type { StoredRun } from './fake-wandb-runs.ts';
import { writeRecording } from './recordings.ts';
import { makeRun } from './wandb-rows/made-run.ts';
import { differencesOf, rowsByPython, type MadeRows } from './wandb-rows/by-python.ts';
import { configOf, definitions, engineWith, inputFor, uploaded } from './wandb-rows/uploading.ts';

const everyMetric = metrics.map(({ id }) => id);

async function both(
  onEnd: OnEnd,
  make: (file: string) => void,
  choice: Partial<WandbChoice>,
  ...args: string[]
) {
  const fake = await startFakeWandb();
  onEnd(() => fake.stop());
  const engine = await engineWith(onEnd, fake, make);
  const input = inputFor(engine.run, fake.url, choice);
  const plan = await engine.methods.planUpload(input);
  const upload = await uploaded(engine, input);
  const stored = fake.stored('ent', 'rl', upload.runId)!;
  const made = await rowsByPython(engine.file, '--source', input.choice.source, ...args);
  return { ...engine, fake, input, plan, upload, stored, made };
}

function expectSame({
  stored,
  made,
}: {
  stored: { history: string[]; summary: string | null };
  made: MadeRows;
}) {
  expect(differencesOf(stored, made)).toEqual([]);
}

/** Every key that is on W&B has `vllm_scope/step` for its x axis, but for that one and W&B's own. */
function expectDefined({ stored, made }: { stored: StoredRun; made: MadeRows }): void {
  const defined = definitions(configOf(stored).own.m);
  const axis = (key: string) =>
    (
      defined[key] ??
      Object.entries(defined).find(([g, d]) => d.isGlob && key.startsWith(g.slice(0, -1)))?.[1]
    )?.x;
  for (const key of Object.keys(made.summary).filter((k) => !k.startsWith('_') && k !== 'vllm_scope/step'))
    expect([key, axis(key)]).toEqual([key, 'vllm_scope/step']);
  expect(defined['vllm_scope/step']).toMatchObject({ isGlob: false, x: null });
  // x axes are copied into rows that lack them
  for (const { x, options, summary } of Object.values(defined)) {
    if (x !== null) expect(options).toContain(1);
    expect(summary).toEqual([]);
  }
}

const meanings = {
  generation_tokens:
    'delta per scrape interval, as in NeMo RL PR 2843; likewise prefix_cache_queries, prefix_cache_hits and num_preemptions; agg/sum is the delta of the step',
  agg: 'over all samples of all engines',
  engine: 'over the samples of one engine',
  pooled: 'parts of all engines added up / wholes added up',
  coverage: 'samples there / samples expected',
  lower_bound: '1 where an engine restarted or was lost in the step: counters are at least this',
};

describe('recordings of a real vLLM', () => {
  it('two servers, seven rollouts: rows, and what the run says of itself', async ({ onTestFinished }) => {
    const run = await both(onTestFinished, (file) => writeRecording('rollouts', file), {});
    expectSame(run);
    expect(run.made.lines).toHaveLength(7);
    expect(run.stored).toMatchObject({
      ...{
        displayName: 'Vergleich «a»',
        group: 'trainer-7',
        jobType: 'vllm-metrics',
        notes: run.input.target.notes,
      },
      ...{
        tags: ['vllm-scope', 'größer'],
        state: 'finished',
        complete: true,
        exitcode: 0,
        events: [],
        output: [],
      },
      files: new Map(),
    });
    expect(run.upload.url).toBe(`${run.fake.url}/ent/rl/runs/${run.upload.runId}`);
    expect(configOf(run.stored).values).toEqual({
      vllm_scope: {
        ...{ version: '0.0.0', run: 'test', cluster: 'test', steps: 'idle' },
        ...{ mapping: expect.any(Number) as number, formulas: expect.any(Number) as number },
        ...{ recorded_from: '2026-11-30T01:00:00.000Z', interval_seconds: 1, meanings },
        endpoints: ['http://host-0:8000/metrics', 'http://host-1:8000/metrics'],
        vllm: [],
        engines: {
          engine_0: { endpoint: 'http://host-0:8000/metrics', engine: '0', model: 'tiny' },
          engine_1: { endpoint: 'http://host-1:8000/metrics', engine: '0', model: 'tiny' },
        },
      },
    });
    const numbers = { isGlob: false, x: 'vllm_scope/step', options: [1, 3], summary: [] };
    expect(definitions(configOf(run.stored).own.m)).toEqual({
      'vllm_scope/step': { ...numbers, x: null, options: [3] },
      'vllm_scope/step_seconds': numbers,
      'generation_metrics/*': { ...numbers, isGlob: true, options: [1] },
    });
  });

  it('one server with two engines', async ({ onTestFinished }) => {
    const run = await both(onTestFinished, (file) => writeRecording('dp2', file), {});
    expectSame(run);
    expect(run.made.lines).toHaveLength(4);
    expect(Object.keys(configOf(run.stored).own)).toEqual(['t', 'm']);
  });
});

describe('a made run of eight workers, with restarts and failed scrapes', () => {
  const long = { timeout: 120_000 };

  it('200 steps as they go by themselves; the plan said so before', long, async ({ onTestFinished }) => {
    const run = await both(onTestFinished, (file) => makeRun(file, { seed: 1, steps: 200 }), {});
    const { made, plan, stored } = run;
    expectSame(run);
    expectDefined(run);
    expect(made.lines).toHaveLength(200);
    // some are lower bounds, some lack samples
    const lowerBounds = made.lines.filter((row) => row['generation_metrics/lower_bound'] === 1);
    expect(lowerBounds.length).toBeGreaterThan(20);
    expect(made.lines.filter((row) => row['generation_metrics/coverage']! < 1).length).toBeGreaterThan(100);
    expect(plan).toMatchObject({
      ...{ rows: 200, keys: made.keys, workers: [0, 1, 2, 3, 4, 5, 6, 7], acked: 0, changed: null },
      bytes: stored.history.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0),
      ...{ files: 0, lowerBounds: lowerBounds.slice(0, 3).map((row) => row['vllm_scope/step']) },
    });
  });

  it('marked steps with their evaluations, all metrics', long, async ({ onTestFinished }) => {
    const run = await both(
      onTestFinished,
      (file) => makeRun(file, { seed: 2, steps: 200 }),
      { source: 'mark', evals: true, metrics: everyMetric },
      ...['--evals', '--metrics', 'all'],
    );
    expectSame(run);
    expectDefined(run);
    const { lines, summary } = run.made;
    // 10 of kind other do not go, and the last one, an evaluation, runs on
    expect(lines).toHaveLength(189);
    expect(lines.filter((row) => 'eval/vllm_scope/step_seconds' in row)).toHaveLength(19);
    expect(lines[0]).toMatchObject({ _step: 0, 'trainer/global_step': 100, 'vllm_scope/step': 100 });
    expect(summary).toHaveProperty('eval/generation_metrics/ttft/requests/p99');
  });

  it(
    'more workers than have keys: the three that ended last most often; no secret of an address',
    long,
    async ({ onTestFinished }) => {
      const run = await both(
        onTestFinished,
        (file) => {
          makeRun(file, { seed: 3, steps: 30, slow: [1, 2, 5] });
          const db = new Database(file);
          db.exec(
            "UPDATE endpoint SET url = replace(url, '//host-0:8000/metrics', '//me:hush@host-0:8000/metrics?key=hush')",
          );
          db.close();
        },
        { workers: 4 },
        ...['--workers', '4', '--only', '1,2,5'],
      );
      expectSame(run);
      expect(run.plan.workers).toEqual([1, 2, 5]);
      const { vllm_scope } = configOf(run.stored).values as Record<
        string,
        { endpoints: string[]; engines: object }
      >;
      expect(vllm_scope!.endpoints[0]).toBe('http://host-0:8000/metrics');
      expect(Object.keys(vllm_scope!.engines)).toEqual(['engine_1', 'engine_2', 'engine_5']);
      expect(JSON.stringify(run.fake.requests().map(({ body }) => body))).not.toMatch(/hush/);
    },
  );

  it(
    'what a new engine counted before its first answer is in the step of that answer',
    long,
    async ({ onTestFinished }) => {
      const make = (file: string) => makeRun(file, { seed: 4, steps: 40, young: true });
      // steps that touch: its first answer lies in the midst of one
      expectSame(await both(onTestFinished, make, { source: 'fixed' }));
    },
  );

  it(
    'steps after an engine was lost or taken away are no lower bounds for that',
    long,
    async ({ onTestFinished }) => {
      const made = { seed: 4, steps: 60, taken: 30, lost: 45 };
      expectSame(await both(onTestFinished, (file) => makeRun(file, made), {}));
    },
  );
});
