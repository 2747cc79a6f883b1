/**
 * Both ends of the wire between engine and page: frames, calls, events. Runs in Node and in the page; knows no
 * socket, only "send this" and "this came". JSON text frames; a message that holds float arrays becomes a binary
 * frame: u32 length of the JSON (little endian), JSON with placeholders, padding to 8, then the arrays' bytes.
 */
import type { ErrorKind, Events, Implementation, Remote } from './api.ts';
import { EngineError, sentenceOf } from './errors.ts';

export { EngineError };

type FloatArray = Float64Array | Float32Array;
interface Placeholder {
  $floats: 4 | 8;
  at: number;
  length: number;
}
type Wire = string | Uint8Array;

const align = (n: number) => (n + 7) & ~7;

/** Text where the message holds no float array, otherwise a binary frame. */
export function encode(message: unknown): Wire {
  const arrays: FloatArray[] = [];
  let bytes = 0;
  const json = JSON.stringify(message, (_key, value: unknown) => {
    if (!(value instanceof Float64Array || value instanceof Float32Array)) return value;
    const placeholder: Placeholder = {
      $floats: value.BYTES_PER_ELEMENT as 4 | 8,
      at: bytes,
      length: value.length,
    };
    arrays.push(value);
    bytes += align(value.byteLength);
    return placeholder;
  });
  if (arrays.length === 0) return json;
  const head = new TextEncoder().encode(json);
  const start = align(4 + head.length);
  const frame = new Uint8Array(start + bytes);
  new DataView(frame.buffer).setUint32(0, head.length, true);
  frame.set(head, 4);
  let at = start;
  for (const a of arrays) {
    frame.set(new Uint8Array(a.buffer, a.byteOffset, a.byteLength), at);
    at += align(a.byteLength);
  }
  return frame;
}

/** The reverse. Float arrays are views into the frame where its alignment allows, otherwise into a copy. */
export function decode(frame: string | ArrayBuffer | Uint8Array): unknown {
  if (typeof frame === 'string') return JSON.parse(frame);
  let bytes = frame instanceof Uint8Array ? frame : new Uint8Array(frame);
  if (bytes.byteOffset % 8 !== 0) bytes = new Uint8Array(bytes); // slice() of a Buffer is no copy
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const start = align(4 + length);
  if (4 + length > bytes.length) throw new RangeError('a frame that ends too early');
  const json = new TextDecoder().decode(bytes.subarray(4, 4 + length));
  return JSON.parse(json, (_key, value: unknown) => {
    if (typeof value !== 'object' || value === null || !('$floats' in value)) return value;
    const p = value as Placeholder;
    // around the frame lies what others sent
    if (p.at < 0 || start + p.at + p.length * p.$floats > bytes.length)
      throw new RangeError('a float array outside of its frame');
    const at = bytes.byteOffset + start + p.at;
    return p.$floats === 4
      ? new Float32Array(bytes.buffer as ArrayBuffer, at, p.length)
      : new Float64Array(bytes.buffer as ArrayBuffer, at, p.length);
  });
}

/** What goes over a connection, before it is encoded. `id` pairs a reply with its call. */
export type Frame =
  | { id: number; call: string; args: unknown[] }
  | { cancel: number }
  | { id: number; result: unknown }
  | { id: number; error: { kind: ErrorKind; message: string } }
  | { event: string; data: unknown };

type Listener<E extends keyof Events> = (data: Events[E]) => void;

/** The asking end of a connection that carries frames of type In. */
export interface Caller<Calls, In> {
  methods: Calls;
  on<E extends keyof Events>(event: E, listener: Listener<E>): () => void;
  /** Hand over what came. */
  receive(frame: In): void;
  /** The connection broke: every pending call rejects with `engine-gone`. */
  gone(): void;
}
export type Client = Caller<Remote, string | ArrayBuffer | Uint8Array>;

/**
 * Calls over anything that carries frames (a thread's messages). An AbortSignal as the last argument takes the call
 * back: it rejects with `cancelled`.
 */
export function createCaller<Calls extends object>(post: (frame: Frame) => void): Caller<Calls, Frame> {
  const pending = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  const listeners = new Map<string, Set<(data: never) => void>>();
  let last = 0;

  const call = (name: string, given: unknown[]): Promise<unknown> => {
    const args = [...given];
    const signal = args.at(-1) instanceof AbortSignal ? (args.pop() as AbortSignal) : undefined;
    const id = ++last;
    return new Promise((resolve, reject) => {
      const cancelled = () => {
        if (!pending.delete(id)) return;
        reject(new EngineError('cancelled', 'Cancelled.'));
        try {
          post({ cancel: id });
        } catch {
          // the connection broke meanwhile: nothing left to cancel
        }
      };
      if (signal?.aborted) {
        reject(new EngineError('cancelled', 'Cancelled.'));
        return;
      }
      const settle =
        <T>(act: (value: T) => void) =>
        (value: T) => {
          signal?.removeEventListener('abort', cancelled);
          act(value);
        };
      pending.set(id, { resolve: settle(resolve), reject: settle(reject) });
      signal?.addEventListener('abort', cancelled);
      try {
        post({ id, call: name, args });
      } catch {
        pending.delete(id);
        reject(new EngineError('engine-gone', 'The engine is not connected.'));
      }
    });
  };

  return {
    methods: new Proxy({} as Calls, {
      get: (_target, name) =>
        // a promise of the proxy itself must not be taken for a thenable
        typeof name === 'string' && name !== 'then' ? (...args: unknown[]) => call(name, args) : undefined,
    }),
    on(event, listener) {
      const set = listeners.get(event) ?? new Set();
      listeners.set(event, set.add(listener));
      return () => set.delete(listener);
    },
    receive(frame) {
      if ('event' in frame) {
        for (const listener of listeners.get(frame.event) ?? []) listener(frame.data as never);
      } else if ('id' in frame) {
        const waiting = pending.get(frame.id);
        pending.delete(frame.id);
        if ('error' in frame) waiting?.reject(new EngineError(frame.error.kind, frame.error.message));
        else if ('result' in frame) waiting?.resolve(frame.result);
      }
    },
    gone() {
      const all = [...pending.values()];
      pending.clear();
      for (const { reject } of all)
        reject(new EngineError('engine-gone', 'The connection to the engine broke.'));
    },
  };
}

/** The page's end of the contract, over anything that sends text and bytes. */
export function createClient(send: (frame: Wire) => void): Client {
  const caller = createCaller<Remote>((frame) => send(encode(frame)));
  return { ...caller, receive: (raw) => caller.receive(decode(raw) as Frame) };
}

export const encodeEvent = <E extends keyof Events>(event: E, data: Events[E]): Wire =>
  encode({ event, data } satisfies Frame);

type Callable = (...args: never[]) => unknown;

/** The answering end of one connection. Only own properties of `methods` can be called. */
export function answerCalls(
  methods: object,
  post: (frame: Frame) => void,
  report: (bug: unknown) => void,
): { receive(frame: Frame): void; gone(): void } {
  const running = new Map<number, AbortController>();

  const run = async (id: number, name: string, args: unknown[]) => {
    const control = new AbortController();
    running.set(id, control);
    let reply: Frame;
    try {
      if (!Object.hasOwn(methods, name))
        throw new EngineError('bad-input', `The engine knows no call "${name}".`);
      const method = (methods as Record<string, Callable>)[name] as (...args: unknown[]) => unknown;
      reply = { id, result: (await method(...args, control.signal)) ?? null };
    } catch (error) {
      if (!(error instanceof EngineError)) report(error);
      reply = {
        id,
        error:
          error instanceof EngineError
            ? { kind: error.kind, message: error.message }
            : { kind: 'bug', message: `A fault in the engine: ${sentenceOf(error)}` },
      };
    }
    running.delete(id);
    if (!control.signal.aborted) post(reply);
  };

  return {
    receive(frame) {
      if ('call' in frame) void run(frame.id, frame.call, Array.isArray(frame.args) ? frame.args : []);
      else if ('cancel' in frame) running.get(frame.cancel)?.abort();
    },
    /** The connection ended: every running call is cancelled. */
    gone() {
      for (const control of running.values()) control.abort();
    },
  };
}

export interface Peer {
  receive(frame: string | Uint8Array): void;
  gone(): void;
}

/** The engine's end of the contract. */
export function answer(
  methods: Implementation,
  send: (frame: Wire) => void,
  report: (bug: unknown) => void,
): Peer {
  const peer = answerCalls(methods, (frame) => send(encode(frame)), report);
  return { ...peer, receive: (raw) => peer.receive(decode(raw) as Frame) };
}
