/**
 * file_sd files that come, change, break and go while they are watched: real files, and a disk that hangs, which only a
 * stand-in for one call of Node can do.
 */
import fs from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import { FileSource } from '../electron/engine/file-sd.ts';
import { until } from './engines.ts';
import { folderWith, group, urls, urlsIn } from './file-sd-files.ts';

const posix = process.platform !== 'win32';

/** Read once; files that it names are as old as a file that nobody is writing. */
async function watching(
  files: Record<string, string | object>,
  patterns?: (at: (n: string) => string) => string[],
) {
  const folder = folderWith(files);
  const old = (name: string) => fs.utimesSync(folder.at(name), 1_700_000_000, 1_700_000_000);
  Object.keys(files).forEach(old);
  const source = new FileSource(patterns?.(folder.at) ?? [folder.glob], () => {});
  await source.look();
  return { ...folder, old, source };
}

it('a file that comes, changes and goes takes its targets along', async () => {
  const { source, write, at } = await watching({ 'a.json': group('a:1') });
  expect(urlsIn(source)).toEqual(urls('a:1'));
  expect(await source.look()).toBe(false);
  write('b.json', group('b:1'));
  expect(await source.look()).toBe(true);
  expect(urlsIn(source)).toEqual(urls('a:1', 'b:1'));
  write('a.json', group('c:1', 'd:1'));
  expect(await source.look()).toBe(true);
  expect(urlsIn(source)).toEqual(urls('c:1', 'd:1', 'b:1'));
  fs.rmSync(at('a.json'));
  expect(await source.look()).toBe(true);
  expect(urlsIn(source)).toEqual(urls('b:1'));
  expect(source.states).toEqual([{ path: at('*.json'), files: 1, targets: 1, sentence: null }]);
});

it('a file that was only touched is another state: its age counts', async () => {
  const { source, at } = await watching({ 'a.json': group('a:1') });
  fs.utimesSync(at('a.json'), 1_700_000_100, 1_700_000_100);
  expect(await source.look()).toBe(true);
  expect(source.targets[0]!.changedAt).toBe(1_700_000_100_000);
});

it('only files that changed are read again', async () => {
  const { source, write, at } = await watching({ 'a.json': group('a:1'), 'b.json': group('b:1') });
  const reads = vi.spyOn(fs, 'createReadStream');
  onTestFinished(() => reads.mockRestore());
  await source.look();
  expect(reads).not.toHaveBeenCalled();
  write('b.json', group('b:2'));
  await source.look();
  expect(reads.mock.calls.map(([file]) => file)).toEqual([at('b.json')]);
});

it('a second change within the same tick of the filesystem’s clock is seen', async () => {
  const { source, write, at } = await watching({ 'a.json': group('a:1') });
  const now = Date.now() / 1000;
  write('a.json', group('b:1'));
  fs.utimesSync(at('a.json'), now, now);
  await source.look();
  write('a.json', group('c:1')); // as long, and as old
  fs.utimesSync(at('a.json'), now, now);
  expect(await source.look()).toBe(true);
  expect(urlsIn(source)).toEqual(urls('c:1'));
});

it('a file that is half written or broken keeps what it last gave, and says so', async () => {
  const { source, write, at } = await watching({ 'a.json': group('a:1'), 'b.json': group('b:1') });
  for (const half of ['[{"targets": ["a:1", "c', '']) {
    write('a.json', half);
    await source.look();
    expect(urlsIn(source)).toEqual(urls('a:1', 'b:1'));
    expect(source.states[0]!.sentence).toMatch(/a\.json cannot be used: .* What it named before stays\.$/);
    expect(source.states[0]).toMatchObject({ files: 2, targets: 2 });
  }
  write('a.json', group('a:1', 'c:1'));
  expect(await source.look()).toBe(true);
  expect(urlsIn(source)).toEqual(urls('a:1', 'c:1', 'b:1'));
  expect(source.states[0]!.sentence).toBeNull();
  write('b.json', 'x');
  await source.look();
  fs.rmSync(at('b.json')); // broken, and then gone
  await source.look();
  expect(urlsIn(source)).toEqual(urls('a:1', 'c:1'));
  write('b.json', 'x'); // back, and broken still
  await source.look();
  expect(urlsIn(source)).toEqual(urls('a:1', 'c:1'));
});

it('a file that is written while it is read is read again', async () => {
  // half of YAML is often YAML too
  const [half, whole] = ['- targets: [a:1]\n', '- targets: [a:1]\n- targets: [b:1]\n'];
  const { source, write } = await watching({ 'a.yml': whole }, (at) => [at('*.yml')]);
  write('a.yml', half);
  const read = vi.spyOn(fs, 'createReadStream').mockImplementationOnce(() => {
    write('a.yml', whole);
    return Readable.from([Buffer.from(half)]) as fs.ReadStream;
  });
  onTestFinished(() => read.mockRestore());
  await source.look();
  expect(read).toHaveBeenCalledTimes(1);
  expect(urlsIn(source)).toEqual(urls('a:1', 'b:1'));
  await source.look();
  expect(urlsIn(source)).toEqual(urls('a:1', 'b:1'));
  expect(source.states[0]!.sentence).toBeNull();
});

it.runIf(posix)('a file that is there and cannot be read keeps what it last gave', async () => {
  const { source, at } = await watching({ 'a.json': group('a:1') });
  fs.rmSync(at('a.json'));
  fs.symlinkSync('a.json', at('a.json')); // round in circles, for root too
  expect(await source.look()).toBe(true);
  expect(urlsIn(source)).toEqual(urls('a:1'));
  expect(source.states[0]!.sentence).toContain('ELOOP');
  expect(await source.look()).toBe(false);
});

it('a folder that is missing is looked for again; one that goes takes everything along', async () => {
  const { folder, at } = folderWith();
  const inside = path.join(folder, 'later');
  const source = new FileSource([path.join(inside, '*.json')], () => {});
  await source.look();
  expect(source.states[0]!.sentence).toContain('There is no folder');
  fs.mkdirSync(inside);
  fs.writeFileSync(path.join(inside, 'a.json'), JSON.stringify(group('a:1')));
  expect(await source.look()).toBe(true);
  expect(urlsIn(source)).toEqual(urls('a:1'));
  expect(source.states[0]!.sentence).toBeNull();
  fs.renameSync(inside, at('elsewhere'));
  expect(await source.look()).toBe(true);
  expect(source.targets).toEqual([]);
});

it('several patterns: in their order, each with its own state', async () => {
  const { source, at } = await watching(
    { 'a.json': group('a:1', 'x:1'), 'b.yml': '- targets: [x:1, b:1]' },
    (at) => [at('*.yml'), at('*.json'), at('a.json'), at('none.json')],
  );
  expect(urlsIn(source)).toEqual(urls('x:1', 'b:1', 'a:1'));
  expect(source.states.map(({ path: p, files, targets }) => [p, files, targets])).toEqual([
    [at('*.yml'), 1, 2],
    [at('*.json'), 1, 2],
    [at('a.json'), 1, 2],
    [at('none.json'), 0, 0],
  ]);
});

it('tells what changed by itself, every two seconds, until it is stopped', async () => {
  const { write, glob } = folderWith({ 'a.json': group('a:1') });
  const told = vi.fn();
  const source = new FileSource([glob], told);
  onTestFinished(() => source.stop());
  await source.start();
  expect(urlsIn(source)).toEqual(urls('a:1'));
  expect(told).not.toHaveBeenCalled(); // the first read is what start waits for
  write('b.json', group('b:1'));
  await until(() => told.mock.calls.length === 1);
  expect(urlsIn(source)).toEqual(urls('a:1', 'b:1'));
  await sleep(2500);
  expect(told).toHaveBeenCalledTimes(1); // nothing changed
  source.stop();
  write('c.json', group('c:1'));
  await sleep(2500);
  expect(told).toHaveBeenCalledTimes(1);
});

/** A disk that answers only when it is told to. */
function hangingDisk() {
  const real = fs.promises.readdir;
  let answer = () => {};
  const answers = new Promise<void>((resolve) => (answer = resolve));
  const calls = vi
    .spyOn(fs.promises, 'readdir')
    .mockImplementation(async (...args: unknown[]) => (await answers, real(args[0] as string)) as never);
  onTestFinished(() => calls.mockRestore());
  return { calls, answer: () => answer() };
}

it('a disk that does not answer holds up nothing; what it gives later is told', async () => {
  const { glob } = folderWith({ 'a.json': group('a:1') });
  const disk = hangingDisk();
  const told = vi.fn();
  const source = new FileSource([glob], told);
  onTestFinished(() => source.stop());
  await source.start();
  expect(source.states[0]!.sentence).toBe(`The disk with ${glob} does not answer. It is waited for.`);
  disk.answer();
  await until(() => told.mock.calls.length === 1);
  expect(urlsIn(source)).toEqual(urls('a:1'));
  expect(source.states[0]!.sentence).toBeNull();
});

it('stopped while the disk does not answer: nothing is told any more', async () => {
  const { write, glob } = folderWith();
  const told = vi.fn();
  const later = new FileSource([glob], told);
  await later.start();
  const disk = hangingDisk();
  const first = new FileSource([glob], told);
  await Promise.all([first.start(), until(() => disk.calls.mock.calls.length === 2)]);
  first.stop();
  later.stop();
  write('a.json', group('a:1'));
  disk.answer();
  await until(() => first.targets.length + later.targets.length === 2);
  await sleep(50);
  expect(told).not.toHaveBeenCalled();
});
