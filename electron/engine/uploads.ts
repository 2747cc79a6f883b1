/**
 * Runs on their way to W&B: begins, pauses and ends uploads, and keeps what W&B has of each in the library. What goes up
 * is upload-rows.ts' work, how it gets there the client's (wandb/).
 */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import type { Events, Implementation } from './api.ts';
import type { Upload, UploadInput, UploadStart, WandbMethods, WandbTarget } from './api-wandb.ts';
import { EngineError, sentenceOf } from './errors.ts';
import { checkedUpload, defaultChoice } from './input-uploads.ts';
import { text } from './input.ts';
import type { Library, StoredRun, StoredUpload } from './library.ts';
import type { ReaderCalls } from './reader.ts';
import { SCALARS_VERSION } from './scalars.ts';
import type { TrainerMethods } from './trainer-steps.ts';
import { configOf, MAPPING_VERSION, metricDefinitions, sameTarget, type Mapping } from './upload-mapping.ts';
import { earlierUpload, isDescribed, isOfOtherVersion, otherVersion } from './upload-earlier.ts';
import { RowSource } from './upload-source.ts';
import { accountMethods, problemOf, saidPlainly, type WandbAccounts } from './wandb-accounts.ts';
import { runUrl } from './wandb/account.ts';
import { writeOfflineRun } from './wandb/dotwandb.ts';
import { needsNewRun, WandbError } from './wandb/errors.ts';
import type { Http } from './wandb/http.ts';
import { Sender } from './wandb/sender.ts';
import type { LedgerState, UploadProgress } from './wandb/contract.ts';

export interface UploadSurroundings {
  library: Library;
  reader: ReaderCalls;
  accounts: WandbAccounts;
  version: string;
  dataFolder: string;
  /** Throws `not-found`. */
  runOf: (id: unknown) => StoredRun;
  readyToRead: (run: StoredRun) => Promise<void>;
  /** Finds the run's steps and computes their numbers, as far as they are missing. */
  fill: (run: StoredRun, source: Mapping['choice']['source']) => Promise<void>;
  now: () => number;
  emit: <E extends keyof Events>(event: E, data: Events[E]) => void;
  report: (sentence: string) => void;
}

/** Of runs with more workers than have keys of their own. */
const WORST = 3;
/** What was chosen last, for the next run. */
const PREFERENCE = 'wandb';
type Chosen = Pick<UploadInput, 'target' | 'choice'>;

interface AtWork {
  sender: Sender;
  http: Http;
  progress: UploadProgress | null;
  /** Live: with what the run ends on W&B; null: it is recorded. */
  exitCode: number | null;
  done: Promise<void>;
}

export interface UploadWork {
  methods: { [M in Exclude<keyof WandbMethods, keyof TrainerMethods>]: Implementation[M] };
  /** A run may no longer be recorded: then its live upload ends. */
  runsChanged(): void;
  /** Live uploads of runs that are recorded go on where they were when the engine ended. */
  goOn(): void;
  close(): Promise<void>;
}

export function createUploads(around: UploadSurroundings): UploadWork {
  const { library, reader, accounts, runOf } = around;
  const working = new Map<string, AtWork>();
  /** Runs whose upload is about to begin: it must not begin twice. */
  const starting = new Set<string>();
  let closed = false;

  const stored = (run: string): StoredUpload | undefined => library.uploads(run)[0];
  /** The one that would go on with what is asked for: the newest to that place, otherwise the newest. */
  const storedFor = (run: string, { target }: UploadInput): StoredUpload | undefined =>
    library.uploads(run).find((u) => u.created && sameTarget(u.target, target)) ?? stored(run);
  const put = (upload: StoredUpload): StoredUpload => {
    const now = { ...upload, updated: around.now() };
    library.putUpload(now);
    return now;
  };
  const change = (id: string, run: string, changed: Partial<StoredUpload>) => {
    const upload = stored(run);
    if (upload?.id === id) put({ ...upload, ...changed });
  };

  const isRecorded = (run: string) => library.run(run)?.state === 'recording';

  const shown = (u: StoredUpload, rowsTotal: number): Upload => {
    const work = working.get(u.run);
    const place = { entity: u.entity ?? u.target.entity, project: u.project ?? u.target.project };
    return {
      ...{ run: u.run, target: u.target, choice: u.mapping.choice, live: u.live, runId: u.id },
      state: u.state === 'sending' && !work ? 'interrupted' : u.state,
      url:
        u.created && place.entity
          ? runUrl(
              u.target.server,
              { entity: place.entity, project: place.project, runId: u.id },
              accounts.found(u.target.server).appUrl,
            )
          : null,
      ...{ rows: u.acked, rowsTotal: Math.max(u.acked, work?.progress?.rowsTotal ?? rowsTotal) },
      ...{
        progress: work?.progress ?? null,
        problem: u.problem,
        failedFiles: u.failed,
        updatedAt: u.updated,
      },
    };
  };
  const tell = (run: string, rowsTotal = 0): Upload => {
    const upload = shown(stored(run)!, rowsTotal);
    around.emit('uploading', upload);
    return upload;
  };

  const ready = async (id: unknown, source: Mapping['choice']['source']): Promise<StoredRun> => {
    const run = runOf(id);
    await around.readyToRead(run);
    await around.fill(run, source);
    return run;
  };

  /** Workers with keys of their own, where not all can have them: those that ended last most often. */
  const worst = async (run: StoredRun): Promise<number[]> => {
    const { workers } = await reader.stragglers(run.file, run.started, around.now());
    return workers
      .sort((a, b) => b.endedLast - a.endedLast || a.idleSeconds - b.idleSeconds || a.w - b.w)
      .slice(0, WORST)
      .map(({ w }) => w)
      .sort((a, b) => a - b);
  };
  const freeze = async (run: StoredRun, choice: Mapping['choice']): Promise<Mapping> => ({
    ...{ version: MAPPING_VERSION, formulas: SCALARS_VERSION, choice },
    workers: choice.workers > 0 && run.workers > choice.workers ? await worst(run) : null,
  });

  const sourceOf = async (
    run: StoredRun,
    u: Pick<StoredUpload, 'id' | 'target' | 'mapping' | 'digest' | 'digestRows'>,
    ended: () => number | null,
  ) => {
    const { target, mapping } = u;
    const { workerList, endpointList } = await reader.contents(run.file);
    return new RowSource({
      ...{ reader, file: run.file, mapping, ended },
      identity: {
        ...{ entity: target.entity, project: target.project, runId: u.id },
        ...{ displayName: target.name || null, group: target.group || null, jobType: 'vllm-metrics' },
        ...{ tags: target.tags, notes: target.notes || null },
      },
      config: configOf(
        {
          ...{ version: around.version, name: run.name, cluster: run.cluster_name },
          ...{ startedAt: run.started, intervalMs: run.interval_ms },
          ...{ endpoints: endpointList, workers: workerList },
        },
        mapping,
      ),
      metrics: metricDefinitions(mapping),
      fill: async () => {
        const now = library.run(run.id);
        if (now) await around.fill(now, mapping.choice.source);
      },
      given: { rows: u.digestRows, digest: u.digest },
      gave: ({ rows, digest }) => change(u.id, run.id, { digest, digestRows: rows }),
    });
  };

  const begin = async (run: StoredRun, upload: StoredUpload): Promise<Upload> => {
    const http = await accounts.connect(upload.target.server);
    const { id, live } = upload;
    const work = { http, progress: null, exitCode: null } as unknown as AtWork;
    if (live && !isRecorded(run.id)) work.exitCode = 0;
    const source = await sourceOf(run, upload, () => (live ? work.exitCode : 0));
    work.sender = new Sender({
      ...{ http, source, mode: live ? 'live' : 'bulk' },
      ledger: {
        state: upload,
        save: (changed: Partial<LedgerState>) => {
          change(id, run.id, changed);
          // worked, so it is offered for the next run
          if (changed.created) library.setPreference(PREFERENCE, chosenOf(upload));
        },
      },
      progress: (progress) => {
        work.progress = progress;
        if (working.get(run.id) === work) tell(run.id);
      },
    });
    put({ ...upload, state: 'sending', problem: null });
    working.set(run.id, work);
    work.done = send(run.id, id, work).finally(() => http.close());
    return tell(run.id);
  };

  const send = async (run: string, id: string, work: AtWork): Promise<void> => {
    const over = (changed: Partial<StoredUpload>) => {
      working.delete(run);
      change(id, run, changed);
      tell(run, work.progress?.rowsTotal);
    };
    try {
      const { outcome, failedFiles } = await work.sender.run();
      // ended with the engine: the next one goes on
      if (outcome === 'cancelled' && closed) return;
      const state = outcome === 'cancelled' || outcome === 'stopped' ? outcome : 'done';
      over({ state, failed: [...failedFiles] });
    } catch (error) {
      if (closed) return;
      const problem =
        error instanceof WandbError
          ? problemOf(error)
          : {
              kind: 'refused' as const,
              message: sentenceOf(error),
              advice: 'Try again; if it comes again, export the run for wandb sync.',
            };
      if (!(error instanceof WandbError) && !(error instanceof EngineError)) around.report(String(error));
      over({ state: 'failed', problem });
    }
  };

  const workOf = (id: unknown): { run: StoredRun; upload: StoredUpload; work: AtWork | undefined } => {
    const run = runOf(id);
    const upload = stored(run.id);
    if (!upload) throw new EngineError('not-found', 'This run was never uploaded.');
    return { run, upload, work: working.get(run.id) };
  };

  /** One start of a run at a time; throws `bad-input` for a second one. */
  const alone = async <T>(run: StoredRun, start: () => Promise<T>): Promise<T> => {
    if (working.has(run.id) || starting.has(run.id))
      throw new EngineError('bad-input', 'This run is being uploaded already.');
    starting.add(run.id);
    try {
      return await start();
    } finally {
      starting.delete(run.id);
    }
  };

  const goOn = (run: StoredRun, upload: StoredUpload): Promise<Upload> =>
    alone(run, async () => {
      await around.readyToRead(run);
      if (isOfOtherVersion(upload.mapping)) throw needsNewRun(otherVersion);
      return begin(run, upload);
    });

  const newUpload = (run: StoredRun, input: UploadInput, mapping: Mapping): StoredUpload => ({
    ...{ id: newRunId(), run: run.id, target: input.target, mapping, live: input.live },
    ...{ state: 'sending', problem: null, failed: [], digest: null, digestRows: 0 },
    ...{ created: false, storageId: null, entity: null, project: null, displayName: null },
    ...{ acked: 0, files: [], complete: false, described: false, began: around.now(), updated: around.now() },
  });

  const methods: UploadWork['methods'] = {
    ...accountMethods(accounts, () => lastServer()),

    uploadStart: async (id): Promise<UploadStart> => {
      const run = runOf(id);
      await around.readyToRead(run);
      const { source, chosen } = await reader.steps(run.file, null);
      const last = library.preferences()[PREFERENCE] as Chosen | undefined;
      const mapping = stored(run.id)?.mapping;
      const rowsTotal = mapping ? await reader.rowCount(run.file, mapping) : 0;
      const before = stored(run.id);
      if (before)
        return {
          ...{ upload: shown(before, rowsTotal), target: before.target, choice: before.mapping.choice },
          guessed: false,
        };
      return {
        upload: null,
        target: targetFor(run, last?.target),
        choice: { ...(last?.choice ?? defaultChoice), source },
        guessed: isRecorded(run.id) && !chosen && source === 'fixed',
      };
    },
    planUpload: async (asked, signal) => {
      const input = checkedUpload(asked);
      const run = await ready(input.run, input.choice.source);
      const { before, changed } = await earlierUpload(reader, run.file, storedFor(run.id, input), input);
      const mapping = before && changed === null ? before.mapping : await freeze(run, input.choice);
      return {
        ...(await reader.plan(run.file, mapping, signal)),
        acked: changed === null ? (before?.acked ?? 0) : 0,
        ...{ changed, described: before === undefined || isDescribed(before, input) },
      };
    },
    startUpload: async (asked) => {
      const input = checkedUpload(asked);
      const run = await ready(input.run, input.choice.source);
      return saidPlainly(
        alone(run, async () => {
          const { before, changed } = await earlierUpload(reader, run.file, storedFor(run.id, input), input);
          if (changed !== null) throw new EngineError('bad-input', `${changed} Upload it as a new run.`);
          if (before) {
            const described = isDescribed(before, input);
            const { live, target } = input;
            return begin(run, { ...before, ...{ live, target, described, began: around.now() } });
          }
          const upload = newUpload(run, input, await freeze(run, input.choice));
          // the last one may have been made on W&B by a request whose reply never came: then it becomes this one
          const last = stored(run.id);
          const reused = last && !last.created && sameTarget(last.target, input.target);
          return begin(run, reused ? { ...upload, id: last.id } : upload);
        }),
      );
    },
    pauseUpload: (id) => {
      const { run, upload, work } = workOf(id);
      if (work) {
        work.sender.pause();
        change(upload.id, run.id, { state: 'paused' });
      }
      return tell(run.id);
    },
    resumeUpload: (id) => {
      const { run, upload, work } = workOf(id);
      if (!work) return saidPlainly(goOn(run, upload));
      change(upload.id, run.id, { state: 'sending' });
      work.sender.resume();
      return tell(run.id);
    },
    cancelUpload: async (id) => {
      const { run, work } = workOf(id);
      work?.sender.cancel();
      await work?.done;
      return tell(run.id);
    },
    exportWandb: async (asked, folder, signal) => {
      const input = checkedUpload({ ...asked, live: false });
      const run = await ready(input.run, input.choice.source);
      const mapping = await freeze(run, input.choice);
      const source = await sourceOf(
        run,
        { ...input, ...{ id: newRunId(), mapping, digest: null, digestRows: 0 } },
        () => 0,
      );
      const written = await writeOfflineRun(
        folder === null ? path.join(around.dataFolder, 'exports') : path.resolve(text(folder, 'A folder')),
        { source, startedAt: run.started, producer: `vllm-scope ${around.version}`, signal },
      );
      return { folder: written, rows: await source.lineCount(), command: `wandb sync ${quoted(written)}` };
    },
  };

  const lastServer = (): string =>
    (library.preferences()[PREFERENCE] as Chosen | undefined)?.target.server ?? accounts.found(null).baseUrl;
  const targetFor = (run: StoredRun, last: WandbTarget | undefined): WandbTarget => {
    const found = accounts.found(last?.server ?? null);
    return {
      server: found.baseUrl,
      entity: last?.entity ?? found.entity,
      project: last?.project ?? found.project ?? '',
      name: `${run.name} (vLLM)`,
      group: last?.group ?? '',
      tags: last?.tags ?? ['vllm-scope'],
      notes: '',
    };
  };

  return {
    methods,
    runsChanged: () => {
      for (const [id, work] of working)
        if (work.exitCode === null && stored(id)?.live && !isRecorded(id)) {
          work.exitCode = 0;
          work.sender.wake();
        }
    },
    goOn: () => {
      for (const upload of library.uploads()) {
        const run = library.run(upload.run);
        if (!run || !upload.live || upload.state !== 'sending') continue;
        if (stored(run.id)?.id !== upload.id) continue;
        goOn(run, upload).catch((error: unknown) => around.report(sentenceOf(error)));
      }
    },
    close: async () => {
      closed = true;
      for (const { sender } of working.values()) sender.cancel();
      await Promise.allSettled([...working.values()].map(({ done }) => done));
    },
  };
}

const chosenOf = ({ target, mapping }: StoredUpload): Chosen => ({ target, choice: mapping.choice });

/** Eight characters, as W&B's own. */
const newRunId = (): string =>
  Array.from(randomBytes(8), (byte) => 'abcdefghijklmnopqrstuvwxyz0123456789'[byte % 36]).join('');

const quoted = (folder: string): string =>
  /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", `'\\''`)}'`;
