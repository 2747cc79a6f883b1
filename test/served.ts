/** The page in Chromium, as `vllm-scope serve` serves it: a stand-in of engines, and engines on a data folder of the test's own. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test as base } from '@playwright/test';
import { startFakeCluster, type FakeCluster } from './fake-vllm.ts';

export interface Served {
  url: string;
  child: ChildProcess;
  /** Its data folder. */
  folder: string;
  /** As Ctrl-C does. */
  end: () => Promise<void>;
}

export interface ServeOptions {
  connect?: boolean;
  port?: number;
  resume?: boolean;
  env?: NodeJS.ProcessEnv;
  /** Puts something into the data folder before the engine starts. */
  prepare?: (folder: string) => void;
}

export const root = path.dirname(import.meta.dirname);

/** A stand-in of 8 workers, and a way to serve the page; all engines of a test work on the same data folder. */
export const test = base.extend<{
  cluster: FakeCluster;
  serve: (options?: ServeOptions) => Promise<Served>;
}>({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  cluster: async ({}, use) => {
    const cluster = await startFakeCluster({ workers: 8, seed: 3 });
    await use(cluster);
    await cluster.close();
  },
  serve: async ({ cluster }, use) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-page-'));
    const all: Served[] = [];
    await use(async ({ connect = false, port = 0, resume = false, env = {}, prepare } = {}) => {
      prepare?.(folder);
      const args = ['serve', '--port', String(port), '--data', folder];
      if (connect) args.push('--connect', cluster.endpoints.map((e) => e.url).join(' '), '--name', 'Demo');
      const child = fork(path.join(root, 'out/main/engine.js'), args, {
        env: {
          ...process.env,
          ...env,
          VLLM_SCOPE_TOKEN: 'page',
          ...(resume ? { VLLM_SCOPE_RESUME: '1' } : {}),
        },
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      });
      const end = async () => {
        if (child.exitCode !== null || child.signalCode !== null) return;
        child.send({ type: 'end' });
        await once(child, 'exit');
      };
      const served = { url: '', child, folder, end };
      all.push(served);
      const [{ port: listening }] = (await once(child, 'message')) as [{ port: number }];
      served.url = `http://127.0.0.1:${listening}/#token=page`;
      return served;
    });
    for (const { end } of all) await end();
    fs.rmSync(folder, { recursive: true, force: true });
  },
});
