/** Each rule of the stand-in for W&B: what breaks it is refused, remembered as a violation, and changes nothing. */
import { describe, expect, it } from 'vitest';
import { config, createFiles, graphql, history, inOurs, put } from './fake-wandb-asking.ts';
import { refusedAndRemembered, row, stream, upsert, withRun, type Rule } from './fake-wandb-asking.ts';
import { ask, basic } from './fake-wandb-replay.ts';
import { fakeKey, startFakeWandb } from './fake-wandb.ts';

const rules: Record<string, Rule> = {
  'no authorization': [(fake) => stream(fake, {}, { headers: { authorization: '' } }), 401, /no Basic/],
  'a bearer token': [(fake) => upsert(fake, {}, { authorization: `Bearer ${fakeKey}` }), 401, /no Basic/],
  'a user other than api': [
    (fake) => upsert(fake, {}, { authorization: basic(fakeKey).replace('YXBp', 'YXBq') }),
    401,
    /no Basic/,
  ],
  'the wrong content type': [
    (fake) => stream(fake, {}, { headers: { 'content-type': 'text/plain' } }),
    400,
    /content type/,
  ],
  'no content type': [(fake) => upsert(fake, {}, { 'content-type': '' }), 400, /content type/],
  'gzip without the feature': [
    (fake) => stream(fake, {}, { headers: { 'content-encoding': 'gzip' } }),
    400,
    /encoding gzip/,
  ],
  'a path that is not there': [
    (fake) => ask(`${fake.url}/graph`, { headers: { authorization: basic(fakeKey) } }),
    404,
    /no such path/,
  ],

  'a gap before the offset': [
    (fake) => stream(fake, history(3, row(3))),
    400,
    /offset 3 leaves a gap, there are 2/,
  ],
  'a line that changes': [(fake) => stream(fake, history(1, row(1, ',"v":2'))), 400, /line 1 was sent again/],
  'a _step that falls': [(fake) => stream(fake, history(2, row(0))), 400, /_step 0 after 1/],
  'a _step that falls within a request': [
    (fake) => stream(fake, history(2, row(5), row(4))),
    400,
    /_step 4 after 5/,
  ],
  'a line without _step': [(fake) => stream(fake, history(2, '{"v":1}')), 400, /no whole _step/],
  'a line that is not JSON': [(fake) => stream(fake, history(2, '{"_step":2,"v":nan}')), 400, /not JSON/],
  'a line that is not an object': [(fake) => stream(fake, history(2, '[2]')), 400, /not an object/],
  'a line feed in a line': [(fake) => stream(fake, history(2, '{"_step":2}\n')), 400, /line feed/],
  'a summary at another offset': [
    (fake) => stream(fake, { files: { 'wandb-summary.json': { offset: 1, content: ['{}'] } } }),
    400,
    /not one line at offset 0/,
  ],
  'a summary that is not JSON': [
    (fake) => stream(fake, { files: { 'wandb-summary.json': { offset: 0, content: ['{'] } } }),
    400,
    /not JSON/,
  ],
  'an events line that changes': [
    async (fake) => {
      const events = (content: string) => ({
        files: { 'wandb-events.jsonl': { offset: 0, content: [content] } },
      });
      await stream(fake, events('{"_wandb":true}'));
      return stream(fake, events('{"_wandb":false}'));
    },
    400,
    /events.*sent again/,
  ],
  'another file': [
    (fake) => stream(fake, { files: { 'a.log': { offset: 0, content: ['a'] } } }),
    400,
    /no such file/,
  ],
  'an unknown member': [(fake) => stream(fake, { completed: true }), 400, /unknown member/],
  'a body that is not JSON': [(fake) => stream(fake, '{'), 400, /not JSON/],
  'an offset that is no number': [
    (fake) => stream(fake, { files: { 'wandb-history.jsonl': { offset: '2', content: [row(2)] } } }),
    400,
    /no line number/,
  ],
  'no lines': [(fake) => stream(fake, history(2)), 400, /not a list of lines/],
  'a line over the limit': [
    (fake) => stream(fake, history(2, row(2, `,"v":"${'x'.repeat(10_383_361 - 18)}"`))),
    413,
    /line 2 has 10383361 bytes/,
  ],
  'lines over the limit together': [
    (fake) => stream(fake, history(2, ...[2, 3].map((step) => row(step, `,"v":"${'x'.repeat(5_242_880)}"`)))),
    413,
    /bytes of lines/,
  ],
  'a body over any limit': [(fake) => stream(fake, '{}'.padEnd(33 * 1024 * 1024)), 413, /a body of/],
  'complete without an exit code': [(fake) => stream(fake, { complete: true }), 400, /exitcode/],
  'uploaded before it was': [
    (fake) => stream(fake, { uploaded: ['a.txt'] }),
    400,
    /a\.txt, which was not uploaded/,
  ],
  'a run that was never made': [
    (fake) => stream(fake, {}, { run: 'run2' }),
    404,
    /run ent\/proj\/run2 not found/,
  ],
  'lines after complete': [
    async (fake) => {
      await stream(fake, { complete: true, exitcode: 0 });
      return stream(fake, history(2, row(2)));
    },
    400,
    /the run is complete/,
  ],
  'a heartbeat after complete': [
    async (fake) => {
      await stream(fake, { complete: true, exitcode: 0 });
      return stream(fake, {});
    },
    400,
    /the run is complete/,
  ],
  'files after complete': [
    async (fake) => {
      await stream(fake, { complete: true, exitcode: 0 });
      return graphql(fake, 'CreateRunFiles', { ...inOurs, files: ['a.txt'] });
    },
    400,
    /the run is complete/,
  ],
  'an upload after complete': [
    async (fake) => {
      const { files } = await createFiles(fake, 'a.txt');
      await stream(fake, { complete: true, exitcode: 0 });
      return put(files[0]!.uploadUrl, 'a');
    },
    400,
    /the run is complete/,
  ],

  'an upload with credentials': [
    async (fake) =>
      put((await createFiles(fake, 'a.txt')).files[0]!.uploadUrl, 'a', { authorization: basic(fakeKey) }),
    400,
    /given credentials/,
  ],
  'an upload without its headers': [
    async (fake) =>
      put((await createFiles(fake, 'a.txt')).files[0]!.uploadUrl, 'a', { 'content-type': 'text/plain' }),
    400,
    /content-type is text\/plain/,
  ],
  'an upload without a length': [
    async (fake) =>
      put((await createFiles(fake, 'a.txt')).files[0]!.uploadUrl, 'a', { 'transfer-encoding': 'chunked' }),
    411,
    /Content-Length/,
  ],
  'an upload to an address nobody gave': [
    (fake) => put(`${fake.url}/upload/ent/proj/run1/a.txt?signature=9`, 'a'),
    403,
    /no such address/,
  ],
  'a file outside the folder': [
    (fake) => graphql(fake, 'CreateRunFiles', { ...inOurs, files: ['a/../../b'] }),
    400,
    /invalid file name/,
  ],
  'files that are no object': [(fake) => stream(fake, { files: [] }), 400, /files is not an object/],
  'a part with more than offset and content': [
    (fake) => stream(fake, { files: { 'wandb-history.jsonl': { offset: 2, content: [row(2)], lines: 1 } } }),
    400,
    /is not \{"offset", "content"\}/,
  ],
  'a body that is a list': [(fake) => stream(fake, []), 400, /the body is not an object/],
  'uploaded that is no list': [(fake) => stream(fake, { uploaded: 'a.txt' }), 400, /uploaded is not a list/],
  'complete that is false': [(fake) => stream(fake, { complete: false }), 400, /complete is true/],
  'preempting that is false': [(fake) => stream(fake, { preempting: false }), 400, /preempting is true/],
  'an upload with a type that nobody asked for': [
    async (fake) => {
      fake.inject('CreateRunFiles', { uploadHeaders: [] });
      return put((await createFiles(fake, 'a.txt')).files[0]!.uploadUrl, 'a');
    },
    400,
    /a Content-Type that uploadHeaders do not name/,
  ],
};

describe('refused and remembered:', () => {
  it.each(Object.entries(rules))('%s', (_, rule) => refusedAndRemembered(rule));
});

describe('two requests of one run at once', () => {
  it('is refused while the first is not answered, other runs may go on', async () => {
    const fake = await withRun();
    await upsert(fake, { name: 'run2' });
    fake.inject('file_stream', { delayMs: 400 });
    const first = stream(fake, history(2, row(2)));
    await expect.poll(() => fake.stored('ent', 'proj', 'run1')!.history.length).toBe(3);
    const [second, other] = await Promise.all([
      stream(fake, history(3, row(3))),
      stream(fake, {}, { run: 'run2' }),
    ]);
    expect([second.status, other.status, (await first).status]).toEqual([400, 200, 200]);
    expect(fake.violations()).toEqual([expect.stringMatching(/two requests of one run at once/)]);
    expect((await stream(fake, history(3, row(3)))).status).toBe(200);
  });

  it('is not what a client does that gave the first one up', async () => {
    const fake = await withRun();
    fake.inject('file_stream', { delayMs: 60_000 });
    const body = JSON.stringify(history(2, row(2)));
    const headers = { authorization: basic(fakeKey), 'content-type': 'application/json' };
    const first = new AbortController();
    const url = `${fake.url}/files/ent/proj/run1/file_stream`;
    const gone = ask(url, { headers, signal: first.signal }, body);
    await expect.poll(() => fake.stored('ent', 'proj', 'run1')!.history.length).toBe(3);
    first.abort();
    expect((await stream(fake, history(2, row(2)))).status).toBe(200);
    expect((await gone).failure).toBe('ABORT_ERR');
  });
});

describe('what is fine', () => {
  it('the same lines again, alone and with new ones', async () => {
    const fake = await withRun();
    expect((await stream(fake, history(1, row(1)))).status).toBe(200);
    expect((await stream(fake, history(0, row(0), row(1), row(7)))).status).toBe(200);
    expect(fake.stored('ent', 'proj', 'run1')!.history).toEqual([row(0), row(1), row(7)]);
  });

  it('bare NaN and Infinity, also beside a string that says so', async () => {
    const fake = await withRun();
    const line = row(2, ',"a":NaN,"b":[-Infinity,{"c":Infinity}],"d":"NaN, \\"Infinity\\""');
    expect((await stream(fake, history(2, line))).status).toBe(200);
    const spec = JSON.stringify({ keys: ['a', 'b', 'd'], samples: 10 });
    const { text } = await graphql(fake, 'RunSampledHistory', {
      ...{ project: 'proj', entity: 'ent', name: 'run1', specs: [spec] },
    });
    const rows = [{ a: 'NaN', b: ['-Infinity', { c: 'Infinity' }], d: 'NaN, "Infinity"' }];
    expect(JSON.parse(text)).toEqual({ data: { project: { run: { sampledHistory: [rows] } } } });
  });

  it('a line as long as W&B takes', async () => {
    const fake = await withRun();
    const line = row(2, `,"v":"${'x'.repeat(10_383_360 - 18)}"`);
    expect(line).toHaveLength(10_383_360);
    expect((await stream(fake, history(2, line))).status).toBe(200);
  });

  it("an empty name of the operation, as the SDK's Api sends it", async () => {
    const fake = await withRun();
    expect((await graphql(fake, 'Viewer', {}, { body: { operationName: '' } })).status).toBe(200);
  });

  it('a console line that is drawn over, and another summary', async () => {
    const fake = await withRun();
    const output = (offset: number, ...content: string[]) => ({
      files: { 'output.log': { offset, content } },
    });
    for (const body of [output(0, '10 %\n', 'b\n'), output(0, '20 %\n')])
      expect((await stream(fake, body)).status).toBe(200);
    for (const content of [['{"a":1}'], ['{"a":2}']])
      expect((await stream(fake, { files: { 'wandb-summary.json': { offset: 0, content } } })).status).toBe(
        200,
      );
    const run = fake.stored('ent', 'proj', 'run1')!;
    expect([run.output, run.summary]).toEqual([['20 %\n', 'b\n'], '{"a":2}']);
  });

  it('going on after complete, once UpsertBucket said so', async () => {
    const fake = await withRun();
    await stream(fake, { complete: true, exitcode: 1 });
    expect(fake.stored('ent', 'proj', 'run1')).toMatchObject({
      state: 'failed',
      complete: true,
      exitcode: 1,
    });
    await upsert(fake, { config: null });
    expect(fake.stored('ent', 'proj', 'run1')).toMatchObject({ state: 'running', complete: false, config });
    expect((await stream(fake, history(2, row(2)))).status).toBe(200);
    await stream(fake, { complete: true, exitcode: 0 });
    expect(fake.stored('ent', 'proj', 'run1')).toMatchObject({ state: 'finished', exitcode: 0 });
  });
});

it('ends with an error where a rule was broken and nobody asked', async () => {
  const fake = await startFakeWandb();
  await stream(fake, {});
  await expect(fake.stop()).rejects.toThrow('run ent/proj/run1 not found');
});
