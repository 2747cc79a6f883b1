// What shell.spec.ts leaves of the window's walls: how it is set up, downloads, embedding, the page of main's own, and
// what is said to logs.
// Navigation, windows, outside links and permissions are there; the page's policy is in security.spec.ts.
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect } from '@playwright/test';
import { endSession, engineOf, ownPage, test } from './shells.ts';

test('the window is sandboxed, isolated and without Node, and nothing of Electron is loosened', async ({
  launch,
}) => {
  const { app, page } = await launch();
  await page.waitForURL(ownPage);
  const preferences = await app.evaluate(({ webContents }) => {
    const all = webContents.getAllWebContents();
    // what Electron made of it; typed in newer versions only
    return all.map((contents) =>
      (contents as unknown as { getLastWebPreferences(): Record<string, unknown> }).getLastWebPreferences(),
    );
  });
  expect(preferences).toHaveLength(1);
  const on = ['sandbox', 'contextIsolation', 'webSecurity'];
  const off = [
    ...['nodeIntegration', 'nodeIntegrationInWorker', 'nodeIntegrationInSubFrames', 'webviewTag'],
    ...['allowRunningInsecureContent', 'experimentalFeatures', 'enableBlinkFeatures', 'spellcheck'],
  ];
  // undefined: Electron's own default, which for these is off
  const of = (name: string) => Boolean(preferences[0]![name] ?? false);
  expect(on.filter((name) => !of(name))).toEqual([]);
  expect(off.filter(of)).toEqual([]);
});

test('nothing is downloaded or embedded', async ({ launch }) => {
  const { app, page } = await launch();
  await page.waitForURL(ownPage);
  const elsewhere = createServer((_request, response) =>
    response.writeHead(200, { 'content-disposition': 'attachment; filename=a.sh' }).end('#!/bin/sh'),
  );
  await once(elsewhere.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/a.sh`;
  await app.evaluate(({ session }) => {
    const begun: string[] = [];
    Object.assign(globalThis, { begun });
    session.defaultSession.on('will-download', (event, item) => {
      if (!event.defaultPrevented) {
        begun.push(item.getURL());
        item.cancel();
      }
    });
  });
  await page.evaluate((href) => {
    const own = URL.createObjectURL(new Blob(['x']));
    for (const target of [href, own, 'data:application/x-sh,x']) {
      const link = document.createElement('a');
      link.href = target;
      link.download = 'a.sh';
      document.body.append(link);
      link.click();
    }
    const view = document.createElement('webview');
    view.setAttribute('src', href);
    document.body.append(view);
  }, url);
  // time enough for what was let through
  await page.waitForTimeout(1000);
  expect(await app.evaluate(() => (globalThis as unknown as { begun: string[] }).begun)).toEqual([]);
  expect(await app.evaluate(({ webContents }) => webContents.getAllWebContents().length)).toBe(1);
  elsewhere.close();
});

test('the token is in nothing that main and the engine say', async ({ launch }) => {
  const { app, page, said } = await launch();
  await page.waitForURL(ownPage);
  const kept = await page.evaluate(() => JSON.stringify({ ...sessionStorage }));
  const [token] = /[0-9a-f]{32}/.exec(kept) ?? [];
  expect(token).toBeDefined();
  // an engine that comes back has its own words
  process.kill(await engineOf(app), 'SIGKILL');
  await expect.poll(said).toContain('started again');
  await engineOf(app);
  await endSession(app);
  expect(said()).not.toContain(token);
});

test('the sentence of an engine that cannot start is text, and nothing runs beside it', async ({
  launch,
  folder,
}) => {
  const data = path.join(folder, '<b data-planted>&lt;');
  await mkdir(data);
  await writeFile(path.join(data, 'library.db'), 'no database'.repeat(1000));
  const { page } = await launch({ data });
  await expect(page.getByRole('paragraph')).toContainText('<b data-planted>&lt;');
  await page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.ran = 1';
    document.body.append(script);
  });
  expect(await page.evaluate(() => 'ran' in window)).toBe(false);
  expect(await page.locator('[data-planted]').count()).toBe(0);
});
