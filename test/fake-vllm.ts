/**
 * A stand-in for a fleet of vLLM servers under RL rollouts, for tests and for the demo: real HTTP, made-up engines.
 * `npm run fake-vllm -- --help` says how to run it by hand; tests start it with startFakeCluster.
 */
import { parseArgs } from 'node:util';
import {
  FakeEndpoint,
  FakeServer,
  type Faults,
  type FakeTime,
  type ServerCertificate,
} from './fake-endpoint.ts';
import { FakeEngine, seeded, type EngineShape } from './fake-engine.ts';
import type { ApiProcesses } from './fake-metrics.ts';
import { Rollouts, slowEvery, systemTokens, type RolloutOptions } from './fake-rollouts.ts';

export interface FakeClusterOptions extends Partial<Omit<RolloutOptions, 'straggler'>> {
  workers?: number;
  enginesPerEndpoint?: number;
  /** Of the first endpoint, the others follow; 0: free ones. */
  port?: number;
  model?: string;
  /** Default: one for one engine, several for more, as vLLM does since 0.15. */
  apiProcesses?: ApiProcesses;
  shape?: Partial<EngineShape>;
  /**
   * One engine, drawn with this seed, is much slower than all others, and has as much to do. Which one is told by
   * `tellPlanted` alone, after somebody has named one.
   */
  plantSlow?: number;
  /** The engines have been at it for so long. */
  warmSeconds?: number;
  /** All endpoints speak TLS with it. */
  certificate?: ServerCertificate;
  /** Epoch ms; a test's own time instead of the real one. */
  clock?: () => number;
}

export interface FakeCluster {
  endpoints: FakeEndpoint[];
  /** All engines, in the order of the endpoints. */
  engines: FakeEngine[];
  /** The truth: steps, and with keepRequests every request. Its times are seconds since `origin` (epoch ms). */
  rollouts: Rollouts;
  origin: number;
  /** Runs the model to now without asking for a body. */
  advance: () => number;
  /** The worker that was planted slow, `w3`, for whoever names one; once. Throws where none was planted. */
  tellPlanted: (named: string) => string;
  /** One more address that answers in turn for two of the endpoints. */
  addLoadBalancer: (first?: number, second?: number) => Promise<FakeEndpoint>;
  close: () => Promise<void>;
}

export const defaultShape: EngineShape = {
  maxRunning: 64,
  blocks: 1056,
  blockSize: 16,
  maxModelLen: 16384,
  batchTokens: 8192,
  stepSeconds: 0.02,
  requestSeconds: 0.0002,
  promptTokenSeconds: 0.00002,
};

/** Of the engine that is planted slow: its steps take so many times as long. */
const plantedSlowness = 1.5;

/** Seconds after its start. */
const refusedAfter = 8;

export async function startFakeCluster(options: FakeClusterOptions = {}): Promise<FakeCluster> {
  const { workers = 1, enginesPerEndpoint = 1, port = 0, model = 'qwen3-8b', warmSeconds = 0 } = options;
  const { seed = 1, clock = Date.now, apiProcesses = enginesPerEndpoint > 1 ? 'several' : 'one' } = options;
  const origin = clock() - warmSeconds * 1000;
  const shape = { ...defaultShape, ...options.shape };
  const random = seeded(seed);
  const slowest = Math.floor(random() * Math.min(slowEvery, workers));
  const planted = options.plantSlow === undefined ? null : Math.floor(seeded(options.plantSlow)() * workers);
  const slownessOf = (worker: number) => {
    if (planted === worker) return plantedSlowness;
    const usuallySlow = planted === null && workers > 1 && worker % slowEvery === slowest;
    return usuallySlow ? 1.35 : 0.97 + 0.06 * random();
  };
  const engines = Array.from({ length: workers }, (_, worker) => {
    const slow = slownessOf(worker);
    const own = {
      ...shape,
      stepSeconds: shape.stepSeconds * slow,
      requestSeconds: shape.requestSeconds * slow,
    };
    return new FakeEngine(worker % enginesPerEndpoint, own, seed * 1000 + worker, systemTokens);
  });
  const servers: FakeServer[] = [];
  for (let i = 0; i < workers; i += enginesPerEndpoint)
    servers.push(
      new FakeServer(
        engines.slice(i, i + enginesPerEndpoint),
        model,
        apiProcesses,
        origin / 1000,
        origin / 1000 - 70 - 1.7 * servers.length,
      ),
    );
  const rollouts = new Rollouts(
    engines,
    {
      seed,
      stepSeconds: options.stepSeconds ?? [20, 36],
      pauseSeconds: options.pauseSeconds ?? [2.4, 3.2],
      sleepBetweenSteps: options.sleepBetweenSteps ?? false,
      straggler: planted,
      keepRequests: options.keepRequests ?? false,
    },
    0.5,
  );
  rollouts.onUpdated = (at) => {
    for (const server of servers)
      server.http.record('/reset_prefix_cache', '2xx', 0.006, [0, 16], origin / 1000 + at);
  };
  let refused = false;
  const time: FakeTime = {
    clock,
    advance: () => {
      const at = (clock() - origin) / 1000;
      // Once, a client asks for something it may not: a series that appears later than the others.
      if (!refused && at >= refusedAfter) {
        refused = true;
        rollouts.advance(refusedAfter);
        for (const { http } of servers)
          http.record('/tokenize', '4xx', 0.0024, [1302, 108], origin / 1000 + refusedAfter);
      }
      rollouts.advance(at);
      return at;
    },
  };
  const certificate = options.certificate ?? null;
  const endpoints = servers.map((server) => new FakeEndpoint([server], time, certificate));
  const close = async () => void (await Promise.all(endpoints.map((endpoint) => endpoint.close())));
  try {
    for (const [i, endpoint] of endpoints.entries()) await endpoint.up(port === 0 ? 0 : port + i);
  } catch (error) {
    await close();
    throw error;
  }
  let told = false;
  const tellPlanted = (named: string) => {
    if (planted === null) throw new Error('no worker was planted slow');
    if (told || !/^w\d+$/.test(named)) throw new Error(`"${named}": name one worker, such as w3, once`);
    told = true;
    return `w${planted}`;
  };
  const addLoadBalancer = async (first = 0, second = 1) => {
    const balancer = new FakeEndpoint([servers[first]!, servers[second]!], time, certificate);
    endpoints.push(balancer);
    await balancer.up(port === 0 ? 0 : port + endpoints.length - 1);
    return balancer;
  };
  const { advance } = time;
  return { endpoints, engines, rollouts, origin, advance, tellPlanted, addLoadBalancer, close };
}

const usage = `Usage: npm run fake-vllm -- [options]
Serves made-up vLLM engines under RL rollouts on 127.0.0.1 and prints one URL per endpoint. Ctrl-C ends it.

  --workers N               engines in all (1)
  --engines-per-endpoint N  engines behind one address, as with data parallelism (1)
  --port N                  of the first endpoint, the others follow; 0: free ones (9100)
  --seed N                  the same seed gives the same numbers (1)
  --model NAME              their model_name (qwen3-8b)
  --api-processes WHICH     one, several or several-older: how bodies with several engines are written
  --step-seconds A-B        how long steps take (20-36)
  --pause-seconds A-B       how long the trainer trains in between (2.4-3.2)
  --sleep                   engines sleep while the trainer trains
  --warm SECONDS            they have been at it for so long (0)
  --plant-slow SEED         one engine, drawn with it, is slow in every step; which one is told at the end
  --restart-every SECONDS   now and then one endpoint dies and is back 5 seconds later
  --load-balancer           one more address that answers in turn for the first two
  --fault I:NAME[=VALUE]    a fault of endpoint I (0 is the first), may be repeated: hang, late-ms=N,
                            late-ms-per-request=N, cut-at=SHARE, cut-fitting-at=SHARE, status=N, stats-off, garbage,
                            gzip, megabytes=N, redirect=URL or same-origin, reset-reused, no-date,
                            wants=AUTHORIZATION (such as "Bearer abc"), honours-names, no-metrics

Example: npm run fake-vllm -- --workers 64 --engines-per-endpoint 8 --port 9100 --restart-every 60 --fault 3:late-ms=900
`;

class WrongUsage extends Error {}

const faultNames: Record<keyof Faults, 'flag' | 'number' | 'text'> = {
  hang: 'flag',
  lateMs: 'number',
  lateMsPerRequest: 'number',
  cutAt: 'number',
  cutFittingAt: 'number',
  status: 'number',
  statsOff: 'flag',
  garbage: 'flag',
  gzip: 'flag',
  megabytes: 'number',
  redirect: 'text',
  resetReused: 'flag',
  noDate: 'flag',
  wants: 'text',
  honoursNames: 'flag',
  noMetrics: 'flag',
  noVersion: 'flag',
};

function readNumber(text: string, what: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new WrongUsage(`${what} is a number, not "${text}"`);
  return value;
}

function readFault(text: string): { endpoint: number; fault: Faults } {
  const [, index, name, value] = /^(\d+):([a-z-]+)(?:=(.*))?$/.exec(text) ?? [];
  const key = (name ?? '').replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  if (index === undefined || !(key in faultNames)) throw new WrongUsage(`no such fault: ${text}`);
  const kind = faultNames[key as keyof Faults];
  if ((kind === 'flag') !== (value === undefined))
    throw new WrongUsage(`${name} takes ${kind === 'flag' ? 'no' : 'a'} value`);
  const set = kind === 'flag' ? true : kind === 'number' ? readNumber(value!, name!) : value;
  return { endpoint: Number(index), fault: { [key]: set } };
}

function readRange(text: string | undefined, what: string): [number, number] | undefined {
  if (text === undefined) return undefined;
  const [least, most = least] = text.split('-').map((part) => readNumber(part, what));
  return [least!, most!];
}

async function main(args: string[]): Promise<void> {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const { values } = parseArgs({
    args,
    options: {
      ...{ workers: text, 'engines-per-endpoint': text, port: text, seed: text, model: text, warm: text },
      ...{ 'plant-slow': text },
      ...{ 'api-processes': text, 'step-seconds': text, 'pause-seconds': text, 'restart-every': text },
      ...{
        sleep: flag,
        'load-balancer': flag,
        help: { ...flag, short: 'h' },
        fault: { ...text, multiple: true },
      },
    },
  });
  if (values.help) return void process.stdout.write(usage);
  const number = (name: 'workers' | 'engines-per-endpoint' | 'port' | 'seed' | 'warm', otherwise: number) =>
    values[name] === undefined ? otherwise : readNumber(values[name], `--${name}`);
  const apiProcesses = values['api-processes'];
  if (apiProcesses !== undefined && !['one', 'several', 'several-older'].includes(apiProcesses))
    throw new WrongUsage('--api-processes is one, several or several-older');
  const faults = (values.fault ?? []).map(readFault);
  const seed = number('seed', 1);
  const cluster = await startFakeCluster({
    workers: Math.max(1, number('workers', 1)),
    enginesPerEndpoint: Math.max(1, number('engines-per-endpoint', 1)),
    port: number('port', 9100),
    seed,
    model: values.model,
    apiProcesses: apiProcesses as ApiProcesses | undefined,
    warmSeconds: number('warm', 0),
    stepSeconds: readRange(values['step-seconds'], '--step-seconds'),
    pauseSeconds: readRange(values['pause-seconds'], '--pause-seconds'),
    sleepBetweenSteps: values.sleep,
    plantSlow:
      values['plant-slow'] === undefined ? undefined : readNumber(values['plant-slow'], '--plant-slow'),
  });
  if (values['load-balancer']) await cluster.addLoadBalancer();
  for (const { endpoint, fault } of faults) {
    const at = cluster.endpoints[endpoint];
    if (!at) throw new WrongUsage(`there is no endpoint ${endpoint}`);
    Object.assign(at.faults, fault);
  }
  for (const { url } of cluster.endpoints) process.stdout.write(`${url}\n`);
  if (values['restart-every'] !== undefined) {
    const every = Math.max(1, readNumber(values['restart-every'], '--restart-every'));
    const random = seeded(seed + 1);
    const restart = () => {
      const own = cluster.endpoints.filter(({ servers }) => servers.length === 1);
      const victim = own[Math.floor(random() * own.length)]!;
      process.stderr.write(`${victim.url} restarts\n`);
      void victim.restart({ downSeconds: Math.min(5, every / 2) });
    };
    setInterval(restart, every * 1000);
  }
  const end = () => {
    if (values['plant-slow'] !== undefined) process.stderr.write(`${cluster.tellPlanted('w0')} was slow\n`);
    void cluster.close().then(() => process.exit(0));
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, end);
}

if (import.meta.main) {
  main(process.argv.slice(2)).catch((error: unknown) => {
    const wrong =
      error instanceof WrongUsage || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS');
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(wrong ? 2 : 1);
  });
}
