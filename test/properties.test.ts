/**
 * The SQL against a plain reference, on seeded random runs with restarts, gaps, late workers, absent values and zero
 * to two samples: deltas of a window, deltas over any split of it, rates, aggregates, rollups.
 */
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { rollUpRun } from '../electron/engine/recording.ts';
import { answerOf, bodyOf, readerFor, RunMaker, START, temporaryFolder } from './run-files.ts';

/** mulberry32: small, seeded, good enough. */
function random(seed: number): () => number {
  let a = seed;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

interface Sample {
  t: number;
  at: number;
  /** null: the body lacked it. */
  queries: number | null;
  hits: number | null;
  running: number;
  /** Counted up at every restart. */
  life: number;
}

/** A run of random workers; each is a list of what was seen of it. */
function make(seed: number, slots: number): Sample[][] {
  const rnd = random(seed);
  const workers = 1 + Math.floor(rnd() * 4);
  return Array.from({ length: workers }, () => {
    const samples: Sample[] = [];
    let queries = Math.floor(rnd() * 1e6);
    let hits = Math.floor(queries * rnd());
    let life = 0;
    const from = rnd() < 0.3 ? Math.floor(rnd() * slots) : 0;
    let away = 0;
    let absent = rnd() < 0.2 ? 3 : 0;
    let sinceRestart = 0;
    for (let t = from; t < slots; t++) {
      sinceRestart++;
      if (rnd() < 0.02 && sinceRestart > 12) {
        life++;
        queries = 0;
        hits = 0;
        sinceRestart = 0;
      }
      if (rnd() < 0.7) {
        const more = Math.floor(rnd() * 1000);
        queries += more;
        hits += Math.floor(more * rnd());
      }
      if (away > 0) away--;
      else if (rnd() < 0.05) away = Math.floor(rnd() * 15);
      if (away > 0) continue;
      if (absent > 0) absent--;
      else if (rnd() < 0.03) absent = Math.floor(rnd() * 5);
      const at = START + t * 1000 + Math.floor(rnd() * 200);
      samples.push({
        t,
        at,
        queries: absent > 0 ? null : queries,
        hits: absent > 0 ? null : hits,
        running: Math.floor(rnd() * 64),
        life,
      });
    }
    return samples;
  });
}

/** arithmetic.md, "Delta of a counter", as plainly as it can be written. Of a run that has one complete body before. */
function deltas(samples: Sample[], value: (s: Sample) => number | null) {
  const found: { at: number; delta: number | null; seconds: number | null; reset: boolean }[] = [];
  let before: Sample | null = null;
  samples.forEach((s, i) => {
    const v = value(s);
    if (v === null) return;
    if (before === null) {
      const bodyBefore = samples[i - 1];
      found.push({
        at: s.at,
        delta: bodyBefore ? v : null,
        seconds: bodyBefore ? (s.at - bodyBefore.at) / 1000 : null,
        reset: false,
      });
    } else {
      const p = value(before)!;
      const reset = s.life !== before.life || v < p;
      found.push({ at: s.at, delta: reset ? v : v - p, seconds: (s.at - before.at) / 1000, reset });
    }
    before = s;
  });
  return found;
}

/** (a, b] of a window: a = the last sample at or before the begin, b = the first at or after the end. */
function owned<T extends { at: number }>(all: { at: number }[], of: T[], begin: number, end: number): T[] {
  const a = Math.max(-Infinity, ...all.filter((s) => s.at <= begin).map((s) => s.at));
  const later = all.filter((s) => s.at >= end).map((s) => s.at);
  const b = later.length > 0 ? Math.min(...later) : Infinity;
  return of.filter((d) => d.at > a && d.at <= b);
}

const total = (list: { delta: number | null }[]) =>
  list.every((d) => d.delta === null) ? null : list.reduce((sum, d) => sum + (d.delta ?? 0), 0);
const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length;
/** numpy.percentile's default. */
function percentile(values: number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const h = (sorted.length - 1) * p;
  const low = Math.floor(h);
  return sorted[low]! + (h - low) * ((sorted[low + 1] ?? sorted[low]!) - sorted[low]!);
}

function write(file: string, workers: Sample[][], slots: number): RunMaker {
  const run = new RunMaker(file, workers.length);
  for (let t = 0; t < slots; t++) {
    const answers = workers.flatMap((samples, e) => {
      const s = samples.find((x) => x.t === t);
      if (!s) return [];
      const values: Record<string, number> = { running: s.running };
      if (s.queries !== null) values.prefix_queries = s.queries;
      if (s.hits !== null) values.prefix_hits = s.hits;
      return [answerOf(e, s.at, bodyOf([{ created: 1e9 + s.life * 100, values }]))];
    });
    run.tick(t, START + t * 1000, answers);
  }
  return run;
}

const slots = 150;
test.each([1, 2, 3, 4, 5, 6, 7, 8])('seed %i', async (seed) => {
  const workers = make(seed, seed === 1 ? 2 : seed === 2 ? 1 : slots);
  const file = path.join(temporaryFolder(onTestFinished), 'run.sqlite');
  const run = write(file, workers, slots);
  const reader = readerFor(onTestFinished);
  const rnd = random(seed + 1000);
  const ask = async (from: number, to: number) =>
    await reader.statistics(file, { run: '', metrics: ['prefix_cache_hit_rate', 'running'], from, to });
  const numberOf = new Map(
    (await reader.contents(file)).workerList.map((w) => [Number(/host-(\d+)/.exec(w.endpoint)![1]), w.w]),
  );

  for (let i = 0; i < 25; i++) {
    const from = START + Math.floor(rnd() * slots * 1000) - 2000;
    const to = from + 1 + Math.floor(rnd() * rnd() * slots * 1000);
    const [rate, running] = await ask(from, to);
    const ratios: number[] = [];
    let [parts, wholes] = [0, 0];
    for (const [e, samples] of workers.entries()) {
      const w = numberOf.get(e);
      if (w === undefined) continue;
      const got = rate!.each[w]!;
      const whole = owned(
        samples,
        deltas(samples, (s) => s.queries),
        from,
        to,
      );
      const part = owned(
        samples,
        deltas(samples, (s) => s.hits),
        from,
        to,
      );
      expect(got.whole, `worker ${e} of ${from}..${to}`).toBe(total(whole));
      expect(got.part).toBe(total(part));
      expect(got.resets).toBe(whole.filter((d) => d.reset).length);
      wholes += total(whole) ?? 0;
      parts += total(part) ?? 0;
      whole.forEach((d, n) => d.delta && ratios.push((part[n]!.delta ?? 0) / d.delta));
    }
    expect(rate!.pooled).toBe(wholes > 0 ? parts / wholes : null);
    expect(rate!.samples.n).toBe(ratios.length);
    if (ratios.length > 0) {
      expect(rate!.samples.mean).toBeCloseTo(mean(ratios), 9);
      expect(rate!.samples.p95).toBeCloseTo(percentile(ratios, 0.95), 9);
      expect(rate!.samples.p50).toBeCloseTo(percentile(ratios, 0.5), 9);
    }
    const levels = workers
      .flat()
      .filter((s) => s.at >= from && s.at <= to)
      .map((s) => s.running);
    expect(running!.samples.n).toBe(levels.length);
    if (levels.length > 0) {
      expect(running!.samples.mean).toBeCloseTo(mean(levels), 9);
      expect(running!.samples.p95).toBeCloseTo(percentile(levels, 0.95), 9);
    }

    // any split of the window, inside gaps too, adds up to the whole: edges touch, no sample falls between or twice
    const cut = from + Math.floor(rnd() * (to - from));
    const split = run.splitWholes(
      [
        [from, cut],
        [cut, to],
      ],
      'prefix_cache_hit_rate',
    );
    const whole = run.splitWholes([[from, to]], 'prefix_cache_hit_rate');
    expect(split).toEqual(whole);
  }

  // rollups: the whole run from the widest buckets
  await rollUpRun(run.store, reader, Infinity);
  const ticks = {
    run: '',
    metrics: ['prefix_cache_hit_rate', 'running'],
    from: START,
    to: START + 600_000,
    points: 10,
  };
  const rolled = await reader.timelines(file, ticks);
  expect(rolled.widthSeconds).toBe(60);
  for (const [e, samples] of workers.entries()) {
    const w = numberOf.get(e);
    if (w === undefined) continue;
    rolled.times.forEach((time, i) => {
      const inside = <T extends { at: number }>(list: T[]) =>
        list.filter((d) => d.at >= time && d.at < time + 60_000);
      const whole = total(inside(deltas(samples, (s) => s.queries))) ?? 0;
      const part = total(inside(deltas(samples, (s) => s.hits))) ?? 0;
      const at = w * rolled.times.length + i;
      if (whole > 0) expect(rolled.series[0]!.values[at]).toBe(Math.fround(part / whole));
      else expect(rolled.series[0]!.values[at]).toBeNaN();
      const levels = inside(samples).map((s) => s.running);
      if (levels.length > 0) {
        expect(rolled.series[1]!.values[at]).toBeCloseTo(mean(levels), 4);
        expect(rolled.series[1]!.max![at]).toBe(Math.max(...levels));
        expect(rolled.series[1]!.min![at]).toBe(Math.min(...levels));
      } else expect(rolled.series[1]!.values[at]).toBeNaN();
    });
  }
  run.store.close(START);
});
