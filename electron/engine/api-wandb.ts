/**
 * The part of the contract that is about Weights & Biases: whose account, what goes up from a run, and how far it is.
 * Types only; api.ts tells the units. docs/wandb.md says what a row holds.
 */
import type { Step, StepKind, Steps, StepSet, StepSource, TrainerRun } from './api-steps.ts';
import type { UploadProgress, WandbErrorKind } from './wandb/contract.ts';

export type { UploadProgress, WandbErrorKind };

/** Why something did not work: the server's own text, and what to do about it. */
export interface WandbProblem {
  kind: WandbErrorKind;
  message: string;
  advice: string;
}

/** Where a key was found. memory: typed in, until the engine ends. */
export type WandbKeySource = 'environment' | 'netrc' | 'keychain' | 'file' | 'memory';

/** The key itself is never in it. */
export interface WandbAccount {
  /** Base address of the API. */
  server: string;
  /** null: there is none yet. */
  key: WandbKeySource | null;
  /** null: no key, or `problem` says why it is not known. */
  user: string | null;
  /** Where the user's runs go by themselves; null: not known. */
  entity: string | null;
  /** Where runs may go: the user's own place first, then teams. */
  entities: string[];
  /** PEM file of an authority to trust beside the system's, for this server. */
  caFile: string | null;
  problem: WandbProblem | null;
}

/** Where a run goes to on W&B. */
export interface WandbTarget {
  server: string;
  /** null: the user's default. */
  entity: string | null;
  project: string;
  name: string;
  /** The trainer's group, so that both stand together; empty: none. */
  group: string;
  tags: string[];
  /** Markdown. */
  notes: string;
}

export type WandbStatistic = 'mean' | 'max' | 'p95' | 'min' | 'sum';

/** What goes up. Frozen with the first row: another choice needs a run of its own on W&B. */
export interface WandbChoice {
  /** Whose steps make the rows. */
  source: StepSource;
  /** Rows for steps of kind eval too, their keys under `eval/`. */
  evals: boolean;
  /** As vllm_metrics_log_scalars and vllm_metrics_log_timeline_plots of NeMo RL's PR 2843. */
  scalars: boolean;
  plots: boolean;
  /** Of the catalogue. */
  metrics: string[];
  statistics: WandbStatistic[];
  /** Keys of their own for so many workers; where there are more, for the three that ended last most often. 0: none. */
  workers: number;
}

export interface UploadInput {
  run: string;
  target: WandbTarget;
  choice: WandbChoice;
  /** Rows go up as steps end, for as long as the run is recorded. */
  live: boolean;
  /** A new run on W&B even where an earlier one could go on. */
  anew: boolean;
}

/** What would go up; nothing is sent. */
export interface UploadPlan {
  rows: number;
  /** Steps there are, by kind; those still running do not count. */
  steps: Record<StepKind, number>;
  /** Different keys over all rows. */
  keys: number;
  /** Bytes of all rows, before anything else of a request. */
  bytes: number;
  /** Timeline plots, and their bytes. */
  files: number;
  fileBytes: number;
  /** Workers with keys of their own. */
  workers: number[];
  /** The last row. */
  example: { step: Step; row: [key: string, value: string][] } | null;
  /** Steps whose counters are at least what their rows say (Step.number), the first few. */
  lowerBounds: number[];
  /** Rows that are on W&B already, of the upload that would go on; 0: a new run. */
  acked: number;
  /** Why the earlier upload cannot go on, as a sentence; null: it can, or there is none. */
  changed: string | null;
  /** false: the earlier upload has another name, group, tags or notes, which this one changes. */
  described: boolean;
}

/**
 * sending: under way, or waiting for steps (live). paused, cancelled: by the user. stopped: somebody pressed Stop on
 * W&B. interrupted: the engine ended meanwhile; the next click goes on. done: W&B has everything there was.
 */
export type UploadState = 'sending' | 'paused' | 'cancelled' | 'stopped' | 'interrupted' | 'failed' | 'done';

export interface Upload {
  run: string;
  target: WandbTarget;
  choice: WandbChoice;
  live: boolean;
  state: UploadState;
  /** Id of the run on W&B, and its address; null: not made yet. */
  runId: string;
  url: string | null;
  /** Rows that W&B has, and rows there are now. */
  rows: number;
  rowsTotal: number;
  /** While it is under way. */
  progress: UploadProgress | null;
  problem: WandbProblem | null;
  /** Files that W&B did not take. */
  failedFiles: { name: string; reason: string }[];
  /** Epoch ms of the last change. */
  updatedAt: number;
}

/** What a click on "Upload" begins with: the last upload of the run, and what was chosen last, fitted to this run. */
export interface UploadStart {
  upload: Upload | null;
  target: WandbTarget;
  choice: WandbChoice;
  /**
   * The run goes on, nobody chose where its steps come from, and none was found yet: `choice.source` is fixed only for
   * want of a better one, and would stay so.
   */
  guessed: boolean;
}

export interface WandbExport {
  /** Folder `offline-run-...`, absolute. */
  folder: string;
  rows: number;
  /** What sends it. */
  command: string;
}

/** A run in a project, for choosing the trainer's. */
export interface WandbRun {
  runId: string;
  name: string | null;
  /** `running`, `finished`, `failed`, `crashed` and others. */
  state: string | null;
  /** ISO 8601. */
  createdAt: string | null;
  user: string | null;
  rows: number | null;
}

/** A page of them. */
export interface WandbRuns {
  runs: WandbRun[];
  /** For the next page; null: these were the last. */
  next: string | null;
}

/** What steps a trainer's run would give. */
export interface TrainerSteps {
  set: StepSet;
  /** Steps that its rows tell of, and those that lie in this recording. */
  rows: number;
  inside: number;
  /** Rows that have the key and hold no whole number from 0 on there, or no time. */
  leftOut: number;
  /** Why none lies in this recording, as sentences; null: some do. */
  none: string | null;
  /** First and last row's time, epoch ms, the offset added; null: no row. */
  firstAt: number | null;
  lastAt: number | null;
  /** By so much W&B's clock is ahead of this machine's; null: it does not say. */
  serverAheadSeconds: number | null;
  /**
   * Newest row's time, without the offset, minus when W&B last heard of the run, of one that goes on: more than 0 means
   * that the trainer's clock is ahead.
   */
  trainerAheadSeconds: number | null;
}

export interface WandbMethods {
  /** null: the server used last, otherwise of the environment, otherwise W&B's own. Asks it whose key that is. */
  wandbAccount(server: string | null): WandbAccount;
  /**
   * Asks the server whose key that is, and takes it where it is somebody's: into the keychain, a file of mode 0600 where
   * `inFile` is said, otherwise until the engine ends. One that is nobody's changes nothing.
   */
  setWandbKey(server: string, key: string, inFile: boolean): WandbAccount;
  forgetWandbKey(server: string): WandbAccount;
  /** For servers with a certificate of an authority of their own; null: the system's only. Throws `bad-input`. */
  setWandbCa(server: string, caFile: string | null): WandbAccount;
  /** Names, newest first. */
  wandbProjects(server: string, entity: string | null): string[];

  /** Runs of a project, newest first, 50 at a time. `after`: the page's `next`; null: the first page. */
  wandbRuns(server: string, entity: string | null, project: string, after: string | null): WandbRuns;
  /** Keys of a run's rows. */
  wandbKeys(server: string, entity: string, project: string, runId: string): string[];
  /** Reads the rows of the trainer's run; nothing is written there, ever, and nothing here. Tells by `progress` of `task`. */
  previewTrainerSteps(run: string, trainer: TrainerRun, task: string): TrainerSteps;
  /** The same, stored and made the current source. Rows of the last preview are not read again. */
  useTrainerSteps(run: string, trainer: TrainerRun, task: string): Steps;

  uploadStart(run: string): UploadStart;
  planUpload(input: UploadInput): UploadPlan;
  /** Goes on with the run's earlier upload where target and choice are the same and its rows still hold. */
  startUpload(input: UploadInput): Upload;
  pauseUpload(run: string): Upload;
  resumeUpload(run: string): Upload;
  /** What W&B has stays there; a later start goes on. */
  cancelUpload(run: string): Upload;
  /** For `wandb sync`, into a folder; null: `exports` of the data folder. */
  exportWandb(input: UploadInput, folder: string | null): WandbExport;
}

export interface WandbEvents {
  uploading: Upload;
}
