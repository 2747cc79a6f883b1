/** `vllm-scope why`: the explanation of one number, as the engine gives it, in text or as one document. */
import type { MetricInfo, Run } from './api.ts';
import type { Population, Statistic, Why } from './api-steps.ts';
import { EngineError } from './errors.ts';
import { shown } from './shown.ts';
import { exact, table } from './text-table.ts';
import { iso, json, sourceOf, stepsCalled, wholeNumber } from './verbs-steps.ts';
import { UsageError, type Given } from './verbs.ts';
import { withRun } from './wanted-run.ts';

const statistics = ['mean', 'min', 'max', 'p50', 'p95', 'p99', 'sum', 'pooled'] satisfies Statistic[];
const populations = ['samples', 'workers', 'time', 'requests', 'pooled'] satisfies Population[];

function oneOf<T extends string>(given: string, known: readonly T[], option: string): T {
  const found = known.find((name) => name === given);
  if (found === undefined) throw new UsageError(`${option} is one of ${known.join(', ')}, not "${given}".`);
  return found;
}

export async function why([wanted]: string[], given: Given): Promise<void> {
  const source = sourceOf(given);
  const metric = given.metric?.[0];
  if (given.step === undefined || metric === undefined || given.metric!.length > 1)
    throw new UsageError('Say which number: --step N --metric M.');
  const asked = given.stat === undefined ? null : oneOf<Statistic>(given.stat, statistics, '--stat');
  const over =
    given.population === undefined ? null : oneOf<Population>(given.population, populations, '--population');
  const w = given.worker === undefined ? null : wholeNumber(given.worker.replace(/^w/, ''), '--worker');
  wholeNumber(given.step, '--step');
  await withRun(wanted!, given, async ({ methods }, summary) => {
    const info = (await methods.catalogue()).find((m) => m.id === metric);
    const run = await methods.getRun(summary.id);
    if (!info)
      throw new EngineError(
        'not-found',
        `No metric is called "${shown(metric)}". This run has ${run.metrics.join(', ')}.`,
      );
    const set = await methods.steps(run.id, source);
    const found = stepsCalled(set.steps, given);
    const step = found.find((s) => s.kind === 'train') ?? found[0]!;
    const statistic = asked ?? usualStatistic(info);
    const population = over ?? usualPopulation(info, statistic, w);
    const answer = await methods.why({
      run: run.id,
      metric,
      from: step.from,
      to: step.to ?? run.lastAt,
      step: { source: set.source, n: step.n },
      statistic,
      population,
      w,
    });
    if (given.json)
      json({ run: run.id, source: set.source, step, asked: { metric, statistic, population, w }, ...answer });
    else console.log(whyText(answer, run, `${statistic} of ${metric}, ${set.source} step ${step.number}`));
  });
}

/** What stands first where a metric is shown. */
const usualStatistic = ({ kind }: MetricInfo): Statistic =>
  kind === 'gauge' ? 'mean' : kind === 'counter' ? 'sum' : 'pooled';

function usualPopulation({ kind, unit }: MetricInfo, statistic: Statistic, w: number | null): Population {
  if (w !== null) return 'time';
  if (statistic === 'pooled') return 'pooled';
  // percentiles of latencies over samples would be those of means
  const isLatency = kind === 'histogram' && unit === 's';
  return isLatency && ['p50', 'p95', 'p99'].includes(statistic) ? 'requests' : 'samples';
}

/** Ranges without an answer that a person reads through. */
const MISSING_SHOWN = 10;

function whyText(a: Why, run: Run, title: string): string {
  const name = (w: number) => run.workerList.find((x) => x.w === w)?.name ?? `w${w}`;
  const point = (p: { at: number; value: number } | null) => (p === null ? null : p.value);
  const lines = [
    `${title}: ${a.atLeast ? 'at least ' : ''}${exact(a.value)} ${a.unit}`,
    shown(a.sentence),
    `${shown(a.verdict.sentence)} ${exact(a.samples)} of ${exact(a.expected)} samples.`,
    `Formula: ${shown(a.formula)}`,
    `Population: ${shown(a.population)}`,
  ];
  if (a.workers.length > 0)
    lines.push(
      '',
      table(
        ['worker', 'value', 'counted', 'start', 'end', 'delta', 'resets', 'samples', 'note'],
        a.workers.flatMap((x) =>
          x.columns.map((c, i) => [
            i === 0 ? name(x.w) : '',
            i === 0 ? x.value : null,
            c.name,
            point(c.start),
            point(c.end),
            c.delta,
            c.resets || null,
            i === 0 ? x.samples : null,
            i === 0 && x.lost ? 'lost' : '',
          ]),
        ),
        exact,
      ),
    );
  for (const m of a.missing.slice(0, MISSING_SHOWN))
    lines.push(
      `Missing: ${shown(m.endpoint)} ${iso(m.from)} to ${iso(m.to)}, ${m.count}: ${shown(m.detail)}`,
    );
  if (a.missing.length > MISSING_SHOWN)
    lines.push(`Missing: ${a.missing.length - MISSING_SHOWN} more, in --json.`);
  if (a.readings.length > 0)
    lines.push(
      '',
      table(
        ['reading', 'value', 'what it is'],
        a.readings.map((r) => [r.own ? `${r.name} (this one)` : r.name, r.value, r.about]),
        exact,
      ),
    );
  lines.push('', 'The SQL is in --json (sql); it runs in sqlite3 on the file of the run.');
  return lines.join('\n');
}
