/**
 * What is read from /metrics, what is kept, and what is shown. `columns` are raw values, one SQL column each in
 * `sample`; `metrics` are what a chart shows, each made of one or two columns.
 * Names and their history: vLLM's sources and changelogs, see docs/metrics.md. To add a column, append it and add
 * a step in schema.ts; never rename one, run files carry the names.
 */
import type { MetricInfo } from './api.ts';

export interface Column {
  /** The SQL column and the id in reports. */
  id: string;
  kind: 'gauge' | 'counter';
  /** SQL affinity: counts take fewer bytes as INTEGER. */
  type: 'INTEGER' | 'REAL';
  unit: string;
  /**
   * Sample names without `vllm:`, newest first. Where several are there, the newest is taken and never added to an
   * older one: they carry the same value (0.9.2 to 0.11 expose both names of the cache metrics).
   */
  names: string[];
  /** Only series where one of these labels (first found) has this value. */
  where?: { label: string[]; value: string };
  /** The value stands in this label instead of the sample. */
  fromLabel?: string;
  /** Only series whose sample is 1 count, and this is stored then (an enumeration spread over series). */
  whenOne?: number;
}

const gauge = (id: string, unit: string, ...names: string[]): Column => ({
  id,
  kind: 'gauge',
  type: unit === 'ratio' || unit === 'unix seconds' ? 'REAL' : 'INTEGER',
  unit,
  names,
});
const counter = (id: string, unit: string, ...names: string[]): Column => ({
  id,
  kind: 'counter',
  type: 'INTEGER',
  unit,
  names,
});
const histogram = (id: string, unit: string, ...names: string[]): Column[] => [
  {
    id: `${id}_sum`,
    kind: 'counter',
    type: unit === 's' ? 'REAL' : 'INTEGER',
    unit,
    names: names.map((n) => `${n}_sum`),
  },
  {
    id: `${id}_count`,
    kind: 'counter',
    type: 'INTEGER',
    unit: 'observations',
    names: names.map((n) => `${n}_count`),
  },
];
/** The Rust frontend's forerunner says finish_reason. */
const finished = (reason: string): Column => ({
  ...counter(`success_${reason}`, 'requests', 'request_success_total'),
  where: { label: ['finished_reason', 'finish_reason'], value: reason },
});
const waitingFor = (reason: string): Column => ({
  ...gauge(`waiting_${reason}`, 'requests', 'num_requests_waiting_by_reason'),
  where: { label: ['reason'], value: reason },
});
const sleeping = (state: string, level: number): Column => ({
  ...gauge('sleep_level', 'level', 'engine_sleep_state'),
  where: { label: ['sleep_state'], value: state },
  whenOne: level,
});

/** Several entries may share an id: each is one way to fill that column. */
const sources: Column[] = [
  gauge('running', 'requests', 'num_requests_running'),
  gauge('waiting', 'requests', 'num_requests_waiting'),
  waitingFor('capacity'),
  waitingFor('deferred'),
  gauge('swapped', 'requests', 'num_requests_swapped'),
  gauge('kv_usage', 'ratio', 'kv_cache_usage_perc', 'gpu_cache_usage_perc'),
  sleeping('awake', 0),
  sleeping('weights_offloaded', 1),
  sleeping('discard_all', 2),
  { ...gauge('block_size', 'tokens', 'cache_config_info'), fromLabel: 'block_size' },
  { ...gauge('num_blocks', 'blocks', 'cache_config_info'), fromLabel: 'num_gpu_blocks' },
  gauge('process_start', 'unix seconds', 'process_start_time_seconds'),

  counter('prompt_tokens', 'tokens', 'prompt_tokens_total'),
  counter('prompt_tokens_cached', 'tokens', 'prompt_tokens_cached_total'),
  counter('generation_tokens', 'tokens', 'generation_tokens_total'),
  counter('prefix_queries', 'tokens', 'prefix_cache_queries_total', 'gpu_prefix_cache_queries_total'),
  counter('prefix_hits', 'tokens', 'prefix_cache_hits_total', 'gpu_prefix_cache_hits_total'),
  counter('external_queries', 'tokens', 'external_prefix_cache_queries_total'),
  counter('external_hits', 'tokens', 'external_prefix_cache_hits_total'),
  counter('preemptions', 'events', 'num_preemptions_total'),
  finished('stop'),
  finished('length'),
  finished('abort'),
  finished('error'),
  finished('repetition'),
  ...histogram('ttft', 's', 'time_to_first_token_seconds'),
  ...histogram('itl', 's', 'inter_token_latency_seconds', 'time_per_output_token_seconds'),
  ...histogram('queue', 's', 'request_queue_time_seconds', 'time_in_queue_requests'),
  ...histogram('prefill', 's', 'request_prefill_time_seconds'),
  ...histogram('decode', 's', 'request_decode_time_seconds'),
  ...histogram('e2e', 's', 'e2e_request_latency_seconds'),
  ...histogram('iteration_tokens', 'tokens', 'iteration_tokens_total'),
  counter('spec_drafts', 'drafts', 'spec_decode_num_drafts_total'),
  counter('spec_draft_tokens', 'tokens', 'spec_decode_num_draft_tokens_total'),
  counter('spec_accepted_tokens', 'tokens', 'spec_decode_num_accepted_tokens_total'),
];

/** Every way to fill a column, in the order of the catalogue. */
export const columnSources: readonly Column[] = sources;

/** One entry a column, in SQL order. */
export const columns: readonly Column[] = sources.filter(
  (c, i) => sources.findIndex((d) => d.id === c.id) === i,
);

const indexById = new Map(columns.map((c, i) => [c.id, i]));

/** The place of a column in a row of values; throws on an unknown id (a bug). */
export function columnIndex(id: string): number {
  const i = indexById.get(id);
  if (i === undefined) throw new Error(`no column ${id} in the catalogue`);
  return i;
}

export interface Metric extends MetricInfo {
  /** Column ids: one for gauge and counter, [part, whole] for histogram and ratio. */
  of: [string] | [string, string];
}

/** In the order in which panels stand: cause above effect. */
export const metrics: readonly Metric[] = [
  {
    id: 'running',
    kind: 'gauge',
    title: 'Running',
    unit: 'requests',
    fleet: 'sum',
    of: ['running'],
    shown: true,
    about: 'Requests in the batch of the last engine step.',
  },
  {
    id: 'waiting',
    kind: 'gauge',
    title: 'Waiting',
    unit: 'requests',
    fleet: 'sum',
    of: ['waiting'],
    shown: true,
    about: 'Requests that wait to be scheduled.',
  },
  {
    id: 'kv_cache_usage',
    kind: 'gauge',
    title: 'KV cache used',
    unit: 'ratio',
    fleet: 'max',
    of: ['kv_usage'],
    shown: true,
    about: 'Share of KV cache blocks in use; blocks kept only for prefix reuse count as free.',
  },
  {
    id: 'generation_tokens',
    kind: 'counter',
    title: 'Generation',
    unit: 'tokens/s',
    fleet: 'sum',
    of: ['generation_tokens'],
    shown: true,
    about: 'Output tokens a second, accepted draft tokens included.',
  },
  {
    id: 'prefix_cache_hit_rate',
    kind: 'ratio',
    title: 'Prefix hit rate',
    unit: 'ratio',
    fleet: 'pooled',
    of: ['prefix_hits', 'prefix_queries'],
    shown: true,
    about: 'Prompt tokens found in the prefix cache / prompt tokens looked up.',
  },
  {
    id: 'preemptions',
    kind: 'counter',
    title: 'Preemptions',
    unit: '1/s',
    fleet: 'sum',
    of: ['preemptions'],
    shown: true,
    about: 'Preemption events a second; one request preempted three times counts three.',
  },
  {
    id: 'ttft',
    kind: 'histogram',
    title: 'Time to first token',
    unit: 's',
    fleet: 'pooled',
    of: ['ttft_sum', 'ttft_count'],
    shown: true,
    about: 'Mean from arrival to the first output token, over requests that got it there.',
  },
  {
    id: 'prompt_tokens',
    kind: 'counter',
    title: 'Prompt tokens',
    unit: 'tokens/s',
    fleet: 'sum',
    of: ['prompt_tokens'],
    shown: false,
    about: 'Prompt tokens a second of requests whose prefill ended, cached ones included.',
  },
  {
    id: 'prefix_cache_queries',
    kind: 'counter',
    title: 'Prefix queries',
    unit: 'tokens/s',
    fleet: 'sum',
    of: ['prefix_queries'],
    shown: false,
    about: 'Prompt tokens a second looked up in the prefix cache.',
  },
  {
    id: 'prefix_cache_hits',
    kind: 'counter',
    title: 'Prefix hits',
    unit: 'tokens/s',
    fleet: 'sum',
    of: ['prefix_hits'],
    shown: false,
    about: 'Prompt tokens a second found in the prefix cache.',
  },
  {
    id: 'inter_token_latency',
    kind: 'histogram',
    title: 'Inter-token latency',
    unit: 's',
    fleet: 'pooled',
    of: ['itl_sum', 'itl_count'],
    shown: false,
    about: 'Mean gap between consecutive outputs of a request.',
  },
  {
    id: 'waiting_capacity',
    kind: 'gauge',
    title: 'Waiting for room',
    unit: 'requests',
    fleet: 'sum',
    of: ['waiting_capacity'],
    shown: false,
    about: 'Waiting requests for which there is no room.',
  },
  {
    id: 'waiting_deferred',
    kind: 'gauge',
    title: 'Waiting, deferred',
    unit: 'requests',
    fleet: 'sum',
    of: ['waiting_deferred'],
    shown: false,
    about: 'Waiting requests that wait for something else: a remote KV cache, a grammar, an adapter.',
  },
  {
    id: 'queue_time',
    kind: 'histogram',
    title: 'Queue time',
    unit: 's',
    fleet: 'pooled',
    of: ['queue_sum', 'queue_count'],
    shown: false,
    about: 'Mean time from being queued to being scheduled, over finished requests.',
  },
  {
    id: 'prefill_time',
    kind: 'histogram',
    title: 'Prefill time',
    unit: 's',
    fleet: 'pooled',
    of: ['prefill_sum', 'prefill_count'],
    shown: false,
    about: 'Mean time from being scheduled to the first token, over finished requests.',
  },
  {
    id: 'decode_time',
    kind: 'histogram',
    title: 'Decode time',
    unit: 's',
    fleet: 'pooled',
    of: ['decode_sum', 'decode_count'],
    shown: false,
    about: 'Mean time from the first to the last token, over finished requests.',
  },
  {
    id: 'e2e_latency',
    kind: 'histogram',
    title: 'Request latency',
    unit: 's',
    fleet: 'pooled',
    of: ['e2e_sum', 'e2e_count'],
    shown: false,
    about: 'Mean time from arrival to the last token, over finished requests.',
  },
  {
    id: 'external_cache_hit_rate',
    kind: 'ratio',
    title: 'External hit rate',
    unit: 'ratio',
    fleet: 'pooled',
    of: ['external_hits', 'external_queries'],
    shown: false,
    about: 'Prompt tokens that a KV connector supplied / prompt tokens it was asked for.',
  },
  {
    id: 'tokens_per_step',
    kind: 'histogram',
    title: 'Tokens an engine step',
    unit: 'tokens',
    fleet: 'pooled',
    of: ['iteration_tokens_sum', 'iteration_tokens_count'],
    shown: false,
    about: 'Mean tokens computed and generated in one engine step.',
  },
  {
    id: 'spec_acceptance_rate',
    kind: 'ratio',
    title: 'Draft acceptance',
    unit: 'ratio',
    fleet: 'pooled',
    of: ['spec_accepted_tokens', 'spec_draft_tokens'],
    shown: false,
    about: 'Draft tokens accepted / draft tokens proposed.',
  },
  {
    id: 'sleep_level',
    kind: 'gauge',
    title: 'Sleep level',
    unit: 'level',
    fleet: 'max',
    of: ['sleep_level'],
    shown: false,
    about: '0 awake, 1 weights offloaded, 2 weights discarded.',
  },
];

/** A latency whose buckets are read, for percentiles over requests. */
export interface BucketSource {
  metric: string;
  /** The column with the number of its observations. */
  count: string;
  /** Sample names without `vllm:`, newest first. */
  names: string[];
}

export const bucketSources: readonly BucketSource[] = metrics
  .filter((m) => m.kind === 'histogram' && m.unit === 's')
  .map((m) => ({
    metric: m.id,
    count: m.of[1]!,
    names: columns[columnIndex(m.of[1]!)]!.names.map((name) => name.replace(/_count$/, '_bucket')),
  }));

const metricById = new Map(metrics.map((m) => [m.id, m]));

export const findMetric = (id: string): Metric | undefined => metricById.get(id);

/** Columns that a chart or a scalar is made of: these get rollups. */
export const rolledColumns: readonly string[] = [...new Set(metrics.flatMap((m) => m.of as string[]))];
