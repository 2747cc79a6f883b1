/** What the Poller asks may change under it: endpoints that come and go, file_sd entries left behind, answers by name. */
import { describe, expect, it } from 'vitest';
import { Clock } from '../electron/engine/clock.ts';
import { Poller, type Batch, type PollTarget } from '../electron/engine/poll.ts';
import { fakes, until, type OnEnd } from './engines.ts';
import { httpServer, METRICS } from './small-servers.ts';

const target = (url: string, file: PollTarget['file'] = null): PollTarget => ({
  url,
  labels: {},
  file,
  login: null,
});

function polling(onEnd: OnEnd, targets: PollTarget[], clock = new Clock(), known: string[] = []) {
  const batches: Batch[] = [];
  const poller = new Poller({
    known: known.map((url) => ({ url, labels: {} })),
    access: { timeoutMs: 5000, headers: {}, ca: null },
    intervalMs: 50,
    clock,
    origin: clock.now(),
    firstT: 0,
    onBatch: (batch) => batches.push(batch),
  });
  const changes = poller.setTargets(targets);
  onEnd(() => poller.stop());
  poller.start();
  const answered = (e: number) => batches.flatMap((b) => b.answers).filter((a) => a.endpoint === e).length;
  const missed = (e: number) => batches.flatMap((b) => b.misses).filter((m) => m.endpoint === e);
  return { poller, batches, changes, answered, missed };
}

describe.concurrent('targets', () => {
  it('keep their numbers while others come, go and come back; a new run numbers anew', async ({
    onTestFinished,
  }) => {
    const { endpoints } = await fakes(onTestFinished, { workers: 3 });
    const [a, b, c] = endpoints.map((e) => target(e.url));
    const { poller, changes, answered } = polling(onTestFinished, [a!, b!]);
    expect(changes).toEqual({ joined: [0, 1], left: [], back: [] });
    await until(() => answered(1) >= 2);
    expect(poller.setTargets([c!, b!])).toEqual({ joined: [2], left: [0], back: [] });
    await until(() => answered(2) >= 2);
    const before = answered(0);
    await until(() => answered(2) >= 6);
    expect(answered(0)).toBe(before);
    expect(poller.setTargets([a!, b!, c!])).toEqual({ joined: [], left: [], back: [0] });
    await until(() => answered(0) > before);
    expect(poller.setTargets([c!, a!])).toEqual({ joined: [], left: [1], back: [] });
    poller.regrid(Date.now(), 0);
    expect(poller.endpoints.map((e) => e.target.url)).toEqual([a!.url, c!.url]);
  });

  it('of a run that goes on have the numbers they had', async ({ onTestFinished }) => {
    const { endpoints } = await fakes(onTestFinished, { workers: 3 });
    const [a, b, c] = endpoints.map((e) => e.url);
    const { changes, answered } = polling(onTestFinished, [target(c!), target(b!)], new Clock(), [a!, b!]);
    expect(changes).toEqual({ joined: [2], left: [], back: [1] });
    await until(() => answered(1) > 0 && answered(2) > 0);
    expect(answered(0)).toBe(0);
  });
});

describe.concurrent('a file_sd entry', () => {
  it('that refuses for a minute while its file stays as it was is stale, said once, until it answers', async ({
    onTestFinished,
  }) => {
    const { endpoints } = await fakes(onTestFinished, { workers: 3 });
    for (const endpoint of endpoints) await endpoint.down();
    let ahead = 0;
    const clock = new Clock(
      () => {},
      () => Date.now() + ahead,
    );
    const file = { path: '/shared/node-1-17.json', changedAt: Date.now() - 3_600_000 };
    const rewritten = { path: '/shared/node-2-18.json', changedAt: Date.now() + 40_000 };
    const { poller, missed } = polling(
      onTestFinished,
      [target(endpoints[0]!.url, file), target(endpoints[1]!.url), target(endpoints[2]!.url, rewritten)],
      clock,
    );
    await until(() => missed(0).filter((m) => m.asked).length >= 4);
    // the file is old, but the server may only just have gone
    expect(poller.endpoints[0]!.state.stale).toBe(false);
    ahead = 61_000;
    await until(() => poller.endpoints[0]!.state.stale);
    await until(() => missed(0).filter((m) => m.becameStale).length > 0);
    const [said] = missed(0).filter((m) => m.becameStale);
    expect(said!.sentence).toContain('refused the connection');
    expect(said!.sentence).toContain('/shared/node-1-17.json');
    // nobody left a pasted address behind
    expect(poller.endpoints[1]!.state).toMatchObject({ state: 'refused', stale: false });
    // and where the file was written since, somebody is about to answer
    expect(poller.endpoints[2]!.state).toMatchObject({ state: 'refused', stale: false });
    const seen = missed(0).length;
    await until(() => missed(0).length > seen + 5);
    expect(missed(0).filter((m) => m.becameStale)).toHaveLength(1);
    await endpoints[0]!.up();
    ahead += 20_000;
    await until(() => !poller.endpoints[0]!.state.stale);
    expect(poller.endpoints[0]!.state.state).toBe('ok');
  });
});

describe.concurrent('answers by name', () => {
  const whole = `${METRICS}# TYPE vllm:request_prompt_tokens histogram\nvllm:request_prompt_tokens_bucket{engine="0",model_name="m",le="1.0"} 2.0\n`;

  it('are asked for where that is honoured, and only after a whole one', async ({ onTestFinished }) => {
    const asked: string[] = [];
    const { url } = await httpServer((request, response) => {
      asked.push(request.url!);
      const names = new URL(request.url!, 'http://x').searchParams.getAll('name[]');
      response.writeHead(200, { 'content-type': 'text/plain' }).end(names.length === 0 ? whole : METRICS);
    });
    const { poller, answered } = polling(onTestFinished, [target(url)]);
    await until(() => answered(0) >= 4);
    expect(asked[0]).toBe('/metrics');
    expect(asked.slice(1).every((a) => a.startsWith('/metrics?name'))).toBe(true);
    expect(poller.endpoints[0]!.state.restricted).toBe(true);
  });

  it('are not asked for again where the whole comes all the same', async ({ onTestFinished }) => {
    const asked: string[] = [];
    const { url } = await httpServer((request, response) => {
      asked.push(request.url!);
      response.writeHead(200, { 'content-type': 'text/plain' }).end(whole);
    });
    const { poller, answered } = polling(onTestFinished, [target(url)]);
    await until(() => answered(0) >= 4);
    expect(asked.filter((a) => a.includes('name'))).toHaveLength(1);
    expect(poller.endpoints[0]!.state.restricted).toBe(false);
  });

  it('are not asked for where there is nothing to leave out', async ({ onTestFinished }) => {
    const asked: string[] = [];
    const { url } = await httpServer((request, response) => {
      asked.push(request.url!);
      response.writeHead(200, { 'content-type': 'text/plain' }).end(METRICS);
    });
    const { answered } = polling(onTestFinished, [target(url)]);
    await until(() => answered(0) >= 4);
    expect(asked.filter((a) => a.includes('name'))).toEqual([]);
  });

  it('are not taken where latencies lose their buckets', async ({ onTestFinished }) => {
    const buckets = ['0.5', '+Inf'].map(
      (le) => `vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="${le}"} 2.0\n`,
    );
    const { url } = await httpServer((request, response) => {
      const named = request.url!.includes('name');
      response
        .writeHead(200, { 'content-type': 'text/plain' })
        .end(named ? METRICS : whole + buckets.join(''));
    });
    const { poller, answered } = polling(onTestFinished, [target(url)]);
    await until(() => answered(0) >= 4);
    expect(poller.endpoints[0]!.state.restricted).toBe(false);
  });

  it('cost nothing where they are refused', async ({ onTestFinished }) => {
    const { url } = await httpServer((request, response) => {
      const refused = request.url!.includes('name');
      response.writeHead(refused ? 400 : 200, { 'content-type': 'text/plain' }).end(refused ? 'no' : whole);
    });
    const { poller, answered, missed } = polling(onTestFinished, [target(url)]);
    await until(() => answered(0) >= 5);
    expect(missed(0).filter((m) => m.reason === 'http')).toEqual([]);
    expect(poller.endpoints[0]!.state.restricted).toBe(false);
  });
});
