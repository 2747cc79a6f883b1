/** Folders with file_sd files for tests; they go with the test. */
import fs from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { folderFor } from './engines.ts';

/** A folder with these files. */
export function folderWith(files: Record<string, string | object> = {}) {
  const folder = folderFor(onTestFinished);
  const at = (name: string) => path.join(folder, name);
  const write = (name: string, content: string | object) =>
    fs.writeFileSync(at(name), typeof content === 'string' ? content : JSON.stringify(content));
  for (const [name, content] of Object.entries(files)) write(name, content);
  return { folder, at, write, glob: at('*.json') };
}

export const urlsIn = ({ targets }: { targets: readonly { url: string | null }[] }) =>
  targets.map((t) => t.url);
/** The content of a file. */
export const group = (...targets: string[]) => [{ targets }];
export const urls = (...hosts: string[]) => hosts.map((host) => `http://${host}/metrics`);
