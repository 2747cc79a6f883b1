/** The reading thread's calls that are about steps, as reader.ts answers them. `file` is a path. */
import type {
  PressureSpell,
  ScalarQuery,
  Steps,
  StepSource,
  Stragglers,
  WhyQuery,
  Why,
} from './api-steps.ts';
import { metrics } from './catalogue.ts';
import {
  computeScalars,
  floats,
  missingScalars,
  readKept,
  readScalars,
  type ComputedScalars,
  type FoundScalars,
} from './scalars.ts';
import { keptSets, lookedUntil, pressureSpells, readSteps, storedOf, type KeptSet } from './step-reads.ts';
import { PressureScan, StepScan, type PressureFound, type ScanQuery, type StepsFound } from './step-scan.ts';
import type { StoredStep } from './step-store.ts';
import { stragglers, unpackWork, WORK, type Work } from './stragglers.ts';
import type { RunFile } from './timelines.ts';
import type { Mapping } from './upload-mapping.ts';
import { plan, plotText, rowCount, rows, rowsDigest, type PlannedRows, type Rows } from './upload-rows.ts';
import { why } from './why.ts';

export interface StepCalls {
  lookedUntil(file: string, signal?: AbortSignal): Promise<number | null>;
  stepSets(file: string, signal?: AbortSignal): Promise<KeptSet[]>;
  steps(file: string, source: StepSource | null, signal?: AbortSignal): Promise<Steps>;
  /** A slice of a look over the file; the same `task` goes on where its last call stopped. */
  scanSteps(file: string, task: string, query: ScanQuery, signal?: AbortSignal): Promise<StepsFound>;
  scanPressure(file: string, ended: boolean, signal?: AbortSignal): Promise<PressureFound>;
  /** A task is over before its end. */
  forgetScan(file: string, task: string): Promise<void>;
  missingScalars(file: string, source: StepSource, signal?: AbortSignal): Promise<StoredStep[]>;
  computeScalars(
    file: string,
    step: StoredStep,
    previous: StoredStep | null,
    signal?: AbortSignal,
  ): Promise<ComputedScalars>;
  /** With those that are not kept: the last steps of a run that goes on. */
  scalars(file: string, query: ScalarQuery, goesOn: boolean, signal?: AbortSignal): Promise<FoundScalars>;
  stragglers(file: string, from: number, to: number, signal?: AbortSignal): Promise<Stragglers>;
  pressure(file: string, from: number, to: number, signal?: AbortSignal): Promise<PressureSpell[]>;
  why(file: string, query: WhyQuery, signal?: AbortSignal): Promise<Why>;

  /** Rows for W&B that there are by now. */
  rowCount(file: string, mapping: Mapping, signal?: AbortSignal): Promise<number>;
  rowsDigest(file: string, mapping: Mapping, rows: number, signal?: AbortSignal): Promise<string | null>;
  rows(
    file: string,
    mapping: Mapping,
    first: number,
    count: number,
    sent: number,
    signal?: AbortSignal,
  ): Promise<Rows>;
  plotText(file: string, mapping: Mapping, line: number, name: string): Promise<string | null>;
  plan(file: string, mapping: Mapping, signal?: AbortSignal): Promise<PlannedRows>;
}

type OnRun<F> = F extends (file: string, ...args: infer Args) => Promise<infer Result>
  ? (run: RunFile, file: string, ...args: Args) => Result | Promise<Result>
  : never;

/** Scans that go on, by file and task. */
const stepScans = new Map<string, StepScan>();
const pressureScans = new Map<string, PressureScan>();
const keyOf = (file: string, task: string) => `${file}\0${task}`;

/** The reader closed the file. */
export function forgetScans(file: string): void {
  for (const key of stepScans.keys()) if (key.startsWith(`${file}\0`)) stepScans.delete(key);
  pressureScans.delete(file);
}

/** Of a run that goes on, so many of the last steps are computed for the answer where they are not kept yet. */
const UNSETTLED = 8;

export const stepCalls: { [Call in keyof StepCalls]: OnRun<StepCalls[Call]> } = {
  lookedUntil: (run) => lookedUntil(run),
  stepSets: (run) => keptSets(run),
  steps: (run, _file, source) => readSteps(run, source),
  scanSteps: (run, file, task, query) => {
    const key = keyOf(file, task);
    let scan = stepScans.get(key);
    if (!scan?.fits(query.settings)) stepScans.set(key, (scan = new StepScan(run, query.settings)));
    const result = scan.next(run, query);
    if (query.ended && result.slot >= result.slots) stepScans.delete(key);
    return result;
  },
  scanPressure: (run, file, ended) => {
    let scan = pressureScans.get(file);
    if (!scan) pressureScans.set(file, (scan = new PressureScan(run)));
    const result = scan.next(run, ended);
    if (ended && result.slot >= result.slots) pressureScans.delete(file);
    return result;
  },
  forgetScan: (_run, file, task) => void stepScans.delete(keyOf(file, task)),
  missingScalars: (run, _file, source) => missingScalars(run, source),
  computeScalars: (run, _file, step, previous) => computeScalars(run, step, previous),
  scalars: async (run, _file, query, goesOn) => {
    const { source, steps } = readSteps(run, query.source);
    const kept = run.memo(`scalars ${source}`, () =>
      readKept(
        run,
        source,
        steps,
        metrics.map((m) => m.id),
      ),
    );
    const last = goesOn || steps.at(-1)?.to === null ? steps.slice(-UNSETTLED) : [];
    const fresh: ComputedScalars[] = [];
    for (const step of last.filter((s) => !kept.there[s.n])) {
      const previous = steps[step.n - 1];
      fresh.push(await computeScalars(run, storedOf(step), previous ? storedOf(previous) : null));
    }
    return readScalars(run, kept, query.metrics, query.workers, fresh);
  },
  stragglers: (run, _file, from, to) => {
    const { source, steps } = readSteps(run, null);
    const overlapping = steps.filter((s) => {
      const end = s.to ?? to;
      return Math.min(end, to) - Math.max(s.from, from) > (end - s.from) / 2;
    });
    // nobody has ended last yet in one that runs
    const over = overlapping.filter((s) => s.to !== null);
    const inWindow = over.length > 0 ? over : overlapping;
    const kept = new Map<number, Work[]>();
    for (const row of run.all<{ n: number; each: Uint8Array }>(
      `SELECT e.n, e.each FROM worker_scalar e JOIN scalar c USING (source, n) JOIN step s USING (source, n)
       WHERE e.source = :source AND e.metric = '${WORK}' AND c.began = s.began AND c.ended = s.ended`,
      { source },
    ))
      kept.set(row.n, unpackWork(floats(row.each)));
    return stragglers(run, inWindow, { from, to }, kept);
  },
  pressure: (run, _file, from, to) => pressureSpells(run, from, to),
  why: (run, _file, query) => why(run, query),
  rowCount: (run, _file, mapping) => rowCount(run, mapping),
  rowsDigest: (run, _file, mapping, n) => rowsDigest(run, mapping, n),
  rows: (run, _file, mapping, first, count, sent) => rows(run, mapping, first, count, sent),
  plotText: (run, _file, mapping, line, name) => plotText(run, mapping, line, name),
  plan: (run, _file, mapping) => plan(run, mapping),
};
