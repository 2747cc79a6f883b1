/**
 * Both ends of the wire without a socket: what one end sends is handed to the other, in order. Frames on the wire are
 * looked at byte by byte where the page's speed depends on them (float arrays, their alignment).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Events, Implementation, Ticked } from '../electron/engine/api.ts';
import {
  answer,
  answerCalls,
  createCaller,
  createClient,
  decode,
  encode,
  encodeEvent,
  EngineError,
  type Frame,
} from '../electron/engine/rpc.ts';

/** As a socket gives it: bytes somewhere in a pool, seldom where an array of floats could begin. */
function moved(frame: string | Uint8Array, by: number): string | Uint8Array {
  if (typeof frame === 'string') return frame;
  const pool = new Uint8Array(by + frame.length + 1000);
  pool.set(frame, by);
  return pool.subarray(by, by + frame.length);
}

describe('frames', () => {
  it.each<[unknown]>([
    [null],
    [0],
    ['text with "quotes", \n lines, ü and \u{1f680}'],
    [[1, 'a', null, { b: [] }]],
    [{ id: 7, call: 'getRun', args: ['x', { from: 1.5 }] }],
    [{ $floats: 4 }], // what only looks like one of ours
  ])('%j goes as text and comes back', (message) => {
    const frame = encode(message);
    expect(typeof frame).toBe('string');
    expect(decode(frame)).toEqual(message);
  });

  const many = Object.fromEntries(
    Array.from({ length: 200 }, (_, i) => [
      `series ${i}`,
      i % 2 === 0 ? Float32Array.from({ length: i % 7 }, (_, j) => j + i) : new Float64Array(i % 5).fill(i),
    ]),
  );
  it.each<[string, unknown]>([
    ['one', { times: Float64Array.of(1, 2.5, -0, 1e300) }],
    ['bare', Float32Array.of(1, 2, 3)],
    ['empty ones', { a: new Float64Array(0), b: new Float32Array(0), c: Float64Array.of(9) }],
    ['odd lengths side by side', [Float32Array.of(1), Float64Array.of(2), Float32Array.of(3, 4, 5), 'x']],
    ['NaN and infinities', { v: Float64Array.of(NaN, Infinity, -Infinity), w: Float32Array.of(NaN) }],
    ['many', many],
    [
      'text of every length around them',
      'abcdefgh'.split('').map((_, i) => ['ü'.repeat(i), Float64Array.of(i)]),
    ],
  ])('float arrays: %s', (_name, message) => {
    const frame = encode(message);
    expect(frame).toBeInstanceOf(Uint8Array);
    for (let by = 0; by < 9; by++) {
      const placed = moved(frame, by) as Uint8Array;
      expect(decode(placed)).toEqual(message);
      // as ws gives it, whose slice() is no copy
      expect(decode(Buffer.from(placed.buffer, placed.byteOffset, placed.length))).toEqual(message);
    }
    // as the page's WebSocket gives it
    const { buffer } = (frame as Uint8Array).slice();
    expect(decode(buffer)).toEqual(message);
  });

  it('keeps the two kinds of floats apart', () => {
    const back = decode(encode([Float32Array.of(0.1), Float64Array.of(0.1)])) as unknown[];
    expect(back[0]).toBeInstanceOf(Float32Array);
    expect(back[1]).toBeInstanceOf(Float64Array);
    expect((back[1] as Float64Array)[0]).toBe(0.1);
    expect((back[0] as Float32Array)[0]).toBe(Math.fround(0.1));
  });

  it('the bytes are as the contract says: length, JSON, padding to 8, each array at a multiple of 8', () => {
    const frame = encode({ a: Float32Array.of(1), b: Float64Array.of(2) }) as Uint8Array;
    const view = new DataView(frame.buffer, frame.byteOffset);
    const length = view.getUint32(0, true);
    const json = JSON.parse(new TextDecoder().decode(frame.subarray(4, 4 + length))) as Record<
      string,
      { at: number }
    >;
    const start = Math.ceil((4 + length) / 8) * 8;
    expect(json.a!.at % 8).toBe(0);
    expect(json.b!.at % 8).toBe(0);
    expect(view.getFloat32(start + json.a!.at, true)).toBe(1);
    expect(view.getFloat64(start + json.b!.at, true)).toBe(2);
    expect(frame.length).toBe(start + 16);
  });

  it('arrays come as views into the frame, without a copy, where it is aligned', () => {
    const frame = encode({ a: new Float64Array(1000).fill(3) }) as Uint8Array;
    const { a } = decode(frame) as { a: Float64Array };
    expect(a.buffer).toBe(frame.buffer);
  });

  it('only the part of an array that was given is sent', () => {
    const big = Float64Array.from({ length: 1000 }, (_, i) => i);
    const frame = encode(big.subarray(10, 12)) as Uint8Array;
    expect(frame.length).toBeLessThan(100);
    expect(decode(frame)).toEqual(Float64Array.of(10, 11));
  });

  it.each<[string, string | Uint8Array]>([
    ['no JSON', '{'],
    ['no bytes', new Uint8Array(0)],
    ['three bytes', new Uint8Array(3)],
    ['a length beyond its end', Uint8Array.of(255, 255, 255, 255, 123, 125)],
    ['bytes that are no JSON', Uint8Array.of(2, 0, 0, 0, 200, 201)],
    ['an array beyond its end', withHead('{"$floats":8,"at":0,"length":100}')],
    ['an array of less than nothing', withHead('{"$floats":8,"at":0,"length":-1}')],
    ['an array before its beginning', withHead('{"$floats":8,"at":-800,"length":1}')],
  ])('%s throws instead of giving something', (_name, frame) => {
    expect(() => decode(frame)).toThrow();
    // nor what lies around it in the pool it came in
    expect(() => decode(moved(frame, 1000))).toThrow();
  });
});

/** A binary frame with this JSON and 16 bytes of arrays. */
function withHead(json: string): Uint8Array {
  const frame = new Uint8Array(Math.ceil((4 + json.length) / 8) * 8 + 16);
  new DataView(frame.buffer).setUint32(0, json.length, true);
  frame.set(new TextEncoder().encode(json), 4);
  return frame;
}

interface Calls {
  add(a: number, b: number, signal?: AbortSignal): Promise<number>;
  floats(n: number, signal?: AbortSignal): Promise<{ values: Float64Array }>;
  nothing(signal?: AbortSignal): Promise<undefined>;
  wait(signal?: AbortSignal): Promise<string>;
  refuse(signal?: AbortSignal): Promise<never>;
  break(signal?: AbortSignal): Promise<never>;
}

/** A client and methods behind a wire of two queues; frames go over encoded. */
function connected(own: object = {}) {
  const bugs: unknown[] = [];
  const seen: { aborted: boolean }[] = [];
  const over: Frame[] = [];
  const methods = {
    add: (a: number, b: number) => a + b,
    floats: (n: number) => ({ values: Float64Array.from({ length: n }, (_, i) => i / 2) }),
    nothing: () => undefined,
    wait: (signal: AbortSignal) =>
      new Promise((_resolve, reject) => {
        const call = { aborted: false };
        seen.push(call);
        signal.addEventListener('abort', () => {
          call.aborted = true;
          reject(new EngineError('cancelled', 'Cancelled.'));
        });
      }),
    refuse: () => {
      throw new EngineError('file-newer', 'run.sqlite was written by a newer vLLM Scope.');
    },
    break: () => {
      throw new TypeError('x is not a function');
    },
    ...own,
  };
  const client = createClient((frame) => {
    over.push(decode(frame) as Frame);
    queueMicrotask(() => engine.receive(frame));
  });
  const engine = answer(
    methods as unknown as Implementation,
    (frame) => queueMicrotask(() => client.receive(frame)),
    (bug) => bugs.push(bug),
  );
  const calls = client.methods as unknown as Calls & Record<string, (...args: unknown[]) => Promise<unknown>>;
  return { client, engine, calls, bugs, seen, over };
}

describe('calls', () => {
  it('give what the method gives, floats as floats, and nothing as null', async () => {
    const { calls } = connected();
    expect(await calls.add(2, 3)).toBe(5);
    expect(await calls.floats(3)).toEqual({ values: Float64Array.of(0, 0.5, 1) });
    expect(await calls.nothing()).toBeNull();
  });

  it('are paired with their own answers, in whatever order those come', async () => {
    const { calls } = connected({ later: async (ms: number) => sleep(ms).then(() => ms) });
    expect(await Promise.all([40, 1, 20].map((ms) => calls.later!(ms)))).toEqual([40, 1, 20]);
  });

  it('errors of ours keep their kind and sentence', async () => {
    const { calls, bugs } = connected();
    const error = await calls.refuse().catch((e: unknown) => e);
    expect(error).toBeInstanceOf(EngineError);
    expect(error).toMatchObject({
      kind: 'file-newer',
      message: 'run.sqlite was written by a newer vLLM Scope.',
    });
    expect(bugs).toEqual([]);
  });

  it('anything else thrown is a bug, says so, and is reported where the engine runs', async () => {
    const { calls, bugs } = connected();
    const error = await calls.break().catch((e: unknown) => e);
    expect(error).toMatchObject({ kind: 'bug', message: 'A fault in the engine: x is not a function' });
    expect(bugs).toHaveLength(1);
    expect(bugs[0]).toBeInstanceOf(TypeError);
    expect(await calls.add(1, 1)).toBe(2); // and the connection lives
  });

  it.each([
    'constructor',
    '__proto__',
    'toString',
    'hasOwnProperty',
    'valueOf',
    '__defineGetter__',
    'none',
    '',
  ])('"%s" is no call: only own properties of the methods are', async (name) => {
    const { engine, over } = connected();
    over.length = 0;
    const answers: Frame[] = [];
    const bare = answerCalls(
      { add: (a: number, b: number) => a + b },
      (frame) => answers.push(frame),
      () => {},
    );
    bare.receive({ id: 1, call: name, args: [] });
    bare.receive({ id: 2, call: 'add', args: [1, 2] });
    await sleep(0);
    expect(answers).toEqual([
      { id: 1, error: { kind: 'bad-input', message: `The engine knows no call "${name}".` } },
      { id: 2, result: 3 },
    ]);
    engine.gone();
  });

  it('arguments that are no list are none', async () => {
    const { calls, engine } = connected({ count: (...args: unknown[]) => args.length - 1 });
    expect(await calls.count!()).toBe(0);
    expect(await calls.count!(1, 2)).toBe(2);
    engine.receive(JSON.stringify({ id: 99, call: 'count', args: { length: 5 } }));
    await sleep(0);
    expect(await calls.count!()).toBe(0);
  });

  it('the methods can be awaited themselves and are no promise', async () => {
    const { client, over } = connected();
    expect(await Promise.resolve(client.methods)).toBe(client.methods);
    expect(over).toEqual([]);
  });
});

describe('cancelling', () => {
  it('rejects at once as cancelled, and the method hears of it', async () => {
    const { calls, seen, over } = connected();
    const control = new AbortController();
    const call = calls.wait(control.signal).catch((e: unknown) => e);
    await sleep(0);
    expect(seen).toEqual([{ aborted: false }]);
    control.abort();
    expect(await call).toMatchObject({ kind: 'cancelled' });
    await sleep(0);
    expect(seen).toEqual([{ aborted: true }]);
    // the signal itself is not sent
    expect(over).toEqual([{ id: 1, call: 'wait', args: [] }, { cancel: 1 }]);
  });

  it('before the call: nothing is sent', async () => {
    const { calls, over } = connected();
    await expect(calls.wait(AbortSignal.abort())).rejects.toMatchObject({ kind: 'cancelled' });
    expect(over).toEqual([]);
  });

  it('after the answer: nothing happens', async () => {
    const { calls, over } = connected();
    const control = new AbortController();
    expect(await calls.add(1, 2, control.signal)).toBe(3);
    control.abort();
    await sleep(0);
    expect(over).toHaveLength(1);
  });

  it('one call of several', async () => {
    const { calls, seen } = connected();
    const control = new AbortController();
    const first = calls.wait(control.signal).catch((e: unknown) => e);
    const second = calls.wait().catch((e: unknown) => e);
    await sleep(0);
    control.abort();
    expect(await first).toMatchObject({ kind: 'cancelled' });
    await sleep(0);
    expect(seen).toEqual([{ aborted: true }, { aborted: false }]);
    expect(await Promise.race([second, sleep(20).then(() => 'still waiting')])).toBe('still waiting');
  });

  it('what nobody runs, or twice, is left alone', async () => {
    const { engine, calls } = connected();
    engine.receive(JSON.stringify({ cancel: 12345 }));
    engine.receive(JSON.stringify({ cancel: 12345 }));
    expect(await calls.add(1, 1)).toBe(2);
  });
});

describe('the connection breaks', () => {
  it('every pending call rejects with engine-gone, and later answers harm nobody', async () => {
    const { client, calls, engine, seen } = connected();
    const pending = [calls.wait(), calls.wait(), calls.add(1, 2)].map((p) => p.catch((e: unknown) => e));
    client.gone();
    for (const error of await Promise.all(pending)) expect(error).toMatchObject({ kind: 'engine-gone' });
    await sleep(0); // the answer of add came after all
    engine.gone();
    expect(seen).toEqual([{ aborted: true }, { aborted: true }]);
  });

  it('a call over a wire that cannot send rejects with engine-gone', async () => {
    const client = createClient(() => {
      throw new Error('WebSocket is not open');
    });
    await expect(client.methods.info()).rejects.toMatchObject({ kind: 'engine-gone' });
  });
});

describe('events', () => {
  const ticked: Ticked = {
    cluster: 'c',
    run: null,
    t: 3,
    at: 4,
    answered: 1,
    endpoints: 2,
    workers: 8,
  };

  it('reach everybody who listens until they stop', () => {
    const { client } = connected();
    const heard: [string, Events[keyof Events]][] = [];
    const off = client.on('ticked', (data) => heard.push(['a', data]));
    client.on('ticked', (data) => heard.push(['b', data]));
    client.on('changed', (data) => heard.push(['c', data]));
    client.receive(encodeEvent('ticked', ticked));
    off();
    client.receive(encodeEvent('ticked', { ...ticked, t: 4 }));
    client.receive(encodeEvent('changed', { what: 'runs' }));
    expect(heard).toEqual([
      ['a', ticked],
      ['b', ticked],
      ['b', { ...ticked, t: 4 }],
      ['c', { what: 'runs' }],
    ]);
  });

  it('that nobody knows are passed over', () => {
    const caller = createCaller<Calls>(() => {});
    expect(() => caller.receive({ event: 'constructor', data: 1 })).not.toThrow();
  });
});
