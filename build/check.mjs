// `npm run check`: lint, format and types, each to its end. test.mjs begins with the same three.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

const root = path.dirname(import.meta.dirname);
const ownNode = path.join(root, 'node_modules/node/bin', process.platform === 'win32' ? 'node.exe' : 'node');

/** The Node that everything of ours runs in: the pinned one of node_modules, also where `node` is an older one. */
export const node = fs.existsSync(ownNode) ? ownNode : process.execPath;

/** A tool's entry file, run by that Node: the same on every system, without a shell. */
export const tool = (file) => path.join(root, 'node_modules', file);

export const checks = [
  { name: 'lint', args: [tool('eslint/bin/eslint.js'), '.'] },
  { name: 'format', args: [tool('prettier/bin/prettier.cjs'), '--check', '--log-level', 'warn', '.'] },
  {
    name: 'types',
    args: [tool('svelte-check/bin/svelte-check'), '--tsconfig', './tsconfig.json', '--fail-on-warnings'],
  },
];

/** Runs one stage with its output in view. True when it ended with 0. */
export function run({ name, args, command = node, env = process.env }) {
  console.log(`\n== ${name}`);
  const { status, signal, error } = spawnSync(command, args, {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status !== 0) console.log(`== ${name} failed (${error?.message ?? signal ?? `exit code ${status}`})`);
  return status === 0;
}

if (fs.realpathSync(process.argv[1]) === import.meta.filename) {
  const failed = checks.filter((check) => !run(check)).map((check) => check.name);
  console.log(failed.length === 0 ? '\nlint, format and types are clean' : `\nfailed: ${failed.join(', ')}`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}
