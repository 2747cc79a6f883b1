/**
 * The stand-in for one vLLM engine: a scheduler with a batch limit, a KV cache, preemption by recomputation and the
 * counters that a real one keeps, moved at the same moments (prompt tokens with the first token, output tokens one
 * by one, request histograms at the end). It runs in engine steps over its own time in seconds, and only when
 * somebody looks; nothing in it depends on when that is. What it serves comes from fake-rollouts.ts.
 */
import { KvCache, type Prompt, type Segment } from './fake-cache.ts';

/** Numbers in [0, 1) from a seed (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

export class Histogram {
  readonly bounds: readonly number[];
  /** Not cumulative; the last is what lies above all bounds. */
  readonly counts: Float64Array;
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number, times = 1): void {
    let i = 0;
    while (i < this.bounds.length && value > this.bounds[i]!) i++;
    this.counts[i]! += times;
    this.sum += value * times;
    this.count += times;
  }
}

export const finishReasons = ['stop', 'length', 'abort', 'error', 'repetition'] as const;

export interface FakeRequest {
  step: number;
  prompt: Prompt;
  /** The max_tokens it was sent with, and how long its answer will be. */
  maxTokens: number;
  target: number;
  /** Seconds; NaN until it happened. */
  arrivedAt: number;
  queuedAt: number;
  scheduledAt: number;
  firstTokenAt: number;
  lastTokenAt: number;
  cachedTokens: number;
  generated: number;
  preemptions: number;
  reason: '' | 'stop' | 'length';
  /** The engine was killed under it. */
  lost: boolean;
  /** The scheduler's own: tokens whose KV is there, tokens of this step, blocks held alone, tokens that fit. */
  computed: number;
  planned: number;
  blocks: number;
  room: number;
}

export interface EngineShape {
  /** --max-num-seqs, num_gpu_blocks, --max-num-batched-tokens of a vLLM server. */
  maxRunning: number;
  blocks: number;
  blockSize: number;
  maxModelLen: number;
  batchTokens: number;
  /** Seconds of an engine step: for an empty one, each request in it, each prompt token in it. */
  stepSeconds: number;
  requestSeconds: number;
  promptTokenSeconds: number;
}

const upTo = (max: number): number[] => {
  const bounds: number[] = [];
  for (let decade = 1; decade <= max; decade *= 10)
    bounds.push(...[1, 2, 5].map((m) => m * decade).filter((b) => b <= max));
  return bounds;
};
const ttft = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640,
  2560,
];
const itl = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const latency = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const iteration = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];

function emptyCounts(maxModelLen: number) {
  const tokens = upTo(maxModelLen);
  return {
    queries: 0,
    hits: 0,
    preemptions: 0,
    promptTokens: 0,
    cachedTokens: 0,
    generationTokens: 0,
    finished: { stop: 0, length: 0, abort: 0, error: 0, repetition: 0 },
    requestPromptTokens: new Histogram(tokens),
    requestGenerationTokens: new Histogram(tokens),
    iterationTokens: new Histogram(iteration),
    requestMaxGenerationTokens: new Histogram(tokens),
    paramsN: new Histogram([1, 2, 5, 10, 20]),
    paramsMaxTokens: new Histogram(tokens),
    ttft: new Histogram(ttft),
    itl: new Histogram(itl),
    timePerToken: new Histogram(itl),
    e2e: new Histogram(latency),
    queue: new Histogram(latency),
    inference: new Histogram(latency),
    prefill: new Histogram(latency),
    decode: new Histogram(latency),
    requestPreemptions: new Histogram([1, 2, 3, 4, 5, 10, 20]),
    prefillComputed: new Histogram(tokens),
  };
}

/** From the HTTP server to the scheduler's queue: tokenizing and the way to the engine's process. */
const frontendSeconds = 0.004;

export class FakeEngine {
  readonly index: number;
  readonly shape: EngineShape;
  counts: ReturnType<typeof emptyCounts>;
  /** As the last engine step left them, which is when vLLM sets them. */
  gauges = { running: 0, waiting: 0, kvUsage: 0 };
  sleepLevel: 0 | 1 | 2 = 0;
  /** Engine steps since it was started. */
  steps = 0;
  up = true;
  /** When its last request ended. */
  idleSince = 0;
  /** From here on answers come to their end within a few tokens: a rollout has only so long. */
  drainAt = Infinity;
  /** Asked when it runs dry; may submit more. */
  onDry: (at: number) => void = () => {};
  onFinished: (request: FakeRequest, at: number) => void = () => {};

  private system: Segment;
  private cache: KvCache;
  private running: FakeRequest[] = [];
  private waiting: FakeRequest[] = [];
  private at = 0;
  private stepEnd: number | null = null;
  /** Of the step that runs; counted when it ends, which is when vLLM's API server hears of it. */
  private admitted: FakeRequest[] = [];
  private preempted: FakeRequest[] = [];
  private random: () => number;

  constructor(index: number, shape: EngineShape, seed: number, systemTokens: number) {
    this.index = index;
    this.shape = shape;
    this.random = seeded(seed);
    this.system = { blocks: Math.floor(systemTokens / shape.blockSize), resident: 0, users: 0 };
    this.cache = new KvCache(shape.blocks);
    this.counts = emptyCounts(shape.maxModelLen);
  }

  get idle(): boolean {
    return this.running.length === 0 && this.waiting.length === 0;
  }

  /** Requests that it has now, for whoever wants its answers to depend on load. */
  get load(): number {
    return this.running.length + this.waiting.length;
  }

  /** Starts it anew: nothing of before is left but the requests that were lost. */
  restart(at: number): void {
    this.kill();
    this.up = true;
    this.cache = new KvCache(this.shape.blocks);
    this.system = { ...this.system, resident: 0, users: 0 };
    this.counts = emptyCounts(this.shape.maxModelLen);
    this.gauges = { running: 0, waiting: 0, kvUsage: 0 };
    this.sleepLevel = 0;
    this.steps = 0;
    this.at = at;
    this.idleSince = at;
  }

  kill(): void {
    for (const request of [...this.running, ...this.waiting]) request.lost = true;
    this.running = [];
    this.waiting = [];
    this.admitted = [];
    this.preempted = [];
    this.stepEnd = null;
    this.up = false;
  }

  /** A prompt that begins with the system prompt; never found whole in the cache, its last block is computed. */
  prompt(tokens: number): Prompt {
    const shared = Math.floor((tokens - 1) / this.shape.blockSize);
    const own = { blocks: Math.max(0, shared - this.system.blocks), resident: 0, users: 0 };
    return { tokens, system: this.system, own };
  }

  submit(
    prompt: Prompt,
    count: number,
    answer: () => { target: number; maxTokens: number },
    step: number,
    at: number,
  ) {
    const requests = Array.from({ length: count }, (): FakeRequest => {
      const { target, maxTokens } = answer();
      if (
        prompt.tokens + maxTokens >
        Math.min(this.cache.usable * this.shape.blockSize, this.shape.maxModelLen)
      )
        throw new Error(`a request of ${prompt.tokens} + ${maxTokens} tokens can never fit`);
      return {
        step,
        prompt,
        maxTokens,
        target,
        arrivedAt: at,
        queuedAt: at + frontendSeconds,
        scheduledAt: NaN,
        firstTokenAt: NaN,
        lastTokenAt: NaN,
        cachedTokens: 0,
        generated: 0,
        preemptions: 0,
        reason: '',
        lost: false,
        computed: 0,
        planned: 0,
        blocks: 0,
        room: 0,
      };
    });
    if (this.idle) this.at = at + frontendSeconds;
    this.waiting.push(...requests);
    return requests;
  }

  forgetPrefixes(): void {
    this.cache.forget();
  }

  /** Runs all engine steps that end at or before `until`. */
  advance(until: number): void {
    while (this.up) {
      if (this.stepEnd === null) {
        if (this.idle) this.onDry(this.at);
        if (this.idle) {
          this.at = Math.max(this.at, until);
          return;
        }
        this.stepEnd = this.at + this.plan();
      }
      if (this.stepEnd > until) return;
      this.finishStep(this.stepEnd);
      this.stepEnd = null;
    }
  }

  /** Decides what the next step computes, as vLLM's scheduler does; gives the step's seconds. */
  private plan(): number {
    const { shape, running, waiting } = this;
    let budget = shape.batchTokens;
    let preempted = false;
    for (let i = 0; i < running.length; i++) {
      const request = running[i]!;
      request.planned = Math.min(request.prompt.tokens + request.generated - request.computed, budget);
      budget -= request.planned;
      if (request.computed + request.planned <= request.room) continue;
      // Room for one more token: the youngest go back to waiting until there is some.
      while (!this.cache.take(1)) {
        preempted = true;
        if (this.preemptYoungest() === request) break;
      }
      if (i >= running.length) break;
      request.blocks++;
      request.room += shape.blockSize;
    }
    while (!preempted && waiting.length > 0 && running.length < shape.maxRunning && budget > 0) {
      const request = waiting[0]!;
      const total = request.prompt.tokens + request.generated;
      const blocks = Math.ceil(total / shape.blockSize);
      const own = blocks - request.prompt.system.blocks - request.prompt.own.blocks;
      const found = this.cache.admit(request.prompt, own);
      if (found < 0) break;
      waiting.shift();
      running.push(request);
      request.blocks = own;
      request.room = blocks * shape.blockSize;
      request.computed = found * shape.blockSize;
      request.planned = Math.min(total - request.computed, budget);
      budget -= request.planned;
      if (!Number.isNaN(request.scheduledAt)) continue; // preempted before: its look-up is not counted again
      request.cachedTokens = request.computed;
      this.admitted.push(request);
    }
    const prefill = shape.batchTokens - budget - running.length;
    const seconds =
      shape.stepSeconds +
      running.length * shape.requestSeconds +
      Math.max(0, prefill) * shape.promptTokenSeconds;
    return seconds * (1 + 0.15 * this.random());
  }

  private preemptYoungest(): FakeRequest {
    const request = this.running.pop()!;
    this.cache.release(request.prompt, request.blocks);
    request.computed = 0;
    this.preempted.push(request);
    this.waiting.unshift(request);
    return request;
  }

  private finishStep(end: number): void {
    const { counts, running } = this;
    let kept = 0;
    let outputs = 0;
    let computed = 0;
    let even = 0;
    for (const request of this.admitted.splice(0)) {
      request.scheduledAt = this.at;
      counts.queries += request.prompt.tokens;
      counts.hits += request.cachedTokens;
    }
    for (const request of this.preempted.splice(0)) {
      request.preemptions++;
      counts.preemptions++;
    }
    for (let i = 0; i < running.length; i++) {
      const request = running[i]!;
      request.computed += request.planned;
      running[kept++] = request;
      if (request.computed < request.prompt.tokens + request.generated) continue;
      outputs++;
      if (request.generated++ === 0) {
        request.firstTokenAt = end;
        counts.promptTokens += request.prompt.tokens;
        counts.cachedTokens += request.cachedTokens;
        computed += request.prompt.tokens - request.cachedTokens;
        counts.ttft.observe(end - request.arrivedAt);
      } else if (request.lastTokenAt === this.at) even++;
      else counts.itl.observe(end - request.lastTokenAt);
      request.lastTokenAt = end;
      if (request.generated < request.target && !(end > this.drainAt && this.random() < 0.15)) continue;
      kept--;
      this.finish(request, end);
    }
    running.length = kept;
    if (even > 0) counts.itl.observe(end - this.at, even);
    if (outputs > 0) counts.iterationTokens.observe(computed + outputs);
    counts.generationTokens += outputs;
    this.at = end;
    this.steps++;
    if (this.idle) this.idleSince = end;
    this.gauges = { running: kept, waiting: this.waiting.length, kvUsage: this.cache.usage };
  }

  private finish(request: FakeRequest, end: number): void {
    const { counts } = this;
    const { prompt, generated, arrivedAt, queuedAt, scheduledAt, firstTokenAt } = request;
    this.cache.release(prompt, request.blocks);
    request.reason = generated >= request.maxTokens ? 'length' : 'stop';
    counts.finished[request.reason]++;
    counts.requestPromptTokens.observe(prompt.tokens);
    counts.requestGenerationTokens.observe(generated);
    counts.requestMaxGenerationTokens.observe(generated);
    counts.paramsN.observe(1);
    counts.paramsMaxTokens.observe(request.maxTokens);
    counts.timePerToken.observe(generated > 1 ? (end - firstTokenAt) / (generated - 1) : 0);
    counts.e2e.observe(end - arrivedAt);
    counts.queue.observe(scheduledAt - queuedAt);
    counts.inference.observe(end - scheduledAt);
    counts.prefill.observe(firstTokenAt - scheduledAt);
    counts.decode.observe(end - firstTokenAt);
    counts.requestPreemptions.observe(request.preemptions);
    counts.prefillComputed.observe(prompt.tokens - request.cachedTokens);
    this.onFinished(request, end);
  }
}
