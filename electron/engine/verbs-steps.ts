/**
 * The verbs of the command line that list numbers of steps: `steps` and `scalars`; and what they have in common with
 * `why` and `mark`.
 */
import type { MetricInfo, RunSummary } from './api.ts';
import type { Scalars, ScalarSeries, StatisticArrays, Step, StepSource } from './api-steps.ts';
import { EngineError } from './errors.ts';
import { stepKindOf, stepSourceOf } from './input-steps.ts';
import { shown } from './shown.ts';
import { csv, figure, table, type Cell } from './text-table.ts';
import { UsageError, type Given } from './verbs.ts';
import { withRun } from './wanted-run.ts';

/** What was typed is looked at as what comes over the wire is, but ends with exit code 2. */
export function usage<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    if (error instanceof EngineError) throw new UsageError(error.message);
    throw error;
  }
}

export function wholeNumber(given: string, option: string): number {
  if (!/^\d{1,15}$/.test(given)) throw new UsageError(`${option} ${given} is no whole number from 0 on.`);
  return Number(given);
}

export const sourceOf = ({ source }: Given): StepSource | null =>
  source === undefined ? null : usage(() => stepSourceOf(source));

// ---------------------------------------------------------------- steps

export const iso = (at: number) => new Date(at).toISOString();
export const json = (document: unknown) => console.log(JSON.stringify(document, null, 2));
const chosenBy = (chosen: boolean) => (chosen ? 'chosen' : 'taken by itself');

export async function steps([wanted]: string[], given: Given): Promise<void> {
  const source = sourceOf(given);
  await withRun(wanted!, given, async ({ methods }, run) => {
    const found = await methods.steps(run.id, source);
    if (given.json) {
      json({ run: run.id, ...found });
      return;
    }
    const others = Object.entries(found.counts)
      .filter(([name]) => name !== found.source)
      .map(([name, n]) => `${name} ${n ?? 'not looked for'}`);
    console.log(
      `${found.source} steps of ${shown(run.name)}: ${found.steps.length}${source === null ? `, ${chosenBy(found.chosen)}` : ''} (${others.join(', ')})`,
    );
    if (found.steps.length > 0)
      console.log(
        table(
          ['step', 'kind', 'begin', 'seconds', 'note'],
          found.steps.map((s) => [s.number, s.kind, iso(s.from), secondsOf(s), noteOf(s)]),
        ),
      );
  });
}

const secondsOf = (s: Step) => (s.to === null ? null : (s.to - s.from) / 1000);
const noteOf = (s: Step) =>
  s.to === null ? 'not over' : s.suggested === null ? '' : `much shorter: ${s.suggested}?`;

/** Those that people call by this number; all where none was asked for. */
export function stepsCalled(all: readonly Step[], given: Given): Step[] {
  if (given.step === undefined) return [...all];
  const number = wholeNumber(given.step, '--step');
  const kind = given.kind;
  if (kind !== undefined) usage(() => stepKindOf(kind));
  const found = all.filter((s) => s.number === number && (kind === undefined || s.kind === kind));
  if (found.length === 0)
    throw new EngineError(
      'not-found',
      `There is no${kind === undefined ? '' : ` ${kind}`} step ${number}. ${all.length === 0 ? 'This run has none.' : `There are ${all[0]!.number} to ${all.at(-1)!.number}.`}`,
    );
  return found;
}

// ---------------------------------------------------------------- scalars

const statistics = ['mean', 'min', 'max', 'p50', 'p95', 'sum', 'n'] as const;
const percentiles = ['p50', 'p95', 'p99'] as const;
/** Of what each scrape added to a counter. */
const perScrape = ['mean', 'min', 'max', 'p50', 'p95'] as const;

const valueAt = (values: Float64Array, i: number): number | null => {
  const value = values[i]!;
  return Number.isNaN(value) ? null : value;
};
const at = (arrays: StatisticArrays, i: number) =>
  Object.fromEntries(statistics.map((key) => [key, valueAt(arrays[key], i)]));

/** One metric's numbers of one step, as the contract's MetricStatistics names them. */
function numbersAt(s: ScalarSeries, i: number) {
  const bits = s.requests?.atLeast[i] ?? NaN;
  return {
    samples: at(s.samples, i),
    workers: at(s.workers, i),
    deltas: s.deltas && Object.fromEntries(perScrape.map((k) => [k, valueAt(s.deltas![k], i)])),
    requests:
      s.requests && (s.requests.n[i] ?? 0) > 0
        ? {
            ...Object.fromEntries([...percentiles, 'n' as const].map((k) => [k, valueAt(s.requests![k], i)])),
            atLeast: Object.fromEntries(percentiles.map((k, bit) => [k, ((bits >> bit) & 1) === 1])),
          }
        : null,
    pooled: valueAt(s.pooled, i),
    coverage: valueAt(s.coverage, i),
    lowerBound: s.lowerBound[i] === 1,
  };
}

export async function scalars([wanted]: string[], given: Given): Promise<void> {
  const source = sourceOf(given);
  if (given.csv && given.json) throw new UsageError('Either --json or --csv.');
  await withRun(wanted!, given, async (engine, run) => {
    const { methods } = engine;
    const known = await methods.catalogue();
    const has = (await methods.getRun(run.id)).metrics;
    if (has.length === 0)
      throw new EngineError('not-found', `Nothing was recorded in ${shown(run.name)}: it has no numbers.`);
    const metrics = given.metric ?? has;
    for (const id of metrics)
      if (!known.some((m) => m.id === id))
        throw new EngineError(
          'not-found',
          `No metric is called "${shown(id)}". This run has ${has.join(', ')}.`,
        );
    const off = engine.on('progress', ({ task, done, total }) => {
      if (task === run.id && process.stderr.isTTY)
        process.stderr.write(`\r\x1b[K${done < total ? `${done} of ${total} steps` : ''}`);
    });
    const all = await methods.scalars({ run: run.id, source, metrics, workers: [], quick: false });
    off();
    const chosen = stepsCalled(all.steps, given);
    const infos = metrics.map((id) => known.find((m) => m.id === id)!);
    if (given.json) json(scalarDocument(run, all, chosen, infos));
    else if (given.csv) console.log(csv(scalarRows(run, all, chosen, infos)));
    else console.log(scalarText(run, all, chosen, infos, given.step !== undefined));
  });
}

const placeOf = (all: Scalars, step: Step) => all.steps.indexOf(step);

const scalarDocument = (
  run: RunSummary,
  all: Scalars,
  chosen: readonly Step[],
  infos: readonly MetricInfo[],
) => ({
  run: run.id,
  source: all.source,
  metrics: infos.map(({ id, title, kind, unit }) => ({ id, title, kind, unit })),
  steps: chosen.map((step) => ({
    ...step,
    metrics: Object.fromEntries(all.series.map((s) => [s.metric, numbersAt(s, placeOf(all, step))])),
  })),
});

const csvHead = [
  ...['run', 'source', 'step', 'kind', 'begin', 'end', 'metric', 'unit'],
  ...statistics.map((key) => `samples_${key}`),
  ...statistics.map((key) => `workers_${key}`),
  ...perScrape.map((key) => `deltas_${key}`),
  ...percentiles.flatMap((key) => [`requests_${key}`, `requests_${key}_at_least`]),
  ...['requests_n', 'pooled', 'coverage', 'lower_bound'],
];

/** A row a step and metric. Times are ISO UTC, ratios 0 to 1, flags 0 or 1. */
function scalarRows(
  run: RunSummary,
  all: Scalars,
  chosen: readonly Step[],
  infos: readonly MetricInfo[],
): Cell[][] {
  const rows: Cell[][] = [csvHead];
  for (const step of chosen)
    for (const [m, s] of all.series.entries()) {
      const i = placeOf(all, step);
      const { requests, lowerBound } = numbersAt(s, i);
      rows.push([
        ...[run.name, all.source, step.number, step.kind, iso(step.from)],
        ...[step.to === null ? null : iso(step.to), s.metric, infos[m]!.unit],
        ...statistics.map((key) => s.samples[key][i]!),
        ...statistics.map((key) => s.workers[key][i]!),
        ...perScrape.map((key) => s.deltas?.[key][i] ?? null),
        ...percentiles.flatMap((key) =>
          requests ? [s.requests![key][i]!, Number(requests.atLeast[key])] : [null, null],
        ),
        ...[requests ? s.requests!.n[i]! : null, s.pooled[i]!, s.coverage[i]!, Number(lowerBound)],
      ]);
    }
  return rows;
}

const requestCells = (s: ScalarSeries, i: number): Cell[] => {
  const { requests } = numbersAt(s, i);
  return percentiles.map((key) => {
    const value = requests ? s.requests![key][i]! : null;
    return requests?.atLeast[key] ? `≥${figure(value)}` : value;
  });
};

/** Of one step a row a metric, of several a table a metric. */
function scalarText(
  run: RunSummary,
  all: Scalars,
  chosen: readonly Step[],
  infos: readonly MetricInfo[],
  one: boolean,
): string {
  const title = `${all.source} steps of ${shown(run.name)}`;
  if (chosen.length === 0) return `${title}: none.`;
  const numbers = (s: ScalarSeries, i: number): Cell[] => [
    valueAt(s.pooled, i),
    ...(['mean', 'min', 'max', 'p50', 'p95', 'sum'] as const).map((key) => valueAt(s.samples[key], i)),
  ];
  const worth = (s: ScalarSeries, i: number): Cell[] => [
    valueAt(s.coverage, i),
    s.lowerBound[i] === 1 ? '*' : '',
  ];
  const names = ['pooled', 'mean', 'min', 'max', 'p50', 'p95', 'sum'];
  const legend = [
    `${title}.`,
    'pooled and sum: over all workers. mean to p95: over samples. r50, r95, r99: over requests.',
    'cover: samples there of expected. *: a worker restarted or was lost, so sums are at least this.',
  ];
  const ofStep = (step: Step) => {
    const i = placeOf(all, step);
    const latencies = all.series.filter((s) => (s.requests?.n[i] ?? 0) > 0);
    return [
      '',
      `Step ${step.number} (${step.kind}), ${iso(step.from)}, ${step.to === null ? 'not over' : `${figure(secondsOf(step))} s`}`,
      table(
        ['metric', 'unit', ...names, 'cover', ''],
        all.series.map((s, m) => [s.metric, infos[m]!.unit, ...numbers(s, i), ...worth(s, i)]),
      ),
      ...(latencies.length === 0
        ? []
        : [
            '',
            table(
              ['over requests', 'r50', 'r95', 'r99', 'requests'],
              latencies.map((s) => [s.metric, ...requestCells(s, i), s.requests!.n[i]!]),
            ),
          ]),
    ];
  };
  const ofMetric = (s: ScalarSeries, m: number) => [
    '',
    `${s.metric}, ${infos[m]!.unit}`,
    table(
      ['step', 'kind', ...names, 'r50', 'r95', 'r99', 'cover', ''],
      chosen.map((step) => {
        const i = placeOf(all, step);
        return [step.number, step.kind, ...numbers(s, i), ...requestCells(s, i), ...worth(s, i)];
      }),
    ),
  ];
  return [...legend, ...(one ? chosen.flatMap(ofStep) : all.series.flatMap(ofMetric))].join('\n');
}
