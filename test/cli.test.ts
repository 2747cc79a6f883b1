/**
 * The command line as a person or a script starts it: exit codes, what goes to stdout and what to stderr, files and
 * their modes. Processes of their own from the sources, against the stand-in.
 */
import fs from 'node:fs';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { CheckReport, RunSummary } from '../electron/engine/api.ts';
import { fakes, folderFor, root, rowsOf, run, until, urlsOf, type OnEnd } from './engines.ts';
import { connect, refused } from './pages.ts';

const sample = path.join(root, 'test/fixtures/samples/vllm-0.30-single-after.prom');
const words = (urls: string) => urls.split('\n');
const modeOf = (file: string) => (fs.statSync(file).mode & 0o777).toString(8);

async function ended(onEnd: OnEnd, args: string[], env: NodeJS.ProcessEnv = {}) {
  const { ended: end, stdout, stderr } = run(onEnd, args, env);
  return { code: await end, stdout: stdout(), stderr: stderr() };
}

/** `serve` on a free port, once it has said where. */
async function serving(onEnd: OnEnd, folder: string, args: string[] = [], env: NodeJS.ProcessEnv = {}) {
  const ran = run(onEnd, ['serve', '--port', '0', '--data', folder, ...args], env);
  const [, port, token] = await until(() => {
    if (ran.child.exitCode !== null) throw new Error(ran.stderr());
    return /http:\/\/127\.0\.0\.1:(\d+)\/#token=(\w+)/.exec(ran.stdout()) ?? (false as never);
  });
  return { ...ran, port: Number(port), token: token! };
}

describe.concurrent('help and usage', () => {
  it('help is data and lists the verbs, each with an example of its own', async ({ onTestFinished }) => {
    const help = await ended(onTestFinished, ['--help']);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    for (const verb of ['serve', 'record', 'check', 'runs'])
      expect(help.stdout).toContain(`vllm-scope ${verb}`);
    const one = await ended(onTestFinished, ['record', '--help']);
    expect(one).toMatchObject({ code: 0, stderr: '' });
    expect(one.stdout).toContain('Example: vllm-scope record ');
    expect(one.stdout).toContain('--out');
  });

  it('the version is that of the package', async ({ onTestFinished }) => {
    const { version } = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      version: string;
    };
    expect(await ended(onTestFinished, ['--version'])).toEqual({
      code: 0,
      stdout: `${version}\n`,
      stderr: '',
    });
  });

  it.for<[string[], string]>([
    [[], 'vllm-scope serve'],
    [['recrod', 'h:1'], 'There is no "recrod"'],
    [['__proto__'], 'There is no "__proto__"'],
    [['record'], 'Usage: vllm-scope record'],
    [['record', 'h:1', '--nonsense'], '--nonsense'],
    [['record', 'h:1', '--for', 'soon'], '--for soon is no duration'],
    [['record', 'h:1', '--interval', '-1'], 'interval'],
    [['serve', '--port', '99999'], '--port 99999 is no port'],
  ])('wrong usage ends with 2 and one sentence on stderr: %j', async ([args, said], { onTestFinished }) => {
    const { code, stdout, stderr } = await ended(onTestFinished, args, {
      VLLM_SCOPE_DATA: folderFor(onTestFinished),
    });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(said);
    expect(stderr).not.toMatch(/\n\s+at /); // no stack
  });

  it('what is wrong but no wrong usage ends with 1', async ({ onTestFinished }) => {
    for (const [args, said] of [
      [['record', 'ftp://h:1'], 'begins with ftp://'],
      [['record', 'me:p/w@h:1'], 'is no address. Write host:port'],
      [['record', 'h:1', '--interval', '0.01'], 'The interval must lie between'],
    ] as const) {
      const env = { VLLM_SCOPE_DATA: folderFor(onTestFinished) };
      const { code, stdout, stderr } = await ended(onTestFinished, [...args], env);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toContain(said);
      expect(stderr.trim().split('\n')).toHaveLength(1);
    }
  });
});

describe.concurrent('check', () => {
  it('of an address', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 2, enginesPerEndpoint: 2, model: 'odd\u202emodel' });
    const text = await ended(onTestFinished, ['check', fake.endpoints[0]!.url]);
    expect(text).toMatchObject({ code: 0, stderr: '' });
    expect(text.stdout).toMatch(/reachable +yes/);
    expect(text.stdout).toMatch(/worker +engine 0, model odd\\u202emodel/); // shown, not obeyed
    expect(text.stdout).toMatch(/worker +engine 1/);
    const json = await ended(onTestFinished, ['check', '--json', fake.endpoints[0]!.url]);
    const report = JSON.parse(json.stdout) as CheckReport;
    expect(report).toMatchObject({ reachable: true, error: null, dialect: 'text' });
    expect(report.workers.map((w) => [w.engine, w.model])).toEqual([
      ['0', 'odd\u202emodel'],
      ['1', 'odd\u202emodel'],
    ]);
    expect(report.roundTripSeconds).toBeGreaterThan(0);
  });

  it('of a saved body, and of several at once', async ({ onTestFinished }) => {
    const { code, stdout } = await ended(onTestFinished, ['check', '--json', sample]);
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as CheckReport;
    const raw = fs.readFileSync(sample, 'utf8');
    const generated = /^vllm:generation_tokens_total\{[^}]*\} (\S+)$/m.exec(raw)![1];
    expect(report.workers[0]!.values.generation_tokens).toBe(Number(generated));
    expect(report).toMatchObject({
      address: sample,
      bytes: fs.statSync(sample).size,
      roundTripSeconds: null,
    });
    const both = await ended(onTestFinished, ['check', '--json', sample, sample]);
    expect(JSON.parse(both.stdout)).toEqual([report, report]);
  });

  it('of what does not answer, or is no vLLM: 1, and the reason in a sentence', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished);
    const [endpoint] = fake.endpoints;
    endpoint!.faults = { statsOff: true };
    const off = await ended(onTestFinished, ['check', endpoint!.url]);
    expect(off.code).toBe(1);
    expect(off.stdout).toContain('Statistics are off');
    expect(off.stdout).toMatch(/reachable +yes/);
    await endpoint!.down();
    const down = await ended(onTestFinished, ['check', '--json', endpoint!.url]);
    expect(down.code).toBe(1);
    expect(JSON.parse(down.stdout)).toMatchObject({
      reachable: false,
      error: `127.0.0.1:${endpoint!.port} refused the connection. Is the server up?`,
    });
  });
});

describe.concurrent('record', () => {
  it('into a file, for so long: progress on stderr, the file on stdout', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const folder = folderFor(onTestFinished);
    const out = path.join(folder, 'out', 'step.sqlite');
    const args = ['record', ...words(urlsOf(fake)), '--for', '3s', '--interval', '0.2', '--name', 'step 12'];
    // its own data folder is not touched
    const env = { VLLM_SCOPE_DATA: path.join(folder, 'data') };
    const early = await ended(onTestFinished, [...args, '--out', out], env);
    expect([early.code, early.stdout]).toEqual([1, '']);
    expect(early.stderr.trim()).toBe(`The folder ${path.dirname(out)} is not there.`);
    fs.mkdirSync(path.dirname(out));
    const { code, stdout, stderr } = await ended(onTestFinished, [...args, '--out', out], env);
    expect([code, stdout]).toEqual([0, `${out}\n`]);
    expect(stderr).toMatch(/ tick \d+ +2 of 2 endpoints answer +2 workers\n/);
    expect(fs.existsSync(env.VLLM_SCOPE_DATA)).toBe(false);
    expect(fs.readdirSync(path.dirname(out))).toEqual(['step.sqlite']);
    const rows = rowsOf<{ w: number; n: number }>(
      out,
      'SELECT k % 4096 AS w, count(*) AS n FROM sample GROUP BY w',
    );
    expect(rows.map((r) => r.w)).toEqual([0, 1]);
    for (const { n } of rows) expect(n).toBeGreaterThanOrEqual(3);
    expect(
      rowsOf(out, "SELECT value FROM meta WHERE key IN ('clusterName', 'intervalMs') ORDER BY key"),
    ).toEqual([{ value: 'step 12' }, { value: 200 }]);

    // and it is not written over
    const before = fs.readFileSync(out);
    const again = await ended(onTestFinished, [...args, '--out', out], env);
    expect([again.code, again.stdout]).toEqual([1, '']);
    expect(again.stderr.trim()).toBe(`${out} exists already; choose another name.`);
    expect(fs.readFileSync(out).equals(before)).toBe(true);
  });

  it('nothing answers: 1, and why', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    await fake.endpoints[0]!.down();
    const folder = folderFor(onTestFinished);
    const args = ['record', urlsOf(fake), '--for', '1s', '--interval', '0.2', '--data', folder];
    const { code, stderr } = await ended(onTestFinished, args);
    expect(code).toBe(1);
    expect(stderr).toContain('No worker answered. 127.0.0.1:');
    expect(stderr).toContain('refused the connection. Is the server up?');
    expect(stderr).toMatch(/ 0 of 1 endpoint answer/);
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  it('Ctrl-C ends it well: the run is closed and listed', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const folder = folderFor(onTestFinished);
    const none = await ended(onTestFinished, ['runs', '--json', '--data', folder]);
    expect(none).toEqual({ code: 0, stdout: '[]\n', stderr: '' });
    const ran = run(onTestFinished, [
      'record',
      urlsOf(fake),
      '--interval',
      '0.2',
      '--data',
      folder,
      '--json',
    ]);
    await until(() => / tick [3-9] .* 1 worker\b/.test(ran.stderr()));
    ran.child.kill('SIGINT');
    expect(await ran.ended).toBe(0);
    const done = JSON.parse(ran.stdout()) as RunSummary;
    expect(done).toMatchObject({ state: 'ended', workers: 1, intervalSeconds: 0.2 });
    expect(fs.existsSync(`${done.file}-wal`)).toBe(false);
    expect(rowsOf(done.file, 'SELECT ended IS NOT NULL AS ended FROM stretch')).toEqual([{ ended: 1 }]);
    const listed = await ended(onTestFinished, ['runs', '--json', '--data', folder]);
    expect(JSON.parse(listed.stdout)).toEqual([done]);
    const text = await ended(onTestFinished, ['runs', '--data', folder]);
    expect(text.stdout).toContain(done.id);
    expect(text.stdout.trim().split('\n')).toHaveLength(1);
    // the cluster was only for that
    expect(rowsOf(path.join(folder, 'library.db'), 'SELECT * FROM cluster')).toEqual([]);
  });
});

describe.concurrent('serve', () => {
  it('says where; its token and announcement are for its owner only; another start keeps the token', async ({
    onTestFinished,
  }) => {
    const folder = path.join(folderFor(onTestFinished), 'data');
    const first = await serving(onTestFinished, folder);
    expect(first.stdout()).toBe(`http://127.0.0.1:${first.port}/#token=${first.token}\n`);
    expect(modeOf(folder)).toBe('700');
    for (const name of ['token', 'engine.json'])
      expect([name, modeOf(path.join(folder, name))]).toEqual([name, '600']);
    expect(JSON.parse(fs.readFileSync(path.join(folder, 'engine.json'), 'utf8'))).toEqual({
      pid: first.child.pid,
      port: first.port,
      token: first.token,
    });
    const page = await connect(onTestFinished, first.port, first.token);
    expect(await page.methods.info()).toMatchObject({ dataFolder: folder, pid: first.child.pid });
    expect(await refused(connect(onTestFinished, first.port, 'x'.repeat(32)))).toBe('401');

    // a second one on the folder, and one on its port
    const locked = await ended(onTestFinished, ['serve', '--port', '0', '--data', folder]);
    expect([locked.code, locked.stdout]).toEqual([1, '']);
    expect(locked.stderr).toMatch(/^Another vLLM Scope records into .*--data DIR\.\n$/);
    const elsewhere = folderFor(onTestFinished);
    const taken = await ended(onTestFinished, ['serve', '--port', String(first.port), '--data', elsewhere]);
    expect([taken.code, taken.stdout]).toEqual([1, '']);
    expect(taken.stderr).toBe(
      `Port ${first.port} is taken. Is vLLM Scope running already? Choose another with --port (0: any).\n`,
    );
    expect(fs.existsSync(path.join(elsewhere, 'engine.json'))).toBe(false);
    expect((await page.methods.info()).pid).toBe(first.child.pid); // it was not disturbed

    first.child.kill('SIGTERM');
    expect(await first.ended).toBe(0);
    expect(fs.existsSync(path.join(folder, 'engine.json'))).toBe(false);
    const second = await serving(onTestFinished, folder);
    expect(second.token).toBe(first.token);
  });

  it('SIGINT closes the runs that are written; the cluster is there at the next start, once', async ({
    onTestFinished,
  }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const folder = folderFor(onTestFinished);
    const args = ['--connect', words(urlsOf(fake)).join(' '), '--name', 'grpo', '--interval', '0.2'];
    for (const round of [1, 2]) {
      const { child, ended: end, port, token } = await serving(onTestFinished, folder, args);
      const { methods, closed } = await connect(onTestFinished, port, token);
      const clusters = await methods.listClusters();
      expect(clusters.map((c) => [c.name, c.intervalSeconds, c.endpoints.length])).toEqual([
        ['grpo', 0.2, 2],
      ]);
      await until(async () => (await methods.getRun(clusters[0]!.recording!)).workers === 2);
      child.kill('SIGINT');
      expect(await end).toBe(0);
      await closed;
      const runs = await ended(onTestFinished, ['runs', '--json', '--data', folder]);
      const list = JSON.parse(runs.stdout) as RunSummary[];
      expect(list.map((r) => [r.state, r.workers, r.clusterName])).toEqual(
        Array(round).fill(['ended', 2, 'grpo']),
      );
      for (const { file } of list) expect(fs.existsSync(`${file}-wal`)).toBe(false);
    }
  });

  it('is the engine that record, runs and others use', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished, { workers: 2 });
    const folder = folderFor(onTestFinished);
    const { port, token, child, ended: end } = await serving(onTestFinished, folder);
    const { methods } = await connect(onTestFinished, port, token);
    const args = ['record', ...words(urlsOf(fake)), '--interval', '0.2', '--data', folder, '--json'];
    const ran = run(onTestFinished, [...args, '--for', '2s', '--name', 'by hand']);
    await until(async () =>
      (await methods.listClusters()).some((c) => c.name === 'by hand' && c.recording !== null),
    );
    const during = await ended(onTestFinished, ['runs', '--json', '--data', folder]);
    expect((JSON.parse(during.stdout) as RunSummary[]).map((r) => r.state)).toEqual(['recording']);
    expect(await ran.ended).toBe(0);
    expect(ran.stderr()).toContain('2 of 2 endpoints answer');
    const done = JSON.parse(ran.stdout()) as RunSummary;
    expect(path.dirname(done.file)).toBe(path.join(folder, 'runs'));
    expect(await methods.listRuns()).toEqual([done]);
    expect(await methods.listClusters()).toEqual([]);

    // the engine dies while something is recorded through it
    const cut = run(onTestFinished, args);
    await until(() => cut.stderr().includes('2 of 2 endpoints answer'));
    child.kill('SIGKILL');
    await end;
    expect(await cut.ended).toBe(1);
    expect(cut.stderr()).toMatch(/The engine is not connected\.|The connection to the engine broke\./);
    expect(cut.stderr()).not.toMatch(/\n\s+at /);
  });

  it('an announcement of an engine that is dead, or of something else, is passed over', async ({
    onTestFinished,
  }) => {
    const other = http.createServer((_request, response) => response.writeHead(404).end());
    await new Promise<void>((done) => other.listen(0, '127.0.0.1', done));
    onTestFinished(() => void other.close());
    const { port } = other.address() as AddressInfo;
    const mute = net.createServer(() => {}); // never says anything
    await new Promise<void>((done) => mute.listen(0, '127.0.0.1', done));
    onTestFinished(() => void mute.close());
    const folder = folderFor(onTestFinished);
    const first = await serving(onTestFinished, folder);
    first.child.kill('SIGKILL');
    await first.ended;
    const file = path.join(folder, 'engine.json');
    expect(fs.existsSync(file)).toBe(true); // it could not take it back
    for (const announcement of [
      fs.readFileSync(file, 'utf8'),
      JSON.stringify({ pid: 1, port, token: first.token }),
      JSON.stringify({ pid: 1, port: (mute.address() as AddressInfo).port, token: first.token }),
      '{"pid":',
    ]) {
      fs.writeFileSync(file, announcement);
      expect(await ended(onTestFinished, ['runs', '--json', '--data', folder])).toEqual({
        code: 0,
        stdout: '[]\n',
        stderr: '',
      });
    }
  });
});

it.concurrent(
  'the same address twice is one endpoint, and it is asked once a tick',
  async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const { port } = fake.endpoints[0]!;
    const out = path.join(folderFor(onTestFinished), 'run.sqlite');
    const args = ['record', `127.0.0.1:${port}`, `http://127.0.0.1:${port}/v1`, '--out', out];
    expect((await ended(onTestFinished, [...args, '--for', '1s', '--interval', '0.2'])).code).toBe(0);
    expect(rowsOf(out, 'SELECT url FROM endpoint')).toEqual([{ url: fake.endpoints[0]!.url }]);
  },
);
