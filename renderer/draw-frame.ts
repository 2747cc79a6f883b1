/** What frames the panels: the lanes of answers above, the time axis and the overview of the whole run below. */
import { axisTicks } from './clock.ts';
import { font, hatch, ink, px } from './ink.ts';
import { answered, hole, silent, silentShare, stretches, sums, timeAt, valueAt } from './reading.ts';
import type { Kept } from './kept.ts';
import { opacityOf, workerName, xOf, type Scene } from './scene.ts';
import type { Span } from './span.ts';

type Context = CanvasRenderingContext2D;

/** Pixels above the first lane. */
export const lanesTop = 2;

/** Up to 16 workers: line = answered, 45 degree hatch = no answer or no tick, level hatch = asleep. */
export function drawLanes(c: Context, s: Scene) {
  const top = lanesTop;
  const k = s.kept;
  const half = (k.widthSeconds || s.run.intervalSeconds) * 500;
  const left = (i: number) => Math.max(s.x0, xOf(s, timeAt(k, i) - half));
  const right = (i: number) => Math.min(s.x1, xOf(s, timeAt(k, i) + half));
  const lane = px('lane');
  const drawHoles = (height: number) => {
    for (let i = s.begin + 1; i < s.end; i++) {
      if (!hole(k, i, s.run.intervalSeconds)) continue;
      const [a, b] = [right(i - 1), left(i)];
      c.fillStyle = ink('surface');
      c.fillRect(a, top, b - a, height);
      hatch(c, a, top + 1, b - a, height - 2, 'gap', ink('text-3'));
    }
  };
  if (s.many) {
    drawShare(c, s, top, left, right);
    drawHoles(lane);
    return;
  }
  const sleep = k.columns.get('sleep_level');
  for (let w = 0; w < s.run.workerList.length; w++) {
    const y = top + w * lane;
    c.globalAlpha = opacityOf(s, w);
    c.fillStyle = ink('text-3');
    c.font = font(px('t-11') - 2);
    c.textAlign = 'right';
    c.fillText(workerName(s.run, w), s.x0 - 6, y + lane / 2 + 0.5);
    c.textAlign = 'left';
    c.fillStyle = ink(s.paints.of(w, k.workers)?.token ?? 'text-3');
    // the lane of a worker that was taken away ends there
    const end = xOf(s, s.run.workerList[w]?.goneAt ?? Infinity);
    for (const [begin, end] of stretches(s.begin, s.end, (i) => answered(k, w, i)))
      bar(c, left(begin), right(end - 1), y + lane / 2 - 0.75, 1.5);
    for (const [a, b] of stretches(s.begin, s.end, (i) => silent(k, s.run, w, i)))
      hatch(c, left(a), y + 1, Math.min(right(b - 1), end) - left(a), lane - 2, 'gap', ink('text-3'));
    if (sleep)
      for (const [begin, end] of stretches(s.begin, s.end, (i) => valueAt(k, sleep, w, i) > 0))
        hatch(c, left(begin), y + 1, right(end - 1) - left(begin), lane - 1, 'asleep', ink('asleep'));
  }
  c.globalAlpha = 1;
  drawHoles(lane * s.run.workerList.length);
  drawOutages(c, s, top, lane);
}

const bar = (c: Context, a: number, b: number, y: number, height: number) => {
  if (b > a) c.fillRect(a, y, b - a, height);
};

/** Zoomed out a short outage would vanish in its bucket: it is marked from the list of events, at least 2 px wide. */
function drawOutages(c: Context, s: Scene, top: number, lane: number) {
  if (s.kept.widthSeconds === 0) return;
  for (const e of s.events) {
    const until = e.until ?? e.at;
    if (e.kind !== 'outage' || until < s.window.from || e.at > s.window.to) continue;
    const a = Math.max(s.x0, xOf(s, e.at));
    const width = Math.max(2, Math.min(s.x1, xOf(s, until)) - a);
    for (const worker of s.run.workerList)
      if (worker.endpoint === e.endpoint) {
        c.fillStyle = ink('surface');
        c.fillRect(a, top + worker.w * lane + 1, width, lane - 2);
        hatch(c, a, top + worker.w * lane + 1, width, lane - 2, 'gap', ink('text-3'));
      }
  }
}

/** Past 16: one lane, full where all answer, hatched from below by the share that does not. */
function drawShare(
  c: Context,
  s: Scene,
  top: number,
  left: (i: number) => number,
  right: (i: number) => number,
) {
  const height = px('lane') - 2;
  c.fillStyle = ink('text-3');
  c.textAlign = 'right';
  c.fillText('answers', s.x0 - 6, top + px('lane') / 2 + 0.5);
  c.textAlign = 'left';
  for (let i = s.begin; i < s.end; i++) {
    const missing = silentShare(s.kept, s.run, i);
    if (missing === null) continue;
    const a = left(i);
    c.fillStyle = ink('line-2');
    bar(c, a, right(i), top + 1, height);
    if (missing > 0) {
      const part = Math.max(2, height * missing);
      hatch(c, a, top + 1 + height - part, right(i) - a, part, 'gap', ink('text'));
    }
  }
}

export function drawAxis(c: Context, s: Pick<Scene, 'x0' | 'x1' | 'window'>) {
  const width = c.measureText('00:00:00').width;
  c.textAlign = 'center';
  for (const t of axisTicks(s.window.from, s.window.to, s.x1 - s.x0, width + 22)) {
    const x = Math.round(xOf(s, t.at));
    c.fillStyle = ink('line-2');
    c.fillRect(x, 0, 1, 4);
    c.fillStyle = ink('text-3');
    c.fillText(t.label, Math.max(x, s.x0 - width / 2), 4 + px('t-11') * 0.75);
  }
  c.textAlign = 'left';
}

/** Where a time stands in the overview. */
export const overviewX = (s: Scene, all: Span, at: number) =>
  s.x0 + ((at - all.from) / (all.to - all.from)) * (s.x1 - s.x0);

/** The whole run: running requests, summed; the window in view in a frame with two handles. */
export function drawOverview(c: Context, s: Scene, all: Span, data: Kept | null, height: number) {
  const column = data?.columns.get('running');
  if (data && column) {
    const total = sums(data, column);
    const peak = total.reduce((high, v) => (v > high ? v : high), 0) || 1;
    const half = (data.widthSeconds || s.run.intervalSeconds) * 500;
    c.fillStyle = ink('line-2');
    for (let i = 0; i < data.places; i++) {
      const v = total[i] ?? NaN;
      if (!(v > 0)) continue;
      const a = Math.max(s.x0, overviewX(s, all, timeAt(data, i) - half));
      const b = Math.min(s.x1, overviewX(s, all, timeAt(data, i) + half));
      const tall = (v / peak) * (height - 8);
      bar(c, a, Math.max(b, a + 0.7), height - 4 - tall, tall);
    }
  }
  const a = Math.round(Math.max(s.x0, overviewX(s, all, s.window.from)));
  const b = Math.round(Math.min(s.x1, Math.max(overviewX(s, all, s.window.to), a + 4)));
  c.strokeStyle = ink('accent');
  c.lineWidth = 1;
  c.strokeRect(a + 0.5, 1.5, b - a - 1, height - 4);
  c.fillStyle = ink('accent');
  for (const x of [a, b]) c.fillRect(x - 2, height / 2 - 6, 4, 12);
}
