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

/** What the page's main thread did meanwhile; `marks` are performance.mark()s. */
async function traced(page: Page, act: () => Promise<void>) {
  const session = await page.context().newCDPSession(page);
  const all: TraceEvent[] = [];
  session.on('Tracing.dataCollected', ({ value }) => all.push(...(value as unknown as TraceEvent[])));
  await session.send('Tracing.start', {
    transferMode: 'ReportEvents',
    traceConfig: { includedCategories: ['toplevel', 'devtools.timeline', 'blink.user_timing'] },
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
    marks: main.filter((e) => /^(move|done)-/.test(e.name)).sort((a, b) => a.ts - b.ts),
  };
}

/** In the page: moves the pointer once a frame; a mark before each move and one after its frame was painted. */
async function moveCrosshair(moves: number): Promise<void> {
  const sheet = document.querySelector('.sheet')!;
  const box = sheet.getBoundingClientRect();
  const channel = new MessageChannel();
  const frame = () => new Promise(requestAnimationFrame);
  const painted = () =>
    new Promise((done) => {
      channel.port1.onmessage = done;
      channel.port2.postMessage(null);
    });
  for (let i = 0; i < moves; i++) {
    await frame();
    performance.mark(`move-${i}`);
    sheet.dispatchEvent(
      new PointerEvent('pointermove', {
        bubbles: true,
        clientX: box.left + box.width * (0.25 + 0.6 * ((i * 0.0137) % 1)),
        // every twentieth move enters another panel
        clientY: box.top + box.height * (0.05 + (0.9 / 7) * (Math.floor(i / 20) % 7)),
      }),
    );
    await frame();
    await painted();
    performance.mark(`done-${i}`);
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
  await page.goto(`http://127.0.0.1:${port}/#token=bench`);
  await sleep(30_000); // enough ticks for lines
  const panels = await page.locator('[data-metric]').count();

  const followed = await traced(page, () => sleep(seconds * 1000));
  const moved = await traced(page, () => page.evaluate(moveCrosshair, 600));
  // what the main thread did between a move and its painted frame
  const moves: { cpu: number; wall: number }[] = [];
  for (let i = 0; i + 1 < moved.marks.length; i += 2) {
    const [from, to] = [moved.marks[i]!.ts, moved.marks[i + 1]!.ts];
    const within = moved.tasks.filter((t) => t.ts + (t.dur ?? 0) >= from && t.ts < to);
    moves.push({ cpu: sum(within.map(cpu)), wall: (to - from) / 1000 });
  }
  // frames in which nothing was drawn say nothing
  const redraws = followed.frames.filter((f) => cpu(f) > 1);
  const slow = (limit: number) => followed.tasks.filter((t) => wall(t) > limit).length;

  console.log(`${workers} workers, ${panels} panels, ${seconds} s of following`);
  say(
    'crosshair move, all panels',
    `CPU ${ms(moves.map((m) => m.cpu))}; passed ${ms(moves.map((m) => m.wall))}`,
    'reach p95 5 ms',
  );
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
