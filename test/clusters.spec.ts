/** Clusters that are there: changed, paused, resumed, removed, fed by files; by keyboard, and by the rules of accessibility. */
import fs from 'node:fs';
import path from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import { address, connected, openEdit, openEndpoints, row, some } from './clusters.ts';
import { test } from './served.ts';

test('other endpoints go on in the same run, another interval begins a new one and says so', async ({
  page,
  serve,
  cluster,
}) => {
  await connected(page, (await serve()).url, some(cluster, 0, 2), 'lab');
  const values = page.getByRole('complementary', { name: 'Values' });
  const workers = values.getByRole('button', { name: /^w\d/ });
  await expect(workers).toHaveCount(2);
  const runs = page.getByRole('list', { name: 'Runs' }).getByRole('listitem');

  let dialog = await openEdit(page, 'lab');
  await expect(dialog.getByLabel('Addresses')).toHaveValue(some(cluster, 0, 2).join('\n'));
  await dialog.getByLabel('Addresses').fill(some(cluster, 1, 4).join('\n'));
  await expect(dialog.getByRole('status').filter({ hasText: 'go on in the same run' })).toBeVisible();
  await page.keyboard.press('Control+Enter');
  await expect(dialog).toHaveCount(0);
  // w0 stays in the run with what it was
  await expect(workers).toHaveCount(4);
  await expect(page.getByRole('button', { name: /^Recording [^,]*\. Stop/ })).toBeVisible();
  await expect(runs).toHaveCount(1);

  dialog = await openEdit(page, 'lab');
  await dialog.getByLabel('Every').fill('0.5');
  await expect(dialog.getByText('Another interval ends this run and begins a new one.')).toBeVisible();
  await dialog.getByLabel('Every').fill('1');
  await expect(dialog.getByText('Another interval')).toHaveCount(0);
  await dialog.getByLabel('Every').fill('0.5');
  await page.keyboard.press('Enter');
  await expect(dialog).toHaveCount(0);
  await expect(runs).toHaveCount(2);
  // who looked at the recording looks at the next one
  await expect(workers).toHaveCount(3);
  await expect(page.getByRole('contentinfo', { name: 'Status' })).toContainText('every 0.5');
});

test('by keyboard alone: from the sidebar to pause, resume and remove, and to settings', async ({
  page,
  serve,
  cluster,
}) => {
  await connected(page, (await serve()).url, some(cluster, 0, 1), 'one');
  await page.keyboard.press('Control+n');
  await page
    .getByRole('dialog')
    .getByLabel('Addresses')
    .fill(some(cluster, 1, 3).join('\n'));
  await page.keyboard.press('Control+Enter');
  await expect(page.getByRole('dialog').getByText('2 of 2')).toBeVisible();
  await page.keyboard.press('Control+Enter');
  await expect(page.getByRole('list', { name: 'Clusters' }).getByText('2 workers, recording')).toBeVisible();
  await page.reload();
  await expect(page.getByRole('button', { name: /^Recording/ })).toBeVisible();

  const line = (name: string) => page.getByRole('list', { name: 'Clusters' }).getByRole('button', { name });
  await page.keyboard.press('Tab'); // add a cluster
  await page.keyboard.press('Tab');
  await page.keyboard.press('End');
  await expect(line('127.0.0.1 2 workers, recording')).toBeFocused();
  await page.keyboard.press('ArrowUp');
  await expect(line('one 1 worker, recording')).toBeFocused();
  await page.keyboard.press('ArrowRight');
  await expect(line('Actions of one')).toBeFocused();

  // pause: asks, since its run ends
  await page.keyboard.press('Enter');
  await expect(page.getByRole('menuitem', { name: 'Endpoints' })).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await expect(page.getByRole('menuitem', { name: 'Pause…' })).toBeFocused();
  await page.keyboard.press('Enter');
  const question = page.getByRole('dialog', { name: 'Pause one?' });
  await expect(question).toContainText('Its recording ends');
  await expect(question.getByRole('button', { name: 'Go on recording' })).toBeFocused();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await expect(line('one paused')).toBeVisible();
  await expect(line('Actions of one')).toBeFocused();

  await page.keyboard.press('Enter');
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowUp');
  await expect(page.getByRole('menuitem', { name: 'Resume' })).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(line('one 1 worker, recording')).toBeVisible();

  // Esc leaves the menu only
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('menu')).toHaveCount(0);
  await expect(line('Actions of one')).toBeFocused();

  await page.keyboard.press('Enter');
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('button', { name: 'Keep it' })).toBeFocused();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await expect(line('Actions of one')).toHaveCount(0);
  // not lost: on the page
  await expect(page.getByRole('main')).toBeFocused();

  await page.keyboard.press('g');
  await page.keyboard.press('s');
  const settings = page.getByRole('dialog', { name: 'Settings' });
  await expect(settings.getByLabel('As the system')).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await expect(settings.getByLabel('Dark')).toBeChecked();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  await page.keyboard.press('Escape');
  await expect(settings).toHaveCount(0);
  await page.keyboard.press('Control+,');
  await expect(settings).toBeVisible();
  await page.reload();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
});

test('endpoints from file_sd files: with their labels, joining and leaving as files do', async ({
  page,
  serve,
  cluster,
}) => {
  const served = await serve();
  const folder = fs.mkdtempSync(path.join(served.folder, 'sd-'));
  const put = (name: string, targets: string[], labels: Record<string, string>) => {
    const file = path.join(folder, name);
    fs.writeFileSync(`${file}.new`, JSON.stringify([{ targets, labels }]));
    fs.renameSync(`${file}.new`, file);
  };
  put('gpu-01.json', some(cluster, 0, 2), { host: 'gpu-01' });
  await page.goto(served.url);
  await page.getByLabel(/addresses/i).fill(path.join(folder, '*.json'));
  await page.keyboard.press('Control+Enter');
  await expect(row(page, address(cluster, 1))).toContainText(/gpu-01\.json · host gpu-01.*answers/);
  await expect(page.getByText('2 of 2')).toBeVisible();
  await page.keyboard.press('Control+Enter');
  const name = path.basename(folder);
  await expect(page.getByRole('button', { name: /^Recording/ })).toBeVisible();
  await openEndpoints(page, name);
  const sources = page.getByRole('table', { name: 'Files of endpoints' });
  const endpoints = page.getByRole('table', { name: 'Endpoints', exact: true });
  await expect(row(sources, '*.json')).toContainText(/●.*1\s*2/);
  await expect(row(endpoints, address(cluster, 0))).toContainText(/gpu-01\.json\s*host gpu-01\s*answers/);

  put('gpu-02.json', some(cluster, 2, 3), { host: 'gpu-02' });
  await expect(row(endpoints, address(cluster, 2))).toContainText(/gpu-02\.json\s*host gpu-02\s*answers/);
  await expect(row(sources, '*.json')).toContainText(/2\s*3/);
  fs.rmSync(path.join(folder, 'gpu-01.json'));
  await expect(endpoints.getByRole('row')).toHaveCount(1 + 1);

  // sorted by a head, by keyboard
  put('gpu-03.json', some(cluster, 3, 8), { host: 'gpu-03' });
  cluster.endpoints[5]!.faults = { lateMs: 300 };
  await expect(endpoints.getByRole('row')).toHaveCount(1 + 6);
  await endpoints.getByRole('button', { name: /^Answer/ }).focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  await expect(endpoints.getByRole('columnheader', { name: /^Answer/ })).toHaveAttribute(
    'aria-sort',
    'descending',
  );
  await expect(endpoints.getByRole('row').nth(1)).toContainText(address(cluster, 5));
});

/** Every rule in light; in dark the colours, which is all that differs. */
async function check(page: Page, what: string, within?: string) {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    const builder = new AxeBuilder({ page });
    if (within !== undefined) builder.include(within);
    if (colorScheme === 'dark') builder.withRules(['color-contrast']);
    const { violations } = await builder.analyze();
    const found = violations.map(
      (v) => `${v.id}: ${v.nodes.map((n) => `${n.target.join(' ')} ${n.failureSummary}`).join('; ')}`,
    );
    expect(found, `${what}, ${colorScheme}`).toEqual([]);
    await page.screenshot({
      path: test.info().outputPath(`${what.replaceAll(' ', '-')}-${colorScheme}.png`),
    });
  }
}

test('the form breaks no rule of accessibility, light and dark', async ({ page, serve, cluster }) => {
  test.setTimeout(180_000); // axe takes seconds for each look
  const served = await serve();
  await page.goto(served.url);
  await expect(page.getByLabel(/addresses/i)).toBeFocused();
  await check(page, 'empty page');
  cluster.endpoints[1]!.faults = { statsOff: true };
  await page
    .getByLabel(/addresses/i)
    .fill([...some(cluster, 0, 8), ...some(cluster, 0, 1), '127.0.0.1:1'].join());
  await page.keyboard.press('Control+Enter');
  await expect(page.getByRole('progressbar')).toBeVisible();
  await check(page, 'test running');
  await expect(page.getByText('Done in')).toBeVisible();
  await page.getByRole('button', { name: 'Name, interval, access…' }).click();
  await check(page, 'tested');
  await page.keyboard.press('Control+Enter');
  await expect(page.getByRole('button', { name: /^Recording/ })).toBeVisible();

  await page.keyboard.press('Control+n');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Token, headers, CA file…' }).click();
  await dialog.getByRole('button', { name: 'Add a header' }).click();
  await page.keyboard.type('X Key');
  await dialog.getByLabel('Addresses').fill(`ada:pw@${address(cluster, 0)}\n127.0.0.1:99999`);
  await page.keyboard.press('Control+Enter');
  await check(page, 'problem', 'dialog');
  await dialog.getByRole('button', { name: /^Remove header/ }).click();
  await page.keyboard.press('Control+Enter');
  await expect(dialog.getByRole('alert').filter({ hasText: 'is no address' })).toBeVisible();
  await check(page, 'refused', 'dialog');
  await page.keyboard.press('Escape');
});

test('endpoints, sidebar and dialogs break no rule of accessibility, light and dark', async ({
  page,
  serve,
  cluster,
}) => {
  test.setTimeout(180_000);
  cluster.endpoints[1]!.faults = { statsOff: true };
  const addresses = [...some(cluster, 0, 3), '127.0.0.1:1'];
  await connected(page, (await serve()).url, addresses, 'lab');
  await openEndpoints(page, 'lab');
  await check(page, 'endpoints');
  await page.getByRole('button', { name: 'Actions of lab' }).click();
  await check(page, 'menu', 'nav');
  await page.keyboard.press('Escape');
  const edit = await openEdit(page, 'lab');
  await edit.getByLabel('Every').fill('3');
  await check(page, 'edit', 'dialog');
  await page.keyboard.press('Escape');
  for (const name of ['Pause…', 'Remove…']) {
    await page.getByRole('button', { name }).click();
    await check(page, name.replace('…', ''), 'dialog');
    await page.keyboard.press('Escape');
  }
  await page.keyboard.press('Control+,');
  await check(page, 'settings', 'dialog');
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await check(page, 'keys', 'dialog');
});
