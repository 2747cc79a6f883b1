/**
 * The two lists of panels that a run has, Timelines and Scalars, in one form: what there is, what is on in which order,
 * and how that is changed. Remembered per cluster.
 */
import type { MetricInfo } from '../electron/engine/api.ts';
import { unitName } from './format.ts';
import { chosenFrom, groups, moved, switched } from './panels.ts';
import type { RunView } from './run-view.svelte.ts';
import { allPanels, usual } from './scalar-panels.ts';
import type { scope as pageScope } from './state.svelte.ts';

type Scope = typeof pageScope;

export interface PanelEntry {
  id: string;
  title: string;
  about: string;
  unit: string;
  /** The run has values of it, or has none of anything yet. */
  there: boolean;
}

export interface PanelList {
  groups: { name: string; panels: PanelEntry[] }[];
  /** Those that are on, in order. */
  order: PanelEntry[];
  /** All there are. */
  count: number;
  /** null: those that are on by themselves. */
  set(order: string[] | null): void;
  toggle(id: string): void;
  /** To a place in the order from the top. */
  move(id: string, to: number): void;
}

const isThere = (view: RunView, metric: MetricInfo | null) =>
  metric === null || view.run.metrics.length === 0 || view.run.metrics.includes(metric.id);

function listOf(
  all: (PanelEntry & { group: string })[],
  names: string[],
  order: PanelEntry[],
  set: PanelList['set'],
): PanelList {
  const ids = order.map((p) => p.id);
  return {
    groups: names.map((name) => ({ name, panels: all.filter((p) => p.group === name) })),
    order,
    count: all.length,
    set,
    toggle: (id) => set(switched(ids, id, all)),
    move: (id, to) => set(moved(ids, id, to)),
  };
}

const kinds = groups.map((g) => g.name);
const kindOf = (metric: MetricInfo) => groups.find((g) => g.kind === metric.kind)?.name ?? '';

export function timelineList(scope: Scope, view: RunView): PanelList {
  const all = scope.catalogue.map((m) => ({
    ...m,
    group: kindOf(m),
    unit: unitName(m.unit),
    there: isThere(view, m),
  }));
  const order = view.metrics.flatMap((m) => all.find((p) => p.id === m.id) ?? []);
  return listOf(all, kinds, order, (ids) => scope.setPanels(view.run.clusterId, ids));
}

export function scalarList(scope: Scope, view: RunView): PanelList {
  const all = allPanels(scope.catalogue).map(({ id, title, about, unit, metric, total }) => ({
    ...{ id, title, about },
    group: metric === null ? 'Steps' : total ? 'Sums' : kindOf(metric),
    unit: unitName(unit),
    there: isThere(view, metric),
  }));
  const key = `scalars:${view.run.clusterId}`;
  const order = chosenFrom(all, scope.preferences[key], usual);
  return listOf(all, ['Steps', 'Sums', ...kinds], order, (ids) => scope.prefer(key, ids));
}

/** Whole groups of panels, as NeMo RL's switches for scalars and timeline plots; on where nobody switched them off. */
export const groupKey = (group: 'timelines' | 'scalars', clusterId: string) => `group:${group}:${clusterId}`;
