/** RUN of the command line: which run is meant, and an engine that has it. */
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { RunSummary } from './api.ts';
import { adoptedRun, tidy } from './adopt.ts';
import { createEngine } from './engine.ts';
import { EngineError } from './errors.ts';
import { inProcess, useEngine, type UsedEngine } from './running-engine.ts';
import { shown } from './shown.ts';
import type { Given } from './verbs.ts';

type OnRun = (engine: UsedEngine, run: RunSummary) => Promise<void>;

/**
 * RUN is an id, a file's path, a name, or a cluster's name: its newest run. A file that the data folder does not know is
 * read where it lies, by an engine on a folder of its own; `remembered`: that one is found again the next time, wherever
 * the file lies then. The steps of a run that is over are found when `act` begins.
 */
export async function withRun(wanted: string, given: Given, act: OnRun, remembered = false): Promise<void> {
  const file = fs.statSync(wanted, { throwIfNoEntry: false })?.isFile() ? fs.realpathSync(wanted) : null;
  const { dataFolder, version } = given;
  if (fs.existsSync(path.join(dataFolder, 'library.db'))) {
    const engine = await useEngine({ dataFolder, version, idle: true });
    try {
      const run = runOf(wanted, file, await engine.methods.listRuns());
      if (run) {
        await engine.methods.findMissingSteps(run.id);
        await act(engine, run);
        return;
      }
    } finally {
      await engine.close();
    }
  }
  if (file === null)
    throw new EngineError(
      'not-found',
      `No run and no file is called "${shown(wanted)}". "vllm-scope runs" lists the runs of ${dataFolder}.`,
    );
  const folder = remembered
    ? elsewhere(dataFolder, adoptedRun(file).id)
    : fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-'));
  let adopted = false;
  try {
    const engine = await createEngine({ dataFolder: folder, version, idle: true });
    try {
      const run = engine.adopt(file);
      adopted = true;
      await engine.methods.findMissingSteps(run.id);
      await act(inProcess(engine), run);
    } finally {
      await engine.close();
    }
  } finally {
    if (adopted) tidy(file);
    if (!remembered) fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** What is remembered of a run of another data folder; its id comes out of a file that anybody may have made. */
function elsewhere(dataFolder: string, id: string): string {
  const name = crypto.createHash('sha256').update(id).digest('hex').slice(0, 24);
  const folder = path.join(dataFolder, 'elsewhere', name);
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}

function runOf(wanted: string, file: string | null, runs: readonly RunSummary[]): RunSummary | undefined {
  const isFile = (r: RunSummary) =>
    file !== null && (r.file === file || (fs.existsSync(r.file) && fs.realpathSync(r.file) === file));
  const known = runs.find((r) => r.id === wanted) ?? runs.find(isFile);
  if (known) return known;
  const named = runs.filter((r) => r.name === wanted);
  // a cluster's name: its newest run
  if (named.length === 0)
    return runs.filter((r) => r.clusterName === wanted).sort((a, b) => b.startedAt - a.startedAt)[0];
  if (named.length > 1)
    throw new EngineError(
      'bad-input',
      `${named.length} runs are called "${shown(wanted)}". Give an id: ${named.map((r) => r.id).join(', ')}.`,
    );
  return named[0];
}
