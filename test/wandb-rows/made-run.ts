/**
 * A long run for rows.py and the engine to agree on: idle steps and as many marks, eight workers behind four endpoints,
 * with what makes rows hard: restarts, failed scrapes, answers that take long, families and workers that come late, an
 * endpoint that is gone for half a minute, ticks that did not happen. Where it is asked for, an endpoint is taken away
 * and another one is lost before the end. Written by the real book and store; values are made up.
 */
import type { ParsedHistogram } from '../../electron/engine/parse.ts';
import { bodyOf, RunMaker, START } from '../run-files.ts';
import { chance } from '../wandb-uploads.ts';

const IDLE_TICKS = 5;
const ENDPOINTS = 4;
const LATE_WORKER = 7;
const LATE_FROM = 310;
/** Engines that are restarted twice in ten scrapes would be taken for a load balancer. */
const REST_AFTER_RESTART = 40;
const nobody = () => false;
const everybody = () => true;
const bounds = [
  [0.1, 0.5, 1, 5, 10],
  [0.25, 0.5, 1, 2.5, 5, 20],
];

interface MadeWorker {
  values: Record<string, number>;
  ttft: number[];
  restarted: number;
  created: number;
}

const fresh = (created: number, w: number): MadeWorker => ({
  values: {
    ...{ prompt_tokens: 0, generation_tokens: 0, prefix_queries: 0, prefix_hits: 0, preemptions: 0 },
    ...{ ttft_sum: 0, ttft_count: 0, iteration_tokens_sum: 0, iteration_tokens_count: 0 },
  },
  ttft: new Array<number>(bounds[w % 2]!.length + 1).fill(0),
  restarted: 0,
  created,
});

export interface MadeRun {
  /** Another one makes other numbers. */
  seed: number;
  steps: number;
  /** The steps before whose work the third endpoint is taken away and the fourth refuses for good. */
  taken?: number;
  lost?: number;
  /** The worker that comes late says that it was created a moment before, so that all it counted is known. */
  young?: boolean;
  /** Workers that go on for three ticks when the others have ended. */
  slow?: readonly number[];
}

/** The file is closed when it returns. */
export function makeRun(file: string, made: MadeRun): void {
  const { seed, steps, taken = Infinity, lost = Infinity, young = false, slow = [] } = made;
  const random = chance(seed);
  const upTo = (n: number) => Math.floor(random() * (n + 1));
  const run = new RunMaker(file, ENDPOINTS);
  const workers = Array.from({ length: 2 * ENDPOINTS }, (_, w) => fresh(START / 1000 - 500, w));
  if (young) workers[LATE_WORKER]!.created = START / 1000 + LATE_FROM - 0.001; // Date headers have whole seconds
  const settings = { minIdleSeconds: 2, minStepSeconds: 2, everySeconds: 60 };

  const work = (w: number, t: number): void => {
    const one = workers[w]!;
    if (random() < 0.004 && t - one.restarted > REST_AFTER_RESTART)
      Object.assign(one, fresh(START / 1000 + t - 0.5, w), { restarted: t });
    const { values, ttft } = one;
    const add = (column: string, by: number) => (values[column]! += by);
    if (random() < 0.2) return; // no traffic
    add('generation_tokens', upTo(5000));
    const asked = upTo(3000);
    for (const column of ['prompt_tokens', 'prefix_queries']) add(column, asked);
    add('prefix_hits', upTo(asked));
    add('preemptions', random() < 0.1 ? upTo(7) : 0);
    add('iteration_tokens_sum', upTo(900));
    add('iteration_tokens_count', 1 + upTo(20));
    for (let i = upTo(4); i > 0; i--) {
      const place = upTo(ttft.length - 1);
      ttft[place]!++;
      add('ttft_count', 1);
      add('ttft_sum', bounds[w % 2]![place] ?? 40);
    }
  };

  /** What worker `w` says; a family that it does not count yet is not in it. */
  const said = (w: number, t: number, busy: boolean) => {
    const { values, ttft, created } = workers[w]!;
    const known = { ...values };
    // families that a starting server lacks
    if (t < 6 + w) delete known.preemptions;
    const late = t < 20 && w % 2 === 1;
    if (late) for (const column of ['ttft_sum', 'ttft_count']) delete known[column];
    let counted = 0;
    const counts = ttft.map((n) => (counted += n));
    const ttftBuckets = { bounds: JSON.stringify(bounds[w % 2]), counts };
    const buckets: Record<string, ParsedHistogram> = late ? {} : { ttft: ttftBuckets };
    return {
      engine: String(w % 2),
      ...{ model: 'm', created },
      values: {
        ...known,
        running: busy ? 1 + upTo(63) : 0,
        waiting: busy ? upTo(30) : 0,
        kv_usage: busy ? random() : 0,
      },
      buckets,
    };
  };

  let t = 0;
  const tick = (step: number, isBusy: (w: number) => boolean): void => {
    const busy = isBusy(0);
    const at = START + t * 1000;
    const answers = [];
    const misses = [];
    const gone = (e: number) => (e === 1 && t >= 500 && t < 535) || (e === 3 && step >= lost);
    for (let e = 0; e < ENDPOINTS; e++) {
      if (e === 2 && step >= taken) continue;
      const own = [2 * e, 2 * e + 1].filter((w) => w !== LATE_WORKER || t >= LATE_FROM);
      for (const w of own) if (isBusy(w)) work(w, t);
      const sentAt = at + upTo(30);
      const took = random() < 0.1 ? 400 + upTo(500) : 4 + upTo(60) + random();
      const fails = gone(e) ? 'refused' : busy && random() < 0.06 ? 'timeout' : null;
      if (fails !== null)
        misses.push({ endpoint: e, reason: fails, sentence: 'failed.', asked: true } as const);
      else
        answers.push({
          ...{
            endpoint: e,
            sentAt,
            receivedAt: sentAt + took,
            body: bodyOf(own.map((w) => said(w, t, isBusy(w)))),
          },
          serverAt: Math.floor((sentAt + took) / 1000) * 1000,
          version: null,
        });
    }
    run.tick(t, at, answers, misses);
    t++;
    if (random() < 0.005) t += upTo(3); // our own ticks that did not happen
  };

  for (let step = 0; step < steps; step++) {
    if (step === taken) run.store.writeEndpoints([], [2], []);
    for (let i = 0; i < IDLE_TICKS; i++) tick(step, nobody);
    // a mark lies anywhere between two scrapes; some steps end before the next begins
    const kind = step % 10 === 9 ? 'eval' : step % 17 === 16 ? 'other' : 'train';
    const number = kind === 'train' ? 100 + step : null;
    run.store.steps.mark({ number, kind, at: START + t * 1000 - upTo(1500), end: false }, settings);
    for (let i = 4 + upTo(4); i > 0; i--) tick(step, everybody);
    if (slow.length > 0) for (let i = 0; i < 3; i++) tick(step, (w) => slow.includes(w));
    if (step % 3 === 0)
      run.store.steps.mark(
        { number: null, kind: null, at: START + t * 1000 - upTo(900), end: true },
        settings,
      );
  }
  for (let i = 0; i < IDLE_TICKS; i++) tick(steps, nobody);
  run.store.close(START + t * 1000);
}
