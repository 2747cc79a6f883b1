/**
 * What is asked of W&B's GraphQL: who the key is of, making and reading runs, addresses for files. The texts of the
 * operations that write are those of the real SDK. Nothing here writes to a run that is not ours.
 */
import { decode } from './json.ts';
import { errorsIn, faultOf, ownError, type Asked } from './errors.ts';
import type { Http } from './http.ts';
import { retrying, type Waiting } from './retry.ts';
import type { RunIdentity, Timing } from './contract.ts';

export interface Viewer {
  username: string;
  /** Where runs go when none is named. */
  entity: string;
  /** All that may be chosen, the own one first. */
  entities: string[];
}

export interface UpsertedRun {
  storageId: string;
  entity: string;
  project: string;
  displayName: string | null;
  /** Lines that the server says it has; it may lag behind. */
  historyLineCount: number;
  /** The run is new. */
  inserted: boolean;
}

export interface FileAddresses {
  /** For each PUT. */
  headers: Record<string, string>;
  /** By name; null: the server gives none. */
  urls: Map<string, string | null>;
}

export interface Page<T> {
  rows: T[];
  /** For the next page; null: this was the last one. */
  cursor: string | null;
}

export interface ProjectRow {
  name: string;
  createdAt: string | null;
}

export interface RunRow {
  /** In its address. */
  runId: string;
  displayName: string | null;
  /** `running`, `finished`, `failed`, `crashed` and others. */
  state: string | null;
  group: string | null;
  jobType: string | null;
  tags: string[];
  username: string | null;
  createdAt: string | null;
  heartbeatAt: string | null;
  historyLineCount: number | null;
}

export interface RunDetail extends RunRow {
  /** Keys of its history. */
  keys: string[];
  /** -1: it has no rows. */
  lastStep: number;
}

/** By key. Untrusted: a number may come as a string, NaN and Infinity always do. */
export type HistoryRow = Record<string, unknown>;

export interface HistorySpan {
  /** Values of `_step`, both included. */
  from: number;
  to: number;
  /** Rows there are in all; null or left out: as many as steps. */
  rows?: number | null;
  /** After each page: how many steps were read, of how many. */
  tell?: (done: number, total: number) => void;
}

export interface GraphqlOptions {
  http: Http;
  timing: Timing;
  signal: AbortSignal;
  tries: number;
  waiting?: Waiting;
  /** Headers of every answer, for the pace. */
  answered?: (headers: Record<string, string | string[] | undefined>) => void;
}

const TIMEOUT_MS = 30_000;
const PER_PAGE = 50;
/** Steps in a page of history where each has a row; with as many samples as steps none is left out. */
const STEPS_PER_PAGE = 1000;
/** W&B asks that reads of whole runs be spread out. */
const PAGE_PAUSE_MS = 1000;

const VIEWER = 'query Viewer { viewer { id entity username teams { edges { node { name } } } } }';
const UPSERT = `mutation UpsertBucket ($id: String, $name: String, $project: String, $entity: String, $groupName: String, $description: String, $displayName: String, $notes: String, $commit: String, $config: JSONString, $host: String, $debug: Boolean, $program: String, $repo: String, $jobType: String, $state: String, $sweep: String, $tags: [String!], $summaryMetrics: JSONString) {
  upsertBucket(input: {id:$id,name:$name,groupName:$groupName,modelName:$project,entityName:$entity,description:$description,displayName:$displayName,notes:$notes,config:$config,commit:$commit,host:$host,debug:$debug,jobProgram:$program,jobRepo:$repo,jobType:$jobType,state:$state,sweep:$sweep,tags:$tags,summaryMetrics:$summaryMetrics}) {
    bucket { id name displayName project { name entity { name } } historyLineCount }
    inserted
  }
}`;
const RESUME = `query RunResumeStatus ($project: String, $entity: String, $name: String!) {
  model(name: $project, entityName: $entity) { bucket(name: $name, missingOk: true) { id historyLineCount } }
}`;
const FILES = `mutation CreateRunFiles ($entity: String!, $project: String!, $run: String!, $files: [String!]!) {
  createRunFiles(input: {entityName:$entity,projectName:$project,runName:$run,files:$files}) { runID uploadHeaders files { name uploadUrl } }
}`;
const PROJECTS = `query GetProjects($entity: String, $cursor: String, $perPage: Int = 50) {
  models(entityName: $entity, after: $cursor, first: $perPage) {
    pageInfo { endCursor hasNextPage } edges { node { name createdAt } }
  }
}`;
const LIGHT =
  'name displayName state group jobType tags createdAt heartbeatAt historyLineCount user { username }';
const RUNS = `query Runs($project: String!, $entity: String!, $cursor: String, $perPage: Int = 50, $order: String, $filters: JSONString) {
  project(name: $project, entityName: $entity) {
    runs(filters: $filters, after: $cursor, first: $perPage, order: $order) {
      edges { node { ${LIGHT} } } pageInfo { endCursor hasNextPage }
    }
  }
}`;
const RUN = `query Run($project: String!, $entity: String!, $name: String!) {
  project(name: $project, entityName: $entity) { run(name: $name) { ${LIGHT} historyKeys } }
}`;
const SAMPLED = `query SampledHistoryPage ($entity: String!, $project: String!, $run: String!, $spec: JSONString!) {
  project(name: $project, entityName: $entity) { run(name: $run) { sampledHistory(specs: [$spec]) } }
}`;

interface Nodes<Node> {
  edges: { node: Node }[];
  pageInfo: { endCursor: string | null; hasNextPage: boolean };
}
interface ViewerNode {
  username: string;
  entity: string | null;
  teams: Nodes<{ name: string }> | null;
}
interface Upserted {
  bucket: {
    id: string;
    displayName: string | null;
    project: { name: string; entity: { name: string } } | null;
    historyLineCount: number | null;
  } | null;
  inserted: boolean | null;
}
interface CreatedFiles {
  uploadHeaders: string[] | null;
  files: { name: string; uploadUrl: string | null }[];
}
interface HistoryKeys {
  lastStep?: number;
  keys?: object;
}
interface RunNode extends Omit<RunRow, 'runId' | 'tags' | 'username'> {
  name: string;
  tags: string[] | null;
  user: { username: string | null } | null;
}
interface Place {
  entity: string;
  project: string;
}

/** The server is none of W&B's, or its answer lacks what W&B's always have. */
const strange = () =>
  ownError(
    'refused',
    'The server does not answer as W&B does.',
    'Check the address of the W&B server, and that nothing before it wants a login of its own.',
  );

export type Graphql = ReturnType<typeof createGraphql>;

/** Every call throws a WandbError, or the signal's reason. */
export function createGraphql({ http, answered, ...retry }: GraphqlOptions) {
  /** `partial`: errors beside data are borne. */
  const once = async (query: string, variables: object, asked: Asked, partial: boolean): Promise<object> => {
    const operationName = /(?:query|mutation)\s+(\w+)/.exec(query)![1];
    const reply = await http.request({
      ...{ method: 'POST', url: 'graphql', authorized: true, timeoutMs: TIMEOUT_MS, signal: retry.signal },
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables, operationName }),
    });
    answered?.(reply.headers);
    const fault = faultOf(reply, asked, retry.timing.now());
    if (fault) throw fault;
    const body = objectIn(reply.text);
    const data = body?.data;
    const usable = typeof data === 'object' && data !== null;
    const error = errorsIn(body, asked);
    if (error && !(partial && usable && Object.values(data).some((value) => value !== null))) throw error;
    if (!usable) throw strange();
    return data;
  };
  const ask = async <T>(query: string, variables: object, asked: Asked = 'graphql', partial = false) =>
    (await retrying(() => once(query, variables, asked, partial), retry)) as T;

  const projectOf = async <T>(query: string, place: Place, variables: object): Promise<T> => {
    const { project } = await ask<{ project: T | null }>(query, { ...place, ...variables });
    if (project) return project;
    throw ownError(
      'not-found',
      `There is no project ${place.entity}/${place.project} that this API key may see.`,
    );
  };
  const runOf = async <T>(query: string, place: Place, runId: string, variables: object): Promise<T> => {
    const { run } = await projectOf<{ run: T | null }>(query, place, variables);
    if (run) return run;
    throw ownError('not-found', `There is no run ${runId} in ${place.entity}/${place.project}.`);
  };

  return {
    /** Whose key it is; kind `key` for one that W&B does not know. */
    viewer: async (): Promise<Viewer> => {
      const { viewer } = await ask<{ viewer: ViewerNode | null }>(VIEWER, {}, 'graphql', true);
      if (!viewer) throw ownError('key', 'W&B does not know this API key.');
      const teams = viewer.teams?.edges.map(({ node }) => node.name) ?? [];
      const entity = viewer.entity ?? viewer.username;
      return { username: viewer.username, entity, entities: [...new Set([entity, ...teams])] };
    },

    /** Makes the run, with all that it says of itself, and the project where there is none. */
    createRun: (run: RunIdentity, config: string): Promise<UpsertedRun> =>
      upsert({
        ...{ name: run.runId, project: run.project, entity: run.entity, config },
        ...{ displayName: run.displayName, groupName: run.group, jobType: run.jobType },
        ...{ notes: run.notes, tags: run.tags.length > 0 ? run.tags : null },
      }),

    /** Makes a run go on that is there already; what people changed on W&B stays, unless it is `described` anew. */
    continueRun: (
      { entity, project }: Place,
      run: RunIdentity,
      config: string,
      described: boolean,
    ): Promise<UpsertedRun> =>
      upsert({
        ...{ name: run.runId, project, entity, config },
        ...(!described && {
          ...{ displayName: run.displayName, groupName: run.group },
          // null would leave what is there
          ...{ notes: run.notes ?? '', tags: run.tags },
        }),
      }),

    /** Lines that the server says it has; null: there is no such run. */
    lineCount: async (place: Place, runId: string): Promise<number | null> => {
      const { model } = await ask<{ model: { bucket: { historyLineCount: number } | null } | null }>(RESUME, {
        ...{ ...place, name: runId },
      });
      return model?.bucket?.historyLineCount ?? null;
    },

    createRunFiles: async (place: Place, runId: string, files: readonly string[]): Promise<FileAddresses> => {
      const { createRunFiles } = await ask<{ createRunFiles: CreatedFiles | null }>(FILES, {
        ...{ ...place, run: runId, files },
      });
      if (!createRunFiles) throw strange();
      const headers = (createRunFiles.uploadHeaders ?? []).map((header) => {
        const colon = header.indexOf(':');
        return [header.slice(0, colon).trim(), header.slice(colon + 1).trim()];
      });
      return {
        headers: Object.fromEntries(headers) as Record<string, string>,
        urls: new Map(createRunFiles.files.map(({ name, uploadUrl }) => [name, uploadUrl])),
      };
    },

    projects: async (entity: string, cursor: string | null = null): Promise<Page<ProjectRow>> => {
      const { models } = await ask<{ models: Nodes<ProjectRow> | null }>(PROJECTS, {
        ...{ entity, cursor, perPage: PER_PAGE },
      });
      if (!models) throw ownError('not-found', `There is no entity ${entity} that this API key may see.`);
      return pageOf(models, ({ name, createdAt }) => ({ name, createdAt }));
    },

    /** Newest first. `filters`: in W&B's own form, as `{group: 'x'}`. */
    runs: async (place: Place, filters: object = {}, cursor: string | null = null): Promise<Page<RunRow>> => {
      const { runs } = await projectOf<{ runs: Nodes<RunNode> }>(RUNS, place, {
        ...{ cursor, perPage: PER_PAGE, order: '-created_at', filters: JSON.stringify(filters) },
      });
      return pageOf(runs, runRow);
    },

    run: async (place: Place, runId: string): Promise<RunDetail> => {
      const run = await runOf<RunNode & { historyKeys: HistoryKeys | null }>(RUN, place, runId, {
        name: runId,
      });
      const { keys = {}, lastStep = -1 } = run.historyKeys ?? {};
      return { ...runRow(run), keys: Object.keys(keys), lastStep };
    },

    /** Rows that have all of `keys`, a page at a time and not too fast. */
    history: async function* (
      this: void,
      place: Place,
      runId: string,
      keys: readonly string[],
      { from, to, rows, tell }: HistorySpan,
    ): AsyncGenerator<HistoryRow[]> {
      const steps = to - from + 1;
      // where few steps have a row, a page is as many steps wider
      const width = STEPS_PER_PAGE * Math.max(1, Math.ceil(steps / Math.max(1, rows ?? steps)));
      for (let minStep = from; minStep <= to; minStep += width) {
        if (minStep > from) await retry.timing.sleep(PAGE_PAUSE_MS, retry.signal);
        const maxStep = Math.min(to, minStep + width - 1);
        const samples = Math.max(STEPS_PER_PAGE, maxStep - minStep + 1);
        const spec = JSON.stringify({ keys, minStep, maxStep, samples });
        const { sampledHistory } = await runOf<{ sampledHistory: HistoryRow[][] }>(SAMPLED, place, runId, {
          ...{ run: runId, spec },
        });
        yield sampledHistory[0] ?? [];
        tell?.(maxStep - from + 1, steps);
      }
    },
  };

  async function upsert(variables: object): Promise<UpsertedRun> {
    const { upsertBucket } = await ask<{ upsertBucket: Upserted | null }>(UPSERT, variables, 'upsert');
    const { bucket, inserted } = upsertBucket ?? {};
    if (!bucket?.project) throw strange();
    return {
      ...{ storageId: bucket.id, displayName: bucket.displayName, inserted: inserted ?? false },
      ...{ project: bucket.project.name, entity: bucket.project.entity.name },
      historyLineCount: bucket.historyLineCount ?? 0,
    };
  }
}

function objectIn(text: string): { data?: unknown } | null {
  try {
    const value = decode(text);
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

const runRow = ({ name, user, ...run }: RunNode): RunRow => ({
  ...{ runId: name, displayName: run.displayName, state: run.state, group: run.group, jobType: run.jobType },
  ...{ tags: run.tags ?? [], username: user?.username ?? null, createdAt: run.createdAt },
  ...{ heartbeatAt: run.heartbeatAt, historyLineCount: run.historyLineCount },
});

const pageOf = <Node, Row>({ edges, pageInfo }: Nodes<Node>, row: (node: Node) => Row): Page<Row> => ({
  rows: edges.map(({ node }) => row(node)),
  cursor: pageInfo.hasNextPage ? pageInfo.endCursor : null,
});
