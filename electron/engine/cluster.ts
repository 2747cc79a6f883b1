/**
 * One cluster at work: its poller, and the run it records into, if any. Knows nothing of pages; engine.ts tells them.
 */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { Cluster, Ticked } from './api.ts';
import { Clock, localStamp } from './clock.ts';
import { EngineError, sentenceOf } from './errors.ts';
import { settingsOf, type CheckedCluster } from './input.ts';
import type { Library, StoredCluster, StoredRun } from './library.ts';
import { Poller, unasked, type Access, type Batch } from './poll.ts';
import type { ReaderCalls } from './reader.ts';
import { Recording } from './recording.ts';
import { givesNoSecret, mergedSecrets, type ClusterSecrets, type Secrets } from './secrets.ts';
import { RunStore } from './store.ts';
import { ClusterTargets, addressesOf, readAuthorities, unreadSources } from './targets.ts';

export interface ClusterSurroundings {
  library: Library;
  reader: ReaderCalls;
  secrets: Secrets;
  /** Where run files go. */
  runsFolder: string;
  version: string;
  ticked: (data: Ticked) => void;
  changed: (what: 'clusters' | 'runs') => void;
  /** Steps of a run that is being recorded are others. */
  stepped: (run: string) => void;
  /** For what nobody asked for and a person should see: stderr. */
  report: (sentence: string) => void;
}

/** How often the list of runs is brought up to date: a write that waits for the disk. The end of a run does it anyway. */
const SUMMARY_MS = 60_000;

export class ClusterAtWork {
  stored: StoredCluster;
  private readonly around: ClusterSurroundings;
  private readonly clock: Clock;
  private poller: Poller | null = null;
  private targets: ClusterTargets | null = null;
  private recording: Recording | null = null;
  /** Starting, stopping and ending run one after the other. */
  private busy: Promise<unknown> = Promise.resolve();
  private stopped: string | null = null;
  private secretsKept: Cluster['secrets'] = null;
  private removed = false;
  private summaryAt = 0;
  /** How endpoints stood when pages were last told. */
  private told = '';

  constructor(stored: StoredCluster, around: ClusterSurroundings) {
    this.stored = stored;
    this.around = around;
    this.clock = new Clock((byMs) => this.recording?.clockStepped(byMs));
  }

  get state(): Cluster {
    const { id, name, endpoints, files, intervalMs, timeoutMs, caFile, headers, record } = this.stored;
    const { poller, recording } = this;
    return {
      id,
      name,
      addresses: addressesOf(this.stored),
      endpoints: poller
        ? poller.endpoints.flatMap((e, i) =>
            e.listed
              ? { ...e.state, sentence: e.state.sentence ?? recording?.book.severalBehind(i) ?? null }
              : [],
          )
        : endpoints.map((url) => unasked(url, this.stored.logins.includes(url))),
      sources: this.targets?.sources ?? unreadSources(files),
      caFile,
      headers,
      secrets: this.secretsKept,
      intervalSeconds: intervalMs / 1000,
      timeoutSeconds: timeoutMs / 1000,
      record,
      connected: poller !== null,
      recording: recording?.store.meta.id ?? null,
      stopped: this.stopped,
    };
  }

  /** Begins to scrape; records at once where it is set to. `resume`: go on with this run instead of a new one. */
  async connect(resume: StoredRun | null = null): Promise<void> {
    await this.alone(async () => {
      this.refuseRemoved();
      if (this.poller) return;
      try {
        await this.startPolling(resume);
      } catch (error) {
        this.stopped = sentenceOf(error);
        throw error;
      }
      this.put({ connected: true });
      if (this.stored.record && !this.recording) this.beginRecording(null, null);
    });
  }

  private async startPolling(resume: StoredRun | null): Promise<void> {
    const secrets = await this.readSecrets();
    const access = this.access(secrets);
    const apply = () => void this.alone(() => this.applyTargets());
    const targets = new ClusterTargets(this.stored, secrets.logins, apply);
    await targets.start();
    let firstT = 0;
    let origin = this.clock.now();
    let store: RunStore | null = null;
    if (resume) {
      store = RunStore.open(resume.file);
      const last = store.lastTick();
      if (last) this.clock.notBefore(last.at + 1);
      origin = store.meta.startedAt;
      firstT = (last?.t ?? -1) + 1;
      this.recording = this.startRecording(
        store,
        'The engine ended unexpectedly and was started again; the run goes on.',
      );
    }
    this.targets = targets;
    this.poller = new Poller({
      known: store?.endpoints() ?? [],
      access,
      intervalMs: this.stored.intervalMs,
      clock: this.clock,
      origin,
      firstT,
      onBatch: (batch) => this.take(batch),
    });
    this.applyTargets();
    this.poller.start();
  }

  async readSecrets(): Promise<ClusterSecrets> {
    const { id, headers, logins } = this.stored;
    const { secrets, where } = await this.around.secrets.read(id);
    this.secretsKept = where ?? (headers.length + logins.length > 0 ? 'lost' : null);
    return secrets;
  }

  /** Throws `bad-input` where the file of authorities cannot be read. */
  private access({ headers }: ClusterSecrets): Access {
    return { timeoutMs: this.stored.timeoutMs, headers, ca: readAuthorities(this.stored.caFile) };
  }

  private applyTargets(): void {
    if (!this.poller || !this.targets) return;
    const changes = this.poller.setTargets(this.targets.list);
    this.recording?.endpointsChanged(
      changes,
      this.poller.endpoints.map((e) => e.target),
    );
    this.around.changed('clusters');
  }

  /** As it is asked for now; throws `bad-input` and leaves all as it was where that cannot be. */
  async change(input: CheckedCluster): Promise<void> {
    await this.alone(async () => {
      this.refuseRemoved();
      readAuthorities(input.access.caFile);
      const { id, intervalMs, logins } = this.stored;
      const kept = await this.around.secrets.read(id);
      // those that cannot be read here may be readable elsewhere: they stay until others are given
      const untouched = this.secretsKept === 'lost' && givesNoSecret(input);
      const secrets = untouched ? kept.secrets : mergedSecrets(kept.secrets, input);
      if (!untouched) await this.around.secrets.write(id, secrets, input.keepInFile);
      this.put({
        ...settingsOf(input),
        headers: untouched ? input.access.headers.map((h) => h.name) : Object.keys(secrets.headers),
        logins: untouched
          ? logins.filter((url) => input.endpoints.includes(url))
          : Object.keys(secrets.logins),
      });
      await this.readSecrets();
      if (!this.poller) return;
      if (input.intervalMs !== intervalMs) {
        const recorded = this.recording !== null;
        await this.halt();
        await this.startPolling(null);
        if (recorded) this.beginRecording(null, null);
        return;
      }
      this.poller.setAccess(this.access(secrets));
      await this.targets?.change(this.stored, secrets.logins);
      this.applyTargets();
    });
  }

  private refuseRemoved(): void {
    if (this.removed) throw new EngineError('not-found', 'This cluster is not there any more.');
  }

  async disconnect(): Promise<void> {
    await this.alone(async () => {
      try {
        await this.halt();
      } finally {
        this.put({ connected: false });
      }
    });
  }

  /** Disconnects for good: whoever waits to connect it finds it gone. */
  async remove(): Promise<void> {
    this.removed = true;
    await this.disconnect();
  }

  /** Ends the run and scraping, without saying that it should not go on at the next start. */
  private async halt(): Promise<void> {
    try {
      const run = await this.endRecording();
      // nobody answered before it was over: there is nothing to look at
      if (run?.ticks === 0) {
        fs.rmSync(run.file, { force: true });
        this.around.library.removeRun(run.id);
        this.around.changed('runs');
      }
    } finally {
      this.poller?.stop();
      this.poller = null;
      this.told = '';
      this.targets?.stop();
      this.targets = null;
    }
  }

  /** The engine ends: the run is closed, the cluster comes back at the next start. */
  async end(): Promise<void> {
    await this.alone(() => this.halt());
  }

  put(change: Partial<StoredCluster>): void {
    this.stored = { ...this.stored, ...change };
    if (!this.removed) this.around.library.putCluster(this.stored);
    this.around.changed('clusters');
  }

  /** A new run begins. Throws `bad-input` where the cluster is not connected or records already. */
  record(name: string | null, file: string | null = null): Promise<StoredRun> {
    return this.alone(() => this.beginRecording(name, file));
  }

  private beginRecording(name: string | null, file: string | null): StoredRun {
    if (!this.poller)
      throw new EngineError('bad-input', `${this.stored.name} is not connected. Connect it first.`);
    if (this.recording)
      throw new EngineError(
        'bad-input',
        `${this.stored.name} is being recorded already. Stop that run first.`,
      );
    const startedAt = this.clock.now();
    const { id: cluster, name: clusterName, intervalMs, timeoutMs } = this.stored;
    const id = randomUUID();
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
    this.poller.regrid(startedAt, 0); // first: what is there of the slot before belongs to no run
    const endpoints = this.poller.endpoints.map((e) => e.target);
    const store = RunStore.create(file ?? path.join(this.around.runsFolder, `${id}.sqlite`), meta, endpoints);
    this.recording = this.startRecording(store);
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
    this.around.changed('clusters');
    this.around.changed('runs');
    return run;
  }

  /** Ends the run and closes its file; null where none was being recorded. */
  stopRecording(): Promise<StoredRun | null> {
    return this.alone(() => this.endRecording());
  }

  private async endRecording(): Promise<StoredRun | null> {
    const { recording } = this;
    if (!recording) return null;
    this.recording = null;
    let change: Partial<StoredRun> = { state: 'ended-unexpectedly' }; // where its end cannot be written
    try {
      const { generationTokens } = await recording.end();
      change = { state: 'ended', generation_tokens: generationTokens };
    } finally {
      this.summarise(recording, change);
      this.around.changed('clusters');
      this.around.changed('runs');
    }
    return this.around.library.run(recording.store.meta.id) ?? null;
  }

  /** What is being written. */
  get recorded(): Recording | null {
    return this.recording;
  }

  private startRecording(store: RunStore, resumed?: string): Recording {
    return new Recording({
      store,
      reader: this.around.reader,
      stepped: () => this.around.stepped(store.meta.id),
      now: () => this.clock.now(),
      onFault: (error) => void this.fault(error),
      ...(resumed === undefined ? {} : { resumed }),
    });
  }

  private take(batch: Batch): void {
    const { recording } = this;
    const severals = recording?.book.severals;
    recording?.take(batch);
    if (recording?.book.severals !== severals) this.around.changed('clusters');
    if (recording && batch.at - this.summaryAt > SUMMARY_MS) {
      this.summaryAt = batch.at;
      this.summarise(recording, {});
    }
    const listed = this.poller?.listed ?? [];
    const asked = listed.filter((e) => !e.state.stale);
    this.around.ticked({
      cluster: this.stored.id,
      run: this.recording?.store.meta.id ?? null,
      t: batch.t,
      at: batch.at,
      answered: listed.filter((e) => e.state.state === 'ok').length,
      endpoints: asked.length,
      workers: recording?.book.count ?? listed.reduce((n, e) => n + e.state.workers, 0),
    });
    const standing = listed.map(({ state }) => [state.state, state.stale, state.workers].join()).join(';');
    if (standing !== this.told) this.around.changed('clusters');
    this.told = standing;
  }

  /** Writing failed. What was written stays; the sentence stays with the cluster until the next recording. */
  private async fault(error: unknown): Promise<void> {
    const sentence = `Recording stopped: ${sentenceOf(error)}`;
    this.around.report(sentence);
    this.stopped = sentence;
    try {
      await this.stopRecording();
    } catch (again) {
      this.recording = null;
      this.around.report(sentenceOf(again));
      this.around.changed('clusters');
    }
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

  private alone<T>(work: () => T | Promise<T>): Promise<T> {
    const next = this.busy.then(work, work);
    this.busy = next.catch(() => undefined);
    return next;
  }
}

/** With what its WAL still holds; null where it is gone. */
export function fileBytes(file: string): number | null {
  const size = (name: string) => (fs.existsSync(name) ? fs.statSync(name).size : 0);
  return fs.existsSync(file) ? size(file) + size(`${file}-wal`) : null;
}
