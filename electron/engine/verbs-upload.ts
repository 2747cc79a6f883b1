/** `vllm-scope upload` and `export`: a run to W&B, at once, live, or as a folder for `wandb sync`. */
import type { Remote, RunSummary } from './api.ts';
import type { Upload, UploadInput, UploadPlan, WandbStatistic } from './api-wandb.ts';
import { EngineError } from './errors.ts';
import type { UsedEngine } from './running-engine.ts';
import { shown } from './shown.ts';
import { json, sourceOf, wholeNumber } from './verbs-steps.ts';
import { UsageError, type Given } from './verbs.ts';
import { problemText } from './wandb/errors.ts';
import { withRun } from './wanted-run.ts';

/**
 * What was given, on top of where this run went before; otherwise of what this command's environment says, which need
 * not be the engine's, and of what was chosen last.
 */
async function inputOf(methods: Remote, run: RunSummary, given: Given): Promise<UploadInput> {
  const { upload, target, choice, guessed } = await methods.uploadStart(run.id);
  const source = sourceOf(given);
  if (guessed && source === null && given.live === true)
    throw new UsageError(
      'No step was found yet, so it is not known where the steps of this run come from. Say it with --source mark, idle, sleep or fixed, or wait for the first one.',
    );
  const env = (name: string) => (upload ? undefined : process.env[name] || undefined);
  return {
    run: run.id,
    target: {
      server: given.server ?? env('WANDB_BASE_URL') ?? target.server,
      entity: given.entity ?? env('WANDB_ENTITY') ?? target.entity,
      project: given.project ?? env('WANDB_PROJECT') ?? target.project,
      name: given.name ?? target.name,
      group: given.group ?? target.group,
      tags: given.tag ?? target.tags,
      notes: given.notes ?? target.notes,
    },
    choice: {
      ...choice,
      ...(source !== null && { source }),
      ...(given.evals === true && { evals: true }),
      ...(given.plots === true && { plots: true }),
      ...(given.metric && { metrics: given.metric }),
      ...(given.stat !== undefined && { statistics: given.stat.split(',') as WandbStatistic[] }),
      ...(given.workers !== undefined && { workers: wholeNumber(given.workers, '--workers') }),
    },
    live: given.live === true,
    anew: given.new === true,
  };
}

export async function upload([wanted]: string[], given: Given): Promise<void> {
  const act = async (engine: UsedEngine, run: RunSummary): Promise<void> => {
    const { methods } = engine;
    const input = await inputOf(methods, run, given);
    if (input.target.project === '')
      throw new UsageError('Say which project: --project NAME (or WANDB_PROJECT).');
    const plan = await methods.planUpload(input);
    if (given['dry-run']) {
      if (given.json) json({ ...input, plan });
      else console.log(planText(input, plan));
      return;
    }
    if (plan.changed !== null)
      throw new EngineError('bad-input', `${plan.changed} Give --new for a new run.`);
    if (plan.rows === 0 && !input.live)
      throw new EngineError(
        'bad-input',
        `${shown(run.name)} has no finished ${input.choice.source} step yet.`,
      );
    const end = await sent(engine, input, given.json);
    if (given.json) json(end);
    else console.log(endText(end, input.anew));
    if (end.state !== 'done') process.exitCode = 1;
  };
  // what W&B has of it must be known the next time
  await withRun(wanted!, given, act, true);
}

/** Starts it and waits for its end; Ctrl-C cancels it, and the next upload goes on. */
async function sent({ methods, on, gone }: UsedEngine, input: UploadInput, quiet: boolean): Promise<Upload> {
  let settle: (end: Upload) => void = () => undefined;
  const over = new Promise<Upload>((resolve) => (settle = resolve));
  let told = '';
  const off = on('uploading', (now) => {
    if (now.run !== input.run) return;
    const { state, progress, rows, rowsTotal } = now;
    if (state !== 'sending' && state !== 'paused') settle(now);
    const line = progress?.waiting ?? (rowsTotal > 0 ? `${rows} of ${rowsTotal} rows` : told);
    if (!quiet && line !== told) console.error((told = line));
  });
  const cancel = () => void methods.cancelUpload(input.run).catch(() => undefined);
  process.once('SIGINT', cancel);
  process.once('SIGTERM', cancel);
  try {
    await methods.startUpload(input);
    const lost = gone.then(() => {
      throw new EngineError('engine-gone', 'The engine ended. Give the command again: the upload goes on.');
    });
    return await Promise.race([over, lost]);
  } finally {
    off();
    process.off('SIGINT', cancel);
    process.off('SIGTERM', cancel);
  }
}

function planText({ target, choice }: UploadInput, plan: UploadPlan): string {
  const place = `${target.entity ?? '(your default)'}/${shown(target.project)} on ${target.server}`;
  const kinds = Object.entries(plan.steps).map(([kind, n]) => `${n} ${kind}`);
  return [
    `Nothing was sent. To ${place} would go:`,
    `${plan.rows} rows, one a step (${choice.source} steps: ${kinds.join(', ')}), ${plan.keys} keys, ${plan.bytes} bytes`,
    ...(plan.files > 0 ? [`${plan.files} timeline plots, ${plan.fileBytes} bytes`] : []),
    ...(plan.acked > 0 ? [`${plan.acked} of them are there already`] : []),
    ...(plan.changed === null ? [] : [`${plan.changed} It would need a new run (--new).`]),
    ...(plan.keys > MANY_KEYS
      ? [`More than ${MANY_KEYS} keys make W&B slow: fewer --workers, --metric or --stat.`]
      : []),
    ...(plan.lowerBounds.length > 0 ? [`Lower bounds in step ${plan.lowerBounds.join(', ')}`] : []),
    ...(plan.example
      ? [
          `Row of step ${plan.example.step.number}:`,
          ...plan.example.row.map(([key, value]) => `  ${key}  ${value}`),
        ]
      : []),
  ].join('\n');
}
const MANY_KEYS = 2000;

function endText({ state, rows, url, problem, failedFiles }: Upload, anew: boolean): string {
  const files = failedFiles.map(({ name, reason }) => `${name} was not taken: ${reason}`);
  const said: Partial<Record<Upload['state'], string>> = {
    done: `${rows} rows are on W&B.`,
    cancelled: `Cancelled; ${rows} rows are on W&B. ${anew ? 'Without --new the same command' : 'The same command'} goes on.`,
    stopped: `Stopped on W&B; ${rows} rows are there.`,
    failed: problem ? problemText(problem) : 'It failed.',
  };
  return [said[state] ?? state, ...files, ...(url === null ? [] : [url])].map(shown).join('\n');
}

export async function exportRun([wanted]: string[], given: Given): Promise<void> {
  if (given.wandb === undefined) throw new UsageError('Say into which folder: --wandb DIR.');
  const folder = given.wandb;
  await withRun(wanted!, given, async ({ methods }, run) => {
    const input = await inputOf(methods, run, given);
    const project = input.target.project || 'vllm-scope';
    const written = await methods.exportWandb({ ...input, target: { ...input.target, project } }, folder);
    if (given.json) json(written);
    else console.log(`${written.rows} rows in ${written.folder}\nSend them with: ${written.command}`);
  });
}
