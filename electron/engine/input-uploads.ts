/** What comes over the wire about uploads, looked at before anything is done with it. All throw `bad-input`. */
import type { UploadInput, WandbChoice, WandbStatistic, WandbTarget } from './api-wandb.ts';
import { findMetric, metrics } from './catalogue.ts';
import { EngineError } from './errors.ts';
import { stepSourceOf } from './input-steps.ts';
import { text } from './input.ts';
import { nemoMetrics, statisticsOnWandb } from './upload-mapping.ts';
import { serverOf } from './wandb-accounts.ts';

const bad = (message: string) => new EngineError('bad-input', message);

/** NeMo RL's eight metrics as scalars, with keys for the first 16 workers. The source is the run's own. */
export const defaultChoice: Omit<WandbChoice, 'source'> = {
  evals: false,
  scalars: true,
  plots: false,
  metrics: [...nemoMetrics],
  statistics: [...statisticsOnWandb],
  workers: 16,
};

export function checkedUpload(input: UploadInput): UploadInput {
  if (typeof input !== 'object' || input === null) throw bad('An upload says what goes where.');
  return {
    run: text(input.run, 'The id of a run'),
    target: checkedTarget(input.target),
    choice: checkedChoice(input.choice),
    live: input.live === true,
    anew: input.anew === true,
  };
}

/** Limits of W&B's own clients. */
function checkedTarget(target: WandbTarget): WandbTarget {
  if (typeof target !== 'object' || target === null) throw bad('An upload needs a place to go to.');
  const { entity, project, name, group, tags, notes } = target;
  const wanted = text(project, 'The name of the project');
  if (wanted.length > 128 || /[/\\#?%:\p{Cc}\u2028\u2029]/u.test(wanted))
    throw bad('A project’s name has at most 128 characters, and no line break, tab or / \\ # ? % : in it.');
  if (/^\.{1,2}$/.test(wanted)) throw bad(`"${wanted}" is no name of a project.`);
  const list = Array.isArray(tags) ? tags.map((tag) => text(tag, 'A tag').trim()).filter((tag) => tag) : [];
  if (list.some((tag) => tag.length > 64)) throw bad('A tag has at most 64 characters.');
  const words = (value: unknown) => (typeof value === 'string' ? value.trim() : '');
  return {
    server: serverOf(target.server),
    entity: entity === null || words(entity) === '' ? null : words(entity),
    project: wanted,
    name: words(name).slice(0, 128),
    group: words(group).slice(0, 128),
    tags: [...new Set(list)],
    notes: words(notes),
  };
}

function checkedChoice(choice: WandbChoice): WandbChoice {
  if (typeof choice !== 'object' || choice === null) throw bad('An upload needs to know what goes.');
  const { source, evals, scalars, plots, statistics, workers } = choice;
  const ids = Array.isArray(choice.metrics) ? choice.metrics : [];
  for (const id of ids)
    if (!findMetric(id)) throw new EngineError('not-found', `No metric is called "${String(id)}".`);
  const of = Array.isArray(statistics) ? statistics : [];
  const unknown = of.find((s) => !statisticsOnWandb.includes(s));
  if (unknown !== undefined)
    throw bad(`Statistics are ${statisticsOnWandb.join(', ')}, not "${String(unknown)}".`);
  if (!Number.isSafeInteger(workers) || workers < 0 || workers > 4096)
    throw bad('Workers with keys of their own are a number from 0 to 4096.');
  if (scalars !== true && plots !== true) throw bad('Scalars or timeline plots: one of them must go.');
  if (ids.length === 0) throw bad('Choose at least one metric.');
  return {
    source: stepSourceOf(source),
    evals: evals === true,
    scalars: scalars === true,
    plots: plots === true,
    // in one order, so that the same choice is the same text
    metrics: metrics.map((m) => m.id).filter((id) => ids.includes(id)),
    statistics: statisticsOnWandb.filter((s: WandbStatistic) => of.includes(s)),
    workers,
  };
}
