/**
 * The engine: createEngine(options) gives the contract's methods, each a few lines over the files below. Owns the data
 * folder (one engine a folder), the clusters at work and the reading thread.
 */
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import type { Events, Implementation, RunSummary } from './api.ts';
import { adoptedRun } from './adopt.ts';
import { metrics } from './catalogue.ts';
import { checkTarget } from './check.ts';
import { ClusterAtWork } from './cluster.ts';
import { DiskRoom, freeBytes, USUAL_MIN_FREE } from './disk-room.ts';
import { EngineError, sentenceOf } from './errors.ts';
import {
  checkedCheck,
  checkedCluster,
  checkQuery,
  number,
  settingsOf,
  text,
  type CheckedCluster,
} from './input.ts';
import { Library, lockFolder, refuseRemoteFolder, type StoredCluster, type StoredRun } from './library.ts';
import type { Keychain } from './parent.ts';
import { startReader } from './reader-thread.ts';
import { createRunAccess } from './run-access.ts';
import { mergedHeaders, noSecrets, Secrets } from './secrets.ts';
import { createStepMethods } from './step-methods.ts';
import { pastedTargets, readAuthorities } from './targets.ts';
import { createTrainerMethods } from './trainer-steps.ts';
import { createUploads } from './uploads.ts';
import { WandbAccounts } from './wandb-accounts.ts';

export interface EngineOptions {
  dataFolder: string;
  version: string;
  /** Started again after it died under the app: runs that were being written go on. */
  resume?: boolean;
  /** Scrape nothing by itself: for a call that only reads. */
  idle?: boolean;
  /** The OS's, by way of the desktop app; null or absent: there is none. */
  keychain?: Keychain | null;
  /** The system's proxy for an address, by way of the desktop app; undefined: as the environment says. */
  proxyFor?: (url: string) => Promise<string | null | undefined>;
  /** Recording stops where less than this is free; 0: when the disk is full. Absent: 2 GB. */
  minFreeBytes?: number;
  /** Given by tests. */
  freeBytes?: (folder: string) => number | null;
  /** What a person should see. */
  report?: (sentence: string) => void;
}

export interface Engine {
  methods: Implementation;
  on: <E extends keyof Events>(event: E, listener: (data: Events[E]) => void) => () => void;
  /** As addCluster, but into a file of the caller's. */
  recordInto(clusterId: string, file: string): Promise<RunSummary>;
  /** A run file from elsewhere becomes one of the runs. Throws what adopt.ts says. */
  adopt(file: string): RunSummary;
  /** Closes runs and files. */
  close(): Promise<void>;
}

/** Throws `folder-locked`, `folder-remote`, or what library.db says of itself. */
export async function createEngine(options: EngineOptions): Promise<Engine> {
  const { dataFolder, version, keychain = null, report = (s) => console.error(s) } = options;
  makeFolder(dataFolder);
  const runsFolder = path.join(dataFolder, 'runs');
  fs.mkdirSync(runsFolder, { recursive: true });
  refuseRemoteFolder(dataFolder);
  const lock = lockFolder(dataFolder);
  let library: Library;
  try {
    library = new Library(dataFolder);
  } catch (error) {
    lock.release();
    throw error;
  }
  const reader = startReader((error) => report(`The reading thread ended: ${sentenceOf(error)}`));
  const events = new EventEmitter();
  events.setMaxListeners(0);
  const emit = <E extends keyof Events>(event: E, data: Events[E]) => void events.emit(event, data);
  const secrets = new Secrets(dataFolder, keychain);
  const around = {
    library,
    secrets,
    reader: reader.calls,
    room: new DiskRoom(options.minFreeBytes ?? USUAL_MIN_FREE, options.freeBytes),
    runsFolder,
    version,
    ticked: (data: Events['ticked']) => emit('ticked', data),
    changed: (what: 'clusters' | 'runs') => {
      emit('changed', { what });
      if (what === 'runs') uploads.runsChanged();
    },
    stepped: (run: string) => steps.stepped(run),
    report,
  };
  const clusters = new Map<string, ClusterAtWork>();

  const clusterOf = (id: string): ClusterAtWork => {
    const cluster = clusters.get(id);
    if (!cluster) throw new EngineError('not-found', 'This cluster is not there any more.');
    return cluster;
  };
  const runOf = (id: unknown): StoredRun => {
    const run = library.run(text(id, 'The id of a run'));
    if (!run) throw new EngineError('not-found', `No run "${String(id)}" in ${dataFolder}.`);
    return run;
  };

  const { closeUnexpected, readyToRead, withStore, rolledUp } = createRunAccess({
    library,
    reader: reader.calls,
    liveStore: (run) => {
      const store = clusters.get(run.cluster)?.recorded?.store;
      return store?.meta.id === run.id ? store : undefined;
    },
    runsChanged: () => emit('changed', { what: 'runs' }),
    ...{ emit, report },
  });

  const steps = createStepMethods({
    reader: reader.calls,
    runOf,
    runs: () => library.runs(),
    readyToRead,
    withStore,
    restartSteps: (run) => clusters.get(run.cluster)?.recorded?.steps.restart(),
    now: () => Date.now(),
    emit,
    report,
  });

  const accounts = new WandbAccounts({
    ...{ library, secrets, env: process.env },
    proxyFor: options.proxyFor ?? (() => Promise.resolve(undefined)),
  });
  const uploads = createUploads({
    ...{ library, reader: reader.calls, accounts, version, dataFolder, runOf, readyToRead, emit, report },
    fill: (run, source) => steps.complete(run, source),
    now: () => Date.now(),
  });

  const methods: Implementation = {
    ...steps.methods,
    ...uploads.methods,
    ...createTrainerMethods({
      accounts,
      reader: reader.calls,
      runOf,
      readyToRead,
      emit,
      take: (run, set) => steps.take(run, set),
    }),

    info: () => ({
      version,
      dataFolder,
      pid: process.pid,
      freeBytes: freeBytes(dataFolder),
      keychain: keychain !== null,
    }),
    // what a metric is made of is the engine's business
    catalogue: () =>
      metrics.map(({ id, title, kind, unit, fleet, shown, about }) => ({
        id,
        title,
        kind,
        unit,
        fleet,
        shown,
        about,
      })),

    preferences: () => library.preferences(),
    setPreference: (key, value) => {
      // a value that was not given: the signal stands in its place
      if (value instanceof AbortSignal) throw new EngineError('bad-input', 'A preference needs a value.');
      library.setPreference(text(key, 'A preference key'), value);
    },

    listClusters: () => [...clusters.values()].map((c) => c.state),
    addCluster: async (input) => {
      const wanted = checkedCluster(input);
      const cluster = new ClusterAtWork(newCluster(wanted), around);
      await cluster.change(wanted);
      clusters.set(cluster.stored.id, cluster);
      await cluster.connect();
      return cluster.state;
    },
    updateCluster: async (id, input) => {
      await clusterOf(id).change(checkedCluster(input));
      return clusterOf(id).state;
    },
    targets: (addresses) => pastedTargets(text(addresses, 'Addresses')),
    removeCluster: async (id) => {
      const cluster = clusterOf(id);
      await cluster.remove();
      clusters.delete(id);
      library.removeCluster(id);
      secrets.remove(id);
      emit('changed', { what: 'clusters' });
    },
    connectCluster: async (id) => {
      await clusterOf(id).connect();
      return clusterOf(id).state;
    },
    disconnectCluster: async (id) => {
      await clusterOf(id).disconnect();
      return clusterOf(id).state;
    },
    setRecord: (id, record) => {
      clusterOf(id).put({ record: record === true });
      return clusterOf(id).state;
    },

    startRecording: async (id, name) =>
      summary(await clusterOf(id).record(typeof name === 'string' ? name : null)),
    stopRecording: async (id) => {
      const run = await clusterOf(id).stopRecording();
      if (!run) throw new EngineError('bad-input', 'Nothing is being recorded there.');
      return summary(run);
    },

    listRuns: () => library.runs().map(summary),
    renameRun: async (id, name) => {
      const run = { ...runOf(id), name: text(name, 'A run needs a name').slice(0, 200) };
      await readyToRead(run);
      await withStore(run, (store) => store.rename(run.name));
      library.putRun(run);
      emit('changed', { what: 'runs' });
      return summary(run);
    },
    getRun: async (id, signal) => {
      const run = runOf(id);
      await readyToRead(run);
      const contents = await reader.calls.contents(run.file, signal);
      const { firstAt, lastAt, ...rest } = contents;
      return {
        ...summary(run),
        ...rest,
        workers: contents.workerList.length,
        firstAt: firstAt ?? run.started,
        lastAt: lastAt ?? run.started,
      };
    },
    events: async (id, from, to, signal) => {
      const run = runOf(id);
      await readyToRead(run);
      return reader.calls.events(run.file, number(from, 'from'), number(to, 'to'), signal);
    },
    timelines: async (query, signal) => {
      checkQuery(query);
      number(query.points, 'points');
      const run = runOf(query.run);
      await readyToRead(run);
      return reader.calls.timelines(run.file, query, signal);
    },
    statistics: async (query, signal) => {
      checkQuery(query);
      const run = runOf(query.run);
      await readyToRead(run);
      return reader.calls.statistics(run.file, query, signal);
    },

    check: async (input, signal) => {
      const { url, login, access } = checkedCheck(input);
      const kept = input.cluster
        ? (await secrets.read(clusterOf(input.cluster).stored.id)).secrets
        : noSecrets();
      return checkTarget(
        {
          url,
          timeoutMs: access.timeoutMs,
          headers: mergedHeaders(kept.headers, access.headers),
          login: login ?? (input.forgetLogins === true ? null : (kept.logins[url] ?? null)),
          ca: readAuthorities(access.caFile),
        },
        signal,
      );
    },
  };

  // to delete a run is to delete its file; where its whole folder is away, a disk is
  for (const run of library.runs())
    if (!fs.existsSync(run.file) && fs.existsSync(path.dirname(run.file))) library.removeRun(run.id);
  const recording = library.runs().filter((run) => run.state === 'recording');
  if (!options.resume) recording.forEach(closeUnexpected);
  for (const stored of library.clusters()) {
    const cluster = new ClusterAtWork(stored, around);
    clusters.set(stored.id, cluster);
    await cluster.readSecrets();
    if (!stored.connected || options.idle) continue;
    const run = options.resume ? recording.find((r) => r.cluster === stored.id) : undefined;
    try {
      await cluster.connect(run ?? null);
    } catch (error) {
      // the run cannot go on (its file is damaged or gone): what is there stays, and a new one begins
      report(sentenceOf(error));
      if (run) closeUnexpected(run);
      await cluster.connect().catch((again: unknown) => report(sentenceOf(again)));
    }
  }
  if (options.resume)
    for (const run of recording)
      if (![...clusters.values()].some((c) => c.state.recording === run.id)) closeUnexpected(run);

  if (options.resume) uploads.goOn();

  return {
    methods,
    on: (event, listener) => {
      events.on(event, listener);
      return () => events.off(event, listener);
    },
    recordInto: async (id, file) => {
      if (fs.existsSync(path.dirname(file))) refuseRemoteFolder(path.dirname(file));
      return summary(await clusterOf(id).record(null, file));
    },
    adopt: (file) => {
      const run = adoptedRun(file);
      library.putRun(run);
      return summary(run);
    },
    close: async () => {
      for (const cluster of clusters.values())
        await cluster.end().catch((error: unknown) => report(sentenceOf(error))); // the others are ended all the same
      await uploads.close();
      await steps.close();
      await rolledUp();
      await reader.close();
      library.close();
      lock.release();
    },
  };
}

const newCluster = (input: CheckedCluster): StoredCluster => ({
  id: randomUUID(),
  ...settingsOf(input),
  headers: [],
  logins: [],
  record: input.record,
  connected: true,
  added: Date.now(),
});

const summary = (r: StoredRun): RunSummary => ({
  id: r.id,
  name: r.name,
  clusterId: r.cluster,
  clusterName: r.cluster_name,
  state: r.state,
  startedAt: r.started,
  endedAt: r.ended,
  intervalSeconds: r.interval_ms / 1000,
  endpoints: r.endpoints,
  workers: r.workers,
  ticks: r.ticks,
  file: r.file,
  bytes: r.bytes,
  generationTokens: r.generation_tokens,
});

function makeFolder(folder: string): void {
  try {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    fs.accessSync(folder, fs.constants.W_OK);
  } catch (error) {
    throw new EngineError(
      'bad-input',
      `${folder} cannot be written to (${sentenceOf(error)}). Choose another folder with --data DIR.`,
    );
  }
}
