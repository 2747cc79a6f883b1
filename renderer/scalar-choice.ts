/** What somebody chose in Scalars, as it is remembered per cluster, and what the switches make of it. Pure. */
import { statistics, type Population, type Shown } from './scalar-panels.ts';

/** A statistic, or the dots of the workers. */
export type Switch = Shown | 'workers';
export const switches: readonly Switch[] = [...statistics, 'workers'];

export interface ScalarChoice {
  /** On in all panels but those with a choice of their own. */
  on: readonly Switch[];
  /** By panel: its own choice. */
  own: Readonly<Record<string, readonly Switch[]>>;
  population: Population;
  /** Of population `time`. */
  w: number;
  axis: 'step' | 'time';
}

export const populations: readonly { id: Population; name: string }[] = [
  { id: 'requests', name: 'over requests or samples' },
  { id: 'samples', name: 'over samples' },
  { id: 'workers', name: 'over workers' },
  { id: 'time', name: 'over time of' },
];

/** The preference that holds it. */
export const choiceKey = (clusterId: string) => `scalar-view:${clusterId}`;

const usualOn: readonly Switch[] = ['mean', 'max', 'p95', 'sum', 'pooled', 'workers'];

const switchesIn = (stored: unknown): Switch[] | null =>
  Array.isArray(stored) ? switches.filter((s) => stored.includes(s)) : null;

const isRecord = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null;

/** What a stored preference means; whatever it does not say is as for somebody who has chosen nothing. */
export function choiceOf(stored: unknown): ScalarChoice {
  const s = isRecord(stored) ? stored : {};
  const own = Object.entries(isRecord(s.own) ? s.own : {}).flatMap(([id, on]) => {
    const known = switchesIn(on);
    return known ? [[id, known] as const] : [];
  });
  return {
    on: switchesIn(s.on) ?? usualOn,
    own: Object.fromEntries(own),
    population: populations.find((p) => p.id === s.population)?.id ?? 'requests',
    w: typeof s.w === 'number' && Number.isInteger(s.w) && s.w >= 0 ? s.w : 0,
    axis: s.axis === 'time' ? 'time' : 'step',
  };
}

export const onIn = (choice: ScalarChoice, panel: string) => choice.own[panel] ?? choice.on;

const flipped = (on: readonly Switch[], which: Switch, to: boolean) =>
  switches.filter((s) => (s === which ? to : on.includes(s)));

/** In all panels at once, those with a choice of their own too. */
export function switchAll(choice: ScalarChoice, which: Switch): ScalarChoice {
  const to = !choice.on.includes(which);
  const own = Object.entries(choice.own).map(([id, on]) => [id, flipped(on, which, to)]);
  return {
    ...choice,
    on: flipped(choice.on, which, to),
    own: Object.fromEntries(own) as ScalarChoice['own'],
  };
}

/** In one panel, which from then on has a choice of its own. */
export function switchOne(choice: ScalarChoice, panel: string, which: Switch): ScalarChoice {
  const on = onIn(choice, panel);
  return { ...choice, own: { ...choice.own, [panel]: flipped(on, which, !on.includes(which)) } };
}

/** A panel is again as all are. */
export function likeAll(choice: ScalarChoice, panel: string): ScalarChoice {
  const others = Object.entries(choice.own).filter(([id]) => id !== panel);
  return { ...choice, own: Object.fromEntries(others) };
}

/** What NeMo RL logs of a step: mean, max and p95, everywhere. Sums, pooled ones and workers stay as they are. */
export function asNemoRl(choice: ScalarChoice): ScalarChoice {
  const kept = choice.on.filter((s) => s === 'sum' || s === 'pooled' || s === 'workers');
  return { ...choice, on: switches.filter((s) => ['mean', 'max', 'p95', ...kept].includes(s)), own: {} };
}
