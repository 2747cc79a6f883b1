/** Uploads that go on while a run is recorded, in a time of their own: pace, heartbeat, the end, Stop, hours offline. */
import { describe, expect, it } from 'vitest';
import type { FakeWandb } from './fake-wandb.ts';
import { names, OwnTime, place, sourceOf, START, streams, uploading, wandb } from './wandb-uploads.ts';

/** Each request of file_stream as seconds since the start and what it was. */
const sent = (fake: FakeWandb) =>
  streams(fake).map(({ at, body }) => {
    const { files, complete } = body as {
      files?: Record<string, { offset: number; content: string[] }>;
      complete?: true;
    };
    const history = files?.['wandb-history.jsonl'];
    const what = history ? `${history.offset}+${history.content.length}` : files ? 'summary' : 'heartbeat';
    return [(at - START) / 1000, complete ? `${what} complete` : what] as const;
  });

/** A recording with a new row every `everySeconds`, which ends after `seconds`. */
async function recording(everySeconds: number, seconds: number) {
  const time = new OwnTime();
  const fake = await wandb({ clock: time.now });
  const source = sourceOf(0, { exit: null });
  const goOn = (until: number) => {
    source.count = Math.floor((Math.min(until, START + seconds * 1000) - START) / (everySeconds * 1000));
    source.exit = until >= START + seconds * 1000 ? 0 : null;
  };
  time.onSleep = goOn;
  return { time, fake, source, goOn };
}

describe('a run that is recorded', () => {
  it('goes up every 15 s, with its summary, and is complete at its end', async () => {
    const { time, fake, source } = await recording(4, 50);
    const { run, told, ledger } = uploading({ url: fake.url, source, mode: 'live', time });
    expect(await run()).toEqual({ outcome: 'done', rows: 12, failedFiles: [] });
    expect(sent(fake)).toEqual([
      [15, '0+3'],
      [30, '3+4'],
      [45, '7+4'],
      [60, '11+1 complete'],
    ]);
    expect(fake.stored(...place)).toMatchObject({
      ...{ history: source.expected(), summary: '{"_step":11,"rows":12}', complete: true, exitcode: 0 },
    });
    expect(ledger.state.complete).toBe(true);
    expect(told.some(({ phase }) => phase === 'live')).toBe(true);
  });

  it('has a heartbeat every 30 s while nothing is new', async () => {
    const { time, fake, source } = await recording(100, 190);
    await uploading({ url: fake.url, source, mode: 'live', time }).run();
    expect(sent(fake)).toEqual([
      [15, 'heartbeat'],
      [45, 'heartbeat'],
      [75, 'heartbeat'],
      [105, '0+1'],
      [135, 'heartbeat'],
      [165, 'heartbeat'],
      [195, 'summary complete'],
    ]);
  });

  it('is looked at at once when it is woken, as at its end', async () => {
    const fake = await wandb();
    const source = sourceOf(3, { exit: null });
    const time = new OwnTime();
    // a rest that only waking ends
    time.onSleep = (until, signal) =>
      until - time.at >= 15_000 &&
      new Promise((_done, failed) => signal.addEventListener('abort', () => failed(new Error('woken'))));
    const { sender, run, told } = uploading({ url: fake.url, source, mode: 'live', time });
    const running = run();
    await expect.poll(() => told.at(-1)).toMatchObject({ phase: 'live', rows: 3 });
    source.count = 5;
    source.exit = 1;
    sender.wake();
    expect(await running).toMatchObject({ outcome: 'done', rows: 5 });
    expect(fake.stored(...place)).toMatchObject({ history: source.expected(), exitcode: 1, state: 'failed' });
  });

  it('is ended when somebody presses Stop on W&B; all that is there by then is in', async () => {
    const { time, fake, source } = await recording(4, 1000);
    fake.inject('file_stream', {});
    fake.inject('file_stream', { stopped: true });
    const { run } = uploading({ url: fake.url, source, mode: 'live', time });
    expect(await run()).toMatchObject({ outcome: 'stopped', rows: 11 });
    expect(sent(fake)).toEqual([
      [15, '0+3'],
      [30, '3+4'],
      [45, '7+4 complete'],
    ]);
  });

  it('survives hours without a network, and then brings everything', async () => {
    const { time, fake, source, goOn } = await recording(4, 30_000);
    let away = false;
    time.onSleep = (until) => {
      goOn(until);
      away = until > START + 60_000 && until < START + 20_000_000;
    };
    let tries = 0;
    const { run, waits, told } = uploading({
      ...{ url: fake.url, source, mode: 'live', time },
      through: (http) => ({
        ...http,
        // the cable is out: connecting to where nobody listens is a fault of the real client
        request: (asked) =>
          away && ++tries
            ? http.request({ ...asked, url: 'http://127.0.0.1:1/', authorized: false })
            : http.request(asked),
      }),
    });
    expect(await run()).toMatchObject({ outcome: 'done', rows: 7500 });
    expect(fake.stored(...place)!.history).toEqual(source.expected());
    expect(tries).toBeGreaterThan(300);
    expect(waits().at(-1)).toMatch(
      /^127\.0\.0\.1:1 refused the connection. Is the server up\?; again in 60 s$/,
    );
    expect(told.find(({ waiting }) => waiting !== null)!.rows).toBe(15);
    const gap = sent(fake).findIndex(([at]) => at > 10_000);
    // first what it had in hand when the cable came out, then as much as goes into a request
    expect(
      sent(fake)
        .slice(gap, gap + 3)
        .map(([, what]) => what),
    ).toEqual(['15+3', '18+2000', '2018+2000']);
  });

  it('goes on as the same run when the next engine goes on with it', async () => {
    const { time, fake, source } = await recording(4, 70);
    const first = uploading({ url: fake.url, source, mode: 'live', time });
    first.ledger.before = ({ acked }) => {
      if (acked === 7) throw new Error('killed');
    };
    await expect(first.run()).rejects.toThrow('killed');
    first.ledger.before = () => {};
    const again = uploading({ url: fake.url, source, mode: 'live', time, ledger: first.ledger });
    expect(await again.run()).toMatchObject({ outcome: 'done', rows: 17 });
    expect(fake.stored(...place)!.history).toEqual(source.expected());
    expect(names(fake).filter((name) => name === 'UpsertBucket')).toHaveLength(2);
  });

  it('brings its files as rows name them', async () => {
    const { time, fake, source } = await recording(4, 40);
    const { made } = sourceOf(0, { files: 10 });
    source.files = (lines) => made.slice(0, lines);
    await uploading({ url: fake.url, source, mode: 'live', time }).run();
    const stored = fake.stored(...place)!;
    expect(stored.uploaded).toEqual(made.map(({ name }) => name));
    expect(stored).toMatchObject({ complete: true, history: source.expected() });
    expect(names(fake).filter((name) => name === 'CreateRunFiles')).toHaveLength(3);
  });

  it('that is cancelled is left as it is, and can be gone on with', async () => {
    const { time, fake, source, goOn } = await recording(4, 1000);
    const { sender, run, ledger } = uploading({ url: fake.url, source, mode: 'live', time });
    time.onSleep = (until) => {
      goOn(until);
      if (until > START + 50_000) sender.cancel();
    };
    expect(await run()).toMatchObject({ outcome: 'cancelled', rows: 11 });
    expect(fake.stored(...place)).toMatchObject({ complete: false });
    time.onSleep = goOn;
    const rest = await uploading({ url: fake.url, source, mode: 'bulk', time, ledger }).run();
    expect(rest).toMatchObject({ outcome: 'done' });
    expect(fake.stored(...place)!.history).toEqual(source.expected());
  });

  it('that ended and is all there is up to date', async () => {
    const { time, fake, source } = await recording(4, 50);
    const { run, ledger } = uploading({ url: fake.url, source, mode: 'live', time });
    await run();
    const before = fake.requests().length;
    const again = await uploading({ url: fake.url, source, mode: 'live', time, ledger }).run();
    expect(again.outcome).toBe('up-to-date');
    expect(fake.requests()).toHaveLength(before);
  });
});
