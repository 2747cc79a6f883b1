/**
 * Endpoints that come and go under a recording: a cluster that is changed, file_sd files, secrets that servers want,
 * and answers asked for by name.
 */
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Keychain } from '../electron/engine/parent.ts';
import { Secrets } from '../electron/engine/secrets.ts';
import {
  clusterOf,
  engineFor,
  everything,
  fakes,
  folderFor,
  quick,
  recorded,
  ticked,
  until,
  urlsOf,
  type OnEnd,
  type TestEngine,
} from './engines.ts';
import { METRICS } from './small-servers.ts';

const kindsOf = async ({ methods }: TestEngine, run: string) =>
  (await methods.events(run, ...everything))
    .filter((e) => ['joined', 'left'].includes(e.kind))
    .map((e) => [e.kind, e.endpoint]);
const workersOf = async ({ methods }: TestEngine, run: string) => (await methods.getRun(run)).workerList;

/** As an exporter announces itself: written beside and renamed. */
function announce(folder: string, name: string, urls: string[], labels: Record<string, string> = {}): string {
  const file = path.join(folder, name);
  const targets = urls.map((url) => new URL(url).host);
  fs.writeFileSync(`${file}.new`, JSON.stringify([{ targets, labels }]));
  fs.renameSync(`${file}.new`, file);
  return file;
}

describe.concurrent('a cluster that is changed', () => {
  it('goes on in the same run with the new endpoints’ workers appended', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 3 });
    const [a, b, c] = fake.endpoints.map((e) => e.url);
    const engine = await engineFor(onTestFinished);
    const slow = (addresses: string, name = '') => ({ ...quick(addresses, name), intervalSeconds: 1.5 });
    const { id, recording: begun } = await engine.methods.addCluster(slow(`${b} ${a}`));
    const recording = begun!;
    await ticked(engine, recording, 2);
    const changed = await engine.methods.updateCluster(id, slow(`${c} ${a}`, 'renamed'));
    expect(changed).toMatchObject({ name: 'renamed', recording });
    expect(changed.endpoints.map((e) => e.url)).toEqual([a, c]);
    await until(async () => (await workersOf(engine, recording)).length === 3);
    const numbered = (await workersOf(engine, recording)).map((w) => w.endpoint);
    expect([numbered.slice(0, 2).sort(), numbered[2]]).toEqual([[a, b].sort(), c]);
    expect(await kindsOf(engine, recording)).toEqual([
      ['joined', c],
      ['left', b],
    ]);
    // and b is asked again under its old number
    await engine.methods.updateCluster(id, slow(`${a} ${b} ${c}`));
    await until(async () => (await kindsOf(engine, recording)).some(([k, e]) => k === 'joined' && e === b));
    const run = await engine.methods.stopRecording(id);
    expect(run).toMatchObject({ id: recording, endpoints: 3, workers: 3 });
    // the next run knows only who is in it
    const next = await engine.methods.startRecording(id, null);
    await ticked(engine, next.id, 2);
    expect((await workersOf(engine, next.id)).map((w) => w.endpoint).sort()).toEqual([a, b, c].sort());
  });

  it('an endpoint that left is expected no more: coverage stays whole', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const [a, b] = fake.endpoints.map((e) => e.url);
    const engine = await engineFor(onTestFinished);
    const { id, recording } = await recorded(engine, `${a} ${b}`);
    await ticked(engine, recording, 3);
    await engine.methods.updateCluster(id, quick(a!));
    const left = Date.now();
    await until(() => engine.ticks.filter((t) => t.run === recording && t.endpoints === 1).length > 15);
    await engine.methods.stopRecording(id);
    const { lastAt } = await engine.methods.getRun(recording);
    const [running] = await engine.methods.statistics({
      run: recording,
      metrics: ['running'],
      from: left,
      to: lastAt,
    });
    expect(lastAt - left).toBeGreaterThan(2000);
    const ofOne = running!.each[0]!.n / ((lastAt - left) / 200);
    expect(running!.coverage! / ofOne).toBeGreaterThan(0.8); // with b expected it would be a half
    expect(running!.coverage! / ofOne).toBeLessThan(1.2);
  });

  it('another interval ends the run and begins a new one', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const engine = await engineFor(onTestFinished);
    const { id, recording } = await recorded(engine, urlsOf(fake));
    await ticked(engine, recording, 2);
    const changed = await engine.methods.updateCluster(id, { ...quick(urlsOf(fake)), intervalSeconds: 0.4 });
    expect(changed.intervalSeconds).toBe(0.4);
    expect(changed.recording).not.toBe(recording);
    await ticked(engine, changed.recording!, 2);
    const runs = await engine.methods.listRuns();
    expect(runs.map((r) => [r.id, r.state, r.intervalSeconds])).toEqual([
      [changed.recording, 'recording', 0.4],
      [recording, 'ended', 0.2],
    ]);
  });

  it('what makes no sense changes nothing', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const engine = await engineFor(onTestFinished);
    const { id, recording } = await recorded(engine, urlsOf(fake), 'as it was');
    const before = await clusterOf(engine.methods, id);
    const bad = [
      { ...quick('http://[bad'), name: 'x' },
      { ...quick(urlsOf(fake), 'x'), intervalSeconds: 0.1 },
      { ...quick(urlsOf(fake), 'x'), caFile: '/nowhere/ca.pem' },
      { ...quick(urlsOf(fake), 'x'), headers: [{ name: 'Authorization', value: null }] },
      { ...quick(urlsOf(fake), 'x'), headers: [{ name: 'Two words', value: 'y' }] },
      { ...quick(urlsOf(fake), 'x'), headers: [{ name: 'X-Key', value: 'a\nHost: b' }] },
    ];
    for (const input of bad)
      await expect(engine.methods.updateCluster(id, input)).rejects.toMatchObject({ kind: 'bad-input' });
    const { name, recording: run, intervalSeconds, headers, caFile } = await clusterOf(engine.methods, id);
    expect({ name, run, intervalSeconds, headers, caFile }).toEqual({
      name: before.name,
      run: recording,
      intervalSeconds: 0.2,
      headers: [],
      caFile: null,
    });
    await ticked(engine, recording, 3);
  });
});

describe.concurrent('what is over', () => {
  it('a run in which nobody answered is not kept', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    fake.endpoints[0]!.faults = { hang: true };
    const engine = await engineFor(onTestFinished);
    const { id } = await engine.methods.addCluster({ ...quick(urlsOf(fake)), intervalSeconds: 60 });
    const [run] = await engine.methods.listRuns();
    await engine.methods.disconnectCluster(id);
    expect(await engine.methods.listRuns()).toEqual([]);
    expect(fs.existsSync(run!.file)).toBe(false);
  });

  it('a removed cluster stays removed, whatever was asked of it at once', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const folder = folderFor(onTestFinished);
    const engine = await engineFor(onTestFinished, { dataFolder: folder });
    const { id } = await engine.methods.addCluster(quick(urlsOf(fake)));
    const headers = [{ name: 'X-Key', value: SECRET }];
    const asked = await Promise.allSettled([
      engine.methods.removeCluster(id),
      engine.methods.updateCluster(id, { ...quick(urlsOf(fake), 'undead'), headers, keepInFile: true }),
      engine.methods.disconnectCluster(id),
    ]);
    expect(asked.slice(0, 2).map((a) => a.status)).toEqual(['fulfilled', 'rejected']);
    await engine.close();
    expect(bytesOf(folder)).not.toContain(SECRET);
    const next = await engineFor(onTestFinished, { dataFolder: folder });
    expect(await next.methods.listClusters()).toEqual([]);
  });
});

describe.concurrent('file_sd files', () => {
  it('one that is broken keeps its endpoints, also when something else of the cluster is changed', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished);
    const folder = folderFor(onTestFinished);
    const engine = await engineFor(onTestFinished);
    const file = announce(
      folder,
      'a.json',
      fake.endpoints.map((e) => e.url),
    );
    const { id, recording } = await recorded(engine, `${folder}/*.json`);
    fs.writeFileSync(file, '[{"targets": ["127.0');
    await until(async () => (await clusterOf(engine.methods, id)).sources[0]!.sentence !== null);
    await engine.methods.updateCluster(id, quick(`${folder}/*.json`, 'another name'));
    const now = await clusterOf(engine.methods, id);
    expect(now).toMatchObject({ name: 'another name', recording });
    expect(now.endpoints).toHaveLength(1);
    expect(await kindsOf(engine, recording)).toEqual([]);
  });

  it('workers join and leave a recording as files do, with their labels', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 3 });
    const [a, b, c] = fake.endpoints.map((e) => e.url);
    const folder = folderFor(onTestFinished);
    const engine = await engineFor(onTestFinished);
    // nothing there yet: it waits
    const { id, recording } = await recorded(engine, `${a} ${folder}/*.json`);
    await ticked(engine, recording, 2);
    const first = announce(folder, 'node-1-17.json', [b!], { rank: '0', job: 'grpo' });
    await until(async () => (await workersOf(engine, recording)).length === 2);
    announce(folder, 'node-2-18.json', [c!], { rank: '1' });
    await until(async () => (await workersOf(engine, recording)).length === 3);
    expect((await workersOf(engine, recording)).map((w) => [w.endpoint, w.labels.rank])).toEqual([
      [a, undefined],
      [b, '0'],
      [c, '1'],
    ]);
    const shown = await clusterOf(engine.methods, id);
    expect(shown.addresses).toBe(`${new URL(a!).host}\n${folder}/*.json`);
    expect(shown.endpoints.map((e) => [e.url, e.file, e.labels.job])).toEqual([
      [a, null, undefined],
      [b, first, 'grpo'],
      [c, path.join(folder, 'node-2-18.json'), undefined],
    ]);
    expect(shown.sources).toEqual([{ path: `${folder}/*.json`, files: 2, targets: 2, sentence: null }]);
    fs.rmSync(first);
    await until(async () => (await clusterOf(engine.methods, id)).endpoints.length === 2);
    expect(await kindsOf(engine, recording)).toEqual([
      ['joined', b],
      ['joined', c],
      ['left', b],
    ]);
    expect(await engine.methods.targets(`${a} ${folder}/*.json`)).toMatchObject([
      { address: new URL(a!).host, url: a, file: null },
      { url: c, file: path.join(folder, 'node-2-18.json'), labels: { rank: '1' } },
    ]);
  });
});

/** A keychain as the OS's: what it sealed says nothing of what is in it. */
function madeUpKeychain(): Keychain & { held: Map<string, string> } {
  const held = new Map<string, string>();
  return {
    held,
    seal: (text) => {
      const ticket = `sealed-${held.size}`;
      held.set(ticket, text);
      return Promise.resolve(ticket);
    },
    unseal: (ticket) => Promise.resolve(held.get(ticket) ?? null),
  };
}

/** Answers only to these headers. */
async function guarded(onEnd: OnEnd, wanted: Record<string, string>) {
  const server = http.createServer((request, response) => {
    const may = Object.entries(wanted).every(([name, value]) => request.headers[name] === value);
    response.writeHead(may ? 200 : 401, { 'content-type': 'text/plain' }).end(may ? METRICS : 'no\n');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onEnd(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const SECRET = 'sk-verySecret-0123';
/** Every byte under a folder. */
const bytesOf = (folder: string): string =>
  fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((f) => f.isFile())
    .map((f) => fs.readFileSync(path.join(f.parentPath, f.name), 'latin1'))
    .join('\n');

describe.concurrent('secrets of a cluster', () => {
  const login = Buffer.from(`ada:${SECRET}`).toString('base64');

  it.each(['keychain', 'file', 'memory'] as const)('kept in: %s', async (where) => {
    const ends: (() => void | Promise<void>)[] = [];
    const onEnd: OnEnd = (end) => ends.unshift(end);
    try {
      const bearer = await guarded(onEnd, { authorization: `Bearer ${SECRET}`, 'x-team': 'rl' });
      const basic = await guarded(onEnd, { authorization: `Basic ${login}` });
      const keychain = where === 'keychain' ? madeUpKeychain() : null;
      const folder = folderFor(onEnd);
      let engine = await engineFor(onEnd, { dataFolder: folder, keychain });
      expect(await engine.methods.info()).toMatchObject({ keychain: where === 'keychain' });
      const headers = [
        { name: 'Authorization', value: `Bearer ${SECRET}` },
        { name: 'X-Team', value: 'rl' },
      ];
      const keepInFile = where === 'file';
      expect(await engine.methods.check({ address: bearer })).toMatchObject({ reachable: true, workers: [] });
      expect((await engine.methods.check({ address: bearer, headers })).workers).toHaveLength(1);
      expect((await engine.methods.check({ address: `ada:${SECRET}@${basic}` })).workers).toHaveLength(1);
      const one = await engine.methods.addCluster({ ...quick(bearer), headers, keepInFile });
      const two = await engine.methods.addCluster({ ...quick(`http://ada:${SECRET}@${basic}`), keepInFile });
      await ticked(engine, one.recording!, 2);
      await ticked(engine, two.recording!, 2);
      const shown = await engine.methods.listClusters();
      expect(shown.map((c) => [c.secrets, c.headers, c.endpoints[0]!.login, c.addresses])).toEqual([
        [where, ['Authorization', 'X-Team'], false, bearer],
        [where, [], true, basic],
      ]);
      // a change that says nothing of them keeps them, and a check may use them
      const kept = [
        { name: 'Authorization', value: null },
        { name: 'X-Team', value: null },
      ];
      await engine.methods.updateCluster(one.id, { ...quick(bearer, 'n'), headers: kept, keepInFile });
      await engine.methods.updateCluster(two.id, { ...quick(basic), keepInFile });
      expect(
        (await engine.methods.check({ address: bearer, headers: kept, cluster: one.id })).workers,
      ).toHaveLength(1);
      expect((await engine.methods.check({ address: basic, cluster: two.id })).workers).toHaveLength(1);
      const answering = async (id: string) =>
        (await clusterOf(engine.methods, id)).endpoints[0]!.state === 'ok';
      await until(() => answering(one.id));
      await until(() => answering(two.id));

      const told = JSON.stringify([await engine.methods.listClusters(), engine.said, engine.bugs]);
      expect(told).not.toContain(SECRET);
      await engine.close();
      const bytes = bytesOf(folder);
      expect(bytes.includes(SECRET)).toBe(where === 'file');
      expect(bytes.includes(login)).toBe(false);
      const file = path.join(folder, 'secrets.json');
      expect(fs.existsSync(file)).toBe(where !== 'memory');
      if (where !== 'memory') expect(fs.statSync(file).mode & 0o777).toBe(0o600);

      engine = await engineFor(onEnd, { dataFolder: folder, keychain });
      await until(async () =>
        (await engine.methods.listClusters()).every((c) => c.endpoints[0]!.state !== null),
      );
      const after = await engine.methods.listClusters();
      expect(after.map((c) => [c.secrets, c.endpoints[0]!.state])).toEqual(
        where === 'memory'
          ? [
              ['lost', 'http'],
              ['lost', 'http'],
            ]
          : [
              [where, 'ok'],
              [where, 'ok'],
            ],
      );
      if (where === 'memory') return;
      await engine.methods.updateCluster(two.id, { ...quick(basic), forgetLogins: true });
      await until(async () => (await clusterOf(engine.methods, two.id)).endpoints[0]!.state === 'http');
      await engine.methods.removeCluster(one.id);
      expect(fs.existsSync(file)).toBe(false);
    } finally {
      for (const end of ends) await end();
    }
  });

  it('sealed by another keychain are lost, and said to be', async ({ onTestFinished }) => {
    const folder = folderFor(onTestFinished);
    const bearer = await guarded(onTestFinished, { authorization: 'Bearer x' });
    const own = madeUpKeychain();
    const first = await engineFor(onTestFinished, { dataFolder: folder, keychain: own });
    const headers = [{ name: 'Authorization', value: 'Bearer x' }];
    await first.methods.addCluster({ ...quick(bearer), headers });
    await first.close();
    for (const keychain of [null, madeUpKeychain()]) {
      const engine = await engineFor(onTestFinished, { dataFolder: folder, keychain });
      await until(async () => (await engine.methods.listClusters())[0]!.secrets !== null);
      expect((await engine.methods.listClusters())[0]).toMatchObject({
        secrets: 'lost',
        headers: ['Authorization'],
      });
      // another name is no reason to throw away what only cannot be read here
      const { id } = (await engine.methods.listClusters())[0]!;
      const kept = [{ name: 'Authorization', value: null }];
      await engine.methods.updateCluster(id, { ...quick(bearer, 'renamed'), headers: kept });
      expect((await engine.methods.listClusters())[0]).toMatchObject({ name: 'renamed', secrets: 'lost' });
      await engine.close();
    }
    const again = await engineFor(onTestFinished, { dataFolder: folder, keychain: own });
    await until(async () => (await again.methods.listClusters())[0]!.endpoints[0]!.state === 'ok');
    expect((await again.methods.listClusters())[0]).toMatchObject({ secrets: 'keychain' });
  });

  it('of several clusters do not get lost by each other', async ({ onTestFinished }) => {
    const folder = folderFor(onTestFinished);
    const secrets = new Secrets(folder, madeUpKeychain());
    const of = (value: string) => ({ headers: { 'X-Key': value }, logins: {} });
    await secrets.write('gone', of('0'), false);
    await Promise.all([
      secrets.write('a', of('1'), false),
      secrets.write('b', of('2'), false),
      Promise.resolve().then(() => secrets.remove('gone')),
    ]);
    const file = path.join(folder, 'secrets.json');
    expect(Object.keys(JSON.parse(fs.readFileSync(file, 'utf8')) as object).sort()).toEqual(['a', 'b']);
    // and a file that cannot be read is not written over
    fs.writeFileSync(file, '{"a": {"sea');
    await expect(secrets.write('c', of('3'), false)).rejects.toMatchObject({ kind: 'bad-input' });
    expect(fs.readFileSync(file, 'utf8')).toBe('{"a": {"sea');
  });
});
