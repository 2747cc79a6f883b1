/**
 * What the app remembers of itself on this machine, in a small file among Chromium's own. What belongs to clusters and
 * the page is kept by the engine. A file that is missing, broken or from elsewhere means the defaults.
 */
import fs from 'node:fs';
import path from 'node:path';
import { readWindowState } from './window-state.ts';
import type { WindowState } from './window-state.ts';

/** What quitting does while something is being recorded. */
export type OnQuit = 'ask' | 'stop' | 'keep';

interface Values {
  /** null: never opened yet. */
  window: WindowState | null;
  onQuit: OnQuit;
}

export interface Remembered extends Readonly<Values> {
  set(change: Partial<Values>): void;
}

export function remember(file: string): Remembered {
  let values = read(file);
  return {
    get window() {
      return values.window;
    },
    get onQuit() {
      return values.onQuit;
    },
    set(change) {
      values = { ...values, ...change };
      try {
        fs.mkdirSync(path.dirname(file), { recursive: true });
        // written beside and renamed, so that a crash leaves no half of it
        fs.writeFileSync(`${file}.new`, JSON.stringify(values) + '\n');
        fs.renameSync(`${file}.new`, file);
      } catch (error) {
        // a full disk must not keep a window from being moved
        process.stderr.write(`${file} cannot be written: ${String(error)}\n`);
      }
    },
  };
}

function read(file: string): Values {
  let found: unknown = null;
  try {
    found = JSON.parse(fs.readFileSync(file, 'utf8'));
  } catch {
    // none yet, or broken
  }
  const { window, onQuit } = (found ?? {}) as { [key in keyof Values]?: unknown };
  return {
    window: readWindowState(window),
    onQuit: onQuit === 'stop' || onQuit === 'keep' ? onQuit : 'ask',
  };
}
