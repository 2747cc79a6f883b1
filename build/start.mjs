// `npm start`: the built app in its window. Builds where the sources are newer, makes an Electron runnable first.
// What comes after `--` goes to the app: npm start -- --data DIR
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { run, tool } from './check.mjs';
import { electronBinary, ensureElectron } from './electron.mjs';
import { electronEnv, hasDisplay } from './system.mjs';

const root = path.dirname(import.meta.dirname);
const sources = ['electron', 'renderer', 'package.json', 'electron.vite.config.ts', 'svelte.config.js'];

/** When a file, or anything in a folder, was last changed. */
function changedAt(file) {
  const stat = fs.statSync(file);
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(stat.mtimeMs, ...fs.readdirSync(file).map((name) => changedAt(path.join(file, name))));
}

/** Builds where there is no build or an old one. */
export function ensureBuilt() {
  const built = ['main/main.js', 'main/engine.js', 'preload/preload.cjs', 'renderer/index.html'].map((name) =>
    path.join(root, 'out', name),
  );
  const builtAt = Math.min(...built.map((file) => (fs.existsSync(file) ? changedAt(file) : 0)));
  if (builtAt > Math.max(...sources.map((name) => changedAt(path.join(root, name))))) return true;
  return run({
    name: 'build',
    args: [tool('electron-vite/bin/electron-vite.js'), 'build', '--logLevel', 'warn'],
  });
}

/**
 * Starts a child that ends when it is asked to, once. In a group of its own, or the terminal's Ctrl-C would reach it
 * and its own children beside our request, and a second signal means "at once" to most programs.
 */
export const startChild = (command, args, env) =>
  spawn(command, args, { cwd: root, stdio: 'inherit', env, detached: process.platform !== 'win32' });

/** Starts the app in Electron, which has to be runnable by now. */
export const startApp = (args, env = {}) =>
  startChild(electronBinary, ['.', ...args], { ...electronEnv(), ...env });

/** Resolves with a child's exit code. Ctrl-C and the like become one request to end, after which 0 is the code. */
export async function follow(child) {
  let asked = false;
  const ask = () => {
    if (!asked) child.kill('SIGTERM');
    asked = true;
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, ask);
  const code = await new Promise((resolve) => {
    child.on('error', (error) => {
      console.error(error.message);
      resolve(1);
    });
    child.on('exit', (status) => resolve(status ?? 1));
  });
  return asked ? 0 : code;
}

if (fs.realpathSync(process.argv[1]) === import.meta.filename) {
  if (!hasDisplay()) {
    console.error(
      'There is no display for a window. `npx vllm-scope serve` serves the same page to a browser.',
    );
    process.exitCode = 1;
  } else {
    const ready = ensureBuilt() && ensureElectron();
    process.exitCode = ready ? await follow(startApp(process.argv.slice(2))) : 1;
  }
}
