/**
 * /metrics text straight to the catalogue's values per worker; everything else is skipped unread. Takes Prometheus
 * text 0.0.4 and 1.0.0 and OpenMetrics, in any order of families and labels, and never throws: what cannot be read
 * counts as a bad line. `ray_` before and `_` for `:` in names are accepted (Ray's exporter and prometheus_client
 * #1177 write them so). The body comes as a latin1 string (one byte a character: half the memory, fast search);
 * only label values are decoded as UTF-8.
 */
import { blockOf, endOfLabels, isAt, isSpace } from './parse-labels.ts';
import { entries, PROCESS_START, Reading, type Entry } from './parse-reading.ts';

/** A latency histogram as a body has it. */
export interface ParsedHistogram {
  /** JSON array of its upper bounds, ascending, without +Inf. */
  bounds: string;
  /** Observations up to each bound, and all of them (+Inf) last. */
  counts: readonly number[];
}

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
  /** Latency histograms by metric id. */
  buckets: Map<string, ParsedHistogram>;
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

/** By the hash that parse() makes of a name while it looks for its end: no string is made for the lines to skip. */
const byHash = new Map<number, Entry>();
for (const entry of entries.values()) {
  let hash = 0;
  for (let i = 0; i < entry.name.length; i++) hash = (Math.imul(hash, 31) + entry.name.charCodeAt(i)) | 0;
  if (byHash.has(hash)) throw new Error(`two names of the catalogue have one hash: ${entry.name}`);
  byHash.set(hash, entry);
}

const [CR, SPACE, HASH, EQUALS, OPEN] = [13, 32, 35, 61, 123] as const;

/** The end of a name: what may follow it, the line's end and the body's (NaN) among them. */
const endsName = (code: number) => !(code > SPACE) || code === OPEN || code === EQUALS;
const startsName = (code: number) =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95 || code === 58;

/** The length of `vllm:` (or `ray_vllm:`, `vllm_`, ...) at `at`; 0 where it is none. */
function prefixAt(text: string, at: number): number {
  const ray = text.startsWith('ray_', at) ? 4 : 0;
  if (!text.startsWith('vllm', at + ray)) return 0;
  const code = text.charCodeAt(at + ray + 4);
  return code === 58 || code === 95 ? ray + 5 : 0;
}

/** A line whose name stands in its braces; false where it is none. Seldom, so it may cost more than the others. */
function takeNamed(reading: Reading, text: string, at: number, end: number): boolean {
  const close = endOfLabels(text, at, end);
  const block = close < 0 ? null : blockOf(text.slice(at, close));
  if (!block || block.name === '') return false;
  const prefix = prefixAt(block.name, 0);
  const own = block.name.slice(prefix);
  const entry = prefix > 0 === (own !== PROCESS_START) ? entries.get(own) : undefined; // that one has no prefix
  if (entry) reading.take(entry, text, close, end, block);
  else if (prefix > 0) reading.names.add(own);
  return true;
}

/** Reads one body. Never throws, whatever it holds. */
export function parse(body: string): ParsedBody {
  const reading = new Reading();
  let samples = 0;
  let eof = false;
  let line = body.charCodeAt(0) === 0xef && body.startsWith('\xef\xbb\xbf') ? 3 : 0; // a UTF-8 byte order mark
  /** Hashes of names that are in no table and noted already. */
  const noted = new Set<number>();
  /** Of the line before, with its prefix, and what it is in the table. */
  let name = '';
  let entry: Entry | undefined;

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
      if (end === at + 5 && isAt(body, at, '# EOF')) eof = true;
      continue;
    }
    if (first === OPEN) {
      if (takeNamed(reading, body, at, end)) samples++;
      else reading.bad++;
      continue;
    }
    if (!startsName(first)) {
      if (body.slice(at, end).trim() !== '') reading.bad++;
      continue;
    }
    samples++;
    // lines of one name stand together
    if (name !== '' && isAt(body, at, name) && endsName(body.charCodeAt(at + name.length))) {
      if (entry) reading.take(entry, body, at + name.length, end);
      continue;
    }
    const prefix = prefixAt(body, at);
    if (prefix === 0) {
      // the process families carry no prefix, ours always do
      if (body.startsWith(PROCESS_START, at) && endsName(body.charCodeAt(at + PROCESS_START.length)))
        reading.take(entries.get(PROCESS_START)!, body, at + PROCESS_START.length, end);
      continue;
    }
    let stop = at + prefix;
    let hash = 0;
    for (let code = body.charCodeAt(stop); !endsName(code); code = body.charCodeAt(++stop))
      hash = (Math.imul(hash, 31) + code) | 0;
    name = body.slice(at, stop);
    const own = byHash.get(hash);
    entry = own?.name.length === stop - at - prefix && isAt(body, at + prefix, own.name) ? own : undefined;
    if (entry?.name === PROCESS_START)
      entry = undefined; // only without a prefix
    else if (entry) reading.take(entry, body, stop, end);
    else if (!noted.has(hash)) {
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
