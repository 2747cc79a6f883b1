/** A run's rows as the W&B client asks for them: out of the reading thread, the same ones every time. */
import type { ReaderCalls } from './reader.ts';
import type { Mapping } from './upload-mapping.ts';
import { otherSteps } from './upload-earlier.ts';
import type { PlotFile, Rows } from './upload-rows.ts';
import { needsNewRun } from './wandb/errors.ts';
import type {
  JsonObject,
  MetricDefinition,
  RunIdentity,
  UploadFile,
  UploadSource,
} from './wandb/contract.ts';

/** So many rows, and the digest of what they are about; null: none yet. */
export interface GivenRows {
  rows: number;
  digest: string | null;
}

export interface RowSourceOptions {
  reader: ReaderCalls;
  file: string;
  mapping: Mapping;
  identity: RunIdentity;
  config: JsonObject;
  metrics: readonly MetricDefinition[];
  /** Computes what is missing, so that rows of steps that ended meanwhile are there. */
  fill: () => Promise<void>;
  /** What was given to be sent before. */
  given: GivenRows;
  /** This may be sent next. */
  gave: (given: GivenRows) => void;
  /** Live only: null while the run is recorded. */
  ended: () => number | null;
}

export class RowSource implements UploadSource {
  readonly identity: RunIdentity;
  readonly config: JsonObject;
  readonly metrics: readonly MetricDefinition[];
  private readonly options: RowSourceOptions;
  private given: GivenRows;
  /** What rows up to `until` added up to. */
  private seen: { until: number; summary: JsonObject; files: readonly PlotFile[] } = {
    until: 0,
    summary: {},
    files: [],
  };

  constructor(options: RowSourceOptions) {
    this.options = options;
    this.given = options.given;
    this.identity = options.identity;
    this.config = options.config;
    this.metrics = options.metrics;
  }

  async lineCount(): Promise<number> {
    const { reader, file, mapping, fill } = this.options;
    await fill();
    const count = await reader.rowCount(file, mapping);
    this.refuseOthers(await reader.rowsDigest(file, mapping, this.given.rows));
    return count;
  }

  async lines(first: number, max: number): Promise<string[]> {
    const { lines, digest, ...more } = await this.read(first, max);
    if (first === this.seen.until) this.add(first + lines.length, more);
    if (first + lines.length > this.given.rows) {
      this.given = { rows: first + lines.length, digest };
      this.options.gave(this.given);
    }
    return lines;
  }

  private async read(first: number, max: number): Promise<Rows> {
    const { reader, file, mapping } = this.options;
    const found = await reader.rows(file, mapping, first, max, this.given.rows);
    this.refuseOthers(found.sentDigest);
    return found;
  }

  /** Throws where the steps of rows that were given are others by now: to go on would miss some, or send some twice. */
  private refuseOthers(digest: string | null): void {
    if (this.given.digest !== null && digest !== this.given.digest) throw needsNewRun(otherSteps);
  }

  async summary(lines: number): Promise<JsonObject> {
    const { _step, _timestamp, _runtime, ...last } = (await this.seenTo(lines)).summary;
    const runtime = typeof _runtime === 'number' ? _runtime : 0;
    if (lines === 0) return { _runtime: 0, _wandb: { runtime: 0 } };
    return {
      ...last,
      _step: _step!,
      _timestamp: _timestamp!,
      _runtime: runtime,
      _wandb: { runtime: Math.floor(runtime) },
    };
  }

  async files(lines: number): Promise<UploadFile[]> {
    const { reader, file, mapping } = this.options;
    if (!mapping.choice.plots) return [];
    return (await this.seenTo(lines)).files.map(({ name, bytes, line }) => ({
      name,
      size: bytes,
      read: async () => {
        const text = await reader.plotText(file, mapping, line, name);
        if (text === null) throw new Error(`Row ${line} has no ${name} any more.`);
        return Buffer.from(text);
      },
    }));
  }

  ended(): number | null {
    return this.options.ended();
  }

  private async seenTo(lines: number) {
    // asked for fewer than before: from the start
    if (lines < this.seen.until) this.seen = { until: 0, summary: {}, files: [] };
    const { until } = this.seen;
    if (lines > until) this.add(lines, await this.read(until, lines - until));
    return this.seen;
  }

  private add(until: number, more: { summary: JsonObject; files: readonly PlotFile[] }): void {
    const { summary, files } = this.seen;
    this.seen = { until, summary: { ...summary, ...more.summary }, files: [...files, ...more.files] };
  }
}
