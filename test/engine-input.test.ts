/**
 * What comes over the wire is unknown until it is looked at: every method with what no page of ours would send gives
 * `bad-input` or `not-found` with a sentence, and nothing of it is a bug or ends the engine.
 */
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { ErrorKind, Methods } from '../electron/engine/api.ts';
import { clusterOf, engineFor, fakes, quick, ticked, urlsOf, type TestEngine } from './engines.ts';

type Sent = (...args: unknown[]) => Promise<unknown>;

/** Things that are not what is asked for, whatever that is; all can be sent as JSON. */
const rubbish: unknown[] = [
  null,
  true,
  -1,
  1e300,
  '',
  '   ',
  'nothing of that name',
  "'; DROP TABLE run; --",
  '../../etc/passwd',
  '__proto__',
  [],
  ['a', 'b'],
  {},
  { toString: 1, length: -1 },
  { $floats: 8, at: 0, length: 1e9 },
  'x'.repeat(100_000),
  '\u0000\u202e',
];

let engine: TestEngine;
const ends: (() => void | Promise<void>)[] = [];
let cluster = '';
let run = '';

beforeAll(async () => {
  const onEnd = (end: () => void | Promise<void>) => ends.push(end);
  const fake = await fakes(onEnd, { workers: 2 });
  engine = await engineFor(onEnd);
  const added = await engine.methods.addCluster(quick(urlsOf(fake), 'input'));
  cluster = added.id;
  await ticked(engine, added.recording!, 2);
  run = (await engine.methods.stopRecording(cluster)).id;
  return async () => {
    for (const end of ends.reverse()) await end();
  };
});

const call = (name: keyof Methods) => engine.methods[name] as Sent;
async function outcome(name: keyof Methods, args: unknown[]): Promise<ErrorKind | 'fine'> {
  try {
    await call(name)(...args);
    return 'fine';
  } catch (error) {
    const { kind, message } = error as { kind: ErrorKind; message: string };
    // a sentence, and none that is made of what was sent
    if (!/[.!?]$/.test(message) || message.includes('[object')) throw error;
    return kind;
  }
}
/** What came of a method with each of these argument lists; a bug says with which. */
async function outcomes(name: keyof Methods, lists: unknown[][]): Promise<string[]> {
  const kinds = new Set<string>();
  for (const args of lists) {
    const kind = await outcome(name, args);
    kinds.add(kind === 'bug' ? `bug with ${JSON.stringify(args).slice(0, 200)}` : kind);
  }
  expect(engine.bugs).toEqual([]);
  return [...kinds].sort();
}
const each = rubbish.map((r) => [r]);

describe('instead of an id', () => {
  const names = [
    'removeCluster',
    'connectCluster',
    'disconnectCluster',
    'stopRecording',
    'getRun',
  ] as const satisfies (keyof Methods)[];
  it.each(names)('%s', async (name) => {
    expect(await outcomes(name, [[], ...each])).toEqual(
      name === 'getRun' ? ['bad-input', 'not-found'] : ['not-found'],
    );
  });

  it.each(['setRecord', 'startRecording', 'renameRun', 'events'] as const)('%s', async (name) => {
    const kinds = await outcomes(name, [[], ...rubbish.map((r) => [r, 'x', 1])]);
    expect(kinds.filter((kind) => kind !== 'bad-input' && kind !== 'not-found')).toEqual([]);
  });

  it('what is there is still there', async () => {
    expect((await engine.methods.listRuns()).map((r) => r.id)).toEqual([run]);
    expect(await clusterOf(engine.methods, cluster)).toMatchObject({ name: 'input', connected: true });
  });
});

describe('instead of', () => {
  it('a cluster', async () => {
    const good = { name: 'n', addresses: 'http://127.0.0.1:1', record: false };
    const lists: unknown[][] = [
      [],
      ...each,
      ...rubbish
        .filter((r) => typeof r !== 'string' || r.trim() === '')
        .map((addresses) => [{ ...good, addresses }]),
      ...['ftp://x', 'me:p/w@host', 'a:b', '# nothing', '/no/file_sd', '/a/*/b.json'].map((addresses) => [
        { ...good, addresses },
      ]),
      ...[1, '', {}, [1], [null], [{}], [{ name: 'a b', value: 'c' }], [{ name: 'X', value: 'a\rb' }]].map(
        (headers) => [{ ...good, headers }],
      ),
      ...[1, {}, [], true, '/nowhere/ca.pem', '/dev/zero', '/'].map((caFile) => [{ ...good, caFile }]),
      ...[0, 0.1, 61, -1, '1', [], {}, true].flatMap((seconds) => [
        [{ ...good, intervalSeconds: seconds }],
        [{ ...good, timeoutSeconds: seconds === 61 ? 121 : seconds === 0.1 ? 0.01 : seconds }],
      ]),
    ];
    expect(await outcomes('addCluster', lists)).toEqual(['bad-input']);
    expect(await engine.methods.listClusters()).toHaveLength(1);
  });

  it('a name or what is optional of a cluster: the default', async () => {
    for (const odd of rubbish.filter((r) => typeof r !== 'string')) {
      const added = await call('addCluster')({ name: odd, addresses: 'http://127.0.0.1:1', record: false });
      expect(added).toMatchObject({
        name: '127.0.0.1:1',
        intervalSeconds: 1,
        timeoutSeconds: 5,
        recording: null,
      });
      await engine.methods.removeCluster((added as { id: string }).id);
    }
  });

  it('a name of a run', async () => {
    const none = rubbish.filter((r) => typeof r !== 'string' || r.trim() === '');
    expect(await outcomes('renameRun', [[run], ...none.map((name) => [run, name])])).toEqual(['bad-input']);
    // for a new run anything that is no name means none
    for (const odd of [undefined, ...none]) {
      const begun = (await call('startRecording')(cluster, odd)) as { name: string };
      expect(begun.name).toMatch(/^input \d{4}-\d\d-\d\d/);
      await engine.methods.stopRecording(cluster);
    }
    expect(engine.bugs).toEqual([]);
  });

  it('a time', async () => {
    const odd = rubbish.filter((r) => typeof r !== 'number');
    const lists = [
      [run],
      [run, 0],
      ...odd.flatMap((r) => [
        [run, r, 1],
        [run, 0, r],
      ]),
    ];
    expect(await outcomes('events', lists)).toEqual(['bad-input']);
    expect(await outcomes('events', [[run, 1e300, -1e300]])).toEqual(['fine']);
  });

  it.each(['timelines', 'statistics'] as const)('a query of %s', async (name) => {
    const good = { run, metrics: ['running'], from: 0, to: Date.now() + 1e6, points: 100 };
    expect(await outcomes(name, [[good]])).toEqual(['fine']);
    const odd = (key: string) => rubbish.map((r) => [{ ...good, [key]: r }]);
    const numbers = ['from', 'to', ...(name === 'timelines' ? ['points'] : [])];
    const lists: unknown[][] = [
      [],
      ...each,
      ...['run', 'metrics'].flatMap(odd),
      ...[...rubbish, '__proto__', 'constructor', 5, null].map((m) => [{ ...good, metrics: ['running', m] }]),
      ...numbers.flatMap((key) =>
        odd(key).filter(([q]) => typeof (q as Record<string, unknown>)[key] !== 'number'),
      ),
      [{ ...good, from: 5, to: 5 }],
      [{ ...good, from: 6, to: 5 }],
    ];
    expect(await outcomes(name, lists)).toEqual(['bad-input', 'not-found']);
  });

  it('sensible numbers in a query of timelines: an answer, and no endless work', async () => {
    const good = { run, metrics: ['running', 'generation_tokens'], from: 0, to: Date.now(), points: 100 };
    const lists = [
      { points: 0 },
      { points: -5 },
      { points: 1e300 },
      { points: 0.001 },
      { from: -1e300, to: 1e300 },
      { from: 1e17, to: 1e18 },
      { from: -1e18, to: -1e17 },
      { from: Date.now() - 1e4, to: Date.now() - 1e4 + 1e-3 },
      { metrics: Array<string>(50).fill('running') },
    ].map((odd) => [{ ...good, ...odd }]);
    expect(await outcomes('timelines', lists)).toEqual(['fine']);
  });

  it('an address to check', async () => {
    const odd = rubbish.filter((r) => typeof r !== 'string' || r.trim() === '');
    const lists = [
      [],
      ...rubbish.map((r) => [r]),
      ...[...odd, 'ftp://x', 'a b', 'me:p/w@host', "'; DROP TABLE run; --"].map((address) => [{ address }]),
      [{ address: 'h:1', timeoutSeconds: -1 }],
      [{ address: 'h:1', caFile: '/nowhere' }],
    ];
    expect(await outcomes('check', lists)).toEqual(['bad-input']);
  });

  it('a preference', async () => {
    const odd = rubbish.filter((r) => typeof r !== 'string' || r.trim() === '');
    expect(await outcomes('setPreference', [[], ['key'], ...odd.map((key) => [key, 1])])).toEqual([
      'bad-input',
    ]);
    onTestFinished(() => engine.methods.setPreference('k', null));
    for (const value of rubbish.filter((r) => r !== null)) {
      await engine.methods.setPreference('k', value);
      expect(await engine.methods.preferences()).toEqual({ k: value });
    }
    // names that mean something to JavaScript are names like others
    for (const key of ['__proto__', 'constructor', 'toString']) {
      await engine.methods.setPreference(key, { a: 1 });
      expect(Object.entries(await engine.methods.preferences())).toContainEqual([key, { a: 1 }]);
      await engine.methods.setPreference(key, null);
    }
    expect(({} as { a?: number }).a).toBeUndefined();
  });
});

it('anything for what takes nothing', async () => {
  for (const name of ['info', 'catalogue', 'preferences', 'listClusters', 'listRuns'] as const)
    expect(await outcomes(name, [[], ...each, rubbish])).toEqual(['fine']);
});

it('and the engine still records', async () => {
  const begun = await engine.methods.startRecording(cluster, 'after all that');
  await ticked(engine, begun.id, 2);
  expect((await engine.methods.stopRecording(cluster)).workers).toBe(2);
});
