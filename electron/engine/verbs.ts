/** What each verb of the command line does: a few lines over the engine's contract. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { CheckReport, Events, RunSummary } from './api.ts';
import { parseAddresses } from './addresses.ts';
import { checkFile, checkUrl } from './check.ts';
import { announce, lastingToken, withdraw } from './data-folder.ts';
import { createEngine } from './engine.ts';
import { EngineError } from './errors.ts';
import { parent } from './parent.ts';
import { useEngine } from './running-engine.ts';
import { serve as serveEngine } from './server.ts';
import { shown } from './shown.ts';
import { addressesOf } from './targets.ts';
import { engineOnceFree, tellRecording } from './under-main.ts';

/** Wrong usage: exit code 2. */
export class UsageError extends EngineError {
  constructor(message: string) {
    super('bad-input', message);
  }
}

/** Options as they were given, and what every verb has. */
export interface Given {
  dataFolder: string;
  version: string;
  json: boolean;
  port?: string;
  host?: string;
  'allow-host'?: string[];
  connect?: string[];
  name?: string;
  interval?: string;
  timeout?: string;
  'min-free'?: string;
  for?: string;
  out?: string;
  source?: string;
  step?: string;
  metric?: string[];
  csv?: boolean;
  stat?: string;
  population?: string;
  worker?: string;
  kind?: string;
  at?: string;
  end?: boolean;
  run?: string;
  how?: boolean;
  server?: string;
  entity?: string;
  project?: string;
  group?: string;
  tag?: string[];
  notes?: string;
  evals?: boolean;
  plots?: boolean;
  workers?: string;
  live?: boolean;
  new?: boolean;
  'dry-run'?: boolean;
  wandb?: string;
}

const DEFAULT_PORT = 8997;

/** `46s`, `10m`, `1.5h`, `500ms`, or seconds. Gives ms; throws UsageError. */
export function duration(given: string, option: string): number {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|d)?$/.exec(given.trim()) ?? [];
  if (number === undefined) throw new UsageError(`${option} ${given} is no duration: write 46s, 10m or 0.5.`);
  return Number(number) * { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }[unit as 's'];
}

/** `2GB`, `500 MB`, or GB; `0`: until the disk is full. Gives bytes; throws UsageError. */
function bytesOf(given: string): number {
  const [, number, unit = 'gb'] = /^(\d+(?:\.\d+)?)\s*(gb|mb)?$/i.exec(given.trim()) ?? [];
  if (number === undefined) throw new UsageError(`--min-free ${given} is no size: write 2GB, 500MB or 0.`);
  return Number(number) * (unit.toLowerCase() === 'gb' ? 1e9 : 1e6);
}
const roomSettings = (given: Given) => {
  const wanted = given['min-free'] ?? process.env.VLLM_SCOPE_MIN_FREE;
  return wanted ? { minFreeBytes: bytesOf(wanted) } : {};
};

const seconds = (given: string | undefined, option: string) =>
  given === undefined ? {} : { [`${option}Seconds`]: duration(given, `--${option}`) / 1000 };
const pollSettings = (given: Given) => ({
  ...seconds(given.interval, 'interval'),
  ...seconds(given.timeout, 'timeout'),
});

/** Resolves at Ctrl-C, a request to end, the end of whoever started us, or `{type: 'end'}` from the desktop app. */
function asked(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve());
    process.once('disconnect', () => resolve());
    parent()?.onMessage((message) => message.type === 'end' && resolve());
  });
}

export async function serve(given: Given): Promise<void> {
  const { dataFolder, version } = given;
  const env = process.env;
  const host = given.host ?? '127.0.0.1';
  const port = given.port === undefined ? DEFAULT_PORT : Number(given.port);
  if (!Number.isInteger(port) || port < 0 || port > 65535)
    throw new UsageError(`--port ${given.port} is no port.`);
  const ending = asked();
  const main = parent();
  const options = {
    dataFolder,
    version,
    resume: env.VLLM_SCOPE_RESUME === '1',
    ...roomSettings(given),
    keychain: main?.keychain ?? null,
    ...(main?.proxyFor && { proxyFor: main.proxyFor }),
  };
  const engine = main ? await engineOnceFree(options, main, ending) : await createEngine(options);
  if (engine === null) return;
  try {
    const token = env.VLLM_SCOPE_TOKEN || lastingToken(dataFolder);
    const server = await serveEngine(engine, {
      host,
      port,
      token,
      markToken: lastingToken(dataFolder, 'mark-token'),
      allowHosts: given['allow-host'] ?? [],
      // beside the built engine; from the sources, what was built last
      pageFolder: fileURLToPath(
        new URL(import.meta.url.endsWith('.ts') ? '../../out/renderer' : '../renderer', import.meta.url),
      ),
      report: (bug) => console.error(bug),
    });
    announce(dataFolder, { pid: process.pid, port: server.port, token });
    const wanted = given.connect?.join(' ') ?? env.VLLM_SCOPE_CONNECT;
    if (wanted) await connectOnce(engine.methods, wanted, given.name ?? env.VLLM_SCOPE_CONNECT_NAME, given);
    if (main) {
      main.post({ type: 'listening', port: server.port });
      tellRecording(engine, main);
    } else {
      const name = host.includes(':') ? `[${host}]` : host;
      if (given.json) console.log(JSON.stringify({ url: `http://${name}:${server.port}/#token=${token}` }));
      else console.log(`http://${name}:${server.port}/#token=${token}`);
      if (!['127.0.0.1', 'localhost', '::1'].includes(host))
        console.error(
          'This is plain HTTP: whoever sees the traffic sees the token. "ssh -L 8997:127.0.0.1:8997" is better.',
        );
    }
    await ending;
    await server.close();
  } finally {
    withdraw(dataFolder);
    await engine.close();
  }
}

/** Connects the addresses. A cluster that has them already (a second start) takes what else was given. */
async function connectOnce(
  methods: Awaited<ReturnType<typeof createEngine>>['methods'],
  addresses: string,
  name: string | undefined,
  given: Given,
): Promise<void> {
  const { urls: endpoints, files } = parseAddresses(addresses);
  const same = addressesOf({ endpoints, files });
  const known = (await methods.listClusters()).find((c) => c.addresses === same);
  if (!known) {
    await methods.addCluster({ name: name ?? '', addresses, ...pollSettings(given) });
    return;
  }
  await methods.updateCluster(known.id, {
    name: name ?? known.name,
    addresses,
    intervalSeconds: known.intervalSeconds,
    timeoutSeconds: known.timeoutSeconds,
    ...pollSettings(given),
    caFile: known.caFile,
    headers: known.headers.map((header) => ({ name: header, value: null })),
    keepInFile: known.secrets === 'file',
  });
  await methods.connectCluster(known.id);
}

export async function record(words: string[], given: Given): Promise<void> {
  const addresses = words.join(' ');
  parseAddresses(addresses); // refuse what is no address before anything is made
  const length = given.for === undefined ? null : duration(given.for, '--for');
  const ending = asked();
  const input = {
    name: given.name ?? '',
    addresses,
    ...pollSettings(given),
    record: given.out === undefined,
  };
  // into a file of the caller's: nothing of it belongs to the data folder
  const folder =
    given.out === undefined ? given.dataFolder : fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-'));
  const options = { dataFolder: folder, version: given.version, idle: true, ...roomSettings(given) };
  try {
    if (given.out === undefined) {
      const engine = await useEngine(options);
      try {
        await recordWith(engine, input, length, ending, given, async (id) => {
          const cluster = (await engine.methods.listClusters()).find((c) => c.id === id);
          return cluster?.recording ?? null;
        });
      } finally {
        await engine.close();
      }
      return;
    }
    const engine = await createEngine(options);
    const { methods } = engine;
    const out = path.resolve(given.out);
    try {
      const gone = new Promise<void>(() => {});
      const remote = { methods: methods as unknown as Recorder['methods'], on: engine.on, gone };
      await recordWith(
        remote,
        input,
        length,
        ending,
        given,
        async (id) => (await engine.recordInto(id, out)).id,
      );
    } finally {
      await engine.close();
    }
  } finally {
    if (given.out !== undefined) fs.rmSync(folder, { recursive: true, force: true });
  }
}

type Recorder = Pick<Awaited<ReturnType<typeof useEngine>>, 'methods' | 'on' | 'gone'>;

async function recordWith(
  { methods, on, gone }: Recorder,
  input: Parameters<Recorder['methods']['addCluster']>[0],
  length: number | null,
  ending: Promise<void>,
  given: Given,
  begin: (clusterId: string) => Promise<string | null>,
): Promise<void> {
  const cluster = await methods.addCluster(input);
  let off = () => {};
  try {
    const run = await begin(cluster.id);
    if (run === null) throw new EngineError('bad-input', 'Recording did not start.');
    const from = Date.now();
    off = on('ticked', (tick) => {
      if (tick.cluster === cluster.id) progress(tick, from);
    });
    await Promise.race([ending, gone, ...(length === null ? [] : [waitFor(length)])]);
    off();
    process.stderr.write('\n'); // where the engine is gone, the next call says so
    const state = (await methods.listClusters()).find((c) => c.id === cluster.id);
    if (state?.stopped) throw new EngineError('file-damaged', state.stopped);
    const done = await methods.stopRecording(cluster.id);
    if (given.json) console.log(JSON.stringify(done, null, 2));
    else {
      console.log(done.file);
      console.error(runLine(done));
    }
    if (done.workers === 0) throw new EngineError('not-found', unanswered(state?.endpoints ?? []));
  } finally {
    off();
    await methods.removeCluster(cluster.id).catch((error: unknown) => {
      if (!(error instanceof EngineError && error.kind === 'engine-gone')) throw error;
    });
  }
}

const many = (n: number, what: string) => `${n} ${what}${n === 1 ? '' : 's'}`;

/** A timer alone ends at once where it is longer than 24.8 days. */
async function waitFor(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 86_400_000)
    await sleep(Math.min(left, 86_400_000), undefined, { ref: false });
}

const unanswered = (endpoints: { sentence: string | null }[]) =>
  `No worker answered. ${endpoints.map((e) => e.sentence).find((s) => s !== null) ?? ''}`.trim();

function progress(tick: Events['ticked'], from: number): void {
  const line = `${Math.round((Date.now() - from) / 1000)} s  tick ${tick.t}  ${tick.answered} of ${many(tick.endpoints, 'endpoint')} answer  ${many(tick.workers, 'worker')}`;
  process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}` : `${line}\n`);
}

export async function check(words: string[], given: Given): Promise<void> {
  const reports: CheckReport[] = [];
  for (const word of words) reports.push(fs.existsSync(word) ? checkFile(word) : await checkUrl(word));
  if (given.json) console.log(JSON.stringify(reports.length === 1 ? reports[0] : reports, null, 2));
  else console.log(reports.map(checkText).join('\n\n'));
  if (reports.some((r) => r.error !== null)) process.exitCode = 1;
}

function checkText(r: CheckReport): string {
  const lines = [r.address];
  const say = (label: string, value: string) => lines.push(`  ${label.padEnd(11)} ${value}`);
  say('reachable', r.reachable ? 'yes' : 'no');
  if (r.error !== null) say('problem', shown(r.error));
  if (r.dialect) say('dialect', r.dialect);
  if (r.server !== null && r.server !== 'vLLM') say('server', r.server);
  if (r.generation) say('vLLM', r.generation);
  if (r.restricts === true) say('name[]', 'honoured: only what is read is asked for');
  if (r.bytes !== null)
    say(
      'answer',
      `${r.bytes.toLocaleString('en')} bytes${r.roundTripSeconds === null ? '' : ` in ${(r.roundTripSeconds * 1000).toFixed(0)} ms`}`,
    );
  for (const w of r.workers) {
    const labels = Object.entries(w.labels).map(([k, v]) => ` ${k}=${v}`);
    say(
      'worker',
      shown(
        `engine ${w.engine}, model ${w.model || '–'}${w.replica ? `, ${w.replica}` : ''}${labels.join('')}`,
      ),
    );
    for (const [id, value] of Object.entries(w.values)) lines.push(`    ${id.padEnd(24)} ${value}`);
  }
  if (r.workers.length > 0 && r.absent.length > 0) say('absent', r.absent.join(' '));
  for (const finding of r.findings) if (finding !== r.error) say('finding', shown(finding));
  return lines.join('\n');
}

export async function runs(given: Given): Promise<void> {
  if (!fs.existsSync(path.join(given.dataFolder, 'library.db'))) {
    if (given.json) console.log('[]');
    else console.error(`No runs in ${given.dataFolder} yet.`);
    return;
  }
  const engine = await useEngine({ dataFolder: given.dataFolder, version: given.version, idle: true });
  try {
    const list = await engine.methods.listRuns();
    if (given.json) console.log(JSON.stringify(list, null, 2));
    else if (list.length === 0) console.error(`No runs in ${given.dataFolder} yet.`);
    else console.log(list.map(runLine).join('\n'));
  } finally {
    await engine.close();
  }
}

function runLine(r: RunSummary): string {
  const length = r.endedAt === null ? 0 : Math.round((r.endedAt - r.startedAt) / 1000);
  const tokens =
    r.generationTokens === null ? '' : `  ${r.generationTokens.toLocaleString('en')} tokens generated`;
  return shown(
    `${r.id}  ${new Date(r.startedAt).toISOString()}  ${r.state}  ${length} s  ${many(r.workers, 'worker')}  ${many(r.ticks, 'tick')}${tokens}  ${r.name}`,
  );
}
