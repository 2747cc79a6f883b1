/**
 * `npm run bench`: what the design wants measured, as ratios in one run where there is a rival. These machines are
 * noisy: compare within a run, never across. `npm run bench -- parse` runs one part; the 24-hour file is made anew each
 * time (minutes).
 */
import { fork } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import parsePrometheus from 'parse-prometheus-text-format';
import { columns, metrics } from '../electron/engine/catalogue.ts';
import { createEngine } from '../electron/engine/engine.ts';
import { parse } from '../electron/engine/parse.ts';
import { startReader } from '../electron/engine/reader-thread.ts';
import { rollUpRun } from '../electron/engine/recording.ts';
import { defaultSettings } from '../electron/engine/steps.ts';
import type { PackedScalars } from '../electron/engine/step-store.ts';
import { RunStore } from '../electron/engine/store.ts';
import { makeLongRun } from './long-run.ts';
import { forkStandIn } from './stand-in-process.ts';
import { bodyOf, answerOf, RunMaker, START } from './run-files.ts';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-bench-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

const cpuMs = (since?: NodeJS.CpuUsage) => {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
};
const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
const say = (what: string, value: string, reach = '') =>
  console.log(`${what.padEnd(58)} ${value.padStart(14)}  ${reach}`);

/** CPU ms a call, the best of a few rounds. */
function perCall(rounds: number, calls: number, work: () => unknown): number {
  let best = Infinity;
  for (let r = 0; r < rounds; r++) {
    const since = process.cpuUsage();
    for (let i = 0; i < calls; i++) work();
    best = Math.min(best, cpuMs(since) / calls);
  }
  return best;
}

function benchParse(): void {
  for (const name of ['vllm-0.30-single-after', 'synthetic-dp8-one-api-server']) {
    const bytes = fs.readFileSync(path.join(import.meta.dirname, 'fixtures/samples', `${name}.prom`));
    const calls = Math.ceil(20_000_000 / bytes.length);
    // the rival takes no CR, no trailing junk: both get the same clean bytes
    const ours = perCall(5, calls, () => parse(bytes.toString('latin1')));
    const rival = perCall(3, Math.ceil(calls / 20), () => parsePrometheus(bytes.toString('utf8')));
    say(`parse ${name}`, `${(bytes.length / ours / 1000).toFixed(0)} MB/s`, 'reach 150 MB/s');
    say(
      '  a general parser from npm, same bytes: times our time',
      `${(rival / ours).toFixed(1)} x`,
      'reach 10 x',
    );
  }
}

async function benchTick(): Promise<void> {
  for (const [workers, perEndpoint, reach] of [
    [64, 8, 25],
    [64, 1, 25],
    [512, 8, 200],
  ] as const) {
    const fake = await forkStandIn(workers, perEndpoint);
    const engine = await createEngine({
      dataFolder: path.join(folder, `tick-${workers}-${perEndpoint}`),
      version: '0',
    });
    const seen: number[] = [];
    engine.on('ticked', ({ t }) => seen.push(t));
    await engine.methods.addCluster({ name: '', addresses: fake.addresses });
    await new Promise((done) => setTimeout(done, 4000)); // the first ticks warm up
    const since = process.cpuUsage();
    const from = new Set(seen).size;
    await new Promise((done) => setTimeout(done, 20_000));
    const ticks = new Set(seen).size - from;
    say(
      `tick, ${workers} workers on ${workers / perEndpoint} endpoints, scrape to rollups, CPU`,
      `${(cpuMs(since) / ticks).toFixed(1)} ms`,
      `reach ${reach} ms; ${ticks} ticks`,
    );
    await engine.close();
    fake.end();
  }
}

function benchWrite(): void {
  for (const [workers, reach] of [
    [64, 0.5],
    [512, 3],
  ] as const) {
    const run = new RunMaker(path.join(folder, `write-${workers}.sqlite`), 1);
    const values = Object.fromEntries(
      columns.map((c, i) => [c.id, i * 1000 + (c.type === 'REAL' ? 0.5 : 0)]),
    );
    const body = bodyOf(Array.from({ length: workers }, (_, e) => ({ engine: String(e), values })));
    const took: number[] = [];
    for (let t = 0; t < 600; t++) {
      const at = START + t * 1000;
      const changes = run.book.take(t, at, [answerOf(0, at, body)]);
      const from = performance.now();
      run.store.write(t, at, changes, [], [0]);
      took.push(performance.now() - from);
    }
    say(
      `write a tick, ${workers} workers x ${columns.length} columns, p50`,
      `${median(took).toFixed(2)} ms`,
      `reach ${reach} ms`,
    );
    run.store.close(START);
  }
}

/** Made once. */
function longRun(workers: number, hours: number): string {
  const file = path.join(folder, `long-${workers}-${hours}.sqlite`);
  if (fs.existsSync(file)) return file;
  const from = performance.now();
  // some that died early, and some that were away for hours
  makeLongRun(file, workers, hours * 3600, workers >= 64 && hours >= 1 ? 4 : 0);
  say(
    `a run of ${workers} workers x ${hours < 1 ? `${hours * 60} min` : `${hours} h`}: raw`,
    `${(fs.statSync(file).size / 1e6).toFixed(0)} MB`,
    `made in ${((performance.now() - from) / 1000).toFixed(0)} s`,
  );
  return file;
}

async function benchRead(hours: number): Promise<void> {
  const file = longRun(64, hours);
  const reader = startReader((error) => console.error(error));
  const store = RunStore.open(file);
  const from = performance.now();
  await rollUpRun(store, reader.calls, Infinity);
  await reader.calls.checkpoint(file);
  say('  rolled up from raw rows, first time', `${((performance.now() - from) / 1000).toFixed(0)} s`);
  say('  with rollups', `${(fs.statSync(file).size / 1e6).toFixed(0)} MB`);
  const whole = { run: '', from: START, to: START + hours * 3_600_000, points: 1000 };
  const ask = async (metrics: string[], query: typeof whole) => {
    const took: number[] = [];
    for (let i = 0; i < 7; i++) {
      const begin = performance.now();
      await reader.calls.timelines(file, { ...query, metrics });
      took.push(performance.now() - begin);
    }
    return { first: took[0]!, warm: median(took.slice(1)) };
  };
  const seven = [
    'running',
    'waiting',
    'kv_cache_usage',
    'generation_tokens',
    'prefix_cache_hit_rate',
    'preemptions',
    'ttft',
  ];
  const one = await ask(['generation_tokens'], whole);
  say('whole-run timeline, one metric, warm', `${one.warm.toFixed(0)} ms`, 'reach 50 ms');
  const all = await ask(seven, whole);
  say('whole-run timelines, the seven default panels, warm', `${all.warm.toFixed(0)} ms`);
  const raw = await ask(seven, { ...whole, to: START + 900_000 });
  say('15 min raw, the seven default panels, warm', `${raw.warm.toFixed(0)} ms`);
  const begin = performance.now();
  for (let i = 0; i < 5; i++)
    await reader.calls.statistics(file, {
      run: '',
      metrics: seven,
      from: START + 1e6,
      to: START + 1e6 + 60_000,
    });
  say(
    'exact statistics of 60 s, seven metrics',
    `${((performance.now() - begin) / 5).toFixed(0)} ms`,
    'reach 100 ms for 20',
  );
  store.close(START);
  await reader.close();
}

/** Steps of an old run, their scalars for the first time and when they are kept. */
async function benchSteps(hours: number): Promise<void> {
  const file = longRun(64, hours);
  const reader = startReader((error) => console.error(error));
  const store = RunStore.open(file);
  const settings = defaultSettings(1000);
  const query = { settings: { idle: settings, sleep: settings }, known: { idle: 0, sleep: 0 }, ended: true };
  let begin = performance.now();
  const seconds = () => `${((performance.now() - begin) / 1000).toFixed(1)} s`;
  for (;;) {
    const { slot, slots, at, idle } = await reader.calls.scanSteps(file, 'bench', query);
    if (slot < slots) continue;
    say(`idle steps of ${hours} h, found (${idle.final.length})`, seconds(), 'reach 5 s for 24 h');
    store.steps.replace('idle', settings, at!, [...idle.final, ...idle.pending]);
    break;
  }
  begin = performance.now();
  let spells = 0;
  for (let more = true; more;) {
    const found = await reader.calls.scanPressure(file, true);
    spells += found.spells.length;
    more = found.slot < found.slots;
  }
  say(`spells of KV pressure (${spells})`, seconds());

  const missing = await reader.calls.missingScalars(file, 'idle');
  let packed: PackedScalars = { n: 0, began: 0, ended: 0, fleet: new Uint8Array(), each: [] };
  const timesOf = async (steps: typeof missing): Promise<number[]> => {
    const took: number[] = [];
    for (const step of steps) {
      const from = performance.now();
      packed = await reader.calls.computeScalars(file, step, null);
      took.push(performance.now() - from);
    }
    return took;
  };
  const [first = 0, ...took] = await timesOf(missing.slice(0, 20));
  say(
    'exact scalars of a step of 52 s, all metrics, first time',
    `${median(took).toFixed(0)} ms`,
    'reach 100 ms',
  );
  say('  the very first, with a look for who is gone for good', `${first.toFixed(0)} ms`);
  const middle = await timesOf(missing.slice(missing.length >> 1).slice(0, 20));
  say('  while two more were silent for hours', `${median(middle).toFixed(0)} ms`);
  say('  so many steps in 5 s, the newest first', `${Math.floor(5000 / median(took))} of ${missing.length}`);
  // what is kept is as long whatever it says
  for (const step of missing)
    store.steps.writeScalars('idle', [{ ...packed, n: step.n, began: step.began, ended: step.ended! }]);
  const all = metrics.map((m) => m.id);
  const warm: number[] = [];
  for (let i = 0; i < 11; i++) {
    const from = performance.now();
    await reader.calls.scalars(
      file,
      { run: '', source: 'idle', metrics: all, workers: [], quick: true },
      false,
    );
    warm.push(performance.now() - from);
  }
  say(
    `all scalars of the run, kept, of ${all.length} metrics`,
    `${median(warm).toFixed(0)} ms`,
    'reach 20 ms',
  );
  store.close(START);

  // as it stands when somebody looks: rolled up
  const wide = longRun(512, 1 / 6);
  const wideStore = RunStore.open(wide);
  await rollUpRun(wideStore, reader.calls, Infinity);
  wideStore.close(START);
  const heat: number[] = [];
  for (let i = 0; i < 6; i++) {
    const from = performance.now();
    await reader.calls.timelines(wide, {
      run: '',
      metrics: ['kv_cache_usage'],
      from: START,
      to: START + 600_000,
      points: 600,
    });
    heat.push(performance.now() - from);
  }
  say(
    'data of a heat map, 512 workers x 10 min',
    `${median(heat.slice(1)).toFixed(0)} ms`,
    'reach 200 ms, drawn',
  );
  await reader.close();
}

/** From the start of the program to the data of the first chart of an existing run, over the wire. */
async function benchStart(): Promise<void> {
  const { connectTo } = await import('../electron/engine/running-engine.ts');
  const dataFolder = path.join(folder, 'start');
  const fake = await forkStandIn(8, 1);
  const engine = await createEngine({ dataFolder, version: '0' });
  const made = await engine.methods.addCluster({ name: '', addresses: fake.addresses, intervalSeconds: 0.2 });
  await new Promise((done) => setTimeout(done, 10_000));
  await engine.methods.disconnectCluster(made.id);
  await engine.close();
  fake.end();
  const took: number[] = [];
  for (let i = 0; i < 5; i++) {
    const begin = performance.now();
    const child = fork(
      path.join(import.meta.dirname, '../out/main/engine.js'),
      ['serve', '--port', '0', '--data', dataFolder],
      { env: { ...process.env, VLLM_SCOPE_TOKEN: 'bench' }, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
    );
    const { port } = await new Promise<{ port: number }>((done) =>
      child.once('message', (m) => done(m as { port: number })),
    );
    const used = await connectTo(port, 'bench');
    const run = (await used.methods.listRuns())[0]!;
    const { firstAt, lastAt } = await used.methods.getRun(run.id);
    await used.methods.timelines({
      run: run.id,
      metrics: ['running'],
      from: firstAt,
      to: lastAt,
      points: 1000,
    });
    took.push(performance.now() - begin);
    await used.close();
    child.send({ type: 'end' });
    await new Promise((done) => child.once('exit', done));
  }
  say(
    'start of the engine to the first chart’s data',
    `${median(took).toFixed(0)} ms`,
    'reach 1500 ms with the window',
  );
}

const parts: Record<string, () => void | Promise<void>> = {
  parse: benchParse,
  write: benchWrite,
  tick: benchTick,
  start: benchStart,
  read: () => benchRead(24),
  'read-1h': () => benchRead(1),
  steps: () => benchSteps(24),
  'steps-1h': () => benchSteps(1),
};
const asked = process.argv.slice(2);
const unknown = asked.find((name) => !Object.hasOwn(parts, name));
if (unknown !== undefined) {
  console.error(`There is no part "${unknown}": ${Object.keys(parts).join(', ')}.`);
  process.exit(2);
}
for (const name of asked.length > 0 ? asked : Object.keys(parts).filter((n) => !n.endsWith('-1h')))
  await parts[name]!();
