/**
 * From scalars to what W&B shows: keys, rows, definitions of metrics, the config. Pure: the same scalars and the same
 * mapping always give the same row, so a row can be sent again whenever that is needed. Names are NeMo RL's (its PR
 * 2843) where it has one; docs/wandb.md lists them.
 */
import type { ScalarSeries, Step, StepSource } from './api-steps.ts';
import type { UploadInput, WandbChoice, WandbStatistic } from './api-wandb.ts';
import { findMetric, metrics } from './catalogue.ts';
import type { FoundScalars } from './scalars.ts';
import type { Json, JsonObject, MetricDefinition } from './wandb/contract.ts';

/** Of keys and formulas; rows of another one need a new run on W&B. */
export const MAPPING_VERSION = 1;

/** What is frozen with the first row. */
export interface Mapping {
  version: number;
  /** SCALARS_VERSION of the rows. */
  formulas: number;
  choice: WandbChoice;
  /** Those with keys of their own where there are more than the limit; null: all below it. */
  workers: number[] | null;
}

/** What NeMo RL calls a metric on W&B; the others keep the name they have here. */
const names: Record<string, string> = {
  running: 'inflight_batch_sizes',
  waiting: 'num_pending_samples',
  kv_cache_usage: 'kv_cache_usage_perc',
  generation_tokens: 'generation_tokens',
  prefix_cache_queries: 'prefix_cache_queries',
  prefix_cache_hits: 'prefix_cache_hits',
  prefix_cache_hit_rate: 'prefix_cache_hit_rate',
  preemptions: 'num_preemptions',
};
export const nemoMetrics: readonly string[] = Object.keys(names);
export const nameOnWandb = (metric: string): string => names[metric] ?? metric;

export const statisticsOnWandb: readonly WandbStatistic[] = ['mean', 'max', 'p95', 'min', 'sum'];
const ofWorkers: readonly WandbStatistic[] = ['mean', 'max', 'p95'];

export const STEP_KEY = 'vllm_scope/step';
export const TRAINER_STEP_KEY = 'trainer/global_step';
const EVAL = 'eval/';

/** Whether its steps have the trainer's own numbers. */
const isTrainers = (source: StepSource) => source === 'mark' || source === 'wandb';

export const isSent = ({ kind, to }: Step, { evals }: WandbChoice): boolean =>
  to !== null && (kind === 'train' || (kind === 'eval' && evals));

/** Numbers of workers with keys of their own, of so many that the run has. */
export const workersSent = ({ workers, choice }: Mapping, all: number): number[] =>
  workers?.filter((w) => w < all) ?? Array.from({ length: Math.min(all, choice.workers) }, (_, w) => w);

interface KeyOfRows {
  key: string;
  /** A value a step; NaN: the key is left out of that row. */
  values: Float64Array;
}

/** The keys that scalars give, without those that every row has. */
export function keysOf(scalars: FoundScalars, { choice }: Mapping): KeyOfRows[] {
  if (!choice.scalars) return [];
  const { statistics } = choice;
  return scalars.series.flatMap((series): KeyOfRows[] => {
    const metric = findMetric(series.metric)!;
    const name = `generation_metrics/${nameOnWandb(series.metric)}`;
    const isRatio = metric.of.length === 2;
    const key = (end: string, values: Float64Array) => ({ key: `${name}/${end}`, values });
    const pooled = isRatio ? [key('pooled', series.pooled)] : [];
    // a latency has one value a request: its population is the requests
    if (series.requests)
      return [
        ...pooled,
        ...(['p50', 'p95', 'p99'] as const).map((p) => key(`requests/${p}`, series.requests![p])),
      ];
    // counters as what each scrape added, which is how NeMo RL reads them
    const values = { ...(series.deltas ?? series.samples), sum: series.samples.sum };
    return [
      ...series.each.flatMap(({ w, deltas, ...own }) =>
        ofWorkers
          .filter((s) => statistics.includes(s))
          .map((s) => key(`engine_${w}/${s}`, (deltas ?? own)[s as 'mean'])),
      ),
      ...statistics.filter((s) => s !== 'sum' || series.deltas).map((s) => key(`agg/${s}`, values[s])),
      ...pooled,
    ];
  });
}

export interface RowPlace {
  /** Of the history, from 0. */
  line: number;
  /** When the recording began, epoch ms. */
  startedAt: number;
}

/** One step's row. `media`: values of its timeline plots, by key. */
export function rowOf(
  scalars: FoundScalars,
  i: number,
  keys: readonly KeyOfRows[],
  { line, startedAt }: RowPlace,
  media: JsonObject,
): JsonObject {
  const step = scalars.steps[i]!;
  const to = step.to!;
  const before = step.kind === 'eval' ? EVAL : '';
  const row: Record<string, Json> = {
    _step: line,
    _timestamp: to / 1000,
    _runtime: Math.max(0, to - startedAt) / 1000,
    [STEP_KEY]: step.number,
  };
  if (isTrainers(scalars.source)) row[TRAINER_STEP_KEY] = step.number;
  row[`${before}vllm_scope/step_seconds`] = (to - step.from) / 1000;
  const running = scalars.series.find((s) => s.metric === 'running');
  if (running && !Number.isNaN(running.coverage[i]!))
    row[`${before}generation_metrics/coverage`] = running.coverage[i]!;
  row[`${before}generation_metrics/lower_bound`] = Number(isLowerBound(scalars.series, i));
  for (const { key, values } of keys) {
    const value = values[i]!;
    if (Number.isFinite(value)) row[before + key] = value;
  }
  for (const [key, value] of Object.entries(media)) row[before + key] = value;
  return row;
}

/** A worker restarted in the step or was lost: its counters are at least what the row says. */
export const isLowerBound = (series: readonly ScalarSeries[], i: number): boolean =>
  series.some((s) => s.lowerBound[i] === 1);

/** What says something of every row: coverage, and whether a counter is a lower bound. */
const always: readonly string[] = ['running', 'generation_tokens'];

/** Metrics to be read for a mapping. */
export const metricsRead = ({ choice }: Mapping): string[] =>
  metrics.map((m) => m.id).filter((id) => always.includes(id) || choice.metrics.includes(id));

export function metricDefinitions({ choice }: Mapping): MetricDefinition[] {
  const step = { step: STEP_KEY };
  return [
    { name: STEP_KEY },
    ...(isTrainers(choice.source) ? [{ name: TRAINER_STEP_KEY, ...step }] : []),
    { name: 'vllm_scope/step_seconds', ...step },
    { name: 'generation_metrics/*', ...step },
    ...(choice.evals ? [{ name: `${EVAL}*`, ...step }] : []),
  ];
}

/** What a run's file and its line in the library say of it. */
export interface RunFacts {
  version: string;
  name: string;
  cluster: string;
  startedAt: number;
  intervalMs: number;
  /** Addresses as they were scraped. */
  endpoints: string[];
  workers: { w: number; endpoint: string; engine: string; model: string; version: string | null }[];
}

/** Without user names, passwords and what stands behind a question mark. */
function withoutSecrets(address: string): string {
  if (!URL.canParse(address)) return '';
  const { protocol, host, pathname } = new URL(address);
  return `${protocol}//${host}${pathname}`;
}

/** As plain values; config.ts wraps them for W&B. */
export function configOf(facts: RunFacts, mapping: Mapping): JsonObject {
  const { choice } = mapping;
  const sent = new Set(workersSent(mapping, facts.workers.length));
  return {
    vllm_scope: {
      version: facts.version,
      mapping: mapping.version,
      formulas: mapping.formulas,
      run: facts.name,
      cluster: facts.cluster,
      recorded_from: new Date(facts.startedAt).toISOString(),
      interval_seconds: facts.intervalMs / 1000,
      steps: choice.source,
      endpoints: facts.endpoints.map(withoutSecrets),
      vllm: [...new Set(facts.workers.flatMap(({ version }) => version ?? []))].sort(),
      engines: Object.fromEntries(
        facts.workers
          .filter(({ w }) => sent.has(w))
          .map(({ w, endpoint, engine, model, version }) => [
            `engine_${w}`,
            { endpoint: withoutSecrets(endpoint), engine, model, ...(version !== null && { vllm: version }) },
          ]),
      ),
      meanings: {
        generation_tokens:
          'delta per scrape interval, as in NeMo RL PR 2843; likewise prefix_cache_queries, prefix_cache_hits and num_preemptions; agg/sum is the delta of the step',
        agg: 'over all samples of all engines',
        engine: 'over the samples of one engine',
        pooled: 'parts of all engines added up / wholes added up',
        coverage: 'samples there / samples expected',
        lower_bound: '1 where an engine restarted or was lost in the step: counters are at least this',
      },
    },
  };
}

/** Whether what is asked for is what an earlier upload was made with. */
export function sameTarget(a: UploadInput['target'], b: UploadInput['target']): boolean {
  return a.server === b.server && (a.entity ?? '') === (b.entity ?? '') && a.project === b.project;
}
