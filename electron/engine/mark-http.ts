/**
 * `POST /api/step`: how a trainer marks its steps. The token is one of its own, which can do nothing else. JSON in and out;
 * every refusal is `{"error": sentence}`.
 */
import type http from 'node:http';
import type { MarkInput, Marked } from './api-steps.ts';
import { EngineError } from './errors.ts';

/** A mark is a line. */
const LIMIT = 10_000;

const statuses: Partial<Record<EngineError['kind'], number>> = { 'bad-input': 400, 'not-found': 404 };

/** `mayMark` is asked with what stands behind `Bearer`. */
export async function takeMark(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  mayMark: (token: string) => boolean,
  mark: (input: MarkInput) => Marked | Promise<Marked>,
  report: (bug: unknown) => void,
): Promise<void> {
  const say = (status: number, body: unknown) => {
    if (response.headersSent || response.destroyed) return;
    response.writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
      ...(status === 405 ? { allow: 'POST' } : {}),
    });
    response.end(`${JSON.stringify(body)}\n`);
  };
  if (request.method !== 'POST') {
    say(405, { error: 'Marks are sent with POST.' });
    return;
  }
  const token = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
  if (!mayMark(token)) {
    say(401, {
      error:
        'The token is missing or wrong. Send "Authorization: Bearer TOKEN"; "vllm-scope mark --how" prints it.',
    });
    return;
  }
  const body = await bodyOf(request);
  if (body === null) {
    say(413, { error: 'That is too long for a mark.' });
    return;
  }
  let input: unknown;
  try {
    input = JSON.parse(body);
  } catch {
    say(400, { error: 'The body is no JSON. Send for example {"step": 12}.' });
    return;
  }
  if (typeof input === 'object' && input !== null && 'step' in input && input.step === null) {
    say(400, { error: 'The step is null. Leave it out for the next one, or give its number.' });
    return;
  }
  try {
    say(200, await mark(input as MarkInput));
  } catch (error) {
    if (error instanceof EngineError) {
      say(statuses[error.kind] ?? 500, { error: error.message });
      return;
    }
    report(error);
    say(500, { error: 'Something in vLLM Scope broke; its own output has more.' });
  }
}

/** null: too long. */
async function bodyOf(request: http.IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > LIMIT) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
