/**
 * The real wandb for tests that compare with it: from PyPI into a virtual environment of its own under the system's
 * temporary folder, once; later tests find it there. And the surroundings in which it speaks to nobody but the stand-in.
 */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { fakeKey } from '../fake-wandb.ts';

export const VERSION = '0.31.0';
/** Of each of its two halves. */
const INSTALL_MS = 60_000;
const folder = path.join(os.tmpdir(), `vllm-scope-wandb-${VERSION}`);
/** Written last: without it the folder is half of an installation. */
const whole = path.join(folder, 'installed');

const call = promisify(execFile);

export interface RealWandb {
  python: string;
  wandb: string;
}

/** null where it cannot be installed, and then `say` is told why: PyPI out of reach, or no Python that can. */
export async function realWandb(say: (sentence: string) => void): Promise<RealWandb | null> {
  const program = (name: string) => path.join(folder, 'bin', name);
  const found = { python: program('python'), wandb: program('wandb') };
  if (fs.existsSync(whole)) return found;
  const limit = { timeout: INSTALL_MS };
  try {
    fs.rmSync(folder, { recursive: true, force: true });
    await call('python3', ['-m', 'venv', folder], limit);
    const quickly = ['--quiet', '--disable-pip-version-check', '--retries', '1', '--timeout', '10'];
    await call(found.python, ['-m', 'pip', 'install', ...quickly, `wandb==${VERSION}`], limit);
    fs.writeFileSync(whole, '');
    return found;
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    const why = (stderr || message).trim().split('\n').at(-1)!;
    say(
      `Not compared with the real wandb ${VERSION}: it cannot be installed here, PyPI may be out of reach (${why})`,
    );
    return null;
  }
}

/** What it runs in: `home` is the only folder that it writes to, `server` the only address that it knows. */
export const surroundings = (server: string, home: string): NodeJS.ProcessEnv => ({
  ...{ PATH: process.env.PATH, HOME: home, PYTHONDONTWRITEBYTECODE: '1', PYTHONUNBUFFERED: '1' },
  ...{ WANDB_BASE_URL: server, WANDB_API_KEY: fakeKey, WANDB_DIR: home },
  WANDB_CACHE_DIR: path.join(home, 'cache'),
  WANDB_CONFIG_DIR: path.join(home, 'config'),
  WANDB_DATA_DIR: path.join(home, 'data'),
  ...{
    WANDB_ERROR_REPORTING: 'false',
    WANDB_CONSOLE: 'off',
    WANDB_DISABLE_GIT: 'true',
    WANDB_DISABLE_CODE: 'true',
  },
  ...{ WANDB__DISABLE_STATS: 'true', WANDB__DISABLE_MACHINE_INFO: 'true', WANDB__SAVE_REQUIREMENTS: 'false' },
  WANDB__STATS_COREWEAVE_METADATA_BASE_URL: server,
});
