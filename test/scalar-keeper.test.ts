/** Scalars by way of the engine: those that are kept, those that are not yet, and computing that is stopped. */
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { outlineFirst } from '../electron/engine/scalar-keeper.ts';
import { engineFor, until } from './engines.ts';
import { folderWith, found } from './old-run.ts';

describe('scalars', () => {
  it('are those of statistics, kept, and given without being computed again', async ({ onTestFinished }) => {
    const { folder, file } = folderWith(onTestFinished);
    const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
    const { steps } = await found(() => methods.steps('old', null));
    const { metrics: all } = await methods.getRun('old');
    expect(all).toContain('ttft');
    const query = { run: 'old', source: null, metrics: all, workers: [1], quick: false };
    const scalars = await methods.scalars(query);
    expect(scalars.missing).toBe(0);
    for (const [i, step] of steps.entries()) {
      const exact = await methods.statistics({
        run: 'old',
        metrics: all,
        from: step.from,
        to: step.to!,
        previous: i > 0 ? { from: steps[i - 1]!.from, to: steps[i - 1]!.to! } : null,
      });
      for (const s of exact) {
        const series = scalars.series.find((x) => x.metric === s.metric)!;
        const value = (x: number | null) => x ?? NaN;
        for (const key of ['mean', 'min', 'max', 'p50', 'p95', 'sum', 'n'] as const) {
          expect(series.samples[key][i]).toBe(value(s.samples[key]));
          expect(series.workers[key][i]).toBe(value(s.workers[key]));
          if (key !== 'n') expect(series.each[0]![key][i]).toBe(value(s.each[1]![key]));
        }
        expect(series.pooled[i]).toBe(value(s.pooled));
        expect(series.coverage[i]).toBe(value(s.coverage));
        expect(series.lowerBound[i]).toBe(Number(s.lowerBound));
      }
    }
    const db = new Database(file);
    expect(db.prepare("SELECT count(*) FROM scalar WHERE source = 'idle'").pluck().get()).toBe(7);
    // what is kept is what is given
    db.exec('UPDATE scalar SET fleet = zeroblob(length(fleet)) WHERE n = 3');
    db.close();
    const again = await methods.scalars(query);
    expect(again.series[0]!.samples.mean[3]).toBe(0);
    expect(again.series[0]!.samples.mean[2]).toBe(scalars.series[0]!.samples.mean[2]);
  });

  it('quick: at once, and the rest behind', async ({ onTestFinished }) => {
    const { folder } = folderWith(onTestFinished);
    const engine = await engineFor(onTestFinished, { dataFolder: folder });
    const { methods } = engine;
    await found(() => methods.steps('old', null));
    const told: [number, number][] = [];
    engine.engine.on('progress', ({ task, done, total }) => task === 'old' && told.push([done, total]));
    const query = { run: 'old', source: null, metrics: ['running'], workers: [], quick: true };
    const first = await methods.scalars(query);
    expect(first.missing).toBe(7);
    expect([...first.series[0]!.samples.mean].every(Number.isNaN)).toBe(true);
    await until(() => told.some(([done, total]) => done === total));
    expect((await methods.scalars(query)).missing).toBe(0);
  });

  it('stopped: what is missing stays so until somebody goes on, or waits for it', async ({
    onTestFinished,
  }) => {
    const { folder } = folderWith(onTestFinished);
    const { methods } = await engineFor(onTestFinished, { dataFolder: folder });
    await found(() => methods.steps('old', null));
    const query = { run: 'old', source: null, metrics: ['running'], workers: [], quick: true };
    await methods.scalars(query);
    await methods.stopScalars('old');
    // it would be over by then
    await new Promise((resolve) => setTimeout(resolve, 1500));
    const stopped = await methods.scalars(query);
    expect(stopped.stopped).toBe(true);
    expect(stopped.missing).toBeGreaterThan(0);

    await methods.resumeScalars('old');
    await until(async () => (await methods.scalars(query)).missing === 0);
    expect((await methods.scalars(query)).stopped).toBe(false);
  });

  it('who waits for numbers gets them all, whoever stops', async ({ onTestFinished }) => {
    const { folder } = folderWith(onTestFinished);
    const { engine, methods } = await engineFor(onTestFinished, { dataFolder: folder });
    await found(() => methods.steps('old', null));
    const begun = new Promise<void>((resolve) => {
      engine.on('progress', ({ task }) => task === 'old' && resolve());
    });
    const query = { run: 'old', source: null, metrics: ['running'], workers: [], quick: false };
    const all = methods.scalars(query);
    await begun;
    await methods.stopScalars('old');
    expect((await all).missing).toBe(0);
  });

  it('are computed in outline first', () => {
    expect(outlineFirst(Array.from({ length: 11 }, (_, i) => i))).toEqual([0, 8, 4, 2, 6, 10, 1, 3, 5, 7, 9]);
    expect(outlineFirst([])).toEqual([]);
  });
});
