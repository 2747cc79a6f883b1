/**
 * THE contract between the engine and whoever uses it: the page, the command line, scripts.
 * Types only. A new call touches this file and engine.ts, nothing else.
 *
 * House units: `at`, `from`, `to` and every `...At` are epoch ms; `...Seconds` are seconds; ratios are 0..1.
 * null means absent (not scraped, not there yet), never 0. In float arrays absent is NaN.
 */

import type {
  CheckInput,
  CheckReport,
  Cluster,
  ClusterInput,
  OutcomeReason,
  Target,
} from './api-clusters.ts';
import type { RequestPercentiles, StepEvents, StepMethods } from './api-steps.ts';
import type { WandbEvents, WandbMethods } from './api-wandb.ts';

export type * from './api-clusters.ts';
export type * from './api-steps.ts';
export type * from './api-wandb.ts';

/** Every error a user can meet. One sentence comes with each; anything else is a bug and shows as one. */
export type ErrorKind =
  | 'bad-input' // what was asked for makes no sense; the sentence says what to change
  | 'not-found' // no such cluster, run or metric
  | 'cancelled' // the asker took the call back
  | 'engine-gone' // the connection to the engine broke
  | 'file-damaged' // a run file that SQLite or our own checks refuse
  | 'file-newer' // written by a newer version
  | 'file-foreign' // an SQLite file, but no run of ours
  | 'folder-locked' // another engine records into this data folder
  | 'folder-remote' // the data folder lies on a network filesystem
  | 'disk-full'
  | 'bug';

// ---------------------------------------------------------------- catalogue

/** gauge: a level. counter: shown as a rate. histogram: mean over requests, sum / count. ratio: part / whole. */
export type MetricKind = 'gauge' | 'counter' | 'histogram' | 'ratio';

/** What the page knows of a metric. A chart's value of a worker is per this unit. */
export interface MetricInfo {
  id: string;
  /** Sentence case, for heads of panels. */
  title: string;
  kind: MetricKind;
  /** `requests`, `ratio`, `tokens/s`, `1/s`, `s`. */
  unit: string;
  /** The one number for the fleet: gauges and rates add up, usage takes the maximum, ratios and histograms are pooled. */
  fleet: 'sum' | 'max' | 'pooled';
  /** Whether the panel is on for somebody who has chosen nothing. */
  shown: boolean;
  /** One sentence: what it is, for a title attribute. */
  about: string;
}

// ---------------------------------------------------------------- runs

export type RunState = 'recording' | 'ended' | 'ended-unexpectedly';

/** A line in the list of runs; kept in library.db so that no run file is opened for the list. */
export interface RunSummary {
  id: string;
  name: string;
  clusterId: string;
  clusterName: string;
  state: RunState;
  startedAt: number;
  /** Of the last tick; null before the first. */
  endedAt: number | null;
  intervalSeconds: number;
  endpoints: number;
  workers: number;
  ticks: number;
  /** The run's SQLite file on the engine's machine. */
  file: string;
  bytes: number | null;
  /** Reset-aware sum over workers; null until the run has ended or where there is none. */
  generationTokens: number | null;
}

export interface Worker {
  /** Its number in the run: by the endpoint list, then the engine label; late ones are appended. */
  w: number;
  /** `w0`: what the page calls it. */
  name: string;
  endpoint: string;
  engine: string;
  model: string;
  /** Which vLLM its endpoint said last that it is; null: it does not say. */
  version: string | null;
  /** WorkerId, ReplicaId or worker_id where one endpoint has several of them; otherwise ''. */
  replica: string;
  /** Other labels that were the same on all of its series. */
  labels: Record<string, string>;
  /** When its first sample was. */
  firstAt: number;
  /** Since when its endpoint is not asked any more: it was taken away. null: it is asked, or was to the run's end. */
  goneAt: number | null;
  /** Several servers answer in its name: its deltas are null. */
  several: boolean;
}

/** What a page needs before it can draw a run. */
export interface Run extends RunSummary {
  workerList: Worker[];
  endpointList: string[];
  /** Of the first and last tick; equal to startedAt where there is none yet. */
  firstAt: number;
  lastAt: number;
  /** Ids of metrics of which this run has values. */
  metrics: string[];
}

export interface RunEvent {
  at: number;
  /** The end of a range (an outage), otherwise null. */
  until: number | null;
  kind:
    | 'restart' // counters began anew
    | 'outage' // scrapes of an endpoint failed: detail says why
    | 'several-servers'
    | 'worker' // a worker was seen first after the run's beginning
    | 'stretch' // the engine went on with the run after a break
    | 'joined' // an endpoint was added after the run's beginning
    | 'left' // an endpoint was taken away, or its file_sd entry went
    | 'stale' // a file_sd entry that nothing answers to
    | 'clock' // the clock was set back
    | 'held-up' // ticks that did not happen: the engine was held up, or the machine slept
    | 'workers-full'; // more than 4,096 workers
  endpoint: string | null;
  w: number | null;
  /** For outages: the reason. */
  reason: OutcomeReason | null;
  /** Scrapes that failed in an outage; otherwise 1. */
  count: number;
  /** A sentence. */
  detail: string;
}

// ---------------------------------------------------------------- timelines

export interface TimelineQuery {
  run: string;
  metrics: string[];
  from: number;
  to: number;
  /** About how many points across; the engine picks the bucket width. */
  points: number;
}

/**
 * Chart data of several metrics over one time axis. Matrices are worker-major: worker w at place i is
 * `[w * times.length + i]`; workers = matrix length / times.length.
 */
export interface Timelines {
  /** Seconds of a bucket; 0: one place a tick, raw. */
  widthSeconds: number;
  /** Epoch ms: of the tick (raw) or the bucket's begin. */
  times: Float64Array;
  workers: number;
  /** ms from times[i] to where the worker's point stands. NaN: no answer of that worker there. */
  offsets: Float32Array;
  series: TimelineSeries[];
}

export interface TimelineSeries {
  metric: string;
  /**
   * gauge: its level (mean over the bucket's samples). counter: rate a second. histogram, ratio: part / whole of the
   * place's deltas. NaN where there is no answer, no traffic (a whole of 0) or the family is absent.
   */
  values: Float32Array;
  /** Lowest and highest in the bucket; null where raw. */
  min: Float32Array | null;
  max: Float32Array | null;
  /** Over workers at each place: the plain mean; ratios and histograms pooled (sum / sum). */
  average: Float32Array;
}

// ---------------------------------------------------------------- statistics of a window

/** A window by itself. Windows asked for apart each own the samples at their edges, so their deltas do not add up: see `previous`. */
export interface StatisticsQuery {
  run: string;
  metrics: string[];
  from: number;
  to: number;
  /**
   * true: a metric with more than 50,000 samples in the window comes from buckets, in no time. Its edges are then those
   * of buckets (1 % of the window, at least 10 s), and it has no percentiles. Default false: exact, however long it takes.
   */
  coarse?: boolean;
  /** The window before, a step's: where both touch, what belongs to that one is not counted again. */
  previous?: { from: number; to: number } | null;
}

export interface Aggregate {
  mean: number | null;
  min: number | null;
  max: number | null;
  p50: number | null;
  p95: number | null;
  /** Counters: the delta. Ratios and histograms: null. */
  sum: number | null;
  /** Samples with a value. */
  n: number;
}

/**
 * The exact numbers of one metric over a window, from raw rows. Gauges take the samples from begin to end; deltas
 * the samples in (a, b], a = last answered at or before begin, b = first asked at or after the end.
 */
export interface MetricStatistics {
  metric: string;
  /** Seconds of the buckets it comes from (see StatisticsQuery.coarse); 0: from samples, exact. */
  bucketSeconds: number;
  /** Length of what was counted: the window, or the buckets that hold it. A rate is `sum` / this. */
  seconds: number;
  /** Over samples: all samples of all workers. */
  samples: Aggregate;
  /** Over samples, of each sample's delta and not of its rate: counters only, not from buckets. Otherwise null. */
  deltas: DeltaStatistics | null;
  /** Over workers: one value a worker (its mean, or its delta). */
  workers: Aggregate;
  /** Ratios and histograms: sum of parts / sum of wholes over all workers. null: no traffic. */
  pooled: number | null;
  /** Over requests: latencies only. null: no other metric has them, nor has one that comes from buckets. */
  requests: RequestPercentiles | null;
  /** Samples there / samples expected, at most 1. null: nothing expected. */
  coverage: number | null;
  /** A worker restarted, or was lost: deltas are at least this. */
  lowerBound: boolean;
  each: WorkerStatistics[];
}

/** Of what each sample of a counter adds to the one before. */
export interface DeltaStatistics {
  mean: number | null;
  min: number | null;
  max: number | null;
  p50: number | null;
  p95: number | null;
}

export interface WorkerStatistics extends Aggregate {
  w: number;
  /** As MetricStatistics.deltas, over this worker's samples. */
  deltas: DeltaStatistics | null;
  /** Counters: reset-aware increase. null: no earlier sample to count from. */
  delta: number | null;
  /** Ratios and histograms: the parts. */
  part: number | null;
  whole: number | null;
  /** part / whole; null: no traffic. */
  ratio: number | null;
  resets: number;
  /** Its last sample lies before the end: nothing was counted from there on. */
  lost: boolean;
}

// ---------------------------------------------------------------- the calls

export interface Info {
  version: string;
  dataFolder: string;
  /** Electron's window or a plain browser is not the engine's business; headless says whether a window owns it. */
  pid: number;
  /** Bytes free where runs are kept. */
  freeBytes: number | null;
  /** Whether secrets can be kept in the OS's keychain. */
  keychain: boolean;
}

/**
 * Written as plain functions; `Remote` is what a caller over the wire has. No optional parameters: an AbortSignal comes
 * last, and reaches the implementation there.
 */
export interface Methods extends StepMethods, WandbMethods {
  info(): Info;
  catalogue(): MetricInfo[];

  preferences(): Record<string, unknown>;
  /** Any JSON value; null removes the key. */
  setPreference(key: string, value: unknown): void;

  listClusters(): Cluster[];
  /** Connects at once; records unless `record` is false. */
  addCluster(input: ClusterInput): Cluster;
  /**
   * Takes the whole of the input; what is not given is as for a new cluster. Other endpoints go on in the same run, new
   * workers appended; another interval ends the run and begins a new one. `record` is not looked at.
   */
  updateCluster(id: string, input: ClusterInput): Cluster;
  /** What pasted addresses mean, file_sd files read. Throws `bad-input` for nothing at all. */
  targets(addresses: string): Target[];
  /** Its runs stay. Stops recording first. */
  removeCluster(id: string): void;
  connectCluster(id: string): Cluster;
  /** Stops recording first. */
  disconnectCluster(id: string): Cluster;
  setRecord(id: string, record: boolean): Cluster;

  /** A run of its own file begins; null: named after the cluster and the time. */
  startRecording(clusterId: string, name: string | null): RunSummary;
  stopRecording(clusterId: string): RunSummary;

  listRuns(): RunSummary[];
  renameRun(id: string, name: string): RunSummary;
  getRun(id: string): Run;
  /** The newest 10,000 that touch from..to, oldest first. */
  events(run: string, from: number, to: number): RunEvent[];
  timelines(query: TimelineQuery): Timelines;
  statistics(query: StatisticsQuery): MetricStatistics[];

  /** Asks an address as the command line's `check` does. */
  check(input: CheckInput): CheckReport;
}

/** What the engine tells every page. A `changed` carries no state: read anew. */
export interface Events extends StepEvents, WandbEvents {
  ticked: Ticked;
  changed: { what: 'clusters' | 'runs' };
}

export interface Ticked {
  cluster: string;
  /** null: scraped, but not recorded. */
  run: string | null;
  /** Slot on the run's interval grid. */
  t: number;
  at: number;
  /** Endpoints that answered in this tick, of all. */
  answered: number;
  endpoints: number;
  workers: number;
}

export type Remote = {
  [M in keyof Methods]: (
    ...args: [...Parameters<Methods[M]>, signal?: AbortSignal]
  ) => Promise<ReturnType<Methods[M]>>;
};

/** What engine.ts implements: each method may answer at once or later. */
export type Implementation = {
  [M in keyof Methods]: (
    this: void,
    ...args: [...Parameters<Methods[M]>, signal?: AbortSignal]
  ) => ReturnType<Methods[M]> | Promise<ReturnType<Methods[M]>>;
};
