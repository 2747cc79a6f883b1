/** Uploads that go wrong: what is waited for, what ends them, in which words, and where the next one goes on. */
import { describe, expect, it } from 'vitest';
import type { Fault } from './fake-wandb-faults.ts';
import type { FakeWandbOptions } from './fake-wandb.ts';
import { failing, identity, place, sourceOf, START, streams, uploading, wandb } from './wandb-uploads.ts';

describe('a fault that passes', () => {
  const passing: Fault[] = [
    ...[408, 425, 429, 500, 502, 503, 504].map((status) => ({ status })),
    { lost: 'before' },
    { lost: 'after' },
    { reset: 'before' },
    { reset: 'after' },
    { half: true },
  ];
  it.each(passing)('%j is waited for, in each kind of request', async (fault) => {
    const fake = await wandb();
    const source = sourceOf(4500, { files: 3 });
    for (const on of ['UpsertBucket', 'file_stream', 'CreateRunFiles', 'put']) fake.inject(on, fault);
    const { run, ledger, time } = uploading({ url: fake.url, source });
    expect(await run()).toEqual({ outcome: 'done', rows: 4500, failedFiles: [] });
    const stored = fake.stored(...place)!;
    expect(stored.history).toEqual(source.expected());
    expect(stored.files.size).toBe(3);
    expect(ledger.state.complete).toBe(true);
    const waited = time.slept.filter((ms) => ms >= 2000);
    // the answer to a PUT has no body that could be cut
    expect(waited).toHaveLength(fault.half ? 3 : 4);
    expect(Math.max(...waited)).toBeLessThanOrEqual(2500);
  });

  it('is told in words: what W&B asks for, what it said', async () => {
    const fake = await wandb();
    fake.inject('file_stream', { status: 429, headers: { 'Retry-After': '12' } });
    fake.inject('file_stream', { status: 500, body: { error: 'Server down' } });
    const { run, waits, told } = uploading({ url: fake.url, source: sourceOf(1) });
    await run();
    expect(waits()).toEqual([
      'W&B asks to wait 12 s',
      expect.stringMatching(/^W&B answered 500 "Server down"; again in [45] s$/),
    ]);
    const waiting = told.find(({ waiting }) => waiting?.startsWith('W&B asks'))!;
    expect(waiting.waitsUntil).toBe(START + 12_000);
  });

  it('that does not pass ends the upload after 20 tries; the next one goes on', async () => {
    const fake = await wandb();
    const source = sourceOf(4500);
    fake.inject('file_stream', {});
    fake.inject('file_stream', { status: 503, body: { error: 'over capacity' } }, 20);
    const { run, ledger } = uploading({ url: fake.url, source });
    const fault = await failing(run());
    expect(fault).toMatchObject({ kind: 'server', message: 'over capacity', newRun: false });
    expect(fault.advice).toContain('goes on where it stopped');
    expect(ledger.state).toMatchObject({ acked: 2000, complete: false });
    await uploading({ url: fake.url, source, ledger }).run();
    expect(fake.stored(...place)!.history).toEqual(source.expected());
    expect(streams(fake).filter(({ status }) => status === 200)).toHaveLength(3);
  });

  it('as an answer of file_stream that is no JSON is none', async () => {
    const fake = await wandb();
    fake.inject('file_stream', { malformed: true });
    const { run, time } = uploading({ url: fake.url, source: sourceOf(1) });
    expect(await run()).toMatchObject({ outcome: 'done' });
    expect(time.slept).toEqual([]);
  });
});

describe('a fault that does not pass', () => {
  it.each([400, 401, 403, 404, 409, 410, 413, 422, 501])(
    '%i of file_stream ends the upload at once, with the words of W&B',
    async (status) => {
      const fake = await wandb();
      const source = sourceOf(4500);
      fake.inject('file_stream', {});
      fake.inject('file_stream', { status, body: { error: `no, because ${status}` } });
      const { run, ledger } = uploading({ url: fake.url, source });
      const fault = await failing(run());
      expect(fault.message).toBe(`no, because ${status}`);
      expect(fault.newRun).toBe(status === 404 || status === 410);
      expect(streams(fake)).toHaveLength(2);
      expect(fake.stored(...place)).toMatchObject({ complete: false });
      expect(ledger.state).toMatchObject({ acked: 2000, complete: false });
    },
  );

  const server: FakeWandbOptions = {
    users: [{ key: 'z'.repeat(40), username: 'u', entity: 'mine', readOnly: ['team'], teams: ['team'] }],
    deleted: ['mine/rl/abc12345'],
  };
  it.each([
    ['w'.repeat(40), 'mine', 'key', 'user is not logged in', /API key/],
    ['z'.repeat(40), 'team', 'permission', 'permission denied', /another entity or project/],
    ['z'.repeat(40), 'nobody', 'not-found', /entity nobody not found/, /names of entity and project/],
    ['z'.repeat(40), 'mine', 'deleted', /previously created and deleted/, /as a new run/],
  ] as const)('key %s, entity %s: %s', async (key, entity, kind, said, advice) => {
    const fake = await wandb(server);
    const source = { ...sourceOf(3), identity: { ...identity, entity } };
    const { run, ledger, time } = uploading({ url: fake.url, source, key });
    const fault = await failing(run());
    expect(fault.kind).toBe(kind);
    expect(fault.message).toMatch(said);
    expect(fault.advice).toMatch(advice);
    expect(fault.newRun).toBe(kind === 'deleted');
    expect(fake.requests()).toHaveLength(1);
    expect(time.slept).toEqual([]);
    expect(ledger.saves).toEqual([]);
  });

  it('a server that is not there: every try is told, and the last one ends it', async () => {
    const { run, waits } = uploading({ url: 'http://127.0.0.1:1', source: sourceOf(1), tries: 3 });
    const fault = await failing(run());
    expect(fault).toMatchObject({ kind: 'network' });
    expect(waits()).toEqual([
      expect.stringMatching(/^127\.0\.0\.1:1 refused the connection. Is the server up\?; again in 3 s$/),
      expect.stringMatching(/again in 5 s$/),
    ]);
  });

  it('a run that was deleted meanwhile offers a new one', async () => {
    const fake = await wandb();
    const source = sourceOf(4500);
    const { run, ledger } = uploading({ url: fake.url, source });
    ledger.before = ({ acked }) => acked === 2000 && fake.remove(...place);
    expect(await failing(run())).toMatchObject({ kind: 'not-found', newRun: true });
    const again = await failing(uploading({ url: fake.url, source, ledger }).run());
    expect(again).toMatchObject({ kind: 'deleted', newRun: true });
  });
});
