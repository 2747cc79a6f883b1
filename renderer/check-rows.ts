/** A row of the Test table: what a check's report says of one address, in the table's words. Pure. */
import type { CheckReport, OutcomeReason, Target } from '../electron/engine/api.ts';
import { many } from './format.ts';

export interface CheckRow {
  target: Target;
  state: 'waiting' | 'asking' | 'done' | 'left-out';
  report: CheckReport | null;
  /** The check itself failed: a sentence. */
  failure: string | null;
}

export type Tone = 'ok' | 'warn' | 'bad' | 't3';
export const signs: Record<Tone, string> = { ok: '●', warn: '▲', bad: '✕', t3: '○' };

/** How an endpoint stands, in the words of tables. */
export const outcomes: Record<OutcomeReason | 'ok', string> = {
  ok: 'answers',
  late: 'still answering',
  timeout: 'no answer',
  refused: 'refused',
  unreachable: 'unreachable',
  http: 'HTTP error',
  'too-large': 'too large',
  cut: 'cut off',
  'not-metrics': 'not metrics',
  'no-vllm': 'no statistics',
};

export interface Reading {
  tone: Tone;
  outcome: string;
  /** null: nothing to count. */
  workers: number | null;
  models: string[];
  names: string | null;
  /** Sentences, not yet fit to be shown (`plain`). */
  know: string[];
}

const nothing = { workers: null, models: [], names: null, know: [] };

/** Answers, and holds something that can be recorded. */
export const answers = ({ report }: CheckRow) =>
  report !== null && report.reason === null && report.workers.length > 0;

export function readingOf(row: CheckRow): Reading {
  const { target, report, failure } = row;
  if (target.url === null)
    return { ...nothing, tone: 'bad', outcome: 'no address', know: target.sentence ? [target.sentence] : [] };
  if (failure !== null) return { ...nothing, tone: 'bad', outcome: 'not tested', know: [failure] };
  if (report === null)
    return {
      ...nothing,
      tone: 't3',
      outcome: row.state === 'asking' ? 'asking' : row.state === 'left-out' ? 'not asked' : 'waiting',
    };
  const know = [...new Set([report.error, ...report.findings].filter((s) => s !== null))];
  const workers = report.workers.length;
  if (report.reason !== null || workers === 0) {
    const reason = report.reason ?? 'no-vllm';
    const other = reason === 'no-vllm' && report.server !== null && report.server !== 'vLLM';
    return {
      ...nothing,
      tone: reason === 'no-vllm' ? 'warn' : 'bad',
      outcome: other ? report.server! : outcomes[reason],
      workers: report.reachable ? 0 : null,
      names: report.generation,
      know,
    };
  }
  return {
    tone: know.length > 0 ? 'warn' : 'ok',
    outcome: outcomes.ok,
    workers,
    models: [...new Set(report.workers.map((w) => w.model))],
    names: report.generation,
    know: workers > 1 ? [...know, `One address, ${many(workers, 'engine')}.`] : know,
  };
}

/** `w0`, `w1, w2`, `w0 to w7`: the numbers that `count` workers get which begin with `first`. */
export function numbersOf(first: number, count: number): string {
  if (count === 0) return '';
  if (count === 1) return `w${first}`;
  return count === 2 ? `w${first}, w${first + 1}` : `w${first} to w${first + count - 1}`;
}

/** Runs `act` over all, in their order, at most `width` at a time; begins none after `signal`. `act` must not throw. */
export async function inTurn<T>(
  all: readonly T[],
  width: number,
  act: (one: T) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < all.length && !signal.aborted) await act(all[next++]!);
  };
  await Promise.all(Array.from({ length: Math.min(width, all.length) }, lane));
}
