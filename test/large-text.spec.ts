/** Text at twice its size, as set in the browser: nothing of any view is cut off or out of reach. */
import os from 'node:os';
import { expect, type Page } from '@playwright/test';
import { connected, openEdit, openEndpoints, some } from './clusters.ts';
import { test } from './served.ts';

test.use({
  // the size that a user sets, which rem and media queries follow; a zoom of the page would not show either
  launchOptions: [
    async ({ launchOptions }, use) => {
      const args = [...(launchOptions.args ?? []), '--blink-settings=defaultFontSize=32'];
      await use({ ...launchOptions, args });
    },
    { scope: 'worker' },
  ],
});

/** Elements in `within` that hide a part of what they hold, and those that stand out of the window. */
const cutOff = (page: Page, within: string) =>
  page.evaluate((selector) => {
    const found: string[] = [];
    const root = document.querySelector(selector);
    if (!root) throw new Error(`no ${selector}`);
    for (const e of [root, ...root.querySelectorAll('*')]) {
      const { overflowX, overflowY, clipPath } = getComputedStyle(e);
      // what is for screen readers alone
      if (clipPath !== 'none') continue;
      const hides = (overflow: string) => overflow === 'hidden' || overflow === 'clip';
      if (
        (hides(overflowX) && e.scrollWidth > e.clientWidth + 1) ||
        (hides(overflowY) && e.scrollHeight > e.clientHeight + 1)
      )
        found.push(`<${e.tagName} class="${e.className}"> ${e.textContent.trim().slice(0, 60)}`);
    }
    const { left, right, top, bottom } = root.getBoundingClientRect();
    if (left < 0 || top < 0 || right > innerWidth || bottom > innerHeight) found.push('out of the window');
    return found;
  }, within);

test('nothing is cut off at 200 %', async ({ page, serve, cluster }) => {
  const look = async (what: string, within: string) => {
    for (const [width, height] of [
      [1440, 900],
      [1100, 700],
    ] as const) {
      await page.setViewportSize({ width, height });
      // what is drawn follows a new size a moment later
      await page.waitForTimeout(200);
      await expect.poll(() => cutOff(page, within), { message: `${what} at ${width}` }).toEqual([]);
      await page.screenshot({ path: test.info().outputPath(`${what.replaceAll(' ', '-')}-${width}.png`) });
    }
  };
  // no key of W&B that the machine has
  await page.goto((await serve({ env: { WANDB_API_KEY: '', NETRC: os.devNull } })).url);
  expect(await page.evaluate(() => parseFloat(getComputedStyle(document.documentElement).fontSize))).toBe(32);
  await look('empty page', 'main');
  cluster.endpoints[1]!.faults = { statsOff: true };
  await connected(page, page.url(), some(cluster, 0, 3), 'lab');
  await page.waitForTimeout(3000);
  await look('timelines', 'body');
  await page.keyboard.press('2');
  await expect(page.getByText(/^Step duration/)).toBeVisible();
  await look('scalars', 'body');
  await page.keyboard.press('3');
  await expect(page.getByRole('grid', { name: 'Workers' })).toBeVisible();
  await look('workers', 'body');
  await page.keyboard.press('4');
  await expect(page.getByText('Show in Timelines')).toBeVisible();
  await look('events', 'body');
  await page.keyboard.press('1');
  await page.keyboard.press('p');
  await look('panels menu', '[role=dialog]');
  await page.keyboard.press('Escape');

  await page.keyboard.press('Control+n');
  const dialog = page.getByRole('dialog');
  await look('add a cluster', 'dialog');
  await dialog.getByLabel('Addresses').fill(`ada:pw@127.0.0.1:${cluster.endpoints[0]!.port}\n127.0.0.1:1`);
  await page.keyboard.press('Control+Enter');
  await expect(dialog.getByText('Done in')).toBeVisible();
  await dialog.getByRole('button', { name: 'user and password of 1 address' }).click();
  await dialog.getByRole('button', { name: 'Add a header' }).click();
  await look('tested', 'dialog');
  await page.keyboard.press('Escape');

  // folded away at this size: over the page
  await page.keyboard.press('[');
  await look('sidebar', 'nav');
  await page.getByRole('button', { name: 'Actions of lab' }).click();
  await look('menu', '[role=menu]');
  await page.keyboard.press('Escape');
  await openEndpoints(page, 'lab');
  await look('endpoints', 'main > .page');
  await page.keyboard.press('[');
  const edit = await openEdit(page, 'lab');
  await edit.getByLabel('Every').fill('3');
  await look('edit', 'dialog');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Remove…' }).click();
  await look('remove', 'dialog');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+,');
  await look('settings', 'dialog');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await look('keys', 'dialog');
  await page.keyboard.press('Escape');
  await page.keyboard.press('1');
  await expect(page.getByRole('button', { name: /^Recording/ })).toBeVisible();
  await page.keyboard.press('u');
  await expect(page.getByLabel('API key')).toBeFocused();
  await look('upload', 'dialog');
});
