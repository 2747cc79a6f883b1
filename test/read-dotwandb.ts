/**
 * Reads a .wandb file for tests, from the format's description and nothing of our writer: a LevelDB log with W&B's
 * header, whose chunks are checked, and protobuf messages as fields by number. Throws where a byte is not as it must be.
 */
import { crc32 } from 'node:zlib';

const BLOCK = 32_768;

/** The records' bytes, in order. */
export function recordsIn(file: Buffer): Buffer[] {
  if (file.subarray(0, 7).toString('hex') !== '3a572642e1be00')
    throw new Error('not the header of a .wandb file');
  const records: Buffer[] = [];
  let parts: Buffer[] | null = null;
  for (let at = 7; at < file.length;) {
    const left = BLOCK - (at % BLOCK);
    if (left < 7) {
      if (file.subarray(at, at + left).some((byte) => byte !== 0)) throw new Error(`no padding at ${at}`);
      at += left;
      continue;
    }
    const [crc, size, kind] = [file.readUInt32LE(at), file.readUInt16LE(at + 4), file.readUInt8(at + 6)];
    if (size > left - 7) throw new Error(`the chunk at ${at} leaves its block`);
    const data = file.subarray(at + 7, at + 7 + size);
    if (data.length < size) throw new Error(`the chunk at ${at} is cut off`);
    if (crc32(Buffer.concat([Buffer.of(kind), data])) !== crc) throw new Error(`wrong checksum at ${at}`);
    at += 7 + size;
    // 1: whole, 2: first, 3: middle, 4: last
    if ((kind === 1 || kind === 2) !== (parts === null) || kind < 1 || kind > 4)
      throw new Error(`a chunk of kind ${kind} out of its turn`);
    parts = [...(parts ?? []), data];
    if (kind !== 1 && kind !== 4) continue;
    records.push(Buffer.concat(parts));
    parts = null;
  }
  if (parts) throw new Error('the last record is cut off');
  return records;
}

/** A message's fields by number, each with all its values. */
export type Fields = Map<number, (number | Buffer)[]>;

export function fieldsIn(message: Buffer): Fields {
  const fields: Fields = new Map();
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message[at++];
      if (byte === undefined) throw new Error('a message is cut off');
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = varint();
    const [field, wire] = [Math.floor(tag / 8), tag % 8];
    if (wire !== 0 && wire !== 2) throw new Error(`wire type ${wire}`);
    let value: number | Buffer = varint();
    if (wire === 2) {
      const end: number = at + value;
      if (end > message.length) throw new Error('a message is cut off');
      value = message.subarray(at, end);
      at = end;
    }
    fields.set(field, [...(fields.get(field) ?? []), value]);
  }
  return fields;
}

const all = (fields: Fields, field: number) => (fields.get(field) ?? []) as Buffer[];
const text = (fields: Fields, field: number) => all(fields, field)[0]?.toString('utf8') ?? null;
const int = (fields: Fields, field: number) => (fields.get(field)?.[0] as number | undefined) ?? 0;
const inside = (fields: Fields, field: number) => all(fields, field).map(fieldsIn);

/** `key` or `nested_key` to the text of its value. */
const items = (fields: Fields, field: number) =>
  inside(fields, field).map((item) => {
    const keys = all(item, 2).map(String);
    return [keys.length > 0 ? keys : [text(item, 1)!], text(item, 16)!] as const;
  });

export interface ReadRun {
  /** Which kinds of records there were, in order, by their field in Record. */
  kinds: number[];
  numbers: number[];
  producer: string | null;
  run: Record<'id' | 'entity' | 'project' | 'group' | 'jobType' | 'name' | 'notes', string | null>;
  tags: string[];
  /** Seconds. */
  startTime: number;
  config: (readonly [string[], string])[];
  metrics: {
    name: string | null;
    glob: string | null;
    step: string | null;
    options: number[];
    summary: number[];
  }[];
  rows: { items: (readonly [string[], string])[]; step: number }[];
  summary: (readonly [string[], string])[];
  files: { path: string; type: number }[];
  exitCode: number;
  runtime: number;
}

/** Flags of a message of booleans, by field. */
const flags = (message: Fields | undefined) =>
  [...(message ?? [])].flatMap(([field, [value]]) => (value === 1 ? [field] : [])).sort((a, b) => a - b);

export function readDotWandb(file: Buffer): ReadRun {
  const records = recordsIn(file).map(fieldsIn);
  const kinds = records.map((record) => [...record.keys()].find((field) => field !== 1 && field !== 16)!);
  const each = (field: number) => records.flatMap((record) => inside(record, field));
  const [run] = each(17);
  const [exit] = each(18);
  const [started] = inside(run!, 17);
  return {
    kinds,
    numbers: records.map((record) => int(record, 1)),
    producer: each(21).flatMap((header) => inside(header, 1).map((version) => text(version, 1)))[0] ?? null,
    run: {
      ...{ id: text(run!, 1), entity: text(run!, 2), project: text(run!, 3), group: text(run!, 6) },
      ...{ jobType: text(run!, 7), name: text(run!, 8), notes: text(run!, 9) },
    },
    tags: all(run!, 10).map(String),
    startTime: started ? int(started, 1) + int(started, 2) / 1e9 : 0,
    config: inside(run!, 4).flatMap((config) => items(config, 1)),
    metrics: each(12).map((metric) => ({
      ...{ name: text(metric, 1), glob: text(metric, 2), step: text(metric, 4) },
      ...{ options: flags(inside(metric, 6)[0]), summary: flags(inside(metric, 7)[0]) },
    })),
    rows: each(2).map((row) => ({
      items: items(row, 1),
      step: inside(row, 2).map((step) => int(step, 1))[0] ?? 0,
    })),
    summary: each(3).flatMap((summary) => items(summary, 1)),
    files: each(6).flatMap((files) =>
      inside(files, 1).map((one) => ({ path: text(one, 1)!, type: int(one, 3) })),
    ),
    exitCode: exit ? int(exit, 1) : 1,
    runtime: exit ? int(exit, 2) : 0,
  };
}
