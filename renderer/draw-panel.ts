/** What is drawn under and over the lines of one panel. ECharts draws the lines themselves (chart.ts). */
import { drawPressure } from './draw-pressure.ts';
import { narrow, tick } from './format.ts';
import { dashed, font, hatch, ink, px } from './ink.ts';
import { answered, answeredShare, hole, stretches, sums, timeAt, valueAt } from './reading.ts';
import { gridValues } from './scale.ts';
import { needsTraffic, opacityOf, workerName, xOf, yOf, type PanelBox, type Scene } from './scene.ts';

type Context = CanvasRenderingContext2D;

/** Edges in time of a place: halfway to its neighbours, at most a slot away. */
function edges(s: Scene, i: number): [number, number] {
  const half = (s.kept.widthSeconds || s.run.intervalSeconds) * 500;
  const at = timeAt(s.kept, i);
  return [at - half, at + half];
}

export function drawUnder(c: Context, s: Scene, p: PanelBox) {
  drawSilence(c, s, p);
  c.textAlign = 'right';
  for (const v of gridValues(p.scale)) {
    const y = Math.round(yOf(p, v)) + 0.5;
    c.fillStyle = ink('grid');
    c.fillRect(s.x0, y - 0.5, s.x1 - s.x0, 1);
    c.fillStyle = ink('text-3');
    c.fillText(tick(p.info.unit, v), s.x0 - 6, y);
  }
  c.textAlign = 'left';
  if (!p.column) return;
  c.save();
  c.beginPath();
  c.rect(s.x0, p.top, s.x1 - s.x0, p.height);
  c.clip();
  if (s.many) drawBand(c, s, p);
  else if (p.column.min && p.column.max) drawEnvelopes(c, s, p, p.column.min, p.column.max);
  c.restore();
}

/** Where every worker is silent, or a slot is missing: hatch over the panel's whole height. */
function drawSilence(c: Context, s: Scene, p: PanelBox) {
  const fill = (from: number, to: number) => {
    const a = Math.max(s.x0, xOf(s, from));
    const b = Math.min(s.x1, xOf(s, to));
    if (b - a < 0.5) return;
    c.fillStyle = ink('bg');
    c.fillRect(a, p.top, b - a, p.height - 1);
    hatch(c, a, p.top + 1, b - a, p.height - 2, 'gap', ink('line-2'));
  };
  const k = s.kept;
  for (const [begin, end] of stretches(s.begin, s.end, (i) => answeredShare(k, i) === 0))
    fill(edges(s, begin)[0], edges(s, end - 1)[1]);
  for (let i = Math.max(1, s.begin); i < s.end; i++)
    if (hole(k, i, s.run.intervalSeconds)) fill(edges(s, i - 1)[1], edges(s, i)[0]);
}

/** Lowest to highest worker at each place, past 16 workers. */
function drawBand(c: Context, s: Scene, p: PanelBox) {
  const k = s.kept;
  const column = p.column;
  if (!column) return;
  const tops = column.max ?? column.values;
  const bottoms = column.min ?? column.values;
  const high = new Float32Array(s.end).fill(-Infinity);
  const low = new Float32Array(s.end).fill(Infinity);
  for (let w = 0; w < k.workers; w++)
    for (let i = s.begin, at = w * k.capacity + s.begin; i < s.end; i++, at++) {
      const a = tops[at] ?? NaN;
      const b = bottoms[at] ?? NaN;
      if (a > (high[i] ?? 0)) high[i] = a;
      if (b < (low[i] ?? 0)) low[i] = b;
    }
  c.fillStyle = ink('envelope');
  const has = (i: number) => (high[i] ?? -Infinity) >= (low[i] ?? Infinity);
  const breaks = (i: number) => !has(i - 1) || hole(k, i, s.run.intervalSeconds);
  for (let begin = s.begin; begin < s.end; begin++) {
    if (!has(begin)) continue;
    let end = begin + 1;
    while (end < s.end && has(end) && !breaks(end)) end++;
    c.beginPath();
    if (end === begin + 1) {
      const y = yOf(p, high[begin] ?? 0);
      c.rect(xOf(s, timeAt(k, begin)) - 1, y, 2, Math.max(2, yOf(p, low[begin] ?? 0) - y));
    } else {
      for (let i = begin; i < end; i++) c.lineTo(xOf(s, timeAt(k, i)), yOf(p, high[i] ?? 0));
      for (let i = end - 1; i >= begin; i--) c.lineTo(xOf(s, timeAt(k, i)), yOf(p, low[i] ?? 0));
    }
    c.fill();
    begin = end - 1;
  }
}

/** Zoomed out: lowest to highest sample of each bucket, so that no spike disappears behind its mean. */
function drawEnvelopes(c: Context, s: Scene, p: PanelBox, min: Float32Array, max: Float32Array) {
  const k = s.kept;
  for (const w of p.drawn) {
    c.strokeStyle = ink(s.paints.of(w, k.workers)?.token ?? 'text-3');
    c.globalAlpha = 0.35 * opacityOf(s, w);
    c.lineWidth = 1;
    c.beginPath();
    for (let i = s.begin; i < s.end; i++) {
      const a = max[w * k.capacity + i] ?? NaN;
      const b = min[w * k.capacity + i] ?? NaN;
      if (!(a > b)) continue;
      const x = xOf(s, timeAt(k, i));
      c.moveTo(x, yOf(p, a));
      c.lineTo(x, yOf(p, b));
    }
    c.stroke();
  }
  c.globalAlpha = 1;
}

export function drawOver(c: Context, s: Scene, p: PanelBox, first: boolean) {
  if (!s.run.metrics.includes(p.info.id) && s.run.metrics.length > 0) drawWords(c, s, p, 'not there yet');
  else if (needsTraffic(p.info)) drawNoTraffic(c, s, p);
  drawLone(c, s, p);
  if (p.info.id === 'kv_cache_usage') {
    drawRug(c, s, p);
    drawPressure(c, s, p);
  }
  drawRestarts(c, s, p, first);
  drawEnds(c, s, p);
  if (s.liveAt !== null && s.liveAt > s.window.from && s.liveAt < s.window.to) {
    c.fillStyle = ink('accent');
    c.fillRect(Math.round(xOf(s, s.liveAt)), p.top, 1, p.height);
  }
}

function drawWords(c: Context, s: Scene, p: PanelBox, words: string) {
  c.fillStyle = ink('text-3');
  c.textAlign = 'center';
  c.fillText(words, (s.x0 + s.x1) / 2, p.top + p.height / 2);
  c.textAlign = 'left';
}

/** A sample between two gaps has no line: a 3 px dot. */
function drawLone(c: Context, s: Scene, p: PanelBox) {
  // the average lies behind the workers
  for (const [w, points] of [...p.points].sort(([a], [b]) => (a ?? -1) - (b ?? -1))) {
    if (points.lone.length === 0) continue;
    c.fillStyle = ink(w === null ? 'mean' : (s.paints.of(w, s.kept.workers)?.token ?? 'text-3'));
    c.globalAlpha = w === null ? 1 : opacityOf(s, w);
    c.beginPath();
    for (let i = 0; i < points.lone.length; i += 2) {
      const at = points.lone[i] ?? 0;
      if (at < s.window.from || at > s.window.to) continue;
      const x = xOf(s, at);
      const y = yOf(p, points.lone[i + 1] ?? 0);
      c.moveTo(x + 1.5, y);
      c.arc(x, y, 1.5, 0, 7);
    }
    c.fill();
  }
  c.globalAlpha = 1;
}

/** Somebody answered, nobody had anything to measure: a dotted rule, and the words where there is room. */
function drawNoTraffic(c: Context, s: Scene, p: PanelBox) {
  const k = s.kept;
  const column = p.column;
  if (!column) return;
  const none = (i: number) => {
    let any = false;
    for (let w = 0; w < k.workers; w++) {
      if (!Number.isNaN(valueAt(k, column, w, i))) return false;
      any ||= answered(k, w, i);
    }
    return any;
  };
  const y = Math.round(p.top + p.height - p.plot.bottom) - 0.5;
  for (const [begin, end] of stretches(s.begin, s.end, none)) {
    const a = Math.max(s.x0, xOf(s, edges(s, begin)[0]));
    const b = Math.min(s.x1, xOf(s, edges(s, end - 1)[1]));
    if (b - a < 8) continue;
    dashed(c, [a, y], [b, y], [1, 3], ink('idle'));
    if (b - a < 62) continue;
    c.fillStyle = ink('idle');
    c.font = font(px('t-11') - 1);
    c.textAlign = 'center';
    c.fillText('no traffic', (a + b) / 2, y - 8);
    c.textAlign = 'left';
    c.font = font(px('t-11'));
  }
}

/** Preemptions stand on the top edge of the KV panel too, so that thrash is one picture. */
function drawRug(c: Context, s: Scene, p: PanelBox) {
  const column = s.kept.columns.get('preemptions');
  if (!column) return;
  const total = sums(s.kept, column);
  // past 16 workers a single preemption somewhere is no news
  const least = s.many ? s.kept.workers / 8 : 0;
  c.fillStyle = ink('preempt');
  for (let i = s.begin; i < s.end; i++) {
    const x = xOf(s, timeAt(s.kept, i));
    if ((total[i] ?? 0) > least && x >= s.x0 && x <= s.x1) c.fillRect(x, p.top + 2, 1, 4);
  }
}

/** Restarts at one time (an endpoint with several engines) share a flag. */
function drawRestarts(c: Context, s: Scene, p: PanelBox, first: boolean) {
  const restarts = s.restarts.filter((e) => e.at >= s.window.from && e.at <= s.window.to);
  let free = s.x0;
  for (let i = 0; i < restarts.length;) {
    const event = restarts[i];
    if (!event) break;
    const x = Math.round(xOf(s, event.at)) + 0.5;
    let next = i + 1;
    while (next < restarts.length && xOf(s, restarts[next]?.at ?? 0) < x + 4) next++;
    dashed(c, [x, p.top], [x, p.top + p.height], [3, 2], ink('restart'));
    const name = event.w === null ? 'engine' : workerName(s.run, event.w);
    const others = next - i > 1 ? ` and ${next - i - 1} more` : '';
    if (first) free = drawFlag(c, s, x, p.top + 2, `↻ ${name}${others} restarted`, free);
    i = next;
  }
}

/** Right of the rule, or left of it at the edge; left out where it would cover the one before. */
function drawFlag(c: Context, s: Scene, x: number, top: number, text: string, free: number): number {
  const width = c.measureText(text).width + 6;
  const left = x + 2 + width > s.x1 ? x - 3 - width : x + 2;
  if (left < free) return free;
  const tall = px('t-11') + 3;
  c.fillStyle = ink('surface');
  c.fillRect(left, top, width, tall);
  c.fillStyle = ink('restart');
  c.fillText(text, left + 3, top + tall / 2);
  return left + width + 4;
}

interface End {
  label: string;
  value: number;
  stale: boolean;
  token: string;
  dash: boolean;
  opacity: number;
  y: number;
  /** Higher stays where not all fit. */
  weight: number;
}

/** Values at the right end, with names; spread so that none covers another. */
function drawEnds(c: Context, s: Scene, p: PanelBox) {
  const { kept: k, place } = s.ends;
  const column = k.columns.get(p.info.id);
  if (!column || place < 0) return;
  const ends: End[] = [];
  const add = (w: number | null, end: Omit<End, 'value' | 'stale' | 'y'>) => {
    // a value that is not of the last tick is shown, but says so
    for (let i = place; i >= 0 && i > place - 12; i--) {
      const v = w === null ? (column.average[i] ?? NaN) : valueAt(k, column, w, i);
      if (Number.isNaN(v)) continue;
      ends.push({ ...end, value: v, stale: i < place, y: 0 });
      return;
    }
  };
  for (const w of p.drawn) {
    const paint = s.paints.of(w, k.workers);
    if (!paint) continue;
    const label = s.run.workers > 1 || s.many ? `${workerName(s.run, w)} ` : '';
    const weight = s.isolated.includes(w) ? 3 : 0;
    add(w, { label, token: paint.token, dash: paint.dash !== null, opacity: opacityOf(s, w), weight });
  }
  if (s.average && k.workers > 1)
    add(null, {
      label: needsTraffic(p.info) ? 'all ' : 'mean ',
      token: 'mean',
      dash: !s.many,
      opacity: 1,
      weight: 2,
    });
  const step = px('t-11') + 1;
  const bottom = p.top + p.height - 7;
  for (const e of spread(fitting(ends, Math.max(1, Math.floor((p.height - 4) / step))), p, step, bottom)) {
    c.globalAlpha = e.opacity;
    c.fillStyle = ink(e.token);
    if (e.dash) {
      c.fillRect(s.x1 + 4, e.y - 1, 3, 2);
      c.fillRect(s.x1 + 9, e.y - 1, 3, 2);
    } else c.fillRect(s.x1 + 4, e.y - 1, 8, 2);
    c.fillStyle = ink(e.stale ? 'text-3' : 'text');
    const text = `${e.stale ? '· ' : ''}${e.label}${narrow(p.info.unit, e.value)}`;
    c.fillText(text, s.x1 + 15, e.y, px('endgutter') * 1.42 - 16);
  }
  c.globalAlpha = 1;
}

/** Where not all labels fit: the isolated, the mean, then the outermost from both sides. */
function fitting(ends: End[], room: number): End[] {
  ends.sort((a, b) => b.value - a.value);
  if (ends.length <= room) return ends;
  const rank = (i: number) => Math.min(i, ends.length - 1 - i);
  const order = ends
    .map((e, i) => ({ e, i }))
    .sort((a, b) => b.e.weight - a.e.weight || rank(a.i) - rank(b.i));
  const chosen = new Set(order.slice(0, room).map((x) => x.e));
  return ends.filter((e) => chosen.has(e));
}

/** Down from the top with a step between, then pushed up from the bottom. */
function spread(ends: End[], p: PanelBox, step: number, bottom: number): End[] {
  let floor = p.top + 6;
  for (const e of ends) {
    e.y = Math.max(floor, Math.min(yOf(p, e.value), bottom));
    floor = e.y + step;
  }
  let ceiling = bottom;
  for (const e of ends.toReversed()) {
    e.y = Math.min(e.y, ceiling);
    ceiling = e.y - step;
  }
  return ends;
}
