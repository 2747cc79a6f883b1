/**
 * The runs of one cluster, one after the other: begins and ends them, keeps the list of runs up to date, and holds the
 * run while its disk has no room: then nothing is written, and it goes on by itself as a new stretch.
 */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { localStamp, type Clock } from './clock.ts';
import { folderOf, type DiskRoom } from './disk-room.ts';
import { EngineError, sentenceOf } from './errors.ts';
import type { Library, StoredCluster, StoredRun } from './library.ts';
import type { Batch, Poller, TargetChanges } from './poll.ts';
import type { ReaderCalls } from './reader.ts';
import { Recording } from './recording.ts';
import { asEngineError } from './schema.ts';
import { RunStore, type StoredEndpoint } from './store.ts';

export interface RecorderSurroundings {
  library: Library;
  reader: ReaderCalls;
  room: DiskRoom;
  /** Where run files go. */
  runsFolder: string;
  version: string;
  changed: (what: 'clusters' | 'runs') => void;
  /** Steps of a run that is being recorded are others. */
  stepped: (run: string) => void;
  /** For what nobody asked for and a person should see: stderr. */
  report: (sentence: string) => void;
}

/** A run that is not written for want of room. */
interface Held {
  run: string;
  file: string;
  since: number;
  /** What became of endpoints meanwhile, for when it goes on. */
  changes: { changes: TargetChanges; endpoints: readonly StoredEndpoint[] }[];
}

/** How often the list of runs is brought up to date: a write that waits for the disk. The end of a run does it anyway. */
const SUMMARY_MS = 60_000;

export class Recorder {
  /** What is being written. */
  recording: Recording | null = null;
  /** Why recording stopped, until the next one begins. */
  stopped: string | null = null;
  private held: Held | null = null;
  private readonly around: RecorderSurroundings;
  private readonly clock: Clock;
  /** Ends a recording after what the cluster is at. */
  private readonly alone: <T>(work: () => T | Promise<T>) => Promise<T>;
  private summaryAt = 0;

  constructor(around: RecorderSurroundings, clock: Clock, alone: Recorder['alone']) {
    this.around = around;
    this.clock = clock;
    this.alone = alone;
  }

  /** The run that is written, or waits for room; null: none. */
  get run(): string | null {
    return this.recording?.store.meta.id ?? this.held?.run ?? null;
  }

  /** A new run begins. Throws `bad-input` where one is recorded already, `disk-full` where there is no room. */
  begin(stored: StoredCluster, poller: Poller, name: string | null, wanted: string | null): StoredRun {
    const startedAt = this.clock.now();
    const { id: cluster, name: clusterName, intervalMs, timeoutMs } = stored;
    if (this.run !== null)
      throw new EngineError('bad-input', `${clusterName} is being recorded already. Stop that run first.`);
    const id = randomUUID();
    const file = wanted ?? path.join(this.around.runsFolder, `${id}.sqlite`);
    const lack = this.around.room.lack(folderOf(file));
    if (lack !== null) throw new EngineError('disk-full', lack);
    const meta = {
      id,
      name: name?.trim().slice(0, 200) || `${clusterName} ${localStamp(startedAt)}`,
      cluster,
      clusterName,
      startedAt,
      intervalMs,
      timeoutMs,
      appVersion: this.around.version,
    };
    poller.regrid(startedAt, 0); // first: what is there of the slot before belongs to no run
    const endpoints = poller.endpoints.map((e) => e.target);
    const store = RunStore.create(file, meta, endpoints);
    this.recording = this.start(store);
    this.stopped = null;
    const run: StoredRun = {
      id,
      file: store.file,
      name: meta.name,
      cluster,
      cluster_name: clusterName,
      state: 'recording',
      started: startedAt,
      ended: null,
      interval_ms: intervalMs,
      endpoints: endpoints.length,
      workers: 0,
      ticks: 0,
      bytes: null,
      generation_tokens: null,
    };
    this.around.library.putRun(run);
    this.changed();
    return run;
  }

  /** Goes on with a run; `why` is said as the beginning of a new stretch. */
  resume(file: string, why: string): RunStore {
    const store = RunStore.open(file);
    this.recording = this.start(store, why);
    return store;
  }

  /** Ends the run and closes its file; null where none was being recorded. */
  async end(): Promise<StoredRun | null> {
    const { recording, held } = this;
    if (held) {
      this.held = null;
      const run = this.around.library.run(held.run);
      if (run) this.around.library.putRun({ ...run, state: 'ended' });
      this.changed();
      return this.around.library.run(held.run) ?? null;
    }
    if (!recording) return null;
    this.recording = null;
    let change: Partial<StoredRun> = { state: 'ended-unexpectedly' }; // where its end cannot be written
    try {
      const { generationTokens } = await recording.end();
      change = { state: 'ended', generation_tokens: generationTokens };
    } finally {
      this.summarise(recording, change);
      this.changed();
    }
    return this.around.library.run(recording.store.meta.id) ?? null;
  }

  take(batch: Batch): void {
    this.lookForRoom();
    const { recording } = this;
    if (!recording) return;
    recording.take(batch);
    if (batch.at - this.summaryAt <= SUMMARY_MS) return;
    this.summaryAt = batch.at;
    this.summarise(recording, {});
  }

  endpointsChanged(changes: TargetChanges, endpoints: readonly StoredEndpoint[]): void {
    this.recording?.endpointsChanged(changes, endpoints);
    this.held?.changes.push({ changes, endpoints });
  }

  private lookForRoom(): void {
    const { recording, held } = this;
    const { room } = this.around;
    if (recording) {
      const lack = room.lack(folderOf(recording.store.file));
      if (lack !== null) this.fault(new EngineError('disk-full', lack));
    } else if (held && room.isBack(folderOf(held.file))) this.goOn(held);
  }

  private goOn(held: Held): void {
    const since = new Date(held.since).toISOString();
    try {
      this.resume(held.file, `There was no room on the disk from ${since} on; the run goes on.`);
    } catch (error) {
      // full again at once, or the file went meanwhile: said, and tried again as long as there is room
      this.stopped = `Recording stopped: ${sentenceOf(error)}`;
      return;
    }
    this.held = null;
    this.stopped = null;
    for (const { changes, endpoints } of held.changes) this.recording?.endpointsChanged(changes, endpoints);
    this.changed();
  }

  private start(store: RunStore, resumed?: string): Recording {
    return new Recording({
      store,
      reader: this.around.reader,
      stepped: () => this.around.stepped(store.meta.id),
      now: () => this.clock.now(),
      onFault: (error) => this.fault(error),
      ...(resumed === undefined ? {} : { resumed }),
    });
  }

  /** Writing failed, or must not go on. What was written stays; the sentence stays with the cluster until it goes on. */
  private fault(raw: unknown): void {
    const { recording } = this;
    if (!recording) return;
    const error = asEngineError(raw, recording.store.file);
    const sentence = `Recording stopped: ${sentenceOf(error)}`;
    this.around.report(sentence);
    this.stopped = sentence;
    if (error instanceof EngineError && error.kind === 'disk-full') {
      this.recording = null;
      const { file, meta } = recording.store;
      this.held = { run: meta.id, file, since: this.clock.now(), changes: [] };
      // the list of runs may be on the same disk
      const unsaid = (again: unknown) => this.around.report(sentenceOf(again));
      recording.giveUp().catch(unsaid);
      try {
        this.summarise(recording, {});
      } catch (again) {
        unsaid(again);
      }
      this.changed();
      return;
    }
    this.alone(() => this.end()).catch((again: unknown) => {
      this.recording = null;
      this.around.report(sentenceOf(again));
      this.around.changed('clusters');
    });
  }

  private changed(): void {
    this.around.changed('clusters');
    this.around.changed('runs');
  }

  /** Brings the list of runs up to date. */
  private summarise(recording: Recording, change: Partial<StoredRun>): void {
    const { store } = recording;
    const run = this.around.library.run(store.meta.id);
    if (!run) return;
    this.around.library.putRun({
      ...run,
      name: store.meta.name,
      ended: recording.lastAt,
      ticks: store.ticks,
      workers: store.workers,
      endpoints: recording.endpoints,
      bytes: fileBytes(store.file),
      ...change,
    });
  }
}

/** With what its WAL still holds; null where it is gone. */
export function fileBytes(file: string): number | null {
  const size = (name: string) => (fs.existsSync(name) ? fs.statSync(name).size : 0);
  return fs.existsSync(file) ? size(file) + size(`${file}-wal`) : null;
}
