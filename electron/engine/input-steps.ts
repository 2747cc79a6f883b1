/** What comes over the wire about steps, looked at before anything is done with it. All throw `bad-input` with a sentence. */
import type { MarkInput, Step, StepKind, StepSettings, StepSource, TrainerRun } from './api-steps.ts';
import { EngineError } from './errors.ts';
import { number, text } from './input.ts';
import { stepSources } from './step-reads.ts';
import { parseBaseUrl } from './wandb/account.ts';

const bad = (message: string) => new EngineError('bad-input', message);

const sources: readonly string[] = stepSources;
const kinds: readonly string[] = ['train', 'eval', 'other'] satisfies StepKind[];

export function stepSourceOf(value: unknown): StepSource {
  if (typeof value !== 'string' || !sources.includes(value))
    throw bad(`Steps come from ${sources.join(', ')}, not from "${String(value)}".`);
  return value as StepSource;
}

export function stepKindOf(value: unknown): StepKind {
  if (typeof value !== 'string' || !kinds.includes(value))
    throw bad(`A step is of kind ${kinds.join(', ')}, not "${String(value)}".`);
  return value as StepKind;
}

/** Lengths in seconds, none shorter than what an interval can tell. */
export function checkedSettings(settings: StepSettings, intervalMs: number): StepSettings {
  const seconds = (value: unknown, least: number, what: string): number => {
    if (typeof value !== 'number' || !Number.isFinite(value) || value < least || value > 86_400)
      throw bad(`${what} is a number of seconds from ${least} to 86,400.`);
    return value;
  };
  if (typeof settings !== 'object' || settings === null) throw bad('Steps are found by settings.');
  const interval = intervalMs / 1000;
  return {
    minIdleSeconds: seconds(settings.minIdleSeconds, interval, 'The shortest break'),
    minStepSeconds: seconds(settings.minStepSeconds, 0, 'The shortest step'),
    everySeconds: seconds(settings.everySeconds, interval, 'The length of a step'),
  };
}

export interface CheckedMark {
  run: string | null;
  number: number | null;
  /** null: nothing was said. */
  kind: StepKind | null;
  at: number;
  end: boolean;
}

/** Before this, epoch milliseconds are not meant: somebody gave seconds. */
const SECONDS_BELOW = 1e11;

/** A time as people and scripts give it: epoch ms or s, or ISO 8601; epoch ms. */
export function timeOf(value: unknown): number {
  const at =
    typeof value === 'number'
      ? value < SECONDS_BELOW
        ? value * 1000
        : value
      : typeof value === 'string' && /^\d+(\.\d+)?$/.test(value)
        ? timeOf(Number(value))
        : typeof value === 'string'
          ? Date.parse(value)
          : NaN;
  if (!Number.isFinite(at) || Math.abs(at) > 8e15)
    throw bad(
      `"${String(value)}" is no time. Give seconds or milliseconds since 1970, or 2026-11-30T09:02:17Z.`,
    );
  return Math.round(at);
}

/** `now` stands where no time is given. Unknown fields are refused: a typing mistake must not mark something else. */
export function checkedMark(input: MarkInput, now: number): CheckedMark {
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw bad('A mark is an object such as {"step": 12}.');
  const { step = null, kind = null, at = null, end = false, run = null, ...others } = input;
  const unknown = Object.keys(others)[0];
  if (unknown !== undefined) throw bad(`A mark has no "${unknown}". It has step, kind, at, end and run.`);
  if (step !== null && (!Number.isSafeInteger(step) || step < 0))
    throw bad(`A step is a whole number from 0 on, not ${JSON.stringify(step)}.`);
  if (typeof end !== 'boolean') throw bad('`end` is true or false.');
  if (run !== null && typeof run !== 'string') throw bad('`run` is the name or id of a run or its cluster.');
  return {
    run,
    number: step,
    kind: kind === null ? null : stepKindOf(kind),
    at: at === null ? now : timeOf(at),
    end,
  };
}

/** A step as it was given out, to be found again. */
export function checkedStep(step: Step): { n: number; began: number; ended: number | null } {
  if (typeof step !== 'object' || step === null) throw bad('A step is meant by what it was given out as.');
  const { n, from, to } = step;
  return { n: number(n, 'n'), began: number(from, 'from'), ended: to === null ? null : number(to, 'to') };
}

export function checkedTrainer(trainer: TrainerRun): TrainerRun {
  if (typeof trainer !== 'object' || trainer === null) throw bad('Say which run on W&B.');
  const { server, entity, project, runId, key, offsetSeconds } = trainer;
  const offset = number(offsetSeconds, 'The offset');
  if (Math.abs(offset) > 86_400 * 366) throw bad('The offset is a number of seconds, of a year at most.');
  return {
    server: parseBaseUrl(text(server, 'A W&B server')),
    entity: text(entity, 'An entity'),
    project: text(project, 'A project'),
    runId: text(runId, 'A run on W&B'),
    key: text(key, 'A key'),
    offsetSeconds: offset,
  };
}
