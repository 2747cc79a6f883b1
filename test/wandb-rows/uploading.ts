/** Runs of tests on their way to W&B: files taken into a real engine, uploaded to the stand-in, and what is there then. */
import path from 'node:path';
import { expect } from 'vitest';
import type { Upload, UploadInput, WandbChoice } from '../../electron/engine/api-wandb.ts';
import { engineFor, folderFor, type OnEnd, type TestEngine } from '../engines.ts';
import { fakeKey, type FakeWandb } from '../fake-wandb.ts';
import type { StoredRun } from '../fake-wandb-runs.ts';

/** NeMo RL's eight metrics and all statistics, as they go where nobody chose otherwise; docs/wandb.md has the list. */
export const usual: WandbChoice = {
  ...{ source: 'idle', evals: false, scalars: true, plots: false, workers: 16 },
  metrics: [
    ...['running', 'waiting', 'kv_cache_usage', 'generation_tokens', 'prefix_cache_queries'],
    ...['prefix_cache_hits', 'prefix_cache_hit_rate', 'preemptions'],
  ],
  statistics: ['mean', 'max', 'p95', 'min', 'sum'],
};

/** An engine that has the run which `make` writes, and knows the stand-in's key. */
export async function engineWith(
  onEnd: OnEnd,
  fake: FakeWandb,
  make: (file: string) => void,
): Promise<TestEngine & { file: string; run: string }> {
  const file = path.join(folderFor(onEnd), 'run.sqlite');
  make(file);
  const engine = await engineFor(onEnd, { idle: true });
  const { id } = engine.engine.adopt(file);
  const account = await engine.methods.setWandbKey(fake.url, fakeKey, false);
  expect(account.problem).toBeNull();
  return { ...engine, file, run: id };
}

export const inputFor = (run: string, server: string, choice: Partial<WandbChoice> = {}): UploadInput => ({
  ...{ run, live: false, anew: false, choice: { ...usual, ...choice } },
  target: {
    ...{ server, entity: null, project: 'rl', name: 'Vergleich «a»', group: 'trainer-7' },
    ...{ tags: ['vllm-scope', 'größer'], notes: 'Line one.\n\n**Line two.**' },
  },
});

/** Starts it and waits for its end. Fails where it failed. */
export async function uploaded({ engine, methods }: TestEngine, input: UploadInput): Promise<Upload> {
  const over = new Promise<Upload>((done) => {
    const off = engine.on('uploading', (upload) => {
      if (upload.run !== input.run || upload.state === 'sending') return;
      off();
      done(upload);
    });
  });
  await methods.startUpload(input);
  const last = await over;
  expect(last).toMatchObject({ state: 'done', problem: null, failedFiles: [] });
  return last;
}

/** The config as somebody reads it who takes the values out of their `value`. */
export function configOf(stored: StoredRun): { values: Record<string, unknown>; own: OwnConfig } {
  const { _wandb, ...rest } = JSON.parse(stored.config) as Record<string, { value: unknown }>;
  const values = Object.fromEntries(Object.entries(rest).map(([key, { value }]) => [key, value]));
  return { values, own: _wandb!.value as OwnConfig };
}

interface OwnConfig {
  t: Record<string, unknown>;
  m: MetricEntry[];
}
/** As W&B stores define_metric: `1` a name or `2` a glob, `5` the place of its x axis in the list, from 1. */
interface MetricEntry {
  '1'?: string;
  '2'?: string;
  '5'?: number;
  '6': number[];
  '7': number[];
}

/** Definitions by name, with the name of their x axis instead of its place. */
export const definitions = (m: readonly MetricEntry[]) =>
  Object.fromEntries(
    m.map(({ 1: name, 2: glob, 5: place, 6: options, 7: summary }) => [
      name ?? glob!,
      {
        isGlob: glob !== undefined,
        x: place === undefined ? null : (m[place - 1]?.['1'] ?? 'nowhere'),
        options: [...options].sort(),
        summary: [...summary].sort(),
      },
    ]),
  );
