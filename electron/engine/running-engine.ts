/**
 * The engine that a command talks to: the one that runs on the data folder, found by its engine.json, otherwise one
 * started for the call. Both give the same contract.
 */
import { WebSocket } from 'ws';
import type { Events, Remote } from './api.ts';
import { announced, type RunningEngine } from './data-folder.ts';
import { createEngine, type Engine, type EngineOptions } from './engine.ts';
import { EngineError } from './errors.ts';
import { createClient } from './rpc.ts';
import { SUBPROTOCOL } from './server.ts';

export interface UsedEngine {
  methods: Remote;
  on: <E extends keyof Events>(event: E, listener: (data: Events[E]) => void) => () => void;
  /** Resolves when the connection has ended; never for an engine in this process. */
  gone: Promise<void>;
  /** Ends the connection, or the engine that was started for the call. */
  close(): Promise<void>;
}

/** A connection to an engine on this machine. Rejects with `engine-gone` where none answers. */
export function connectTo(port: number, token: string): Promise<UsedEngine> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`, [SUBPROTOCOL, token], {
      perMessageDeflate: false,
      handshakeTimeout: 3000, // what listens there may be something else
    });
    const client = createClient((frame) => {
      if (socket.readyState !== WebSocket.OPEN) throw new Error('closed');
      socket.send(frame);
    });
    const gone = new Promise<void>((done) => socket.once('close', () => done()));
    socket.on('open', () =>
      resolve({
        methods: client.methods,
        on: (event, listener) => client.on(event, listener),
        gone,
        close: () => {
          socket.close();
          return gone;
        },
      }),
    );
    socket.on('message', (data, isBinary) => {
      const bytes = data as Buffer;
      client.receive(isBinary ? bytes : bytes.toString('utf8'));
    });
    socket.on('close', () => client.gone());
    socket.on('error', (error) =>
      reject(new EngineError('engine-gone', `No engine answers on port ${port}: ${error.message}`)),
    );
  });
}

/** The engine that runs on the folder, and a connection to it; null where none answers. */
export async function runningEngine(folder: string): Promise<(UsedEngine & RunningEngine) | null> {
  const running = announced(folder);
  if (!running) return null;
  try {
    return { ...running, ...(await connectTo(running.port, running.token)) };
  } catch {
    return null; // a dead one's announcement; the lock on the folder is what decides
  }
}

export async function useEngine(options: EngineOptions): Promise<UsedEngine> {
  return (await runningEngine(options.dataFolder)) ?? inProcess(await createEngine(options));
}

/** An engine of this process, as a connection to one. */
export function inProcess(engine: Engine): UsedEngine {
  const call =
    (method: (...args: unknown[]) => unknown) =>
    async (...args: unknown[]) =>
      await method(...args);
  return {
    methods: new Proxy({} as Remote, {
      get: (_target, name) =>
        Object.hasOwn(engine.methods, name)
          ? call(Reflect.get(engine.methods, name) as (...args: unknown[]) => unknown)
          : undefined,
    }),
    on: (event, listener) => engine.on(event, listener),
    gone: new Promise(() => {}),
    close: () => engine.close(),
  };
}
