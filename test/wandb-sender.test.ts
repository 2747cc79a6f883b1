/** Uploads all at once, to the strict stand-in: what arrives, and where the next sender goes on. */
import { describe, expect, it } from 'vitest';
import type { LedgerState } from '../electron/engine/wandb/contract.ts';
import { parseLoose } from './fake-wandb-runs.ts';
import {
  failing,
  identity,
  KeptLedger,
  names,
  OwnTime,
  place,
  sourceOf,
  START,
  streams,
  uploading,
  wandb,
} from './wandb-uploads.ts';

describe('an upload', () => {
  it('brings all that there is, in few requests, and says what it does', async () => {
    const fake = await wandb();
    const source = sourceOf(5000);
    const { run, told, ledger, time } = uploading({ url: fake.url, source });
    expect(await run()).toEqual({ outcome: 'done', rows: 5000, failedFiles: [] });
    const stored = fake.stored(...place)!;
    expect(stored.history).toEqual(source.expected());
    expect(stored).toMatchObject({ complete: true, exitcode: 0, state: 'finished', displayName: 'Run one' });
    expect(stored).toMatchObject({ group: 'g', jobType: 'vllm-metrics', notes: 'Notes', tags: ['a', 'b'] });
    expect(parseLoose(stored.config)).toMatchObject({ model: { value: 'm' }, nan: { value: null } });
    expect(stored.summary).toBe('{"_step":4999,"rows":5000}');
    expect(names(fake)).toEqual(['UpsertBucket', 'file_stream', 'file_stream', 'file_stream']);
    // half a second apart
    expect(time.at - START).toBe(1000);
    expect(ledger.state).toEqual({
      ...{ created: true, storageId: stored.id, entity: 'ent', project: 'rl', displayName: 'Run one' },
      ...{ acked: 5000, files: [], complete: true, described: true },
    });
    expect(told.map(({ rows }) => rows).filter((n, i, all) => n !== all[i - 1])).toEqual([
      0, 2000, 4000, 5000,
    ]);
    expect(told.at(-1)).toMatchObject({ phase: 'done', rows: 5000, rowsTotal: 5000, waiting: null });
    const bytes = streams(fake).reduce((sum, one) => sum + one.bytes, 0);
    expect(told.at(-1)!.bytes).toBe(bytes);
    expect(told.at(-1)!.rate).toBe(bytes);
  });

  it('of long lines stays below 1.5 MB a request; a line of more than that goes alone', async () => {
    const fake = await wandb();
    const whole = sourceOf(20, { padding: 200_000 });
    const source = { ...whole };
    source.lines = (first, max) =>
      (whole.lines(first, max) as string[]).map((line, i) =>
        first + i === 10 ? line.replace('xxx', 'x'.repeat(3_000_000)) : line,
      );
    await uploading({ url: fake.url, source }).run();
    const sent = streams(fake).map(({ body }) => {
      const { files } = body as { files: Record<string, { offset: number; content: string[] }> };
      const { offset, content } = files['wandb-history.jsonl']!;
      return [offset, content.length];
    });
    expect(sent).toEqual([
      [0, 7],
      [7, 3],
      [10, 1],
      [11, 7],
      [18, 2],
    ]);
  });

  it('of a line that W&B would not take says so, and leaves none out', async () => {
    const fake = await wandb();
    const source = sourceOf(3, { padding: 11_000_000 });
    const fault = await failing(uploading({ url: fake.url, source }).run());
    expect(fault.message).toBe('Row 0 has 10.5 MiB; W&B takes no row of more than 9.9 MiB.');
    expect(fake.stored(...place)!.history).toEqual([]);
  });

  it('of a run without rows is complete too', async () => {
    const fake = await wandb();
    expect(await uploading({ url: fake.url, source: sourceOf(0) }).run()).toMatchObject({ outcome: 'done' });
    expect(fake.stored(...place)).toMatchObject({ complete: true, history: [] });
  });

  it('again is up to date, and sends nothing', async () => {
    const fake = await wandb();
    const source = sourceOf(10, { files: 2 });
    const { ledger, run } = uploading({ url: fake.url, source });
    await run();
    const before = fake.requests().length;
    const again = await uploading({ url: fake.url, source, ledger }).run();
    expect(again).toEqual({ outcome: 'up-to-date', rows: 10, failedFiles: [] });
    expect(fake.requests()).toHaveLength(before);
  });

  it('of a run that went on adds its new rows', async () => {
    const fake = await wandb();
    const source = sourceOf(10);
    const { ledger, run } = uploading({ url: fake.url, source });
    await run();
    source.count = 25;
    expect(await uploading({ url: fake.url, source, ledger }).run()).toMatchObject({
      outcome: 'done',
      rows: 25,
    });
    const stored = fake.stored(...place)!;
    expect(stored.history).toEqual(source.expected());
    expect(stored).toMatchObject({ complete: true, summary: '{"_step":24,"rows":25}' });
    const { body } = streams(fake).at(-1)!;
    expect(body).toMatchObject({ files: { 'wandb-history.jsonl': { offset: 10 } } });
    const upserts = fake.requests().filter(({ operation }) => operation === 'UpsertBucket');
    const variables = (upserts[1]!.body as { variables: Record<string, unknown> }).variables;
    expect(variables).toMatchObject({ entity: 'ent', project: 'rl', name: 'abc12345' });
    // what people changed on W&B is not overwritten
    expect(Object.keys(variables).sort()).toEqual(['config', 'entity', 'name', 'project']);
  });

  it('goes where W&B says that the run is', async () => {
    const users = [{ key: 'y'.repeat(40), username: 'own', entity: 'ent', teams: ['a team'] }];
    const fake = await wandb({ users });
    const source = { ...sourceOf(3), identity: { ...identity, entity: 'a team', project: 'x y' } };
    const { run, ledger } = uploading({ url: fake.url, source, key: 'y'.repeat(40) });
    await run();
    expect(fake.stored('a team', 'x y', 'abc12345')!.history).toHaveLength(3);
    expect(ledger.state).toMatchObject({ entity: 'a team', project: 'x y' });
  });
});

describe('the count of the server', () => {
  const partly = (acked: number, more: Partial<LedgerState> = {}) =>
    new KeptLedger({
      ...{ created: true, storageId: null, entity: 'ent', project: 'rl', displayName: null },
      ...{ acked, files: [], complete: false, described: true, ...more },
    });
  /** Makes the run with so many lines on the server, and a ledger that knows of `acked`. */
  async function begun(there: number, acked: number) {
    const fake = await wandb();
    const first = sourceOf(there);
    const { run, ledger } = uploading({ url: fake.url, source: first });
    await run();
    return { fake, ledger: partly(acked, { storageId: ledger.state.storageId }) };
  }

  it('may be ahead by one request whose reply was lost', async () => {
    const { fake, ledger } = await begun(3000, 1000);
    const source = sourceOf(5000);
    await uploading({ url: fake.url, source, ledger }).run();
    expect(fake.stored(...place)!.history).toEqual(source.expected());
    const { body } = streams(fake)[2]!;
    expect(body).toMatchObject({ files: { 'wandb-history.jsonl': { offset: 1000 } } });
  });

  it.each([
    [3001, 1000, 5000],
    [1001, 1000, 1000],
  ])('of %i where %i are from here is somebody else', async (there, acked, total) => {
    const { fake, ledger } = await begun(there, acked);
    const before = streams(fake).length;
    const fault = await failing(uploading({ url: fake.url, source: sourceOf(total), ledger }).run());
    expect(fault).toMatchObject({ kind: 'refused', newRun: true });
    expect(fault.message).toBe(
      `W&B has ${there} rows of this run, of which only ${acked} are from here: somebody else writes to it.`,
    );
    expect(streams(fake)).toHaveLength(before);
  });

  it('that lags is asked for again', async () => {
    const { fake, ledger } = await begun(1000, 1000);
    fake.inject('UpsertBucket', { historyLineCountOff: -900 });
    fake.inject('RunResumeStatus', { historyLineCountOff: -1 });
    const { run, waits } = uploading({ url: fake.url, source: sourceOf(1500), ledger });
    expect(await run()).toMatchObject({ outcome: 'done', rows: 1500 });
    expect(waits()).toEqual(['W&B counts fewer rows than it took; asking again']);
  });

  it('of another run under the same id offers a new one', async () => {
    const { fake, ledger } = await begun(1000, 1000);
    ledger.save({ storageId: 'another' });
    const fault = await failing(uploading({ url: fake.url, source: sourceOf(1000), ledger }).run());
    expect(fault).toMatchObject({
      newRun: true,
      message: 'W&B has another run under the id abc12345 by now.',
    });
  });

  it('that stays behind offers a new run', async () => {
    const { fake, ledger } = await begun(1000, 1200);
    const fault = await failing(uploading({ url: fake.url, source: sourceOf(1500), ledger }).run());
    expect(fault).toMatchObject({
      newRun: true,
      message: 'W&B has only 1000 rows of this run, though it took 1200.',
    });
  });

  it('of a run that was there before ours offers a new run', async () => {
    const fake = await wandb();
    fake.leave(...place, { history: [{ _step: 0 }] });
    const fault = await failing(uploading({ url: fake.url, source: sourceOf(5) }).run());
    expect(fault).toMatchObject({
      newRun: true,
      message: 'W&B has a run abc12345 already, with 1 rows of somebody else.',
    });
  });
});

describe('a user', () => {
  it('pauses and goes on: nothing is sent meanwhile', async () => {
    const fake = await wandb();
    const source = sourceOf(9000);
    const { sender, run, ledger, told } = uploading({ url: fake.url, source });
    let seen = 0;
    ledger.before = ({ acked }) => {
      if (acked !== 4000) return;
      sender.pause();
      seen = fake.requests().length;
    };
    const running = run();
    await expect.poll(() => told.at(-1)?.phase).toBe('paused');
    await new Promise((done) => setTimeout(done, 50));
    expect(fake.requests()).toHaveLength(seen);
    expect(ledger.state.acked).toBe(4000);
    sender.resume();
    expect(await running).toMatchObject({ outcome: 'done', rows: 9000 });
    expect(fake.stored(...place)!.history).toEqual(source.expected());
  });

  it.each(['pace', 'paused', 'in flight', 'waiting'])(
    'cancels while it is %s; the next one goes on',
    async (how) => {
      const fake = await wandb();
      const source = sourceOf(9000);
      const time = new OwnTime();
      const { sender, run, ledger } = uploading({ url: fake.url, source, time });
      if (how === 'pace') time.onSleep = () => ledger.state.acked === 4000 && sender.cancel();
      if (how === 'waiting') {
        fake.inject('file_stream', {}, 2);
        fake.inject('file_stream', { status: 500 }, 3);
        time.onSleep = (until) => until - time.at > 3000 && sender.cancel();
      }
      ledger.before = ({ acked }) => {
        if (acked !== 4000) return;
        if (how === 'paused') sender.pause();
        if (how === 'paused') setTimeout(() => sender.cancel(), 20);
        if (how === 'in flight') fake.inject('file_stream', { delayMs: 500 });
        if (how === 'in flight') setTimeout(() => sender.cancel(), 100);
      };
      expect(await run()).toEqual({ outcome: 'cancelled', rows: 4000, failedFiles: [] });
      expect(fake.stored(...place)).toMatchObject({ complete: false, state: 'running' });
      ledger.before = () => {};
      await new Promise((done) => setTimeout(done, how === 'in flight' ? 500 : 0));
      expect(await uploading({ url: fake.url, source, ledger }).run()).toMatchObject({ outcome: 'done' });
      expect(fake.stored(...place)!.history).toEqual(source.expected());
    },
  );
});

it('slows down as RateLimit headers ask, and says so', async () => {
  const fake = await wandb();
  const headers = { 'RateLimit-Remaining': '0', 'RateLimit-Reset': '60' };
  fake.inject('file_stream', { headers });
  const { run, waits, time } = uploading({ url: fake.url, source: sourceOf(4000) });
  await run();
  expect(waits()).toEqual(['W&B limits the pace; next request in 10 s']);
  expect(time.at - START).toBe(10_000);
});

it('keeps to two requests a second, as W&B asks of a run', async () => {
  const time = new OwnTime();
  const fake = await wandb({ ratePerSecond: 2, clock: time.now });
  const source = sourceOf(20_000);
  await uploading({ url: fake.url, source, time }).run();
  expect(streams(fake).map(({ status }) => status)).toEqual(Array(10).fill(200));
  expect(fake.stored(...place)!.history).toEqual(source.expected());
});
