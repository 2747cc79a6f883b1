/** Uploads in tests: an engine with a key on the strict stand-in for W&B, and a run to send. */
import fs from 'node:fs';
import path from 'node:path';
import type { Upload, UploadInput } from '../electron/engine/api.ts';
import { engineFor, until, type OnEnd, type TestEngine } from './engines.ts';
import { fakeKey, startFakeWandb, type FakeWandb, type FakeWandbOptions } from './fake-wandb.ts';
import { writeRecording } from './recordings.ts';
import { temporaryFolder } from './run-files.ts';

let recording: string | null = null;
/** A run file of seven idle steps, to be copied. */
export function recordedFile(): string {
  if (recording === null) {
    const folder = temporaryFolder((end) => process.once('exit', end));
    recording = path.join(folder, 'rollouts.sqlite');
    writeRecording('rollouts', recording);
  }
  return recording;
}

type More = Partial<Omit<UploadInput, 'choice'>> & { choice?: Partial<UploadInput['choice']> };
export interface Uploading extends TestEngine {
  wandb: FakeWandb;
  run: string;
  input: (more?: More) => Promise<UploadInput>;
  stateOf: () => Promise<Upload | null>;
  /** Until it is no longer under way. */
  sent: (input: UploadInput) => Promise<Upload>;
  history: (upload: Upload) => string[];
}

export async function wandbFor(onEnd: OnEnd, options: FakeWandbOptions = {}): Promise<FakeWandb> {
  const wandb = await startFakeWandb(options);
  onEnd(() => wandb.stop());
  return wandb;
}

/** An engine with a key, on a copy of the recorded run. */
export async function uploading(onEnd: OnEnd): Promise<Uploading> {
  const server = await wandbFor(onEnd);
  const test = await engineFor(onEnd);
  const file = path.join(test.folder, 'copy.sqlite');
  fs.copyFileSync(recordedFile(), file);
  return withWandb(test, server, test.engine.adopt(file).id);
}

export async function withWandb(test: TestEngine, wandb: FakeWandb, run: string): Promise<Uploading> {
  const { methods } = test;
  await methods.setWandbKey(wandb.url, fakeKey, false);
  const stateOf = async () => (await methods.uploadStart(run)).upload;
  return {
    ...{ ...test, wandb, run, stateOf },
    input: async ({ choice, ...more } = {}) => {
      const start = await methods.uploadStart(run);
      const target = { ...start.target, server: wandb.url, project: 'rl' };
      return { run, live: false, anew: false, ...more, target, choice: { ...start.choice, ...choice } };
    },
    sent: async (input) => {
      await methods.startUpload(input);
      return soon(stateOf, (now) => now.state !== 'sending');
    },
    history: ({ runId }) => wandb.stored('ent', 'rl', runId)?.history ?? [],
  };
}

export const numbersOf = (lines: readonly string[]) =>
  lines.map((line) => (JSON.parse(line) as Record<string, number>)['vllm_scope/step']);

/** Waits for an upload as it should be. */
export const soon = (
  state: () => Promise<Upload | null>,
  wanted: (upload: Upload) => boolean,
): Promise<Upload> =>
  until(async () => {
    const now = await state();
    return now !== null && wanted(now) ? now : false;
  }) as Promise<Upload>;
