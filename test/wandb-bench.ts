/**
 * `npm run bench:wandb`: 10,000 steps of 60 keys to the stand-in, which is a process of its own: by the engine as one
 * click does it, and by the real wandb logging the same rows. These machines are noisy: compare within a run.
 */
import { execFile, fork } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import type { UploadInput, Upload } from '../electron/engine/api-wandb.ts';
import { createEngine, type Engine } from '../electron/engine/engine.ts';
import { startReader } from '../electron/engine/reader-thread.ts';
import { SCALARS_VERSION } from '../electron/engine/scalars.ts';
import { RunStore } from '../electron/engine/store.ts';
import { MAPPING_VERSION } from '../electron/engine/upload-mapping.ts';
import { fakeKey } from './fake-wandb.ts';
import { makeLongRun } from './long-run.ts';
import { realWandb, surroundings, VERSION } from './real-wandb/install.ts';
import { START } from './run-files.ts';

const STEPS = 10_000;
const KEYS = 60;
const STEP_MS = 60_000;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-bench-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const file = path.join(folder, 'run.sqlite');

const say = (what: string, value: string, reach = '') =>
  console.log(`${what.padEnd(58)} ${value.padStart(14)}  ${reach}`);
const seconds = (value: number) => `${value.toFixed(2)} s`;

/** With these, a row of a run of two workers has 60 keys beside `_step`. */
const choice: UploadInput['choice'] = {
  ...{ source: 'mark', evals: false, scalars: true, plots: false, workers: 16 },
  statistics: ['mean', 'max', 'sum'],
  metrics: [
    ...['running', 'waiting', 'kv_cache_usage', 'generation_tokens', 'prefix_cache_queries'],
    ...['prefix_cache_hits', 'prefix_cache_hit_rate', 'preemptions'],
  ],
};

async function engineOf(): Promise<{ engine: Engine; run: string }> {
  const engine = await createEngine({ dataFolder: path.join(folder, 'data'), version: '0', idle: true });
  return { engine, run: (engine.methods.listRuns() as { id: string }[])[0]?.id ?? engine.adopt(file).id };
}

/** One marked step as the engine computes it, and then as many as are wanted, each with other digits. */
async function makeRun(): Promise<void> {
  makeLongRun(file, 2, 70);
  const store = RunStore.open(file);
  const settings = { minIdleSeconds: 2, minStepSeconds: 2, everySeconds: 60 };
  store.steps.mark({ number: null, kind: 'train', at: START, end: false }, settings);
  store.steps.mark({ number: null, kind: 'train', at: START + STEP_MS, end: true }, settings);
  store.close(START + 70_000);
  const { engine, run } = await engineOf();
  await engine.methods.scalars({ run, source: 'mark', metrics: ['running'], workers: [], quick: false });
  await engine.close();

  const db = new Database(file);
  const other = (blob: Buffer, n: number) =>
    Buffer.from(new Float64Array(new Uint8Array(blob).buffer).map((v) => v * (1 + (n % 997) / 991)).buffer);
  const [{ fleet }] = db.prepare('SELECT fleet FROM scalar').all() as [{ fleet: Buffer }];
  const each = db.prepare('SELECT metric, each FROM worker_scalar').all() as {
    metric: string;
    each: Buffer;
  }[];
  db.transaction(() => {
    const step = db.prepare("INSERT INTO step VALUES ('mark', ?, ?, 'train', ?, ?)");
    const scalar = db.prepare(
      "INSERT INTO scalar(source, n, began, ended, fleet) VALUES ('mark', ?, ?, ?, ?)",
    );
    const own = db.prepare("INSERT INTO worker_scalar(source, metric, n, each) VALUES ('mark', ?, ?, ?)");
    for (let n = 1; n < STEPS; n++) {
      const began = START + n * STEP_MS;
      step.run(n, n, began, began + STEP_MS);
      scalar.run(n, began, began + STEP_MS, other(fleet, n));
      for (const { metric, each: values } of each) own.run(metric, n, other(values, n));
    }
  })();
  db.close();
}

async function forkFake(): Promise<{ url: string; end: () => void }> {
  const child = fork(path.join(import.meta.dirname, 'fake-wandb.ts'), [], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  const url = await new Promise<string>((done) =>
    child.stdout!.once('data', (text: Buffer) => done(text.toString().trim())),
  );
  return { url, end: () => child.kill() };
}

/** How many rows the stand-in has of a run. */
async function stored(url: string, name: string): Promise<number> {
  const query = `{ project(name: "rl", entityName: "ent") { run(name: "${name}") { historyLineCount } } }`;
  const answer = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Basic ${Buffer.from(`api:${fakeKey}`).toString('base64')}`,
    },
    body: JSON.stringify({ query, variables: {} }),
  });
  const { data } = (await answer.json()) as { data: { project: { run: { historyLineCount: number } } } };
  return data.project.run.historyLineCount;
}

interface Took {
  wall: number;
  cpu: number;
}

async function ours(url: string): Promise<Took> {
  const { engine, run } = await engineOf();
  await engine.methods.setWandbKey(url, fakeKey, false, new AbortController().signal);
  const over = new Promise<Upload>((done) => {
    engine.on('uploading', (upload) => {
      if (upload.state !== 'sending') done(upload);
    });
  });
  const target = { server: url, entity: null, project: 'rl', name: 'bench', group: '', tags: [], notes: '' };
  const [from, since] = [performance.now(), process.cpuUsage()];
  await engine.methods.startUpload({ run, target, choice, live: false, anew: false });
  const { state, runId, problem } = await over;
  const { user, system } = process.cpuUsage(since);
  const took = { wall: (performance.now() - from) / 1000, cpu: (user + system) / 1e6 };
  await engine.close();
  if (state !== 'done' || (await stored(url, runId)) !== STEPS)
    throw new Error(`it ended as ${state}: ${problem?.message}`);
  return took;
}

/** The same rows, one a line; returns their bytes. */
async function writeRows(to: string): Promise<number> {
  const reader = startReader((error) => console.error(error));
  const mapping = { version: MAPPING_VERSION, formulas: SCALARS_VERSION, choice, workers: null };
  const { lines } = await reader.calls.rows(file, mapping, 0, STEPS, 0);
  await reader.close();
  const keys = Object.keys(JSON.parse(lines[STEPS - 1]!) as object).length - 1;
  if (lines.length !== STEPS || keys !== KEYS) throw new Error(`${lines.length} rows of ${keys} keys`);
  fs.writeFileSync(to, `${lines.join('\n')}\n`);
  return fs.statSync(to).size;
}

async function theirs(url: string, rows: string): Promise<Took | null> {
  const real = await realWandb(console.log);
  if (!real) return null;
  const home = fs.mkdtempSync(path.join(folder, 'home-'));
  const script = path.join(import.meta.dirname, 'real-wandb/log_rows.py');
  const { stdout } = await promisify(execFile)(real.python, [script, rows, 'rl', 'theirs01'], {
    cwd: home,
    env: surroundings(url, home),
  });
  const { wall, python, core } = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<
    string,
    number | null
  >;
  if ((await stored(url, 'theirs01')) !== STEPS) throw new Error('not all rows of the real wandb arrived');
  say(
    `  wandb ${VERSION}: CPU of Python, of wandb-core`,
    [python, core].map((s) => s?.toFixed(1) ?? '?').join(' + '),
    's',
  );
  return { wall: wall!, cpu: (python ?? NaN) + (core ?? NaN) };
}

await makeRun();
const rows = path.join(folder, 'rows.jsonl');
say(`${STEPS} rows x ${KEYS} keys`, `${((await writeRows(rows)) / 1e6).toFixed(1)} MB`);
const fake = await forkFake();
try {
  const own = await ours(fake.url);
  say('engine: click to done, at two requests a second', seconds(own.wall), 'reach 60 s');
  say('engine: CPU in all', seconds(own.cpu), 'reach 6 s');
  const real = await theirs(fake.url, rows);
  if (real) {
    say(`wandb ${VERSION}: init to the end of finish`, seconds(real.wall));
    say(`wandb ${VERSION}: CPU in all`, seconds(real.cpu));
    say('  its time: times ours', `${(real.wall / own.wall).toFixed(1)} x`);
    say('  its CPU: times ours', `${(real.cpu / own.cpu).toFixed(1)} x`);
  }
} finally {
  fake.end();
}
