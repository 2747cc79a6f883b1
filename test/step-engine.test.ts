/**
 * Steps by way of the engine: runs from before there were steps, other settings with a preview, kinds, the choice of a
 * source, why a number is what it is. Scalars are in scalar-keeper.test.ts.
 */
import { execFileSync } from 'node:child_process';
import type Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { WhyQuery } from '../electron/engine/api.ts';
import { engineFor, until } from './engines.ts';
import { folderWith, found } from './old-run.ts';
import { START } from './run-files.ts';

/** As the first versions wrote it: without any of the tables of steps. */
function asVersion1(db: Database.Database): void {
  db.pragma('foreign_keys = OFF');
  for (const table of [
    'step',
    'step_set',
    'scalar',
    'worker_scalar',
    'histogram',
    'bucket',
    'bucket_state',
    'pressure',
  ])
    db.exec(`DROP TABLE ${table}`);
  db.exec(
    "ALTER TABLE endpoint DROP COLUMN version; ALTER TABLE endpoint DROP COLUMN labels; DELETE FROM meta WHERE key IN ('scalars', 'pressureUntil', 'steps')",
  );
  db.pragma('user_version = 1');
}

describe('an old run', () => {
  it('from before there were steps opens, and has them', async ({ onTestFinished }) => {
    const { folder } = folderWith(onTestFinished, asVersion1);
    const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
    const steps = await found(() => methods.steps('old', null));
    expect(steps).toMatchObject({ source: 'idle', chosen: false, counts: { mark: 0, idle: 7 } });
    const ask = () => methods.pressure({ run: 'old', from: START, to: START + 400_000 });
    await until(async () => (await ask()).length > 0);
    const spells = await ask();
    // both servers had 6,144 tokens of cache and were full in every long step
    expect(new Set(spells.map((s) => s.w))).toEqual(new Set([0, 1]));
    expect(spells.every((s) => s.preemptions > 0 || s.waiting > 0)).toBe(true);
  });

  it('a preview stores nothing; other settings do, and kinds stay where steps do', async ({
    onTestFinished,
  }) => {
    const { folder } = folderWith(onTestFinished);
    const engine = await engineFor(onTestFinished, { dataFolder: folder });
    const { methods } = engine;
    await found(() => methods.steps('old', null));
    const told: number[] = [];
    engine.engine.on('progress', ({ task, done, total }) => task === 'look' && told.push(done / total));
    const query = {
      run: 'old',
      source: 'idle' as const,
      settings: { minIdleSeconds: 5, minStepSeconds: 2, everySeconds: 60 },
      task: 'look',
    };
    const preview = await methods.previewSteps(query);
    // the break before step 3 is 4 s long
    expect(preview.steps).toHaveLength(6);
    expect(told.at(-1)).toBe(1);
    expect((await methods.steps('old', null)).steps).toHaveLength(7);

    await methods.setStepKind('old', 'idle', 0, 'other');
    await methods.setStepKind('old', 'idle', 2, 'eval');
    const stored = await methods.findSteps(query);
    expect(stored.settings.minIdleSeconds).toBe(5);
    expect(stored.steps.map((s) => s.kind)).toEqual(['other', 'train', 'train', 'train', 'train', 'train']);
    expect((await methods.steps('old', 'idle')).steps).toEqual(stored.steps);
  });

  it('a source can be chosen, and left to the engine again', async ({ onTestFinished }) => {
    const { folder } = folderWith(onTestFinished);
    const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
    await found(() => methods.steps('old', null));
    expect(await methods.chooseSteps('old', 'fixed')).toMatchObject({ source: 'fixed', chosen: true });
    // 339 s: five whole minutes and a last one that was cut off
    expect((await methods.steps('old', null)).steps.map((s) => s.to === null)).toEqual([
      false,
      false,
      false,
      false,
      false,
      true,
    ]);
    expect(await methods.chooseSteps('old', null)).toMatchObject({ source: 'idle', chosen: false });
  });

  it('cancelling a look stops it', async ({ onTestFinished }) => {
    const { folder } = folderWith(onTestFinished);
    const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
    const control = new AbortController();
    control.abort();
    const query = {
      run: 'old',
      source: 'idle' as const,
      settings: { minIdleSeconds: 3, minStepSeconds: 2, everySeconds: 60 },
      task: 'x',
    };
    await expect(methods.previewSteps(query, control.signal)).rejects.toMatchObject({ kind: 'cancelled' });
  });

  it.each([
    [{ minIdleSeconds: 0.1 }, /shortest break/],
    [{ minIdleSeconds: NaN }, /shortest break/],
    [{ minStepSeconds: -1 }, /shortest step/],
    [{ everySeconds: 1e9 }, /length of a step/],
  ])('settings that make no sense are refused: %o', async (wrong, sentence) => {
    const ends: (() => void | Promise<void>)[] = [];
    const { folder } = folderWith((end) => ends.push(end));
    const { methods } = await engineFor((end) => ends.push(end), { dataFolder: folder });
    const settings = { minIdleSeconds: 3, minStepSeconds: 2, everySeconds: 60, ...wrong };
    await expect(
      methods.previewSteps({ run: 'old', source: 'idle', settings, task: 'x' }),
    ).rejects.toMatchObject({
      kind: 'bad-input',
      message: expect.stringMatching(sentence) as string,
    });
    for (const end of ends.reverse()) await end();
  });
});

describe('why', () => {
  const sqlite3 = (() => {
    try {
      return execFileSync('sqlite3', ['--version'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      });
    } catch {
      return null;
    }
  })();

  /** Every number that can be asked about in a step: its SQL gives it, also in an older sqlite3 than ours. */
  it.skipIf(sqlite3 === null)(
    'the SQL of every number runs as it stands, and gives that number',
    async ({ onTestFinished }) => {
      const { folder, file } = folderWith(onTestFinished);
      const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
      const { steps } = await found(() => methods.steps('old', null));
      const asked: { what: string; value: number | null; sql: string }[] = [];
      for (const n of [0, 4])
        for (const metric of [
          'running',
          'kv_cache_usage',
          'generation_tokens',
          'prefix_cache_hit_rate',
          'ttft',
        ])
          for (const [population, w] of [
            ['samples', null],
            ['workers', null],
            ['time', 1],
            ['pooled', null],
          ] as const)
            for (const statistic of ['mean', 'min', 'max', 'p50', 'p95', 'sum', 'pooled'] as const) {
              if ((population === 'pooled') !== (statistic === 'pooled')) continue;
              const { from, to } = steps[n]!;
              const step = { source: 'idle' as const, n };
              const query: WhyQuery = { run: 'old', metric, from, to: to!, step, statistic, population, w };
              const what = `step ${n}, ${metric}, ${statistic} over ${population}`;
              const why = await methods.why(query).catch((error: { kind: string }) => {
                // what makes no sense: the sum of levels, parts of what has none
                expect(error.kind, what).toBe('bad-input');
                return null;
              });
              if (why) asked.push({ what, value: why.value, sql: why.sql });
            }
      const out = execFileSync('sqlite3', ['-readonly', '-nullvalue', 'nothing', file], {
        input: asked.map((a) => a.sql).join('\n'),
        encoding: 'utf8',
      });
      const lines = out.trim().split('\n');
      expect(lines).toHaveLength(asked.length);
      for (const [i, { what, value }] of asked.entries())
        if (value === null) expect(lines[i], what).toBe('nothing');
        else
          expect(Math.abs(Number(lines[i]) - value), what).toBeLessThanOrEqual(
            1e-9 * Math.max(1, Math.abs(value)),
          );
      expect(asked.length).toBeGreaterThan(100);
    },
  );

  it('says what was counted, from where to where, and whether it may be believed', async ({
    onTestFinished,
  }) => {
    const { folder } = folderWith(onTestFinished);
    const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
    const { steps } = await found(() => methods.steps('old', null));
    const ask = (n: number, metric: string, more: Partial<WhyQuery>) =>
      methods.why({
        run: 'old',
        metric,
        from: steps[n]!.from,
        to: steps[n]!.to!,
        step: { source: 'idle', n },
        statistic: 'pooled',
        population: 'pooled',
        w: null,
        ...more,
      });

    // the counters of the recordings' README: step 5
    const hits = await ask(5, 'prefix_cache_hit_rate', {});
    expect(hits.value).toBeCloseTo((42624 + 44544) / (52728 + 55432), 12);
    expect(hits.sentence).toBe(
      'Of 108,160 prompt tokens looked up in this step, 87,168 were in the prefix cache.',
    );
    expect(hits.verdict.sign).toBe('complete');
    expect(hits.workers.map((w) => w.columns.map((c) => c.delta))).toEqual([
      [42624, 52728],
      [44544, 55432],
    ]);
    for (const { columns } of hits.workers)
      for (const c of columns) expect(c.end!.value - c.start!.value).toBe(c.delta);
    expect(hits.readings.find((r) => r.own)?.value).toBe(hits.value);

    // the step in which a server was killed
    const killed = await ask(4, 'generation_tokens', { statistic: 'sum', population: 'samples' });
    expect(killed.unit).toBe('tokens');
    expect((await ask(4, 'generation_tokens', { statistic: 'p95', population: 'samples' })).unit).toBe(
      'tokens/s',
    );
    expect(killed.verdict).toMatchObject({
      sign: 'lower-bound',
      sentence: expect.stringContaining('w1 restarted') as string,
    });
    expect(killed.missing.length).toBeGreaterThan(0);
    // what was lost may have been hits or not
    const rate = await ask(4, 'prefix_cache_hit_rate', {});
    expect(rate.verdict).toMatchObject({
      sign: 'thin',
      sentence: expect.stringMatching(/^Not complete\. w1 restarted: /) as string,
    });
    const p95 = await ask(4, 'generation_tokens', { statistic: 'p95', population: 'samples' });
    expect(p95.verdict.sentence).toMatch(/^Not complete\. w1 restarted: /);
    // of one worker its own samples count
    const own = { statistic: 'sum', population: 'time' } as const;
    const [w0, w1] = [
      await ask(4, 'generation_tokens', { ...own, w: 0 }),
      await ask(4, 'generation_tokens', { ...own, w: 1 }),
    ];
    expect(w0.samples + w1.samples).toBeLessThanOrEqual(w0.expected + w1.expected);
    expect(w1.samples).toBeLessThan(w0.samples);
    expect([w0.verdict.sign, w1.verdict.sign]).toEqual(['complete', 'lower-bound']);
    await expect(ask(4, 'ttft', { statistic: 'p95', population: 'requests', w: 1 })).rejects.toThrow(
      'Of one worker there are its samples (over time), not requests',
    );

    await expect(ask(5, 'running', {})).rejects.toMatchObject({ kind: 'bad-input' });
    await expect(ask(5, 'no_such', {})).rejects.toMatchObject({ kind: 'not-found' });
  });

  it('other readings of the worked example are those that their makers would give', async ({
    onTestFinished,
  }) => {
    const { folder } = folderWith(onTestFinished);
    const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
    const { steps } = await found(() => methods.steps('old', null));
    const why = await methods.why({
      run: 'old',
      metric: 'generation_tokens',
      from: steps[4]!.from,
      to: steps[4]!.to!,
      step: null,
      statistic: 'sum',
      population: 'samples',
      w: null,
    });
    // w0 counted on (recordings' README), w1 fell: the cluster's difference is negative, and means nothing
    expect(why.readings.find((r) => r.name === 'Last minus first')!.value).toBeNull();
  });
});
