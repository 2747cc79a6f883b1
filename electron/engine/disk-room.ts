/** Whether a disk has room for recording, looked at every few seconds. */
import fs from 'node:fs';
import path from 'node:path';

/** What a person would call 2 GB. */
export const USUAL_MIN_FREE = 2e9;
const LOOKED_AT_MS = 5000;
/** It goes on only where there is more than the least, so that it does not stop again at once: a tenth, or minutes' worth. */
const spare = (least: number) => Math.max(16e6, least / 10);

export class DiskRoom {
  private readonly least: number;
  private readonly freeOf: (folder: string) => number | null;
  private readonly looked = new Map<string, { at: number; free: number | null }>();

  /** `least`: bytes that stay free; 0: nothing is looked at before the disk is full. */
  constructor(least: number, freeOf: (folder: string) => number | null = freeBytes) {
    this.least = least;
    this.freeOf = freeOf;
  }

  private free(folder: string): number | null {
    const now = performance.now();
    const known = this.looked.get(folder);
    if (known && now - known.at < LOOKED_AT_MS) return known.free;
    const free = this.freeOf(folder);
    this.looked.set(folder, { at: now, free });
    return free;
  }

  /** Why nothing may be written there, as a sentence; null: there is room, or nobody knows. */
  lack(folder: string): string | null {
    const free = this.free(folder);
    if (free === null || free >= this.least) return null;
    return `Only ${inBytes(free)} are free on the disk of ${folder}, and ${inBytes(this.least)} stay free (--min-free). Free some space; it goes on by itself.`;
  }

  /** There is room again after there was none. */
  isBack(folder: string): boolean {
    const free = this.free(folder);
    return free !== null && free >= this.least + spare(this.least);
  }
}

const inBytes = (bytes: number): string =>
  bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.round(bytes / 1e6)} MB`;

/** Of the disk of a folder; null: it cannot be known. */
export function freeBytes(folder: string): number | null {
  try {
    const { bavail, bsize } = fs.statfsSync(folder);
    return bavail * bsize;
  } catch {
    return null;
  }
}

export const folderOf = (file: string): string => path.dirname(path.resolve(file));
