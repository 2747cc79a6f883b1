/**
 * Endpoints from Prometheus' file_sd files: a path or a glob (`*` in its last part), read again when something changed.
 * It looks every 2 s instead of being told (fs.watch): on a network filesystem, where such files mostly lie, the kernel
 * tells nothing of what other machines write.
 */
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SourceState } from './api.ts';
import { sentenceOf } from './errors.ts';
import { readEntries, type Entry } from './file-sd-text.ts';

export interface FileTarget extends Entry {
  file: string;
  /** Of the file, epoch ms. */
  changedAt: number;
}

const LOOK_MS = 2000;
/** How long the first look is waited for. */
const PATIENCE_MS = 5000;
/** A file that changed within this time is read again: its next change may leave time and size as they are. */
const SETTLED_MS = 3000;
const TARGETS_MAX = 4096;
const FILES_MAX = 4096;
/** YAML is read at some 400 kB a second, on the thread that scrapes: what would hold it up for long is refused. */
const BYTES_MAX = { json: 1_000_000, yaml: 100_000 };

const AGAIN = `It is looked for every ${LOOK_MS / 1000} s.`;

/** A path or glob and the files that it names. */
interface Source {
  pattern: string;
  files: string[];
  /** What is wrong with all of it. */
  fault: string | null;
}

/** What a file last gave. */
interface Kept {
  /** Which state of the file it is. */
  stamp: string;
  readAt: number;
  changedAt: number;
  entries: Entry[];
  /** Why it could not be read since. */
  fault: string | null;
}

const byName = new Intl.Collator('en', { numeric: true }).compare;
const isGone = (error: unknown) =>
  ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');

/** What is there now. Never throws for what the files hold. */
export async function readTargets(pattern: string): Promise<{ targets: FileTarget[]; state: SourceState }> {
  const source = new FileSource([pattern], () => {});
  await source.start();
  source.stop();
  return { targets: [...source.targets], state: source.states[0]! };
}

/** Watches patterns (absolute paths). Files go by name, patterns as given; the first to name a URL counts. */
export class FileSource {
  private readonly sources: Source[];
  private readonly kept = new Map<string, Kept>();
  private readonly onChange: () => void;
  private found: { targets: FileTarget[]; states: SourceState[] };
  private timer: NodeJS.Timeout | undefined;
  private looked = false;
  private stopped = false;

  /** `onChange`: targets or states are other ones than before; not called for the first read, nor after stop. */
  constructor(patterns: readonly string[], onChange: () => void) {
    this.sources = patterns.map((pattern) => ({ pattern, files: [], fault: null }));
    this.onChange = onChange;
    this.found = {
      targets: [],
      states: patterns.map((pattern) => ({ path: pattern, files: 0, targets: 0, sentence: null })),
    };
  }

  get targets(): readonly FileTarget[] {
    return this.found.targets;
  }

  /** One a pattern, in their order. */
  get states(): readonly SourceState[] {
    return this.found.states;
  }

  /**
   * Resolves when everything was read once. A disk that does not answer (a network filesystem whose server is away) is
   * waited for no longer than a while, so that it holds up nothing else; what it gives later is told as a change.
   */
  async start(): Promise<void> {
    let waiting = true;
    const first = this.look().then((changed) => {
      if (this.stopped) return true;
      this.schedule();
      if (changed && !waiting) this.onChange();
      return true;
    });
    const read = await Promise.race([first, sleep(PATIENCE_MS, false, { ref: false })]);
    waiting = false;
    if (!read)
      for (const state of this.found.states)
        state.sentence = `The disk with ${state.path} does not answer. It is waited for.`;
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  private schedule(): void {
    if (this.sources.length > 0) this.timer = setTimeout(() => void this.lookAgain(), LOOK_MS);
  }

  private async lookAgain(): Promise<void> {
    const changed = await this.look();
    if (this.stopped) return;
    this.schedule();
    if (changed) this.onChange();
  }

  /** Reads what changed, one file after another: a slow disk must not take all of Node's few threads for files. */
  async look(): Promise<boolean> {
    let changed = !this.looked;
    this.looked = true;
    for (const source of this.sources) if (await list(source)) changed = true;
    const wanted = new Set(this.sources.flatMap((source) => source.files));
    for (const file of wanted) if (await this.read(file)) changed = true;
    for (const file of this.kept.keys())
      // broken when it comes back, it has nothing to keep
      if (!wanted.has(file)) this.kept.delete(file);
    if (!changed) return false;
    const found = this.merged();
    const differs = JSON.stringify(found) !== JSON.stringify(this.found);
    this.found = found;
    return differs;
  }

  /** Whether anything may have changed. A file that cannot be read keeps what it last gave; one that is gone does not. */
  private async read(file: string): Promise<boolean> {
    const known = this.kept.get(file);
    const readAt = Date.now();
    const fail = (why: string, stamp: string, changedAt: number) => {
      const entries = known?.entries ?? [];
      const stays = entries.length > 0 ? ' What it named before stays.' : '';
      this.kept.set(file, {
        ...{ stamp, readAt, changedAt, entries },
        fault: `${file} cannot be used: ${why}.${stays}`,
      });
      return true;
    };
    try {
      const stat = await stampOf(file);
      if (stat === null) return this.kept.delete(file);
      const { stamp, changedAt } = stat;
      if (known?.stamp === stamp && known.readAt > changedAt + SETTLED_MS) return false;
      const dialect = /\.json$/i.test(file) ? 'json' : 'yaml';
      const text = await readUpTo(file, BYTES_MAX[dialect]);
      if (text === null) return fail(tooLarge(dialect), stamp, changedAt);
      // somebody is writing it: the next look sees what came of it
      if ((await stampOf(file))?.stamp !== stamp) return false;
      try {
        if (text.trim() === '') throw new Error('it is empty');
        const entries = readEntries(text, dialect, TARGETS_MAX + 1);
        this.kept.set(file, { stamp, readAt, changedAt, entries, fault: null });
        return true;
      } catch (error) {
        return fail(sentenceOf(error).slice(0, 200).replace(/\.$/, ''), stamp, changedAt);
      }
    } catch (error) {
      if (isGone(error)) return this.kept.delete(file);
      return fail(sentenceOf(error), '', known?.changedAt ?? 0);
    }
  }

  private merged(): { targets: FileTarget[]; states: SourceState[] } {
    const targets: FileTarget[] = [];
    const seen = new Set<string>();
    const states = this.sources.map(({ pattern, files, fault }): SourceState => {
      const there = files.flatMap((file) => {
        const kept = this.kept.get(file);
        return kept ? [{ file, ...kept }] : [];
      });
      const own = new Set<string>();
      const wrong: string[] = [];
      let leftOut = false;
      for (const { file, changedAt, entries } of there)
        for (const entry of entries) {
          const key = entry.url ?? `${file}\0${entry.address}`;
          if (entry.sentence !== null) wrong.push(`${file}: ${entry.sentence}`);
          if (!seen.has(key)) {
            if (targets.length === TARGETS_MAX) {
              leftOut = true;
              continue;
            }
            seen.add(key);
            targets.push({ ...entry, file, changedAt });
          }
          if (entry.url !== null) own.add(key);
        }
      const faults = there.flatMap((kept) => kept.fault ?? []);
      return {
        path: pattern,
        files: there.length,
        targets: own.size,
        sentence:
          fault ??
          firstOf(faults) ??
          (leftOut ? `More than ${TARGETS_MAX} targets: the rest of ${pattern} is left out.` : null) ??
          firstOf(wrong) ??
          (there.length === 0 ? `There is no ${pattern}. ${AGAIN}` : null),
      };
    });
    return { targets, states };
  }
}

/** The first sentence, and how many there are besides. */
const firstOf = ([first, ...others]: string[]): string | null =>
  first === undefined || others.length === 0 ? (first ?? null) : `${first} (And ${others.length} more.)`;

const tooLarge = (dialect: 'json' | 'yaml') =>
  dialect === 'json'
    ? 'it is larger than 1 MB'
    : 'it is larger than 100 kB, which is too much YAML. JSON may have 1 MB';

/** Which files a source names now; whether that is another answer than before. */
async function list(source: Source): Promise<boolean> {
  const { pattern } = source;
  const before = JSON.stringify(source);
  const folder = path.dirname(pattern);
  source.fault = null;
  if (!pattern.includes('*')) source.files = [pattern];
  else
    try {
      const names = (await fs.promises.readdir(folder)).filter(matching(path.basename(pattern)));
      const files = names.sort(byName).map((name) => path.join(folder, name));
      source.files = files.slice(0, FILES_MAX);
      if (files.length > FILES_MAX)
        source.fault = `More than ${FILES_MAX} files match ${pattern}: the rest by name is left out.`;
    } catch (error) {
      // one that is there and does not answer keeps its files; where it is gone, so are they
      source.fault = isGone(error)
        ? `There is no folder ${folder}. ${AGAIN}`
        : `The folder ${folder} cannot be read: ${sentenceOf(error)}.`;
    }
  return JSON.stringify(source) !== before;
}

/** Parts between stars, found one after the other: a pattern would try all ways to share a name out between stars. */
function matching(glob: string): (name: string) => boolean {
  const [first = '', ...others] = glob.split('*');
  const last = others.pop();
  if (last === undefined) return (name) => name === glob;
  return (name) => {
    let at = first.length;
    for (const part of others) {
      const found = name.indexOf(part, at);
      if (found < 0) return false;
      at = found + part.length;
    }
    return name.startsWith(first) && name.endsWith(last) && at <= name.length - last.length;
  };
}

/** null where it is no file (a folder, a device that never ends). Throws what the filesystem says. */
async function stampOf(file: string): Promise<{ stamp: string; changedAt: number } | null> {
  const stat = await fs.promises.stat(file);
  if (!stat.isFile()) return null;
  return { stamp: `${stat.mtimeMs} ${stat.size} ${stat.ino}`, changedAt: Math.round(stat.mtimeMs) };
}

/** Its text; null where it is longer than `most` bytes. */
async function readUpTo(file: string, most: number): Promise<string | null> {
  const chunks: Buffer[] = [];
  for await (const chunk of fs.createReadStream(file, { end: most })) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  return bytes.length > most ? null : new TextDecoder().decode(bytes);
}
