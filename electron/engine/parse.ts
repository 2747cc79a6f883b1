/**
 * /metrics text straight to the catalogue's values per worker; everything else is skipped unread. Takes Prometheus
 * text 0.0.4 and 1.0.0 and OpenMetrics, in any order of families and labels, and never throws: what cannot be read
 * counts as a bad line. `ray_` before and `_` for `:` in names are accepted (Ray's exporter and prometheus_client
 * #1177 write them so). The body comes as a latin1 string (one byte a character: half the memory, fast search);
 * only label values are decoded as UTF-8.
 */
import { columns, columnSources, type Column } from './catalogue.ts';

export interface ParsedWorker {
  /** `0` where the label is absent (V0, and engines without data parallelism). */
  engine: string;
  model: string;
  /** WorkerId, ReplicaId and worker_id, where Ray or Dynamo put several workers behind one endpoint. */
  replica: string;
  /** Other labels, the same on all of its series that were read. */
  labels: Record<string, string>;
  /** One value a column of the catalogue; NaN: absent. */
  values: Float64Array;
  /** The oldest `_created` of its counters, unix seconds; NaN: absent. */
  created: number;
}

export interface ParsedBody {
  workers: ParsedWorker[];
  dialect: 'text' | 'openmetrics';
  /** The body ends as a whole one does: with a newline, or OpenMetrics' `# EOF`. */
  complete: boolean;
  badLines: number;
  /** Lines that look like samples, of whatever family. */
  samples: number;
  /** Names of vLLM that were read, without prefix. */
  names: Set<string>;
}

interface Target {
  column: number;
  rank: number;
  source: Column;
}
interface Entry {
  name: string;
  targets: Target[];
  created: boolean;
  /** Stands once for the whole endpoint or engine, without model_name. */
  shared: boolean;
}

const identity = new Set(['model_name', 'model', 'engine', 'WorkerId', 'ReplicaId', 'worker_id']);
/** These differ between series of one worker by design; they say nothing about the worker. */
const perSeries = new Set([
  'le',
  'pid',
  'reason',
  'finished_reason',
  'finish_reason',
  'sleep_state',
  'version',
]);

const entries = new Map<string, Entry>();
const entryOf = (name: string): Entry => {
  const known = entries.get(name);
  if (known) return known;
  const entry = { name, targets: [], created: false, shared: false };
  entries.set(name, entry);
  return entry;
};
for (const source of columnSources) {
  const column = columns.findIndex((c) => c.id === source.id);
  source.names.forEach((name, rank) => {
    const entry = entryOf(name);
    entry.targets.push({ column, rank, source });
    entry.shared = source.fromLabel !== undefined || source.id === 'process_start';
    if (source.kind === 'counter')
      entryOf(name.replace(/_(total|sum|count)$/, '') + '_created').created = true;
  });
}

const PROCESS_START = 'process_start_time_seconds';
/** By the hash that parse() makes of a name while it looks for its end: no string is made for the lines to skip. */
const byHash = new Map<number, Entry>();
for (const entry of entries.values()) {
  let hash = 0;
  for (let i = 0; i < entry.name.length; i++) hash = (Math.imul(hash, 31) + entry.name.charCodeAt(i)) | 0;
  if (byHash.has(hash)) throw new Error(`two names of the catalogue have one hash: ${entry.name}`);
  byHash.set(hash, entry);
}

// Written so that no digit can be matched in two ways: a line of a million digits must not take hours.
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/** After a value: a timestamp, an exemplar, both or nothing. */
const REST = /^(?:[ \t]+[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)?[ \t]*(?:#.*)?$/s;
/** A byte order mark within the body belongs to the text. */
const UTF8 = new TextDecoder('utf-8', { ignoreBOM: true });
const [TAB, CR, SPACE, QUOTE, HASH, COMMA, EQUALS, BACKSLASH, OPEN, CLOSE] = [
  9, 13, 32, 34, 35, 44, 61, 92, 123, 125,
] as const;

/** The end of a name: what may follow it, the line's end and the body's (NaN) among them. */
const endsName = (code: number) => !(code > SPACE) || code === OPEN || code === EQUALS;
const isSpace = (code: number) => code === SPACE || code === TAB;
const startsName = (code: number) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95 || code === 58;

/** A label value as it stands in the body: escapes undone, UTF-8 decoded. */
function unescape(raw: string): string {
  let text = raw;
  if (text.includes('\\'))
    text = text.replace(/\\(.)/g, (whole, c: string) =>
      c === 'n' ? '\n' : c === '"' || c === '\\' ? c : whole,
    );
  // eslint-disable-next-line no-control-regex -- the question is just whether a byte is outside ASCII
  if (/[^\x00-\x7f]/.test(text)) text = UTF8.decode(Uint8Array.from(text, (c) => c.charCodeAt(0)));
  return text;
}

/** The end of a label block that opens at `open`: the place after `}`; -1 where it does not close on this line. */
function endOfLabels(text: string, open: number, end: number): number {
  for (let i = open + 1; i < end; i++) {
    const code = text.charCodeAt(i);
    if (code === CLOSE) return i + 1;
    if (code !== QUOTE) continue;
    for (i++; i < end && text.charCodeAt(i) !== QUOTE; i++) if (text.charCodeAt(i) === BACKSLASH) i++;
  }
  return -1;
}

/** `{a="b",...}` to a map; null where it is not well-formed or a label stands twice. */
function readLabels(block: string): Map<string, string> | null {
  const labels = new Map<string, string>();
  const end = block.length - 1;
  let i = 1;
  for (;;) {
    while (i < end && isSpace(block.charCodeAt(i))) i++;
    if (i >= end) return labels;
    const equals = block.indexOf('=', i);
    if (equals < 0) return null;
    const name = /^([A-Za-z_]\w*)[ \t]*$/.exec(block.slice(i, equals))?.[1];
    if (name === undefined || labels.has(name)) return null;
    let from = equals + 1;
    while (isSpace(block.charCodeAt(from))) from++;
    if (block.charCodeAt(from) !== QUOTE) return null;
    let to = ++from;
    while (to < end && block.charCodeAt(to) !== QUOTE) to += block.charCodeAt(to) === BACKSLASH ? 2 : 1;
    if (to >= end) return null;
    labels.set(name, unescape(block.slice(from, to)));
    i = to + 1;
    while (i < end && isSpace(block.charCodeAt(i))) i++;
    if (i < end && block.charCodeAt(i++) !== COMMA) return null;
  }
}

/**
 * Label blocks as they were read before: the same come with every scrape. Bounded, and keyed by copies, since a piece of
 * a body keeps the whole body alive.
 */
const knownLabels = new Map<string, ReadonlyMap<string, string> | null>();
const KNOWN_LABELS_MAX = 20_000;

function labelsOf(block: string): ReadonlyMap<string, string> | null {
  const known = knownLabels.get(block);
  if (known !== undefined) return known;
  const copy = Buffer.from(block, 'latin1').toString('latin1');
  const labels = readLabels(copy);
  if (block.length <= 1000) {
    if (knownLabels.size >= KNOWN_LABELS_MAX) knownLabels.clear();
    knownLabels.set(copy, labels);
  }
  return labels;
}

interface Block {
  labels: ReadonlyMap<string, string>;
  /** Made when the first sample that is stored has this block. */
  worker: Building | null;
}
interface Building extends ParsedWorker {
  ranks: Uint8Array;
  labelled: boolean;
}

interface Shared {
  engine: string | null;
  replica: string;
  column: number;
  value: number;
}

class Reading {
  readonly workers = new Map<string, Building>();
  readonly names = new Set<string>();
  private readonly blocks = new Map<string, Block | null>();
  /** Values without a model: for all workers of that engine (null: of all engines). */
  private readonly shared = new Map<string, Shared>();
  bad = 0;

  /** One sample line of a name that is in the table: text[at..end) from after its name. */
  take(name: string, entry: Entry, text: string, at: number, end: number): void {
    let i = at;
    while (i < end && isSpace(text.charCodeAt(i))) i++;
    let block = this.blockOf('{}');
    if (text.charCodeAt(i) === OPEN) {
      const close = endOfLabels(text, i, end);
      block = close < 0 ? null : this.blockOf(text.slice(i, close));
      if (block === null) {
        this.bad++;
        return;
      }
      i = close;
      while (i < end && isSpace(text.charCodeAt(i))) i++;
    }
    let stop = i;
    while (stop < end && !isSpace(text.charCodeAt(stop)) && text.charCodeAt(stop) !== HASH) stop++;
    const token = text.slice(i, stop);
    const value = NUMBER.test(token) ? Number(token) : NaN;
    if (!block || (stop < end && !REST.test(text.slice(stop, end))) || !Number.isFinite(value)) {
      // a label carries the value of these, so a NaN sample is no loss; everything else is counted
      this.bad++;
      return;
    }
    if (name !== PROCESS_START) this.names.add(name); // that family is of every Python process
    if (entry.created) this.born(block, value);
    for (const target of entry.targets) this.store(block, target, value, entry.shared);
  }

  private blockOf(raw: string): Block | null {
    let block = this.blocks.get(raw);
    if (block !== undefined) return block;
    const labels = labelsOf(raw);
    block = labels && { labels, worker: null };
    this.blocks.set(raw, block);
    return block;
  }

  private born(block: Block, seconds: number): void {
    const worker = this.workerOf(block);
    if (!(worker.created <= seconds)) worker.created = seconds;
  }

  private store(block: Block, { column, rank, source }: Target, sample: number, shared: boolean): void {
    const { labels } = block;
    if (source.where) {
      const label = source.where.label.find((name) => labels.has(name));
      if (label === undefined || labels.get(label) !== source.where.value) return;
    }
    let value = sample;
    if (source.whenOne !== undefined) {
      if (sample !== 1) return;
      value = source.whenOne;
    }
    if (source.fromLabel !== undefined) {
      const text = labels.get(source.fromLabel) ?? '';
      if (!NUMBER.test(text)) return; // `None` before 0.9.0
      value = Number(text);
      if (!Number.isFinite(value)) return;
    }
    if (shared) {
      const engine = labels.get('engine') || null;
      const replica = replicaOf(labels);
      this.shared.set(JSON.stringify([engine, replica, column]), { engine, replica, column, value });
      return;
    }
    const worker = this.workerOf(block);
    const known = worker.values[column]!;
    // A newer name takes the place of an older one. Series that differ only in labels we do not know (`pid`): one of
    // them is live, the others show an old value or 0, so the greatest.
    if (
      Number.isNaN(known) ||
      rank < worker.ranks[column]! ||
      (rank === worker.ranks[column] && value > known)
    ) {
      worker.values[column] = value;
      worker.ranks[column] = rank;
    }
  }

  private workerOf(block: Block): Building {
    if (block.worker) return block.worker;
    const { labels } = block;
    const engine = labels.get('engine') || '0';
    const model = labels.get('model_name') ?? labels.get('model') ?? ''; // Triton says model
    const replica = replicaOf(labels);
    const key = `${engine}\0${model}\0${replica}`;
    let worker = this.workers.get(key);
    if (!worker) {
      worker = {
        engine,
        model,
        replica,
        labels: {},
        values: new Float64Array(columns.length).fill(NaN),
        created: NaN,
        ranks: new Uint8Array(columns.length),
        labelled: false,
      };
      this.workers.set(key, worker);
    }
    if (!worker.labelled) {
      for (const [name, value] of labels)
        if (!identity.has(name) && !perSeries.has(name)) worker.labels[name] = value;
      worker.labelled = true;
    } else {
      for (const name of Object.keys(worker.labels))
        if (labels.get(name) !== worker.labels[name]) delete worker.labels[name];
    }
    block.worker = worker;
    return worker;
  }

  finish(): ParsedWorker[] {
    const all = [...this.workers.values()];
    const ofEngine = new Map<string | null, Building[]>([[null, all]]);
    for (const worker of all) ofEngine.set(worker.engine, [...(ofEngine.get(worker.engine) ?? []), worker]);
    // what is said of an engine counts more than what is said of all
    const shared = [...this.shared.values()].sort(
      (a, b) => Number(b.engine === null) - Number(a.engine === null),
    );
    for (const { engine, replica, column, value } of shared)
      for (const worker of ofEngine.get(engine) ?? [])
        if (replica === '' || replica === worker.replica) worker.values[column] = value;
    return all.map(({ engine, model, replica, labels, values, created }) => ({
      engine,
      model,
      replica,
      labels,
      values,
      created,
    }));
  }
}

const replicaOf = (labels: ReadonlyMap<string, string>) =>
  // outside Ray Serve the ReplicaId is there and empty
  ['WorkerId', 'ReplicaId', 'worker_id'].flatMap((name) => labels.get(name) || []).join('/');

/** The length of `vllm:` (or `ray_vllm:`, `vllm_`, ...) at `at`; 0 where it is none. */
function prefixAt(text: string, at: number): number {
  const ray = text.startsWith('ray_', at) ? 4 : 0;
  if (!text.startsWith('vllm', at + ray)) return 0;
  const code = text.charCodeAt(at + ray + 4);
  return code === 58 || code === 95 ? ray + 5 : 0;
}

/** Reads one body. Never throws, whatever it holds. */
export function parse(body: string): ParsedBody {
  const reading = new Reading();
  let samples = 0;
  let eof = false;
  let line = body.charCodeAt(0) === 0xef && body.startsWith('\xef\xbb\xbf') ? 3 : 0; // a UTF-8 byte order mark
  /** Hashes of names that are in no table and noted already. */
  const noted = new Set<number>();

  while (line < body.length) {
    let end = body.indexOf('\n', line);
    const next = end < 0 ? body.length : end + 1;
    if (end < 0) end = body.length;
    if (end > line && body.charCodeAt(end - 1) === CR) end--;
    let at = line;
    line = next;
    let first = body.charCodeAt(at);
    while (at < end && isSpace(first)) first = body.charCodeAt(++at); // blanks before a name are legal
    if (end === at) continue;
    if (first === HASH) {
      if (body.startsWith('# EOF', at)) eof = true;
      continue;
    }
    if (!startsName(first)) {
      if (body.slice(at, end).trim() !== '') reading.bad++;
      continue;
    }
    samples++;
    const prefix = prefixAt(body, at);
    if (prefix === 0) {
      // the process families carry no prefix, ours always do
      if (body.startsWith(PROCESS_START, at) && endsName(body.charCodeAt(at + PROCESS_START.length)))
        reading.take(PROCESS_START, entries.get(PROCESS_START)!, body, at + PROCESS_START.length, end);
      continue;
    }
    let stop = at + prefix;
    let hash = 0;
    for (let code = body.charCodeAt(stop); !endsName(code); code = body.charCodeAt(++stop))
      hash = (Math.imul(hash, 31) + code) | 0;
    const entry = byHash.get(hash);
    if (entry?.name.length === stop - at - prefix && body.startsWith(entry.name, at + prefix)) {
      if (entry.name !== PROCESS_START) reading.take(entry.name, entry, body, stop, end);
    } else if (!noted.has(hash)) {
      noted.add(hash);
      reading.names.add(body.slice(at + prefix, stop));
    }
  }
  return {
    workers: reading.finish(),
    dialect: eof ? 'openmetrics' : 'text',
    complete: body.endsWith('\n') || (eof && body.endsWith('\n# EOF')),
    badLines: reading.bad,
    samples,
    names: reading.names,
  };
}
