/**
 * `node test/soak.ts [--seconds 600]`: 64 stand-in workers on 8 endpoints, recorded at 1 s by the built engine with a
 * page open and a script that asks for whole-run timelines all the time. Says how many slots there are and how the
 * engine's memory went. Opt-in: it takes as long as it says.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { chromium } from '@playwright/test';
import { connectTo } from '../electron/engine/running-engine.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '600' } } });
const seconds = Number(values.seconds);
const here = import.meta.dirname;
const data = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-soak-'));
const children: ChildProcess[] = [];

/** Resident MB of a process, by /proc; NaN where there is none. */
const residentMb = (pid: number) => {
  const found = /VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(found?.[1] ?? NaN) / 1024;
};
const mean = (list: number[]) => list.reduce((a, b) => a + b, 0) / list.length;

const cluster = fork(
  path.join(here, 'fake-vllm.ts'),
  ['--workers', '64', '--engines-per-endpoint', '8', '--port', '0'],
  { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] },
);
children.push(cluster);
const urls: string[] = [];
for await (const chunk of cluster.stdout! as AsyncIterable<Buffer>) {
  urls.push(
    ...chunk
      .toString()
      .split('\n')
      .filter((line) => line.startsWith('http')),
  );
  if (urls.length >= 8) break;
}
const engine = fork(
  path.join(here, '../out/main/engine.js'),
  ['serve', '--port', '0', '--data', data, '--connect', urls.join(' '), '--name', 'soak'],
  { env: { ...process.env, VLLM_SCOPE_TOKEN: 'soak' }, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
);
children.push(engine);
const [{ port }] = (await once(engine, 'message')) as [{ port: number }];
const browser = await chromium.launch({
  executablePath: process.env.CHROME_PATH ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'],
});
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
await page.goto(`http://127.0.0.1:${port}/#token=soak`);
const connection = await connectTo(port, 'soak');
const { methods } = connection;

const begin = Date.now();
const memory: { at: number; mb: number }[] = [];
let asked = 0;
let slowest = 0;
const looping = (async () => {
  while (Date.now() - begin < seconds * 1000) {
    const [run] = await methods.listRuns();
    const { firstAt, lastAt, metrics } = await methods.getRun(run!.id);
    if (lastAt > firstAt) {
      const from = Date.now();
      await methods.timelines({ run: run!.id, metrics, from: firstAt, to: lastAt, points: 1000 });
      slowest = Math.max(slowest, Date.now() - from);
      asked++;
    }
    await sleep(100);
  }
})();
while (Date.now() - begin < seconds * 1000) {
  await sleep(1000);
  memory.push({ at: (Date.now() - begin) / 1000, mb: residentMb(engine.pid!) });
}
await looping;
const [cluster1] = await methods.listClusters();
const run = await methods.stopRecording(cluster1!.id);
const between = (from: number, to: number) =>
  mean(memory.filter((m) => m.at >= from * seconds && m.at < to * seconds).map((m) => m.mb));
const early = between(0.2, 0.4);
const late = between(0.8, 1);
console.log(
  `${run.ticks} slots in ${seconds} s; whole-run timelines of every metric: ${asked}, slowest ${slowest} ms`,
);
console.log(
  `engine memory: minutes 2 to 4 of 10 ${early.toFixed(0)} MB, 8 to 10 ${late.toFixed(0)} MB, ratio ${(late / early).toFixed(3)}; most ${Math.max(...memory.map((m) => m.mb)).toFixed(0)} MB`,
);
await page.screenshot({ path: path.join(os.tmpdir(), 'vllm-scope-soak.png') });
await browser.close();
await connection.close();
for (const child of children.reverse()) {
  child.kill('SIGTERM');
  await once(child, 'exit');
}
fs.rmSync(data, { recursive: true, force: true });
process.exitCode = Math.abs(run.ticks - seconds) <= 1 && Math.abs(late / early - 1) <= 0.1 ? 0 : 1;
