/**
 * The table of one step against the step of the same kind before it, and what is said of its workers, as texts. Pure.
 */
import type { Run, Scalars, StepStraggler } from '../electron/engine/api.ts';
import { absent, count, rate, seconds, thin } from './format.ts';
import { figureOf, said, type ScalarFigure } from './scalar-figure.ts';
import type { Population, ScalarPanel, Shown } from './scalar-panels.ts';
import { button, type Piece } from './vital-lines.ts';

interface Entry {
  title: string;
  panel: string;
  statistic: Shown;
  population: Population;
  /** A counter's sum over the length of the step. */
  perSecond?: true;
}

const entries: Entry[] = [
  { title: 'Duration', panel: 'duration', statistic: 'sum', population: 'samples' },
  {
    title: 'Generation tokens',
    panel: 'generation_tokens:sum',
    statistic: 'sum',
    population: 'samples',
  },
  {
    title: 'Generation rate',
    panel: 'generation_tokens:sum',
    statistic: 'sum',
    population: 'samples',
    perSecond: true,
  },
  { title: 'Prompt tokens', panel: 'prompt_tokens:sum', statistic: 'sum', population: 'samples' },
  { title: 'Hit rate, pooled', panel: 'prefix_cache_hit_rate', statistic: 'pooled', population: 'samples' },
  { title: 'Hit rate, lowest', panel: 'prefix_cache_hit_rate', statistic: 'min', population: 'workers' },
  { title: 'KV used, mean', panel: 'kv_cache_usage', statistic: 'mean', population: 'samples' },
  { title: 'Running, mean', panel: 'running', statistic: 'mean', population: 'samples' },
  { title: 'Waiting, p95', panel: 'waiting', statistic: 'p95', population: 'samples' },
  { title: 'Preemptions', panel: 'preemptions:sum', statistic: 'sum', population: 'samples' },
  { title: 'TTFT, mean', panel: 'ttft', statistic: 'mean', population: 'requests' },
  { title: 'TTFT, p95', panel: 'ttft', statistic: 'p95', population: 'requests' },
];

/** What the table needs, whatever panels are on. */
export const tableMetrics = [...new Set(entries.map((e) => e.panel.replace(/:sum$/, '')))].filter(
  (id) => id !== 'duration',
);

export interface Row {
  title: string;
  panel: ScalarPanel;
  statistic: Shown;
  population: Population;
  value: string;
  before: string;
  change: string;
  /** Of the number, for who hovers over it. */
  about: string;
}

const lengthOf = (figure: ScalarFigure | null, i: number) => figure?.lines[0]?.values[i] ?? NaN;

/** `i`, `before`: places of the two steps; -1 for the second where there is none. `now`: where a running one ends so far. */
export function rowsOf(panels: ScalarPanel[], found: Scalars, i: number, before: number, now: number): Row[] {
  const figureFor = (panel: ScalarPanel, e: Entry) =>
    figureOf(found, { panel, on: [e.statistic], population: e.population, w: 0, drawn: [], now });
  const lengths = panels
    .filter((p) => p.id === 'duration')
    .map((p) => figureFor(p, entries[0]!))
    .at(0);
  return entries.flatMap((e): Row[] => {
    const panel = panels.find((p) => p.id === e.panel);
    if (!panel) return [];
    const figure = figureFor(panel, e);
    const line = figure?.lines[0];
    const per = (at: number) => (e.perSecond ? lengthOf(lengths ?? null, at) : 1);
    const number = (at: number) => (line?.values[at] ?? NaN) / per(at);
    const text = (at: number) => {
      if (!figure || !line || Number.isNaN(number(at))) return absent;
      if (!e.perSecond) return said(panel, figure, line, at);
      return `${figure.lower?.[at] === 1 ? '≥ ' : ''}${rate(number(at))}/s`;
    };
    return [
      {
        title: e.title,
        panel,
        statistic: e.statistic,
        population: e.population,
        value: text(i),
        before: before < 0 ? '' : text(before),
        change: before < 0 ? '' : changeOf(panel.unit, number(i), number(before)),
        about: e.perSecond
          ? `${text(i)}: ${figure && line ? said(panel, figure, line, i) : absent} tokens in ${seconds(per(i))}.`
          : panel.about,
      },
    ];
  });
}

/** From `b` to `a`: of a ratio in points, of anything else in percent. */
export function changeOf(unit: string, a: number, b: number): string {
  if (Number.isNaN(a) || Number.isNaN(b)) return absent;
  if (unit === 'ratio') {
    const points = Math.round((a - b) * 1000) / 10;
    return `${sign(points)}${Math.abs(points).toFixed(1)}${thin}pt`;
  }
  if (b === 0) return a === 0 ? `0${thin}%` : absent;
  const share = Math.round((a / b - 1) * 100);
  return `${sign(share)}${count(Math.abs(share))}${thin}%`;
}

const sign = (v: number) => (v > 0 ? '+' : v < 0 ? '−' : '');

/** A share in words. */
const whole = (v: number) => `${Math.round(v * 100)}${thin}%`;

/** Lines of words, with workers that can be isolated. `tokens`: of the last worker and of all, in this step. */
export function workersInStep(
  run: Run,
  straggler: StepStraggler | null,
  tokens: { own: number; all: number } | null,
): Piece[][] {
  if (straggler === null) return [];
  const { last, bySeconds, idleSeconds } = straggler;
  if (last === null) return [['No worker had anything to do.']];
  const lines: Piece[][] = [];
  const others = run.workerList.filter(({ w }) => w !== last).map(({ w }) => w);
  if (bySeconds === null) lines.push(['Only ', button(run, [last]), ' worked.']);
  else {
    const second: Piece[] = others.length === 1 ? [button(run, others), '.'] : ['the last but one.'];
    // two scrapes of one tick tell nothing of an order
    const after = bySeconds < run.intervalSeconds ? 'within a scrape of' : `${seconds(bySeconds)} after`;
    lines.push([button(run, [last]), ` ended last, ${after} `, ...second]);
  }
  if (others.length > 0)
    lines.push(
      idleSeconds < 0.05
        ? ['Nobody waited for others.']
        : [`${count(Math.round(idleSeconds * 10) / 10)} worker-seconds without work while others worked.`],
    );
  if (tokens !== null && tokens.all > 0 && others.length > 0)
    lines.push([
      button(run, [last]),
      ` made ${whole(tokens.own / tokens.all)} of the tokens; an even share is ${whole(1 / (others.length + 1))}.`,
    ]);
  return lines;
}
