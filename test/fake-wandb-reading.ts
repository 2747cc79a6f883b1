/** The read side of the stand-in for W&B: what GraphQL fields of users, projects and runs say of what is stored. */
import {
  broken,
  isObject,
  parseLoose,
  quoted,
  type FakeRuns,
  type FakeUser,
  type StoredRun,
} from './fake-wandb-runs.ts';

/** What a request brings along. */
export interface Asking {
  user: FakeUser;
  /** The server's own address. */
  base: string;
  /** Of a fault: added to the counts of lines. */
  historyLineCountOff: number;
}

type Row = Record<string, unknown> & { _step: number };

const iso = (at: number) => new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
const rowsOf = (run: StoredRun) => run.history.map((line) => ({ line, row: parseLoose(line) as Row }));

/** At most so many, the first and the last among them. */
function sampled<T>(items: T[], most: number | null | undefined): T[] {
  if (most == null || items.length <= most) return items;
  if (most < 2) return items.slice(0, most);
  return Array.from({ length: most }, (_, i) => items[Math.round((i * (items.length - 1)) / (most - 1))]!);
}

interface Paging {
  after?: string | null;
  first?: number | null;
}
/** A cursor is the place in the list. */
function connection<T>(nodes: T[], { after, first }: Paging = {}) {
  const start = after == null ? 0 : Number(after) + 1;
  const page = nodes.slice(start, first == null ? undefined : start + first);
  const edges = page.map((node, i) => ({ node, cursor: String(start + i) }));
  return {
    edges,
    pageInfo: { endCursor: edges.at(-1)?.cursor ?? null, hasNextPage: start + page.length < nodes.length },
  };
}

export const urlPath = (...parts: string[]) =>
  parts
    .flatMap((part) => part.split('/'))
    .map(encodeURIComponent)
    .join('/');

export function userNode(runs: FakeRuns, user: FakeUser) {
  const [entity] = runs.entitiesOf(user);
  return {
    id: Buffer.from(`User:${user.username}`).toString('base64'),
    ...{ name: user.username, username: user.username, email: user.email ?? `${user.username}@example.com` },
    ...{ admin: false, flags: '{}', entity, deletedAt: null, apiKeys: connection([]) },
    teams: connection(runs.entitiesOf(user).map((name) => ({ id: name, name }))),
  };
}

function historyKeys(run: StoredRun) {
  const rows = rowsOf(run);
  const counts = new Map<string, number>();
  for (const { row } of rows) for (const key of Object.keys(row)) counts.set(key, (counts.get(key) ?? 0) + 1);
  const keys = [...counts].map(([key, count]) => [key, { typeCounts: [{ type: 'number', count }] }]);
  return { lastStep: rows.at(-1)?.row._step ?? -1, sets: [], keys: Object.fromEntries(keys) as object };
}

interface Spec {
  keys?: string[];
  samples?: number;
  minStep?: number;
  maxStep?: number;
}
function sampledHistory(run: StoredRun, text: string) {
  const spec = parseLoose(text) as Spec;
  const { keys, minStep = 0, maxStep = Infinity } = spec;
  const known = ['keys', 'samples', 'minStep', 'maxStep'];
  const unknown = Object.keys(spec).find((name) => !known.includes(name));
  if (unknown !== undefined) throw broken(`sampledHistory: unknown ${unknown}`);
  const rows = rowsOf(run).map(({ row }) => row);
  const own = rows.filter((row) => row._step >= minStep && row._step <= maxStep);
  const whole = own.filter((row) => (keys ?? []).every((key) => key in row));
  const picked = keys ? whole.map((row) => Object.fromEntries(keys.map((key) => [key, row[key]]))) : whole;
  return quoted(sampled(picked, spec.samples));
}

function history(run: StoredRun, range: { minStep?: number; maxStep?: number; samples?: number }) {
  const { minStep, maxStep, samples } = range;
  const own = rowsOf(run).filter(
    ({ row }) => row._step >= (minStep ?? 0) && row._step < (maxStep ?? Infinity),
  );
  return sampled(own, samples).map(({ line }) => line);
}

function files(
  run: StoredRun,
  base: string,
  asked: Paging & { names?: string[] | null; pattern?: string | null },
) {
  if (asked.pattern != null) throw broken('files: this server knows no pattern');
  const names = [...run.files.keys()]
    .filter((name) => !asked.names?.length || asked.names.includes(name))
    .sort();
  const node = (name: string) => {
    const url = `${base}/files/${urlPath(run.entity, run.project, run.name, name)}`;
    const sizeBytes = String(run.files.get(name)!.length);
    const rest = { mimetype: 'application/octet-stream', updatedAt: null, md5: '' };
    return {
      id: Buffer.from(`File:${name}`).toString('base64'),
      name,
      url,
      directUrl: url,
      sizeBytes,
      ...rest,
    };
  };
  return connection(names.map(node), asked);
}

export function runNode(runs: FakeRuns, run: StoredRun, asking: Asking): object {
  return {
    ...{ id: run.id, name: run.name, displayName: run.displayName, description: run.notes, notes: run.notes },
    ...{ config: run.config, summaryMetrics: run.summary ?? '{}', systemMetrics: '{}' },
    ...{ sweepName: null, commit: null, readOnly: false, projectId: '1' },
    ...{ group: run.group, jobType: run.jobType, tags: run.tags, state: run.state, stopped: run.stopped },
    ...{ createdAt: iso(run.createdAt), heartbeatAt: iso(run.heartbeatAt) },
    wandbConfig: ({ keys }: { keys: string[] }) => {
      const { _wandb } = parseLoose(run.config) as { _wandb?: { value: object } };
      return JSON.stringify(
        Object.fromEntries(Object.entries(_wandb?.value ?? {}).filter(([key]) => keys.includes(key))),
      );
    },
    user: { ...userNode(runs, asking.user), name: run.username, username: run.username },
    project: () => projectNode(runs, run.project, run.entity, asking),
    historyLineCount: Math.max(0, run.history.length + asking.historyLineCountOff),
    ...{ eventsLineCount: run.events.length, logLineCount: run.output.length },
    historyTail: JSON.stringify(run.history.slice(-1)),
    eventsTail: JSON.stringify(run.events.slice(-1)),
    historyKeys: () => historyKeys(run),
    history: (range: object) => history(run, range),
    sampledHistory: ({ specs }: { specs: string[] }) => specs.map((spec) => sampledHistory(run, spec)),
    events: ({ samples }: { samples?: number }) => sampled(run.events, samples),
    parquetHistory: ({ liveKeys }: { liveKeys: string[] }) => ({
      parquetUrls: [],
      liveData: rowsOf(run).map(({ row }) =>
        quoted(Object.fromEntries(liveKeys.filter((key) => key in row).map((key) => [key, row[key]]))),
      ),
    }),
    fileCount: run.files.size,
    files: (asked: Paging) => files(run, asking.base, asked),
  };
}

const filterable: Record<string, (run: StoredRun) => unknown> = {
  ...{ name: (run) => run.name, displayName: (run) => run.displayName, state: (run) => run.state },
  ...{ group: (run) => run.group, jobType: (run) => run.jobType, tags: (run) => run.tags },
};
/** The few of Mongo's filters that a list of runs is asked with. */
function matches(run: StoredRun, filter: unknown): boolean {
  if (!isObject(filter)) throw broken('filters is not an object');
  return Object.entries(filter).every(([key, wanted]) => {
    if (key === '$or') return (wanted as unknown[]).some((each) => matches(run, each));
    if (key === '$and') return (wanted as unknown[]).every((each) => matches(run, each));
    const read = filterable[key];
    if (!read) throw broken(`filters: this server does not know ${key}`);
    const value = read(run);
    if (isObject(wanted) && typeof wanted.$regex === 'string')
      return new RegExp(wanted.$regex).test(String(value));
    if (isObject(wanted) && Array.isArray(wanted.$in)) return wanted.$in.includes(value);
    if (isObject(wanted)) throw broken(`filters: this server does not know ${JSON.stringify(wanted)}`);
    return Array.isArray(value) ? value.includes(wanted) : value === wanted;
  });
}

const orders: Record<string, (run: StoredRun) => number> = {
  ...{ created_at: (run) => run.createdAt, heartbeat_at: (run) => run.heartbeatAt },
};
function listed(runs: StoredRun[], filters: string | null | undefined, order: string | null | undefined) {
  const [, sign, by] = /^([+-]?)(\w+)$/.exec(order ?? '-created_at') ?? [];
  const key = orders[by ?? ''];
  if (!key) throw broken(`order: this server does not know ${order}`);
  const filter = JSON.parse(filters ?? '{}') as unknown;
  const own = runs.filter((run) => matches(run, filter));
  return own.sort((a, b) => (sign === '-' ? key(b) - key(a) : key(a) - key(b)));
}

/** null where the user may not see it or there is none. */
export function projectNode(runs: FakeRuns, name: string, entity: string, asking: Asking): object | null {
  if (!runs.mayRead(asking.user, entity) || !runs.hasProject(entity, name)) return null;
  const find = (asked: { name: string }) => {
    const run = runs.find(entity, name, asked.name);
    return run ? runNode(runs, run, asking) : null;
  };
  const id = Buffer.from(`Project:v1:${name}:${entity}`).toString('base64');
  return {
    ...{ id, internalId: id, name, entityName: entity, entity: { id: entity, name: entity } },
    ...{ createdAt: iso(0), isBenchmark: false, readOnly: false, user: userNode(runs, asking.user) },
    ...{ bucket: find, run: find, artifact: null },
    runCount: ({ filters }: { filters?: string }) => listed(runs.runsOf(entity, name), filters, null).length,
    runs: (asked: Paging & { filters?: string; order?: string }) =>
      connection(
        listed(runs.runsOf(entity, name), asked.filters, asked.order).map((run) =>
          runNode(runs, run, asking),
        ),
        asked,
      ),
  };
}

export const projectNodes = (runs: FakeRuns, entity: string, paging: Paging, asking: Asking) =>
  connection(
    runs.projectsOf(entity).map((name) => projectNode(runs, name, entity, asking)),
    paging,
  );
