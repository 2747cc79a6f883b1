/**
 * `npm run bench:prometheus [-- minutes]`: Debian's Prometheus and our engine scrape the same stand-in of 64 workers at
 * the same time, once a second. CPU a round, memory, disk a kept value, and what a page asks, side by side in one run.
 * Prometheus keeps every series of the bodies, we what the catalogue names: so disk is told a value that is kept.
 * Needs `apt install prometheus`; its own service is not used.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { columns } from '../electron/engine/catalogue.ts';
import { connectTo } from '../electron/engine/running-engine.ts';
import { forkStandIn } from './stand-in-process.ts';

const MINUTES = Number(process.argv[2] ?? 10);
const [WORKERS, PER_ENDPOINT, WINDOWS, PORT] = [64, 8, 50, 9790];
const METRICS = [
  ['running', 'vllm:num_requests_running', 'gauge'],
  ['kv_cache_usage', 'vllm:kv_cache_usage_perc', 'gauge'],
  ['generation_tokens', 'vllm:generation_tokens_total', 'counter'],
] as const;

const binary = ['/usr/bin/prometheus', '/usr/local/bin/prometheus'].find((file) => fs.existsSync(file));
if (binary === undefined) {
  console.error('There is no Prometheus here: apt install prometheus.');
  process.exit(1);
}
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-prometheus-'));
const children: ChildProcess[] = [];
const start = (command: string, args: string[]): ChildProcess => {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'ignore'] });
  children.push(child);
  return child;
};
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  fs.rmSync(folder, { recursive: true, force: true });
});

/** CPU seconds and memory of a process, all threads, as Linux counts them. */
function usageOf(pid: number): { cpu: number; peakMB: number } {
  const fields = fs
    .readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  const peak = /VmHWM:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return { cpu: (Number(fields[11]) + Number(fields[12])) / 100, peakMB: Number(peak) / 1024 };
}
const diskOf = (folderOrFile: string): number =>
  Number(execFileSync('du', ['-sb', folderOrFile], { encoding: 'utf8' }).split('\t')[0]);
const median = (values: number[]) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
async function timed(times: number, act: () => Promise<unknown>): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < times; i++) {
    const from = performance.now();
    await act();
    took.push(performance.now() - from);
  }
  return median(took);
}
/** `wins`: the smaller one is the better one. */
function say(what: string, ours: number, theirs: number, unit: string, digits = 1): void {
  const show = (n: number) => `${n.toFixed(digits)} ${unit}`.padStart(14);
  console.log(`${what.padEnd(58)}${show(ours)}${show(theirs)}   ${(theirs / ours).toFixed(2)} x`);
}

const fake = await forkStandIn(WORKERS, PER_ENDPOINT);
const addresses = fake.addresses.split(' ');
const config = path.join(folder, 'prometheus.yml');
const targets = addresses.map((url) => `'${new URL(url).host}'`).join(', ');
fs.writeFileSync(
  config,
  `global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs: [{job_name: vllm, static_configs: [{targets: [${targets}]}]}]\n`,
);
const tsdb = path.join(folder, 'tsdb');
const theirs = start(binary, [
  ...[`--config.file=${config}`, `--storage.tsdb.path=${tsdb}`, `--web.listen-address=127.0.0.1:${PORT}`],
  ...['--web.enable-admin-api', '--log.level=error'],
]);
const data = path.join(folder, 'data');
const cli = path.join(import.meta.dirname, '../electron/engine/cli.ts');
const ours = start(process.execPath, [
  ...[cli, 'serve', '--port', '0', '--data', data, '--min-free', '0', '--connect', fake.addresses],
]);
const address = await new Promise<URL>((resolve) => {
  let said = '';
  ours.stdout!.on('data', (part: Buffer) => {
    said += part.toString();
    const url = /http:\S+token=\S+/.exec(said)?.[0];
    if (url !== undefined) resolve(new URL(url));
  });
});
const engine = await connectTo(Number(address.port), address.hash.replace('#token=', ''));

await sleep(15_000); // both have begun
const begin = { ours: usageOf(ours.pid!), theirs: usageOf(theirs.pid!), at: Date.now() };
await sleep(MINUTES * 60_000);
const end = { ours: usageOf(ours.pid!), theirs: usageOf(theirs.pid!), at: Date.now() };
const rounds = (end.at - begin.at) / 1000;

const api = async (query: string): Promise<unknown> => {
  const answer = await fetch(`http://127.0.0.1:${PORT}/api/v1/${query}`);
  const body = (await answer.json()) as { status: string; data: unknown; error?: string };
  if (body.status !== 'success') throw new Error(body.error);
  return body.data;
};
const [run] = await engine.methods.listRuns();
const { file } = run!;
const db = new Database(file, { readonly: true });
const kept = columns.map(({ id }) => `count(${id})`).join(' + ');
const ourValues = db.prepare(`SELECT ${kept} FROM sample`).pluck().get() as number;
const ourDisk = ['', '-wal'].reduce((sum, end) => sum + fs.statSync(`${file}${end}`).size, 0);
db.close();
const said = (await api(`query?query=prometheus_tsdb_head_samples_appended_total`).catch(() => null)) as {
  result: { value: [number, string] }[];
} | null;
const own = await (await fetch(`http://127.0.0.1:${PORT}/metrics`)).text();
const appended = /^prometheus_tsdb_head_samples_appended_total(?:\{[^}]*\})? (\S+)/m.exec(own)?.[1];
const theirValues = Number(said?.result[0]?.value[1] ?? appended);
const theirDisk = diskOf(tsdb);
await fetch(`http://127.0.0.1:${PORT}/api/v1/admin/tsdb/snapshot`, { method: 'POST' });
const block = diskOf(path.join(tsdb, 'snapshots'));

console.log(
  `${WORKERS} workers on ${addresses.length} endpoints, 1 s, ${Math.round(rounds)} rounds; at the right: theirs / ours`,
);
console.log(`${''.padEnd(58)}${'vLLM Scope'.padStart(14)}${'Prometheus'.padStart(14)}`);
const cpu = (who: 'ours' | 'theirs') => ((end[who].cpu - begin[who].cpu) / rounds) * 1000;
say('CPU a round, all threads', cpu('ours'), cpu('theirs'), 'ms');
say('memory at most', end.ours.peakMB, end.theirs.peakMB, 'MB', 0);
say('values kept a round', ourValues / rounds, theirValues / rounds, '', 0);
say('disk a kept value, as it lies (with logs)', ourDisk / ourValues, theirDisk / theirValues, 'B', 2);
say('  Prometheus compacted into a block', ourDisk / ourValues, block / theirValues, 'B', 2);

const span = { from: run!.startedAt, to: end.at };
const seconds = (ms: number) => (ms / 1000).toFixed(3);
const step = Math.max(1, Math.ceil((span.to - span.from) / 1000 / 1000));
const promql = (name: string, kind: string) => (kind === 'gauge' ? name : `rate(${name}[10s])`);
for (const [id, name, kind] of METRICS) {
  const query = { run: run!.id, metrics: [id], ...span, points: 1000 };
  const range = `query_range?query=${encodeURIComponent(promql(name, kind))}&start=${seconds(span.from)}&end=${seconds(span.to)}&step=${step}`;
  say(
    `whole-run timeline of ${id}, all workers`,
    await timed(7, () => engine.methods.timelines(query)),
    await timed(7, () => api(range)),
    'ms',
  );
}
const length = (span.to - span.from) / WINDOWS;
const windows = Array.from({ length: WINDOWS }, (_, i) => span.from + i * length);
const wide = `${Math.round(length / 1000)}s`;
for (const [id, name, kind] of METRICS) {
  const series = kind === 'gauge' ? `${name}[${wide}]` : `rate(${name}[10s])[${wide}:1s]`;
  const asked = [
    `avg(avg_over_time(${series}))`,
    `max(max_over_time(${series}))`,
    // of each worker, the highest: a percentile over all samples of all workers it has not
    `max(quantile_over_time(0.95, ${series}))`,
  ];
  say(
    `${WINDOWS} windows' mean, max, p95 of ${id}, all workers`,
    await timed(3, async () => {
      for (const from of windows)
        await engine.methods.statistics({ run: run!.id, metrics: [id], from, to: from + length });
    }),
    await timed(3, async () => {
      for (const from of windows)
        for (const query of asked)
          await api(`query?query=${encodeURIComponent(query)}&time=${seconds(from + length)}`);
    }),
    'ms',
    0,
  );
}
await engine.close();
fake.end();
process.exit(0);
