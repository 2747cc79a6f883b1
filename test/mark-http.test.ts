/**
 * `POST /api/step` from the outside: who may mark, what is refused and with which words, and that whoever watches hears
 * of a mark at once. Real HTTP against a served engine that records the stand-in.
 */
import http from 'node:http';
import { describe, expect, it } from 'vitest';
import type { Marked, Step } from '../electron/engine/api.ts';
import { fakes, quick, recorded, ticked, until, urlsOf, type OnEnd } from './engines.ts';
import { connect, refused, served } from './pages.ts';

interface Sent {
  body?: string;
  method?: string;
  headers?: http.OutgoingHttpHeaders;
}
interface Reply {
  status: number;
  body: Marked & { error?: string };
}

/** As a script sends it; a body that is not JSON comes back as an error of its own. */
function post(port: number, token: string | null, { body, method = 'POST', headers }: Sent): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const request = http.request(
      {
        ...{ host: '127.0.0.1', port, path: '/api/step', method, agent: false },
        headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...headers },
      },
      (reply) => {
        let text = '';
        reply.setEncoding('utf8').on('data', (part: string) => (text += part));
        reply.on('end', () => {
          const isJson = String(reply.headers['content-type']).startsWith('application/json');
          resolve({
            status: reply.statusCode ?? 0,
            body: (isJson ? JSON.parse(text) : { error: text }) as Reply['body'],
          });
        });
      },
    );
    request.on('error', reject).end(body);
  });
}

/** A served engine that records two workers, after its first tick; `mark` sends what a trainer would. */
async function recording(onEnd: OnEnd) {
  const fake = await fakes(onEnd, { workers: 2 });
  const scope = await served(onEnd);
  const cluster = await recorded(scope, urlsOf(fake), 'grpo');
  await ticked(scope, cluster.recording, 1);
  const send = (document: unknown) => post(scope.port, scope.markToken, { body: JSON.stringify(document) });
  return {
    ...scope,
    fake,
    cluster,
    send,
    marked: async (): Promise<Pick<Step, 'number' | 'kind' | 'from' | 'to'>[]> => {
      const { steps } = await scope.methods.steps(cluster.recording, 'mark');
      return steps.map(({ number, kind, from, to }) => ({ number, kind, from, to }));
    },
  };
}

const said = ({ status, body }: Reply) => [status, body.error];

describe.concurrent('who may mark', () => {
  it('the mark token, which opens nothing else; the other one does not mark', async ({ onTestFinished }) => {
    const { port, token, markToken, marked } = await recording(onTestFinished);
    const body = '{"step": 12}';
    for (const wrong of [null, token, 'x'.repeat(32), `${markToken}0`, '']) {
      const reply = await post(port, wrong, { body });
      expect(said(reply)).toEqual([
        401,
        'The token is missing or wrong. Send "Authorization: Bearer TOKEN"; "vllm-scope mark --how" prints it.',
      ]);
    }
    expect(await marked()).toEqual([]);
    expect((await post(port, markToken, { body })).status).toBe(200);
    expect(await refused(connect(onTestFinished, port, markToken))).toBe('401');
  });

  it('no page of another site, under no other name', async ({ onTestFinished }) => {
    const { port, markToken, marked } = await recording(onTestFinished);
    const body = '{"step": 12}';
    for (const headers of [
      { origin: 'http://evil.example' },
      { origin: 'null' },
      { host: 'evil.example' },
      { host: `evil.example:${port}` },
    ])
      expect([headers, (await post(port, markToken, { body, headers })).status]).toEqual([headers, 403]);
    expect(await marked()).toEqual([]);
    const headers = { origin: `http://127.0.0.1:${port}` };
    expect((await post(port, markToken, { body, headers })).status).toBe(200);
  });
});

describe.concurrent('what is no mark', () => {
  it('is refused with a sentence, and nothing is marked', async ({ onTestFinished }) => {
    const { port, markToken, marked, reported } = await recording(onTestFinished);
    const later = new Date(Date.now() + 60_000).toISOString();
    const refusals: [Sent, number, string][] = [
      [{ method: 'GET' }, 405, 'Marks are sent with POST.'],
      [{ method: 'PUT', body: '{"step": 1}' }, 405, 'Marks are sent with POST.'],
      [{ body: '' }, 400, 'The body is no JSON. Send for example {"step": 12}.'],
      [{ body: 'step=12' }, 400, 'The body is no JSON. Send for example {"step": 12}.'],
      [{ body: '[12]' }, 400, 'A mark is an object such as {"step": 12}.'],
      [{ body: 'null' }, 400, 'A mark is an object such as {"step": 12}.'],
      [{ body: '{"stpe": 12}' }, 400, 'A mark has no "stpe". It has step, kind, at, end and run.'],
      [{ body: '{"step": "12"}' }, 400, 'A step is a whole number from 0 on, not "12".'],
      [
        { body: '{"step": null}' },
        400,
        'The step is null. Leave it out for the next one, or give its number.',
      ],
      [{ body: '{"step": 1.5}' }, 400, 'A step is a whole number from 0 on, not 1.5.'],
      [{ body: '{"step": -1}' }, 400, 'A step is a whole number from 0 on, not -1.'],
      [{ body: '{"kind": "test"}' }, 400, 'A step is of kind train, eval, other, not "test".'],
      [{ body: '{"end": 1}' }, 400, '`end` is true or false.'],
      [{ body: '{"at": "soon"}' }, 400, '"soon" is no time.'],
      [{ body: `{"at": "${later}"}` }, 400, `${later} lies in the future. Is the clock right there?`],
      [{ body: '{"at": 1500000000}' }, 400, '2017-07-14T02:40:00.000Z lies before this run began ('],
      [{ body: '{"end": true}' }, 400, 'No step is running that could end. Mark one first.'],
      [
        { body: '{"step": 1, "run": "ppo"}' },
        404,
        'No run is being recorded that is called "ppo". There is "grpo',
      ],
      [{ body: JSON.stringify({ kind: 'x'.repeat(20_000) }) }, 413, 'That is too long for a mark.'],
      [{ body: JSON.stringify({ kind: 'x'.repeat(5_000_000) }) }, 413, 'That is too long for a mark.'],
    ];
    for (const [sent, status, sentence] of refusals) {
      const reply = await post(port, markToken, sent);
      expect([sent.body?.slice(0, 40), reply.status]).toEqual([sent.body?.slice(0, 40), status]);
      expect(reply.body.error).toContain(sentence);
    }
    expect(await marked()).toEqual([]);
    expect(reported).toEqual([]);
  });

  it('where nothing is recorded', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const scope = await served(onTestFinished);
    const send = () => post(scope.port, scope.markToken, { body: '{"step": 1}' });
    const nothing = [404, 'No run is being recorded that could be marked. Start a recording first.'];
    expect(said(await send())).toEqual(nothing);
    await scope.methods.addCluster({ ...quick(urlsOf(fake)), record: false });
    expect(said(await send())).toEqual(nothing);
  });
});

describe.concurrent('marks', () => {
  it('begin a step and end the one before; again they change nothing', async ({ onTestFinished }) => {
    const { send, marked, cluster } = await recording(onTestFinished);
    const before = Date.now();
    const first = await send({ step: 12 });
    const after = Date.now();
    expect(first).toMatchObject({
      status: 200,
      body: { run: cluster.recording, changed: true, step: { n: 0, number: 12, kind: 'train', to: null } },
    });
    const begin = first.body.step.from;
    expect(begin).toBeGreaterThanOrEqual(before);
    expect(begin).toBeLessThanOrEqual(after);

    expect((await send({ step: 12 })).body).toEqual({ ...first.body, changed: false });
    const next = (await send({})).body.step; // one more than the last
    expect(await marked()).toEqual([
      { number: 12, kind: 'train', from: begin, to: next.from },
      { number: 13, kind: 'train', from: next.from, to: null },
    ]);
    const back = await send({ step: 12 });
    expect(back.status).toBe(400);
    expect(back.body.error).toContain('Step 12 is behind step 13, which was marked before it.');
  });

  it('of an evaluation within training have numbers of their own', async ({ onTestFinished }) => {
    const { send, marked } = await recording(onTestFinished);
    const times: number[] = [];
    for (const document of [{ step: 7 }, { step: 7, kind: 'eval' }, { step: 8 }, { kind: 'eval' }])
      times.push((await send(document)).body.step.from);
    expect(await marked()).toEqual([
      { number: 7, kind: 'train', from: times[0], to: times[1] },
      { number: 7, kind: 'eval', from: times[1], to: times[2] },
      { number: 8, kind: 'train', from: times[2], to: times[3] },
      { number: 8, kind: 'eval', from: times[3], to: null },
    ]);
  });

  it('may lie in the past, but not before the last one; an end leaves a pause', async ({
    onTestFinished,
  }) => {
    const { send, marked } = await recording(onTestFinished);
    // two ticks in, so that there is a past of the run
    const at = (await send({ step: 1 })).body.step.from;
    await until(() => Date.now() > at + 60);
    // seconds, milliseconds and ISO 8601 are told apart
    const ends = await send({ step: 1, end: true, at: (at + 10) / 1000 });
    expect(ends).toMatchObject({ status: 200, body: { changed: true, step: { number: 1, to: at + 10 } } });
    expect((await send({ step: 1, end: true })).body.changed).toBe(false);
    const early = await send({ step: 2, at: at + 10 });
    expect(said(early)).toEqual([
      400,
      `${new Date(at + 10).toISOString()} is not after ${new Date(at + 10).toISOString()}, when step 1 ended. Marks come in the order of time.`,
    ]);
    expect((await send({ step: 2, at: at + 20 })).status).toBe(200);
    const other = await send({ step: 1, end: true });
    expect(said(other)).toEqual([400, 'Step 1 is not the one that runs: that is step 2.']);
    expect(said(await send({ kind: 'eval', end: true }))).toEqual([
      400,
      'The step that runs is 2 (train), so no step of the kind eval can end.',
    ]);
    expect((await send({ end: true, at: new Date(at + 30).toISOString() })).status).toBe(200);
    expect(await marked()).toEqual([
      { number: 1, kind: 'train', from: at, to: at + 10 },
      { number: 2, kind: 'train', from: at + 20, to: at + 30 },
    ]);
  });

  it('can be taken back, the last one first; the step before runs on', async ({ onTestFinished }) => {
    const { send, marked, methods, cluster } = await recording(onTestFinished);
    const back = (step: Step) => methods.takeMarkBack(cluster.recording, step);
    const one = (await send({ step: 1 })).body.step;
    const two = (await send({ step: 2 })).body.step;
    const over = (await send({ end: true })).body.step;
    await expect(back(two)).rejects.toThrow(
      'Only the last mark can be taken back. Another one came after it.',
    );
    await back(over);
    expect(await marked()).toMatchObject([
      { number: 1, to: two.from },
      { number: 2, to: null },
    ]);
    await back(two);
    expect(await marked()).toEqual([{ number: 1, kind: 'train', from: one.from, to: null }]);
    await back(one);
    expect(await marked()).toEqual([]);
    expect((await methods.steps(cluster.recording, null)).source).not.toBe('mark');
    await expect(back(one)).rejects.toThrow('That mark is not there any more.');
    expect((await send({ step: 5 })).body.step).toMatchObject({ n: 0, number: 5 });
  });

  it('have numbers at once, however short and however long a server may take', async ({ onTestFinished }) => {
    const { send, methods, cluster } = await recording(onTestFinished);
    // nothing is settled before 25 s
    const { name, addresses, intervalSeconds } = cluster;
    await methods.updateCluster(cluster.id, { name, addresses, intervalSeconds, timeoutSeconds: 25 });
    for (let step = 1; step <= 5; step++) {
      await send({ step });
      await new Promise((done) => setTimeout(done, 600));
    }
    const { recording: run } = (await methods.listClusters())[0]!;
    const query = { run: run!, source: 'mark' as const, metrics: ['running'], workers: [], quick: true };
    const { series, steps, missing } = await methods.scalars(query);
    expect(steps.map((s) => s.number)).toEqual([1, 2, 3, 4, 5]);
    expect([...series[0]!.samples.n].every((n) => n > 0)).toBe(true);
    expect(missing).toBe(0);
  });

  it('with two runs say which', async ({ onTestFinished }) => {
    const { send, methods, fake } = await recording(onTestFinished);
    const [, second] = fake.endpoints;
    const other = await recorded({ methods }, second!.url, 'ppo');
    const unclear = await send({ step: 3 });
    expect(said(unclear)).toEqual([
      400,
      '2 runs are being recorded: "ppo", "grpo". Say which by the name of its cluster (run).',
    ]);
    for (const run of ['ppo', other.id, other.recording])
      expect((await send({ step: 3, run })).body.run).toBe(other.recording);
    expect((await methods.steps(other.recording, 'mark')).steps).toHaveLength(1);
  });

  it('reach whoever watches at once', async ({ onTestFinished }) => {
    const { port, token, send, cluster } = await recording(onTestFinished);
    const page = await connect(onTestFinished, port, token);
    let heard = 0;
    page.client.on('stepped', ({ run }) => {
      if (run === cluster.recording) heard++;
    });
    await page.methods.info();
    const marksSeen = async () => (await page.methods.steps(cluster.recording, 'mark')).steps.length;
    const told = heard;
    const { body } = await send({ step: 1 });
    // the event was sent before the answer: whatever the page asks next comes after it
    expect(await marksSeen()).toBe(1);
    expect(heard).toBeGreaterThan(told);
    expect(body.changed).toBe(true);
  });
});
