/** Faults of the stand-in for W&B, each over real HTTP, and its ordinary refusals: those are no violations. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { newAuthority } from './certificates.ts';
import {
  createFiles,
  graphql,
  history,
  inOurs,
  put,
  row,
  started,
  stream,
  upsert,
} from './fake-wandb-asking.ts';
import { ask, basic, type Answer } from './fake-wandb-replay.ts';
import { fakeKey, type FakeWandb } from './fake-wandb.ts';

async function withRun(options: Parameters<typeof started>[0] = {}): Promise<FakeWandb> {
  const fake = await started(options);
  expect((await upsert(fake)).status).toBe(200);
  return fake;
}
const linesOf = (fake: FakeWandb) => fake.stored('ent', 'proj', 'run1')!.history.length;
const error = ({ text }: Answer) => (JSON.parse(text) as { error: string }).error;

describe('faults', () => {
  it('a sequence of statuses, with bodies and headers, in the order of their injection', async () => {
    const fake = await withRun();
    const later = new Date(Date.now() + 60_000).toUTCString();
    fake.inject('file_stream', { status: 429, headers: { 'Retry-After': '3' } });
    fake.inject('file_stream', { status: 503, body: 'busy', headers: { 'Retry-After': later } }, 2);
    fake.inject('UpsertBucket', { status: 500, body: { errors: ['Server down'] } });
    const answers = [];
    for (let i = 0; i < 4; i++) answers.push(await stream(fake, history(0, row(0))));
    expect(answers.map(({ status }) => status)).toEqual([429, 503, 503, 200]);
    expect(answers.map(({ headers }) => headers['retry-after'])).toEqual(['3', later, later, undefined]);
    expect([error(answers[0]!), answers[1]!.text]).toEqual(['injected', 'busy']);
    const upserts = [await upsert(fake), await upsert(fake)];
    expect(upserts.map(({ status }) => status)).toEqual([500, 200]);
    expect(JSON.parse(upserts[0]!.text)).toEqual({ errors: ['Server down'] });
  });

  it('are not applied where the status is another', async () => {
    const fake = await withRun();
    fake.inject('file_stream', { status: 500 });
    await stream(fake, history(0, row(0)));
    expect(linesOf(fake)).toBe(0);
  });

  it('headers alone go with a good answer; an empty fault lets one request pass', async () => {
    const fake = await withRun();
    fake.inject('file_stream', {});
    fake.inject('file_stream', { headers: { 'RateLimit-Remaining': '10', 'RateLimit-Reset': '5' } });
    const [plain, limited] = [await stream(fake, {}), await stream(fake, history(0, row(0)))];
    expect(plain.headers['ratelimit-remaining']).toBeUndefined();
    expect([limited.status, limited.headers['ratelimit-remaining']]).toEqual([200, '10']);
    expect(linesOf(fake)).toBe(1);
  });

  it.each([
    ['lost', 'before', 0],
    ['lost', 'after', 1],
    ['reset', 'before', 0],
    ['reset', 'after', 1],
  ] as const)('an answer that is %s, %s the request was applied', async (how, when, lines) => {
    const fake = await withRun();
    fake.inject('file_stream', { [how]: when });
    const gone = await stream(fake, history(0, row(0)));
    expect([gone.status, gone.failure]).toEqual([null, 'ECONNRESET']);
    expect(linesOf(fake)).toBe(lines);
    expect(fake.requests().at(-1)!.status).toBeNull();
    expect((await stream(fake, history(0, row(0)))).status).toBe(200);
    expect(linesOf(fake)).toBe(1);
  });

  it('a slow answer is applied at once', async () => {
    const fake = await withRun();
    fake.inject('file_stream', { delayMs: 300 });
    const began = performance.now();
    const slow = stream(fake, history(0, row(0)));
    await expect.poll(() => linesOf(fake), { interval: 10 }).toBe(1);
    expect(performance.now() - began).toBeLessThan(290);
    expect((await slow).status).toBe(200);
    expect(performance.now() - began).toBeGreaterThan(290);
  });

  it('half a body, and a body that is not JSON, after the request was applied', async () => {
    const fake = await withRun();
    fake.inject('file_stream', { half: true });
    const half = await stream(fake, history(0, row(0)));
    expect([half.status, half.complete, half.text.length > 0]).toEqual([200, false, true]);
    fake.inject('file_stream', { malformed: true });
    const malformed = await stream(fake, history(1, row(1)));
    expect([malformed.status, malformed.complete]).toEqual([200, true]);
    expect(() => JSON.parse(malformed.text) as unknown).toThrow(SyntaxError);
    expect(linesOf(fake)).toBe(2);
  });

  it('stopped stays with the run', async () => {
    const fake = await withRun();
    fake.inject('file_stream', { stopped: true });
    const replies = [await stream(fake, {}), await stream(fake, {})].map(
      ({ text }) => JSON.parse(text) as object,
    );
    expect(replies).toEqual([1, 2].map(() => ({ exitcode: null, limits: {}, stopped: true })));
  });

  it('a stale or early historyLineCount', async () => {
    const fake = await withRun();
    await stream(fake, history(0, row(0), row(1), row(2)));
    fake.inject('UpsertBucket', { historyLineCountOff: -2 });
    fake.inject('RunResumeStatus', { historyLineCountOff: 4 });
    const upserted = [await upsert(fake), await upsert(fake)].map(
      ({ text }) => /"historyLineCount":(\d+)/.exec(text)![1],
    );
    const { text } = await graphql(fake, 'RunResumeStatus', { project: 'proj', entity: 'ent', name: 'run1' });
    expect([...upserted, /"historyLineCount":(\d+)/.exec(text)![1]]).toEqual(['1', '3', '7']);
  });

  it('addresses of uploads that are relative, and headers of another store', async () => {
    const fake = await withRun();
    fake.inject('CreateRunFiles', { relativeUploadUrl: true, uploadHeaders: ['x-ms-blob-type: BlockBlob'] });
    const { files, uploadHeaders } = await createFiles(fake, 'media/a b/ä.json');
    expect(uploadHeaders).toEqual(['x-ms-blob-type: BlockBlob']);
    expect(files[0]!.uploadUrl).toMatch(/^\/upload\/ent\/proj\/run1\/media\/a%20b\/%C3%A4\.json\?/);
    const url = fake.url + files[0]!.uploadUrl;
    expect((await put(url, 'bytes')).status).toBe(400);
    expect(fake.violations()).toEqual([expect.stringMatching(/x-ms-blob-type is undefined/)]);
    const headers = { 'x-ms-blob-type': 'BlockBlob', 'content-length': 5 };
    expect((await ask(url, { method: 'PUT', headers }, 'bytes')).status).toBe(200);
    expect(fake.stored('ent', 'proj', 'run1')!.files.get('media/a b/ä.json')!.toString()).toBe('bytes');
    expect((await stream(fake, { uploaded: ['media/a b/ä.json'] })).status).toBe(200);
  });

  it('an address that has expired stays so; a new one works', async () => {
    const fake = await withRun();
    const first = (await createFiles(fake, 'a.txt')).files[0]!.uploadUrl;
    fake.inject('put', { expired: true });
    const answers = [await put(first, 'a'), await put(first, 'a')];
    expect(answers.map(({ status }) => status)).toEqual([403, 403]);
    expect(answers[0]!.text).toContain('Request has expired');
    const second = (await createFiles(fake, 'a.txt')).files[0]!.uploadUrl;
    expect((await put(second, 'a')).status).toBe(200);
  });
});

describe('ordinary refusals', () => {
  const own = { key: fakeKey, username: 'user', entity: 'ent', teams: ['team'], readOnly: ['team/closed'] };
  const world = { users: [own], entities: ['others'], deleted: ['ent/proj/gone'] };
  const told = (text: string) => (JSON.parse(text) as { errors: { message: string }[] }).errors[0]!;

  it('a wrong key', async () => {
    const fake = await started(world);
    const wrong = { authorization: basic('y'.repeat(40)) };
    const answers = [await upsert(fake, {}, wrong), await stream(fake, {}, { headers: wrong })];
    expect(answers.map(({ status }) => status)).toEqual([401, 401]);
    expect(told(answers[0]!.text)).toEqual({ message: 'user is not logged in' });
  });

  it.each([
    ['an entity of others', { entity: 'others' }, 403, 'permission denied', 'PERMISSION_ERROR'],
    [
      'a project that may only be read',
      { entity: 'team', project: 'closed' },
      403,
      'permission denied',
      'PERMISSION_ERROR',
    ],
    [
      'an unknown entity',
      { entity: 'nobody' },
      404,
      'entity nobody not found during upsertBucket',
      undefined,
    ],
    [
      'a deleted run',
      { name: 'gone' },
      409,
      'run ent/proj/gone was previously created and deleted; try a new run name',
      'CONFLICT',
    ],
  ] as const)('%s', async (_, changed, status, message, code) => {
    const fake = await started(world);
    const answer = await upsert(fake, changed);
    expect(answer.status).toBe(status);
    const extensions = code ? { extensions: { code } } : {};
    const errors = [{ message, path: ['upsertBucket'], ...extensions }];
    expect(JSON.parse(answer.text)).toEqual({ errors, data: { upsertBucket: null } });
    expect((await upsert(fake, { entity: 'team' })).status).toBe(200);
  });

  it('a run that was deleted meanwhile', async () => {
    const fake = await withRun();
    fake.remove('ent', 'proj', 'run1');
    expect([(await stream(fake, {})).status, (await upsert(fake)).status]).toEqual([404, 409]);
  });

  it('more than two requests a second for one run', async () => {
    let now = 0;
    const fake = await withRun({ ratePerSecond: 2, clock: () => now });
    await upsert(fake, { name: 'run2' });
    const statuses = async (at: number) => {
      now = at;
      const { status, headers } = await stream(fake, {});
      return [status, headers['retry-after'] ?? null];
    };
    const paced = [];
    for (let i = 0; i < 10; i++) paced.push((await statuses(i * 500))[0]);
    expect(paced).toEqual(Array.from({ length: 10 }, () => 200));
    expect([await statuses(4500), await statuses(4500)]).toEqual([
      [200, null],
      [429, '1'],
    ]);
    expect((await stream(fake, {}, { run: 'run2' })).status).toBe(200);
    expect(await statuses(5000)).toEqual([200, null]);
  });

  it('nothing is read of what others have', async () => {
    const fake = await withRun({ users: [own, { key: 'z'.repeat(40), username: 'else' }] });
    const named = { project: 'proj', entity: 'ent', name: 'run1' };
    const theirs = { headers: { authorization: basic('z'.repeat(40)) } };
    expect((await graphql(fake, 'RunHistoryKeys', named, theirs)).text).toBe('{"data":{"project":null}}');
  });
});

describe('reading', () => {
  const run = (n: number, more: object = {}) => ({
    ...{
      displayName: `trainer ${n}`,
      group: n % 2 ? 'odd' : 'even',
      createdAt: n * 1000,
      heartbeatAt: (10 - n) * 1000,
    },
    ...more,
  });
  async function withRuns() {
    const fake = await started();
    for (let n = 1; n <= 5; n++)
      fake.leave('ent', 'rl', `run${n}`, run(n, n === 5 ? { state: 'running' } : {}));
    const list = async (variables: object) => {
      const { text } = await graphql(fake, 'Runs', { project: 'rl', entity: 'ent', ...variables });
      const { data } = JSON.parse(text) as {
        data: {
          project: { runCount: number; runs: { edges: { node: { name: string } }[]; pageInfo: object } };
        };
      };
      const { runCount, runs } = data.project;
      return { runCount, names: runs.edges.map(({ node }) => node.name).join(' '), pageInfo: runs.pageInfo };
    };
    return { fake, list };
  }

  it('lists runs by filter and order, in pages', async () => {
    const { list } = await withRuns();
    const filtered = async (filters: object) => (await list({ filters: JSON.stringify(filters) })).names;
    expect((await list({})).names).toBe('run5 run4 run3 run2 run1');
    expect((await list({ order: '-heartbeat_at' })).names).toBe('run1 run2 run3 run4 run5');
    expect(await filtered({ group: 'odd', state: 'finished' })).toBe('run3 run1');
    expect(await filtered({ $or: [{ name: 'run2' }, { state: 'running' }] })).toBe('run5 run2');
    expect(await filtered({ displayName: { $regex: 'r [24]$' } })).toBe('run4 run2');
    const first = await list({ perPage: 2, order: '+created_at' });
    expect(first).toEqual({
      runCount: 5,
      names: 'run1 run2',
      pageInfo: { endCursor: '1', hasNextPage: true },
    });
    const last = await list({ perPage: 3, order: '+created_at', cursor: '1' });
    expect(last).toEqual({
      runCount: 5,
      names: 'run3 run4 run5',
      pageInfo: { endCursor: '4', hasNextPage: false },
    });
  });

  it('gives the rows that have all keys, thinned out beyond the samples', async () => {
    const fake = await started();
    const rows = Array.from({ length: 100 }, (_, i) => ({
      _step: i,
      ...(i % 10 ? {} : { 'train/step': i / 10 }),
    }));
    fake.leave('ent', 'rl', 'run1', { history: rows });
    const steps = async (spec: object) => {
      const variables = { ...inOurs, project: 'rl', spec: JSON.stringify({ keys: ['_step'], ...spec }) };
      const { text } = await graphql(fake, 'SampledHistoryPage', variables);
      const { data } = JSON.parse(text) as {
        data: { project: { run: { sampledHistory: { _step: number }[][] } } };
      };
      return data.project.run.sampledHistory[0]!.map(({ _step }) => _step);
    };
    expect(await steps({ keys: ['_step', 'train/step'], samples: 100 })).toEqual([
      0, 10, 20, 30, 40, 50, 60, 70, 80, 90,
    ]);
    expect(await steps({ minStep: 5, maxStep: 7, samples: 3 })).toEqual([5, 6, 7]);
    expect(await steps({ samples: 4 })).toEqual([0, 33, 66, 99]);
    const page = { ...inOurs, project: 'rl', minStep: 5, maxStep: 7, pageSize: 100 };
    const { text } = await graphql(fake, 'HistoryPage', page);
    expect(JSON.parse(text)).toEqual({
      data: { project: { run: { history: ['{"_step":5}', '{"_step":6}'] } } },
    });
  });
});

it('speaks TLS with the certificate it is given, and stores what was sent', async () => {
  const authority = newAuthority();
  const fake = await started({ certificate: authority.issue('IP:127.0.0.1') });
  const headers = { authorization: basic(fakeKey) };
  const url = `${fake.url}/files/ent/proj/run1/a.txt`;
  expect((await ask(url, { method: 'GET', headers })).failure).toBe('UNABLE_TO_VERIFY_LEAF_SIGNATURE');
  expect((await ask(url, { method: 'GET', headers, ca: authority.pem })).status).toBe(404);
});

it('is started by hand, with the key that is given', async () => {
  const key = 'k'.repeat(86);
  const file = path.join(import.meta.dirname, 'fake-wandb.ts');
  const child = spawn(process.execPath, [file, '--key', key], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const headers = { authorization: basic(key), 'content-type': 'application/json' };
  const query = JSON.stringify({ query: '{ viewer { username entity } }' });
  const { text } = await ask(`${line.toString().trim()}/graphql`, { headers }, query);
  expect(JSON.parse(text)).toEqual({ data: { viewer: { username: 'user', entity: 'ent' } } });
  child.kill('SIGTERM');
  expect(await once(child, 'exit')).toEqual([0, null]);
});
