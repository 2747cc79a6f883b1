/** Going from step to step on the timelines: zooms to one, remembers where one was, and goes back there. */
import type { Step } from '../electron/engine/api.ts';
import type { RunView } from './run-view.svelte.ts';
import type { Span } from './span.ts';
import { firstIn } from './step-spans.ts';
import { spanOf } from './steps.svelte.ts';

/** Room at each side of a step that fills the window, as a share of it; at least a tick, so that its edges show. */
const room = 0.04;

/** The step that the window was zoomed to, as it is now, until the window is moved or steps are others. */
export function zoomedStep(view: RunView): Step | null {
  const { zoom, drawn } = view.steps;
  if (zoom?.window !== view.window) return null;
  return drawn.find((s) => s.n === zoom.step.n && s.from === zoom.step.from) ?? null;
}

/** The step that the time axis counts in: the one zoomed to, or the only one in a window that stands still; null: none. */
export function aloneIn(view: RunView): Span | null {
  const { steps, window, bounds } = view;
  const zoomed = zoomedStep(view);
  if (zoomed) return spanOf(zoomed, bounds.last);
  if (view.following) return null;
  const i = firstIn(steps.drawn, window.from);
  const [step, next] = [steps.drawn[i], steps.drawn[i + 1]];
  if (!step || step.from > window.to || (next && next.from < window.to)) return null;
  return spanOf(step, bounds.last);
}

/** Zooms to a step of the current set, or of the one that is tried, which selects nothing. */
export function showStep(view: RunView, step: Step) {
  const { steps } = view;
  const before = (zoomedStep(view) && steps.zoom?.before) || {
    window: view.window,
    range: view.range,
    following: view.following,
  };
  const { from, to } = spanOf(step, view.bounds.last);
  const side = Math.max((to - from) * room, view.run.intervalSeconds * 1000);
  view.show({ from: from - side, to: to + side });
  // a step that is looked at stays, also the one that runs
  view.following = false;
  steps.zoom = { step, window: view.window, before };
  if (!steps.tried) steps.selected = step.n;
}

/** Back to where one was before the first zoom to a step; false: the window shows none. */
export function leaveStep(view: RunView): boolean {
  if (!zoomedStep(view) || !view.steps.zoom) return false;
  const { window, range, following } = view.steps.zoom.before;
  view.steps.zoom = null;
  if (following && range !== null) view.setRange(range);
  else view.show(window, range);
  if (following && range === null) view.follow();
  return true;
}

/** To the step before or after the selected one; where that is out of view, to the last or first one that begins in view. */
export function walkSteps(view: RunView, by: -1 | 1) {
  const { steps, window } = view;
  const chosen = steps.selectedStep;
  if (chosen) {
    const { from, to } = spanOf(chosen, view.bounds.last);
    if (to < window.from || from > window.to) steps.selected = null;
  }
  const step = steps.next(by, by > 0 ? window.from : window.to);
  if (step) showStep(view, step);
}
