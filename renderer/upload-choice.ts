/** What goes up, as it is switched: which rows, metrics, statistics and workers. Pure; upload-words.ts says it. */
import type { UploadPlan, WandbChoice, WandbStatistic } from '../electron/engine/api.ts';
import { tooManyKeys } from './upload-words.ts';

/** In the order in which they are offered. */
export const statistics: readonly WandbStatistic[] = ['mean', 'max', 'p95', 'min', 'sum'];

/** NeMo RL's limit. */
export const usualWorkers = 16;

/** One in or out; the order is that of `all`. */
export function toggled<T>(chosen: readonly T[], one: T, all: readonly T[]): T[] {
  const on = new Set(chosen);
  if (!on.delete(one)) on.add(one);
  return all.filter((x) => on.has(x));
}

/** One of both has to go: the last one that is on cannot be switched off. */
export const isLastPart = ({ scalars, plots }: WandbChoice, part: 'scalars' | 'plots') =>
  part === 'scalars' ? scalars && !plots : plots && !scalars;

/** Whether keys per worker go off by themselves. */
export const hasTooManyKeys = (plan: UploadPlan, choice: WandbChoice) =>
  plan.keys > tooManyKeys && choice.scalars && plan.workers.length > 0;
