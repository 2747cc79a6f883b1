/**
 * Renders what the stand-in's engines counted as a vLLM 0.30 server writes it: the same families, labels, order and
 * numbers as the recorded bodies (fake-vllm.test.ts compares line by line). With one API process all is in order of
 * registration; with several, prometheus_client merges the files of its processes: histograms, gauges, summaries,
 * counters, without start times. What does not change is put together once, so that a body costs little.
 */
import type { FakeEngine, Histogram } from './fake-engine.ts';
import { httpFamilies, processFamilies, vllmFamilies, type HttpCounts } from './fake-families.ts';

/**
 * One API server process, several (vLLM's default with data parallelism since 0.15), or several with the older
 * prometheus_client (seen with 0.10) that writes the sums of all engines before the buckets of the first.
 */
export type ApiProcesses = 'one' | 'several' | 'several-older';

export interface BodySource {
  engines: FakeEngine[];
  model: string;
  processes: ApiProcesses;
  http: HttpCounts;
  /** Of the API server's process and of its metrics, unix seconds. */
  startedAt: number;
  createdAt: number;
}

export type Labels = Record<string, string>;
type Kind = 'counter' | 'gauge' | 'summary' | 'histogram';

/** One labelled child of a family; `at` is when it was created, unix seconds. */
export type Child = { labels: Labels; at: number } & (
  | { read: () => number; /** False: no process has set this gauge yet. */ set?: () => boolean }
  | { of: Histogram }
  | { count: () => number; sum: () => number }
);

export interface Family {
  name: string;
  kind: Kind;
  help: string;
  /** In the order in which the real one makes them. */
  children: Child[];
  /** Of a collector that knows no start times and nothing of several processes. */
  oneProcess?: boolean;
}

/** A number as prometheus_client writes it: Python's repr, but exponents from 1e6 on. */
export function pythonFloat(value: number): string {
  if (value > 0 && value < 1e6 && (value | 0) === value) return value + '.0'; // nearly all of them
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return Object.is(value, -0) ? '-0.0' : `${value}.0`;
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf';
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e16)
    return value
      .toExponential()
      .replace(/e([+-])(\d)$/, (_, sign: string, digit: string) => `e${sign}0${digit}`);
  const text = String(value);
  if (value < 1e6) return text.includes('.') ? text : `${text}.0`;
  const dot = text.includes('.') ? text.indexOf('.') : text.length;
  const mantissa = `${text[0]}.${text.slice(1, dot)}${text.slice(dot + 1)}`.replace(/\.?0+$/, '');
  return `${mantissa}e+${String(dot - 1).padStart(2, '0')}`;
}

/** Alphabetical, `le` among them. */
function labelText(labels: Labels): string {
  const escape = (value: string) => value.replace(/\\/g, '\\\\').replace(/\n/g, '\\n').replace(/"/g, '\\"');
  const keys = Object.keys(labels).sort();
  return keys.length > 0 ? `{${keys.map((key) => `${key}="${escape(labels[key]!)}"`).join(',')}}` : '';
}

type Piece = string | (() => string);

const head = (name: string, kind: Kind, help: string) => `# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n`;

function line(name: string, labels: Labels, read: () => number): () => string {
  const start = `${name}${labelText(labels)} `;
  return () => `${start}${pythonFloat(read())}\n`;
}

function buckets(name: string, labels: Labels, of: Histogram): () => string {
  const starts = [...of.bounds, Infinity].map(
    (le) => `${name}_bucket${labelText({ ...labels, le: pythonFloat(le) })} `,
  );
  let text = '';
  let count = -1;
  return () => {
    if (of.count === count) return text; // nothing was observed since
    count = of.count;
    text = '';
    let total = 0;
    for (let i = 0; i < starts.length; i++) text += starts[i]! + pythonFloat((total += of.counts[i]!)) + '\n';
    return text;
  };
}

function childPieces(name: string, child: Child, processes: ApiProcesses): Piece[] {
  const { labels } = child;
  if ('of' in child) {
    const { of } = child;
    const sum = line(`${name}_sum`, labels, () => of.sum);
    const count = line(`${name}_count`, labels, () => of.count);
    const all = buckets(name, labels, of);
    if (processes === 'one') return [all, count, sum];
    return processes === 'several' ? [sum, all, count] : [all, count];
  }
  if ('sum' in child)
    return [line(`${name}_count`, labels, child.count), line(`${name}_sum`, labels, child.sum)];
  const { read, set } = child;
  const value = line(name, labels, read);
  return [processes === 'one' || !set ? value : () => (set() ? value() : '')];
}

function pieces({ name, kind, help, children, oneProcess }: Family, processes: ApiProcesses): Piece[] {
  const out: Piece[] = [head(name, kind, help)];
  if (processes === 'several-older')
    for (const child of children)
      if ('of' in child) out.push(line(`${name}_sum`, child.labels, () => child.of.sum));
  for (const child of children) out.push(...childPieces(name, child, processes));
  if (processes !== 'one' || oneProcess || kind === 'gauge' || children.length === 0) return out;
  const created = `${kind === 'counter' ? name.replace(/_total$/, '') : name}_created`;
  out.push(head(created, 'gauge', help));
  for (const { labels, at } of children) out.push(`${created}${labelText(labels)} ${pythonFloat(at)}\n`);
  return out;
}

const mergedOrder: Kind[] = ['histogram', 'gauge', 'summary', 'counter'];

export class MetricsBody {
  private source: BodySource;
  private ready: { http: HttpCounts; handlers: number; withStatistics: Piece[]; without: Piece[] } | null =
    null;

  constructor(source: BodySource) {
    this.source = source;
  }

  /** Now is unix seconds; without statistics it is a server with --disable-log-stats. */
  render(now: number, statistics = true): string {
    const { source } = this;
    // Made anew by a restart (which brings new counts) and by a new handler.
    const { http } = source;
    let { ready } = this;
    if (ready?.http !== http || ready.handlers !== http.handlers.length)
      ready = {
        http,
        handlers: http.handlers.length,
        withStatistics: this.prepare(true),
        without: this.prepare(false),
      };
    this.ready = ready;
    this.now = now;
    let text = '';
    for (const piece of statistics ? ready.withStatistics : ready.without)
      text += typeof piece === 'string' ? piece : piece();
    return text;
  }

  private now = 0;

  private prepare(statistics: boolean): Piece[] {
    const { source } = this;
    let families = [
      ...processFamilies(source, () => this.now - source.startedAt),
      ...(statistics ? vllmFamilies(source) : []),
      ...httpFamilies(source),
    ];
    if (source.processes !== 'one')
      families = mergedOrder.flatMap((kind) =>
        families.filter((f) => f.kind === kind && !f.oneProcess && f.children.length > 0),
      );
    const all = families.flatMap((family) => pieces(family, source.processes));
    const merged: Piece[] = [];
    for (const piece of all) {
      const last = merged.at(-1);
      if (typeof piece === 'string' && typeof last === 'string') merged[merged.length - 1] = last + piece;
      else merged.push(piece);
    }
    return merged;
  }
}
