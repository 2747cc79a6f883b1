/** What a run file tells of its steps, to people: the sets, the current one, spells of KV pressure. In the reading thread. */
import type { PressureSpell, Step, StepKind, Steps, StepSettings, StepSource } from './api-steps.ts';
import type { StoredStep } from './step-store.ts';
import { defaultSettings, FINDER_VERSION, suggestions } from './steps.ts';
import type { RunFile } from './timelines.ts';

/** In the order in which they are taken where nobody chose. */
export const stepSources: readonly StepSource[] = ['mark', 'wandb', 'idle', 'sleep', 'fixed'];

/** Not found by looking, so another version of the finder changes nothing about them. */
const told: readonly StepSource[] = ['mark', 'wandb'];

/** What stands in `step_set`; of another version of the finder: as if it were not there. */
export interface KeptSet {
  source: StepSource;
  settings: StepSettings;
  until: number;
}

export function keptSets(run: RunFile): KeptSet[] {
  return run
    .all<{ source: StepSource; settings: string; finder: number; until: number }>('SELECT * FROM step_set')
    .filter((r) => r.finder === FINDER_VERSION || told.includes(r.source))
    .map((r) => ({ source: r.source, settings: JSON.parse(r.settings) as StepSettings, until: r.until }));
}

/** Up to where an old run was looked over for steps and for spells, epoch ms; null: not yet. */
export function lookedUntil(run: RunFile): number | null {
  const idle = keptSets(run).find((s) => s.source === 'idle')?.until;
  const spells = run.all<{ value: number }>("SELECT value FROM meta WHERE key = 'pressureUntil'")[0]?.value;
  return idle === undefined || spells === undefined ? null : Math.min(idle, spells);
}

/** null: the current set. To be read only. */
export const readSteps = (run: RunFile, wanted: StepSource | null): Steps =>
  run.memo(`steps ${wanted}`, () => stepsIn(run, wanted));

function stepsIn(run: RunFile, wanted: StepSource | null): Steps {
  const sets = keptSets(run);
  const byNumber = new Map(
    run
      .all<{ source: StepSource; n: number }>('SELECT source, count(*) AS n FROM step GROUP BY source')
      .map((r) => [r.source, r.n]),
  );
  const counts = Object.fromEntries(
    stepSources.map((source) => [
      source,
      sets.some((s) => s.source === source) ? (byNumber.get(source) ?? 0) : told.includes(source) ? 0 : null,
    ]),
  ) as Steps['counts'];
  const chosen =
    run.all<{ value: StepSource }>("SELECT value FROM meta WHERE key = 'steps'")[0]?.value ?? null;
  const source = wanted ?? chosen ?? stepSources.find((s) => tells(run, s)) ?? 'idle';
  const rows = rowsOf(run, source);
  const hints =
    source === 'idle' ? suggestions(rows.map((r) => ({ from: r.began, to: r.ended }))) : rows.map(() => null);
  return {
    source,
    settings: sets.find((s) => s.source === source)?.settings ?? defaultSettings(run.intervalMs),
    steps: rows.map((r, i) => stepOf(r, r.kind === 'train' ? hints[i]! : null)),
    chosen: chosen !== null,
    counts,
  };
}

const rowsOf = (run: RunFile, source: StepSource) =>
  run.all<StoredStep>('SELECT n, number, kind, began, ended FROM step WHERE source = :source ORDER BY n', {
    source,
  });

export const stepOf = (
  { n, number, kind, began, ended }: StoredStep,
  suggested: StepKind | null = null,
): Step => ({
  n,
  number,
  kind,
  suggested,
  from: began,
  to: ended,
});

export const storedOf = (s: Step): StoredStep => ({
  n: s.n,
  number: s.number,
  kind: s.kind,
  began: s.from,
  ended: s.to,
});

/** Whether a source says anything of this run: one step over the whole of it is not a step. */
function tells(run: RunFile, source: StepSource): boolean {
  const rows = rowsOf(run, source);
  if (told.includes(source) || source === 'fixed' || rows.length !== 1) return rows.length > 0;
  const first = run.all<{ at: number | null }>('SELECT min(at) AS at FROM tick')[0]?.at ?? 0;
  return rows[0]!.ended !== null || rows[0]!.began > first + 2 * run.intervalMs;
}

export function pressureSpells(run: RunFile, from: number, to: number): PressureSpell[] {
  return run.all<PressureSpell>(
    `SELECT w, began AS "from", ended AS "to", preemptions, waiting, hits_before AS hitRateBefore, hits AS hitRate
     FROM pressure WHERE began <= :to AND ended >= :from ORDER BY began, w`,
    { from, to },
  );
}
