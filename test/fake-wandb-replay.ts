/**
 * Sends what the real SDK sent in a recording (test/fixtures/wandb) to the stand-in again, over real HTTP, and tells
 * where its answers differ from the recorded ones. Ids and addresses of uploads are those that the stand-in gave out.
 */
import fs from 'node:fs';
import { request, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http';
import { request as requestTls } from 'node:https';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { isObject, parseLoose } from './fake-wandb-runs.ts';
import { fakeKey, type FakeWandb } from './fake-wandb.ts';

export const recordings = path.join(import.meta.dirname, 'fixtures/wandb');

interface Part {
  offset: number;
  /** Where it was cut, `...` stands for the lines in between, or for all. */
  content: string[];
  /** Only where it was cut: how many there were. */
  lines?: number;
}
export interface StreamBody {
  files?: Record<string, Part>;
  complete?: boolean;
  exitcode?: number;
  uploaded?: string[];
}
export interface Recorded {
  n: number;
  method: string;
  path: string;
  operation?: string;
  /** The members of a GraphQL body. */
  members?: string[];
  /** Which of the operation's texts. */
  text?: number;
  headers: Record<string, string>;
  body: { variables: object | null } | StreamBody | string | null;
  /** Bytes of an upload. */
  size?: number;
  status: number | 'reset' | 'reset after applying';
  reply?: unknown;
  reply_headers?: Record<string, string>;
}

/** Without the SDK's requests to a vLLM server's /metrics. */
export function recording(name: string): Recorded[] {
  const lines = fs
    .readFileSync(path.join(recordings, `${name}.jsonl`), 'utf8')
    .trim()
    .split('\n');
  const [, ...requests] = lines.map((line) => JSON.parse(line) as Recorded);
  return requests.filter(({ path }) => path !== '/metrics');
}

const operations = JSON.parse(fs.readFileSync(path.join(recordings, 'operations.json'), 'utf8')) as Record<
  string,
  string[]
>;
/** The text of an operation as the SDK sends it. */
export const operationText = (name: string, n = 0): string => operations[name]![n]!;

export interface Answer {
  /** null: the connection ended without an answer. */
  status: number | null;
  /** How it ended, as Node names it; null where it went well. */
  failure: string | null;
  headers: IncomingHttpHeaders;
  text: string;
  /** False: fewer bytes than promised. */
  complete: boolean;
}
/** One request on a connection of its own. */
export function ask(
  url: string,
  options: { method?: string; headers?: OutgoingHttpHeaders; ca?: string; signal?: AbortSignal },
  body: string | Buffer = '',
): Promise<Answer> {
  return new Promise((done) => {
    const send = url.startsWith('https:') ? requestTls : request;
    const sent = send(url, { method: 'POST', agent: false, ...options }, (reply) => {
      const parts: Buffer[] = [];
      reply.on('data', (part: Buffer) => parts.push(part));
      reply.on('error', () => {}); // a cut body; 'close' follows
      reply.on('close', () => {
        const { statusCode, headers, complete } = reply;
        const text = Buffer.concat(parts).toString();
        done({ status: statusCode ?? null, failure: null, headers, text, complete });
      });
    });
    sent.on('error', (error: Error & { code?: string }) =>
      done({ status: null, failure: error.code ?? error.message, headers: {}, text: '', complete: false }),
    );
    sent.end(body);
  });
}

export const basic = (key: string) => `Basic ${Buffer.from(`api:${key}`).toString('base64')}`;

/** What each server makes up by itself, and what depends on the machine or the moment. */
const madeUp = new Set([
  ...['id', 'runID', 'projectId', 'internalId', 'uploadUrl', 'url', 'directUrl', 'cursor', 'endCursor'],
  ...['createdAt', 'heartbeatAt', 'count', 'sizeBytes', '_timestamp', '_runtime', 'runtime'],
]);
const insideText = new Set([
  ...['config', 'summaryMetrics', 'wandbConfig', 'historyTail', 'eventsTail', 'history', 'events'],
]);

/** Where `answered` is not what was recorded. Text that is JSON is compared as what it says. */
export function differences(recorded: unknown, answered: unknown, at: string[] = []): string[] {
  const name = at.findLast((part) => !/^\d+$/.test(part)) ?? '';
  if (typeof recorded === 'string' && typeof answered === 'string' && insideText.has(name))
    return differences(parseLoose(recorded), parseLoose(answered), at);
  if (Array.isArray(recorded) && Array.isArray(answered)) {
    const length = recorded.length === answered.length ? [] : [`${at.join('.')}: ${answered.length} items`];
    return [...length, ...recorded.flatMap((each, i) => differences(each, answered[i], [...at, String(i)]))];
  }
  if (isObject(recorded) && isObject(answered))
    return Object.keys(recorded)
      .filter((key) => key !== '__typename')
      .flatMap((key) => differences(recorded[key], answered[key], [...at, key]));
  if (Object.is(recorded, answered)) return [];
  const both = typeof recorded === typeof answered || (recorded === null && answered !== undefined);
  if (both && madeUp.has(name)) return [];
  return [`${at.join('.')}: ${JSON.stringify(answered)} and not ${JSON.stringify(recorded)}`];
}

/** Recorded ids and addresses of uploads, each with the one that was answered instead. */
function pairsOf(recorded: unknown, answered: unknown, name = ''): [string, string][] {
  if (['id', 'uploadUrl'].includes(name)) return [[String(recorded), String(answered)]];
  if (Array.isArray(recorded) && Array.isArray(answered))
    return recorded.flatMap((each, i) => pairsOf(each, answered[i]));
  if (!isObject(recorded) || !isObject(answered)) return [];
  return Object.keys(recorded).flatMap((key) => pairsOf(recorded[key], answered[key], key));
}

/** The lines of the bulk scenarios, by the rule in fixtures/wandb/README.md. Line 200 of the wide one was left out. */
function madeLine(name: string, i: number): string {
  const times = { _timestamp: 1_700_000_000 + i / 1000, _runtime: i / 1000 };
  if (name === '02-bulk-wide')
    return JSON.stringify({ text: 'x'.repeat(100_000), _step: i < 200 ? i : i + 1, ...times });
  const keys = Array.from({ length: 60 }, (_, k) => [`k${String(k).padStart(2, '0')}`, i + k / 64]);
  return JSON.stringify({ ...Object.fromEntries(keys), _step: i, ...times });
}
function whole(name: string, body: StreamBody): StreamBody {
  const parts = Object.entries(body.files ?? {}).map(([file, { offset, content, lines }]) => {
    if (lines === undefined) return [file, { offset, content }];
    const made = (i: number) =>
      file === 'wandb-summary.json' ? '{"_runtime":0}' : madeLine(name, offset + i);
    const kept = (i: number) => (i === 0 ? content[0]! : i === lines - 1 ? content.at(-1)! : '...');
    const all = Array.from({ length: lines }, (_, i) => (kept(i) === '...' ? made(i) : kept(i)));
    return [file, { offset, content: all }];
  });
  return body.files ? { ...body, files: Object.fromEntries(parts) as Record<string, Part> } : body;
}

export interface Replayed {
  recorded: Recorded;
  /** A cut one is whole again. */
  body: Recorded['body'];
  answer: Answer;
}

/** In order, one after the other. `faults`: answers that were not 200 are injected, as they were for the recording. */
export async function replay(
  fake: FakeWandb,
  name: string,
  { key = fakeKey, faults = true }: { key?: string; faults?: boolean } = {},
): Promise<Replayed[]> {
  const known = new Map<string, string>();
  const replayed: Replayed[] = [];
  for (const recorded of recording(name)) {
    const { method, operation, status, reply } = recorded;
    const kind = operation ?? (method === 'PUT' ? 'put' : 'file_stream');
    if (faults && status !== 200) {
      if (typeof status === 'string')
        fake.inject(kind, { reset: status === 'reset after applying' ? 'after' : 'before' });
      else fake.inject(kind, { status, body: reply, headers: recorded.reply_headers });
    }
    const headers: OutgoingHttpHeaders = { ...recorded.headers };
    if (headers.authorization !== undefined) headers.authorization = basic(key);
    let { body } = recorded;
    let sent: string | Buffer;
    let url = fake.url + recorded.path;
    if (operation) {
      const text = JSON.stringify((body as { variables: object | null }).variables);
      const variables = JSON.parse(
        text,
        (_, value: unknown) => known.get(value as string) ?? value,
      ) as object;
      const all = { query: operationText(operation, recorded.text), variables, operationName: operation };
      sent = JSON.stringify(
        Object.fromEntries(Object.entries(all).filter(([member]) => recorded.members!.includes(member))),
      );
    } else if (method === 'PUT') {
      url = known.get(`<base>${recorded.path}`) ?? url;
      sent = (body as string | null) ?? Buffer.alloc(recorded.size!, 'x');
    } else {
      body = whole(name, body as StreamBody);
      sent = JSON.stringify(body);
      if (headers['content-encoding'] === 'gzip') sent = gzipSync(sent);
    }
    const answer = await ask(
      url,
      { method, headers: { ...headers, 'content-length': Buffer.byteLength(sent) } },
      sent,
    );
    replayed.push({ recorded, body, answer });
    if (!operation || answer.status !== 200) continue;
    const answered = JSON.parse(answer.text) as {
      data?: { createRunFiles?: { files: { uploadUrl: string }[] } };
    };
    for (const [theirs, ours] of pairsOf(reply, answered)) known.set(theirs, ours);
    for (const { uploadUrl } of answered.data?.createRunFiles?.files ?? [])
      known.set(`<base>${new URL(uploadUrl).pathname}`, uploadUrl); // of recordings without answers
  }
  return replayed;
}
