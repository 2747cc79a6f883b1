/** What is asked of W&B besides uploads: whose key it is, projects, runs, history; from the strict stand-in. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { ApiKey } from '../electron/engine/wandb/account.ts';
import { createGraphql, type HistoryRow } from '../electron/engine/wandb/graphql.ts';
import { createHttp } from '../electron/engine/wandb/http.ts';
import { fakeKey, type FakeWandb } from './fake-wandb.ts';
import { httpServer } from './small-servers.ts';
import { failing, OwnTime, START, wandb } from './wandb-uploads.ts';

function asking(url: string, key = fakeKey) {
  const http = createHttp({ baseUrl: url, ca: null, proxy: null }, new ApiKey(key));
  onTestFinished(() => http.close());
  const time = new OwnTime();
  const { signal } = new AbortController();
  return { time, ...createGraphql({ http, timing: time, signal, tries: 3 }) };
}

describe('the viewer', () => {
  it('has a name, a default entity and teams', async () => {
    const users = [{ key: fakeKey, username: 'ann', entity: 'ann-home', teams: ['team-b', 'team-a'] }];
    const fake = await wandb({ users });
    expect(await asking(fake.url).viewer()).toEqual({
      ...{ username: 'ann', entity: 'ann-home', entities: ['ann-home', 'team-b', 'team-a'] },
    });
  });

  it('of a wrong key is nobody', async () => {
    const fake = await wandb();
    const fault = await failing(asking(fake.url, 'w'.repeat(40)).viewer());
    expect(fault).toMatchObject({ kind: 'key', message: 'user is not logged in' });
    fake.inject('Viewer', { status: 200, body: { data: { viewer: null } } });
    expect(await failing(asking(fake.url).viewer())).toMatchObject({ kind: 'key' });
  });

  it('is there although a part of the answer failed', async () => {
    const fake = await wandb();
    const viewer = { id: '1', entity: null, username: 'ann', teams: null };
    fake.inject('Viewer', { status: 200, body: { data: { viewer }, errors: [{ message: 'teams failed' }] } });
    expect(await asking(fake.url).viewer()).toEqual({ username: 'ann', entity: 'ann', entities: ['ann'] });
    fake.inject('Viewer', {
      status: 200,
      body: { data: { viewer: null }, errors: [{ message: 'all failed' }] },
    });
    expect(await failing(asking(fake.url).viewer())).toMatchObject({ message: 'all failed' });
  });

  it('is asked for again where a fault may pass, three times in all', async () => {
    const fake = await wandb();
    fake.inject('Viewer', { status: 503 }, 2);
    const { viewer, time } = asking(fake.url);
    expect(await viewer()).toMatchObject({ username: 'user' });
    expect(time.slept).toHaveLength(2);
    fake.inject('Viewer', { status: 503, body: { error: 'busy' } }, 3);
    expect(await failing(asking(fake.url).viewer())).toMatchObject({ kind: 'server', message: 'busy' });
  });
});

it.each([
  ['<html>Please sign in</html>', 'text/html'],
  ['{"hello":1}', 'application/json'],
  ['null', 'application/json'],
  ['[]', 'application/json'],
])('a server that answers %s is none of W&B', async (body, type) => {
  const { port } = await httpServer((_request, response) =>
    response.writeHead(200, { 'content-type': type }).end(body),
  );
  const fault = await failing(asking(`http://127.0.0.1:${port}`).viewer());
  expect(fault).toMatchObject({ kind: 'refused', message: 'The server does not answer as W&B does.' });
});

it('a redirect is told as one, with what to do', async () => {
  const { port } = await httpServer((_request, response) =>
    response.writeHead(302, { location: 'https://login.example/sso' }).end(),
  );
  const fault = await failing(asking(`http://127.0.0.1:${port}`).viewer());
  expect(fault.message).toBe('The server redirects (302) to https://login.example, which is not followed.');
  expect(fault.advice).toBe('Give the address that the W&B server has itself.');
});

describe('reading', () => {
  const place = { entity: 'ent', project: 'rl' };
  /** A trainer's run: rows of several kinds, with steps that are sparse. */
  function leaveTrainer(fake: FakeWandb, runId = 'train01', rows = 2500) {
    const history = Array.from({ length: rows }, (_, i) => ({
      ...{ _step: i * 2, _timestamp: START / 1000 + i, _runtime: i },
      ...(i % 10 === 0
        ? { 'train/global_step': i / 10, 'train/loss': i === 20 ? NaN : 1 / (i + 1) }
        : { speed: i }),
    }));
    fake.leave(...(['ent', 'rl', runId] as const), {
      ...{ displayName: `Run ${runId}`, history, group: 'g1', jobType: 'train', tags: ['t'] },
    });
    return history;
  }

  it('gives projects and runs, a page at a time', async () => {
    const projects = Array.from({ length: 70 }, (_, i) => `ent/p${String(i).padStart(2, '0')}`);
    const fake = await wandb({ projects });
    const { projects: ask } = asking(fake.url);
    const first = await ask('ent');
    const second = await ask('ent', first.cursor);
    expect([first.rows.length, second.rows.length, second.cursor]).toEqual([50, 20, null]);
    expect([...first.rows, ...second.rows].map(({ name }) => `ent/${name}`).sort()).toEqual(projects);

    for (let i = 0; i < 60; i++) leaveTrainer(fake, `run${i}`, 1);
    const { runs } = asking(fake.url);
    const page = await runs(place);
    const rest = await runs(place, {}, page.cursor);
    expect(new Set([...page.rows, ...rest.rows].map(({ runId }) => runId)).size).toBe(60);
    expect(page.rows[0]).toMatchObject({
      ...{ displayName: expect.stringMatching(/^Run run\d+$/) as string, state: 'finished', group: 'g1' },
      ...{ jobType: 'train', tags: ['t'], username: 'user', historyLineCount: 1 },
    });
    const found = await runs(place, { displayName: { $regex: 'run5\\d' } });
    expect(found.rows).toHaveLength(10);
  });

  it('says what keys a run has, and gives the rows that have all that were asked for', async () => {
    const fake = await wandb();
    const rows = leaveTrainer(fake);
    const { run, history, time } = asking(fake.url);
    const detail = await run(place, 'train01');
    expect(detail).toMatchObject({ runId: 'train01', lastStep: 4998, historyLineCount: 2500 });
    expect(detail.keys.sort()).toEqual(
      ['_runtime', '_step', '_timestamp', 'speed', 'train/global_step', 'train/loss'].sort(),
    );
    const read: HistoryRow[] = [];
    const keys = ['_step', '_timestamp', 'train/global_step'];
    for await (const page of history(place, 'train01', keys, { from: 0, to: detail.lastStep }))
      read.push(...page);
    const wanted = rows.filter((row) => 'train/global_step' in row);
    expect(read).toEqual(
      wanted.map((row) => ({
        ...{ _step: row._step, _timestamp: row._timestamp },
        'train/global_step': (row as Record<string, number>)['train/global_step'],
      })),
    );
    // five pages of 1,000 steps, a second apart
    expect(fake.requests().filter(({ operation }) => operation === 'SampledHistoryPage')).toHaveLength(5);
    expect(time.slept).toEqual([1000, 1000, 1000, 1000]);
    const part: HistoryRow[] = [];
    for await (const page of history(place, 'train01', ['_step'], { from: 100, to: 110 })) part.push(...page);
    expect(part.map(({ _step }) => _step)).toEqual([100, 102, 104, 106, 108, 110]);
  });

  it('of what is not there says what is not there', async () => {
    const fake = await wandb({ projects: ['ent/rl'] });
    const { runs, run } = asking(fake.url);
    expect(await failing(runs({ entity: 'ent', project: 'none' }))).toMatchObject({
      ...{ kind: 'not-found', message: 'There is no project ent/none that this API key may see.' },
    });
    expect(await failing(run(place, 'none'))).toMatchObject({
      ...{ kind: 'not-found', message: 'There is no run none in ent/rl.' },
    });
  });
});
