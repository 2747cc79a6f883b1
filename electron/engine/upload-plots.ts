/**
 * Timeline plots of a step as W&B takes them: Plotly figures as JSON, one with a line an engine and one with the mean of
 * all, under NeMo RL's keys. In the reading thread. The same step always gives the same text.
 */
import crypto from 'node:crypto';
import type { Step } from './api-steps.ts';
import { findMetric, type Metric } from './catalogue.ts';
import * as queries from './queries.ts';
import { slotsOf, type RunFile } from './timelines.ts';
import { nameOnWandb, type Mapping } from './upload-mapping.ts';
import type { JsonObject } from './wandb/contract.ts';

export interface Plot {
  key: string;
  /** Of the file on W&B: key, row and the digest of the text. */
  name: string;
  text: string;
  /** What stands in the row. */
  value: JsonObject;
}

interface Line {
  /** Seconds since the step began. */
  x: number[];
  y: number[];
}

/** Latencies have no value a scrape that a line could be of. */
const plotted = ({ kind }: Metric) => kind !== 'histogram';

export function plotsOf(run: RunFile, step: Step, { choice }: Mapping, line: number): Plot[] {
  const slots = slotsOf(run, step.from, step.to!);
  if (!slots) return [];
  return choice.metrics.flatMap((id) => {
    const metric = findMetric(id)!;
    if (!plotted(metric)) return [];
    const { workers, mean } = linesOf(run, metric, step, slots);
    if (workers.size === 0) return [];
    const name = nameOnWandb(id);
    const each = [...workers]
      .sort(([a], [b]) => a - b)
      .map(([w, { x, y }]) => ({ type: 'scatter', mode: 'lines', name: `worker_${w}`, x, y }));
    return [
      plot(`generation_metrics/per_worker_${name}`, `${name} per worker`, each, line),
      plot(
        `generation_metrics/average_${name}`,
        `${name}, mean of the workers`,
        [{ type: 'scatter', mode: 'lines', name: 'mean', ...mean }],
        line,
      ),
    ];
  });
}

/** What each sample inside the step says: a level, a ratio, or what a counter added. */
function linesOf(run: RunFile, metric: Metric, step: Step, slots: { first: number; last: number }) {
  const counts = metric.kind === 'counter';
  const sql = counts ? queries.counterSamples(metric.of[0]) : queries.samplesOf([metric.of]);
  const workers = new Map<number, Line>();
  const bySlot = new Map<number, { sum: number; n: number }>();
  const seconds = (at: number) => Math.round(at - step.from) / 1000;
  const began = new Map<number, number>();
  for (const [k, at, value] of run.rows(sql, slots)) {
    if (value == null || at! < step.from || at! > step.to!) continue;
    const w = k! % 4096;
    const slot = (k! - w) / 4096;
    const own = workers.get(w) ?? { x: [], y: [] };
    workers.set(w, own);
    own.x.push(seconds(at!));
    own.y.push(value);
    const all = bySlot.get(slot) ?? { sum: 0, n: 0 };
    bySlot.set(slot, { sum: all.sum + value, n: all.n + 1 });
    began.set(slot, Math.min(at!, began.get(slot) ?? Infinity));
  }
  const inOrder = [...bySlot].sort(([a], [b]) => a - b);
  const mean: Line = {
    x: inOrder.map(([slot]) => seconds(began.get(slot)!)),
    y: inOrder.map(([, { sum, n }]) => sum / n),
  };
  return { workers, mean };
}

function plot(key: string, title: string, data: object[], line: number): Plot {
  const layout = { title: { text: title }, xaxis: { title: { text: 'seconds since the step began' } } };
  const text = JSON.stringify({ data, layout });
  const sha256 = crypto.createHash('sha256').update(text).digest('hex');
  const name = `media/plotly/${key}_${line}_${sha256.slice(0, 20)}.plotly.json`;
  return {
    ...{ key, name, text },
    value: { _type: 'plotly-file', path: name, sha256, size: Buffer.byteLength(text) },
  };
}
