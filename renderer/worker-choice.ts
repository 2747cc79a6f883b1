/** How the view of workers is set: sorted by what, which statistic, which heat map. Remembered per cluster. Pure. */
import type { MetricInfo } from '../electron/engine/api.ts';
import { downFirst, shownNames, tableMetrics, type ColumnId, type Shown } from './worker-rows.ts';

export interface WorkersChoice {
  column: ColumnId;
  down: boolean;
  shown: Shown;
  /** Id of the metric of the heat map. */
  metric: string;
  /** All rows in sight, however low. */
  fit: boolean;
}

const usual: WorkersChoice = {
  column: 'idle',
  down: downFirst('idle'),
  shown: 'usual',
  metric: 'kv_cache_usage',
  fit: false,
};

/** What a stored preference means: whatever is not ours in it is as for nobody's choice. */
export function choiceFrom(stored: unknown, catalogue: readonly MetricInfo[]): WorkersChoice {
  const s = typeof stored === 'object' && stored !== null ? (stored as Record<string, unknown>) : {};
  const columns = ['name', 'endpoint', 'last', 'idle', ...tableMetrics.map((m) => m.id)];
  const column = columns.find((c) => c === s.column) ?? usual.column;
  return {
    column,
    down: typeof s.down === 'boolean' ? s.down : downFirst(column),
    shown: Object.keys(shownNames).find((name): name is Shown => name === s.shown) ?? usual.shown,
    metric: catalogue.find((m) => m.id === s.metric)?.id ?? usual.metric,
    fit: s.fit === true,
  };
}
