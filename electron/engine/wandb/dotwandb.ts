/**
 * Writes a run as a folder that `wandb sync` sends: W&B's own offline format, a LevelDB log of protobuf records. Only
 * the few records and fields that a run of ours needs; W&B's wandb_internal.proto has them all.
 */
import fs from 'node:fs/promises';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { EngineError } from '../errors.ts';
import { goals, isGlob, summaryFlags, syncsStep } from './config.ts';
import { decode, encodeValue } from './json.ts';
import type { JsonObject, MetricDefinition, RunIdentity, UploadFile, UploadSource } from './contract.ts';

const BLOCK = 32_768;
const HEAD = 7;
const FULL = 1;
const FIRST = 2;
const MIDDLE = 3;
const LAST = 4;
/** `:W&B`, its magic number, version 0. */
const FILE_HEADER = Buffer.from([0x3a, 0x57, 0x26, 0x42, 0xe1, 0xbe, 0]);
const LINES_AT_ONCE = 500;

/** Makes the chunks of a file's records; blocks are counted from the file's beginning. */
export class RecordLog {
  private at = 0;

  /** The file's first bytes. */
  begin(): Buffer {
    this.at = FILE_HEADER.length;
    return FILE_HEADER;
  }

  /** One record's bytes, over as many blocks as it needs. */
  add(record: Buffer): Buffer {
    const parts: Buffer[] = [];
    let rest = record;
    let first = true;
    do {
      let left = BLOCK - (this.at % BLOCK);
      if (left < HEAD) {
        parts.push(Buffer.alloc(left));
        this.at += left;
        left = BLOCK;
      }
      const data = rest.subarray(0, left - HEAD);
      rest = rest.subarray(data.length);
      const whole = rest.length === 0;
      const kind = first ? (whole ? FULL : FIRST) : whole ? LAST : MIDDLE;
      const head = Buffer.alloc(HEAD);
      head.writeUInt32LE(crc32(data, crc32(Buffer.of(kind))), 0);
      head.writeUInt16LE(data.length, 4);
      head.writeUInt8(kind, 6);
      parts.push(head, data);
      this.at += HEAD + data.length;
      first = false;
    } while (rest.length > 0);
    return Buffer.concat(parts);
  }
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

const NOTHING = Buffer.alloc(0);
/** Zero is what a field has that is not there. */
const num = (field: number, value: number): Buffer =>
  value === 0 ? NOTHING : Buffer.concat([varint(field * 8), varint(value)]);
function bytes(field: number, value: string | Buffer): Buffer {
  const data = Buffer.from(value as string);
  return Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);
}
const text = (field: number, value: string | null): Buffer =>
  value === null ? NOTHING : bytes(field, value);
const message = (field: number, ...parts: Buffer[]): Buffer => bytes(field, Buffer.concat(parts));

/** Fields of W&B's Record, by kind. */
const kinds = {
  ...{ history: 2, summary: 3, files: 6, metric: 12, run: 17, exit: 18, final: 20, header: 21, footer: 22 },
} as const;
const MEDIA = 2;
/** The oldest W&B that reads such a file. */
const MIN_CONSUMER = '0.9.0';

/** Key and value, as text of JSON, in field 1 of whatever holds them. */
const items = (object: JsonObject, nan: 'NaN' | 'null' = 'NaN'): Buffer =>
  Buffer.concat(
    Object.entries(object).map(([key, value]) =>
      message(1, bytes(1, key), bytes(16, encodeValue(value, nan))),
    ),
  );

function runRecord(run: RunIdentity, config: JsonObject, startedAt: number): Buffer {
  const seconds = Math.floor(startedAt / 1000);
  const nanos = Math.round((startedAt - seconds * 1000) * 1e6);
  return Buffer.concat([
    ...[bytes(1, run.runId), text(2, run.entity), bytes(3, run.project), message(4, items(config, 'null'))],
    ...[text(6, run.group), text(7, run.jobType), text(8, run.displayName), text(9, run.notes)],
    ...run.tags.map((tag) => bytes(10, tag)),
    message(17, num(1, seconds), num(2, nanos)),
  ]);
}

function metricRecord(metric: MetricDefinition): Buffer {
  const { name, step = null, hidden = false, summary = [], goal } = metric;
  return Buffer.concat([
    bytes(isGlob(name) ? 2 : 1, name),
    text(4, step),
    message(6, num(1, +syncsStep(metric)), num(2, +hidden), num(3, +!isGlob(name))),
    message(7, ...summary.map((kind) => num(summaryFlags[kind], 1))),
    goal ? num(8, goals[goal]) : NOTHING,
  ]);
}

export interface OfflineExport {
  source: UploadSource;
  /** When the run began, epoch ms; it names the folder too, in local time. */
  startedAt: number;
  /** Who wrote it, as `vllm-scope 0.1.0`. */
  producer: string;
  signal?: AbortSignal;
  progress?: (rows: number, rowsTotal: number) => void;
}

/**
 * Writes `offline-run-DATE-ID` into `parent`, which is made where there is none, and returns its path. It has its name
 * only when it is whole. Throws `bad-input` where it is there already or the disk does not take it, and the signal's
 * reason.
 */
export async function writeOfflineRun(parent: string, options: OfflineExport): Promise<string> {
  const { runId } = options.source.identity;
  if (!/^[\w-]{1,64}$/.test(runId)) throw new EngineError('bad-input', `"${runId}" is no id of a W&B run.`);
  const name = `offline-run-${stamp(options.startedAt)}-${runId}`;
  const folder = path.join(parent, name);
  const growing = path.join(parent, `.${name}.part`);
  try {
    await writeFolder(growing, folder, options);
  } catch (error) {
    const { syscall, message } = error as NodeJS.ErrnoException;
    if (syscall === undefined) throw error;
    throw new EngineError(
      'bad-input',
      `Nothing can be written into ${parent} (${message}). Give another folder.`,
    );
  }
  return folder;
}

async function writeFolder(growing: string, folder: string, options: OfflineExport): Promise<void> {
  const there = await fs.stat(folder).catch(() => null);
  if (there)
    throw new EngineError('bad-input', `${folder} is there already. Remove it, or export elsewhere.`);
  await fs.rm(growing, { recursive: true, force: true });
  // sync uploads no file at all, not even the config, where this folder is missing
  await fs.mkdir(path.join(growing, 'files'), { recursive: true });
  try {
    const { runId } = options.source.identity;
    const file = await fs.open(path.join(growing, `run-${runId}.wandb`), 'wx');
    try {
      await writeRecords(file, path.join(growing, 'files'), options);
      await file.sync();
    } finally {
      await file.close();
    }
    await fs.rename(growing, folder);
  } catch (error) {
    await fs.rm(growing, { recursive: true, force: true });
    throw error;
  }
}

async function writeRecords(file: fs.FileHandle, folder: string, options: OfflineExport): Promise<void> {
  const { source, startedAt, producer, signal, progress } = options;
  const log = new RecordLog();
  let records = 0;
  const record = (kind: keyof typeof kinds, ...parts: Buffer[]): Buffer =>
    log.add(Buffer.concat([num(1, ++records), message(kinds[kind], ...parts)]));
  const write = (...chunks: Buffer[]) => file.appendFile(Buffer.concat(chunks));

  await write(
    log.begin(),
    record('header', message(1, bytes(1, producer), bytes(2, MIN_CONSUMER))),
    record('run', runRecord(source.identity, source.config, startedAt)),
    ...source.metrics.map((metric) => record('metric', metricRecord(metric))),
  );
  const rowsTotal = await source.lineCount();
  let runtime = 0;
  for (let row = 0; row < rowsTotal;) {
    signal?.throwIfAborted();
    const lines = await source.lines(row, Math.min(LINES_AT_ONCE, rowsTotal - row));
    if (lines.length === 0) throw new Error(`There is no line ${row} of ${rowsTotal}.`);
    const rows = lines.map((line) => decode(line) as JsonObject);
    await write(
      ...rows.map((one, i) =>
        record('history', items(one), message(2, num(1, Number(one._step ?? row + i)))),
      ),
    );
    runtime = Math.floor(Number(rows.at(-1)!._runtime ?? runtime));
    row += lines.length;
    progress?.(row, rowsTotal);
  }
  await write(record('summary', items(withoutNulls(await source.summary(rowsTotal)))));
  for (const one of (await source.files?.(rowsTotal)) ?? []) {
    signal?.throwIfAborted();
    await keep(folder, one);
    await write(record('files', message(1, bytes(1, one.name), num(3, MEDIA))));
  }
  const exitCode = source.ended?.() ?? 0;
  await write(
    record('exit', num(1, exitCode), num(2, runtime)),
    // the older way of syncing does nothing before it has seen these
    record('final'),
    record('footer'),
  );
}

/** Null is how the summary says that a key is not there. */
const withoutNulls = (summary: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(summary).filter(([, value]) => value !== null));

async function keep(folder: string, file: UploadFile): Promise<void> {
  const place = path.resolve(folder, file.name);
  if (!place.startsWith(path.resolve(folder) + path.sep))
    throw new Error(`${file.name} leads out of the folder.`);
  await fs.mkdir(path.dirname(place), { recursive: true });
  await fs.writeFile(place, await file.read());
}

/** `20261130_090205`, local, as the SDK names its folders. */
function stamp(at: number): string {
  const d = new Date(at);
  const two = (n: number) => String(n).padStart(2, '0');
  const date = [d.getFullYear(), two(d.getMonth() + 1), two(d.getDate())].join('');
  return `${date}_${two(d.getHours())}${two(d.getMinutes())}${two(d.getSeconds())}`;
}
