/** Steps on the canvases of the timelines: the ribbon above, bands through all panels, seconds since the begin below. */
import { sinceTicks } from './clock.ts';
import { dashed, font, hatch, ink, px } from './ink.ts';
import { xOf, type Scene } from './scene.ts';
import { kindWord, lengthWords, since } from './step-words.ts';
import type { StepSpan } from './step-spans.ts';

type Context = CanvasRenderingContext2D;
/** What the ribbon is drawn from. */
export type Strip = Pick<Scene, 'x0' | 'x1' | 'steps' | 'selected' | 'liveAt'>;

/** Narrower steps have no lines at their edges: they would lie side by side. */
const edgesFrom = 16;
/** What is held between a text and the edges of its step. */
const inset = 5;

/** Under everything, from the top of the first panel to the foot of the last. */
export function drawBands(c: Context, s: Scene, height: number) {
  for (const { step, a, b, begins, ends } of s.steps) {
    if (step.kind !== 'other') {
      c.fillStyle = ink(step.kind === 'eval' ? 'band-eval' : 'band');
      c.fillRect(a, 0, b - a, height);
    }
    if (b - a < edgesFrom) continue;
    c.fillStyle = ink('line-2');
    if (begins) c.fillRect(Math.round(a), 0, 1, height);
    if (ends) c.fillRect(Math.round(b), 0, 1, height);
  }
}

/** `height` is that of the canvas; its left edge is that of the plots. */
export function drawRibbon(c: Context, s: Strip, height: number) {
  const top = 3;
  const tall = height - 5;
  c.translate(-s.x0, 0);
  for (const span of s.steps) drawBlock(c, s, span, top, tall);
  drawTexts(c, s, top + tall / 2 + 0.5);
  const chosen = s.steps.find(({ step }) => step.n === s.selected);
  if (!chosen) return;
  c.strokeStyle = ink('accent');
  c.lineWidth = 1;
  c.strokeRect(chosen.a + 0.5, top - 0.5, Math.max(1, chosen.b - chosen.a - 1), tall + 1);
}

function drawBlock(c: Context, s: Strip, { step, a, b, ends }: StepSpan, top: number, tall: number) {
  // steps that touch stay apart, and the shortest can be seen
  const width = Math.max(1, b - a >= 3 && ends ? b - a - 1 : b - a);
  if (step.kind === 'other') {
    c.setLineDash([3, 2]);
    c.strokeStyle = ink('control');
    c.lineWidth = 1;
    c.strokeRect(a + 0.5, top + 0.5, Math.max(1, width - 1), tall - 1);
    c.setLineDash([]);
  } else {
    c.fillStyle = ink(`step-${step.kind}`);
    c.fillRect(a, top, width, tall);
    if (step.kind === 'eval') hatch(c, a, top, width, tall, 'gap', ink('line-2'));
  }
  if (step.to === null && b < s.x1) dashed(c, [b + 0.5, top], [b + 0.5, top + tall], [2, 2], ink('text-2'));
}

/** In its step, as much as fits; where not even numbers fit, every so many steps one, over those that follow. */
function drawTexts(c: Context, s: Strip, y: number) {
  const bold = font(px('t-11'), 600);
  const usual = font(px('t-11'));
  c.font = bold;
  const digit = c.measureText('0').width;
  const widthOf = ({ step }: StepSpan) => String(step.number).length * digit;
  const fits = (span: StepSpan) => widthOf(span) < span.b - span.a - 3;
  const every = numberedEvery(s.steps, digit);
  let free = s.x0;
  for (const [i, span] of s.steps.entries()) {
    const { step, a, b } = span;
    const width = widthOf(span);
    if (!fits(span)) {
      if (step.number % every !== 0 || a < free || a + width > s.x1) continue;
      const covered = s.steps.slice(i + 1, i + 1 + Math.ceil(width + 1));
      if (covered.some((next) => next.a < a + width + 4 && fits(next))) continue;
    }
    c.font = bold;
    c.fillStyle = ink('text');
    const left = a + (fits(span) ? Math.min(inset, (b - a - width) / 2) : 0);
    c.fillText(String(step.number), left, y);
    free = left + width + 6;
    const room = b - inset - free;
    if (room < digit) continue;
    c.font = usual;
    c.fillStyle = ink('text-2');
    const words = wordsOf(s, span).find((text) => c.measureText(text).width <= room);
    if (words !== undefined) c.fillText(words, free, y);
    free = Math.max(free, b);
  }
}

/** What stands beside the number, the longest first. */
function wordsOf(s: Strip, { step, until, restarts }: StepSpan): string[] {
  const sign = restarts.length > 0 ? '↻' : '';
  const word = kindWord(step);
  const length = lengthWords(step, until, s.liveAt !== null);
  return [[word, length, sign], [word, sign], [word], [sign]].map((parts) =>
    parts.filter((part) => part !== '').join('  '),
  );
}

/** A round number of steps that is as wide as a number needs. */
function numberedEvery(steps: readonly StepSpan[], digit: number): number {
  const first = steps[0];
  const last = steps.at(-1);
  if (!first || !last || steps.length < 2) return 1;
  const apart = (last.a - first.a) / Math.max(1, last.step.n - first.step.n);
  const wanted = (String(last.step.number).length * digit + 8) / apart;
  return [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((n) => n >= wanted) ?? 10_000;
}

/** Seconds since the begin of the one step in view, under the clock times. */
export function drawStepAxis(c: Context, s: Scene) {
  if (!s.alone) return;
  const width = c.measureText('+00:00').width;
  const { from, to } = s.alone;
  const top = px('axis');
  const [a, b] = [Math.max(s.x0, xOf(s, from)), Math.min(s.x1, xOf(s, to))];
  c.fillStyle = ink('line-2');
  c.fillRect(a, top, b - a, 1);
  c.textAlign = 'center';
  for (const at of sinceTicks(from, s.window, s.x1 - s.x0, width + 22)) {
    if (at > to) break;
    const x = Math.round(xOf(s, at));
    c.fillStyle = ink('line-2');
    c.fillRect(x, top, 1, 4);
    c.fillStyle = ink('text-3');
    c.fillText(since(at - from), x, top + 3 + px('t-11') * 0.75);
  }
  c.textAlign = 'left';
}
