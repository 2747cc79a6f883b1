/**
 * The families of a vLLM 0.30 server by name, help text and order, and where the stand-in has their values from.
 * Written by hand from vLLM's sources; the recorded bodies in fixtures/samples hold it to the real thing.
 */
import { finishReasons, Histogram, type FakeEngine } from './fake-engine.ts';
import type { BodySource, Family, Labels } from './fake-metrics.ts';

/** Requests by handler, as prometheus-fastapi-instrumentator counts them; series appear with the first one. */
export class HttpCounts {
  readonly handlers: {
    handler: string;
    status: string;
    createdAt: number;
    count: number;
    requestBytes: number;
    responseBytes: number;
    seconds: Histogram;
  }[] = [];
  readonly seconds = new Histogram([
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
  ]);

  record(handler: string, status: string, seconds: number, bytes: [number, number], at: number): void {
    let entry = this.handlers.find((h) => h.handler === handler && h.status === status);
    if (!entry) {
      const counts = { count: 0, requestBytes: 0, responseBytes: 0, seconds: new Histogram([0.1, 0.5, 1]) };
      entry = { handler, status, createdAt: at, ...counts };
      this.handlers.push(entry);
    }
    entry.count++;
    entry.requestBytes += bytes[0];
    entry.responseBytes += bytes[1];
    // Engines are brought forward one after the other: neither start nor sums may depend on who came first.
    entry.createdAt = Math.min(entry.createdAt, at);
    for (const histogram of [entry.seconds, this.seconds]) {
      const sum = histogram.sum;
      histogram.observe(seconds);
      histogram.sum = Math.round((sum + seconds) * 1e6) / 1e6;
    }
  }
}

const mfu = '(for Model Flops Utilization calculations).';
const external = 'from KV connector cross-instance cache sharing, in terms of number of';
const zero = () => 0;

type Value = [name: string, help: string, read: (engine: FakeEngine) => number];
type Spread = [
  kind: 'gauge' | 'counter',
  name: string,
  help: string,
  label: string,
  values: readonly string[],
  read: (engine: FakeEngine, value: string) => number,
];

const flops: Value[] = [
  ['estimated_flops_per_gpu_total', `Estimated number of floating point operations per GPU ${mfu}`, zero],
  ['estimated_read_bytes_per_gpu_total', `Estimated number of bytes read from memory per GPU ${mfu}`, zero],
  ['estimated_write_bytes_per_gpu_total', `Estimated number of bytes written to memory per GPU ${mfu}`, zero],
];
const load: Value[] = [
  ['num_requests_running', 'Number of requests in model execution batches.', (e) => e.gauges.running],
  ['num_requests_waiting', 'Number of requests waiting to be processed.', (e) => e.gauges.waiting],
];
const waitingByReason: Spread = [
  'gauge',
  'num_requests_waiting_by_reason',
  "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; " +
    "'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). " +
    'Sum of all reasons equals vllm:num_requests_waiting.',
  'reason',
  ['capacity', 'deferred'],
  (e, reason) => (reason === 'capacity' ? e.gauges.waiting : 0),
];
const sleepStates = ['awake', 'weights_offloaded', 'discard_all'];
const sleepState: Spread = [
  'gauge',
  'engine_sleep_state',
  'Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; ' +
    'weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.',
  'sleep_state',
  sleepStates,
  (e, state) => (sleepStates[e.sleepLevel] === state ? 1 : 0),
];
const usage: Value[] = [
  ['kv_cache_usage_perc', 'KV-cache usage. 1 means 100 percent usage.', (e) => e.gauges.kvUsage],
];
const caches: Value[] = [
  [
    'prefix_cache_queries_total',
    'Prefix cache queries, in terms of number of queried tokens.',
    (e) => e.counts.queries,
  ],
  [
    'prefix_cache_hits_total',
    'Prefix cache hits, in terms of number of cached tokens.',
    (e) => e.counts.hits,
  ],
  ['external_prefix_cache_queries_total', `External prefix cache queries ${external} queried tokens.`, zero],
  ['external_prefix_cache_hits_total', `External prefix cache hits ${external} cached tokens.`, zero],
  ['mm_cache_queries_total', 'Multi-modal cache queries, in terms of number of queried items.', zero],
  ['mm_cache_hits_total', 'Multi-modal cache hits, in terms of number of cached items.', zero],
  ['num_preemptions_total', 'Cumulative number of preemption from the engine.', (e) => e.counts.preemptions],
  ['prompt_tokens_total', 'Number of prefill tokens processed.', (e) => e.counts.promptTokens],
];
const promptBySource: Spread = [
  'counter',
  'prompt_tokens_by_source_total',
  'Number of prompt tokens by source.',
  'source',
  ['local_compute', 'local_cache_hit', 'external_kv_transfer'],
  ({ counts }, source) => {
    if (source === 'local_compute') return counts.promptTokens - counts.cachedTokens;
    return source === 'local_cache_hit' ? counts.cachedTokens : 0;
  },
];
const tokens: Value[] = [
  [
    'prompt_tokens_cached_total',
    'Number of cached prompt tokens (local + external).',
    (e) => e.counts.cachedTokens,
  ],
  ['generation_tokens_total', 'Number of generation tokens processed.', (e) => e.counts.generationTokens],
];
const success: Spread = [
  'counter',
  'request_success_total',
  'Count of successfully processed requests.',
  'finished_reason',
  finishReasons,
  (e, reason) => e.counts.finished[reason as keyof typeof e.counts.finished],
];
const phase = (name: string) => `Histogram of time spent in ${name} phase for request.`;
const histograms: [name: string, help: string, of: (counts: FakeEngine['counts']) => Histogram][] = [
  ['request_prompt_tokens', 'Number of prefill tokens processed.', (c) => c.requestPromptTokens],
  ['request_generation_tokens', 'Number of generation tokens processed.', (c) => c.requestGenerationTokens],
  ['iteration_tokens_total', 'Histogram of number of tokens per engine_step.', (c) => c.iterationTokens],
  [
    'request_max_num_generation_tokens',
    'Histogram of maximum number of requested generation tokens.',
    (c) => c.requestMaxGenerationTokens,
  ],
  ['request_params_n', 'Histogram of the n request parameter.', (c) => c.paramsN],
  ['request_params_max_tokens', 'Histogram of the max_tokens request parameter.', (c) => c.paramsMaxTokens],
  ['time_to_first_token_seconds', 'Histogram of time to first token in seconds.', (c) => c.ttft],
  ['inter_token_latency_seconds', 'Histogram of inter-token latency in seconds.', (c) => c.itl],
  [
    'request_time_per_output_token_seconds',
    'Histogram of time_per_output_token_seconds per request.',
    (c) => c.timePerToken,
  ],
  ['e2e_request_latency_seconds', 'Histogram of e2e request latency in seconds.', (c) => c.e2e],
  ['request_queue_time_seconds', phase('WAITING'), (c) => c.queue],
  ['request_inference_time_seconds', phase('RUNNING'), (c) => c.inference],
  ['request_prefill_time_seconds', phase('PREFILL'), (c) => c.prefill],
  ['request_decode_time_seconds', phase('DECODE'), (c) => c.decode],
  [
    'request_num_preemptions',
    'Histogram of the number of times a request was preempted.',
    (c) => c.requestPreemptions,
  ],
  [
    'request_prefill_kv_computed_tokens',
    'Histogram of new KV tokens computed during prefill (excluding cached tokens).',
    (c) => c.prefillComputed,
  ],
];

export function vllmFamilies({ engines, model, createdAt }: BodySource): Family[] {
  let made = 0;
  // One after the other, as the real ones are: a few microseconds apart.
  const at = () => createdAt + 7.1e-6 * made++;
  const labels = (e: FakeEngine, more: Labels = {}) => ({
    engine: String(e.index),
    model_name: model,
    ...more,
  });
  const values = (kind: 'gauge' | 'counter', all: Value[]): Family[] =>
    all.map(([name, help, read]) => ({
      name: `vllm:${name}`,
      kind,
      help,
      children: engines.map((e) => ({
        labels: labels(e),
        at: at(),
        read: () => read(e),
        ...(kind === 'gauge' && { set: () => e.steps > 0 }),
      })),
    }));
  // Value by value, each for all engines: that is the order of creation in vLLM.
  const spread = ([kind, name, help, label, all, read]: Spread): Family => ({
    name: `vllm:${name}`,
    kind,
    help,
    children: all.flatMap((value) =>
      engines.map((e) => ({
        labels: labels(e, { [label]: value }),
        at: at(),
        read: () => read(e, value),
        ...(label === 'reason' && { set: () => e.steps > 0 }),
      })),
    ),
  });
  return [
    ...values('counter', flops),
    ...values('gauge', load),
    spread(waitingByReason),
    spread(sleepState),
    ...values('gauge', usage),
    ...values('counter', caches),
    spread(promptBySource),
    ...values('counter', tokens),
    spread(success),
    ...histograms.map(([name, help, of]): Family => ({
      name: `vllm:${name}`,
      kind: 'histogram',
      help,
      children: engines.map((e) => ({ labels: labels(e), at: at(), of: of(e.counts) })),
    })),
    {
      name: 'vllm:cache_config_info',
      kind: 'gauge',
      help: 'Information of the LLMEngine CacheConfig',
      children: engines.map((e) => ({ labels: cacheConfig(e), at: 0, read: () => 1 })),
    },
  ];
}

/** CacheConfig's fields as 0.30 writes them. */
function cacheConfig({ index, shape }: FakeEngine): Labels {
  const tokens = shape.blocks * shape.blockSize;
  const concurrency = tokens / shape.maxModelLen;
  const no = (...names: string[]) => Object.fromEntries(names.map((name) => [name, 'False']));
  const none = (...names: string[]) => Object.fromEntries(names.map((name) => [name, 'None']));
  return {
    _block_size_resolved: 'True',
    block_size: String(shape.blockSize),
    cache_dtype: 'auto',
    enable_prefix_caching: 'True',
    engine: String(index),
    gpu_memory_utilization: '0.93',
    kv_cache_dtype_skip_layers: '[]',
    kv_cache_max_concurrency: Number.isInteger(concurrency) ? `${concurrency}.0` : String(concurrency),
    kv_cache_size_tokens: String(tokens),
    kv_offloading_backend: 'native',
    mamba_cache_dtype: 'auto',
    mamba_cache_mode: 'none',
    mamba_ssm_cache_dtype: 'auto',
    num_gpu_blocks: String(shape.blocks),
    prefix_cache_retention_interval: '0',
    prefix_caching_hash_algo: 'sha256',
    replayssm_buffer_len: '16',
    ...no('enable_mamba_fine_grained_prefix_cache', 'is_attention_free', 'kv_sharing_fast_prefill'),
    ...no(
      'use_kda_recoverssm',
      'use_replayssm',
      'user_specified_block_size',
      'user_specified_mamba_block_size',
    ),
    ...none('kv_cache_layout', 'kv_cache_memory_bytes', 'kv_offloading_size', 'mamba_block_size'),
    ...none('mamba_page_size_padded', 'num_cpu_blocks', 'num_gpu_blocks_override', 'prefix_match_unit'),
    ...none('skip_page_size_padded', 'sliding_window'),
  };
}

export function httpFamilies({ http, createdAt }: BodySource): Family[] {
  const unused = 'Only value of header is respected. Otherwise ignored. No percentile calculated. ';
  const all = http.handlers.map((h) => ({ h, at: h.createdAt, labels: { handler: h.handler } }));
  const sizes = (name: string, what: string, sum: (h: HttpCounts['handlers'][number]) => number): Family => ({
    name,
    kind: 'summary',
    help: `Content length of ${what} by handler. ${unused}`,
    children: all.map(({ h, at, labels }) => ({ labels, at, count: () => h.count, sum: () => sum(h) })),
  });
  return [
    {
      name: 'http_requests_total',
      kind: 'counter',
      help: 'Total number of requests by method, status and handler.',
      children: all.map(({ h, at, labels }) => ({
        labels: { ...labels, method: 'POST', status: h.status },
        at,
        read: () => h.count,
      })),
    },
    sizes('http_request_size_bytes', 'incoming requests', (h) => h.requestBytes),
    sizes('http_response_size_bytes', 'outgoing responses', (h) => h.responseBytes),
    {
      name: 'http_request_duration_highr_seconds',
      kind: 'histogram',
      help: 'Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ',
      children: [{ labels: {}, at: createdAt, of: http.seconds }],
    },
    {
      name: 'http_request_duration_seconds',
      kind: 'histogram',
      help: 'Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ',
      children: all.map(({ h, at, labels }) => ({
        labels: { ...labels, method: 'POST' },
        at,
        of: h.seconds,
      })),
    },
  ];
}

/** Of Python and of the API server's process, which is not the engine's. */
export function processFamilies({ startedAt }: BodySource, uptime: () => number): Family[] {
  const one = (name: string, help: string, read: () => number, labels: Labels[] = [{}]): Family => ({
    name,
    kind: name.endsWith('_total') ? 'counter' : 'gauge',
    help,
    children: labels.map((l) => ({ labels: l, at: 0, read })),
    oneProcess: true,
  });
  const generations = ['0', '1', '2'].map((generation) => ({ generation }));
  const python = { implementation: 'CPython', major: '3', minor: '12', patchlevel: '14', version: '3.12.14' };
  const collections = one(
    'python_gc_collections_total',
    'Number of times this generation was collected',
    zero,
  );
  collections.children = generations.map((labels, i) => ({
    labels,
    at: 0,
    read: () => Math.floor([1827, 166, 10][i]! + uptime() / 6 / 10 ** i),
  }));
  return [
    one('python_gc_objects_collected_total', 'Objects collected during gc', () => 14224, generations),
    one('python_gc_objects_uncollectable_total', 'Uncollectable objects found during GC', zero, generations),
    collections,
    one('python_info', 'Python platform information', () => 1, [python]),
    one('process_virtual_memory_bytes', 'Virtual memory size in bytes.', () => 13588672512),
    one('process_resident_memory_bytes', 'Resident memory size in bytes.', () => 1430925312),
    one(
      'process_start_time_seconds',
      'Start time of the process since unix epoch in seconds.',
      () => Math.round(startedAt * 100) / 100,
    ),
    one(
      'process_cpu_seconds_total',
      'Total user and system CPU time spent in seconds.',
      () => Math.round(1700 + 8 * uptime()) / 100,
    ),
    one('process_open_fds', 'Number of open file descriptors.', () => 42),
    one('process_max_fds', 'Maximum number of open file descriptors.', () => 65535),
  ];
}
