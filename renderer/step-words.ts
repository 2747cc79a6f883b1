/** What is said of steps: where they come from, their names, lengths and facts, the time since they began. Pure. */
import type { Step, StepSource, TrainerSteps } from '../electron/engine/api.ts';
import { clock } from './clock.ts';
import { count, duration, escaped, many, seconds, thin } from './format.ts';

/** In the order in which one is taken by itself. */
export const sources: { source: StepSource; name: string; about: string }[] = [
  { source: 'mark', name: 'Marks', about: 'told by the trainer, a script or a person' },
  { source: 'wandb', name: 'W&B', about: 'rows of the trainer’s run on W&B' },
  { source: 'idle', name: 'Idle', about: 'the whole cluster had nothing to do and went to work again' },
  { source: 'sleep', name: 'Sleep', about: 'the engines were put to sleep and woken up' },
  { source: 'fixed', name: 'Fixed', about: 'every so many seconds' },
];

/** `step 5`, `eval 5`, `other 5`. */
export const stepName = ({ kind, number }: Step) => `${kind === 'train' ? 'step' : kind} ${number}`;

/** The word beside the number; a question where it is only suggested. Train steps have none. */
export function kindWord({ kind, suggested }: Step): string {
  if (suggested !== null && suggested !== kind) return `${suggested}?`;
  return kind === 'train' ? '' : kind;
}

/** `27.3 s`, from a minute on `1:20`. */
export const stepLength = (ms: number) => (ms < 60_000 ? seconds(ms / 1000) : duration(ms / 1000));

/** `+23 s`, from two minutes on `+2:05`. */
export function since(ms: number): string {
  const whole = Math.floor(ms / 1000);
  return whole < 120 ? `+${whole}${thin}s` : `+${duration(whole)}`;
}

/** How a step is long that reaches to `until` and may not be over: `so far` while it is recorded. */
export function lengthWords(step: Step, until: number, recording: boolean): string {
  const length = stepLength(until - step.from);
  if (step.to !== null) return length;
  return recording ? `${length} so far` : `≥${thin}${length}`;
}

/** All of it in sentences, for a title and for who hears the page. `restarted`: names of workers. */
export function stepFacts(step: Step, until: number, recording: boolean, restarted: string[]): string {
  const end = step.to === null ? (recording ? 'now' : 'the end of the recording') : clock(step.to);
  const facts = [
    `Step ${step.number}, ${step.kind}, ${lengthWords(step, until, recording)}, ${clock(step.from)} to ${end}.`,
  ];
  if (step.suggested !== null && step.suggested !== step.kind)
    facts.push(`Much shorter than its neighbours: ${step.suggested}?`);
  if (restarted.length > 0) {
    const who = restarted.length <= 3 ? restarted.join(', ') : many(restarted.length, 'worker');
    facts.push(`${who} restarted in it.`);
  }
  return facts.join(' ');
}

/** `12 steps, 8.4 s to 1:20, half of them under 27.3 s; 2 may be evaluations.`; those that run are left out of lengths. */
export function summary(steps: readonly Step[]): string {
  if (steps.length === 0) return 'No step.';
  const lengths = steps.flatMap(({ from, to }) => (to === null ? [] : [to - from])).sort((a, b) => a - b);
  const [least, middle, most] = [lengths[0], lengths[lengths.length >> 1], lengths.at(-1)];
  const suggested = steps.filter((s) => s.suggested !== null && s.suggested !== s.kind).length;
  return (
    many(steps.length, 'step') +
    (least === undefined || most === undefined || middle === undefined
      ? ''
      : least === most
        ? `, ${stepLength(least)}`
        : `, ${stepLength(least)} to ${stepLength(most)}, half of them up to ${stepLength(middle)}`) +
    (suggested > 0 ? `; ${many(suggested, 'may be an evaluation', 'may be evaluations')}.` : '.')
  );
}

/** A clock that is as near as that is not told: W&B says whole seconds. */
const CLOCK_SECONDS = 2;

/** What the rows of the trainer's run give, and what is known of its clock. */
export function trainerFacts(seen: TrainerSteps): string {
  const { rows, inside, leftOut, none, serverAheadSeconds, trainerAheadSeconds } = seen;
  const ahead = (seconds: number) =>
    `${Math.abs(seconds).toFixed(1)}${thin}s ${seconds < 0 ? 'behind' : 'ahead of'}`;
  return [
    none === null ? `${many(inside, 'step')} in this recording, of ${count(rows)}.` : escaped(none),
    ...(leftOut > 0 && rows > 0
      ? [`${many(leftOut, 'row')} without a whole number or a time ${leftOut === 1 ? 'is' : 'are'} left out.`]
      : []),
    ...(serverAheadSeconds !== null && Math.abs(serverAheadSeconds) > CLOCK_SECONDS
      ? [`W&B’s clock is ${ahead(serverAheadSeconds)} this machine’s.`]
      : []),
    ...(trainerAheadSeconds !== null && trainerAheadSeconds > CLOCK_SECONDS
      ? [`The trainer’s clock is at least ${ahead(trainerAheadSeconds)} W&B’s.`]
      : []),
  ].join(' ');
}
