/**
 * The mode `embedded` of run.ts: two engines without an API server (embedded.py), which the exporter makes scrapeable,
 * recorded by a cluster whose address is the path of the files that they announce themselves with.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { MetricStatistics } from '../../electron/engine/api.ts';
import { startReader } from '../../electron/engine/reader-thread.ts';

const here = import.meta.dirname;

export interface Bench {
  /** Where vLLM is. */
  folder: string;
  scratch: string;
  /** The built command line. */
  engine: string;
  verify: (what: string, got: unknown, wanted: unknown) => void;
  /** Ends a child as Ctrl-C would, and waits for it. */
  end: (child: ChildProcess) => Promise<void>;
}

/** Longer than the engine takes to see a file, and then to scrape. */
const SEEN_MS = 6000;

interface Trainer {
  file: string;
  url: string;
  standInDiffersIn: string[];
  prompt: number;
  generation: number;
  generate: (seed: number, count: number) => Promise<void>;
  /** The engine ends, and the process goes on. */
  letGo: () => Promise<void>;
  end: () => Promise<number | null>;
}

async function startTrainer(
  { folder, scratch }: Bench,
  announced: string,
  name: string,
  options: string[],
  env: Record<string, string>,
): Promise<Trainer> {
  const log = path.join(scratch, `embedded-${name}.log`);
  const child = spawn(
    path.join(folder, 'venv/bin/python'),
    [path.join(here, 'embedded.py'), folder, ...options],
    {
      env: { ...process.env, SCOPE_EXPORTER_DIR: announced, SCOPE_EXPORTER_BIND: '127.0.0.1', ...env },
    },
  );
  child.stderr.pipe(fs.createWriteStream(log));
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`Trainer ${name} ended; see ${log}`);
    return JSON.parse(value) as unknown;
  };
  const { stand_in_differs_in } = (await answer()) as { stand_in_differs_in: string[] };
  const file = fs.readdirSync(announced).find((found) => found.endsWith(`-${child.pid}.json`));
  if (file === undefined) throw new Error(`Trainer ${name} announced nothing.`);
  const [group] = JSON.parse(fs.readFileSync(path.join(announced, file), 'utf8')) as { targets: string[] }[];
  const trainer: Trainer = {
    file,
    url: `http://${group!.targets[0]}/metrics`,
    standInDiffersIn: stand_in_differs_in,
    prompt: 0,
    generation: 0,
    generate: async (seed, count) => {
      child.stdin.write(`requests ${seed} ${count}\n`);
      const { requests } = (await answer()) as {
        requests: { prompt_tokens: number; completion_tokens: number }[];
      };
      for (const request of requests) {
        trainer.prompt += request.prompt_tokens;
        trainer.generation += request.completion_tokens;
      }
    },
    letGo: async () => {
      child.stdin.write('end\n');
      await answer();
    },
    end: async () => {
      child.stdin.end();
      if (child.exitCode === null) await once(child, 'exit');
      return child.exitCode;
    },
  };
  return trainer;
}

function uv(folder: string, ...args: string[]): void {
  const command = path.join(folder, 'venv/bin/uv');
  const { status } = spawnSync(command, ['pip', ...args], { stdio: ['ignore', 'inherit', 'inherit'] });
  if (status !== 0) throw new Error(`uv pip ${args[0]} failed.`);
}

/** Both ways of docs/nemo-rl.md: in the engine's environment, and in a folder on its PYTHONPATH. */
async function startTrainers(bench: Bench, announced: string) {
  const exporter = path.join(here, '../../exporter');
  const python = ['--python', path.join(bench.folder, 'venv/bin/python')];
  let plain: Trainer;
  uv(bench.folder, 'install', '-q', '--no-deps', '--reinstall', exporter, ...python);
  try {
    plain = await startTrainer(bench, announced, 'plain', [], {});
  } finally {
    // the other modes have none
    uv(bench.folder, 'uninstall', '-q', 'vllm-scope-exporter', ...python);
  }
  const target = path.join(bench.scratch, 'exporter');
  uv(bench.folder, 'install', '-q', '--no-deps', '--reinstall', '--target', target, exporter, ...python);
  // vLLM turns statistics on for whoever brings a logger
  const quiet = await startTrainer(bench, announced, 'quiet', ['--disable-log-stats'], {
    PYTHONPATH: target,
  });
  return { plain, quiet };
}

export async function embedded(bench: Bench): Promise<void> {
  const { scratch, engine, end } = bench;
  const announced = path.join(scratch, 'engines');
  fs.mkdirSync(announced);
  console.log('\nembedded: starting engines without an API server (minutes)');

  // the cluster is there first, as one that waits for a job in a queue
  const out = path.join(scratch, 'embedded.sqlite');
  const recording = spawn(process.execPath, [engine, 'record', `${announced}/*.json`, '--out', out], {
    stdio: ['ignore', 'ignore', fs.openSync(path.join(scratch, 'embedded-record.log'), 'w')],
  });
  let driven: Driven;
  try {
    driven = await drive(bench, announced);
  } finally {
    await end(recording);
  }
  await compare(bench, out, driven);
}

interface Driven {
  plain: Trainer;
  quiet: Trainer;
  /** When `plain` had been gone for long enough to be missed. */
  goneAt: number;
}

/** `plain` works and its process ends; `quiet` works beside it, then alone, then its engine ends. */
async function drive(bench: Bench, announced: string): Promise<Driven> {
  const { engine, verify } = bench;
  const { plain, quiet } = await startTrainers(bench, announced);
  verify('embedded methods in which the stand-in differs from vLLM', plain.standInDiffersIn.join(), '');

  const check = spawnSync(process.execPath, [engine, 'check', plain.url, '--json'], { encoding: 'utf8' });
  const [report] = [JSON.parse(check.stdout)].flat() as { server: string; restricts: boolean }[];
  verify('embedded check says whose metrics these are', report?.server, 'vLLM');
  verify('embedded check finds that name[] is honoured', report?.restricts, true);

  await sleep(SEEN_MS);
  await Promise.all([plain.generate(1, 40), quiet.generate(2, 24)]);
  await sleep(SEEN_MS);
  verify('embedded plain ends with', await plain.end(), 0);
  verify('embedded files left', fs.readdirSync(announced).join(), quiet.file);
  await sleep(SEEN_MS);
  const goneAt = Date.now();
  await quiet.generate(3, 24);
  await sleep(SEEN_MS);
  await quiet.letGo();
  await sleep(SEEN_MS);
  verify('embedded files left at the end', fs.readdirSync(announced).join(), '');
  verify('embedded quiet ends with', await quiet.end(), 0);
  return { plain, quiet, goneAt };
}

async function compare({ verify }: Bench, file: string, { goneAt, ...trainers }: Driven): Promise<void> {
  const reader = startReader((error) => console.error(error));
  const contents = await reader.calls.contents(file);
  const window = { from: contents.firstAt!, to: contents.lastAt! };
  const { plain, quiet } = trainers;
  verify('embedded endpoints', contents.endpointList.join(), [plain.url, quiet.url].join());
  const metrics = ['generation_tokens', 'prompt_tokens', 'prefix_cache_hit_rate'];
  const statistics = await reader.calls.statistics(file, { run: '', metrics, ...window });
  const [generation, prompt, hits] = statistics as [MetricStatistics, MetricStatistics, MetricStatistics];
  const events = await reader.calls.events(file, window.from - 60_000, window.to + 60_000);
  for (const [name, trainer] of Object.entries(trainers)) {
    const own = contents.workerList.filter((worker) => worker.endpoint === trainer.url);
    verify(`embedded ${name} workers`, own.length, 1);
    const w = own[0]?.w ?? -1;
    verify(`embedded ${name} generation tokens`, generation.each[w]?.delta, trainer.generation);
    verify(`embedded ${name} prompt tokens`, prompt.each[w]?.delta, trainer.prompt);
    verify(`embedded ${name} prefix cache queries`, hits.each[w]?.whole, trainer.prompt);
    const kinds = events.filter((e) => e.endpoint === trainer.url).map((e) => e.kind);
    verify(`embedded ${name} joined`, kinds.filter((kind) => kind === 'joined').length, 1);
    verify(`embedded ${name} left`, kinds.filter((kind) => kind === 'left').length, 1);
    verify(`embedded ${name} restarts`, kinds.filter((kind) => kind === 'restart').length, 0);
  }
  const left = events.find((e) => e.kind === 'left' && e.endpoint === plain.url);
  verify('embedded plain left while quiet went on', left !== undefined && left.at < goneAt, true);
  await reader.close();
}
