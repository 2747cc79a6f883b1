/**
 * The entry: the verbs of the command line, and what the desktop app starts (`serve`). Data goes to stdout, everything
 * said to stderr; exit 0 done, 1 it failed (one sentence), 2 wrong usage.
 */
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import v8 from 'node:v8';
import { defaultDataFolder } from './data-folder.ts';
import { EngineError, sentenceOf } from './errors.ts';
import { mark } from './verb-mark.ts';
import { why } from './verb-why.ts';
import * as ofSteps from './verbs-steps.ts';
import { exportRun, upload } from './verbs-upload.ts';
import * as verbs from './verbs.ts';

const common = {
  data: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

interface Verb {
  usage: string;
  about: string;
  example: string;
  options: NonNullable<ParseArgsConfig['options']>;
  /** Names of what may stand without a dash: [least, most]. */
  words: [number, number];
  run(words: string[], given: verbs.Given): Promise<void>;
}

const polling = {
  interval: { type: 'string' },
  timeout: { type: 'string' },
  'min-free': { type: 'string' },
  name: { type: 'string' },
} as const;

const ofStep = {
  step: { type: 'string' },
  kind: { type: 'string' },
  source: { type: 'string' },
  metric: { type: 'string', multiple: true },
} as const;

const toWandb = {
  server: { type: 'string' },
  entity: { type: 'string' },
  project: { type: 'string' },
  name: { type: 'string' },
  group: { type: 'string' },
  tag: { type: 'string', multiple: true },
  notes: { type: 'string' },
  source: { type: 'string' },
  metric: { type: 'string', multiple: true },
  stat: { type: 'string' },
  workers: { type: 'string' },
  evals: { type: 'boolean', default: false },
  plots: { type: 'boolean', default: false },
} as const;

const table: Record<string, Verb> = {
  serve: {
    usage: 'serve [--port 8997] [--connect "URL URL"] [--name NAME]',
    about: 'Serves the page for a browser and records the clusters that are connected.',
    example: 'vllm-scope serve --connect "gpu-01:8000 gpu-02:8000" --name grpo',
    options: {
      ...common,
      ...polling,
      port: { type: 'string' },
      host: { type: 'string' },
      'allow-host': { type: 'string', multiple: true },
      connect: { type: 'string', multiple: true },
    },
    words: [0, 0],
    run: (_words, given) => verbs.serve(given),
  },
  record: {
    usage: 'record URL... [--interval 0.5] [--for 60s] [--out FILE]',
    about: 'Records without a page until --for has passed or Ctrl-C.',
    example: 'vllm-scope record gpu-01:8000 gpu-02:8000 --interval 0.5 --for 10m --out step.sqlite',
    options: { ...common, ...polling, for: { type: 'string' }, out: { type: 'string' } },
    words: [1, Infinity],
    run: verbs.record,
  },
  check: {
    usage: 'check URL-or-FILE...',
    about: 'Says what stands behind an address, or in a saved body, and what a user should know of it.',
    example: 'vllm-scope check gpu-01:8000',
    options: common,
    words: [1, Infinity],
    run: verbs.check,
  },
  runs: {
    usage: 'runs',
    about: 'Lists the runs of the data folder, newest first.',
    example: 'vllm-scope runs --json',
    options: common,
    words: [0, 0],
    run: (_words, given) => verbs.runs(given),
  },
  steps: {
    usage: 'steps RUN [--source idle]',
    about: 'Lists the steps of a run: its id, its name, or the path of its file.',
    example: 'vllm-scope steps grpo-7b --source idle',
    options: { ...common, source: { type: 'string' } },
    words: [1, 1],
    run: ofSteps.steps,
  },
  scalars: {
    usage: 'scalars RUN [--step N] [--metric M] [--csv]',
    about: 'The numbers of each step: mean, extremes, percentiles, sums, pooled, coverage.',
    example: 'vllm-scope scalars step.sqlite --metric ttft --metric generation_tokens --csv',
    options: {
      ...common,
      ...ofStep,
      csv: { type: 'boolean', default: false },
    },
    words: [1, 1],
    run: ofSteps.scalars,
  },
  why: {
    usage: 'why RUN --step N --metric M [--stat p95]',
    about: 'Why a number is what it is: what was counted per worker, what is missing, the SQL.',
    example: 'vllm-scope why grpo-7b --step 12 --metric prefix_cache_hit_rate',
    options: {
      ...common,
      ...ofStep,
      stat: { type: 'string' },
      population: { type: 'string' },
      worker: { type: 'string' },
    },
    words: [1, 1],
    run: why,
  },
  upload: {
    usage: 'upload RUN --project P [--dry-run] [--live]',
    about: 'Sends the numbers of each step to Weights & Biases; again: what is new.',
    example: 'vllm-scope upload grpo-7b --project rl --group grpo-7b --dry-run',
    options: {
      ...common,
      ...toWandb,
      live: { type: 'boolean', default: false },
      new: { type: 'boolean', default: false },
      'dry-run': { type: 'boolean', default: false },
    },
    words: [1, 1],
    run: upload,
  },
  export: {
    usage: 'export RUN --wandb DIR',
    about: 'Writes a run into a folder that "wandb sync" sends.',
    example: 'vllm-scope export grpo-7b --wandb . --project rl',
    options: { ...common, ...toWandb, wandb: { type: 'string' } },
    words: [1, 1],
    run: exportRun,
  },
  mark: {
    usage: 'mark [--step N] [--kind eval] [--end] | --how',
    about: 'Says that a step begins (or ends) in what is being recorded; --how: how a trainer says it.',
    example: 'vllm-scope mark --step 12 --kind eval --at 2026-11-30T09:02:17Z',
    options: {
      ...common,
      step: { type: 'string' },
      kind: { type: 'string' },
      at: { type: 'string' },
      end: { type: 'boolean', default: false },
      run: { type: 'string' },
      how: { type: 'boolean', default: false },
    },
    words: [0, 0],
    run: (_words, given) => mark(given),
  },
};

const wide = Math.max(...Object.values(table).map((v) => v.usage.length));
const help = () => `vLLM Scope records vLLM fleets and shows a line per worker.

${Object.values(table)
  .map((v) => `  vllm-scope ${v.usage.padEnd(wide)}  ${v.about}`)
  .join('\n')}

  --data DIR   where runs are kept (now: ${process.env.VLLM_SCOPE_DATA ?? defaultDataFolder()})
  --json       one JSON document on stdout
  --help       of one verb: vllm-scope record --help
  --version
`;
const helpOf = (verb: Verb) => `vllm-scope ${verb.usage}

${verb.about}

Options: ${Object.keys(verb.options)
  .map((o) => `--${o}`)
  .join(', ')}
Example: ${verb.example}
`;

/** package.json lies two folders above the built file and three above the source. */
function version(): string {
  for (
    let folder = path.dirname(fileURLToPath(import.meta.url)), i = 0;
    i < 4;
    folder = path.dirname(folder), i++
  ) {
    const file = path.join(folder, 'package.json');
    if (fs.existsSync(file))
      return (JSON.parse(fs.readFileSync(file, 'utf8')) as { version: string }).version;
  }
  return 'unknown';
}

async function main(args: string[]): Promise<number> {
  if (Number(process.versions.node.split('.', 1)[0]) < 22) {
    console.error(
      `vLLM Scope needs Node 22 or newer, and this is ${process.versions.node}. In a clone, "npx vllm-scope" takes the right one.`,
    );
    return 1;
  }
  const [name, ...rest] = args;
  if (name === '--version') {
    console.log(version());
    return 0;
  }
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    (name === undefined ? console.error : console.log)(help());
    return name === undefined ? 2 : 0;
  }
  const verb = Object.hasOwn(table, name) ? table[name] : undefined;
  if (!verb) {
    console.error(`There is no "${name}". ${Object.keys(table).join(', ')}: see vllm-scope --help.`);
    return 2;
  }
  let words: string[];
  let values: Record<string, unknown>;
  try {
    const parsed = parseArgs({ args: rest, options: verb.options, allowPositionals: true });
    words = parsed.positionals;
    values = parsed.values;
  } catch (error) {
    console.error(`${sentenceOf(error)}\nUsage: vllm-scope ${verb.usage}`);
    return 2;
  }
  if (values.help === true) {
    console.log(helpOf(verb));
    return 0;
  }
  if (words.length < verb.words[0] || words.length > verb.words[1]) {
    console.error(`Usage: vllm-scope ${verb.usage}\nFor example: ${verb.example}`);
    return 2;
  }
  try {
    const dataFolder = path.resolve(
      (values.data as string | undefined) ?? process.env.VLLM_SCOPE_DATA ?? defaultDataFolder(),
    );
    await verb.run(words, { ...values, json: values.json === true, dataFolder, version: version() });
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    console.error(error instanceof EngineError ? error.message : error);
    return error instanceof verbs.UsageError ? 2 : 1;
  }
}

// An engine's garbage dies young and by the megabyte (bodies, rows, frames). V8 would grow its nursery to 134 MB for it
// and keep it; not growing it held the engine under a third less memory in a soak, and costs no CPU that shows.
v8.setFlagsFromString('--semi-space-growth-factor=1');
// whoever read has enough ("| head"): what is under way goes on, and is not said
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
});
// an open channel to whoever started us would keep the process alive
process.exit(await main(process.argv.slice(2)));
