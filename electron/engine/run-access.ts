/** Run files that are not being written: what a crash left open, missing rollups, and writing into one for a moment. */
import type { Events } from './api.ts';
import { fileBytes } from './recorder.ts';
import { sentenceOf } from './errors.ts';
import type { Library, StoredRun } from './library.ts';
import type { ReaderCalls } from './reader.ts';
import { progressOf } from './progress.ts';
import { rollUpRun } from './recording.ts';
import { RunStore } from './store.ts';

export interface RunAccessSurroundings {
  library: Library;
  reader: ReaderCalls;
  /** Of a run that is being recorded. */
  liveStore: (run: StoredRun) => RunStore | undefined;
  emit: (event: 'progress', data: Events['progress']) => void;
  runsChanged: () => void;
  report: (sentence: string) => void;
}

export function createRunAccess(around: RunAccessSurroundings) {
  const { library, reader, report } = around;
  const teller = progressOf(around.emit);
  /** Ended runs whose rollups are being made, so that none is made twice. */
  const rolling = new Map<string, Promise<void>>();

  /** Closes what a crash left open: its WAL is folded in, its last tick is its end. */
  const closeUnexpected = (run: StoredRun) => {
    const now: StoredRun = { ...run, state: 'ended-unexpectedly' };
    try {
      const store = RunStore.open(run.file);
      const last = store.lastTick();
      now.ended = last?.at ?? null;
      now.ticks = store.ticks;
      now.workers = store.workers;
      store.close(last?.at ?? run.started);
    } catch (error) {
      report(sentenceOf(error));
    }
    now.bytes = fileBytes(run.file);
    library.putRun(now);
  };

  /** Makes missing rollups of a run that is not being written (a crash, a new formula) before it is shown. */
  const readyToRead = (run: StoredRun): Promise<void> => {
    if (run.state === 'recording') return Promise.resolve();
    let work = rolling.get(run.id);
    if (!work) {
      work = (async () => {
        const store = RunStore.open(run.file);
        try {
          await rollUpRun(store, reader, Infinity, () => false, teller(`open ${run.id}`));
        } finally {
          store.close(run.ended ?? run.started);
        }
        // a crash left the summary without it
        const now = library.run(run.id);
        if (now?.generation_tokens === null) {
          const generation_tokens = await reader.generationTokens(run.file);
          if (generation_tokens === null) return;
          library.putRun({ ...now, generation_tokens });
          around.runsChanged();
        }
      })();
      rolling.set(run.id, work);
      work.catch(() => rolling.delete(run.id));
    }
    return work;
  };

  /** Of the run's recording, or opened for this. */
  const withStore = async <T>(run: StoredRun, act: (store: RunStore) => T | Promise<T>): Promise<T> => {
    const live = around.liveStore(run);
    if (live) return act(live);
    const store = RunStore.open(run.file);
    try {
      return await act(store);
    } finally {
      store.close(run.ended ?? run.started);
    }
  };

  return {
    closeUnexpected,
    readyToRead,
    withStore,
    /** What is being rolled up is over, or failed. */
    rolledUp: () => Promise.allSettled(rolling.values()),
  };
}
