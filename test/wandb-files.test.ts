/** Files of an upload: where they go, that the run is told of them, and those that storage does not take. */
import { expect, it } from 'vitest';
import { names, place, sourceOf, streams, uploading, wandb } from './wandb-uploads.ts';

it('go after the rows, in batches, and are told to the run', async () => {
  const fake = await wandb({ uploadHeaders: ['x-ms-blob-type:BlockBlob', 'Content-Type:a/b;c=d:e'] });
  const source = sourceOf(10, { files: 120 });
  const { run, told, ledger } = uploading({ url: fake.url, source });
  await run();
  const stored = fake.stored(...place)!;
  for (const file of source.made) expect(stored.files.get(file.name)).toEqual(await file.read());
  expect([...stored.uploaded].sort()).toEqual(source.made.map(({ name }) => name).sort());
  expect(ledger.state.files).toHaveLength(120);
  const order = names(fake).filter((name, i, all) => name !== all[i - 1]);
  const batch = ['CreateRunFiles', 'put', 'file_stream'];
  expect(order).toEqual(['UpsertBucket', 'file_stream', ...batch, ...batch, ...batch]);
  expect(told.find(({ phase }) => phase === 'files')).toMatchObject({ files: 0, filesTotal: 120 });
  // the last one ends the run
  expect(streams(fake).slice(-2)).toMatchObject([{ body: { uploaded: {} } }, { body: { complete: true } }]);
});

it('whose address has expired get another; the server may give only a path', async () => {
  const fake = await wandb();
  fake.inject('CreateRunFiles', { relativeUploadUrl: true });
  fake.inject('put', { expired: true }, 2);
  const { run } = uploading({ url: fake.url, source: sourceOf(1, { files: 6 }) });
  expect(await run()).toMatchObject({ outcome: 'done', failedFiles: [] });
  expect(fake.stored(...place)!.files.size).toBe(6);
  expect(names(fake).filter((name) => name === 'CreateRunFiles')).toHaveLength(2);
});

it('that storage does not take are told, and tried again the next time', async () => {
  const fake = await wandb();
  const source = sourceOf(1, { files: 3 });
  fake.inject('put', { status: 400, body: '<Error><Message>Bad digest</Message></Error>' });
  const { run, ledger } = uploading({ url: fake.url, source });
  const { outcome, failedFiles } = await run();
  expect([outcome, failedFiles]).toEqual(['done', [{ name: source.made[0]!.name, reason: 'Bad digest' }]]);
  expect(fake.stored(...place)).toMatchObject({ complete: true });
  expect(await uploading({ url: fake.url, source, ledger }).run()).toMatchObject({
    outcome: 'done',
    failedFiles: [],
  });
  expect(fake.stored(...place)!.uploaded).toHaveLength(3);
  expect(fake.requests().filter(({ kind }) => kind === 'put')).toHaveLength(4);
});

it('go four at a time', async () => {
  const fake = await wandb();
  fake.inject('put', { delayMs: 60 }, 12);
  let now = 0;
  let most = 0;
  const through: Parameters<typeof uploading>[0]['through'] = (http) => ({
    ...http,
    request: async (asked) => {
      if (asked.method !== 'PUT') return http.request(asked);
      most = Math.max(most, ++now);
      return http.request(asked).finally(() => now--);
    },
  });
  await uploading({ url: fake.url, source: sourceOf(1, { files: 12 }), through }).run();
  expect(most).toBe(4);
});

it('added to a run that was complete: ended before it is complete again, the next sender completes it', async () => {
  const fake = await wandb();
  const source = sourceOf(5, { files: 1 });
  const { run, ledger } = uploading({ url: fake.url, source });
  await run();
  source.count = 6;
  source.made.push(...sourceOf(0, { files: 2 }).made.slice(1));
  fake.inject('file_stream', {}, 2);
  fake.inject('file_stream', { lost: 'before' });
  const second = uploading({ url: fake.url, source, ledger, tries: 1 });
  await expect(second.run()).rejects.toThrow();
  expect(ledger.state).toMatchObject({ acked: 6, complete: false });
  expect(fake.stored(...place)).toMatchObject({ complete: false });
  expect(await uploading({ url: fake.url, source, ledger }).run()).toMatchObject({ outcome: 'done' });
  expect(fake.stored(...place)).toMatchObject({ complete: true, history: source.expected() });
});
