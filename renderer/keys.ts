/** Keys of the page. Single letters act only outside inputs and dialogs; Ctrl and Cmd keys everywhere. */
import type { scope as pageScope } from './state.svelte.ts';
import { whyInView } from './why.svelte.ts';
import { leaveStep, walkSteps } from './step-walk.ts';

type Scope = typeof pageScope;

/** As buttons name it. */
export const ctrl = /^Mac/.test(navigator.platform) ? '⌘' : 'Ctrl';

/** As the list of keys shows them. */
export const keyList: [keys: string, does: string][] = [
  ['← →', 'pan 10 %, with Shift 50 %; on a focused panel: crosshair by a tick'],
  ['+ −', 'zoom'],
  ['0', 'whole run'],
  ['f End', 'follow the newest tick'],
  [', .', 'step before, after: zooms to it; Esc back; in Scalars it is selected, also by ← →'],
  ['m', 'mark a step of a recording'],
  ['↑ ↓ j k', 'panel, worker or event above, below'],
  ['Alt+↑ Alt+↓', 'move the panel up, down'],
  ['Enter', 'panel fills the space, and back; worker: isolate; event: its place in time'],
  ['p', 'panels'],
  ['u', 'upload the run to Weights & Biases'],
  ['l', 'log axis of the panel (latencies)'],
  ['s', 'order of the list of values'],
  ['i Esc', 'isolate a worker; back'],
  ['[ ]', 'sidebar, list of values'],
  ['w', 'why this number, of the focused panel; Esc closes it'],
  ['1 2 3 4', 'timelines, scalars, workers, events'],
  ['g r', 'all runs'],
  [`${ctrl}+N`, 'add a cluster'],
  [`${ctrl}+, g s`, 'settings'],
  ['↑ ↓ → ←', 'in the sidebar: line by line; to what can be done with a cluster, and back'],
  ['?', 'this list'],
];

/** A first key of two, for a second. */
let first: { key: string; at: number } | null = null;

const dialogIsOpen = () => document.querySelector('dialog[open]') !== null;

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return target.type !== 'checkbox';
  return target instanceof HTMLTextAreaElement || target.isContentEditable;
}

/** Whether a key is the page's: nobody took it, nobody types, no dialog is open. */
export const inPage = (event: KeyboardEvent) =>
  !event.defaultPrevented && !typing(event.target) && !dialogIsOpen();

/** By how many rows a key moves in a list of `length` rows, `inSight` of which are in sight; undefined: it is no such key. */
export function rowsBy(key: string, inSight: number, length: number): number | undefined {
  const page = Math.max(1, inSight - 2);
  const rows: Record<string, number> = {
    ArrowDown: 1,
    j: 1,
    ArrowUp: -1,
    k: -1,
    PageDown: page,
    PageUp: -page,
    Home: -length,
    End: length,
  };
  return rows[key];
}

export function pressed(event: KeyboardEvent, scope: Scope) {
  if (event.defaultPrevented) return;
  if ((event.ctrlKey || event.metaKey) && !event.altKey && ['n', ','].includes(event.key.toLowerCase())) {
    event.preventDefault();
    // one dialog at a time
    if (dialogIsOpen()) return;
    if (event.key === ',') scope.over = 'settings';
    else if (scope.selection.view !== 'empty') scope.over = 'add-cluster';
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === 'Escape') {
    escape(event, scope);
    return;
  }
  if (!inPage(event)) return;
  const chord = first && performance.now() - first.at < 1000 ? first.key + event.key : '';
  first = null;
  if (event.key === 'g') {
    first = { key: 'g', at: performance.now() };
    return;
  }
  if (chord === 'gr') scope.select({ view: 'runs' });
  else if (chord === 'gs') scope.over = 'settings';
  else if (!page(event.key, scope) && !onRun(event, scope)) return;
  event.preventDefault();
}

function escape(event: KeyboardEvent, scope: Scope) {
  // dialogs close themselves
  if (dialogIsOpen()) return;
  const view = scope.run;
  if (scope.over) scope.over = null;
  else if (scope.sidebar === true) scope.sidebar = null;
  else if (scope.why.query) scope.why.close();
  else if (view && view.isolated.length > 0) view.isolated = [];
  else if (view && view.filled !== null) view.filled = null;
  else if (view && view.cursor !== null) view.cursor = null;
  else if (!view || scope.tab !== 'timelines' || !leaveStep(view)) return;
  event.preventDefault();
}

function page(key: string, scope: Scope): boolean {
  switch (key) {
    case '?':
      scope.over = 'keys';
      return true;
    case '[':
      scope.toggleSidebar();
      return true;
    case ']':
      scope.prefer('values', !scope.switchedOn('values'));
      return true;
    case '1':
      return showTab(scope, 'timelines');
    case '2':
      return showTab(scope, 'scalars');
    case '3':
      return showTab(scope, 'workers');
    case '4':
      return showTab(scope, 'events');
    case 'p':
      if (!scope.run || (scope.tab !== 'timelines' && scope.tab !== 'scalars')) return false;
      scope.over = scope.over === 'panels' ? null : 'panels';
      return true;
    case 'u':
      if (scope.selection.view !== 'run') return false;
      scope.uploads.open(scope.selection.id);
      return true;
    case 'm':
      if (!scope.run?.recording) return false;
      void scope.run.steps.mark(false);
      return true;
    default:
      return false;
  }
}

/** Where no run is on screen, that of one that is being recorded. */
function showTab(scope: Scope, tab: Scope['tab']): boolean {
  scope.tab = tab;
  if (scope.over === 'panels' || scope.over === 'steps') scope.over = null;
  const recording = scope.shownCluster?.recording ?? scope.runs.find((r) => r.state === 'recording')?.id;
  if (scope.selection.view !== 'run' && recording) scope.select({ view: 'run', id: recording });
  return true;
}

/** Of the timelines; the view of events hears its own keys. */
function onRun(event: KeyboardEvent, scope: Scope): boolean {
  const view = scope.run;
  if (!view || scope.tab !== 'timelines') return false;
  const far = event.shiftKey ? 0.5 : 0.1;
  switch (event.key) {
    case 'ArrowLeft':
      view.pan(-far);
      return true;
    case 'ArrowRight':
      view.pan(far);
      return true;
    case '+':
    case '=':
      view.zoom(0.5, view.cursor ?? undefined);
      return true;
    case '-':
    case '−':
      view.zoom(2, view.cursor ?? undefined);
      return true;
    case '0':
      view.setRange('whole');
      return true;
    case 'f':
    case 'End':
      view.follow();
      return true;
    case ',':
    case '.':
      walkSteps(view, event.key === '.' ? 1 : -1);
      return true;
    case 'l':
      scope.toggleLog(view.run.clusterId, view.focus);
      return true;
    case 's':
      scope.prefer('list-order', scope.preferred('list-order', 'value') === 'number' ? 'value' : 'number');
      return true;
    case 'w': {
      const query = whyInView(view, view.focus);
      if (query) scope.explain(query);
      return query !== null;
    }
    case 'i':
      isolate(scope);
      return true;
    case 'j':
    case 'ArrowDown':
      return nextPanel(scope, 1);
    case 'k':
    case 'ArrowUp':
      return nextPanel(scope, -1);
    case 'Enter':
      // on a button Enter presses it
      if (event.target instanceof HTMLElement && event.target.closest('button, summary, input')) return false;
      view.filled = view.filled === null ? view.focus : null;
      return true;
    default:
      return false;
  }
}

/** The worker whose row has the focus, otherwise the first of the list. */
function isolate(scope: Scope) {
  const view = scope.run;
  const active = document.activeElement;
  const row = active instanceof HTMLElement && active.dataset.worker !== undefined ? active : null;
  const top = row ?? document.querySelector<HTMLElement>('[data-worker]');
  const w = Number(top?.dataset.worker);
  if (!view || !top || !Number.isInteger(w)) return;
  if (row === null && view.isolated.length > 0) view.isolated = [];
  else view.isolate(w, false);
}

function nextPanel(scope: Scope, by: number): boolean {
  const view = scope.run;
  if (!view || view.filled !== null || scope.over !== null) return false;
  // in lists and menus the arrows belong to them
  const active = document.activeElement;
  if (active instanceof HTMLElement && active.closest('aside, nav, [role=dialog]')) return false;
  const i = view.metrics.findIndex((m) => m.id === view.focus);
  const next = view.metrics[Math.min(Math.max(i + by, 0), view.metrics.length - 1)];
  if (!next) return false;
  document.querySelector<HTMLElement>(`[data-metric="${next.id}"]`)?.focus();
  return true;
}
