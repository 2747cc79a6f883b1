// What the operating system has to bring: a display, Electron's libraries, a Chromium for the tests.
// Installs what is missing where it may (root with apt-get), otherwise prints the command that does.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';

const libraries = [
  'libgtk-3-0',
  'libnss3',
  'libasound2',
  'libgbm1',
  'libxss1',
  'libxtst6',
  'libatk-bridge2.0-0',
  'libcups2',
  'libdrm2',
];

const log = (text) => process.stderr.write(`[system] ${text}\n`);
const runs = (program, ...args) => spawnSync(program, args, { stdio: 'ignore' }).status === 0;
const found = (program) => runs('which', program);

/** Whether a window can be shown. */
export const hasDisplay = () =>
  process.platform !== 'linux' || Boolean(process.env.DISPLAY || process.env.WAYLAND_DISPLAY);

/** Chromium refuses its sandbox to root. Electron is told by a variable, so that no switch stands in the app. */
export const electronEnv = () =>
  process.getuid?.() === 0 ? { ...process.env, ELECTRON_DISABLE_SANDBOX: '1' } : { ...process.env };

/** The Chromium of the tests where it is not Playwright's own; playwright.config.ts looks in the same places. */
const hasChromium = () =>
  [process.env.CHROME_PATH, '/usr/bin/chromium'].some((file) => file && fs.existsSync(file));

/** True when all of them are there in the end. Elsewhere than on Linux there is nothing to install. */
function ensure(packages) {
  if (packages.length === 0) return true;
  const mayInstall = process.getuid?.() === 0 && found('apt-get');
  if (mayInstall && !runs('apt-get', 'update', '-qq'))
    log('apt-get update failed; trying with the old lists');
  // newer Debians and Ubuntus renamed some libraries when time_t became 64 bits wide
  const named = packages.map((name) =>
    found('apt-cache') && runs('apt-cache', 'show', `${name}t64`) ? `${name}t64` : name,
  );
  const command = ['apt-get', 'install', '-y', '--no-install-recommends', ...named];
  if (!mayInstall) {
    log(`missing system packages; on Debian or Ubuntu run: sudo ${command.join(' ')}`);
    return false;
  }
  log(`installing ${named.join(' ')}`);
  const { status } = spawnSync(command[0], command.slice(1), {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  return status === 0;
}

/** The libraries an Electron binary is linked against. */
export function ensureLibraries(binary) {
  if (process.platform !== 'linux') return true;
  const { stdout } = spawnSync('ldd', [binary], { encoding: 'utf8' });
  return ensure((stdout ?? '').includes('not found') ? libraries : []);
}

/** A Python that has what the exporter's tests need: Debian's own where another comes first; null where none has. */
export const python = () =>
  ['python3', '/usr/bin/python3'].find((file) => runs(file, '-c', 'import pytest, prometheus_client')) ??
  null;

/** What `npm test` needs beside npm's packages: a Chromium, pytest, and a display of its own where there is none. */
export function ensureTestSystem() {
  if (process.platform !== 'linux') return true;
  const packages = [];
  if (!python()) packages.push('python3-pytest', 'python3-prometheus-client');
  // for the real wandb in an environment of its own
  if (!runs('python3', '-c', 'import ensurepip')) packages.push('python3-venv');
  if (!hasChromium()) packages.push('chromium');
  if (!hasDisplay() && !found('xvfb-run')) packages.push('xvfb', 'xauth');
  return ensure(packages);
}
