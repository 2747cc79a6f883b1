/**
 * The part of the contract that is about steps: where they come from, their scalars, and why a number is what it is.
 * Types only; api.ts tells the units.
 */
import type { Aggregate, DeltaStatistics } from './api.ts';

/**
 * Where steps come from. mark: told by the trainer, a script or a person. wandb: rows of the trainer's run on W&B. idle: the whole cluster had nothing to do and
 * went to work again. sleep: engines were put to sleep and woken up. fixed: every so many seconds.
 */
export type StepSource = 'mark' | 'wandb' | 'idle' | 'sleep' | 'fixed';

export type StepKind = 'train' | 'eval' | 'other';

export interface Step {
  /** Its place in its set, by begin: 0, 1, 2 ... */
  n: number;
  /** What people call it: the trainer's number where it was marked, otherwise `n`. */
  number: number;
  kind: StepKind;
  /** Much shorter than its neighbours (idle only): may be an evaluation. null where nothing is suggested. */
  suggested: StepKind | null;
  from: number;
  /** null: it was still running at the end of what is recorded. */
  to: number | null;
}

/** What a set is made by. Those that a source does not use are ignored. */
export interface StepSettings {
  /** idle, sleep: shorter breaks do not end a step. Default 2 s, at least an interval. */
  minIdleSeconds: number;
  /** idle, sleep: shorter ones are no steps. Default 2 s. */
  minStepSeconds: number;
  /** fixed: length of each. Default 60 s. */
  everySeconds: number;
  /** wandb: whose rows they are; absent where they come from elsewhere. */
  trainer?: TrainerRun;
}

/** A trainer's run on W&B, and what in its rows is the step. */
export interface TrainerRun {
  server: string;
  entity: string;
  project: string;
  runId: string;
  /** Its value is the step's number; the row's time is its end. */
  key: string;
  /** Added to the rows' times, where the trainer's clock is another. */
  offsetSeconds: number;
}

/** The steps of one source in one run. */
export interface StepSet {
  source: StepSource;
  settings: StepSettings;
  /** Oldest first. They may touch, never overlap. */
  steps: Step[];
}

export interface Steps extends StepSet {
  /** Somebody chose this source; otherwise it is the first of mark, wandb, idle, sleep, fixed that has a step. */
  chosen: boolean;
  /** How many steps each source has; null: not looked for yet (a run from before there were steps). */
  counts: Record<StepSource, number | null>;
}

export interface FindStepsQuery {
  run: string;
  source: Exclude<StepSource, 'mark' | 'wandb'>;
  settings: StepSettings;
  /** Name of the work in `progress` events. */
  task: string;
}

/** A mark. What is null is left to the engine. */
export interface MarkInput {
  /** The trainer's number; null: one more than the last of that kind. */
  step: number | null;
  /** Default train. */
  kind: StepKind | null;
  /** Default now. May lie in the past, not before the last mark. */
  at: number | null;
  /** true: the step ends there, and none begins. */
  end: boolean;
  /** An id or name of a cluster or run; null: the one that is being recorded. */
  run: string | null;
}

export interface Marked {
  run: string;
  step: Step;
  /** false: it was marked before, nothing changed. */
  changed: boolean;
}

// ---------------------------------------------------------------- scalars

export interface ScalarQuery {
  run: string;
  /** null: the current one. */
  source: StepSource | null;
  metrics: string[];
  /** Whose own scalars are wanted; all others are left out of `each`. */
  workers: number[];
  /**
   * true: nothing is computed that is not there yet; such steps are NaN, and `missing` counts them. The engine goes on
   * with them behind, the whole run in outline first, and tells by `progress` with the run's id as task.
   */
  quick: boolean;
}

/** One value a step in each array, in the order of `steps`; NaN: absent. */
export interface StatisticArrays {
  mean: Float64Array;
  min: Float64Array;
  max: Float64Array;
  p50: Float64Array;
  p95: Float64Array;
  sum: Float64Array;
  n: Float64Array;
}

/** Of each sample's delta: counters only. */
export type DeltaArrays = Record<keyof DeltaStatistics, Float64Array>;

export interface ScalarSeries {
  metric: string;
  /** Over samples: all samples of all workers. */
  samples: StatisticArrays;
  /** Over samples, of each sample's delta. null: no counter. */
  deltas: DeltaArrays | null;
  /** Over workers: one value a worker (its mean, its delta, its ratio). */
  workers: StatisticArrays;
  /** Over requests, latencies only: from merged histogram buckets. */
  requests: RequestArrays | null;
  /** Ratios and histograms: sum of parts / sum of wholes. */
  pooled: Float64Array;
  /** Samples there / expected. */
  coverage: Float64Array;
  /** 1: a worker restarted or was lost, deltas are at least this; otherwise 0. */
  lowerBound: Float64Array;
  each: WorkerScalars[];
}

export interface RequestArrays {
  p50: Float64Array;
  p95: Float64Array;
  p99: Float64Array;
  /** Requests (observations) counted. */
  n: Float64Array;
  /** Bit 0, 1, 2: p50, p95, p99 lie in the last bucket, so they are at least this. */
  atLeast: Float64Array;
}

/** Over time, one worker. */
export interface WorkerScalars {
  w: number;
  mean: Float64Array;
  min: Float64Array;
  max: Float64Array;
  p50: Float64Array;
  p95: Float64Array;
  /** Counters: the delta. */
  sum: Float64Array;
  /** Ratios and histograms: part / whole. */
  pooled: Float64Array;
  deltas: DeltaArrays | null;
}

export interface Scalars {
  source: StepSource;
  steps: Step[];
  series: ScalarSeries[];
  /** Steps that are not computed yet (see ScalarQuery.quick). */
  missing: number;
  /** Somebody stopped it (`stopScalars`), so they stay missing until it goes on. */
  stopped: boolean;
}

/** Percentiles over requests, from histogram buckets. null: no request, or the family is absent. */
export interface RequestPercentiles {
  p50: number | null;
  p95: number | null;
  p99: number | null;
  n: number;
  /** Those that lie in the last bucket are at least this. */
  atLeast: { p50: boolean; p95: boolean; p99: boolean };
}

// ---------------------------------------------------------------- workers

export interface WorkQuery {
  run: string;
  from: number;
  to: number;
}

/** Who worked and who waited for others. docs/metrics.md, "Stragglers". */
export interface Stragglers {
  steps: StepStraggler[];
  /** By worker; over the train steps in the window, or all where there is none. */
  workers: WorkerWork[];
}

export interface StepStraggler {
  /** Step.n */
  n: number;
  /** Who ended last; null: nobody worked. */
  last: number | null;
  /** Seconds after the last but one. null: it was alone. */
  bySeconds: number | null;
  /** Worker-seconds without work while others worked. */
  idleSeconds: number;
}

export interface WorkerWork {
  w: number;
  /** Steps in which it ended last, or within an interval of the last. */
  endedLast: number;
  /** Steps in which it worked. */
  steps: number;
  /** Without work while others worked. */
  idleSeconds: number;
  busySeconds: number;
}

/** A spell in which a worker's KV cache was full and it preempted, or requests waited for room. */
export interface PressureSpell {
  w: number;
  from: number;
  /** Of its last sample. */
  to: number;
  /** Preemptions in it. */
  preemptions: number;
  /** Most requests that waited for room. */
  waiting: number;
  /** Over as long a time before it, and in it; null: no traffic. */
  hitRateBefore: number | null;
  hitRate: number | null;
}

// ---------------------------------------------------------------- why this number

export type Population = 'samples' | 'workers' | 'time' | 'requests' | 'pooled';
export type Statistic = keyof Omit<Aggregate, 'n'> | 'p99' | 'pooled';

export interface WhyQuery {
  run: string;
  metric: string;
  from: number;
  to: number;
  /** Where the window is a step: its set and place, for the words. */
  step: { source: StepSource; n: number } | null;
  statistic: Statistic;
  population: Population;
  /** One worker only (population `time`); otherwise null. */
  w: number | null;
}

export interface Why {
  value: number | null;
  /** It lies in the last bucket: at least this. */
  atLeast: boolean;
  unit: string;
  /** "Of 108,160 prompt tokens looked up in this step, 87,168 were in the prefix cache." */
  sentence: string;
  /** "sum of delta prefix_cache_hits / sum of delta prefix_cache_queries" */
  formula: string;
  /** "pooled over 2 workers" */
  population: string;
  workers: WhyWorker[];
  /** May I believe it? */
  verdict: { sign: 'complete' | 'lower-bound' | 'thin' | 'nothing'; sentence: string };
  samples: number;
  expected: number;
  /** Ranges without an answer. */
  missing: { endpoint: string; from: number; to: number; count: number; detail: string }[];
  /** What others would have said. */
  readings: { name: string; value: number | null; about: string; own: boolean }[];
  /** One statement with its numbers in it, as it runs in sqlite3 on the run's file. */
  sql: string;
}

export interface WhyWorker {
  w: number;
  /** Its own value of the number asked about. */
  value: number | null;
  /** A counter each; of a gauge one, with its first and last sample. */
  columns: WhyColumn[];
  samples: number;
  /** Nothing was seen of it from before the end on. */
  lost: boolean;
}

export interface WhyColumn {
  /** Its name in /metrics. */
  name: string;
  start: { at: number; value: number } | null;
  end: { at: number; value: number } | null;
  delta: number | null;
  resets: number;
}

export interface StepMethods {
  /** null: the current set. */
  steps(run: string, source: StepSource | null): Steps;
  /** Over when a run that is not being recorded was looked over for steps to its end; others are read meanwhile too. */
  findMissingSteps(run: string): void;
  /** Looks over the whole run and stores nothing. */
  previewSteps(query: FindStepsQuery): StepSet;
  /** The same, stored. Kinds that somebody gave to steps which stay as they are stay too. */
  findSteps(query: FindStepsQuery): Steps;
  /** Makes a source the current one; null: by itself. */
  chooseSteps(run: string, source: StepSource | null): Steps;
  setStepKind(run: string, source: StepSource, n: number, kind: StepKind): Step;
  mark(input: MarkInput): Marked;
  /** Takes the last mark back, which gave this step. `bad-input` where another one came after it. */
  takeMarkBack(run: string, step: Step): void;

  scalars(query: ScalarQuery): Scalars;
  /** Leaves missing steps missing; steps that end from now on are computed. Who waits for numbers gets them all the same. */
  stopScalars(run: string): void;
  resumeScalars(run: string): void;
  stragglers(query: WorkQuery): Stragglers;
  pressure(query: WorkQuery): PressureSpell[];
  why(query: WhyQuery): Why;
}

export interface StepEvents {
  /** Steps of a run were found, marked, chosen or changed: read them anew. */
  stepped: { run: string };
  /** Long work goes on; done = total: it is over. `task`: see the calls; `open <run>` and `steps <run>` while a run is made ready for them. */
  progress: { task: string; done: number; total: number };
}
