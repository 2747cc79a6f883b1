/**
 * Rows for W&B out of a run's file: which there are, what would go up, and the rows themselves. In the reading thread.
 * A row is made of what is kept of its step, so it is there as soon as that is.
 */
import crypto from 'node:crypto';
import type { Step } from './api-steps.ts';
import type { UploadPlan } from './api-wandb.ts';
import { isKept, keptEdges, readKept, readScalars, type FoundScalars } from './scalars.ts';
import { readSteps } from './step-reads.ts';
import type { RunFile } from './timelines.ts';
import {
  isLowerBound,
  isSent,
  keysOf,
  metricsRead,
  rowOf,
  workersSent,
  type Mapping,
} from './upload-mapping.ts';
import { plotsOf } from './upload-plots.ts';
import { decode, encodeLine } from './wandb/json.ts';
import type { JsonObject } from './wandb/contract.ts';

/** A timeline plot that a row names; its bytes are made when they are sent. */
export interface PlotFile {
  name: string;
  bytes: number;
  line: number;
}

export interface Rows {
  /** Ready to be sent. */
  lines: string[];
  /** The last value of each key in them. */
  summary: JsonObject;
  files: PlotFile[];
  /** Of all rows up to the last of these, as `rowsDigest` says it. */
  digest: string | null;
  /** Of the first rows that were sent before; null: there are fewer now. */
  sentDigest: string | null;
}

/** Rows are made this many at a time; a plan and a long upload take turns with others. */
const AT_ONCE = 500;
/** So many lower bounds are named. */
const NAMED = 3;

/** The steps that make rows, in their order. */
const stepsSent = (run: RunFile, { choice }: Mapping): Step[] =>
  readSteps(run, choice.source).steps.filter((step) => isSent(step, choice));

/** How many rows there are: up to the first step whose numbers are not kept yet. */
export function rowCount(
  run: RunFile,
  mapping: Mapping,
  steps: readonly Step[] = stepsSent(run, mapping),
): number {
  const kept = keptEdges(run, mapping.choice.source);
  const missing = steps.findIndex(({ n, from, to }) => !isKept(kept, n, from, to));
  return missing < 0 ? steps.length : missing;
}

/** A digest of what the first rows are about: kinds, numbers and edges of their steps. null: there are fewer rows. */
export const rowsDigest = (run: RunFile, mapping: Mapping, rows: number): string | null =>
  digestOf(stepsSent(run, mapping), rows);

function digestOf(steps: readonly Step[], rows: number): string | null {
  if (steps.length < rows) return null;
  const hash = crypto.createHash('sha256');
  for (const { number, kind, from, to } of steps.slice(0, rows))
    hash.update(`${kind} ${number} ${from} ${to}\n`);
  return hash.digest('hex');
}

interface Row {
  line: number;
  step: Step;
  scalars: FoundScalars;
  i: number;
  row: JsonObject;
  files: PlotFile[];
}

/** Rows `first` to `first + count`, as objects. */
async function* rowsOf(
  run: RunFile,
  mapping: Mapping,
  steps: readonly Step[],
  first: number,
  count: number,
): AsyncGenerator<Row, void, undefined> {
  const metrics = metricsRead(mapping);
  const until = Math.min(first + count, rowCount(run, mapping, steps));
  for (let begin = first; begin < until; begin += AT_ONCE) {
    const some = steps.slice(begin, Math.min(begin + AT_ONCE, until));
    const workers = workersSent(mapping, run.workers);
    const kept = readKept(run, mapping.choice.source, some, metrics);
    const scalars = readScalars(run, kept, metrics, workers, []);
    const sent = {
      ...scalars,
      series: scalars.series.filter((s) => mapping.choice.metrics.includes(s.metric)),
    };
    const keys = keysOf(sent, mapping);
    for (const [i, step] of some.entries()) {
      const line = begin + i;
      const plots = mapping.choice.plots ? plotsOf(run, step, mapping, line) : [];
      const media = Object.fromEntries(plots.map((plot) => [plot.key, plot.value]));
      yield {
        ...{ line, step, scalars, i },
        row: rowOf(scalars, i, keys, { line, startedAt: run.startedAt }, media),
        files: plots.map(({ name, text }) => ({ name, line, bytes: Buffer.byteLength(text) })),
      };
      if (plots.length > 0) await run.breathe();
    }
    await run.breathe();
  }
}

/** `sent`: how many rows were sent before. All that is given is of the same steps, whatever becomes of them meanwhile. */
export async function rows(
  run: RunFile,
  mapping: Mapping,
  first: number,
  count: number,
  sent: number,
): Promise<Rows> {
  const steps = stepsSent(run, mapping);
  const lines: string[] = [];
  const plots: PlotFile[] = [];
  const summary: Record<string, JsonObject[string]> = {};
  for await (const { row, files } of rowsOf(run, mapping, steps, first, count)) {
    lines.push(encodeLine(row));
    Object.assign(summary, row);
    plots.push(...files);
  }
  const digests = { digest: digestOf(steps, first + lines.length), sentDigest: digestOf(steps, sent) };
  return { lines, summary, files: plots, ...digests };
}

/** The text of a plot that row `line` names. null: it is not there any more. */
export function plotText(run: RunFile, mapping: Mapping, line: number, name: string): string | null {
  const step = stepsSent(run, mapping)[line];
  return (step && plotsOf(run, step, mapping, line).find((plot) => plot.name === name)?.text) ?? null;
}

export type PlannedRows = Omit<UploadPlan, 'acked' | 'changed' | 'described'>;

export async function plan(run: RunFile, mapping: Mapping): Promise<PlannedRows> {
  const all = readSteps(run, mapping.choice.source).steps;
  const steps = { train: 0, eval: 0, other: 0 };
  for (const { kind, to } of all) if (to !== null) steps[kind]++;
  const keys = new Set<string>();
  const found: PlannedRows = {
    ...{ rows: 0, steps, keys: 0, bytes: 0, files: 0, fileBytes: 0 },
    workers: workersSent(mapping, run.workers),
    example: null,
    lowerBounds: [],
  };
  let last: { step: Step; line: string } | null = null;
  for await (const { step, scalars, i, row, files } of rowsOf(
    run,
    mapping,
    stepsSent(run, mapping),
    0,
    Infinity,
  )) {
    const line = encodeLine(row);
    found.rows++;
    found.bytes += Buffer.byteLength(line) + 1;
    for (const key in row) keys.add(key);
    found.files += files.length;
    for (const file of files) found.fileBytes += file.bytes;
    if (isLowerBound(scalars.series, i) && found.lowerBounds.length < NAMED)
      found.lowerBounds.push(step.number);
    last = { step, line };
  }
  found.keys = keys.size;
  if (last) {
    const row = Object.entries(decode(last.line) as Record<string, unknown>);
    found.example = { step: last.step, row: row.map(([key, value]) => [key, JSON.stringify(value)]) };
  }
  return found;
}
