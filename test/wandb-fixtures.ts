/** What tests of the W&B client read from recordings of the real SDK (test/fixtures/wandb). */
import fs from 'node:fs';
import path from 'node:path';
import type { Json, JsonObject } from '../electron/engine/wandb/contract.ts';
import { recordings } from './fake-wandb-replay.ts';

const words: Record<string, number> = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity };

/** What a scenario logged; JSON cannot hold all of it, so that these have a spelling of their own. */
export function inputs(name: string): unknown {
  const text = fs.readFileSync(path.join(recordings, 'inputs', `${name}.json`), 'utf8');
  return JSON.parse(text, (_key, value: unknown) => {
    const { $, $int } = ((typeof value === 'object' && value) || {}) as { $?: string; $int?: string };
    if ($int !== undefined) return BigInt($int);
    return $ !== undefined ? words[$] : value;
  });
}

export interface Logged {
  init: {
    id: string;
    name: string;
    group: string;
    job_type: string;
    tags: string[];
    notes: string;
    config: JsonObject;
  };
  metrics: { name: string; step_metric?: string }[];
  rows: JsonObject[];
  summary: JsonObject;
}

/** Compared as JSON compares: big integers are what a parser makes of their digits. */
export const asParsed = (value: Json): unknown =>
  typeof value === 'bigint'
    ? Number(value)
    : Array.isArray(value)
      ? (value as Json[]).map(asParsed)
      : typeof value === 'object' && value !== null
        ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, asParsed(one)]))
        : value;
