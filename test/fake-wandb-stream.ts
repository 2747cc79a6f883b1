/**
 * The stand-in's side of file_stream: what a body may hold, and what it does to the run. A body is checked whole
 * before any of it is taken.
 */
import { broken, isObject, parseLoose, type StoredRun } from './fake-wandb-runs.ts';

/** The longest line that W&B takes, and the most bytes of lines that the SDK puts into one request. */
export const maxLineBytes = 10 * 1024 * 1024 - 100 * 1024;
export const maxLinesBytes = 10 * 1024 * 1024;

const lineFiles = {
  'wandb-history.jsonl': 'history',
  'wandb-events.jsonl': 'events',
  'output.log': 'output',
} as const;
const summaryFile = 'wandb-summary.json';
const members = ['files', 'uploaded', 'preempting', 'complete', 'exitcode'];

interface Part {
  file: string;
  offset: number;
  content: string[];
}

function readParts(files: unknown): Part[] {
  if (files === undefined) return [];
  if (!isObject(files)) throw broken('files is not an object');
  return Object.entries(files).map(([file, part]) => {
    if (file !== summaryFile && !(file in lineFiles)) throw broken(`no such file: ${file}`);
    if (!isObject(part) || Object.keys(part).sort().join() !== 'content,offset')
      throw broken(`${file} is not {"offset", "content"}`);
    const { offset, content } = part;
    if (!Number.isSafeInteger(offset) || (offset as number) < 0)
      throw broken(`${file}: the offset is no line number`);
    if (!Array.isArray(content) || content.length === 0 || content.some((line) => typeof line !== 'string'))
      throw broken(`${file}: the content is not a list of lines`);
    return { file, offset: offset as number, content: content as string[] };
  });
}

function checkSizes(parts: Part[]): void {
  let all = 0;
  for (const { file, offset, content } of parts)
    for (const [i, line] of content.entries()) {
      const bytes = Buffer.byteLength(line);
      if (bytes > maxLineBytes)
        throw broken(`${file}: line ${offset + i} has ${bytes} bytes, the limit is ${maxLineBytes}`, 413);
      all += bytes;
    }
  if (all > maxLinesBytes)
    throw broken(`${all} bytes of lines in one request, the limit is ${maxLinesBytes}`, 413);
}

function readObject(file: string, at: number, line: string): Record<string, unknown> {
  if (line.includes('\n')) throw broken(`${file}: line ${at} holds a line feed`);
  let value: unknown;
  try {
    value = parseLoose(line);
  } catch {
    throw broken(`${file}: line ${at} is not JSON`);
  }
  if (!isObject(value)) throw broken(`${file}: line ${at} is not an object`);
  return value;
}

function checkLines(run: StoredRun, { file, offset, content }: Part, stepsMayRestart: boolean): void {
  if (file === summaryFile) {
    if (offset !== 0 || content.length !== 1) throw broken(`${file}: not one line at offset 0`);
    readObject(file, 0, content[0]!);
    return;
  }
  const kind = lineFiles[file as keyof typeof lineFiles];
  const stored = run[kind];
  if (offset > stored.length)
    throw broken(`${file}: offset ${offset} leaves a gap, there are ${stored.length} lines`);
  if (kind === 'output') return; // a console line may be drawn over
  const again = Math.min(content.length, stored.length - offset);
  for (let i = 0; i < again; i++)
    if (content[i] !== stored[offset + i])
      throw broken(`${file}: line ${offset + i} was sent again with other content`);
  let step = kind === 'history' ? lastStep(stored) : null;
  for (const [i, line] of content.entries()) {
    if (i < again) continue;
    const row = readObject(file, offset + i, line);
    if (kind === 'events') continue;
    const own = row._step;
    if (!Number.isSafeInteger(own)) throw broken(`${file}: line ${offset + i} has no whole _step`);
    if (step !== null && (own as number) <= step && !(stepsMayRestart && i === again))
      throw broken(`${file}: line ${offset + i} has _step ${String(own)} after ${step}`);
    step = own as number;
  }
}

/** null: there are no lines. */
function lastStep(history: readonly string[]): number | null {
  const line = history.at(-1);
  return line === undefined ? null : (parseLoose(line) as { _step: number })._step;
}

export interface StreamReply {
  exitcode: null;
  limits: object;
  stopped?: true;
}

/** What completed a run may come once more: who lost the answer cannot know that it was taken. */
const endings = new WeakMap<StoredRun, string>();

/**
 * Throws a refusal for whatever breaks a rule; then nothing was taken. `stepsMayRestart`: the first new line may have
 * a lower _step than the one before, as when the SDK is given an old id without resume.
 */
export function takeStream(
  run: StoredRun,
  body: unknown,
  stepsMayRestart: boolean,
  now: number,
): StreamReply {
  if (!isObject(body)) throw broken('the body is not an object');
  if (run.complete && endings.get(run) !== JSON.stringify(body))
    throw broken('the run is complete; only UpsertBucket makes it go on');
  const unknown = Object.keys(body).find((name) => !members.includes(name));
  if (unknown !== undefined) throw broken(`unknown member ${unknown}`);
  const parts = readParts(body.files);
  checkSizes(parts);
  for (const part of parts) checkLines(run, part, stepsMayRestart);
  const { uploaded = [], complete, exitcode } = body;
  if (!Array.isArray(uploaded)) throw broken('uploaded is not a list');
  for (const name of uploaded as unknown[])
    if (!run.files.has(String(name))) throw broken(`uploaded names ${String(name)}, which was not uploaded`);
  if (complete !== undefined && complete !== true) throw broken('complete is true or not there');
  if ((complete === true) !== Number.isSafeInteger(exitcode))
    throw broken('complete and a whole exitcode go together');
  if (body.preempting !== undefined && body.preempting !== true)
    throw broken('preempting is true or not there');

  for (const { file, offset, content } of parts)
    if (file === summaryFile) run.summary = content[0]!;
    else
      for (const [i, line] of content.entries())
        run[lineFiles[file as keyof typeof lineFiles]][offset + i] = line;
  run.uploaded = [...new Set([...run.uploaded, ...(uploaded as string[])])];
  if (complete) {
    run.complete = true;
    endings.set(run, JSON.stringify(body));
    run.exitcode = exitcode as number;
    run.state = run.exitcode === 0 ? 'finished' : 'failed';
  }
  run.heartbeatAt = now;
  return { exitcode: null, limits: {}, ...(run.stopped ? { stopped: true } : {}) };
}
