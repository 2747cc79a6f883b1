/**
 * The scalars of the run on screen: what is there at once, more as the engine gets on with older steps, and the numbers
 * of a step that is still running, which come from its window as it is now. Says what to ask for; when it is asked is
 * asked.svelte.ts.
 */
import type { MetricStatistics, Remote, Scalars, ScalarSeries, Step } from '../electron/engine/api.ts';
import { Asked } from './asked.svelte.ts';
import type { Span } from './span.ts';

interface Wish {
  metrics: string[];
  workers: number[];
}

interface RunningWish extends Span {
  n: number;
  metrics: string[];
}

interface Running {
  n: number;
  statistics: MetricStatistics[];
}

/** Between asks while steps are being computed behind, and of the running step. */
const progressMs = 1000;
const runningMs = 2000;

export class ScalarData {
  readonly #scalars: Asked<Wish, Scalars>;
  readonly #running: Asked<RunningWish, Running>;
  readonly #found = $derived.by(() => withRunning(this.#scalars.found, this.#running.found));
  readonly #methods: Remote;
  readonly #run: string;
  #asked = '';

  constructor(methods: Remote, run: string) {
    this.#methods = methods;
    this.#run = run;
    this.#scalars = new Asked(
      (wish, signal) => methods.scalars({ run, source: null, quick: true, ...wish }, signal),
      progressMs,
    );
    this.#running = new Asked(
      async ({ n, from, to, metrics }, signal) => ({
        n,
        statistics: await methods.statistics({ run, metrics, from, to, coarse: true }, signal),
      }),
      runningMs,
    );
  }

  /** null: not read yet. */
  get found(): Scalars | null {
    return this.#found;
  }

  get fault(): string | null {
    return this.#scalars.fault;
  }

  get late(): boolean {
    return this.#scalars.late;
  }

  /** Other metrics or workers are asked for at once; the same ones when there may be more of them. */
  want(wish: Wish) {
    const key = JSON.stringify(wish);
    if (key === this.#asked) this.#scalars.want(wish);
    else this.#scalars.wantAnew(wish, 0);
    this.#asked = key;
  }

  /** Steps that are not computed yet stay so, until `goOn`. */
  async stop() {
    await this.#methods.stopScalars(this.#run);
    this.#again();
  }

  async goOn() {
    await this.#methods.resumeScalars(this.#run);
    this.#again();
  }

  #again() {
    if (this.#asked !== '') this.#scalars.wantAnew(JSON.parse(this.#asked) as Wish, 0);
  }

  /** The step that is running, up to now. */
  wantRunning(step: Step, now: number, metrics: string[]) {
    if (now > step.from) this.#running.want({ n: step.n, from: step.from, to: now, metrics });
  }

  close() {
    this.#scalars.close();
    this.#running.close();
  }
}

/** Writes over the place of the running step: its arrays are this page's own. */
function withRunning(scalars: Scalars | null, running: Running | null): Scalars | null {
  const i = scalars?.steps.findLastIndex((s) => s.n === running?.n && s.to === null) ?? -1;
  if (!scalars || !running || i < 0) return scalars;
  for (const series of scalars.series) {
    const s = running.statistics.find((x) => x.metric === series.metric);
    if (s) put(series, s, i);
  }
  return { ...scalars };
}

const aggregates = ['mean', 'min', 'max', 'p50', 'p95', 'sum', 'n'] as const;
const percentiles = ['p50', 'p95', 'p99'] as const;

function put(series: ScalarSeries, s: MetricStatistics, i: number) {
  for (const key of aggregates) {
    series.samples[key][i] = s.samples[key] ?? NaN;
    series.workers[key][i] = s.workers[key] ?? NaN;
  }
  series.pooled[i] = s.pooled ?? NaN;
  series.coverage[i] = s.coverage ?? NaN;
  series.lowerBound[i] = s.lowerBound ? 1 : 0;
  const { requests } = series;
  if (requests && s.requests) {
    for (const key of percentiles) requests[key][i] = s.requests[key] ?? NaN;
    requests.n[i] = s.requests.n;
    requests.atLeast[i] = percentiles.reduce(
      (bits, key, b) => bits | (s.requests?.atLeast[key] ? 1 << b : 0),
      0,
    );
  }
  for (const own of series.each) {
    const e = s.each.find(({ w }) => w === own.w);
    for (const key of ['mean', 'min', 'max', 'p50', 'p95', 'sum'] as const) own[key][i] = e?.[key] ?? NaN;
    own.pooled[i] = e?.ratio ?? NaN;
  }
}
