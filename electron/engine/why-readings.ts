/**
 * What other readings in use would have said of the same window, from the same raw values. Where they come from is in
 * docs/metrics.md, "Other readings".
 */
import type { Why } from './api-steps.ts';
import * as queries from './queries.ts';
import { slotsOf, type RunFile } from './timelines.ts';
import type { Asked } from './why.ts';

type Reading = Why['readings'][number];

/** Raw values of a worker in the window, the one before it first. */
interface Series {
  epochs: number[];
  parts: number[];
  wholes: number[];
}

export function readingsOf(asked: Asked, run: RunFile): Reading[] {
  const { metric, query, stats } = asked;
  const { population, statistic, w } = query;
  const says = (name: string, value: number | null, about: string, own = false): Reading => ({
    name,
    value,
    about,
    own,
  });
  if (w !== null || !asked.recorded) return [];
  if (metric.kind === 'gauge') {
    if (statistic !== 'mean') return [];
    return [
      says(
        'Mean over samples',
        stats.samples.mean,
        'every sample of every worker counts once',
        population === 'samples',
      ),
      says(
        'Mean over workers',
        stats.workers.mean,
        'every worker counts once, however often it answered',
        population === 'workers',
      ),
      says('Highest worker', stats.workers.max, 'the worker with the highest mean'),
      says(
        'Sum over workers',
        stats.workers.sum,
        'what dashboards of Ray and NeMo RL with Dynamo add up; no share for a ratio',
      ),
    ];
  }
  const series = asked.workers.map((x) => seriesOf(run, asked, x.w)).filter((x) => x.wholes.length > 0);
  if (metric.of.length === 1) {
    if (statistic !== 'sum') return [];
    return [
      says('Delta, resets counted', stats.samples.sum, 'after a restart what was counted since', true),
      says(
        'Last minus first',
        lastMinusFirst(series, (x) => x.wholes),
        'no rule for restarts: one may make it too small, or nothing',
      ),
      says(
        'PR 2843 of NeMo RL',
        clamped(series, (x) => x.wholes),
        'what falls counts 0, so the first tokens after a restart are lost',
      ),
      says(
        'Since the servers started',
        sum(series.map((x) => x.wholes.at(-1)!)),
        'the raw counters at the end, of a whole life',
      ),
    ];
  }
  const parts = lastMinusFirst(series, (x) => x.parts);
  const wholes = lastMinusFirst(series, (x) => x.wholes);
  const life = [sum(series.map((x) => x.parts.at(-1)!)), sum(series.map((x) => x.wholes.at(-1)!))] as const;
  const readings = [
    says(
      'Pooled delta',
      stats.pooled,
      'sum of parts / sum of wholes over all workers',
      statistic === 'pooled',
    ),
    says(
      'Mean of the workers’ rates',
      stats.workers.mean,
      'a worker with little traffic weighs as much as one with much',
      population === 'workers' && statistic === 'mean',
    ),
    says(
      'PR 2843 of NeMo RL',
      meanOfRatios(series),
      'mean of each sample’s ratio, then of the engines; what falls counts 0',
    ),
    says(
      'Cluster difference',
      parts !== null && wholes !== null && wholes > 0 ? parts / wholes : null,
      'last minus first of the cluster’s sums; one restart leaves no value',
    ),
    says(
      'Since the servers started',
      life[1] > 0 ? life[0] / life[1] : null,
      'of a whole life, warm-up and all steps before',
    ),
  ];
  const r = stats.requests;
  if (r)
    for (const p of ['p50', 'p95', 'p99'] as const)
      readings.push(
        says(
          `${p} over requests`,
          r[p],
          r.atLeast[p] ? 'at least: it lies in the last bucket' : 'interpolated in the histogram’s buckets',
          population === 'requests' && statistic === p,
        ),
      );
  return readings;
}

function seriesOf(run: RunFile, { metric, query, workers }: Asked, w: number): Series {
  const worker = workers.find((x) => x.w === w);
  const [begin, end] = [worker?.columns[0]?.start, worker?.columns.at(-1)?.end];
  const slots = slotsOf(run, begin?.at ?? query.from, end?.at ?? query.to);
  if (!slots) return { epochs: [], parts: [], wholes: [] };
  const [part, whole] = metric.of;
  const rows = run.all<{ at: number; epoch: number; part: number; whole: number }>(
    queries.rawPairs(part, whole ?? part),
    { ...slots, w, from: begin?.at ?? query.from, to: end?.at ?? query.to },
  );
  return {
    epochs: rows.map((r) => r.epoch),
    parts: rows.map((r) => r.part),
    wholes: rows.map((r) => r.whole),
  };
}

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

/** null: the cluster's sum fell, which no reader of this kind can use. */
function lastMinusFirst(all: readonly Series[], of: (x: Series) => number[]): number | null {
  const difference = sum(all.map((x) => of(x).at(-1)! - of(x)[0]!));
  return all.length > 0 && difference >= 0 ? difference : null;
}

const steps = (values: readonly number[]) => values.slice(1).map((v, i) => Math.max(0, v - values[i]!));

const clamped = (all: readonly Series[], of: (x: Series) => number[]) =>
  all.length === 0 ? null : sum(all.map((x) => sum(steps(of(x)))));

function meanOfRatios(all: readonly Series[]): number | null {
  const means = all.flatMap((x) => {
    const [parts, wholes] = [steps(x.parts), steps(x.wholes)];
    const ratios = parts.flatMap((p, i) => (wholes[i]! > 0 ? [p / wholes[i]!] : []));
    return ratios.length > 0 ? [sum(ratios) / ratios.length] : [];
  });
  return means.length > 0 ? sum(means) / means.length : null;
}
