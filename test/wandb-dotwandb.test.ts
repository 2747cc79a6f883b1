/**
 * Offline runs: the file's bytes at the borders of blocks, the records against a file that the real `wandb sync` took
 * (09-own-writer) and one that the real SDK wrote (06-offline), and what lies around the file.
 */
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { RecordLog, writeOfflineRun } from '../electron/engine/wandb/dotwandb.ts';
import { encodeLine } from '../electron/engine/wandb/json.ts';
import type { JsonObject, UploadSource } from '../electron/engine/wandb/contract.ts';
import { folderFor } from './engines.ts';
import { recordings } from './fake-wandb-replay.ts';
import { parseLoose } from './fake-wandb-runs.ts';
import { readDotWandb, recordsIn } from './read-dotwandb.ts';
import { inputs, type Logged } from './wandb-fixtures.ts';
import { sourceOf, START } from './wandb-uploads.ts';

const fixture = (name: string) => fs.readFileSync(path.join(recordings, name));
const producer = 'vllm-scope 0.1.0';

/** Lines are made of the rows as they are. */
const sourceFrom = (
  { init, metrics }: Pick<Logged, 'init' | 'metrics'>,
  rows: JsonObject[],
  summary: JsonObject,
  rest: Partial<UploadSource> = {},
): UploadSource => ({
  identity: {
    ...{ entity: 'ent', project: 'proj', runId: init.id, displayName: init.name, group: init.group },
    ...{ jobType: init.job_type, tags: init.tags, notes: init.notes },
  },
  config: init.config,
  metrics: metrics.map(({ name, step_metric }) => ({ name, step: step_metric })),
  lineCount: () => rows.length,
  lines: (first, max) => rows.slice(first, first + max).map(encodeLine),
  summary: () => summary,
  ...rest,
});

async function written(source: UploadSource, startedAt = START) {
  const parent = folderFor(onTestFinished);
  const folder = await writeOfflineRun(parent, { source, startedAt, producer });
  const [file] = fs.readdirSync(folder).filter((name) => name.endsWith('.wandb'));
  return { parent, folder, file: file!, read: readDotWandb(fs.readFileSync(path.join(folder, file!))) };
}
/** Paths of keys with what their text says. */
const said = (items: (readonly [string[], string])[]) =>
  Object.fromEntries(items.map(([keys, text]) => [keys.join('\0'), parseLoose(text)]));

describe('the log', () => {
  const fill = 32_768 - 7 - 7; // a record of so many bytes fills the first block
  it.each([0, 1, 6, 7, 8, 10])('with %i bytes left in a block', (left) => {
    const log = new RecordLog();
    const parts = [log.begin(), log.add(Buffer.alloc(fill - left, 1)), log.add(Buffer.from('abc'))];
    const file = Buffer.concat(parts);
    expect(recordsIn(file).map((record) => record.length)).toEqual([fill - left, 3]);
    // Python's zlib.crc32 of kind and data, length, kind, data
    const whole = 'a9209d53' + '0300' + '01' + '616263';
    const tail = file.subarray(7 + 7 + fill - left).toString('hex');
    if (left < 7) expect(tail).toBe('00'.repeat(left) + whole);
    // a first chunk without data, the rest in the next block
    if (left === 7) expect(tail).toBe('a18e0c3c' + '0000' + '02' + '9bd04364' + '0300' + '04' + '616263');
    if (left === 8) expect(tail).toMatch(/^.{8}01000261.{8}0200046263$/);
    if (left === 10) expect(tail).toBe(whole);
  });

  it('cuts long records into a first, middle and last chunk, and empty ones are records too', () => {
    const log = new RecordLog();
    const records = [100_000, 0, 32_761, 32_762, 1, 70_000].map((size, i) => Buffer.alloc(size, i + 1));
    const file = Buffer.concat([log.begin(), ...records.map((record) => log.add(record))]);
    expect(recordsIn(file)).toEqual(records);
    const kinds = [7, 32_768, 65_536, 98_304].map((at) => file[at + 6]);
    expect(kinds).toEqual([2, 3, 3, 4]);
  });

  it('is read by the reader of the tests as the files of others are', () => {
    expect(recordsIn(fixture('06-offline.wandb'))).toHaveLength(30);
    const file = fixture('06-offline.wandb');
    file[1000]! ^= 1;
    expect(() => recordsIn(file)).toThrow(/wrong checksum|leaves its block|cut off/);
  });
});

describe('an offline run', () => {
  const own = inputs('own') as Logged & { start_time: number };
  const theirs = readDotWandb(fixture('09-own-writer.wandb'));
  const mediaPath = theirs.files[0]!.path;
  const figure = theirs.summary.find(([keys]) => keys[0] === 'figure')!;

  async function ours() {
    const value = parseLoose(figure[1]) as JsonObject;
    const rows = own.rows.map((row, i) => (i === 2 ? { ...row, figure: value } : row));
    const bytes = Buffer.from('{"data":[]}');
    const file = { name: mediaPath, size: bytes.length, read: () => bytes };
    const source = sourceFrom(
      own,
      rows,
      { ...own.summary, figure: value, _step: 2 },
      { files: () => [file] },
    );
    return written(source, own.start_time * 1000);
  }

  it('says the same as the file that wandb sync was seen to take in full', async () => {
    const { read } = await ours();
    // that one has an event, and claims a run of 15 s
    expect(read.kinds).toEqual(theirs.kinds.filter((kind) => kind !== 7));
    expect(read.numbers).toEqual(read.kinds.map((_, i) => i + 1));
    const same = ['run', 'tags', 'startTime', 'metrics', 'files', 'exitCode'] as const;
    for (const part of same) expect([part, read[part]]).toEqual([part, theirs[part]]);
    expect(said(read.config)).toEqual(said(theirs.config));
    expect(read.rows.map(({ items, step }) => [said(items), step])).toEqual(
      theirs.rows.map(({ items, step }) => [said(items), step]),
    );
    expect(said(read.summary)).toEqual(said(theirs.summary));
    expect([read.producer, read.runtime]).toEqual([producer, 10]);
  });

  it('has the folder, its name and its files as W&B wants them', async () => {
    const { parent, folder, file } = await ours();
    const at = new Date(own.start_time * 1000);
    const two = (n: number) => String(n).padStart(2, '0');
    const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join('');
    const day = `${at.getFullYear()}${two(at.getMonth() + 1)}${two(at.getDate())}`;
    expect(path.basename(folder)).toBe(`offline-run-${day}_${time}-run00010`);
    expect(file).toBe('run-run00010.wandb');
    expect(fs.readFileSync(path.join(folder, 'files', mediaPath), 'utf8')).toBe('{"data":[]}');
    expect(fs.readdirSync(parent)).toEqual([path.basename(folder)]);
  });

  it('says of every kind of value what the SDK itself writes', async () => {
    const sdk = readDotWandb(fixture('06-offline.wandb'));
    const logged = inputs('scalars') as Logged;
    // a list of the SDK's is a list of paths where ours is one of keys
    const flat = (value: unknown, at: string): [string, unknown][] =>
      typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
        ? Object.entries(value).flatMap(([key, one]) => flat(one, `${at}\0${key}`))
        : [[at, value]];
    const paths = (items: (readonly [string[], string])[]) =>
      Object.fromEntries(items.flatMap(([keys, text]) => flat(parseLoose(text), keys.join('\0'))));
    const rows = logged.rows.map((row, i) => ({ ...row, _step: i }));
    const { read } = await written(sourceFrom(logged, rows, {}));
    expect(read.metrics.map(({ name, glob, step }) => [name, glob, step])).toEqual(
      sdk.metrics.map(({ name, glob, step }) => [name, glob, step]),
    );
    for (const [i, row] of read.rows.entries()) {
      const { _timestamp, _runtime, ...wanted } = paths(sdk.rows[i]!.items);
      expect([_timestamp, _runtime]).toEqual([expect.any(Number), expect.any(Number)]);
      // of zero the SDK's file keeps the sign, which it then does not send
      const positive = Object.entries(wanted).map(([key, value]) => [key, Object.is(value, -0) ? 0 : value]);
      expect(paths(row.items)).toEqual(Object.fromEntries(positive));
    }
    const { _wandb, empty, ...config } = said(sdk.config);
    expect([_wandb, empty]).toEqual([{}, {}]);
    expect(said(read.config)).toEqual({ ...config, empty });
  });

  it('of many rows has them all, in order', async () => {
    const source = sourceOf(1234, { padding: 200, files: 3 });
    const { read, folder } = await written(source);
    const lines = source.expected().map((line) => parseLoose(line));
    expect(read.rows.map(({ items }) => said(items))).toEqual(lines);
    expect(read.rows.map(({ step }) => step)).toEqual(lines.map((_, i) => i));
    expect(read.run.entity).toBeNull();
    for (const file of source.made)
      expect(fs.readFileSync(path.join(folder, 'files', file.name))).toEqual(await file.read());
    expect(read.files).toEqual(source.made.map(({ name }) => ({ path: name, type: 2 })));
  });

  it('without files has the folder all the same', async () => {
    const { folder } = await written(sourceOf(0));
    expect(fs.statSync(path.join(folder, 'files')).isDirectory()).toBe(true);
  });

  it('that is there already, or has an impossible id, or leads elsewhere is refused', async () => {
    const { parent } = await written(sourceOf(1));
    const again = (source: UploadSource) => writeOfflineRun(parent, { source, startedAt: START, producer });
    await expect(again(sourceOf(1))).rejects.toThrow(/is there already\. Remove it, or export elsewhere\./);
    const made = sourceOf(1);
    await expect(again({ ...made, identity: { ...made.identity, runId: '../x' } })).rejects.toThrow(/no id/);
    const file = { name: '../../escaped', size: 1, read: () => Buffer.from('x') };
    const elsewhere = { ...made, identity: { ...made.identity, runId: 'other' }, files: () => [file] };
    await expect(again(elsewhere)).rejects.toThrow(/leads out of the folder/);
    expect(fs.readdirSync(parent)).toHaveLength(1);
  });

  it('that is cancelled or fails leaves nothing behind', async () => {
    const parent = folderFor(onTestFinished);
    const cancelling = new AbortController();
    const source = sourceOf(2000);
    const rows: number[] = [];
    const progress = (done: number) => {
      rows.push(done);
      if (done >= 1000) cancelling.abort(new Error('cancelled'));
    };
    const options = { source, startedAt: START, producer, signal: cancelling.signal, progress };
    await expect(writeOfflineRun(parent, options)).rejects.toThrow('cancelled');
    expect(rows).toEqual([500, 1000]);
    expect(fs.readdirSync(parent)).toEqual([]);
  });

  it('takes the place of one that a crash left half written', async () => {
    const parent = folderFor(onTestFinished);
    const options = { source: sourceOf(3), startedAt: START, producer };
    const folder = await writeOfflineRun(path.join(parent, 'a'), options);
    const half = path.join(parent, 'b', `.${path.basename(folder)}.part`);
    fs.mkdirSync(half, { recursive: true });
    fs.writeFileSync(path.join(half, 'run-abc12345.wandb'), 'half');
    await writeOfflineRun(path.join(parent, 'b'), options);
    expect(fs.readdirSync(path.join(parent, 'b'))).toEqual([path.basename(folder)]);
  });
});
