/**
 * The part of the contract that is about clusters, endpoints and what stands behind an address. Types only; api.ts
 * gives all of it on.
 */

export interface ClusterInput {
  name: string;
  /**
   * As pasted: lines, commas, spaces; any form of address (addresses.ts), a user and password among it, and paths or
   * globs of Prometheus' file_sd files on the engine's machine (file-sd.ts).
   */
  addresses: string;
  /** 0.2 to 60. Default 1. */
  intervalSeconds?: number;
  /** Default 5. */
  timeoutSeconds?: number;
  /** Record as soon as it is connected. Default true. */
  record?: boolean;
  /** A PEM file on the engine's machine: authorities to trust beside the system's. Default none. */
  caFile?: string | null;
  /** Sent with every scrape. Secrets: kept, and never given back. Default none. */
  headers?: HeaderInput[];
  /**
   * Where there is no keychain (Info.keychain): keep secrets in a file that only its owner can read. Otherwise they are
   * forgotten when the engine ends. Default false.
   */
  keepInFile?: boolean;
  /** Throws away the users and passwords kept for addresses, unless given anew. Default false. */
  forgetLogins?: boolean;
}

export interface HeaderInput {
  name: string;
  /** null: the value kept under this name (when a cluster is changed). */
  value: string | null;
}

/** What a pasted word or an entry of a file_sd file means. */
export interface Target {
  /** The word as pasted, or the target as it stands in the file; without user and password. */
  address: string;
  /** null: it is none; the sentence says why. */
  url: string | null;
  /** Of a file_sd entry; otherwise none. */
  labels: Record<string, string>;
  /** The file_sd file it stands in, otherwise null. */
  file: string | null;
  sentence: string | null;
}

/** How a path or glob of file_sd files stands. */
export interface SourceState {
  /** As pasted. */
  path: string;
  files: number;
  targets: number;
  /** What is wrong and what to do; null: nothing. */
  sentence: string | null;
}

export type OutcomeReason =
  | 'late' // still answering an earlier scrape
  | 'timeout'
  | 'refused'
  | 'unreachable' // no such host, no route, reset, TLS
  | 'http' // a status other than 200
  | 'too-large'
  | 'cut' // ended before its end
  | 'not-metrics' // 200, but no Prometheus text
  | 'no-vllm'; // metrics, but none of vLLM: statistics are off, or it is something else

/** How an endpoint stands now. */
export interface EndpointState {
  url: string;
  /** null: not asked yet. */
  state: 'ok' | OutcomeReason | null;
  /** What is wrong and what to do; null: nothing. Also of an `ok` one behind which several servers answer. */
  sentence: string | null;
  /** Of the last scrape that answered. */
  tookSeconds: number | null;
  answeredAt: number | null;
  /** Workers seen behind it so far. */
  workers: number;
  /** Of its file_sd entry. */
  labels: Record<string, string>;
  /** The file_sd file that names it; null: it was pasted. */
  file: string | null;
  /** Its file is old and nothing answers: left behind by a server that is gone. The sentence says so. */
  stale: boolean;
  /** A user and password are kept for it. */
  login: boolean;
  /** It honours `name[]`, so only what the catalogue needs is asked for. */
  restricted: boolean;
}

export interface Cluster {
  id: string;
  name: string;
  /** What to put into the field to change it: one a line, without secrets. */
  addresses: string;
  endpoints: EndpointState[];
  /** file_sd paths among the addresses. */
  sources: SourceState[];
  caFile: string | null;
  /** Names of the headers that are sent; their values are secrets. */
  headers: string[];
  /** Where its secrets are; null: it has none. `lost`: they were not kept, or cannot be read: give them again. */
  secrets: 'keychain' | 'file' | 'memory' | 'lost' | null;
  intervalSeconds: number;
  timeoutSeconds: number;
  /** Record by itself when connected. */
  record: boolean;
  /** Whether it is being scraped now. */
  connected: boolean;
  /** The run being written, if any. */
  recording: string | null;
  /** Why recording stopped by itself (disk full, file damaged), otherwise null. */
  stopped: string | null;
}

/** How to ask an address; what is absent is as for a new cluster. */
export interface CheckInput {
  address: string;
  timeoutSeconds?: number;
  caFile?: string | null;
  headers?: HeaderInput[];
  /** Id of a cluster whose kept secrets may be used. */
  cluster?: string | null;
  /** ... its users and passwords excepted. Default false. */
  forgetLogins?: boolean;
}

export interface CheckReport {
  /** What was asked: the URL (without user and password) or the file. */
  address: string;
  reachable: boolean;
  /** Why nothing was read; null: something was. */
  reason: OutcomeReason | null;
  /** The same in a sentence. */
  error: string | null;
  /** `text`, `openmetrics`; null where nothing was read. */
  dialect: 'text' | 'openmetrics' | null;
  /** Which names of vLLM: `V0`, `0.9 to 0.10 (old and new names)`, ...; null where it is no vLLM. */
  generation: string | null;
  /** Whose metrics these are: `vLLM`, `SGLang`, `TensorRT-LLM`, `NVIDIA Dynamo`, `Ray`; null: unknown. */
  server: string | null;
  /** Whether it honours `name[]`; null: not tried (a file, or nothing answered). */
  restricts: boolean | null;
  workers: CheckedWorker[];
  /** Ids of catalogue columns that no worker has. */
  absent: string[];
  badLines: number;
  findings: string[];
  roundTripSeconds: number | null;
  bytes: number | null;
}

export interface CheckedWorker {
  engine: string;
  model: string;
  replica: string;
  labels: Record<string, string>;
  /** Column id to value, only those that are there. */
  values: Record<string, number>;
}
