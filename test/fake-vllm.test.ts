/**
 * The stand-in is only worth something if it counts as a real vLLM does: its counters are held to the requests that
 * its engines really had, at any moment, under a full cache and over a restart. Time is the test's own.
 */
import { describe, expect, it, vi } from 'vitest';
import type { FakeRequest } from './fake-engine.ts';
import type { FakeClusterOptions } from './fake-vllm.ts';
import { begin, body, bodyAt, start, time } from './fake-time.ts';

vi.setConfig({ testTimeout: 30_000 }); // other work shares the machine

type Values = Map<string, number>;
function read(text: string): Values {
  const values: Values = new Map();
  for (const line of text.trimEnd().split('\n')) {
    if (line.startsWith('#')) continue;
    const at = line.lastIndexOf(' ');
    values.set(line.slice(0, at), Number(line.slice(at + 1).replace('Inf', 'Infinity')));
  }
  return values;
}
function of(values: Values, name: string, engine = 0, more = ''): number {
  const key = [...values.keys()].find(
    (k) => k.startsWith(`vllm:${name}{`) && k.includes(`engine="${engine}"`) && k.includes(more),
  );
  expect(key, `${name} ${more}`).toBeDefined();
  return values.get(key!)!;
}

const sum = (requests: FakeRequest[], value: (r: FakeRequest) => number) =>
  requests.reduce((total, request) => total + value(request), 0);

/** Everything that a body says about an engine, against the requests that it had. */
function expectTruth(values: Values, requests: FakeRequest[], engine = 0): void {
  const get = (name: string, more?: string) => of(values, name, engine, more);
  const scheduled = requests.filter((r) => !Number.isNaN(r.scheduledAt));
  const answering = requests.filter((r) => r.generated > 0);
  const finished = requests.filter((r) => r.reason !== '');
  const prompt = (r: FakeRequest) => r.prompt.tokens;

  expect(get('generation_tokens_total')).toBe(sum(requests, (r) => r.generated));
  expect(get('prompt_tokens_total')).toBe(sum(answering, prompt));
  expect(get('prompt_tokens_cached_total')).toBe(sum(answering, (r) => r.cachedTokens));
  const computed = sum(answering, (r) => prompt(r) - r.cachedTokens);
  expect(get('prompt_tokens_by_source_total', 'local_compute')).toBe(computed);
  expect(get('prompt_tokens_by_source_total', 'local_cache_hit')).toBe(sum(answering, (r) => r.cachedTokens));
  expect(get('prefix_cache_queries_total')).toBe(sum(scheduled, prompt));
  expect(get('prefix_cache_hits_total')).toBe(sum(scheduled, (r) => r.cachedTokens));
  expect(get('num_preemptions_total')).toBe(sum(requests, (r) => r.preemptions));
  expect(get('iteration_tokens_total_sum')).toBe(computed + sum(requests, (r) => r.generated));
  for (const reason of ['stop', 'length', 'abort', 'error', 'repetition'])
    expect(get('request_success_total', `"${reason}"`)).toBe(
      finished.filter((r) => r.reason === reason).length,
    );

  const observed = (name: string, of: FakeRequest[], value: (r: FakeRequest) => number) => {
    expect(get(`${name}_count`), name).toBe(of.length);
    expect(get(`${name}_sum`), name).toBeCloseTo(sum(of, value), 6);
  };
  observed('time_to_first_token_seconds', answering, (r) => r.firstTokenAt - r.arrivedAt);
  observed('request_prompt_tokens', finished, prompt);
  observed('request_generation_tokens', finished, (r) => r.generated);
  observed('request_params_max_tokens', finished, (r) => r.maxTokens);
  observed('request_prefill_kv_computed_tokens', finished, (r) => prompt(r) - r.cachedTokens);
  observed('request_num_preemptions', finished, (r) => r.preemptions);
  observed('request_queue_time_seconds', finished, (r) => r.scheduledAt - r.queuedAt);
  observed('request_prefill_time_seconds', finished, (r) => r.firstTokenAt - r.scheduledAt);
  observed('request_decode_time_seconds', finished, (r) => r.lastTokenAt - r.firstTokenAt);
  observed('request_inference_time_seconds', finished, (r) => r.lastTokenAt - r.scheduledAt);
  observed('e2e_request_latency_seconds', finished, (r) => r.lastTokenAt - r.arrivedAt);
  expect(get('inter_token_latency_seconds_count')).toBe(sum(answering, (r) => r.generated - 1));
  expect(get('inter_token_latency_seconds_sum')).toBeCloseTo(
    sum(answering, (r) => r.lastTokenAt - r.firstTokenAt),
    6,
  );
}

/** Scheduled again and again within little room: everything that can happen to a request does. */
const tight: FakeClusterOptions = {
  workers: 3,
  keepRequests: true,
  shape: { blocks: 420, maxRunning: 24, maxModelLen: 4096 },
};

/** Blocks that the KV of these requests takes, shared ones counted once. */
function blocksOf(requests: FakeRequest[]): number {
  const shared = new Set(requests.flatMap(({ prompt }) => [prompt.system, prompt.own]));
  const own = (r: FakeRequest) => Math.ceil(r.computed / 16) - r.prompt.system.blocks - r.prompt.own.blocks;
  return sum(requests, own) + [...shared].reduce((total, { blocks }) => total + blocks, 0);
}

describe('counters', () => {
  it('add up to what the requests say, at any moment', async () => {
    const cluster = await start(tight);
    let preempted = 0;
    for (let t = 0.37; t < 110; t += 4.61) {
      for (let i = 0; i < 3; i++) {
        const values = read(await bodyAt(cluster, t, i));
        const requests = cluster.rollouts.requests.get(cluster.engines[i]!)!;
        expectTruth(values, requests);
        const open = requests.filter((r) => r.reason === '').length;
        const [running, waiting] = [of(values, 'num_requests_running'), of(values, 'num_requests_waiting')];
        // Gauges are as the last engine step left them: what came since is not in them yet.
        expect([open, 0]).toContain(running + waiting);
        expect(of(values, 'num_requests_waiting_by_reason', 0, 'capacity')).toBe(waiting);
        expect(of(values, 'prefix_cache_hits_total')).toBeLessThanOrEqual(
          of(values, 'prefix_cache_queries_total'),
        );
        expect(of(values, 'prefix_cache_hits_total') % 16).toBe(0);
        preempted = of(values, 'num_preemptions_total');
      }
    }
    expect(preempted).toBeGreaterThan(10);
    const all = cluster.engines.flatMap((engine) => cluster.rollouts.requests.get(engine)!);
    expect(new Set(all.map((r) => r.reason))).toEqual(new Set(['stop', 'length', '']));
    expect(all.some((r) => r.preemptions > 1 && r.reason)).toBe(true);
  });

  it('have cumulative buckets that end with the count', async () => {
    const cluster = await start(tight);
    const values = read(await bodyAt(cluster, 30));
    const series = new Map<string, number[]>();
    for (const [key, value] of values) {
      const name = key
        .replace(/,?le="[^"]*"/, '')
        .replace('_bucket{', '_count{')
        .replace('{,', '{');
      if (key.includes('_bucket{')) series.set(name, [...(series.get(name) ?? []), value]);
    }
    expect(series.size).toBe(20);
    for (const [name, counts] of series) {
      expect(counts, name).toEqual(counts.toSorted((a, b) => a - b));
      expect(counts.at(-1), name).toBe(values.get(name.replace(/\{\}$/, '')));
    }
    // The first bucket has those that were never preempted too.
    const rarely = cluster.rollouts.requests
      .get(cluster.engines[0]!)!
      .filter((r) => r.reason && r.preemptions <= 1);
    expect(of(values, 'request_num_preemptions_bucket', 0, 'le="1.0"')).toBe(rarely.length);
  });

  it('show a full cache: usage at its limit, preemptions, waiting', async () => {
    const cluster = await start(tight);
    const seen: { usage: number; running: number; waiting: number }[] = [];
    let preempted: string[] = [];
    let admitted = 0;
    for (let t = 0.5; t < 60; t += 0.25) {
      time.now = begin + t * 1000;
      cluster.advance();
      const { kvUsage, running, waiting } = cluster.engines[0]!.gauges;
      const requests = cluster.rollouts.requests.get(cluster.engines[0]!)!;
      // A preempted request goes before those that never ran.
      const [was, had] = [preempted, admitted];
      preempted = requests.flatMap((r, i) =>
        r.computed === 0 && r.preemptions > 0 ? `${i} ${r.preemptions}` : [],
      );
      admitted = requests.filter((r) => !Number.isNaN(r.scheduledAt)).length;
      if (preempted.some((key) => was.includes(key))) expect(admitted).toBe(had);
      expect(blocksOf(requests.filter((r) => r.computed > 0 && r.reason === ''))).toBeLessThanOrEqual(419);
      seen.push({ usage: kvUsage, running, waiting });
    }
    for (const { usage, running } of seen) {
      expect(usage).toBeGreaterThanOrEqual(0);
      expect(usage).toBeLessThanOrEqual(1);
      expect(running).toBeLessThanOrEqual(24);
    }
    const full = seen.filter((s) => s.usage > 0.97);
    expect(full.length).toBeGreaterThan(10);
    // Fewer than the batch limit run while others wait: it is the cache that holds them up.
    expect(full.some((s) => s.running < 24 && s.waiting > 0)).toBe(true);
    expect(cluster.engines[0]!.counts.preemptions).toBeGreaterThan(10);
    const roomy = await start({ ...tight, shape: { ...tight.shape, blocks: 4000 } });
    time.now = begin + 60_000;
    roomy.advance();
    expect(roomy.engines[0]!.counts.preemptions).toBe(0);
  });

  it('find shared prompts in the prefix cache, and no longer once the weights have changed', async () => {
    const cluster = await start({ keepRequests: true, stepSeconds: [8, 8] });
    time.now = begin + 60_000;
    cluster.advance();
    const requests = cluster.rollouts.requests.get(cluster.engines[0]!)!;
    const steps = cluster.rollouts.steps.map(({ number }) => requests.filter((r) => r.step === number));
    expect(steps.length).toBeGreaterThan(4);
    for (const [step, all] of steps.entries()) {
      const first = all.find((r) => !Number.isNaN(r.scheduledAt))!;
      expect(first.cachedTokens, `step ${step}`).toBe(0);
      // The second finds all full blocks of the same prompt, but never the last token.
      expect(all[1]!.cachedTokens).toBe(Math.floor((first.prompt.tokens - 1) / 16) * 16);
      // Another prompt shares the system prompt.
      expect(all.find((r) => r.prompt !== first.prompt)!.cachedTokens).toBe(256);
    }
  });
});

describe('rollouts', () => {
  it('give the same numbers for the same seed, however often one looks', async () => {
    const options = { workers: 8, enginesPerEndpoint: 4, seed: 9, apiProcesses: 'one' as const };
    const one = await start(options);
    for (let t = 0; t < 70; t += t < 3 ? 0.05 : 0.9) await bodyAt(one, t, 1);
    const often = await bodyAt(one, 70, 1);
    expect(await bodyAt(await start(options), 70, 1)).toBe(often);
    expect(await bodyAt(await start({ ...options, seed: 8 }), 70, 1)).not.toBe(often);
  });

  it('come in steps of 20 to 40 seconds, between which all is idle, and no engine idles for long', async () => {
    const cluster = await start({ workers: 16 });
    const idle = cluster.engines.map(() => 0);
    let longest = 0;
    for (let t = 0; t < 300; t += 0.5) {
      time.now = begin + t * 1000;
      cluster.advance();
      const step = cluster.rollouts.steps.at(-1);
      for (const [i, engine] of cluster.engines.entries()) {
        idle[i] = engine.gauges.running > 0 ? 0 : idle[i]! + 0.5;
        longest = Math.max(longest, idle[i]);
        if (step && step.end !== null && t > step.end)
          expect(engine.gauges).toEqual({ running: 0, waiting: 0, kvUsage: 0 });
      }
      if (t === 3) expect(Math.min(...cluster.engines.map((e) => e.gauges.running))).toBeGreaterThan(0);
    }
    expect(longest).toBeGreaterThan(2);
    expect(longest).toBeLessThanOrEqual(6.5);
    const steps = cluster.rollouts.steps.filter((s) => s.end !== null);
    expect(steps.length).toBeGreaterThan(6);
    for (const [i, { begin, end }] of steps.entries()) {
      expect(end! - begin).toBeGreaterThan(18);
      expect(end! - begin).toBeLessThan(40);
      if (i > 0) expect(begin - steps[i - 1]!.end!).toBeGreaterThan(2);
    }
    const tokens = cluster.engines.map((e) => e.counts.generationTokens);
    expect(new Set(tokens).size).toBe(16);
  });

  it('let the engines sleep in between, if asked', async () => {
    const cluster = await start({ sleepBetweenSteps: true, stepSeconds: [4, 4], pauseSeconds: [3, 3] });
    const state = async (t: number) => {
      const values = read(await bodyAt(cluster, t));
      return ['awake', 'weights_offloaded', 'discard_all'].map((s) =>
        of(values, 'engine_sleep_state', 0, `"${s}"`),
      );
    };
    expect(await state(2)).toEqual([1, 0, 0]);
    const { end } = cluster.rollouts.steps[0]!;
    expect(end).toBeNull();
    await state(5.5);
    expect(await state(cluster.rollouts.steps[0]!.end! + 1)).toEqual([0, 1, 0]);
    expect(await state(9)).toEqual([1, 0, 0]);
  });
});

describe('a restart', () => {
  it('sets counters to 0 and moves the start times', async () => {
    const cluster = await start({ workers: 2, keepRequests: true });
    const old = read(await bodyAt(cluster, 10));
    await cluster.endpoints[0]!.restart();
    const values = read(await body(cluster));
    for (const name of ['generation_tokens_total', 'prefix_cache_queries_total', 'num_requests_running'])
      expect(of(values, name)).toBe(0);
    for (const [key, value] of values)
      if (key.startsWith('vllm:') && key.includes('_bucket{')) expect(value).toBe(0);
    const moved = (key: string) => values.get(key)! - old.get(key)!;
    expect(moved('process_start_time_seconds')).toBeCloseTo(79.5, 1);
    const created = [...old.keys()].filter((key) => key.startsWith('vllm:') && key.includes('_created{'));
    expect(created.length).toBe(37);
    for (const key of created) expect(moved(key)).toBeCloseTo(11, 3);
    expect(values.get('process_start_time_seconds')).toBeLessThan(values.get(created[0]!)!);

    const requests = cluster.rollouts.requests.get(cluster.engines[0]!)!;
    const lost = requests.filter((r) => r.lost);
    expect(lost.length).toBe(requests.filter((r) => r.reason === '' && r.arrivedAt < 10).length);
    expect(lost.length).toBeGreaterThan(10);
    // It goes on with further work; the counters are those of the new requests alone.
    const later = read(await bodyAt(cluster, 14));
    const since = requests.filter((r) => r.arrivedAt >= 10);
    expect(since.length).toBeGreaterThan(10);
    expectTruth(later, since);
    expect(of(read(await bodyAt(cluster, 14, 1)), 'generation_tokens_total')).toBeGreaterThan(
      of(later, 'generation_tokens_total'),
    );
  });
});
