/**
 * What `serve` does in addition when the desktop app started it: waits for a data folder on which another engine
 * works, and tells main what is being recorded.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createEngine, type Engine, type EngineOptions } from './engine.ts';
import { EngineError } from './errors.ts';
import type { Parent } from './parent.ts';
import { runningEngine } from './running-engine.ts';
import { shown } from './shown.ts';

/** An engine that starts or ends holds the folder without being announced; a `record` does for long. */
const patienceMs = 6_000;
const againMs = 500;

/**
 * The engine on this folder. As long as another one works there, main is told of that one, and it is watched until it
 * is gone; its runs go on where it died. null: `ending` came first. Throws as createEngine does; `folder-locked` where
 * somebody holds the folder whom no window can be opened on.
 */
export async function engineOnceFree(
  options: EngineOptions,
  main: Parent,
  ending: Promise<void>,
): Promise<Engine | null> {
  const since = Date.now();
  let taken = false;
  let ended = false;
  void ending.then(() => (ended = true));
  while (!ended) {
    try {
      return await createEngine(taken ? { ...options, resume: true } : options);
    } catch (error) {
      if (!(error instanceof EngineError && error.kind === 'folder-locked')) throw error;
      const other = await runningEngine(options.dataFolder);
      if (other) {
        taken = true;
        main.post({ type: 'taken', port: other.port, token: other.token });
        await Promise.race([other.gone, ending]);
        await other.close();
      } else if (!taken && Date.now() - since > patienceMs) throw error;
      else await Promise.race([sleep(againMs), ending]);
    }
  }
  return null;
}

/** Now, and whenever it changes. */
export function tellRecording(engine: Engine, main: Parent): void {
  let told = '';
  const tell = async () => {
    const clusters = await engine.methods.listClusters();
    const recording = clusters.flatMap((c) => (c.recording === null ? [] : [shown(c.name)]));
    const stopped = clusters.flatMap((c) => (c.stopped === null ? [] : [shown(`${c.name}: ${c.stopped}`)]));
    const state = JSON.stringify({ recording, stopped });
    if (state === told) return;
    told = state;
    main.post({ type: 'state', recording, stopped });
  };
  engine.on('changed', () => void tell());
  void tell();
}
