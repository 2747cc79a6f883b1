/**
 * What the stand-in for W&B keeps: users, projects and runs, and in which words it refuses. Nothing of HTTP or GraphQL.
 */

/** An answer other than 200. `violation`: no well-made client sends that; the others happen to honest users too. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly violation: boolean;

  constructor(status: number, message: string, code: string | null, violation: boolean) {
    super(message);
    this.status = status;
    this.code = code;
    this.violation = violation;
  }
}
export const refused = (status: number, message: string, code: string | null = null) =>
  new Refusal(status, message, code, false);
export const broken = (message: string, status = 400) => new Refusal(status, message, null, true);

export interface FakeUser {
  key: string;
  username: string;
  email?: string;
  /** The default one; without it the username. */
  entity?: string;
  /** Names of other entities that it belongs to. */
  teams?: readonly string[];
  /** `entity` or `entity/project`, which it may read only. */
  readOnly?: readonly string[];
}

export interface StoredRun {
  readonly entity: string;
  readonly project: string;
  readonly name: string;
  /** The opaque id of the database. */
  readonly id: string;
  username: string;
  displayName: string;
  notes: string | null;
  group: string | null;
  jobType: string | null;
  program: string | null;
  tags: string[];
  /** JSON, as it came. */
  config: string;
  /** Lines as they came. */
  history: string[];
  events: string[];
  output: string[];
  /** The one line, as it came. */
  summary: string | null;
  /** Bytes by name. */
  files: Map<string, Buffer>;
  /** Names that were reported as uploaded. */
  uploaded: string[];
  state: 'running' | 'finished' | 'failed' | 'crashed';
  complete: boolean;
  exitcode: number | null;
  /** Somebody pressed Stop. */
  stopped: boolean;
  /** Epoch ms. */
  createdAt: number;
  heartbeatAt: number;
}

/** A run as some other client would have left it; rows are given as objects. */
export interface LeftRun extends Partial<
  Pick<
    StoredRun,
    'displayName' | 'notes' | 'group' | 'jobType' | 'tags' | 'state' | 'createdAt' | 'heartbeatAt'
  >
> {
  config?: object;
  history?: readonly object[];
  events?: readonly object[];
  summary?: object;
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const marked = '\uE000';
/** JSON in which NaN, Infinity and -Infinity may stand bare, as Python writes it. Throws what JSON.parse throws. */
export function parseLoose(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const strict = text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\bInfinity\b|\bNaN\b/g, (found) =>
      found.startsWith('"') ? found : `"${marked}${found}"`,
    );
    return JSON.parse(strict, (_, value: unknown) =>
      typeof value === 'string' && value.startsWith(marked) ? Number(value.slice(1)) : value,
    );
  }
}

/** JSON has no NaN: where W&B answers with values and not with text, it is a string. */
export const quoted = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (_, inner: unknown) =>
      typeof inner === 'number' && !Number.isFinite(inner) ? String(inner) : inner,
    ),
  );

export function checkNames(project: string, run: string, tags: readonly string[]): void {
  if (project === '' || project.length > 128 || /[/\\#?%:]/.test(project))
    throw broken(`invalid project name: ${project}`);
  if (run === '' || run.length > 64 || run.trim() !== run || /[:;,#?/']/.test(run))
    throw broken(`invalid run id: ${run}`);
  const wrong = tags.find((tag) => tag.length < 1 || tag.length > 64);
  if (wrong !== undefined) throw broken(`invalid tag: a tag has 1 to 64 characters, "${wrong}" has not`);
}

export function checkConfig(text: string): void {
  let config: unknown;
  try {
    config = parseLoose(text);
  } catch {
    throw broken('config is not JSON');
  }
  if (!isObject(config)) throw broken('config is not an object');
  for (const [key, value] of Object.entries(config))
    if (!isObject(value) || Object.keys(value).join() !== 'value')
      throw broken(`config: ${key} is not {"value": ...}`);
  const own = config._wandb as { value: unknown } | undefined;
  if (!isObject(own?.value) || !isObject(own.value.t)) throw broken('config has no _wandb.value.t');
}

const path = (entity: string, project: string, run: string) => `${entity}/${project}/${run}`;

export class FakeRuns {
  private readonly runs = new Map<string, StoredRun>();
  private readonly deleted: Set<string>;
  private readonly users: readonly FakeUser[];
  private readonly entities: ReadonlySet<string>;
  private readonly projects: Set<string>;
  /** Epoch ms. */
  readonly clock: () => number;

  constructor(
    users: readonly FakeUser[],
    others: { entities: readonly string[]; projects: readonly string[]; deleted: readonly string[] },
    clock: () => number,
  ) {
    this.users = users;
    this.clock = clock;
    this.deleted = new Set(others.deleted);
    this.projects = new Set(others.projects);
    this.entities = new Set([...others.entities, ...users.flatMap((user) => this.entitiesOf(user))]);
  }

  userOf(key: string): FakeUser | undefined {
    return this.users.find((user) => user.key === key);
  }

  /** The default one first. */
  entitiesOf(user: FakeUser): string[] {
    return [user.entity ?? user.username, ...(user.teams ?? [])];
  }

  mayRead(user: FakeUser, entity: string): boolean {
    return this.entitiesOf(user).includes(entity);
  }

  /** Throws as W&B does, `during` the field of the mutation. */
  checkWrite(user: FakeUser, entity: string, project: string, during: string): void {
    if (!this.entities.has(entity)) throw refused(404, `entity ${entity} not found during ${during}`);
    const closed = user.readOnly?.some((name) => name === entity || name === `${entity}/${project}`);
    if (closed || !this.mayRead(user, entity)) throw refused(403, 'permission denied', 'PERMISSION_ERROR');
  }

  find(entity: string, project: string, name: string): StoredRun | undefined {
    return this.runs.get(path(entity, project, name));
  }

  /** Throws where there is none, which is the client's fault unless the run was deleted. */
  need(entity: string, project: string, name: string): StoredRun {
    const run = this.find(entity, project, name);
    if (run) return run;
    const text = `run ${path(entity, project, name)} not found`;
    throw this.deleted.has(path(entity, project, name)) ? refused(404, text) : broken(text, 404);
  }

  create(user: FakeUser, entity: string, project: string, name: string): StoredRun {
    if (this.deleted.has(path(entity, project, name))) {
      const text = `run ${path(entity, project, name)} was previously created and deleted; try a new run name`;
      throw refused(409, text, 'CONFLICT');
    }
    const now = this.clock();
    const run: StoredRun = {
      ...{ entity, project, name, username: user.username },
      id: Buffer.from(`Run:v1:${name}:${project}:${entity}`).toString('base64'),
      displayName: `fake-run-${this.runs.size + 1}`,
      ...{ notes: null, group: null, jobType: null, program: null, tags: [], config: '{}' },
      ...{ history: [], events: [], output: [], summary: null, files: new Map(), uploaded: [] },
      ...{ state: 'running', complete: false, exitcode: null, stopped: false },
      ...{ createdAt: now, heartbeatAt: now },
    };
    this.projects.add(`${entity}/${project}`);
    this.runs.set(path(entity, project, name), run);
    return run;
  }

  /** Puts a run there as another client would have left it: finished, unless told otherwise. */
  leave(user: FakeUser, [entity, project, name]: [string, string, string], left: LeftRun): void {
    const { config, history = [], events = [], summary, ...plain } = left;
    const run = this.create(user, entity, project, name);
    const lines = (rows: readonly object[]) => rows.map((row) => JSON.stringify(row));
    Object.assign(run, { state: 'finished', ...plain, history: lines(history), events: lines(events) });
    if (config) run.config = JSON.stringify(config);
    if (summary) run.summary = JSON.stringify(summary);
    if (run.state !== 'running')
      Object.assign(run, { complete: true, exitcode: run.state === 'finished' ? 0 : 1 });
  }

  delete(entity: string, project: string, name: string): void {
    this.runs.delete(path(entity, project, name));
    this.deleted.add(path(entity, project, name));
  }

  hasProject(entity: string, project: string): boolean {
    return this.projects.has(`${entity}/${project}`);
  }

  projectsOf(entity: string): string[] {
    const own = [...this.projects].filter((name) => name.startsWith(`${entity}/`));
    return own.map((name) => name.slice(entity.length + 1)).sort();
  }

  runsOf(entity: string, project: string): StoredRun[] {
    return [...this.runs.values()].filter((run) => run.entity === entity && run.project === project);
  }
}
