/**
 * Steps that are found, against what really happened: recordings of a real vLLM with the truth of its requests, and a
 * stand-in with known phases under failing scrapes, late answers and restarts.
 */
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Step } from '../electron/engine/api.ts';
import { parse } from '../electron/engine/parse.ts';
import { StepKeeper } from '../electron/engine/step-keeper.ts';
import { RunStore } from '../electron/engine/store.ts';
import { fixedSteps, suggestions, WorkFinder, type FoundStep } from '../electron/engine/steps.ts';
import { seeded } from './fake-engine.ts';
import { begin, start, time } from './fake-time.ts';
import { writeRecording } from './recordings.ts';
import { readerFor, RunMaker, START, temporaryFolder } from './run-files.ts';

interface Truth {
  steps: { step: number; kind: string; begin: number; end: number }[];
  requests: {
    step: number;
    endpoint: number;
    sent: number;
    done: number;
    completion_tokens: number | null;
    error?: string;
  }[];
}

/** All steps of a run file, found as at the end of a recording. */
async function stepsOf(file: string) {
  const reader = readerFor(onTestFinished);
  const store = RunStore.open(file);
  const fault = (error: unknown) => expect.fail(String(error));
  await new StepKeeper(store, reader, () => undefined, fault).finish();
  store.close(START);
  return {
    reader,
    idle: (await reader.steps(file, 'idle')).steps,
    sleep: (await reader.steps(file, 'sleep')).steps,
  };
}

const secondsOf = (step: Step) => [(step.from - START) / 1000, ((step.to ?? NaN) - START) / 1000] as const;

function recording(name: 'rollouts' | 'dp2') {
  const file = path.join(temporaryFolder(onTestFinished), `${name}.sqlite`);
  writeRecording(name, file);
  const truth = JSON.parse(
    fs.readFileSync(path.join(import.meta.dirname, 'fixtures/recorded', `${name}.truth.json`), 'utf8'),
  ) as Truth;
  /** When a step's first request was sent and its last was done. */
  const work = truth.steps.map(({ step, begin: began }) => ({
    began,
    done: Math.max(...truth.requests.filter((r) => r.step === step).map((r) => r.done)),
  }));
  return { file, truth, work };
}

describe('recordings', () => {
  test('rollouts: idle steps are those of the trainer, also the one in which a worker died', async () => {
    const { file, truth, work } = recording('rollouts');
    const { reader, idle } = await stepsOf(file);
    expect(idle).toHaveLength(7);
    for (const [i, step] of idle.entries()) {
      const [from, to] = secondsOf(step);
      expect(Math.abs(from - work[i]!.began), `step ${i} begins`).toBeLessThanOrEqual(1);
      expect(Math.abs(to - work[i]!.done), `step ${i} ends`).toBeLessThanOrEqual(2);
      const [tokens] = await reader.statistics(file, {
        run: '',
        metrics: ['generation_tokens'],
        from: step.from,
        to: step.to!,
        previous: i > 0 ? { from: idle[i - 1]!.from, to: idle[i - 1]!.to! } : null,
      });
      expect(tokens!.lowerBound, `step ${i}`).toBe(i === 4);
      for (const w of [0, 1]) {
        const own = truth.requests.filter((r) => r.step === i && r.endpoint === w);
        if (own.some((r) => r.error)) continue; // the killed server's requests have no usage
        expect(tokens!.each[w]!.delta, `step ${i}, w${w}`).toBe(
          own.reduce((n, r) => n + (r.completion_tokens ?? 0), 0),
        );
      }
    }
    // the trainer says: eval
    expect(idle.map((s) => s.suggested)).toEqual([null, null, 'eval', null, null, null, null]);
    expect(idle.every((s) => s.kind === 'train')).toBe(true);
  });

  test('dp2: three steps by sleep; by idleness those of the trainer; the engine that waited is named', async () => {
    const { file, work } = recording('dp2');
    const { reader, idle, sleep } = await stepsOf(file);
    expect(sleep).toHaveLength(3);
    // the first holds the open phase and step 1; engines slept after it and woke for the next
    const [, firstEnd] = secondsOf(sleep[0]!);
    expect(firstEnd).toBeGreaterThan(work[1]!.done);
    expect(firstEnd).toBeLessThan(work[2]!.began);
    for (const [i, step] of idle.slice(-3).entries()) {
      const [from, to] = secondsOf(step);
      expect(Math.abs(from - work[i + 1]!.began), `step ${i + 1} begins`).toBeLessThanOrEqual(1);
      expect(Math.abs(to - work[i + 1]!.done), `step ${i + 1} ends`).toBeLessThanOrEqual(2);
    }
    // read off the raw gauges: at 68 and 69 s engine 1 had nothing to do while 0 worked; at 127 and 128 s the other way
    const [first, , third] = idle.slice(-3) as [Step, Step, Step];
    for (const [step, waited, worked] of [
      [first, 1, 0],
      [third, 0, 1],
    ] as const) {
      const told = await reader.stragglers(file, step.from, step.to!);
      expect(told.steps[0]!.last).toBe(worked);
      expect(told.steps[0]!.idleSeconds).toBe(2);
      expect(told.workers[waited]!.idleSeconds).toBe(2);
      expect(told.workers[worked]!.idleSeconds).toBe(0);
    }
  });
});

test('a hundred steps of known phases, none split, joined or invented, with failing and late scrapes and restarts', async () => {
  const cluster = await start({ workers: 4, stepSeconds: [7, 11], pauseSeconds: [4.5, 7], seed: 5 });
  const random = seeded(99);
  const file = path.join(temporaryFolder(onTestFinished), 'phases.sqlite');
  const run = new RunMaker(file, 4, 1000, begin);
  /** Slots without an answer, by endpoint: what an edge there may be off by. */
  const missed = cluster.endpoints.map(() => new Set<number>());
  const late = cluster.endpoints.map(() => ({ until: 0, asked: 0 }));
  const restarts = [
    { e: 1, at: 300, back: 330 },
    { e: 2, at: 900, back: 904 },
  ];
  let t = 0;
  while (cluster.rollouts.steps.length < 101) {
    time.now = begin + t * 1000;
    for (const r of restarts) {
      if (t === r.at) await cluster.endpoints[r.e]!.kill();
      if (t === r.back) await cluster.endpoints[r.e]!.start();
    }
    const answers = [];
    const misses = [];
    for (const [e, endpoint] of cluster.endpoints.entries()) {
      const down = restarts.some((r) => r.e === e && t >= r.at && t < r.back);
      const waits = late[e]!;
      if (down || (waits.until <= t && random() < 0.05)) {
        missed[e]!.add(t);
        const reason = down ? ('refused' as const) : ('timeout' as const);
        misses.push({ endpoint: e, reason, sentence: 'said nothing.', asked: true });
        waits.until = 0;
        continue;
      }
      if (waits.until === 0 && random() < 0.03) {
        waits.asked = t;
        waits.until = t + 1 + Math.floor(random() * 3);
      }
      if (waits.until > t) {
        missed[e]!.add(t);
        misses.push({
          endpoint: e,
          reason: 'late' as const,
          sentence: 'has not answered yet.',
          asked: t === waits.asked,
        });
        continue;
      }
      const asked = waits.until === t && t > 0 ? waits.asked : t;
      waits.until = 0;
      const at = 0.05 + 0.01 * e;
      time.now = begin + (t + at) * 1000;
      const text = await (await fetch(endpoint.url)).text();
      answers.push({
        endpoint: e,
        body: parse(text),
        sentAt: begin + asked * 1000 + 10,
        receivedAt: time.now,
        serverAt: null,
        version: null,
      });
    }
    run.tick(t, begin + t * 1000, answers, misses);
    t++;
  }
  run.store.close(time.now);

  const { idle } = await stepsOf(file);
  // the last one of the truth has only begun
  const truth = cluster.rollouts.steps.slice(0, 100);
  const closed = idle.filter((s) => s.to !== null);
  expect(closed).toHaveLength(100);
  for (const [i, step] of closed.entries()) {
    const { begin: from, end: to } = truth[i]!;
    /** Slots in a row around an edge in which somebody did not answer. */
    const failing = (second: number) => {
      const slot = Math.floor(second);
      let most = 0;
      for (const own of missed) {
        let [low, high] = [slot, slot + 1];
        while (own.has(low)) low--;
        while (own.has(high)) high++;
        most = Math.max(most, high - low - 1);
      }
      return most;
    };
    expect(Math.abs((step.from - begin) / 1000 - from), `step ${i} begins`).toBeLessThanOrEqual(
      1 + failing(from),
    );
    expect(Math.abs((step.to! - begin) / 1000 - to!), `step ${i} ends`).toBeLessThanOrEqual(1 + failing(to!));
  }
}, 120_000);

const interval = 1000;
/** One worker's states, a letter a second: . idle, x at work, blank: no answer. */
function found(
  lines: string[],
  settings = { minIdleSeconds: 2, minStepSeconds: 2 },
  give: [w: number, at: number][] = [],
) {
  const finder = new WorkFinder(settings, interval);
  const length = Math.max(...lines.map((l) => l.length));
  for (let t = 0; t < length; t++) {
    lines.forEach((line, w) => {
      const c = line[t] ?? ' ';
      if (c !== ' ') finder.take({ w, at: t * 1000, asked: t * 1000, epoch: 0, busy: c === 'x', work: null });
    });
    for (const [w, at] of give) if (at === t) finder.give(w, at * 1000);
    finder.settle(t * 1000);
  }
  const open = finder.finish((length - 1) * 1000);
  return [...finder.found, ...open].map((s) => [s.from / 1000, s.to === null ? null : s.to / 1000]);
}

describe('the rules', () => {
  test('a step lasts from half a slot after the last idle answer to half a slot before the first one after it', () => {
    expect(found(['..xxxx..'])).toEqual([[1.5, 5.5]]);
  });
  test('a cluster works while one worker does', () => {
    expect(found(['..xxx......', '....xxxx...'])).toEqual([[1.5, 7.5]]);
  });
  test('shorter breaks than the shortest one do not end a step', () => {
    expect(found(['..xxx.xxx...'])).toEqual([[1.5, 8.5]]);
    expect(found(['..xxx..xxx...'])).toEqual([
      [1.5, 4.5],
      [6.5, 9.5],
    ]);
    expect(found(['..xxx..xxx...'], { minIdleSeconds: 3, minStepSeconds: 2 })).toEqual([[1.5, 9.5]]);
  });
  test('shorter stretches than the shortest step are none', () => {
    expect(found(['...x......xxx...'])).toEqual([[9.5, 12.5]]);
  });
  test('who does not answer is not idle: the step goes on until the answer', () => {
    expect(found(['..xxx      ...'])).toEqual([[1.5, 10.5]]);
    // idle before and after: nothing happened in between, since nothing was counted
    expect(found(['.....  ......', '..xxx...xxx..'])).toEqual([
      [1.5, 4.5],
      [7.5, 10.5],
    ]);
  });
  test('who is given up ends its work where its silence began', () => {
    expect(found(['..xxx           ', '..xx............'], undefined, [[0, 5]])).toEqual([[1.5, 4.5]]);
  });
  test('what runs at the end stays open, what runs at the begin begins there', () => {
    expect(found(['..xxxx'])).toEqual([[1.5, null]]);
    expect(found(['xxxx...'])).toEqual([[0, 3.5]]);
  });
  test('a restart ends what was at work, also where the new process does not tell its levels yet', () => {
    const finder = new WorkFinder({ minIdleSeconds: 2, minStepSeconds: 2 }, interval);
    const states: [epoch: number, busy: boolean | null][] = [
      [0, false],
      [0, true],
      [0, true],
      [0, true],
      [1, null],
      [1, null],
      [1, null],
      [1, null],
      [1, true],
      [1, true],
      [1, true],
      [1, false],
      [1, false],
      [1, false],
    ];
    states.forEach(([epoch, busy], t) => {
      finder.take({ w: 0, at: t * 1000, asked: t * 1000, epoch, busy, work: null });
      finder.settle(t * 1000);
    });
    finder.finish(13_000);
    expect(finder.found).toEqual([
      { from: 500, to: 3500 },
      { from: 8000, to: 10_500 },
    ]);
  });
  test('tokens that were counted between two idle answers are work', () => {
    const finder = new WorkFinder({ minIdleSeconds: 2, minStepSeconds: 0 }, interval);
    [0, 0, 50, 50, 50, 50].forEach((work, t) =>
      finder.take({ w: 0, at: t * 1000, asked: t * 1000, epoch: 0, busy: false, work }),
    );
    finder.settle(5000);
    expect(finder.found).toEqual([{ from: 1500, to: 1500 }]);
  });
  test('steps of a fixed length: the last one is not over', () => {
    expect(fixedSteps(1000, 126_000, 60)).toEqual([
      { from: 1000, to: 61_000 },
      { from: 61_000, to: 121_000 },
      { from: 121_000, to: null },
    ]);
    expect(fixedSteps(1000, 1000, 60)).toEqual([]);
  });
  test('much shorter than the neighbours: an evaluation is suggested', () => {
    const steps = (...lengths: number[]): FoundStep[] => {
      let from = 0;
      return lengths.map((l) => ({ from, to: (from += l * 1000) }));
    };
    expect(suggestions(steps(40, 42, 8, 41, 40))).toEqual([null, null, 'eval', null, null]);
    expect(suggestions(steps(40, 42, 30, 41, 40))).toEqual([null, null, null, null, null]);
    expect(suggestions(steps(5, 40))).toEqual([null, null]);
  });
});
