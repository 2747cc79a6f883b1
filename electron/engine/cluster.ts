/**
 * One cluster at work: its poller, and the run it records into, if any. Knows nothing of pages; engine.ts tells them.
 */
import fs from 'node:fs';
import type { Cluster, Ticked } from './api.ts';
import { Clock } from './clock.ts';
import { EngineError, sentenceOf } from './errors.ts';
import { settingsOf, type CheckedCluster } from './input.ts';
import type { StoredCluster, StoredRun } from './library.ts';
import { Poller, unasked, type Access, type Batch } from './poll.ts';
import { Recorder, type RecorderSurroundings } from './recorder.ts';
import type { Recording } from './recording.ts';
import { givesNoSecret, mergedSecrets, type ClusterSecrets, type Secrets } from './secrets.ts';
import type { RunStore } from './store.ts';
import { ClusterTargets, addressesOf, readAuthorities, unreadSources } from './targets.ts';

export interface ClusterSurroundings extends RecorderSurroundings {
  secrets: Secrets;
  ticked: (data: Ticked) => void;
}

export class ClusterAtWork {
  stored: StoredCluster;
  private readonly around: ClusterSurroundings;
  private readonly clock: Clock;
  private poller: Poller | null = null;
  private targets: ClusterTargets | null = null;
  private readonly recorder: Recorder;
  /** Starting, stopping and ending run one after the other. */
  private busy: Promise<unknown> = Promise.resolve();
  private secretsKept: Cluster['secrets'] = null;
  private removed = false;
  /** It is to be recorded as soon as its disk has room. */
  private waitsForRoom = false;
  /** How endpoints stood when pages were last told. */
  private told = '';

  constructor(stored: StoredCluster, around: ClusterSurroundings) {
    this.stored = stored;
    this.around = around;
    this.clock = new Clock((byMs) => this.recorded?.clockStepped(byMs));
    this.recorder = new Recorder(around, this.clock, (work) => this.alone(work));
  }

  get state(): Cluster {
    const { id, name, endpoints, files, intervalMs, timeoutMs, caFile, headers, record } = this.stored;
    const { poller } = this;
    return {
      id,
      name,
      addresses: addressesOf(this.stored),
      endpoints: poller
        ? poller.endpoints.flatMap((e, i) =>
            e.listed
              ? { ...e.state, sentence: e.state.sentence ?? this.recorded?.book.severalBehind(i) ?? null }
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
      recording: this.recorder.run,
      stopped: this.recorder.stopped,
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
        this.recorder.stopped = sentenceOf(error);
        throw error;
      }
      this.put({ connected: true });
      if (this.stored.record && this.recorder.run === null) this.beginWhereThereIsRoom();
    });
  }

  /** Otherwise later, by itself: the cluster is watched meanwhile. */
  private beginWhereThereIsRoom(): void {
    try {
      this.beginRecording(null, null);
    } catch (error) {
      if (!(error instanceof EngineError && error.kind === 'disk-full')) throw error;
      this.recorder.stopped = `Nothing is recorded: ${error.message}`;
      this.waitsForRoom = true;
      this.around.changed('clusters');
    }
  }

  private lookForRoom(): void {
    if (!this.waitsForRoom || !this.around.room.isBack(this.around.runsFolder)) return;
    this.waitsForRoom = false;
    this.alone(() => {
      if (this.poller && this.recorder.run === null) this.beginRecording(null, null);
    }).catch((error: unknown) => this.around.report(sentenceOf(error)));
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
      store = this.recorder.resume(
        resume.file,
        'The engine ended unexpectedly and was started again; the run goes on.',
      );
      const last = store.lastTick();
      if (last) this.clock.notBefore(last.at + 1);
      origin = store.meta.startedAt;
      firstT = (last?.t ?? -1) + 1;
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
    this.recorder.endpointsChanged(
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
        const recorded = this.recorder.run !== null;
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
      const run = await this.recorder.end();
      // nobody answered before it was over: there is nothing to look at
      if (run?.ticks === 0) {
        fs.rmSync(run.file, { force: true });
        this.around.library.removeRun(run.id);
        this.around.changed('runs');
      }
    } finally {
      this.waitsForRoom = false;
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

  /** A new run begins. Throws `bad-input` where the cluster is not connected or records already, `disk-full`. */
  record(name: string | null, file: string | null = null): Promise<StoredRun> {
    return this.alone(() => this.beginRecording(name, file));
  }

  private beginRecording(name: string | null, file: string | null): StoredRun {
    if (!this.poller)
      throw new EngineError('bad-input', `${this.stored.name} is not connected. Connect it first.`);
    return this.recorder.begin(this.stored, this.poller, name, file);
  }

  /** Ends the run and closes its file; null where none was being recorded. */
  stopRecording(): Promise<StoredRun | null> {
    return this.alone(() => this.recorder.end());
  }

  /** What is being written. */
  get recorded(): Recording | null {
    return this.recorder.recording;
  }

  private take(batch: Batch): void {
    const severals = this.recorded?.book.severals;
    this.recorder.take(batch);
    this.lookForRoom();
    const recording = this.recorded;
    if (recording?.book.severals !== severals) this.around.changed('clusters');
    const listed = this.poller?.listed ?? [];
    const asked = listed.filter((e) => !e.state.stale);
    this.around.ticked({
      cluster: this.stored.id,
      run: recording?.store.meta.id ?? null,
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

  private alone<T>(work: () => T | Promise<T>): Promise<T> {
    const next = this.busy.then(work, work);
    this.busy = next.catch(() => undefined);
    return next;
  }
}
