/**
 * Starts the built app on a data folder of the test's own, and finds its engine. For the tests of the real window.
 */
import { execFileSync, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { _electron, expect, test as base } from '@playwright/test';
import type { ElectronApplication, JSHandle, Page } from '@playwright/test';
import type { MessageBoxOptions } from 'electron';

export interface Shell {
  app: ElectronApplication;
  page: Page;
  /** What main and the engine have said to stderr so far. */
  said: () => string;
}

export const ownPage = /^http:\/\/127\.0\.0\.1:\d+\//;

/** A data folder of the test's own, and a way to start the app on it; both are gone when it ends. */
export const test = base.extend<{ folder: string; launch: (options?: LaunchOptions) => Promise<Shell> }>({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  folder: async ({}, use) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'vllm-scope-shell-'));
    await use(folder);
    // Chromium's last writes may still be on their way
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  },
  launch: async ({ folder }, use) => {
    const started: [ElectronApplication, ChildProcess][] = [];
    await use(async ({ data = folder, env = {} } = {}) => {
      const app = await _electron.launch({
        args: ['.', '--disable-gpu', '--data', data],
        cwd: path.dirname(import.meta.dirname),
        env: {
          ...(process.env as Record<string, string>),
          // Chromium refuses its sandbox to root
          ...(process.getuid?.() === 0 ? { ELECTRON_DISABLE_SANDBOX: '1' } : {}),
          VLLM_SCOPE_RESTART_DELAY_MS: '100',
          ...env,
        },
      });
      started.push([app, app.process()]);
      let text = '';
      app.process().stderr?.on('data', (chunk: Buffer) => (text += chunk.toString()));
      return { app, page: await app.firstWindow(), said: () => text };
    });
    // of an app that is gone Playwright does not know the process any more
    for (const [app, { exitCode, signalCode }] of started)
      if (exitCode === null && signalCode === null) await endSession(app);
  },
});

export interface LaunchOptions {
  data?: string;
  env?: Record<string, string>;
}

/** Resolves when the app's process has ended, with its exit code. */
export const exitOf = (app: ElectronApplication) =>
  new Promise<number | null>((resolve) => app.process().once('close', (code) => resolve(code)));

/** Ends the app as the end of a session does: nothing is asked, whatever is being recorded. */
export function endSession(app: ElectronApplication): Promise<number | null> {
  const exit = exitOf(app);
  app.process().kill('SIGTERM');
  return exit;
}

const choices = ['stop', 'keep', 'cancel'] as const;

/** Answers every question from now on, with the box "Do not ask again" ticked or not. Gives what was asked. */
export function answer(
  app: ElectronApplication,
  choice: (typeof choices)[number],
  checkboxChecked = false,
): Promise<JSHandle<MessageBoxOptions[]>> {
  const given = { response: choices.indexOf(choice), checkboxChecked };
  return app.evaluateHandle(({ dialog }, reply) => {
    const asked: MessageBoxOptions[] = [];
    const showMessageBox = (...args: [...unknown[], MessageBoxOptions]) => {
      asked.push(args.at(-1) as MessageBoxOptions);
      return Promise.resolve(reply);
    };
    Object.assign(dialog, { showMessageBox });
    return asked;
  }, given);
}

/** Descendants of the app that are an engine: the forked Node, or Electron's utility process for Node. */
export function engines(app: ElectronApplication): number[] {
  const rows = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat=,args='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line))
    .filter((match) => match !== null)
    .map(([, pid, parent, state, args]) => ({ pid: Number(pid), parent: Number(parent), state, args }));
  const family = new Set([app.process().pid]);
  // parents may stand behind their children: as many rounds as there are generations
  for (let before = 0; before !== family.size;) {
    before = family.size;
    for (const { pid, parent } of rows) if (family.has(parent)) family.add(pid);
  }
  return rows
    .filter(({ pid, state }) => family.has(pid) && !state?.startsWith('Z'))
    .filter(({ args }) => /engine\.js serve|node\.mojom\.NodeService/.test(args ?? ''))
    .map(({ pid }) => pid);
}

export const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** The runs of a data folder, as the command line lists them: by the engine that works on it, if there is one. */
export function runs(folder: string): { state: string; startedAt: number; endedAt: number }[] {
  const args = ['out/main/engine.js', 'runs', '--json', '--data', folder];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as ReturnType<typeof runs>;
}

/** The one engine of a running app. */
export async function engineOf(app: ElectronApplication): Promise<number> {
  await expect.poll(() => engines(app)).toHaveLength(1);
  return engines(app)[0] ?? Number.NaN;
}
