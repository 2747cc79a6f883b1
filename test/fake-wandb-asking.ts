/** Well-made requests to the stand-in for W&B, one member of which a test then spoils. The SDK's own texts. */
import type { OutgoingHttpHeaders } from 'node:http';
import { expect, onTestFinished } from 'vitest';
import { ask, basic, operationText, type Answer } from './fake-wandb-replay.ts';
import { fakeKey, startFakeWandb, type FakeWandb, type FakeWandbOptions } from './fake-wandb.ts';

/** It ends with the test, which fails where a violation was not asked for. */
export async function started(options: FakeWandbOptions = {}): Promise<FakeWandb> {
  const fake = await startFakeWandb(options);
  onTestFinished(() => fake.stop());
  return fake;
}

export const config = '{"a":{"value":1},"_wandb":{"value":{"t":{"13":"linux-x86_64"},"m":[]}}}';
export const inOurs = { entity: 'ent', project: 'proj', run: 'run1' };
const headersOf = (more: OutgoingHttpHeaders = {}): OutgoingHttpHeaders => {
  const all: OutgoingHttpHeaders = {
    authorization: basic(fakeKey),
    'content-type': 'application/json',
    ...more,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
};

/** Headers replace those of a good request, '' leaves one out; `body` replaces members, `whole` all of it. */
export function graphql(
  fake: FakeWandb,
  operation: string,
  variables: object,
  {
    headers,
    text,
    body,
    whole,
  }: { headers?: OutgoingHttpHeaders; text?: string; body?: object; whole?: object } = {},
): Promise<Answer> {
  const query = text ?? operationText(operation);
  const sent = whole ?? { query, variables, operationName: operation, ...body };
  return ask(`${fake.url}/graphql`, { headers: headersOf(headers) }, JSON.stringify(sent));
}
export const upsert = (fake: FakeWandb, changed: object = {}, headers?: OutgoingHttpHeaders) =>
  graphql(
    fake,
    'UpsertBucket',
    { entity: 'ent', project: 'proj', name: 'run1', config, ...changed },
    { headers },
  );

export function stream(
  fake: FakeWandb,
  body: object | string,
  { headers, run = 'run1' }: { headers?: OutgoingHttpHeaders; run?: string } = {},
): Promise<Answer> {
  const whole = typeof body === 'string' ? body : JSON.stringify(body);
  return ask(`${fake.url}/files/ent/proj/${run}/file_stream`, { headers: headersOf(headers) }, whole);
}
/** As one part of a body. */
export const history = (offset: number, ...content: string[]) => ({
  files: { 'wandb-history.jsonl': { offset, content } },
});
export const row = (step: number, more = '') => `{"_step":${step}${more}}`;

export interface RunFiles {
  uploadHeaders: string[];
  files: { name: string; uploadUrl: string }[];
}
export async function createFiles(fake: FakeWandb, ...files: string[]): Promise<RunFiles> {
  const { text } = await graphql(fake, 'CreateRunFiles', { ...inOurs, files });
  return (JSON.parse(text) as { data: { createRunFiles: RunFiles } }).data.createRunFiles;
}
export const put = (url: string, body: string, headers: OutgoingHttpHeaders = {}) =>
  ask(url, { method: 'PUT', headers: { 'content-type': 'application/octet-stream', ...headers } }, body);

/** `ent/proj/run1` with two lines. */
export async function withRun(options: FakeWandbOptions = {}): Promise<FakeWandb> {
  const fake = await started(options);
  expect((await upsert(fake)).status).toBe(200);
  expect((await stream(fake, history(0, row(0), row(1)))).status).toBe(200);
  return fake;
}

/** What is sent after `withRun`, the status that it is refused with, and how the violation reads. */
export type Rule = [(fake: FakeWandb) => Promise<Answer>, number, RegExp];
export async function refusedAndRemembered([spoiled, status, violation]: Rule): Promise<void> {
  const fake = await withRun();
  const answer = await spoiled(fake);
  expect(answer.status, answer.text).toBe(status);
  expect(fake.violations()).toEqual([expect.stringMatching(violation)]);
  const run = fake.stored('ent', 'proj', 'run1')!;
  expect(run.history).toEqual([row(0), row(1)]);
  expect([run.config, run.files.size, run.uploaded, run.summary]).toEqual([config, 0, [], null]);
  expect(fake.stored('ent', 'proj', 'run2')).toBeNull();
}
