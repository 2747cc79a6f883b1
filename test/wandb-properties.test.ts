/**
 * Random runs, random faults, random kills: what W&B has at the end is what was there to send, line by line, none
 * twice, none missing, and nothing on the way that a well-made client does not send.
 */
import { describe, expect, it, onTestFinished } from 'vitest';
import { WandbError } from '../electron/engine/wandb/errors.ts';
import type { Http } from '../electron/engine/wandb/http.ts';
import type { Fault } from './fake-wandb-faults.ts';
import type { Ledger, LedgerState } from '../electron/engine/wandb/contract.ts';
import { Library, type StoredUpload } from '../electron/engine/library.ts';
import { folderFor } from './engines.ts';
import { chance, nothingYet, OwnTime, place, sourceOf, START, uploading, wandb } from './wandb-uploads.ts';

class Killed extends Error {}

/** In SQLite, as the engine keeps it. A death leaves the file as it is then; each life opens it anew. */
class LibraryLedger implements Ledger {
  private readonly library: Library;
  private readonly perhapsDie: () => void;

  constructor(library: Library, perhapsDie: () => void) {
    this.library = library;
    this.perhapsDie = perhapsDie;
  }

  get state(): StoredUpload {
    return this.library.uploads('run')[0]!;
  }

  save(change: Partial<LedgerState>): void {
    this.perhapsDie();
    this.library.putUpload({ ...this.state, ...change });
    this.perhapsDie();
  }
}

const begun: StoredUpload = {
  ...{ ...nothingYet, id: 'abc12345', run: 'run', live: false, state: 'sending', problem: null, failed: [] },
  target: { server: '', entity: null, project: 'rl', name: '', group: '', tags: [], notes: '' },
  mapping: { version: 1, formulas: 1, workers: null, choice: {} as StoredUpload['mapping']['choice'] },
  ...{ digest: null, digestRows: 0, began: START, updated: START },
};

const targets = ['file_stream', 'file_stream', 'file_stream', 'UpsertBucket', 'CreateRunFiles', 'put'];
function faultBy(random: () => number, on: string, now: number): Fault {
  const statuses = [408, 425, 429, 500, 502, 503, 504, 599];
  const status = statuses[Math.floor(random() * statuses.length)]!;
  const inSeconds = new Date(now + 30_000).toUTCString();
  const kinds: Fault[] = [
    { status },
    { status, headers: { 'Retry-After': String(Math.floor(random() * 20)) } },
    { status: 429, headers: { 'Retry-After': inSeconds } },
    { lost: 'before' },
    { lost: 'after' },
    { reset: 'before' },
    { reset: 'after' },
    { half: true },
    { headers: { 'RateLimit-Remaining': String(Math.floor(random() * 1000)), 'RateLimit-Reset': '60' } },
    ...(on === 'file_stream' ? [{ malformed: true }] : []),
    ...(on === 'UpsertBucket' ? [{ historyLineCountOff: -Math.floor(random() * 3) }] : []),
    ...(on === 'put' ? [{ expired: true }] : []),
    ...(on === 'CreateRunFiles' ? [{ relativeUploadUrl: true }] : []),
  ];
  return kinds[Math.floor(random() * kinds.length)]!;
}

/** Dies before the request goes out, or when the answer is there and nothing knows of it yet. */
const mortal = (http: Http, perhapsDie: () => void): Http => ({
  ...http,
  request: async (asked) => {
    perhapsDie();
    const reply = await http.request(asked);
    perhapsDie();
    return reply;
  },
});

describe.each(['bulk', 'live'] as const)('%s', (mode) => {
  it.each(Array.from({ length: 30 }, (_, i) => i + 1))('seed %i', async (seed) => {
    const random = chance(seed * (mode === 'bulk' ? 1 : 7919));
    const time = new OwnTime(seed);
    const fake = await wandb({ clock: time.now });
    const total = [0, 1, 3, 40, 1999, 2000, 2001, 5000, 9000][Math.floor(random() * 9)]!;
    const padding = random() < 0.3 && total < 5000 ? 1500 : 0;
    const files = random() < 0.4 ? Math.floor(random() * 120) : 0;
    const live = mode === 'live';
    const source = sourceOf(live ? 0 : total, { padding, files, exit: live ? null : 0 });
    const seconds = 60 + Math.floor(random() * 400);
    time.onSleep = (until) => {
      if (!live) return;
      const share = Math.min(1, (until - START) / (seconds * 1000));
      source.count = Math.max(source.count, Math.floor(total * share));
      source.exit = share === 1 ? 0 : null;
    };
    const deadly = random() * 0.15;
    let deaths = Math.floor(random() * 15);
    const perhapsDie = () => {
      if (deaths === 0 || random() > deadly) return;
      deaths--;
      throw new Killed();
    };
    const folder = folderFor(onTestFinished);
    const opened: Library[] = [];
    const open = () => {
      const library = new Library(folder);
      opened.push(library);
      return library;
    };
    onTestFinished(() => opened.forEach((library) => library.close()));
    open().putUpload(begun);
    for (let i = Math.floor(random() * 25); i > 0; i--) {
      const on = targets[Math.floor(random() * targets.length)]!;
      fake.inject(on, faultBy(random, on, time.at), 1 + Math.floor(random() * 3));
      fake.inject(on, {}, Math.floor(random() * 3)); // some pass in between
    }

    const through = (http: Http) => mortal(http, perhapsDie);
    let lives = 0;
    for (let outcome = ''; outcome !== 'done' && outcome !== 'up-to-date';) {
      expect(++lives).toBeLessThan(30);
      const ledger = new LibraryLedger(open(), perhapsDie);
      const { run } = uploading({ url: fake.url, source, ledger, mode, time, through });
      outcome = await run().then(
        ({ outcome }) => outcome,
        (error: unknown) => {
          // a fault that took 20 tries, or a death
          if (!(error instanceof Killed) && !(error instanceof WandbError && error.retry)) throw error;
          return '';
        },
      );
    }

    const stored = fake.stored(...place)!;
    expect(stored.history).toEqual(source.expected());
    expect(stored.history).toHaveLength(total);
    expect(stored.summary).toBe(`{"_step":${total - 1},"rows":${total}}`);
    expect(stored).toMatchObject({ complete: true, exitcode: 0, state: 'finished' });
    expect([...stored.uploaded].sort()).toEqual(source.made.map(({ name }) => name).sort());
    expect(open().uploads('run')[0]).toMatchObject({ acked: total, complete: true });
    expect(fake.violations()).toEqual([]);
  });
});
