/**
 * The stand-in for W&B against recordings of the real SDK: every request of each is sent again and must be accepted
 * with the recorded status and the recorded answer, and what is then stored is what was sent. So the stand-in and our
 * client do not merely agree with each other. Of the cut bodies (02-bulk*) the missing lines are made by their rule.
 */
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  differences,
  recording,
  recordings,
  replay,
  type Replayed,
  type StreamBody,
} from './fake-wandb-replay.ts';
import type { LeftRun } from './fake-wandb-runs.ts';
import { fakeKey, startFakeWandb, type FakeWandbOptions } from './fake-wandb.ts';

interface Before {
  config: object;
  tags: string[];
  history: object[];
  events: object[];
  summary: object;
}
const { before } = JSON.parse(fs.readFileSync(path.join(recordings, 'inputs/resume.json'), 'utf8')) as {
  before: Before;
};
const earlier: LeftRun = { ...before, displayName: 'Earlier name' };
const user = { key: fakeKey, username: 'user', email: 'user@example.com', entity: 'ent' };

interface Scenario extends FakeWandbOptions {
  /** The run that was there before. */
  left?: LeftRun;
  /** Lines of it that are still there at the end; all where it is not said. */
  leftLines?: number;
  /** The stand-in itself gives the answers that are not 200. */
  natural?: boolean;
  key?: string;
  /** A recording whose run is read. */
  first?: string;
  /** Where another answer is right. */
  except?: RegExp;
}
const scenarios: Record<string, Scenario> = {
  '01-scalars': {},
  '02-bulk': {},
  '02-bulk-gzip': { features: ['FILESTREAM_GZIP'] },
  '02-bulk-gzip-unsupported': {},
  '02-bulk-idle': {},
  '02-bulk-wide': {},
  '02-trickle': {},
  '03-resume-absent': {},
  '03-resume-allow': { left: earlier },
  '03-resume-must': { left: earlier },
  '03-resume-never': { left: earlier },
  '03-resume-no-telemetry': { left: { ...earlier, config: { a: { value: 1 } } } },
  '03-same-id': { left: earlier, stepsMayRestart: true },
  '04-media': {},
  '05-exit-0': {},
  '05-exit-1': {},
  '05-exit-preempting': {},
  '05-exit-raise': {},
  '05-killed': {},
  '05-killed-all': {},
  '06-offline-sync': {},
  '07-put-retry': {},
  '07-stopped-state': { left: { state: 'running' } },
  '07-stopped-stream': {},
  '07-stream-400-once': {},
  '07-stream-404': {},
  '07-stream-retry': {},
  '07-upsert-401': { natural: true, key: 'y'.repeat(40) },
  '07-upsert-403': { natural: true, users: [{ ...user, readOnly: ['ent/proj'] }] },
  // Viewer names the entity that UpsertBucket then does not find.
  '07-upsert-404': { natural: true, users: [{ ...user, entity: 'tne' }], except: /"tne" and not "ent"$/ },
  '07-upsert-409': { natural: true, deleted: ['ent/proj/run00007'] },
  '07-upsert-500': {},
  '08-clock': {},
  '08-fork': {},
  '08-rewind': { left: earlier, leftLines: 3 },
  '08-steps': {},
  '09-own-writer-sync': {},
  // A user here has no other name.
  '10-read-back': { first: '01-scalars', except: /user\.name: "user" and not "User"$/ },
  '12-metrics': {},
  '13-events': {},
  '14-console': {},
  '15-config-update': {},
};

/** What a server stores that does nothing but `file[offset + i] = line`, from what was accepted. */
function plainStore(replayed: Replayed[], left: LeftRun | undefined, leftLines: number | undefined) {
  const files: Record<string, string[]> = {};
  if (left) {
    const { history = [], events = [], summary } = left;
    files['wandb-history.jsonl'] = history.slice(0, leftLines).map((row) => JSON.stringify(row));
    files['wandb-events.jsonl'] = events.map((row) => JSON.stringify(row));
    if (summary) files['wandb-summary.json'] = [JSON.stringify(summary)];
  }
  for (const { recorded, body } of replayed) {
    if (!recorded.path.endsWith('/file_stream')) continue;
    if (recorded.status !== 200 && recorded.status !== 'reset after applying') continue;
    for (const [name, { offset, content }] of Object.entries((body as StreamBody).files ?? {}))
      for (const [i, line] of content.entries()) (files[name] ??= [])[offset + i] = line;
  }
  return files;
}

it('has a scenario for every recording of a conversation', () => {
  const conversations = fs
    .readdirSync(recordings)
    .filter((file) => file.endsWith('.jsonl') && !file.endsWith('.wandb.jsonl'))
    .map((file) => file.slice(0, -'.jsonl'.length))
    .filter((name) => recording(name)[0]?.method !== undefined); // the others are tables
  expect(conversations.length).toBeGreaterThan(40);
  expect(Object.keys(scenarios).sort()).toEqual(conversations.sort());
});

describe.each(Object.entries(scenarios))('%s', (name, scenario) => {
  it('is accepted as recorded, and stored as sent', async () => {
    const { left, leftLines, natural, key, first, except, ...options } = scenario;
    const fake = await startFakeWandb({
      users: [user],
      projects: ['ent/proj'],
      uploadHeaders: ['X-Fake-Header:1'],
      ...options,
    });
    onTestFinished(() => fake.stop()); // throws for a violation
    const requests = recording(name);
    const id = /run000\d\d/.exec(JSON.stringify(requests))![0];
    if (left) fake.leave('ent', 'proj', id, left);
    if (first) await replay(fake, first);
    if (name === '07-stopped-stream') fake.inject('file_stream', { stopped: true });

    const replayed = await replay(fake, name, { key, faults: !natural });

    expect(replayed).toHaveLength(requests.length);
    for (const { recorded, answer } of replayed) {
      const at = `${name} ${recorded.n}`;
      const status = typeof recorded.status === 'string' ? 'ECONNRESET' : recorded.status;
      expect([at, answer.status ?? answer.failure]).toEqual([at, status]);
      if (recorded.reply === undefined) continue;
      const found = differences(recorded.reply, JSON.parse(answer.text)).filter(
        (text) => !except?.test(text),
      );
      expect(found, at).toEqual([]);
    }

    const run = fake.stored('ent', 'proj', id);
    if (first) return; // it only reads
    if (natural || name === '03-resume-absent') return void expect(run).toBeNull();
    const plain = plainStore(replayed, left, leftLines);
    expect(run!.history).toEqual(plain['wandb-history.jsonl'] ?? []);
    expect(run!.events).toEqual(plain['wandb-events.jsonl'] ?? []);
    expect(run!.output).toEqual(plain['output.log'] ?? []);
    expect(run!.summary).toBe(plain['wandb-summary.json']?.[0] ?? null);
    const taken = replayed.filter(({ answer }) => answer.status === 200);
    const bodies = taken.map(({ body }) => body as StreamBody | null);
    const end = bodies.find((body) => body?.complete);
    const untouched = left && !taken.some(({ recorded }) => recorded.operation === 'UpsertBucket');
    expect(run!.exitcode).toBe(untouched ? 0 : (end?.exitcode ?? null));
    const puts = taken.filter(({ recorded }) => recorded.path.startsWith('/upload/ent/'));
    const names = puts.map(({ recorded }) => recorded.path.split('/').slice(5).join('/'));
    expect([...run!.files.keys()].sort()).toEqual(names.sort());
    expect(run!.uploaded.sort()).toEqual((end?.uploaded ?? []).sort());
  });
});
