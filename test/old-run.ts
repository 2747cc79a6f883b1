/** A data folder with one ended run in tests: the recording of two real servers under seven steps. */
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import type { Steps } from '../electron/engine/api.ts';
import { Library } from '../electron/engine/library.ts';
import { folderFor, until, type OnEnd } from './engines.ts';
import { START } from './run-files.ts';
import { recordedFile } from './uploading.ts';

/** `spoil` may change the file before anybody opens it. */
export function folderWith(
  onEnd: OnEnd,
  spoil: (db: Database.Database) => void = () => undefined,
): { folder: string; file: string } {
  const folder = folderFor(onEnd);
  fs.mkdirSync(path.join(folder, 'runs'));
  const file = path.join(folder, 'runs/old.sqlite');
  fs.copyFileSync(recordedFile(), file);
  const db = new Database(file);
  spoil(db);
  const ended = db.prepare('SELECT max(at) FROM tick').pluck().get() as number;
  db.close();
  const library = new Library(folder);
  library.putRun({
    ...{ id: 'old', file, name: 'old', cluster: 'c', cluster_name: 'c', state: 'ended', started: START },
    ...{ ended, interval_ms: 1000, endpoints: 2, workers: 2, ticks: 300, bytes: 0, generation_tokens: 0 },
  });
  library.close();
  return { folder, file };
}

/** Once they are found. */
export async function found(steps: () => Promise<Steps>): Promise<Steps> {
  await until(async () => (await steps()).counts.idle !== null);
  return steps();
}
