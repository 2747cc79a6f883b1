/**
 * `node test/page-bench.ts [--seconds 60] [--workers 64] [--out out]`: how fast the built page is in Chromium while it
 * follows a live recording of a stand-in. Prints p50 and p95 of a crosshair move over all panels and of a tick's redraw
 * a panel, and the long tasks. Run by hand. Read from Chromium's own trace of the page's main thread: CPU time (as the
 * design measures) beside the time that passed, which other work on the machine lengthens.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { chromium, type Page } from '@playwright/test';
import { forkStandIn } from './stand-in-process.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    workers: { type: 'string', default: '64' },
    /** The folder of the build. */
    out: { type: 'string', default: path.join(import.meta.dirname, '../out') },
  },
});
const seconds = Number(values.seconds);
const workers = Number(values.workers);
const data = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-page-bench-'));

/** Of Chromium's trace; times in microseconds. */
interface TraceEvent {
  name: string;
  ph: string;
  pid: number;
  tid: number;
  ts: number;
  dur?: number;
  /** CPU time of the thread. */
  tdur?: number;
}

/** What the page's main thread did meanwhile. Every kind of event that is traced slows the page down. */
async function traced(page: Page, categories: string[], act: () => Promise<void>) {
  const session = await page.context().newCDPSession(page);
  const all: TraceEvent[] = [];
  session.on('Tracing.dataCollected', ({ value }) => all.push(...(value as unknown as TraceEvent[])));
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: ['toplevel', 'blink.user_timing', ...categories] },
  });
  await page.evaluate(() => performance.mark('bench-begin'));
  await act();
  await page.evaluate(() => performance.mark('bench-end'));
  const complete = new Promise((done) => session.once('Tracing.tracingComplete', done));
  await session.send('Tracing.end');
  await complete;
  await session.detach();
  const begin = all.find((e) => e.name === 'bench-begin')!;
  const end = all.find((e) => e.name === 'bench-end')!;
  const main = all.filter(
    (e) => e.pid === begin.pid && e.tid === begin.tid && e.ts >= begin.ts && e.ts < end.ts,
  );
  const named = (name: string) => main.filter((e) => e.name === name && e.ph === 'X');
  return {
    tasks: named('ThreadControllerImpl::RunTask'),
    frames: named('FireAnimationFrame'),
    redraws: main.filter((e) => e.name === 'redraw'),
    pointed: main.filter((e) => e.name === 'pointed'),
    heard: main.filter((e) => e.name === 'heard'),
  };
}

/** In the page, before its own scripts: marks around what hears the pointer, and where lines are put into the picture. */
function markMoves() {
  addEventListener('pointermove', () => performance.mark('pointed'), { capture: true });
  addEventListener('pointermove', () => performance.mark('heard'));
  const own = Object.getOwnPropertyDescriptor(CanvasRenderingContext2D.prototype, 'drawImage')!;
  CanvasRenderingContext2D.prototype.drawImage = function (...args: unknown[]) {
    performance.mark('redraw');
    (own.value as (...args: unknown[]) => void).apply(this, args);
  };
}

/** With a real pointer; every twentieth move enters another panel. */
async function movePointer(page: Page, moves: number): Promise<void> {
  const box = (await page.locator('.sheet').boundingBox())!;
  for (let i = 0; i < moves; i++) {
    const x = box.x + box.width * (0.25 + 0.6 * ((i * 0.0137) % 1));
    await page.mouse.move(x, box.y + box.height * (0.05 + (0.9 / 7) * (Math.floor(i / 20) % 7)));
  }
}

const cpu = (e: TraceEvent) => (e.tdur ?? 0) / 1000;
const wall = (e: TraceEvent) => (e.dur ?? 0) / 1000;
const sum = (list: number[]) => list.reduce((a, b) => a + b, 0);
const at = (list: number[], share: number) =>
  [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))] ?? NaN;
const ms = (list: number[]) => `p50 ${at(list, 0.5).toFixed(1)}, p95 ${at(list, 0.95).toFixed(1)} ms`;
const say = (what: string, value: string, reach = '') =>
  console.log(`${what.padEnd(46)} ${value.padEnd(64)} ${reach}`);

const cluster = await forkStandIn(workers, Math.min(8, workers));
const engine = fork(
  path.join(path.resolve(values.out), 'main/engine.js'),
  ['serve', '--port', '0', '--data', data, '--connect', cluster.addresses, '--name', 'bench'],
  { env: { ...process.env, VLLM_SCOPE_TOKEN: 'bench' }, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
);
const [{ port }] = (await once(engine, 'message')) as [{ port: number }];
const browser = await chromium.launch({
  executablePath: process.env.CHROME_PATH ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'],
});
try {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.addInitScript(markMoves);
  await page.goto(`http://127.0.0.1:${port}/#token=bench`);
  await sleep(30_000); // enough ticks for lines
  const panels = await page.locator('[data-metric]').count();

  const followed = await traced(page, ['devtools.timeline'], () => sleep(seconds * 1000));
  const moved = await traced(page, [], () => movePointer(page, 600));
  // from the event through scripts, layout and paint to the commit of the frame all is one task
  const holds = (task: TraceEvent, events: TraceEvent[]) =>
    events.some((e) => e.ts >= task.ts && e.ts < task.ts + (task.dur ?? 0));
  const frames = moved.tasks.filter((task) => holds(task, moved.pointed));
  const moves = frames.filter((task) => !holds(task, moved.redraws));
  const scripts = moved.heard.map((e, i) => (e.ts - (moved.pointed[i]?.ts ?? NaN)) / 1000);
  const redraws = followed.frames.filter((f) => holds(f, followed.redraws));
  const slow = (limit: number) => followed.tasks.filter((t) => wall(t) > limit).length;

  console.log(`${workers} workers, ${panels} panels, ${seconds} s of following`);
  say(
    `crosshair move, all panels (${moves.length} moves)`,
    `scripts ${ms(scripts)}; whole frame CPU ${ms(moves.map(cpu))}`,
    'reach p95 5 ms',
  );
  say('... with the ticks that came in between', `CPU ${ms(frames.map(cpu))}`);
  say(
    `a tick's redraw, a panel (${redraws.length} redraws)`,
    `CPU ${ms(redraws.map((f) => cpu(f) / panels))}; passed ${ms(redraws.map((f) => wall(f) / panels))}`,
    'reach 16.7 ms',
  );
  say(
    'tasks while following',
    `over 50 ms: ${slow(50)}, over 100 ms: ${slow(100)}, longest ${Math.max(...followed.tasks.map(wall)).toFixed(0)} ms, by CPU ${Math.max(...followed.tasks.map(cpu)).toFixed(0)} ms`,
    'reach none over 100',
  );
  say('main thread, CPU a second of following', `${(sum(followed.tasks.map(cpu)) / seconds).toFixed(0)} ms`);
  await page.screenshot({ path: path.join(os.tmpdir(), 'vllm-scope-page-bench.png') });
} finally {
  await browser.close();
  engine.kill('SIGTERM');
  await once(engine, 'exit');
  cluster.end();
  fs.rmSync(data, { recursive: true, force: true });
}
