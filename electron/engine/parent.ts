/**
 * The channel to whoever started the engine as its child, which is the desktop app's main process: what main is told,
 * and the OS's keychain, which only main can reach. Secrets go through it and nowhere else.
 */
import { EngineError } from './errors.ts';

/** What the engine says to main. */
export type ToMain =
  | { type: 'listening'; port: number }
  /** Another engine works on the data folder: main's window is to show that one. */
  | { type: 'taken'; port: number; token: string }
  | ({ type: 'state' } & RecordingState)
  | { type: 'seal'; id: number; text: string }
  | { type: 'unseal'; id: number; sealed: string };

/** What main says to the engine. */
export type FromMain =
  | { type: 'end' }
  /** null: the keychain refused. */
  | { type: 'sealed'; id: number; sealed: string | null }
  | { type: 'unsealed'; id: number; text: string | null };

/** Ready to be shown: nothing in it can mislead a terminal or a menu. */
export interface RecordingState {
  /** Names of the clusters that are being recorded. */
  recording: string[];
  /** A sentence for each cluster whose recording stopped by itself. */
  stopped: string[];
}

export interface Keychain {
  /** Gives what only this user's keychain can open again. Throws `bad-input` where it refuses. */
  seal(text: string): Promise<string>;
  /** null: not sealed by this keychain, or it refuses. */
  unseal(sealed: string): Promise<string | null>;
}

export interface Parent {
  post(message: ToMain): void;
  onMessage(listener: (message: FromMain) => void): void;
  /** null: there is none that keeps secrets. */
  keychain: Keychain | null;
}

/** Electron's utilityProcess has this instead of process.send. */
interface ParentPort {
  on(event: 'message', listener: (event: { data: unknown }) => void): void;
  postMessage(message: unknown): void;
}

let opened: Parent | null = null;

/** null: nobody started us with a channel. */
export const parent = (): Parent | null => (opened ??= open());

function open(): Parent | null {
  const { parentPort } = process as unknown as { parentPort?: ParentPort };
  if (!parentPort && !process.send) return null;
  const listeners: ((message: FromMain) => void)[] = [];
  const hear = (message: unknown) => {
    if (typeof message !== 'object' || message === null) return;
    for (const listener of listeners) listener(message as FromMain);
  };
  if (parentPort) parentPort.on('message', ({ data }) => hear(data));
  else process.on('message', hear);
  const post = (message: ToMain) => {
    if (parentPort) parentPort.postMessage(message);
    // a broken channel is noticed by 'disconnect'
    else if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
  };
  const onMessage = (listener: (message: FromMain) => void) => void listeners.push(listener);
  const keychain = process.env.VLLM_SCOPE_KEYCHAIN === '1' ? keychainOver(post, onMessage) : null;
  return { post, onMessage, keychain };
}

/** Asks main, which may have to wait for the user: the OS may ask whether the app may use the keychain. */
export function keychainOver(post: Parent['post'], onMessage: Parent['onMessage']): Keychain {
  let last = 0;
  const waiting = new Map<number, (answer: string | null) => void>();
  onMessage((message) => {
    if (message.type === 'end') return;
    waiting.get(message.id)?.(message.type === 'sealed' ? message.sealed : message.text);
    waiting.delete(message.id);
  });
  const ask = (request: (id: number) => ToMain) =>
    new Promise<string | null>((resolve) => {
      const id = ++last;
      waiting.set(id, resolve);
      post(request(id));
    });
  return {
    async seal(text) {
      const sealed = await ask((id) => ({ type: 'seal', id, text }));
      if (sealed !== null) return sealed;
      throw new EngineError(
        'bad-input',
        "The system's keychain refused to keep the secret. Unlock it and try again.",
      );
    },
    unseal: (sealed) => ask((id) => ({ type: 'unseal', id, sealed })),
  };
}
