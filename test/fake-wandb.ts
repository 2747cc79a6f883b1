/**
 * A strict stand-in for a W&B server, for tests: real HTTP (or TLS) on loopback, in the shapes that the real SDK was
 * recorded with (test/fixtures/wandb). What a well-made client never sends is refused and remembered as a violation.
 * What it accepts proves nothing about the real service. By hand: `node test/fake-wandb.ts --port 8990 --key KEY`.
 */
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import type { ServerCertificate } from './fake-endpoint.ts';
import { Faults, type Fault, type FaultTarget } from './fake-wandb-faults.ts';
import { Graph } from './fake-wandb-graph.ts';
import { Wire, type SeenRequest } from './fake-wandb-http.ts';
import { FakeRuns, type FakeUser, type LeftRun, type StoredRun } from './fake-wandb-runs.ts';

/** Of the user that there is where no others are given; its entity is `ent`. */
export const fakeKey = 'x'.repeat(40);

export interface FakeWandbOptions {
  /** Default: one, `user` with `fakeKey` and the entity `ent`. */
  users?: readonly FakeUser[];
  /** That exist beside those of the users. */
  entities?: readonly string[];
  /** `entity/project` of projects that exist without a run. */
  projects?: readonly string[];
  /** `entity/project/run` of runs that were deleted. */
  deleted?: readonly string[];
  /** Default: those of the recordings, which lack FILESTREAM_GZIP. */
  features?: readonly string[];
  /** That each PUT must carry; default `Content-Type:application/octet-stream`. */
  uploadHeaders?: readonly string[];
  /** More file_stream requests of one run are answered with 429; W&B documents 2. Default: no limit. */
  ratePerSecond?: number;
  /** The first line of a request may have a lower _step than the one before it. */
  stepsMayRestart?: boolean;
  /** It speaks TLS with it. */
  certificate?: ServerCertificate;
  /** 0: a free one. */
  port?: number;
  /** Epoch ms; a test's own time instead of the real one. */
  clock?: () => number;
}

export interface FakeWandb {
  /** http://127.0.0.1:PORT, or https. */
  url: string;
  /** A copy; null: there is no such run. */
  stored: (entity: string, project: string, run: string) => StoredRun | null;
  /** Puts a run there as another client left it: finished, unless told otherwise. */
  leave: (entity: string, project: string, run: string, left: LeftRun) => void;
  /** Deletes a run; its id stays burnt. */
  remove: (entity: string, project: string, run: string) => void;
  /** The next so many requests that `on` fits go wrong; what was injected before comes first. */
  inject: (on: FaultTarget, fault: Fault, times?: number) => void;
  /** All that came in, in this order. */
  requests: () => readonly SeenRequest[];
  /** The rules that were broken since the last call. */
  violations: () => string[];
  /** Throws where there are violations that nobody asked for. */
  stop: () => Promise<void>;
}

const recordedFeatures = [
  ...['EXPAND_DEFINED_METRIC_GLOBS', 'MARK_RUN_FILES_UPLOADED', 'LARGE_FILENAMES', 'STRUCTURED_CONSOLE_LOGS'],
];

const copyOf = (run: StoredRun): StoredRun => ({
  ...run,
  tags: [...run.tags],
  history: [...run.history],
  events: [...run.events],
  output: [...run.output],
  files: new Map(run.files),
  uploaded: [...run.uploaded],
});

export async function startFakeWandb(options: FakeWandbOptions = {}): Promise<FakeWandb> {
  const {
    users = [{ key: fakeKey, username: 'user', entity: 'ent' }],
    clock = Date.now,
    certificate,
  } = options;
  const { entities = [], projects = [], deleted = [], features = recordedFeatures } = options;
  const { uploadHeaders = ['Content-Type:application/octet-stream'], port = 0 } = options;
  const runs = new FakeRuns(users, { entities, projects, deleted }, clock);
  const faults = new Faults();
  let url = '';
  const wire = new Wire(runs, new Graph(runs, { features, uploadHeaders }), faults, {
    clock,
    gzip: features.includes('FILESTREAM_GZIP'),
    ratePerSecond: options.ratePerSecond,
    stepsMayRestart: options.stepsMayRestart ?? false,
    base: () => url,
  });
  const handle: Parameters<typeof createServer>[1] = (request, response) =>
    void wire.handle(request, response);
  const server = certificate ? createTlsServer(certificate, handle) : createServer(handle);
  server.keepAliveTimeout = 0; // no client meets a connection that has just ended
  await new Promise<void>((done, failed) => server.once('error', failed).listen(port, '127.0.0.1', done));
  url = `${certificate ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const violations = () => wire.violations.splice(0);
  return {
    url,
    stored: (entity, project, name) => {
      const run = runs.find(entity, project, name);
      return run ? copyOf(run) : null;
    },
    leave: (entity, project, name, left) => runs.leave(users[0]!, [entity, project, name], left),
    remove: (entity, project, name) => runs.delete(entity, project, name),
    inject: (on, fault, times = 1) => faults.add(on, fault, times),
    requests: () => wire.seen,
    violations,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      const broken = violations();
      if (broken.length > 0) throw new Error(`rules of W&B were broken:\n${broken.join('\n')}`);
    },
  };
}

async function main(): Promise<void> {
  const text = { type: 'string' } as const;
  const { values } = parseArgs({ options: { port: text, key: text } });
  const users = [{ key: values.key ?? fakeKey, username: 'user', entity: 'ent' }];
  const fake = await startFakeWandb({ users, port: Number(values.port ?? 0) });
  process.stdout.write(`${fake.url}\n`);
  const end = () =>
    void fake.stop().catch((error: Error) => {
      process.stderr.write(`${error.message}\n`);
      process.exitCode = 1;
    });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, end);
}

if (import.meta.main) await main();
