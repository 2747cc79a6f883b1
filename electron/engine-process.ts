/**
 * Starts the engine beside main, starts it again when it dies (it then goes on with the runs it was writing), passes
 * on what it says, and asks it to end on quit. Port and token are fixed for main's lifetime, so that a page finds the
 * restarted engine where the old one was.
 * Knows nothing of windows; what it needs of Electron comes in as an argument.
 */
import { fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SafeStorage, UtilityProcess, utilityProcess } from 'electron';
import type { FromMain, RecordingState, ToMain } from './engine/parent.ts';
import { answerOf } from './secrets.ts';
import { proxyUrl } from './system-proxy.ts';

const slowestRestartMs = 10_000;
/** Up this long, the next death is a new misfortune and not the last one again. */
const steadyMs = 30_000;
const endWithinMs = 5_000;

export interface EngineOptions {
  /** The built engine.js. */
  file: string;
  /** Where `node_modules` is: its Node runs the engine where Electron's own is too old. */
  appFolder: string;
  /** undefined: the engine's own default. */
  dataFolder: string | undefined;
  /** 0: any free one. */
  port: number;
  firstRestartMs: number;
  utility: typeof utilityProcess;
  /** null: secrets cannot be kept in the OS's keychain. */
  safeStorage: SafeStorage | null;
  /** The system's proxy for an address, as Chromium says it. */
  resolveProxy: (url: string) => Promise<string>;
  /** An engine serves; again after every restart, with the same port and token. */
  onServing(this: void, serving: Serving): void;
  /** What it records has changed. */
  onState(this: void, state: RecordingState): void;
  /** It died before it ever served: a sentence for the user. It is not started again. */
  onFailed(this: void, sentence: string): void;
}

export interface Serving {
  port: number;
  token: string;
  /** false: another engine, which was on the data folder before. Ours takes over when that one is gone. */
  own: boolean;
}

export interface EngineProcess {
  /** Resolves when the engine is gone; it is given 5 s to close its run. */
  end(): Promise<void>;
}

/** What a utilityProcess and a forked Node have in common here. */
interface Child {
  pid: number | undefined;
  stderr: Readable | null;
  post(message: FromMain): void;
}

/**
 * The prebuilt SQLite needs Node-API 10. An Electron without it (the stand-in of the tests) runs the engine in the
 * Node of node_modules; never in its own, which that SQLite kills by a signal.
 */
function startChild(
  options: EngineOptions,
  args: string[],
  env: NodeJS.ProcessEnv,
  onMessage: (message: unknown) => void,
  onExit: (sentence: string) => void,
): Child {
  if (Number(process.versions.napi) >= 10) {
    const child: UtilityProcess = options.utility.fork(options.file, args, {
      env,
      serviceName: 'vLLM Scope engine',
      stdio: ['ignore', 'inherit', 'pipe'],
    });
    child.on('message', onMessage);
    child.once('exit', (code) => onExit(`The engine ended with code ${code}.`));
    return {
      get pid() {
        return child.pid;
      },
      stderr: child.stderr as Readable | null,
      post: (message) => child.postMessage(message),
    };
  }
  const child = fork(options.file, args, {
    env,
    execPath: path.join(options.appFolder, 'node_modules/.bin/node'),
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
  });
  child.on('message', onMessage);
  child.once('exit', (code, signal) => onExit(`The engine ended with ${signal ?? `code ${code}`}.`));
  // no 'exit' follows where the program itself could not be run
  child.once('error', (error) => child.pid === undefined && onExit(notStarted(error)));
  return {
    pid: child.pid,
    stderr: child.stderr,
    // a broken channel means that it is ending by itself
    post: (message) => child.connected && child.send(message, () => undefined),
  };
}

const notStarted = (error: unknown) =>
  `The engine cannot be started: ${error instanceof Error ? error.message : String(error)}.`;

export function startEngine(options: EngineOptions): EngineProcess {
  const token = randomBytes(16).toString('hex');
  let port = options.port;
  let served = false;
  let ending = false;
  let delay = options.firstRestartMs;
  let timer: NodeJS.Timeout | undefined;
  let child: Child | null = null;
  let gone = Promise.resolve();

  const start = () => {
    const args = ['serve', '--host', '127.0.0.1', '--port', String(port)];
    if (options.dataFolder !== undefined) args.push('--data', options.dataFolder);
    // the environment, since a command line can be read by every user of the machine
    const env: NodeJS.ProcessEnv = { ...process.env, VLLM_SCOPE_TOKEN: token };
    // after its death under the app the runs that it wrote go on; at the app's own start they have ended
    if (served) env.VLLM_SCOPE_RESUME = '1';
    else delete env.VLLM_SCOPE_RESUME;
    env.VLLM_SCOPE_PROXY = '1';
    if (options.safeStorage) env.VLLM_SCOPE_KEYCHAIN = '1';
    else delete env.VLLM_SCOPE_KEYCHAIN;
    let listeningAt: number | null = null;
    let lastWords = '';

    const hear = (message: unknown) => {
      const said = message as ToMain;
      switch (said.type) {
        case 'listening':
          port = said.port;
          served = true;
          listeningAt = Date.now();
          options.onServing({ port, token, own: true });
          break;
        case 'taken':
          served = true;
          listeningAt = Date.now();
          // what is recorded there is not ours to end
          options.onState({ recording: [], stopped: [] });
          options.onServing({ port: said.port, token: said.token, own: false });
          break;
        case 'state':
          options.onState({ recording: said.recording, stopped: said.stopped });
          break;
        case 'proxy': {
          const { id, url } = said;
          const answered = (proxy: string | null) => child?.post({ type: 'proxied', id, proxy });
          options.resolveProxy(url).then(
            (found) => answered(proxyUrl(found)),
            () => answered(null),
          );
          break;
        }
        default: {
          const answer = options.safeStorage && answerOf(options.safeStorage, said);
          if (answer) child?.post(answer);
        }
      }
    };
    const exit = new Promise<string>((resolve) => {
      try {
        child = startChild(options, args, env, hear, resolve);
      } catch (error) {
        resolve(notStarted(error));
      }
    });
    const stderr = child?.stderr;
    stderr?.setEncoding('utf8').on('data', (text: string) => {
      process.stderr.write(text);
      lastWords = (lastWords + text).slice(-2000);
    });
    const drained = stderr ? once(stderr, 'close') : Promise.resolve();

    gone = exit.then(async (ended) => {
      // its last words may still be in the pipe; a grandchild may hold the pipe for ever
      await Promise.race([drained, sleep(300)]);
      child = null;
      if (ending) return;
      if (!served) {
        options.onFailed(lastWords.trimEnd().split('\n').at(-1) || ended);
        return;
      }
      if (listeningAt !== null && Date.now() - listeningAt >= steadyMs) delay = options.firstRestartMs;
      process.stderr.write(`${ended} It is started again in ${delay} ms.\n`);
      timer = setTimeout(start, delay);
      delay = Math.min(delay * 2, slowestRestartMs);
    });
  };
  start();

  return {
    async end() {
      ending = true;
      clearTimeout(timer);
      const running = child;
      if (running === null) return;
      running.post({ type: 'end' });
      const kill = setTimeout(() => {
        process.stderr.write(`The engine did not end within ${endWithinMs} ms and is killed.\n`);
        try {
          if (running.pid !== undefined) process.kill(running.pid, 'SIGKILL');
        } catch {
          // it went at this very moment
        }
      }, endWithinMs);
      await gone;
      clearTimeout(kill);
    },
  };
}
