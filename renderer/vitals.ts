/**
 * The seven vital numbers of a run, as texts: of a live run levels as of now and counters over the last 60 s, of a past
 * run the same over what is in view. Each says its window and its population, and names the worst worker. Pure.
 */
import type { MetricStatistics, Run, Worker } from '../electron/engine/api.ts';
import type { Figures } from './figures.svelte.ts';
import { absent, count, many, percent, rate, thin } from './format.ts';
import type { Kept } from './kept.ts';
import { answered, valueAt } from './reading.ts';
import type { Span } from './span.ts';
import { bothEnds, button, reasons, total, worst, type Own, type Piece } from './vital-lines.ts';

export interface Vital {
  title: string;
  /** Over which time and how: `now, sum`. */
  window: string;
  value: string;
  /** Beside the value: its unit or a second number; why, where the value is absent. */
  small: string;
  line: Piece[];
  /** Something that wants to be looked at. */
  attention: boolean;
  /** The whole in words. */
  about: string;
}

export interface Facts {
  run: Run;
  /** Live: the newest levels. */
  tail: Kept | null;
  /** Live: of the last 60 s. Past: of what is in view. */
  figures: Figures | null;
  /** Why there are no figures. */
  fault: string | null;
  /** Past: restarts in view. */
  restarts: number;
}

/** From here on a KV cache counts as full. */
const fullFrom = 0.95;
/** Less of the expected samples than this is said beside the number. */
const thinBelow = 0.75;

// ---------------------------------------------------------------- levels now

/** Of a live run: what workers, running, waiting and KV cache stand at in the newest tick. */
function levelsNow({ run, tail }: Facts): Vital[] {
  const place = tail ? tail.places - 1 : -1;
  // those whose endpoint was taken away are not expected to answer
  const known = run.workerList.filter(({ goneAt }) => goneAt === null).map(({ w }) => w);
  const own = (metric: string): Own[] => {
    const column = tail?.columns.get(metric);
    if (!tail || !column) return [];
    return known.flatMap((w) => {
      const v = valueAt(tail, column, w, place);
      return Number.isNaN(v) ? [] : [{ w, v }];
    });
  };
  const up = known.filter((w) => tail !== null && answered(tail, w, place));
  const none = place < 0 ? 'no tick yet' : 'no answer';
  return [
    place < 0
      ? { ...workersNow(run, [], [], own), value: absent, small: none }
      : workersNow(run, known, up, own),
    running(run, own('running'), 'now, sum', none),
    waiting(run, own('waiting'), own('waiting_capacity'), own('waiting_deferred'), none),
    kv(run, own('kv_cache_usage'), 'now, max', none),
  ];
}

function workersNow(run: Run, known: number[], up: number[], own: (metric: string) => Own[]): Vital {
  const vital = {
    title: 'Workers',
    window: 'now',
    value: count(up.length),
    small: `of ${count(known.length)} answer`,
    attention: false,
    about: `Workers that answered the newest scrape, of those that are known.`,
  };
  const silent = known.filter((w) => !up.includes(w));
  if (silent.length > 0) return { ...vital, attention: true, line: [button(run, silent), ' silent'] };
  const asleep = own('sleep_level').filter(({ v }) => v > 0);
  if (asleep.length > 0)
    return {
      ...vital,
      line: [
        button(
          run,
          asleep.map(({ w }) => w),
        ),
        ' asleep',
      ],
    };
  const busy = new Set([...own('running'), ...own('waiting')].filter(({ v }) => v > 0).map(({ w }) => w));
  const idle = up.filter((w) => !busy.has(w));
  if (up.length === 0) return { ...vital, line: [] };
  if (idle.length === 0) return { ...vital, line: ['all work'] };
  if (busy.size === 0) return { ...vital, line: ['all idle'] };
  return {
    ...vital,
    line: [button(run, idle), ` idle, ${count(busy.size)} ${busy.size === 1 ? 'works' : 'work'}`],
  };
}

function running(run: Run, own: Own[], window: string, none: string): Vital {
  const sum = total(own);
  return {
    title: 'Running',
    window,
    value: own.length > 0 ? count(sum) : absent,
    small: own.length > 0 ? 'requests' : none,
    line: bothEnds(run, own, count),
    attention: false,
    about: `Requests in the batches, sum over ${many(own.length, 'worker')}.`,
  };
}

function waiting(run: Run, own: Own[], capacity: Own[], deferred: Own[], none: string): Vital {
  return {
    title: 'Waiting',
    window: 'now, sum',
    value: own.length > 0 ? count(total(own)) : absent,
    small: own.length > 0 ? 'requests' : none,
    ...reasons(run, total(capacity), total(deferred), own),
    about:
      `Requests that wait to be scheduled, sum over ${many(own.length, 'worker')}. ` +
      (capacity.length > 0
        ? `Capacity, no room: ${count(total(capacity))}. Deferred, for something else: ${count(total(deferred))}.`
        : 'These engines do not say why.'),
  };
}

function kv(run: Run, own: Own[], window: string, none: string, mean?: number | null): Vital {
  const high = Math.max(...own.map(({ v }) => v));
  const full = own.filter(({ v }) => v >= fullFrom).map(({ w }) => w);
  return {
    title: 'KV cache',
    window,
    value: own.length > 0 ? percent(high) : absent,
    small: own.length > 0 ? `mean ${percent(mean === undefined ? total(own) / own.length : mean)}` : none,
    line:
      full.length > 0
        ? [button(run, full), ` ≥ ${percent(fullFrom).replace('.0', '')}`]
        : worst(run, own, 'highest', percent),
    attention: full.length > 0,
    about: `Share of KV cache blocks in use: the fullest of ${many(own.length, 'worker')}, and the mean.`,
  };
}

// ---------------------------------------------------------------- counters over a window

interface Counted {
  run: Run;
  statistics: MetricStatistics | undefined;
  /** Length of what was counted. */
  seconds: number;
  /** `60 s`, `in view`. */
  window: string;
  /** Why there is nothing to read. */
  none: string;
  fault: string | null;
}

const counted = ({ run, figures, fault }: Facts, metric: string, past: boolean): Counted => {
  const statistics = figures?.of.get(metric);
  // buckets reach past the window that was asked for
  const seconds = statistics?.seconds ?? (figures ? (figures.to - figures.from) / 1000 : 0);
  return {
    run,
    statistics,
    seconds,
    window: past ? 'in view' : figures ? `${Math.round(seconds)}${thin}s` : `60${thin}s`,
    none:
      fault !== null
        ? 'not readable'
        : !figures
          ? 'not read yet'
          : run.metrics.length > 0 && !run.metrics.includes(metric)
            ? 'not there yet'
            : '',
    fault,
  };
};

const bound = (s: MetricStatistics | undefined, text: string) =>
  s?.lowerBound && text !== absent ? `≥${thin}${text}` : text;

/** What is said of every number over a window, behind its own sentence. */
function trust({ statistics: s, window, fault }: Counted, isRatio = false): string {
  if (fault !== null) return ` ${fault}`;
  if (!s) return '';
  const what = isRatio ? 'what it counted is not all in it' : 'it is at least this';
  const less = s.lowerBound ? ` A worker restarted or was lost: ${what}.` : '';
  return ` ${window === 'in view' ? 'In view' : `Over the last ${window}`}, coverage ${percent(s.coverage)}.${less}`;
}

const thinly = (s: MetricStatistics | undefined, line: Piece[]): Piece[] =>
  s && s.coverage !== null && s.coverage < thinBelow
    ? [`coverage ${percent(s.coverage)}`, ...(line.length > 0 ? [' · ', ...line] : [])]
    : line;

function hitRate(c: Counted): Vital {
  const s = c.statistics;
  const own = (s?.each ?? []).flatMap(({ w, ratio }) => (ratio === null ? [] : [{ w, v: ratio }]));
  return {
    title: 'Hit rate',
    window: `${c.window}, pooled`,
    // what was lost may have hit or not: it is no bound
    value: percent(s?.pooled),
    small: s && s.pooled !== null ? '' : c.none || 'no traffic',
    line: thinly(s, worst(c.run, own, 'lowest', percent)),
    attention: false,
    about: `Prompt tokens found in the prefix cache / looked up, pooled over ${many(own.length, 'worker')}.${trust(c, true)}`,
  };
}

function generation(c: Counted): Vital {
  const s = c.statistics;
  const own = rates(s, c.seconds);
  const sum = s?.workers.sum ?? null;
  return {
    title: 'Generation',
    window: `${c.window}, sum`,
    value: bound(s, sum === null ? absent : rate(sum / c.seconds)),
    small: sum === null ? c.none || 'no second sample yet' : 'tok/s',
    line: thinly(s, worst(c.run, own, 'lowest', rate)),
    attention: false,
    about: `Output tokens a second, sum over ${many(own.length, 'worker')}: ${count(sum)} tokens.${trust(c)}`,
  };
}

function preemptions(c: Counted): Vital {
  const s = c.statistics;
  const own = (s?.each ?? []).flatMap(({ w, delta }) => (delta === null ? [] : [{ w, v: delta }]));
  const sum = s?.workers.sum ?? null;
  const any = sum !== null && sum > 0;
  return {
    title: 'Preemptions',
    window: `${c.window}, sum`,
    value: bound(s, count(sum)),
    small: sum === null ? c.none || 'no second sample yet' : any ? `${rate(sum / c.seconds)}/s` : '',
    line: thinly(s, any ? worst(c.run, own, 'highest', count) : sum === 0 ? ['none on any worker'] : []),
    attention: any,
    about: `Preemption events, sum over ${many(own.length, 'worker')}.${trust(c)}`,
  };
}

const rates = (s: MetricStatistics | undefined, seconds: number): Own[] =>
  (s?.each ?? []).flatMap(({ w, delta }) => (delta === null ? [] : [{ w, v: delta / seconds }]));

// ---------------------------------------------------------------- a past run

/** Of a past run: workers, running, waiting and KV cache over what is in view. */
function levelsInView(facts: Facts): Vital[] {
  const { run, figures } = facts;
  const of = (metric: string) => counted(facts, metric, true);
  const means = (c: Counted): Own[] =>
    (c.statistics?.each ?? []).flatMap(({ w, mean }) => (mean === null ? [] : [{ w, v: mean }]));
  const [runs, waits, cache] = [of('running'), of('waiting'), of('kv_cache_usage')];
  const meanOf = (metric: string) => figures?.of.get(metric)?.samples.mean ?? 0;
  const level = (c: Counted, title: string, about: string): Omit<Vital, 'line' | 'attention'> => ({
    title,
    window: 'in view, mean',
    value: count(c.statistics?.samples.mean),
    small: c.statistics?.samples.mean != null ? 'a worker' : c.none || 'no answer',
    about: `${about}, mean over samples of ${many(means(c).length, 'worker')}.${trust(c)}`,
  });
  const highest = (cache.statistics?.each ?? []).flatMap(({ w, max }) =>
    max === null ? [] : [{ w, v: max }],
  );
  return [
    workersInView(facts, runs),
    {
      ...level(runs, 'Running', 'Requests in the batch'),
      line: bothEnds(run, means(runs), count),
      attention: false,
    },
    {
      ...level(waits, 'Waiting', 'Requests that wait to be scheduled'),
      ...reasons(run, meanOf('waiting_capacity'), meanOf('waiting_deferred'), means(waits)),
    },
    {
      ...kv(run, highest, 'in view, max', cache.none || 'no answer', cache.statistics?.samples.mean),
      about: `Share of KV cache blocks in use: the highest sample, and the mean over samples.${trust(cache)}`,
    },
  ];
}

/** Ticks of a window in which a worker was known and asked; no whole number at the edges. */
function ticksAsked({ firstAt, goneAt }: Worker, { from, to }: Span, intervalSeconds: number): number {
  const ms = Math.min(to, goneAt ?? to) - Math.max(from, firstAt);
  const ticks = ms / (intervalSeconds * 1000);
  // taken away in view: the tick without it is a little early or late
  return goneAt !== null && goneAt < to ? Math.round(ticks) : ticks;
}

function workersInView({ run, figures, restarts }: Facts, c: Counted): Vital {
  const answers = new Map((c.statistics?.each ?? []).map(({ w, n }) => [w, n]));
  const own = run.workerList.flatMap((worker): Own[] => {
    const asked = figures ? ticksAsked(worker, figures, run.intervalSeconds) : 0;
    return asked > 0 ? [{ w: worker.w, v: Math.min(1, (answers.get(worker.w) ?? 0) / asked) }] : [];
  });
  const seen = own.filter(({ v }) => v > 0);
  const coverage = c.statistics?.coverage ?? null;
  const least = own.toSorted((a, b) => a.v - b.v)[0];
  const whole = (v: number) => `${Math.floor(v * 100)}${thin}%`;
  const line: Piece[] =
    coverage === null || !least
      ? []
      : least.v > 0.999
        ? ['every scrape answered']
        : [`coverage ${whole(coverage)} · `, button(run, [least.w]), ` ${whole(least.v)}`];
  return {
    title: 'Workers',
    window: 'in view',
    value: c.statistics ? count(seen.length) : absent,
    small: c.statistics
      ? `of ${count(own.length)}${restarts > 0 ? ` · ${many(restarts, 'restart')}` : ' answered'}`
      : c.none,
    line,
    attention: c.statistics !== undefined && seen.length < own.length,
    about:
      `Workers that answered in view, of those that were asked in it. ${many(restarts, 'restart')} in view.` +
      trust(c),
  };
}

// ---------------------------------------------------------------- all seven

export function vitalsOf(facts: Facts): Vital[] {
  const past = facts.run.state !== 'recording';
  return [
    ...(past ? levelsInView(facts) : levelsNow(facts)),
    hitRate(counted(facts, 'prefix_cache_hit_rate', past)),
    generation(counted(facts, 'generation_tokens', past)),
    preemptions(counted(facts, 'preemptions', past)),
  ];
}
