// The app in its real window: it starts, shows the engine's page, lets nothing out, brings a dead engine back and
// takes it along on quit. What the page itself can do is tested in Chromium, where it is the same page.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect } from '@playwright/test';
import { startFakeCluster } from './fake-vllm.ts';
import { walk } from './person.ts';
import { endSession, engineOf, engines, isAlive, ownPage, runs, test } from './shells.ts';

test('the window shows the page that the engine serves', async ({ launch }) => {
  const { app, page } = await launch();
  await page.waitForURL(ownPage);
  await expect(page).toHaveTitle(/vLLM Scope/);
  // the page takes the token out of the address at once
  await expect.poll(() => page.url()).not.toContain('token');

  const window = () =>
    app.evaluate(({ BrowserWindow }) => {
      const [shown] = BrowserWindow.getAllWindows();
      return { visible: shown?.isVisible(), size: shown?.getSize(), least: shown?.getMinimumSize() };
    });
  await expect.poll(window).toEqual({ visible: true, size: [1440, 900], least: [900, 600] });
  const menu = await app.evaluate(({ Menu }) => Menu.getApplicationMenu()?.items.map((item) => item.label));
  expect(menu).toEqual(expect.arrayContaining(['Edit', 'View', 'Window']));
  await page.screenshot({ path: 'test-results/window.png' });
});

test('somebody new connects, watches, stops and opens the past run', async ({ launch }) => {
  const cluster = await startFakeCluster({ workers: 8, seed: 3 });
  try {
    const { page } = await launch();
    await page.waitForURL(ownPage);
    await walk(page, cluster);
    await page.screenshot({ path: 'test-results/window-past-run.png' });
  } finally {
    await cluster.close();
  }
});

test('a page has nothing of Node or Electron but what preload.ts gives', async ({ launch }) => {
  const { page } = await launch();
  await page.waitForURL(ownPage);
  const found = await page.evaluate(() => ({
    names: ['require', 'process', 'module', 'Buffer', 'global', 'electron'].filter((name) => name in window),
    given: (window as unknown as { vllmScope: unknown }).vllmScope,
  }));
  expect(found).toEqual({ names: [], given: { platform: process.platform } });
});

test('the token is on no command line', async ({ launch }) => {
  const { app, page } = await launch();
  await page.waitForURL(ownPage);
  const engine = await engineOf(app);
  const args = execFileSync('ps', ['-o', 'args=', '-p', String(engine)], { encoding: 'utf8' });
  // 128 bits are 32 hex digits
  expect(args).not.toMatch(/[0-9a-f]{32}/);
});

test('nothing leads elsewhere; only https: goes to the browser', async ({ launch }) => {
  const { app, page } = await launch();
  await page.waitForURL(ownPage);
  const home = page.url();

  const asked: string[] = [];
  const elsewhere = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.end('elsewhere');
  });
  await once(elsewhere.listen(0, '127.0.0.1'), 'listening');
  const other = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}`;

  await app.evaluate(({ shell }) => {
    const opened: string[] = [];
    Object.assign(globalThis, { opened });
    shell.openExternal = (url) => {
      opened.push(url);
      return Promise.resolve();
    };
  });
  const targets = [`${other}/go`, 'https://example.org/go', 'file:///etc/passwd', 'data:text/html,elsewhere'];
  for (const target of targets) {
    await page.evaluate((url) => {
      location.href = url;
    }, target);
    await page.evaluate((url) => {
      const link = document.createElement('a');
      link.href = url;
      document.body.append(link);
      link.click();
      link.remove();
    }, target);
  }
  await page.evaluate((url) => {
    const frame = document.createElement('iframe');
    frame.src = url;
    document.body.append(frame);
  }, `${other}/frame`);

  const windows = await page.evaluate(
    (urls) => urls.map((url) => window.open(url) === null),
    [...targets, 'about:blank', 'https://example.org/window', 'https://user@example.org/'],
  );
  expect(windows).toEqual(windows.map(() => true));
  await expect
    .poll(() => app.evaluate(() => (globalThis as unknown as { opened: string[] }).opened))
    .toEqual(['https://example.org/go', 'https://example.org/window']);

  // time enough for a navigation that was let through
  await page.waitForTimeout(500);
  expect(page.url()).toBe(home);
  expect(app.windows()).toHaveLength(1);
  expect(asked).toEqual([]);
  elsewhere.close();
});

test('permissions are denied', async ({ launch }) => {
  const { page } = await launch();
  await page.waitForURL(ownPage);
  const answers = await page.evaluate(async () => {
    const outcome = (promise: Promise<unknown>) =>
      promise.then(
        () => 'granted',
        (error: unknown) => (error instanceof Error ? error.name : String(error)),
      );
    return {
      notifications: await Notification.requestPermission(),
      camera: await outcome(navigator.mediaDevices.getUserMedia({ video: true })),
      screen: await outcome(navigator.mediaDevices.getDisplayMedia()),
      place: await new Promise((resolve) =>
        navigator.geolocation.getCurrentPosition(
          () => resolve('granted'),
          (error) => resolve(error.code),
        ),
      ),
      clipboard: await outcome(navigator.clipboard.readText()),
      midi: await outcome(navigator.requestMIDIAccess()),
    };
  });
  expect(Object.values(answers)).not.toContain('granted');
  expect(answers).toMatchObject({ notifications: 'denied', place: 1, clipboard: 'NotAllowedError' });
});

test('a killed engine comes back at the same address, and the page and the run go on', async ({
  launch,
  folder,
}) => {
  const fleet = await startFakeCluster({ workers: 2 });
  const { app, page } = await launch({
    env: {
      VLLM_SCOPE_RESTART_DELAY_MS: '1000',
      VLLM_SCOPE_CONNECT: fleet.endpoints.map((e) => e.url).join(' '),
    },
  });
  await page.waitForURL(ownPage);
  const origin = () => new URL(page.url()).origin;
  const home = origin();
  const token = await page.evaluate(() => JSON.stringify(sessionStorage));
  const complaint = page.getByText('The engine does not answer');
  await expect.poll(() => runs(folder)).toMatchObject([{ state: 'recording' }]);
  // about two ticks of it
  await page.waitForTimeout(2500);
  const killedAt = Date.now();

  for (let round = 0; round < 2; round++) {
    const killed = await engineOf(app);
    process.kill(killed, 'SIGKILL');
    await expect(complaint.first()).toBeVisible();
    await expect.poll(() => engines(app).filter((pid) => pid !== killed)).toHaveLength(1);
    await expect(complaint).toHaveCount(0);
  }
  const backAt = Date.now();
  await page.waitForTimeout(2500);

  expect(origin()).toBe(home);
  expect(await page.evaluate(() => JSON.stringify(sessionStorage))).toBe(token);
  await endSession(app);
  const [run, ...others] = runs(folder);
  expect(others).toEqual([]);
  expect(run?.state).toBe('ended');
  expect(run?.startedAt).toBeLessThan(killedAt);
  expect(run?.endedAt).toBeGreaterThan(backAt);
  await fleet.close();
});

test('a page that was reloaded while there was no engine is loaded again', async ({ launch }) => {
  const { app, page } = await launch({ env: { VLLM_SCOPE_RESTART_DELAY_MS: '2000' } });
  await page.waitForURL(ownPage);
  process.kill(await engineOf(app), 'SIGKILL');
  await expect.poll(() => engines(app)).toHaveLength(0);
  await app.evaluate(({ BrowserWindow }) => BrowserWindow.getAllWindows()[0]?.reload());
  await expect(page).not.toHaveTitle(/vLLM Scope/);
  await expect(page).toHaveTitle(/vLLM Scope/);
});

test('quit ends the engine, which needs no killing', async ({ launch }) => {
  const { app, page, said } = await launch();
  await page.waitForURL(ownPage);
  const engine = await engineOf(app);
  const ended = new Promise((resolve) => app.process().once('close', resolve));
  await app.evaluate(({ app: main }) => main.quit()).catch(() => undefined);
  expect(await ended).toBe(0);
  expect(isAlive(engine)).toBe(false);
  expect(said()).not.toContain('killed');
});

test('a killed app leaves no engine behind', async ({ launch }) => {
  const { app, page } = await launch();
  await page.waitForURL(ownPage);
  const engine = await engineOf(app);
  app.process().kill('SIGKILL');
  await expect.poll(() => isAlive(engine)).toBe(false);
});

test('an engine that cannot start says why, and is not tried again', async ({ launch, folder }) => {
  await writeFile(path.join(folder, 'library.db'), 'this is no database, whatever its name says'.repeat(100));
  const { page, app, said } = await launch();
  await expect(page.getByRole('heading')).toHaveText('vLLM Scope cannot start');
  const sentence = page.getByRole('paragraph');
  await expect(sentence).toContainText('library.db');
  expect(said()).toContain((await sentence.textContent()) ?? 'nothing');
  expect(said()).not.toContain('started again');
  expect(engines(app)).toHaveLength(0);
});
