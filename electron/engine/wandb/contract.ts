/**
 * What the W&B client and its callers agree on: values, a run to be sent, the ledger of what W&B has, progress and
 * kinds of errors. Types only. The client knows neither SQLite nor the page: rows come as finished lines, and what
 * was taken is written down through `Ledger.save`.
 */

/** A value in a row, the summary or the config. Numbers may be NaN or infinite; bigint for integers beyond 2^53. */
export type Json = null | boolean | number | bigint | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}

/** How a metric's summary is made on W&B's side of things; `none` leaves it out. */
export type SummaryKind = 'min' | 'max' | 'mean' | 'best' | 'last' | 'none' | 'copy' | 'first';

/** What `define_metric` says in the Python SDK. */
export interface MetricDefinition {
  /** A key of rows, or many: only a `*` at its end is a glob. */
  name: string;
  /** The key that is its x axis. */
  step?: string;
  /** Rows without the step get its last value; default true where there is a step. */
  stepSync?: boolean;
  hidden?: boolean;
  summary?: readonly SummaryKind[];
  goal?: 'minimize' | 'maximize';
}

/** Which run on W&B, and what it says of itself when it is made. */
export interface RunIdentity {
  /** null: the user's default; W&B answers which it took. */
  entity: string | null;
  project: string;
  /** In the address; up to 64 characters, never used again after a deletion. */
  runId: string;
  /** null: W&B makes one up. */
  displayName: string | null;
  group: string | null;
  jobType: string | null;
  tags: readonly string[];
  /** Markdown. */
  notes: string | null;
}

/** A file that rows name, as `media/plotly/...`. */
export interface UploadFile {
  /** Path on W&B, with `/`. The same name always has the same bytes. */
  name: string;
  /** Bytes. */
  size: number;
  read(): Uint8Array | Promise<Uint8Array>;
}

/**
 * A run to be sent. `lines` is pure: the same numbers always give the same text, or a line that is sent again after a
 * lost reply would change. Everything may be asked at any time and again; answers may come from another thread.
 */
export interface UploadSource {
  readonly identity: RunIdentity;
  readonly config: JsonObject;
  readonly metrics: readonly MetricDefinition[];
  /** How many lines there are by now; never fewer than before. */
  lineCount(): number | Promise<number>;
  /** Lines `first` to `first + max`, fewer at the end; each made by `encodeLine`. */
  lines(first: number, max: number): readonly string[] | Promise<readonly string[]>;
  /** The summary once the first `lines` lines are in. */
  summary(lines: number): JsonObject | Promise<JsonObject>;
  /** Files that the first `lines` lines name; sent after the lines. */
  files?(lines: number): readonly UploadFile[] | Promise<readonly UploadFile[]>;
  /** Live only: the exit code once no more lines come; null while the run is recorded. */
  ended?(): number | null;
}

/** What W&B is known to have. The authority on where to go on; kept in SQLite. */
export interface LedgerState {
  /** A run was made on W&B under this id. */
  created: boolean;
  /** W&B's own id of the run; null before it was made. */
  storageId: string | null;
  /** As W&B answered; null before. They go into the run's address. */
  entity: string | null;
  project: string | null;
  displayName: string | null;
  /** Lines that W&B has taken. */
  acked: number;
  /** Names of files that W&B has and was told so. */
  files: readonly string[];
  /** `complete` was taken, with all of the above. */
  complete: boolean;
  /** W&B has the name, group, tags and notes of the identity; what people change there afterwards stays. */
  described: boolean;
}

export interface Ledger {
  /** As it stands when a sender begins. */
  readonly state: Readonly<LedgerState>;
  /** Called right after W&B took something, before anything else is sent; must have written it when it returns. */
  save(change: Partial<LedgerState>): void;
}

export type UploadPhase = 'starting' | 'rows' | 'files' | 'finishing' | 'live' | 'paused' | 'done';

export interface UploadProgress {
  phase: UploadPhase;
  /** Lines that W&B has taken, and how many there are. */
  rows: number;
  rowsTotal: number;
  files: number;
  filesTotal: number;
  /** Sent and taken since this sender started, bodies and files. */
  bytes: number;
  /** Bytes a second over the last 10 s in which it sent; null: nothing was taken yet. */
  rate: number | null;
  /** Why it waits, as a sentence without a full stop ("W&B asks to wait 12 s"); null: it does not. */
  waiting: string | null;
  /** Epoch ms at which the wait ends; null with `waiting`. */
  waitsUntil: number | null;
}

export interface UploadResult {
  /**
   * up-to-date: W&B had everything, nothing was sent. stopped: somebody pressed Stop on W&B, and the run was ended
   * there. cancelled: by our user; the next sender goes on.
   */
  outcome: 'done' | 'up-to-date' | 'stopped' | 'cancelled';
  rows: number;
  /** Files that W&B did not take, with its reason; the next sender tries them again. */
  failedFiles: readonly { name: string; reason: string }[];
}

export type WandbErrorKind =
  | 'key' // the API key is wrong
  | 'permission' // the key's user may not do that
  | 'not-found' // no such entity, project or run
  | 'deleted' // the run's id belonged to a run that was deleted
  | 'limited' // W&B wants a slower pace
  | 'server' // W&B has a fault
  | 'tls' // its certificate is not trusted here
  | 'proxy' // the proxy did not let us through
  | 'network' // it cannot be reached
  | 'refused'; // W&B does not take what was sent, or does not agree with the ledger

/** Time and chance, so that tests need neither. */
export interface Timing {
  /** Epoch ms. */
  now(): number;
  /** Resolves after that time; rejects when the signal ends it. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** 0 to 1. */
  random(): number;
}

/** Where W&B is and how it is reached. */
export interface Connection {
  /** As `parseBaseUrl` gives it. */
  baseUrl: string;
  /** PEM of an authority to trust beside the system's; null: none. */
  ca: string | null;
  /** URL of a proxy; null: none; undefined: as HTTPS_PROXY, HTTP_PROXY and NO_PROXY say. */
  proxy?: string | null;
}
