/**
 * By hand, against the real service: WANDB_SMOKE_KEY=... npm run smoke:wandb. Makes one small run in the project
 * vllm-scope-smoke of the key's own entity, reads it back and compares. Nothing else of the account is looked at; the run
 * stays there to be looked at, and deleted.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Upload } from '../electron/engine/api.ts';
import { createEngine } from '../electron/engine/engine.ts';
import { ApiKey, DEFAULT_BASE_URL, parseBaseUrl } from '../electron/engine/wandb/account.ts';
import { createGraphql, type HistoryRow } from '../electron/engine/wandb/graphql.ts';
import { createHttp } from '../electron/engine/wandb/http.ts';
import { realTiming } from '../electron/engine/wandb/retry.ts';
import { writeRecording } from './recordings.ts';

const PROJECT = 'vllm-scope-smoke';
/** A server may need some seconds before it gives back what it took. */
const READ_TRIES = 10;
const READ_MS = 3000;

const text = process.env.WANDB_SMOKE_KEY;
if (!text) {
  console.error('Give an API key of W&B: WANDB_SMOKE_KEY=... npm run smoke:wandb');
  process.exit(2);
}
const server = parseBaseUrl(process.env.WANDB_BASE_URL || DEFAULT_BASE_URL);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-smoke-'));
const engine = await createEngine({ dataFolder: folder, version: 'smoke', idle: true });
let faults = 0;
const says = (ok: boolean, what: string) => {
  console.log(`${ok ? 'ok  ' : 'FAIL'}  ${what}`);
  if (!ok) faults++;
};
try {
  const file = path.join(folder, 'smoke.sqlite');
  writeRecording('rollouts', file);
  const { id: run } = engine.adopt(file);
  const account = await engine.methods.setWandbKey(server, text, false);
  if (account.user === null) throw new Error(`${account.problem?.message} ${account.problem?.advice}`);
  says(true, `signed in as ${account.user}`);

  const { target, choice } = await engine.methods.uploadStart(run);
  const over = new Promise<Upload>((resolve) =>
    engine.on('uploading', (now) => {
      if (now.progress?.waiting) console.log(`      ${now.progress.waiting}`);
      if (now.state !== 'sending') resolve(now);
    }),
  );
  await engine.methods.startUpload({
    ...{ run, live: false, anew: true },
    target: { ...target, server, entity: account.entity, project: PROJECT, name: 'smoke', group: '' },
    choice: { ...choice, plots: true, metrics: ['running', 'generation_tokens', 'prefix_cache_hit_rate'] },
  });
  const end = await over;
  says(end.state === 'done', `${end.state}: ${end.rows} rows, ${end.url}`);
  if (end.problem) console.log(`      ${end.problem.message} ${end.problem.advice}`);
  says(end.failedFiles.length === 0, `files: ${end.failedFiles.length} refused`);

  const http = createHttp({ baseUrl: server, ca: null }, new ApiKey(text));
  const signal = new AbortController().signal;
  const graphql = createGraphql({ http, timing: realTiming, tries: 3, signal });
  const place = { entity: account.entity ?? account.user, project: PROJECT };
  const keys = ['_step', '_timestamp', 'vllm_scope/step', 'generation_metrics/generation_tokens/agg/sum'];
  let rows: HistoryRow[] = [];
  for (let i = 0; i < READ_TRIES && rows.length < end.rows; i++) {
    await realTiming.sleep(READ_MS, signal);
    rows = [];
    for await (const page of graphql.history(place, end.runId, keys, { from: 0, to: end.rows }))
      rows.push(...page);
  }
  says(rows.length === end.rows, `${rows.length} of ${end.rows} rows read back`);
  const scalars = await engine.methods.scalars({
    ...{ run, source: choice.source, metrics: ['generation_tokens'], workers: [], quick: false },
  });
  for (const [i, row] of rows.entries()) {
    const step = scalars.steps[i]!;
    const wanted = [i, step.to! / 1000, step.number, scalars.series[0]!.samples.sum[i]!];
    const found = keys.map((key) => Number(row[key]));
    const same = wanted.every((value, k) => Math.abs(value - found[k]!) <= 1e-9 * Math.abs(value));
    says(same, `row ${i}: ${found.join(', ')}${same ? '' : `, sent ${wanted.join(', ')}`}`);
  }
  const detail = await graphql.run(place, end.runId);
  says(detail.state === 'finished', `state: ${detail.state}`);
  http.close();
} catch (error) {
  says(false, String(error));
} finally {
  await engine.close();
  fs.rmSync(folder, { recursive: true, force: true });
}
console.log(faults === 0 ? 'W&B has what was sent.' : `${faults} failed. Please tell us.`);
process.exit(faults === 0 ? 0 : 1);
