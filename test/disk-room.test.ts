/** Disks without room: recording stops with a sentence, loses nothing that was written, and goes on by itself. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  clusterOf,
  engineFor,
  fakes,
  folderFor,
  quick,
  recorded,
  rowsOf,
  run as runCli,
  ticked,
  until,
  urlsOf,
  type OnEnd,
} from './engines.ts';

const GB = 1e9;

const ticksIn = (file: string) =>
  rowsOf<{ t: number }>(file, 'SELECT t FROM tick ORDER BY t').map(({ t }) => t);

/** Bytes that are free, as a test wants them; looked at every 5 s. */
const disk = (free: number) => ({ free, minFreeBytes: 2 * GB });

describe.concurrent('low space', () => {
  it('stops recording with a sentence, and goes on in the same run when there is room', async ({
    onTestFinished,
  }) => {
    const room = disk(50 * GB);
    const fake = await fakes(onTestFinished, { workers: 2 });
    const test = await engineFor(onTestFinished, { minFreeBytes: 2 * GB, freeBytes: () => room.free });
    const { methods } = test;
    const { id, recording } = await recorded(test, urlsOf(fake), 'grpo');
    await ticked(test, recording, 3);
    room.free = 1.9 * GB;
    await until(async () => (await clusterOf(methods, id)).stopped !== null);
    const low = await clusterOf(methods, id);
    expect(low.stopped).toBe(
      `Recording stopped: Only 1.9 GB are free on the disk of ${path.join(test.folder, 'runs')}, and 2.0 GB stay free (--min-free). Free some space; it goes on by itself.`,
    );
    // it is watched, and is not over
    expect(low).toMatchObject({ connected: true, recording });
    const run = await methods.getRun(recording);
    expect(run.state).toBe('recording');
    const before = ticksIn(run.file).length;
    expect(before).toBeGreaterThanOrEqual(3);
    await new Promise((done) => setTimeout(done, 700));
    expect(ticksIn(run.file)).toHaveLength(before);

    // a little more than the least is not enough to begin again
    room.free = 2.1 * GB;
    await new Promise((done) => setTimeout(done, 6000));
    expect((await clusterOf(methods, id)).stopped).not.toBeNull();
    room.free = 3 * GB;
    await until(async () => (await clusterOf(methods, id)).stopped === null);
    await until(() => ticksIn(run.file).length > before + 2);
    const end = await methods.stopRecording(id);
    expect(end).toMatchObject({ id: recording, state: 'ended' });
    const ticks = ticksIn(end.file);
    expect(ticks).toEqual([...new Set(ticks)].sort((a, b) => a - b));
    const stretches = rowsOf<{ first: number }>(end.file, 'SELECT first FROM stretch ORDER BY first');
    expect(stretches).toHaveLength(2);
    const said = rowsOf<{ detail: string }>(end.file, "SELECT detail FROM event WHERE kind = 'stretch'");
    expect(said.map((s) => s.detail)).toEqual([
      expect.stringMatching(/^There was no room on the disk from \S+ on; the run goes on\.$/),
    ]);
    expect(rowsOf(end.file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  }, 60_000);

  it('an endpoint that joins meanwhile is recorded from then on', async ({ onTestFinished }) => {
    const room = disk(50 * GB);
    const fake = await fakes(onTestFinished, { workers: 2 });
    const test = await engineFor(onTestFinished, { minFreeBytes: 2 * GB, freeBytes: () => room.free });
    const { methods } = test;
    const [one, both] = [fake.endpoints[0]!.url, urlsOf(fake)];
    const { id, recording } = await recorded(test, one, 'grpo');
    await ticked(test, recording, 2);
    room.free = 0;
    await until(async () => (await clusterOf(methods, id)).stopped !== null);
    await methods.updateCluster(id, quick(both, 'grpo'));
    room.free = 50 * GB;
    await until(async () => (await clusterOf(methods, id)).stopped === null);
    await until(async () => (await methods.getRun(recording)).workerList.length === 2);
    expect((await methods.getRun(recording)).endpointList).toEqual(fake.endpoints.map((e) => e.url));
    expect(test.bugs).toEqual([]);
  }, 60_000);

  it('what is connected is recorded as soon as there is room', async ({ onTestFinished }) => {
    const room = disk(GB);
    const fake = await fakes(onTestFinished, { workers: 1 });
    const test = await engineFor(onTestFinished, { minFreeBytes: 2 * GB, freeBytes: () => room.free });
    const { id } = await test.methods.addCluster(quick(urlsOf(fake), 'grpo'));
    expect(await clusterOf(test.methods, id)).toMatchObject({
      ...{ connected: true, recording: null },
      stopped: expect.stringMatching(/^Nothing is recorded: Only 1\.0 GB are free/) as string,
    });
    room.free = 9 * GB;
    await until(async () => (await clusterOf(test.methods, id)).recording !== null);
    expect((await clusterOf(test.methods, id)).stopped).toBeNull();
  }, 60_000);

  it('a run that waits for room can be ended', async ({ onTestFinished }) => {
    const room = disk(50 * GB);
    const fake = await fakes(onTestFinished, { workers: 1 });
    const test = await engineFor(onTestFinished, { minFreeBytes: 2 * GB, freeBytes: () => room.free });
    const { id, recording } = await recorded(test, urlsOf(fake), 'grpo');
    await ticked(test, recording, 2);
    room.free = 0;
    await until(async () => (await clusterOf(test.methods, id)).stopped !== null);
    expect(await test.methods.stopRecording(id)).toMatchObject({ id: recording, state: 'ended' });
    expect((await clusterOf(test.methods, id)).recording).toBeNull();
  });

  it('the command line says it, and takes --min-free', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 1 });
    const record = (...more: string[]) =>
      runCli(onTestFinished, [
        ...['record', fake.endpoints[0]!.url, '--for', '1s', '--data', folderFor(onTestFinished)],
        ...['--out', path.join(folderFor(onTestFinished), 'x.sqlite'), ...more],
      ]);
    const full = record('--min-free', '900000GB');
    expect(await full.ended).toBe(1);
    expect(full.stderr()).toMatch(
      /Only .* are free on the disk of .*, and 900000\.0 GB stay free \(--min-free\)/,
    );
    const wrong = record('--min-free', 'much');
    expect(await wrong.ended).toBe(2);
    expect(wrong.stderr()).toContain('--min-free much is no size: write 2GB, 500MB or 0.');
    expect(await record('--min-free', '0').ended).toBe(0);
  });
});

/** A disk of 64 MB; null where this machine lets nobody mount one. */
function smallDisk(onEnd: OnEnd): string | null {
  const folder = folderFor(onEnd);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', folder], { stdio: 'ignore' });
  } catch {
    return null;
  }
  onEnd(() => void execFileSync('umount', ['-l', folder], { stdio: 'ignore' }));
  return folder;
}

it('disk full: recording stops with a sentence that names the place, and goes on when there is room', async ({
  onTestFinished,
  skip,
}) => {
  const folder = smallDisk(onTestFinished);
  if (folder === null) skip('no disk can be mounted here');
  const fake = await fakes(onTestFinished, { workers: 8 });
  const test = await engineFor(onTestFinished, { dataFolder: folder!, minFreeBytes: 0 });
  const { id, recording } = await recorded(test, urlsOf(fake), 'grpo');
  await ticked(test, recording, 3);
  const { file } = await test.methods.getRun(recording);
  const filler = path.join(folder!, 'filler');
  // what others write, to the last byte
  const fill = () => {
    const out = fs.openSync(filler, 'a');
    try {
      for (;;) fs.writeSync(out, Buffer.alloc(4096, 1));
    } catch {
      // full
    } finally {
      fs.closeSync(out);
    }
  };
  const stopped = await until(async () => {
    fill();
    return (await clusterOf(test.methods, id)).stopped ?? false;
  });
  expect(stopped).toBe(
    `Recording stopped: No room left on the disk of ${path.join(folder!, 'runs')}. Free some space.`,
  );
  const before = ticksIn(file).length;
  fs.rmSync(filler);
  await until(async () => (await clusterOf(test.methods, id)).stopped === null);
  await until(() => ticksIn(file).length > before + 2);
  expect(await test.methods.stopRecording(id)).toMatchObject({ id: recording, state: 'ended' });
  expect(rowsOf(file, 'PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
  expect(rowsOf(file, 'SELECT count(*) AS n FROM stretch')).toEqual([{ n: 2 }]);
  expect(before).toBeGreaterThanOrEqual(3);
}, 60_000);
