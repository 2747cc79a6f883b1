/**
 * What the sample lines of one body say of its workers: names to columns and histograms of the catalogue, labels to
 * workers. parse.ts finds the lines; this is told only of names that are in the table.
 */
import { bucketSources, columns, columnSources, type Column } from './catalogue.ts';
import type { ParsedHistogram, ParsedWorker } from './parse.ts';
import { blockOf, endOfLabels, isAt, isSpace, NUMBER, valueAt, type Block } from './parse-labels.ts';

interface Target {
  column: number;
  rank: number;
  source: Column;
}
export interface Entry {
  name: string;
  targets: Target[];
  created: boolean;
  /** What it says cannot be below 0. */
  counts: boolean;
  /** Stands once for the whole endpoint or engine, without model_name. */
  shared: boolean;
  /** Its buckets are those of this place in bucketSources; -1: it is no `_bucket` that is read. */
  histogram: number;
  /** Place among the names of that histogram. */
  rank: number;
}

export const entries = new Map<string, Entry>();
const entryOf = (name: string): Entry => {
  const known = entries.get(name);
  if (known) return known;
  const entry = { name, targets: [], created: false, counts: false, shared: false, histogram: -1, rank: 0 };
  entries.set(name, entry);
  return entry;
};
for (const source of columnSources) {
  const column = columns.findIndex((c) => c.id === source.id);
  source.names.forEach((name, rank) => {
    const entry = entryOf(name);
    entry.targets.push({ column, rank, source });
    entry.shared = source.fromLabel !== undefined || source.id === 'process_start';
    if (source.kind !== 'counter') return;
    entry.counts = true;
    entryOf(name.replace(/_(total|sum|count)$/, '') + '_created').created = true;
  });
}
bucketSources.forEach(({ names }, histogram) =>
  names.forEach((name, rank) => Object.assign(entryOf(name), { histogram, rank })),
);

export const PROCESS_START = 'process_start_time_seconds';
const OPEN = 123;

/** Buckets of one histogram as they come; each `le` once. */
interface Buckets {
  rank: number;
  les: number[];
  counts: number[];
  /** Where the next line's `le` is looked for first: lines come in order. */
  next: number;
}
interface Building extends ParsedWorker {
  ranks: Uint8Array;
  /** By place in bucketSources. */
  found: (Buckets | undefined)[];
}

interface Shared {
  engine: string | null;
  replica: string;
  column: number;
  value: number;
}

/** The block of a line that has none. */
const without = blockOf('{}')!;
let bodies = 0;

export class Reading {
  readonly workers = new Map<string, Building>();
  readonly names = new Set<string>();
  /** Values without a model: for all workers of that engine (null: of all engines). */
  private readonly shared = new Map<string, Shared>();
  /** Of the line before. */
  private before = without;
  private readonly body = ++bodies;
  bad = 0;

  /** One sample line of a name that is in the table: text[at..end) from after its name, or after `named`, which has it. */
  take(entry: Entry, text: string, at: number, end: number, named: Block | null = null): void {
    let i = at;
    while (i < end && isSpace(text.charCodeAt(i))) i++;
    let block: Block | null = named ?? without;
    if (named === null && text.charCodeAt(i) === OPEN) {
      const kind = entry.histogram + 1;
      block = this.before.next[kind] ?? without;
      if (block !== without && isAt(text, i, block.raw)) i += block.raw.length;
      else {
        const close = endOfLabels(text, i, end);
        block = close < 0 ? null : blockOf(text.slice(i, close));
        if (block && block.name !== '') block = null; // it has one before the braces
        i = close;
        if (block) this.before.next[kind] = block;
      }
      if (block) this.before = block;
      while (i < end && isSpace(text.charCodeAt(i))) i++;
    }
    const value = block === null ? NaN : valueAt(text, i, end);
    if (block === null || Number.isNaN(value) || (value < 0 && entry.counts)) {
      // a label carries the value of these, so a NaN sample is no loss; everything else is counted
      this.bad++;
      return;
    }
    if (entry.name !== PROCESS_START) this.names.add(entry.name); // that family is of every Python process
    if (entry.histogram >= 0) {
      this.count(block, entry, value);
      return;
    }
    if (entry.created) this.born(block, value);
    for (const target of entry.targets) this.store(block, target, value, entry.shared);
  }

  private born(block: Block, seconds: number): void {
    const worker = this.workerOf(block);
    if (!(worker.created <= seconds)) worker.created = seconds;
  }

  /** A `_bucket`. As for values: a newer name takes the place of an older one, of several series the greatest counts. */
  private count(block: Block, { histogram, rank }: Entry, value: number): void {
    const { le } = block;
    if (Number.isNaN(le)) {
      this.bad++;
      return;
    }
    const worker = this.workerOf(block);
    let into = worker.found[histogram];
    if (!into || rank < into.rank) worker.found[histogram] = into = { rank, les: [], counts: [], next: 0 };
    else if (rank > into.rank) return;
    const { les, counts } = into;
    const place = les[into.next] === le ? into.next : les.indexOf(le);
    if (place < 0) {
      les.push(le);
      counts.push(value);
      into.next = les.length;
    } else {
      if (value > counts[place]!) counts[place] = value;
      into.next = place + 1;
    }
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
      const { replica } = block.owner;
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

  private workerOf({ owner }: Block): Building {
    if (owner.body === this.body) return owner.worker as Building;
    const { engine, model, replica, others } = owner;
    const key = `${engine}\0${model}\0${replica}`;
    let worker = this.workers.get(key);
    if (!worker) {
      worker = {
        engine,
        model,
        replica,
        labels: Object.fromEntries(others),
        values: new Float64Array(columns.length).fill(NaN),
        created: NaN,
        buckets: new Map(),
        ranks: new Uint8Array(columns.length),
        found: [],
      };
      this.workers.set(key, worker);
    } else {
      const same = new Map(others);
      for (const name of Object.keys(worker.labels))
        if (same.get(name) !== worker.labels[name]) delete worker.labels[name];
    }
    owner.worker = worker;
    owner.body = this.body;
    return worker;
  }

  finish(): ParsedWorker[] {
    // buckets without anything else make no worker
    const all = [...this.workers.values()].filter(
      ({ values, created }) => !Number.isNaN(created) || values.some((v) => !Number.isNaN(v)),
    );
    const ofEngine = new Map<string | null, Building[]>([[null, all]]);
    for (const worker of all) ofEngine.set(worker.engine, [...(ofEngine.get(worker.engine) ?? []), worker]);
    // what is said of an engine counts more than what is said of all
    const shared = [...this.shared.values()].sort(
      (a, b) => Number(b.engine === null) - Number(a.engine === null),
    );
    for (const { engine, replica, column, value } of shared)
      for (const worker of ofEngine.get(engine) ?? [])
        if (replica === '' || replica === worker.replica) worker.values[column] = value;
    return all.map(({ engine, model, replica, labels, values, created, buckets, found }) => {
      bucketSources.forEach(({ metric }, i) => {
        if (!found[i]) return;
        const histogram = histogramOf(i, found[i]);
        if (histogram) buckets.set(metric, histogram);
        else this.bad++;
      });
      return { engine, model, replica, labels, values, created, buckets };
    });
  }
}

/** The bounds that each histogram had last, whoever's: a fleet's are the same, so one text serves all. */
const usual: { les: number[]; bounds: string }[] = [];

/** null where it is none: no `+Inf`, counts that fall with rising bounds, or that are no counts. */
function histogramOf(place: number, { les, counts }: Buckets): ParsedHistogram | null {
  let known = usual[place];
  if (known?.les.length !== les.length || !known.les.every((le, i) => le === les[i])) {
    const order = les.map((_, i) => i).sort((a, b) => les[a]! - les[b]!);
    const sorted = order.map((i) => les[i]!);
    if (sorted.at(-1) !== Infinity) return null;
    counts = order.map((i) => counts[i]!);
    known = { les: sorted, bounds: JSON.stringify(sorted.slice(0, -1)) };
    usual[place] = known;
  }
  for (let i = 0; i < counts.length; i++)
    if (!Number.isSafeInteger(counts[i]) || !(counts[i]! >= (counts[i - 1] ?? 0))) return null;
  return { bounds: known.bounds, counts };
}
