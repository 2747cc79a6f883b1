/** Where runs are kept when nobody says otherwise, and how the engine that works there is found. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { newToken } from './server.ts';

/** The OS's own place for a program's data. */
export function defaultDataFolder(env: NodeJS.ProcessEnv = process.env, platform = process.platform): string {
  const home = os.homedir();
  if (platform === 'darwin') return path.join(home, 'Library', 'Application Support', 'vllm-scope');
  if (platform === 'win32')
    return path.join(env.LOCALAPPDATA ?? path.join(home, 'AppData', 'Local'), 'vllm-scope');
  return path.join(env.XDG_DATA_HOME || path.join(home, '.local', 'share'), 'vllm-scope');
}

/** engine.json: who works on this folder. Readable by its owner only, since it holds the token. */
export interface RunningEngine {
  pid: number;
  port: number;
  token: string;
}

const announcement = (folder: string) => path.join(folder, 'engine.json');

/** Written beside and renamed, so that nobody reads half of it. */
export function announce(folder: string, engine: RunningEngine): void {
  const file = announcement(folder);
  fs.writeFileSync(`${file}.new`, JSON.stringify(engine) + '\n', { mode: 0o600 });
  fs.renameSync(`${file}.new`, file);
}

export function withdraw(folder: string): void {
  fs.rmSync(announcement(folder), { force: true });
}

/** null: none said so, or what is there is no announcement. It may still be a dead one's. */
export function announced(folder: string): RunningEngine | null {
  try {
    const { pid, port, token } = JSON.parse(fs.readFileSync(announcement(folder), 'utf8')) as RunningEngine;
    return typeof port === 'number' && typeof token === 'string' ? { pid, port, token } : null;
  } catch {
    return null;
  }
}

/** `serve` keeps its token, so that a reload or a restart works; a trainer's is for marks and nothing else. */
export function lastingToken(folder: string, name: 'token' | 'mark-token' = 'token'): string {
  const file = path.join(folder, name);
  try {
    const token = fs.readFileSync(file, 'utf8').trim();
    if (/^[0-9a-f]{32}$/.test(token)) {
      fs.chmodSync(file, 0o600);
      return token;
    }
  } catch {
    // none yet
  }
  const token = newToken();
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  fs.writeFileSync(file, token + '\n', { mode: 0o600 });
  return token;
}
