/** What the drawer "why this number" says, as texts: its title, exact numbers, and the whole to be copied. Pure. */
import type { MetricInfo, Run, Step, Why, WhyQuery } from '../electron/engine/api.ts';
import { clock, day, zone } from './clock.ts';
import { absent, escaped, percent, plain, thin, unitName, value } from './format.ts';
import { workerName } from './scene.ts';
import { stepLength, stepName } from './step-words.ts';

const group = (v: number, decimals: number) =>
  v.toLocaleString('en-US', { maximumFractionDigits: decimals }).replace('-', '−');

/** A number as exact as it is of use: counts whole, everything else with decimals. */
export function exact(unit: string, v: number | null): string {
  if (v === null || !Number.isFinite(v)) return absent;
  if (unit === 'ratio') return `${(v * 100).toFixed(2)}${thin}%`;
  if (unit === 's') return `${group(v, 4)}${thin}s`;
  return group(v, 3);
}

/** How another reading differs from the number itself; empty where nobody could see it. */
export function difference(unit: string, v: number | null, own: number | null): string {
  if (v === null || own === null || (unit !== 'ratio' && own === 0)) return '';
  const by = unit === 'ratio' ? (v - own) * 100 : (v / own - 1) * 100;
  const digits = group(Math.abs(by), unit === 'ratio' ? 2 : 1);
  return digits === '0' ? '' : `${by > 0 ? '+' : '−'}${digits}${thin}${unit === 'ratio' ? 'pt' : '%'}`;
}

/** `Prefix hit rate, step 5`; `Running, p95, w3, in view`. */
export function subjectOf(
  query: WhyQuery,
  info: MetricInfo | undefined,
  step: Step | null,
  run: Run,
): string {
  return [
    info?.title ?? query.metric,
    ...(query.statistic === 'pooled' ? [] : [query.statistic]),
    ...(query.w === null ? [] : [plain(workerName(run, query.w))]),
    ...(step ? [stepName(step)] : []),
  ].join(', ');
}

export function numberOf(unit: string, v: number | null, atLeast: boolean): string {
  if (v === null) return absent;
  return `${atLeast ? '≥ ' : ''}${value(unit, v)}${unit.endsWith('/s') ? `${thin}${unitName(unit)}` : ''}`;
}

/** The number is at least what is told. */
export const isBound = (why: Why, query: WhyQuery) =>
  why.atLeast || (why.verdict.sign === 'lower-bound' && query.statistic === 'sum');

export const windowOf = ({ from, to }: WhyQuery) =>
  `${clock(from)} to ${clock(to)} · ${stepLength(to - from)}`;

export const signs = { complete: '●', 'lower-bound': '▲', thin: '▲', nothing: '∅' } as const;

/** All of the drawer but the SQL, as it is pasted into a chat or an issue. */
export function asText(query: WhyQuery, why: Why, subject: string, run: Run, unit: string): string {
  const at = (p: { at: number; value: number } | null) =>
    p === null ? absent : `${group(p.value, 6)} at ${clock(p.at)}`;
  const lines = [
    `${subject}: ${numberOf(unit, why.value, isBound(why, query))} (${exact(unit, why.value)})`,
    `${why.population} · ${day(query.from)} ${windowOf(query)} ${zone(query.from)} · run ${run.name}`,
    '',
    why.sentence,
    why.formula,
    '',
    `${signs[why.verdict.sign]} ${why.verdict.sentence}`,
    `${why.samples} of ${why.expected} expected samples (${percent(why.expected > 0 ? why.samples / why.expected : null)}).`,
    '',
    ...why.workers.flatMap((w) => [
      `${workerName(run, w.w)}: ${exact(unit, w.value)}${w.lost ? ', lost before the end' : ''}`,
      ...w.columns.map(
        (c) =>
          `  ${c.name}: ${at(c.start)}, ${at(c.end)}, delta ${c.delta === null ? absent : group(c.delta, 6)}, resets ${c.resets}`,
      ),
    ]),
    '',
    ...why.missing.map(
      (m) =>
        `no answer of ${m.endpoint}: ${clock(m.from)} to ${clock(m.to)}, ${m.count} scrapes, ${m.detail}`,
    ),
    ...why.readings.map((r) => `${r.name}: ${exact(unit, r.value)} (${r.about})`),
  ];
  return `${lines.map(escaped).join('\n')}\n`;
}
