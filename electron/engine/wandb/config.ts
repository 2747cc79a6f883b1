/**
 * The config of a run as W&B stores it: each key as `{"value": ...}`, and `_wandb`, which says that the run was started
 * (`t`) and what its metrics are (`m`).
 */
import { encodeConfig } from './json.ts';
import type { Json, JsonObject, MetricDefinition, SummaryKind } from './contract.ts';

/** Field numbers of W&B's MetricRecord. */
export const summaryFlags: Record<SummaryKind, number> = {
  ...{ min: 1, max: 2, mean: 3, best: 4, last: 5, none: 6, copy: 7, first: 8 },
};
export const goals = { minimize: 1, maximize: 2 } as const;
const STEP_SYNC = 1;
const HIDDEN = 2;
const DEFINED = 3;

export const isGlob = (name: string): boolean => name.endsWith('*');
export const syncsStep = ({ step, stepSync = true }: MetricDefinition): boolean =>
  step !== undefined && stepSync;

/** Steps that are named before they are defined are entries too; `"5"` counts from 1 in the list itself. */
export function metricEntries(metrics: readonly MetricDefinition[]): JsonObject[] {
  const defined = new Set(metrics.map(({ name }) => name));
  const undeclared = [...new Set(metrics.map(({ step }) => step))].filter(
    (step) => step !== undefined && !defined.has(step),
  );
  const names = [...undeclared, ...defined];
  const entry = (metric: MetricDefinition): JsonObject => {
    const { name, step, hidden, summary = [], goal } = metric;
    const glob = isGlob(name);
    return {
      [glob ? '2' : '1']: name,
      ...(step !== undefined && { '5': names.indexOf(step) + 1 }),
      '6': [
        ...(syncsStep(metric) ? [STEP_SYNC] : []),
        ...(hidden ? [HIDDEN] : []),
        ...(glob ? [] : [DEFINED]),
      ],
      // a copy is what W&B does anyway, and not said
      '7': summary.filter((kind) => kind !== 'copy').map((kind) => summaryFlags[kind]),
      ...(goal && { '8': goals[goal] }),
    };
  };
  const last = new Map(metrics.map((metric) => [metric.name, metric])); // a name that comes twice: the last counts
  return [...undeclared.map((name) => ({ '1': name!, '6': [], '7': [] })), ...[...last.values()].map(entry)];
}

/** As the SDK names it: `linux-x86_64`. */
export const thisPlatform = (platform: string = process.platform, arch: string = process.arch): string =>
  `${platform}-${arch === 'x64' ? 'x86_64' : arch}`;

/** The text that UpsertBucket takes. The real SDK goes on with a run only if it finds `t`. */
export function configJson(
  config: JsonObject,
  metrics: readonly MetricDefinition[],
  platform = thisPlatform(),
): string {
  const values: Record<string, Json> = {};
  // an object without a value is left out, and with it the key
  for (const [key, value] of Object.entries(config))
    if (encodeConfig({ value }) !== '{}') values[key] = { value };
  return encodeConfig({ ...values, _wandb: { value: { t: { '13': platform }, m: metricEntries(metrics) } } });
}
