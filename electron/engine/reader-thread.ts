/** Starts the reading thread and asks it; a thread that died is started again at the next call. */
import { Worker } from 'node:worker_threads';
import type { ReaderCalls } from './reader.ts';
import { createCaller, type Caller, type Frame } from './rpc.ts';

export interface ReaderThread {
  calls: ReaderCalls;
  close(): Promise<void>;
}

/** `report` is told why a thread died; its pending calls reject with `engine-gone`. */
export function startReader(report: (error: unknown) => void): ReaderThread {
  // beside this file: as source when Node runs the sources, built otherwise
  const file = new URL(import.meta.url.endsWith('.ts') ? './reader.ts' : './reader.js', import.meta.url);
  let thread: { worker: Worker; caller: Caller<ReaderCalls, Frame> } | null = null;

  const alive = () => {
    if (thread) return thread;
    // the garbage of reading is young: little room for it keeps the process small
    const worker = new Worker(file, { resourceLimits: { maxYoungGenerationSizeMb: 12 } });
    const caller = createCaller<ReaderCalls>((frame) => worker.postMessage(frame));
    const started = { worker, caller };
    worker.on('message', (frame: Frame) => caller.receive(frame));
    worker.on('error', report);
    worker.on('exit', () => {
      if (thread === started) thread = null;
      caller.gone();
    });
    return (thread = started);
  };

  return {
    calls: new Proxy({} as ReaderCalls, {
      get: (_target, name) => Reflect.get(alive().caller.methods, name) as unknown,
    }),
    async close() {
      const last = thread;
      thread = null;
      await last?.worker.terminate();
    },
  };
}
