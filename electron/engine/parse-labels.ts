/**
 * The parts of a sample line of /metrics: numbers and label blocks. Texts are latin1 strings, one byte a character; only
 * label values are decoded as UTF-8. Knows no names of vLLM.
 */

// Written so that no digit can be matched in two ways: a line of a million digits must not take hours.
export const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
/** After a value: a timestamp, an exemplar, both or nothing. */
const REST = /^(?:[ \t]+[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)?[ \t]*(?:#.*)?$/s;
/** A byte order mark within the body belongs to the text. */
const UTF8 = new TextDecoder('utf-8', { ignoreBOM: true });
const [TAB, SPACE, QUOTE, HASH, COMMA, POINT, ZERO, EQUALS, BACKSLASH, CLOSE] = [
  9, 32, 34, 35, 44, 46, 48, 61, 92, 125,
] as const;

/** As startsWith(), which looks at one character at a time: this took a third of its time for a name. */
export const isAt = (text: string, at: number, part: string) => text.slice(at, at + part.length) === part;
export const isSpace = (code: number) => code === SPACE || code === TAB;

/** What stands behind the labels, text[at..end): its value; NaN where it is none, not finite, or more follows than may. */
export function valueAt(text: string, at: number, end: number): number {
  // nearly all are whole numbers, which Python writes as 12.0
  let whole = 0;
  let i = at;
  for (; i < end; i++) {
    const digit = text.charCodeAt(i) - ZERO;
    if (!(digit >= 0 && digit <= 9)) break;
    whole = whole * 10 + digit;
  }
  if (i > at && i - at <= 15) {
    if (i === end) return whole;
    if (i + 2 === end && text.charCodeAt(i) === POINT && text.charCodeAt(i + 1) === ZERO) return whole;
  }
  while (i < end && !isSpace(text.charCodeAt(i)) && text.charCodeAt(i) !== HASH) i++;
  const token = text.slice(at, i);
  const value = NUMBER.test(token) ? Number(token) : NaN;
  return Number.isFinite(value) && (i === end || REST.test(text.slice(i, end))) ? value : NaN;
}

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
export function endOfLabels(text: string, open: number, end: number): number {
  for (let i = open + 1; i < end; i++) {
    const code = text.charCodeAt(i);
    if (code === CLOSE) return i + 1;
    if (code !== QUOTE) continue;
    for (i++; i < end && text.charCodeAt(i) !== QUOTE; i++) if (text.charCodeAt(i) === BACKSLASH) i++;
  }
  return -1;
}

/** A name as it may stand without quotes. */
const WORD = /[A-Za-z_]\w*/y;

function afterBlanks(text: string, at: number): number {
  let i = at;
  while (isSpace(text.charCodeAt(i))) i++;
  return i;
}

/** The text in quotes that opens at `open`, and the place after it; null where it does not end before `end`. */
function quotedAt(text: string, open: number, end: number): { said: string; after: number } | null {
  let i = open + 1;
  while (i < end && text.charCodeAt(i) !== QUOTE) i += text.charCodeAt(i) === BACKSLASH ? 2 : 1;
  return i < end ? { said: unescape(text.slice(open + 1, i)), after: i + 1 } : null;
}

interface Labels {
  labels: Map<string, string>;
  name: string;
}

/** `{a="b",...}`; null where it is not well-formed or a name stands twice. A name may stand in quotes. */
function readLabels(block: string): Labels | null {
  const labels = new Map<string, string>();
  let metric = '';
  const end = block.length - 1;
  let i = 1;
  for (;;) {
    i = afterBlanks(block, i);
    if (i >= end) return { labels, name: metric };
    let name: string | undefined;
    if (block.charCodeAt(i) === QUOTE) {
      const quoted = quotedAt(block, i, end);
      if (quoted === null || quoted.said === '') return null;
      name = quoted.said;
      i = afterBlanks(block, quoted.after);
      if (block.charCodeAt(i) !== EQUALS) {
        if (metric !== '') return null;
        metric = name;
      }
    } else {
      WORD.lastIndex = i;
      name = WORD.exec(block)?.[0];
      if (name === undefined) return null;
      i = afterBlanks(block, i + name.length);
      if (block.charCodeAt(i) !== EQUALS) return null;
    }
    if (block.charCodeAt(i) === EQUALS) {
      i = afterBlanks(block, i + 1);
      const value = block.charCodeAt(i) === QUOTE ? quotedAt(block, i, end) : null;
      if (value === null || name === '__name__' || labels.has(name)) return null;
      labels.set(name, value.said);
      i = afterBlanks(block, value.after);
    }
    if (i < end && block.charCodeAt(i++) !== COMMA) return null;
  }
}

const upperBound = (le = '') => (NUMBER.test(le) ? Number(le) : /^\+?Inf$/.test(le) ? Infinity : NaN);

/** Whose a series is by its labels; one object for all blocks that say the same. */
export interface Owner {
  engine: string;
  model: string;
  replica: string;
  /** Labels that are neither part of that nor different between series by design. */
  others: readonly (readonly [string, string])[];
  /** For the reading of a body (see `body`): its worker there. */
  worker: unknown;
  /** Number of that body. */
  body: number;
}

/** A label block, `{` to `}`, kept from body to body: the same come with every scrape. */
export interface Block {
  /** A copy: a piece of a body keeps the whole body alive. */
  raw: string;
  /**
   * The metric's name, where it stands in the braces, as text 1.0.0 has it for names of other than the classic letters:
   * `{"a.b",c="d"}`; '' where it does not.
   */
  name: string;
  labels: ReadonlyMap<string, string>;
  owner: Owner;
  /** The label `le` as a number, `+Inf` too; NaN: there is none, or it is no number. */
  le: number;
  /**
   * What came next after it, by kind of line (0: values, then each histogram). Comparing with that costs a third of
   * finding the block's end and looking it up.
   */
  next: (Block | undefined)[];
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

const KNOWN_MAX = 50_000;
const owners = new Map<string, Owner>();

function ownerOf(labels: ReadonlyMap<string, string>): Owner {
  const engine = labels.get('engine') || '0';
  const model = labels.get('model_name') ?? labels.get('model') ?? ''; // Triton says model
  // outside Ray Serve the ReplicaId is there and empty
  const replica = ['WorkerId', 'ReplicaId', 'worker_id'].flatMap((name) => labels.get(name) || []).join('/');
  const others = [...labels].filter(([name]) => !identity.has(name) && !perSeries.has(name));
  const key = JSON.stringify([engine, model, replica, others]);
  let owner = owners.get(key);
  if (!owner) {
    if (owners.size >= KNOWN_MAX) owners.clear();
    owners.set(key, (owner = { engine, model, replica, others, worker: null, body: -1 }));
  }
  return owner;
}

const known = new Map<string, Block | null>();

/** null where it is not well-formed. */
export function blockOf(raw: string): Block | null {
  const found = known.get(raw);
  if (found !== undefined) return found;
  const copy = Buffer.from(raw, 'latin1').toString('latin1');
  const read = readLabels(copy);
  const block = read && {
    raw: copy,
    ...read,
    owner: ownerOf(read.labels),
    le: upperBound(read.labels.get('le')),
    next: [],
  };
  if (raw.length <= 1000) {
    if (known.size >= KNOWN_MAX) known.clear();
    known.set(copy, block);
  }
  return block;
}
