/**
 * The engine killed (SIGKILL) again and again while it records, and started again at once, as the desktop app does it:
 * nothing that it told a page is lost, the run goes on as it was, and its numbers are those of a run without a break.
 */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import type { Ticked } from '../electron/engine/api.ts';
import { newToken } from '../electron/engine/server.ts';
import { everything, fakes, folderFor, quick, rowsOf, run, until, urlsOf } from './engines.ts';
import { connect, type Page } from './pages.ts';

vi.setConfig({ testTimeout: 240_000 });

const WORKERS = 8;
const KILLS = 20;
/** Besides: killed while it starts, at a moment at which it may not have said anything yet. */
const KILLS_AT_START = 4;

interface Row {
  k: number;
  t: number;
  w: number;
  at: number;
  epoch: number;
  back: number | null;
  generation_tokens: number;
  prompt_tokens: number;
}

test('killed at twenty random moments: one run, whole, with nothing lost that was told', async ({
  onTestFinished,
}) => {
  const fake = await fakes(onTestFinished, { workers: WORKERS });
  const folder = folderFor(onTestFinished);
  const token = newToken();
  let port = 0;
  /** As the app does it: the port stays, and after the first time it is told to go on. */
  const start = () => {
    const env = { VLLM_SCOPE_TOKEN: token, VLLM_SCOPE_RESUME: port === 0 ? '' : '1' };
    return run(onTestFinished, ['serve', '--port', String(port), '--data', folder], env);
  };
  const told: Ticked[] = [];
  const listen = async (engine: ReturnType<typeof start>): Promise<Page> => {
    const [, found] = await until(() => {
      if (engine.child.exitCode !== null) throw new Error(engine.stderr());
      return /^http:\/\/127\.0\.0\.1:(\d+)\//.exec(engine.stdout()) ?? (false as never);
    });
    port = Number(found);
    const page = await connect(onTestFinished, port, token);
    page.client.on('ticked', (tick) => told.push(tick));
    return page;
  };

  let engine = start();
  let page = await listen(engine);
  const cluster = await page.methods.addCluster(quick(urlsOf(fake), 'killed'));
  const id = cluster.recording!;
  const endings: string[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    const seen = told.length;
    await until(() => told.slice(seen).some((t) => t.run === id && t.answered === WORKERS));
    await sleep(Math.random() * 600);
    engine.child.kill('SIGKILL');
    endings.push(String(await engine.ended), engine.stderr());
    engine = start();
    if (kill % (KILLS / KILLS_AT_START) === 0) {
      await sleep(Math.random() * 1000);
      engine.child.kill('SIGKILL');
      endings.push(String(await engine.ended), engine.stderr());
      engine = start();
    }
    page = await listen(engine);
  }
  // it ended of nothing else, and had nothing to complain of
  expect([...new Set(endings)].sort()).toEqual(['', 'SIGKILL']);
  const seen = told.length;
  await until(() => told.slice(seen).filter((t) => t.answered === WORKERS).length >= 3);

  const { methods } = page;
  expect((await methods.listClusters()).map((c) => [c.name, c.recording])).toEqual([['killed', id]]);
  expect((await methods.listRuns()).map((r) => [r.id, r.state])).toEqual([[id, 'recording']]);
  const stopped = await methods.stopRecording(cluster.id);
  expect(stopped).toMatchObject({ id, state: 'ended', workers: WORKERS, endpoints: WORKERS });
  const { file } = stopped;
  expect(fs.readdirSync(path.join(folder, 'runs'))).toEqual([path.basename(file)]);
  expect(rowsOf(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  expect(rowsOf(file, 'PRAGMA foreign_key_check')).toEqual([]);
  expect(rowsOf(path.join(folder, 'library.db'), 'PRAGMA integrity_check')).toEqual([
    { integrity_check: 'ok' },
  ]);

  // slots and times rise over every break
  const ticks = rowsOf<{ t: number; at: number }>(file, 'SELECT t, at FROM tick ORDER BY t');
  expect(ticks.filter(({ at }, i) => i > 0 && at <= ticks[i - 1]!.at)).toEqual([]);
  expect(stopped.ticks).toBe(ticks.length);

  // what was told is there: the tick, and a row of each endpoint that had answered
  const rows = rowsOf<Row>(
    file,
    `SELECT k, k / 4096 AS t, k % 4096 AS w, at, epoch, back, generation_tokens, prompt_tokens
     FROM sample ORDER BY k`,
  );
  const began = new Map(ticks.map(({ t, at }) => [t, at]));
  const count = new Map<number, number>();
  for (const { t } of rows) count.set(t, (count.get(t) ?? 0) + 1);
  const recorded = told.filter((t) => t.run === id); // not those after it was stopped
  const lost = recorded.filter((t) => began.get(t.t) !== t.at || (count.get(t.t) ?? 0) < t.answered);
  expect(recorded.length).toBeGreaterThanOrEqual(KILLS + 3);
  expect(lost).toEqual([]);

  // the stretches of one run
  const stretches = rowsOf<{ first: number; began: number; ended: number }>(
    file,
    'SELECT * FROM stretch ORDER BY first',
  );
  expect(stretches.length).toBeGreaterThanOrEqual(1 + KILLS);
  expect(stretches.length).toBeLessThanOrEqual(1 + KILLS + KILLS_AT_START);
  for (const [i, { began: from, ended }] of stretches.entries()) {
    expect(ended).toBeGreaterThanOrEqual(from);
    if (stretches[i + 1]) expect(ended).toBeLessThan(stretches[i + 1]!.began);
  }
  expect(stretches.at(-1)!.ended).toBe(stopped.endedAt);
  const events = await methods.events(id, ...everything);
  expect(events.filter((e) => e.kind === 'stretch').map((e) => e.at)).toEqual(
    stretches.slice(1).map((s) => s.began),
  );

  // workers are who they were, and nothing about them was taken for news
  const { workerList } = await methods.getRun(id);
  expect(workerList.map((w) => w.endpoint).sort()).toEqual(fake.endpoints.map((e) => e.url).sort());
  expect(new Set(rows.map((r) => r.epoch))).toEqual(new Set([0]));
  const sinceFirstKill = new Set(events.filter((e) => e.at >= stretches[1]!.began).map((e) => e.kind));
  for (const kind of ['restart', 'several-servers', 'worker', 'clock'] as const)
    expect(sinceFirstKill).not.toContain(kind);

  // each row knows the one before it, also over a break, and deltas over the run are last minus first
  const [statistics, ttft] = await methods.statistics({
    run: id,
    metrics: ['generation_tokens', 'ttft'],
    from: ticks[0]!.at - 1000,
    to: ticks.at(-1)!.at + 60_000,
  });
  for (let w = 0; w < WORKERS; w++) {
    const own = rows.filter((r) => r.w === w);
    expect(own.map((r) => r.back)).toEqual(own.map((r, i) => (i === 0 ? null : r.t - own[i - 1]!.t)));
    expect(own.filter((r, i) => i > 0 && r.at <= own[i - 1]!.at)).toEqual([]);
    const increase = own.at(-1)!.generation_tokens - own[0]!.generation_tokens;
    expect(statistics!.each[w]).toMatchObject({ delta: increase, resets: 0, lost: false });
  }
  expect(statistics!.lowerBound).toBe(false);
  // so it is with the buckets of histograms, of which a row has only what grew
  const requests = ttft!.each.reduce((sum, { whole }) => sum + whole!, 0);
  expect(requests).toBeGreaterThan(0);
  expect(ttft!.requests!.n).toBe(requests);
  // and at the end the file says what they counted in all
  expect(
    rowsOf(
      file,
      'SELECT count(*) AS n FROM bucket b JOIN bucket_state s ON s.w = b.k % 4096 WHERE b.k > s.k',
    ),
  ).toEqual([{ n: 0 }]);
  expect(stopped.generationTokens).toBe(statistics!.samples.sum);
  expect(stopped.generationTokens).toBeGreaterThan(0);
});
