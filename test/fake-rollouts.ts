/**
 * The stand-in for the trainer: synchronous rollouts over all engines. A step sends every engine its share of
 * prompts, each asked for a group of answers of lognormal length; it ends when the last engine is done; then the
 * trainer trains, the weights change, the prefix caches are emptied, and the next begins. An engine that runs dry
 * early gets further groups (as with dynamic sampling), so none idles for long. Engines differ in load and speed.
 */
import { seeded, type FakeEngine, type FakeRequest } from './fake-engine.ts';

export interface RolloutOptions {
  seed: number;
  /** Seconds from a step's begin to its end, and from there to the next: [least, most]. */
  stepSeconds: [number, number];
  pauseSeconds: [number, number];
  /** Engines sleep (level 1) while the trainer trains. */
  sleepBetweenSteps: boolean;
  /** This engine is given as much as if it were as fast as its neighbour, and is not hurried at a step's end. */
  straggler: number | null;
  /** Keep every request for comparison (memory grows with them). */
  keepRequests: boolean;
}

/** What really happened; times in seconds of the model. */
export interface RolloutStep {
  number: number;
  begin: number;
  end: number | null;
}

/** A slow worker now and then, the same one all the time. */
export const slowEvery = 8;
/** So much of a full batch's work is sent at once; the rest of the step is the tail and further groups. */
const firstShare = 0.62;
/** Answers asked for a prompt; a router that spreads them leaves each engine fewer to share it. */
const groupSizes = [8, 7, 6, 5, 4, 3];
export const systemTokens = 256;

interface Share {
  engine: FakeEngine;
  /** What makes one engine differ from another: how much of a step's work, prompts up to how long, how shared. */
  load: number;
  promptTokens: number;
  group: number;
  random: () => number;
}

export class Rollouts {
  readonly steps: RolloutStep[] = [];
  /** With keepRequests: all that were ever sent, by engine. */
  readonly requests = new Map<FakeEngine, FakeRequest[]>();
  /** Called when a step is over and the weights have changed. */
  onUpdated: (at: number) => void = () => {};
  private shares: Share[];
  private options: RolloutOptions;
  private random: () => number;
  private next: number;
  private length = 0;

  constructor(engines: FakeEngine[], options: RolloutOptions, firstBegin: number) {
    this.options = options;
    this.random = seeded(options.seed * 7919 + 1);
    this.next = firstBegin;
    this.shares = engines.map((engine, worker) => {
      const random = seeded(options.seed * 104729 + worker * 31 + 2);
      engine.onDry = (at) => this.refill(worker, at);
      if (options.keepRequests) this.requests.set(engine, []);
      return {
        engine,
        load: worker === options.straggler ? 1 : 0.75 + 0.45 * random(),
        promptTokens: 200 + 600 * random(),
        group: groupSizes[Math.floor(groupSizes.length * random())]!,
        random,
      };
    });
  }

  /** The step that runs, or null while the trainer trains. */
  private get open(): RolloutStep | null {
    const last = this.steps.at(-1);
    return last?.end === null ? last : null;
  }

  /** Brings all engines to this moment. */
  advance(at: number): void {
    for (;;) {
      const step = this.open;
      if (!step) {
        if (at < this.next) break;
        this.begin(this.next);
        continue;
      }
      let end = step.begin;
      let busy = false;
      for (const { engine } of this.shares) {
        engine.advance(at);
        if (!engine.up) continue;
        if (engine.idle) end = Math.max(end, engine.idleSince);
        else busy = true;
      }
      if (busy || at < step.begin + this.length - this.lastCall) break;
      step.end = end;
      this.next = Math.max(end + this.between(this.options.pauseSeconds), step.begin + this.length);
    }
    for (const { engine } of this.shares) {
      engine.advance(at);
      const pause = this.options.sleepBetweenSteps && !this.open && this.steps.length > 0;
      engine.sleepLevel = pause && at < this.next - 0.2 ? 1 : 0;
    }
  }

  /** So many seconds before its end a step sends no further groups. */
  private get lastCall(): number {
    return Math.min(2, this.length / 4);
  }

  private between([least, most]: [number, number]): number {
    return least + (most - least) * this.random();
  }

  private begin(at: number): void {
    if (this.steps.length > 0) {
      for (const { engine } of this.shares) engine.forgetPrefixes();
      this.onUpdated(at);
    }
    this.length = this.between(this.options.stepSeconds);
    const step = { number: this.steps.length, begin: at, end: null };
    this.steps.push(step);
    for (const [worker, share] of this.shares.entries()) {
      const { engine, load, group } = share;
      if (!engine.up) continue;
      const straggles = worker === this.options.straggler;
      engine.drainAt = straggles ? Infinity : at + this.length;
      const taken = straggles ? this.shares[(worker + 1) % this.shares.length]!.engine : engine;
      const { maxRunning, stepSeconds, requestSeconds } = taken.shape;
      const rate = maxRunning / (stepSeconds + maxRunning * requestSeconds);
      const tokens = firstShare * load * this.length * rate;
      this.send(share, Math.max(1, Math.round(tokens / group / this.meanTokens)), at, Infinity);
    }
  }

  /** An engine has nothing left: further groups, short enough to end with the step. */
  private refill(worker: number, at: number): void {
    const left = (this.open?.begin ?? 0) + this.length - at;
    const share = this.shares[worker]!;
    if (!this.open || left < this.lastCall || worker === this.options.straggler) return;
    share.engine.drainAt = at + left;
    const { stepSeconds, requestSeconds } = share.engine.shape;
    this.send(
      share,
      Math.round(24 / share.group),
      at,
      Math.floor((0.8 * left) / (stepSeconds + 24 * requestSeconds)),
    );
  }

  private get medianTokens(): number {
    return 8 * ((this.options.stepSeconds[0] + this.options.stepSeconds[1]) / 2);
  }

  private get meanTokens(): number {
    return 1.3 * this.medianTokens;
  }

  private send(
    { engine, random, promptTokens, group }: Share,
    groups: number,
    at: number,
    most: number,
  ): void {
    const maxTokens = Math.ceil(4 * this.medianTokens);
    // Box-Muller; a heavy right tail is what makes a rollout's end slow.
    const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const answer = () => {
      const length = Math.round(this.medianTokens * Math.exp(0.8 * normal()));
      return { target: Math.max(1, Math.min(length, maxTokens, most)), maxTokens };
    };
    for (let i = 0; i < groups; i++) {
      const prompt = engine.prompt(systemTokens + 40 + Math.floor(promptTokens * random()));
      const requests = engine.submit(prompt, group, answer, this.steps.length - 1, at);
      this.requests.get(engine)?.push(...requests);
    }
  }
}
