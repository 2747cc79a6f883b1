/**
 * `node test/soak.ts [--seconds 600]`: 64 stand-in workers on 8 endpoints, recorded at 1 s by the built engine with a
 * page open and a script that asks for whole-run timelines all the time. Says how many slots there are and how the
 * engine's memory went. Opt-in: it takes as long as it says.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { chromium } from '@playwright/test';
import { forkStandIn } from './stand-in-process.ts';
import { connectTo } from '../electron/engine/running-engine.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '600' } } });
const seconds = Number(values.seconds);
const here = import.meta.dirname;
const data = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-soak-'));

/** Resident MB of a process, by /proc; NaN where there is none. */
const residentMb = (pid: number) => {
  const found = /VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(found?.[1] ?? NaN) / 1024;
};
const mean = (list: number[]) => list.reduce((a, b) => a + b, 0) / list.length;

const cluster = await forkStandIn(64, 8);
const engine = fork(
  path.join(here, '../out/main/engine.js'),
  ['serve', '--port', '0', '--data', data, '--connect', cluster.addresses, '--name', 'soak'],
  { env: { ...process.env, VLLM_SCOPE_TOKEN: 'soak' }, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
);
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
const slots = run.endedAt === null ? 0 : Math.round((run.endedAt - run.startedAt) / 1000) + 1;
const between = (from: number, to: number) =>
  mean(memory.filter((m) => m.at >= from * seconds && m.at < to * seconds).map((m) => m.mb));
const early = between(0.2, 0.4);
const late = between(0.8, 1);
console.log(
  `${run.ticks} ticks in ${slots} slots of 1 s; whole-run timelines of every metric: ${asked}, slowest ${slowest} ms`,
);
console.log(
  `engine memory: minutes 2 to 4 of 10 ${early.toFixed(0)} MB, 8 to 10 ${late.toFixed(0)} MB, ratio ${(late / early).toFixed(3)}; most ${Math.max(...memory.map((m) => m.mb)).toFixed(0)} MB`,
);
await page.screenshot({ path: path.join(os.tmpdir(), 'vllm-scope-soak.png') });
await browser.close();
await connection.close();
engine.kill('SIGTERM');
await once(engine, 'exit');
cluster.end();
fs.rmSync(data, { recursive: true, force: true });
process.exitCode = Math.abs(run.ticks - slots) <= 1 && Math.abs(late / early - 1) <= 0.1 ? 0 : 1;
