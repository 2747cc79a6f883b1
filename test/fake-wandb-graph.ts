/**
 * The stand-in's GraphQL: every query is parsed and validated against the schema, then answered from what is stored.
 * The mutations are here, fields that only read in fake-wandb-reading.ts.
 */
import { executeSync, GraphQLError, Kind, parse, validate, type DocumentNode } from 'graphql';
import type { Fault, Reply } from './fake-wandb-faults.ts';
import { projectNode, projectNodes, runNode, urlPath, userNode, type Asking } from './fake-wandb-reading.ts';
import { broken, checkConfig, checkNames, isObject, Refusal } from './fake-wandb-runs.ts';
import type { FakeRuns, FakeUser, StoredRun } from './fake-wandb-runs.ts';
import { schema } from './fake-wandb-schema.ts';

/** What a presigned address stands for. */
export interface Upload {
  /** null: an artifact's file, which is not kept. */
  run: StoredRun | null;
  name: string;
  /** `Name:value`, to be sent along. */
  headers: readonly string[];
  expired: boolean;
}

interface Asked extends Asking {
  fault: Fault;
}
interface ForRun {
  entityName: string;
  projectName: string;
  runName: string;
}
interface UpsertInput extends Partial<
  Record<'id' | 'name' | 'modelName' | 'entityName' | 'groupName' | 'displayName' | 'notes', string | null>
> {
  config?: string | null;
  jobProgram?: string | null;
  jobType?: string | null;
  summaryMetrics?: string | null;
  tags?: string[] | null;
}

/** An operation as it came, once it is known to be well-formed. */
interface Operation {
  document: DocumentNode;
  variables: Record<string, unknown>;
}

/** Throws a refusal for what the schema does not know, and for whatever a body may not hold. */
function readOperation(body: unknown): Operation {
  if (!isObject(body)) throw broken('the body is not an object');
  const { query, operationName } = body;
  const variables = body.variables ?? {};
  const unknown = Object.keys(body).find((name) => !['query', 'variables', 'operationName'].includes(name));
  if (unknown !== undefined) throw broken(`unknown member ${unknown}`);
  if (typeof query !== 'string') throw broken('there is no query');
  if (!isObject(variables)) throw broken('variables is not an object');
  let document: DocumentNode;
  try {
    document = parse(query);
  } catch (error) {
    throw broken((error as GraphQLError).message);
  }
  const [wrong] = validate(schema, document);
  if (wrong) throw broken(wrong.message);
  const operations = document.definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION);
  const [operation] = operations;
  if (operations.length !== 1 || operation?.kind !== Kind.OPERATION_DEFINITION)
    throw broken('there is not one operation');
  // The SDK's Api sends '' where it names none.
  if (operationName && operationName !== operation.name?.value)
    throw broken(`unknown operation named ${JSON.stringify(operationName)}`);
  const declared = (operation.variableDefinitions ?? []).map(({ variable }) => variable.name.value);
  const stray = Object.keys(variables).find((name) => !declared.includes(name));
  if (stray !== undefined) throw broken(`variable $${stray} is not declared`);
  return { document, variables };
}

const found = /\b(?:query|mutation)\s+(\w+)/;
/** The name of the operation of any body; null: it has none. */
export function operationOf(body: unknown): string | null {
  if (!isObject(body)) return null;
  if (typeof body.operationName === 'string' && body.operationName !== '') return body.operationName;
  return typeof body.query === 'string' ? (found.exec(body.query)?.[1] ?? null) : null;
}

export interface GraphOptions {
  features: readonly string[];
  uploadHeaders: readonly string[];
}

export class Graph {
  /** By path and query. */
  readonly uploads = new Map<string, Upload>();
  private readonly runs: FakeRuns;
  private readonly options: GraphOptions;

  constructor(runs: FakeRuns, options: GraphOptions) {
    this.runs = runs;
    this.options = options;
  }

  /** Refusals of a mutation come back as W&B words them; those of the query itself are thrown. */
  answer(body: unknown, user: FakeUser, base: string, fault: Fault): Reply {
    const { document, variables } = readOperation(body);
    const contextValue: Asked = { user, base, fault, historyLineCountOff: fault.historyLineCountOff ?? 0 };
    const asked = { schema, document, variableValues: variables, rootValue: this.root, contextValue };
    const { data, errors } = executeSync(asked);
    const error = errors?.[0];
    if (!error) return { status: 200, body: { data } };
    const cause = error.originalError;
    if (!(cause instanceof Refusal)) throw error.path ? (cause ?? error) : broken(error.message);
    const { message, code, status, violation } = cause;
    const told = { message, path: error.path, ...(code ? { extensions: { code } } : {}) };
    return { status, body: { errors: [told], data }, violation: violation ? message : undefined };
  }

  private readonly root = {
    viewer: (_: object, { user }: Asked) => userNode(this.runs, user),
    serverInfo: () => ({
      cliVersionInfo: { max_cli_version: '99.0.0' },
      latestLocalVersionInfo: null,
      features: this.options.features.map((name) => ({ name, isEnabled: true })),
    }),
    entity: () => null,
    model: (named: { name?: string; entityName?: string }, asked: Asked) => this.project(named, asked),
    project: (named: { name?: string; entityName?: string }, asked: Asked) => this.project(named, asked),
    models: (
      { entityName, ...paging }: { entityName?: string; after?: string; first?: number },
      asked: Asked,
    ) => projectNodes(this.runs, entityName ?? this.runs.entitiesOf(asked.user)[0]!, paging, asked),
    upsertBucket: ({ input }: { input: UpsertInput }, asked: Asked) => this.upsert(input, asked),
    rewindRun: ({ input }: { input: ForRun & { metricName: string; metricValue: number } }, asked: Asked) => {
      const run = this.runToWrite(input, 'rewindRun', asked);
      if (input.metricName !== '_step') throw broken('runs are rewound by _step only');
      const stepOf = (line: string) => (JSON.parse(line) as { _step: number })._step;
      run.history = run.history.filter((line) => stepOf(line) <= input.metricValue);
      return { rewoundRun: runNode(this.runs, run, asked) };
    },
    createRunFiles: ({ input }: { input: ForRun & { files: string[] } }, asked: Asked) => {
      const run = this.runToWrite(input, 'createRunFiles', asked);
      if (run.complete) throw broken('the run is complete; only UpsertBucket makes it go on');
      const wrong = input.files.find((name) => /^$|^\/|\\|(^|\/)\.{0,2}(\/|$)/.test(name));
      if (wrong !== undefined) throw broken(`invalid file name: ${wrong}`);
      const uploadHeaders = asked.fault.uploadHeaders ?? this.options.uploadHeaders;
      const files = input.files.map((name) => ({
        name,
        uploadUrl: this.presign(run, name, uploadHeaders, asked),
      }));
      return { runID: run.id, uploadHeaders, files };
    },
    markRunFilesUploaded: ({ input }: { input: ForRun & { files: string[] } }, asked: Asked) => {
      const run = this.runToWrite(input, 'markRunFilesUploaded', asked);
      const missing = input.files.find((name) => !run.files.has(name));
      if (missing !== undefined) throw broken(`${missing} was not uploaded`);
      run.uploaded = [...new Set([...run.uploaded, ...input.files])];
      return { success: true };
    },
    // Artifacts are answered as far as the SDK needs it to log a table, and not kept.
    createArtifact: () => ({
      artifact: {
        id: 'QXJ0aWZhY3Q6MQ',
        state: 'PENDING',
        artifactSequence: { id: '1', latestArtifact: null },
      },
    }),
    createArtifactManifest: ({ input }: { input: { name: string } }, asked: Asked) => ({
      artifactManifest: { id: 'TWFuaWZlc3Q6MQ', file: this.artifactFile(input.name, '1', asked) },
    }),
    createArtifactFiles: (
      { input }: { input: { artifactFiles: { name: string; artifactID: string }[] } },
      asked: Asked,
    ) => ({
      files: {
        edges: input.artifactFiles.map(({ name, artifactID }) => ({
          node: this.artifactFile(name, artifactID, asked),
        })),
      },
    }),
    commitArtifact: ({ input }: { input: { artifactID: string } }) => ({
      artifact: { id: input.artifactID, digest: 'digest' },
    }),
  };

  private project({ name, entityName }: { name?: string; entityName?: string }, asked: Asked) {
    const entity = entityName ?? this.runs.entitiesOf(asked.user)[0]!;
    return projectNode(this.runs, name ?? '', entity, asked);
  }

  private runToWrite({ entityName, projectName, runName }: ForRun, during: string, asked: Asked): StoredRun {
    this.runs.checkWrite(asked.user, entityName, projectName, during);
    return this.runs.need(entityName, projectName, runName);
  }

  private upsert(input: UpsertInput, asked: Asked) {
    const entity = input.entityName ?? this.runs.entitiesOf(asked.user)[0]!;
    const project = input.modelName ?? 'uncategorized';
    if (input.name == null) throw broken('upsertBucket: there is no name');
    checkNames(project, input.name, input.tags ?? []);
    this.runs.checkWrite(asked.user, entity, project, 'upsertBucket');
    const known = this.runs.find(entity, project, input.name);
    if (input.config != null) checkConfig(input.config);
    else if (!known) throw broken('a new run has no config');
    if (input.id != null && input.id !== known?.id) throw broken("the id is another run's");
    const run = known ?? this.runs.create(asked.user, entity, project, input.name);
    Object.assign(run, { state: 'running', complete: false, exitcode: null });
    run.config = input.config ?? run.config;
    run.displayName = input.displayName ?? run.displayName;
    run.notes = input.notes ?? run.notes;
    run.group = input.groupName ?? run.group;
    run.jobType = input.jobType ?? run.jobType;
    run.program = input.jobProgram ?? run.program;
    run.tags = input.tags ?? run.tags;
    run.summary = input.summaryMetrics ?? run.summary;
    return { inserted: !known, bucket: runNode(this.runs, run, asked) };
  }

  private artifactFile(name: string, artifactID: string, asked: Asked) {
    return {
      ...{ id: 'RmlsZTox', storagePath: `artifacts/${name}`, uploadHeaders: [], uploadMultipartUrls: null },
      ...{ artifact: { id: artifactID }, uploadUrl: this.presign(null, name, [], asked) },
    };
  }

  private presign(
    run: StoredRun | null,
    name: string,
    headers: readonly string[],
    { base, fault }: Asked,
  ): string {
    const place = run ? urlPath(run.entity, run.project, run.name, name) : urlPath('artifact', name);
    const path = `/upload/${place}?signature=${this.uploads.size + 1}`;
    this.uploads.set(path, { run, name, headers, expired: false });
    return fault.relativeUploadUrl ? path : base + path;
  }
}
