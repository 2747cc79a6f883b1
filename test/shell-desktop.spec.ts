// The app as part of a desktop: its window comes back as it was, a second start finds the first, two apps share one
// data folder, and quitting asks while something is being recorded. Tray and notifications cannot be seen without a
// desktop: recording-signs.test.ts has them.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect } from '@playwright/test';
import type { ElectronApplication, Page } from '@playwright/test';
import { startFakeCluster } from './fake-vllm.ts';
import type { FakeCluster } from './fake-vllm.ts';
import {
  answer,
  endSession,
  engineOf,
  engines,
  exitOf,
  isAlive,
  ownPage,
  runs,
  test as base,
} from './shells.ts';
import type { Shell } from './shells.ts';

/** Of a slow machine; every wait ends as soon as it may. */
const within = { timeout: 30_000 };

const test = base.extend<{
  fleet: FakeCluster;
  recording: () => Promise<Shell>;
  serve: { origin: string; isRunning: () => boolean; end: () => Promise<unknown> };
}>({
  // eslint-disable-next-line no-empty-pattern -- Playwright tells from the pattern which fixtures a fixture needs
  fleet: async ({}, use) => {
    const fleet = await startFakeCluster({ workers: 2 });
    await use(fleet);
    await fleet.close();
  },
  /** An app that records. */
  recording: async ({ launch, fleet }, use) => {
    await use(async () => {
      const shell = await launch({ env: connecting(fleet) });
      await shell.page.waitForURL(ownPage);
      await expect.poll(() => awake(shell.app), within).toBe(true);
      return shell;
    });
  },
  /** `vllm-scope serve` on the test's data folder, which records. */
  serve: async ({ folder, fleet }, use) => {
    const args = ['out/main/engine.js', 'serve', '--port', '0', '--data', folder];
    const child = spawn(process.execPath, args, {
      env: { ...process.env, ...connecting(fleet) },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    const end = () => {
      child.kill('SIGTERM');
      return ended;
    };
    const [said] = (await once(child.stdout, 'data')) as [Buffer];
    const isRunning = () => child.exitCode === null && child.signalCode === null;
    await use({ origin: new URL(said.toString().trim()).origin, isRunning, end });
    await end();
  },
});

const connecting = (fleet: FakeCluster) => ({
  VLLM_SCOPE_CONNECT: fleet.endpoints.map((e) => e.url).join(' '),
  VLLM_SCOPE_CONNECT_NAME: 'grpo',
});

/** Whether the machine is kept from sleeping: main knows that something is being recorded. Its blocker is the first. */
const awake = (app: ElectronApplication) =>
  app.evaluate(({ powerSaveBlocker }) => [0, 1, 2, 3].some((id) => powerSaveBlocker.isStarted(id)));

const windows = (app: ElectronApplication) =>
  app.evaluate(({ BrowserWindow }) =>
    BrowserWindow.getAllWindows().map((window) => ({
      title: window.getTitle(),
      visible: window.isVisible(),
    })),
  );
const closeWindow = (app: ElectronApplication) =>
  app.evaluate(({ BrowserWindow }) => BrowserWindow.getAllWindows()[0]?.close());
const zoomLevel = (app: ElectronApplication) =>
  app.evaluate(({ BrowserWindow }) => BrowserWindow.getAllWindows()[0]?.webContents.getZoomLevel());

/** Clicks an item of the menu, found by its label. */
const choose = (app: ElectronApplication, label: string) =>
  app.evaluate(({ Menu, BrowserWindow }, wanted) => {
    const items = Menu.getApplicationMenu()?.items.flatMap((item) => item.submenu?.items ?? []) ?? [];
    const [window] = BrowserWindow.getAllWindows();
    // what a role does is done to the window that it is given
    (items.find((item) => item.label === wanted)?.click as (...args: unknown[]) => void)(
      undefined,
      window,
      window?.webContents,
    );
  }, label);

/** Starts the app as a user would, in the Electron of one that runs. */
const start = (app: ElectronApplication, folder: string) =>
  spawn(app.process().spawnfile, ['.', '--disable-gpu', '--data', folder], {
    cwd: path.dirname(import.meta.dirname),
    env: { ...process.env, ...(process.getuid?.() === 0 ? { ELECTRON_DISABLE_SANDBOX: '1' } : {}) },
    stdio: 'ignore',
  });

/** Processes that were given this data folder. */
const processesOn = (folder: string) =>
  execFileSync('ps', ['-A', '-o', 'pid=,stat=,args='], { encoding: 'utf8' })
    .split('\n')
    .filter((row) => row.includes(folder) && !/^\s*\d+\s+Z/.test(row))
    .map((row) => Number.parseInt(row, 10));

/** Starts the app once more on the same data folder. Gives its exit code. */
async function startAgain({ app }: Shell, folder: string): Promise<number | null> {
  const [code] = (await once(start(app, folder), 'exit')) as [number | null];
  return code;
}

/** The page of a window that was opened again. */
async function reopenedPage(app: ElectronApplication): Promise<Page> {
  await expect.poll(() => app.windows().length, within).toBe(1);
  const page = app.windows()[0]!;
  await page.waitForURL(ownPage, within);
  return page;
}

test('the window opens where it was, and in the usual place after a broken file', async ({
  launch,
  folder,
}) => {
  const bounds = (app: ElectronApplication) =>
    app.evaluate(({ BrowserWindow }) => BrowserWindow.getAllWindows()[0]?.getBounds());
  const left = { x: 30, y: 40, width: 1000, height: 700 };
  let { app, page } = await launch();
  await page.waitForURL(ownPage);
  await app.evaluate(({ BrowserWindow }, to) => BrowserWindow.getAllWindows()[0]?.setBounds(to), left);
  await expect.poll(() => bounds(app), within).toEqual(left);
  await app.close();

  ({ app, page } = await launch());
  await page.waitForURL(ownPage);
  expect(await bounds(app)).toEqual(left);
  await app.close();

  await writeFile(path.join(folder, 'window/desktop.json'), '{"window":');
  ({ app, page } = await launch());
  await page.waitForURL(ownPage);
  expect(await bounds(app)).toMatchObject({ width: 1440, height: 900 });
});

test('the size of text is set in the menu and remembered', async ({ launch }) => {
  const first = await launch();
  await first.page.waitForURL(ownPage);
  const before = await first.page.evaluate(() => devicePixelRatio);
  await choose(first.app, 'Larger text');
  await choose(first.app, 'Larger text');
  await choose(first.app, 'Larger text');
  await choose(first.app, 'Smaller text');
  await expect.poll(() => zoomLevel(first.app), within).toBe(1);
  // a level is a fifth larger
  await expect.poll(() => first.page.evaluate(() => devicePixelRatio), within).toBeCloseTo(before * 1.2);
  await first.app.close();

  const second = await launch();
  await second.page.waitForURL(ownPage);
  await expect.poll(() => second.page.evaluate(() => devicePixelRatio), within).toBeCloseTo(before * 1.2);
  await choose(second.app, 'Usual text size');
  await expect.poll(() => second.page.evaluate(() => devicePixelRatio), within).toBeCloseTo(before);
});

test('the menu leaves the page its keys, and presses some for it', async ({ recording }) => {
  const { app, page } = await recording();
  const dialog = page.getByRole('dialog');
  await expect(page.getByText('grpo').first()).toBeVisible();
  await page.keyboard.press('Control+n');
  await expect(dialog).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
  for (const item of ['New cluster', 'Settings']) {
    await choose(app, item);
    await expect(dialog).toBeVisible();
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);
  }
});

test('a second start brings the first one to the front, and goes', async ({ launch, folder }) => {
  const shell = await launch();
  await shell.page.waitForURL(ownPage);
  const engine = await engineOf(shell.app);
  await shell.app.evaluate(({ BrowserWindow }) => BrowserWindow.getAllWindows()[0]?.hide());
  await expect.poll(() => windows(shell.app), within).toMatchObject([{ visible: false }]);
  expect(await startAgain(shell, folder)).toBe(0);
  await expect.poll(() => windows(shell.app), within).toMatchObject([{ visible: true }]);
  expect(engines(shell.app)).toEqual([engine]);
});

test('a start while the app is still ending is not lost', async ({ launch, folder }) => {
  const { app, page } = await launch();
  await page.waitForURL(ownPage);
  // an app of its own, since Playwright's waits for Playwright wherever it is started from
  const data = path.join(folder, 'other');
  const first = start(app, data);
  const engine = async () => {
    const text = await readFile(path.join(data, 'engine.json'), 'utf8').catch(() => '{}');
    return (JSON.parse(text) as { pid?: number }).pid ?? 0;
  };
  try {
    await expect.poll(engine, within).not.toBe(0);
    const ending = await engine();
    process.kill(ending, 'SIGSTOP');
    const gone = once(first, 'exit');
    first.kill('SIGTERM');
    const second = once(start(app, data), 'exit');
    // where the machine is so slow that the first one's patience with its engine ends, it goes first
    await Promise.race([second, gone]);
    if (isAlive(ending)) process.kill(ending, 'SIGCONT');
    expect((await gone)[0]).toBe(0);
    await expect.poll(async () => ![0, ending].includes(await engine()), within).toBe(true);
  } finally {
    // not what is looked at here: the second one has only just begun, and may not hear a signal yet
    const end = (signal: NodeJS.Signals) => {
      for (const pid of processesOn(data)) if (isAlive(pid)) process.kill(pid, signal);
    };
    end('SIGTERM');
    await expect
      .poll(() => processesOn(data), { timeout: 10_000 })
      .toEqual([])
      .catch(() => end('SIGKILL'));
    await expect.poll(() => processesOn(data), within).toEqual([]);
  }
});

test('on a data folder where an engine works, the window opens on that one and takes over after it', async ({
  launch,
  folder,
  serve,
}) => {
  const elsewhere = /engine of another vLLM Scope/;
  const title = (app: ElectronApplication) => windows(app).then(([window]) => window?.title);

  const first = await launch();
  await first.page.waitForURL(ownPage, within);
  expect(new URL(first.page.url()).origin).toBe(serve.origin);
  await expect(first.page.getByText('grpo').first()).toBeVisible();
  await expect.poll(() => title(first.app), within).toMatch(elsewhere);
  await first.page.screenshot({ path: 'test-results/window-elsewhere.png' });
  // what is recorded there is not ended by closing this window: nothing is asked, or it would stay
  expect(await awake(first.app)).toBe(false);
  await answer(first.app, 'cancel');
  const exit = exitOf(first.app);
  await closeWindow(first.app);
  expect(await exit).toBe(0);
  expect(serve.isRunning()).toBe(true);
  expect(runs(folder)).toMatchObject([{ state: 'recording' }]);

  const second = await launch();
  await second.page.waitForURL(ownPage, within);
  await expect.poll(() => title(second.app), within).toMatch(elsewhere);
  await serve.end();
  await expect.poll(() => title(second.app), within).not.toMatch(elsewhere);
  await second.page.waitForURL((url) => url.origin !== serve.origin && ownPage.test(url.href), within);
  await expect.poll(() => awake(second.app), within).toBe(true);
  await expect.poll(() => runs(folder).map(({ state }) => state), within).toEqual(['recording', 'ended']);
});

test('quitting while recording asks; recording is kept without a window and found again', async ({
  recording,
  folder,
}) => {
  const shell = await recording();
  const { app } = shell;
  const engine = await engineOf(app);

  const cancelled = await answer(app, 'cancel');
  await closeWindow(app);
  await expect.poll(() => cancelled.jsonValue(), within).toHaveLength(1);
  expect((await cancelled.jsonValue())[0]).toMatchObject({ message: 'grpo is being recorded.' });
  expect(await windows(app)).toHaveLength(1);

  const kept = await answer(app, 'keep');
  await closeWindow(app);
  await expect.poll(() => windows(app), within).toEqual([]);
  expect(await kept.jsonValue()).toHaveLength(1);
  expect(engines(app)).toEqual([engine]);
  expect(await awake(app)).toBe(true);
  expect(runs(folder)).toMatchObject([{ state: 'recording' }]);

  expect(await startAgain(shell, folder)).toBe(0);
  const page = await reopenedPage(app);
  await expect(page.getByText('grpo').first()).toBeVisible();
  expect(engines(app)).toEqual([engine]);

  await answer(app, 'stop');
  const exit = exitOf(app);
  await app.evaluate(({ app: main }) => main.quit()).catch(() => undefined);
  expect(await exit).toBe(0);
  expect(isAlive(engine)).toBe(false);
  expect(runs(folder)).toMatchObject([{ state: 'ended' }]);
});

test('the answer is remembered until the menu undoes it', async ({ recording, folder }) => {
  const shell = await recording();
  const { app } = shell;
  const remembered = async () =>
    JSON.parse(await readFile(path.join(folder, 'window/desktop.json'), 'utf8')) as { onQuit: string };
  const item = () =>
    app.evaluate(({ Menu }) => {
      const items = Menu.getApplicationMenu()?.items.flatMap((one) => one.submenu?.items ?? []) ?? [];
      const found = items.find(({ label }) => label === 'Ask when quitting while recording');
      return { checked: found?.checked, enabled: found?.enabled };
    });
  expect(await item()).toEqual({ checked: true, enabled: false });

  const first = await answer(app, 'keep', true);
  await closeWindow(app);
  await expect.poll(() => windows(app), within).toEqual([]);
  expect(await first.jsonValue()).toHaveLength(1);
  expect(await remembered()).toMatchObject({ onQuit: 'keep' });
  expect(await item()).toEqual({ checked: false, enabled: true });

  await startAgain(shell, folder);
  await reopenedPage(app);
  const second = await answer(app, 'cancel');
  await closeWindow(app);
  await expect.poll(() => windows(app), within).toEqual([]);
  expect(await second.jsonValue()).toEqual([]);

  await startAgain(shell, folder);
  await reopenedPage(app);
  await choose(app, 'Ask when quitting while recording');
  expect(await remembered()).toMatchObject({ onQuit: 'ask' });
  expect(await item()).toEqual({ checked: true, enabled: false });
  await closeWindow(app);
  await expect.poll(() => second.jsonValue(), within).toHaveLength(1);
});

test('a signal ends a recording app without a question', async ({ recording, folder }) => {
  const { app, said } = await recording();
  // whoever was asked would stay
  await answer(app, 'cancel');
  const engine = await engineOf(app);
  expect(await endSession(app)).toBe(0);
  expect(isAlive(engine)).toBe(false);
  expect(said()).not.toContain('killed');
  expect(runs(folder)).toMatchObject([{ state: 'ended' }]);
});

test('closing the window quits while nothing is recorded', async ({ launch }) => {
  const { app, page } = await launch();
  await page.waitForURL(ownPage);
  const exit = exitOf(app);
  await closeWindow(app);
  expect(await exit).toBe(0);
});
