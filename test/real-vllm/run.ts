/**
 * `npm run test:vllm -- [DIR]`: real vLLM servers under rollouts, recorded by the command line and by `serve` with its
 * page open, and engines without a server (embedded.ts); what was counted must be what the requests' own usage says.
 * README.md beside this.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { chromium } from '@playwright/test';
import { startReader } from '../../electron/engine/reader-thread.ts';
import type { MetricStatistics } from '../../electron/engine/api.ts';
import { embedded } from './embedded.ts';

const here = import.meta.dirname;
const engine = path.join(here, '../../out/main/engine.js');
const folder = path.resolve(process.argv[2] ?? path.join(os.tmpdir(), 'vllm-scope-real-vllm'));
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-real-'));
let passed = 0;
let failed = 0;

function verify(what: string, got: unknown, wanted: unknown): void {
  const same = Object.is(got, wanted);
  if (same) passed++;
  else failed++;
  console.log(
    `${same ? 'ok    ' : 'FAILED'} ${what}: ${String(got)}${same ? '' : `, wanted ${String(wanted)}`}`,
  );
}

interface Truth {
  start: number;
  steps: { step: number; begin: number; end: number }[];
  events: { t: number; endpoint: number; event: string }[];
  requests: {
    step: number;
    endpoint: number;
    prompt_tokens?: number;
    completion_tokens?: number;
    error?: string;
  }[];
}

/** Ends a child as Ctrl-C would, and waits for it. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  child.kill('SIGINT');
  await once(child, 'exit');
}

/** Drives one plan with a recording beside it, and compares. */
async function drive(
  plan: string,
  record: (urls: string[]) => Promise<{ stop: () => Promise<string> }>,
): Promise<void> {
  const truthFile = path.join(scratch, `${plan}.truth.json`);
  console.log(`\n${plan}: starting real servers (a minute or two)`);
  const driver = spawn(
    path.join(folder, 'venv/bin/python'),
    [path.join(here, 'rollouts.py'), folder, path.join(here, `plan-${plan}.json`), truthFile],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let recording: { stop: () => Promise<string> } | null = null;
  for await (const line of readline.createInterface({ input: driver.stdout })) {
    console.log(`  ${line}`);
    const said = JSON.parse(line) as { serving?: string[] };
    if (said.serving) recording = await record(said.serving);
  }
  if (driver.exitCode === null) await once(driver, 'exit');
  if (!recording || driver.exitCode !== 0) throw new Error(`the driver ended with ${driver.exitCode}`);
  const file = await recording.stop();
  await compare(plan, file, JSON.parse(fs.readFileSync(truthFile, 'utf8')) as Truth);
}

async function compare(plan: string, file: string, truth: Truth): Promise<void> {
  const reader = startReader((error) => console.error(error));
  const { workerList, endpointList } = await reader.calls.contents(file);
  const killed = truth.events.find((e) => e.event === 'killed');
  for (const { step, begin, end } of truth.steps) {
    const window = { from: (truth.start + begin) * 1000, to: (truth.start + end) * 1000 };
    const [generation, prompt, hits, preemptions] = (await reader.calls.statistics(file, {
      run: '',
      metrics: ['generation_tokens', 'prompt_tokens', 'prefix_cache_hit_rate', 'preemptions'],
      ...window,
    })) as [MetricStatistics, MetricStatistics, MetricStatistics, MetricStatistics];
    endpointList.forEach((url, e) => {
      const own = workerList.filter((w) => w.endpoint === url).map((w) => w.w);
      const sum = (s: MetricStatistics, of: 'delta' | 'whole') =>
        own.reduce((n, w) => n + (s.each[w]![of] ?? 0), 0);
      const requests = truth.requests.filter((r) => r.step === step && r.endpoint === e);
      const total = (key: 'prompt_tokens' | 'completion_tokens') =>
        requests.reduce((n, r) => n + (r[key] ?? 0), 0);
      const where = `${plan} step ${step} endpoint ${e}`;
      const wasKilled = killed?.endpoint === e && killed.t >= begin && killed.t <= end;
      const restarts = own.reduce((n, w) => n + generation.each[w]!.resets, 0);
      verify(`${where} restarts`, restarts, wasKilled ? 1 : 0);
      if (wasKilled) {
        const finished = total('completion_tokens');
        console.log(
          `       killed in this step: counted ${sum(generation, 'delta')}, finished requests had ${finished}`,
        );
        return;
      }
      verify(`${where} generation tokens`, sum(generation, 'delta'), total('completion_tokens'));
      verify(`${where} prompt tokens`, sum(prompt, 'delta'), total('prompt_tokens'));
      verify(`${where} prefix cache queries`, sum(hits, 'whole'), total('prompt_tokens'));
      console.log(
        `       hit rate ${hits.pooled?.toFixed(3)}, preemptions ${sum(preemptions, 'delta')}, coverage ${generation.coverage?.toFixed(3)}`,
      );
    });
    const expectKilled = killed !== undefined && killed.t >= begin && killed.t <= end;
    verify(`${plan} step ${step} is a lower bound`, generation.lowerBound, expectKilled);
  }
  await reader.close();
}

/** `vllm-scope record`, as a user would. */
async function byCommand(urls: string[]) {
  const out = path.join(scratch, 'two.sqlite');
  const child = spawn(process.execPath, [engine, 'record', ...urls, '--out', out], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  await once(child.stderr, 'data');
  return {
    stop: async () => {
      await end(child);
      return out;
    },
  };
}

/** `vllm-scope serve` with its page open in a browser; the run is the one in its data folder. */
async function byPage(urls: string[]) {
  const data = path.join(scratch, 'data');
  const child = spawn(
    process.execPath,
    [engine, 'serve', '--port', '0', '--data', data, '--connect', urls.join(' '), '--name', 'dp2', '--json'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const [line] = (await once(readline.createInterface({ input: child.stdout }), 'line')) as [string];
  const { url } = JSON.parse(line) as { url: string };
  const browser = await chromium.launch({
    executablePath: process.env.CHROME_PATH ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'],
  });
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(url);
  return {
    stop: async () => {
      const shot = path.join(scratch, 'page-dp2.png');
      await page.screenshot({ path: shot });
      console.log(`       screenshot: ${shot}`);
      await browser.close();
      await end(child);
      const [name] = fs.readdirSync(path.join(data, 'runs')).filter((f) => f.endsWith('.sqlite'));
      return path.join(data, 'runs', name!);
    },
  };
}

console.log(`vLLM for CPU in ${folder}`);
const setUp = spawnSync(path.join(here, 'setup.sh'), [folder], { stdio: 'inherit' });
if (setUp.status !== 0) {
  console.error('The set-up of vLLM failed (see above).');
  process.exit(1);
}
const asked = process.argv.slice(3);
if (asked.length === 0 || asked.includes('two')) await drive('two', byCommand);
if (asked.length === 0 || asked.includes('dp2')) await drive('dp2', byPage);
if (asked.length === 0 || asked.includes('embedded'))
  await embedded({ folder, scratch, engine, verify, end });
console.log(`\n${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
