/**
 * The channel to whoever started the engine as its child, which is the desktop app's main process: what main is told,
 * and what only main can reach: the OS's keychain, and its proxies. Secrets go through it and nowhere else.
 */
import { EngineError } from './errors.ts';

/** What the engine says to main. */
export type ToMain =
  | { type: 'listening'; port: number }
  /** Another engine works on the data folder: main's window is to show that one. */
  | { type: 'taken'; port: number; token: string }
  | ({ type: 'state' } & RecordingState)
  | { type: 'seal'; id: number; text: string }
  | { type: 'unseal'; id: number; sealed: string }
  | { type: 'proxy'; id: number; url: string };

/** What main says to the engine. */
export type FromMain =
  | { type: 'end' }
  /** null: the keychain refused. */
  | { type: 'sealed'; id: number; sealed: string | null }
  | { type: 'unsealed'; id: number; text: string | null }
  /** As a URL; null: none is needed. */
  | { type: 'proxied'; id: number; proxy: string | null };

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
  /** The system's proxy for an address, as a URL; null: none is needed. Absent: main does not know. */
  proxyFor?: (url: string) => Promise<string | null>;
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
  const { env } = process;
  const ask = askerOver(post, onMessage);
  return {
    ...{ post, onMessage, keychain: env.VLLM_SCOPE_KEYCHAIN === '1' ? keychainOver(ask) : null },
    ...(env.VLLM_SCOPE_PROXY === '1' && {
      proxyFor: (url: string) => ask((id) => ({ type: 'proxy', id, url })),
    }),
  };
}

type Ask = (request: (id: number) => ToMain) => Promise<string | null>;

/** Questions to main and its answers to them. */
function askerOver(post: Parent['post'], onMessage: Parent['onMessage']): Ask {
  let last = 0;
  const waiting = new Map<number, (answer: string | null) => void>();
  onMessage((message) => {
    if (message.type === 'end') return;
    const answer =
      message.type === 'sealed' ? message.sealed : message.type === 'unsealed' ? message.text : message.proxy;
    waiting.get(message.id)?.(answer);
    waiting.delete(message.id);
  });
  return (request) =>
    new Promise((resolve) => {
      const id = ++last;
      waiting.set(id, resolve);
      post(request(id));
    });
}

/** Asks main, which may have to wait for the user: the OS may ask whether the app may use the keychain. */
function keychainOver(ask: Ask): Keychain {
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
