/** Why a number is what it is, in Chromium: from Scalars and Timelines, against its own SQL run on the file. */
import fs from 'node:fs';
import path from 'node:path';
import { expect, type Page } from '@playwright/test';
import Database from 'better-sqlite3';
import { looker } from './by-keyboard.ts';
import { startFakeCluster, type FakeCluster } from './fake-vllm.ts';
import { expectLines } from './person.ts';
import { test as served } from './served.ts';

const test = served.extend<{ cluster: FakeCluster }>({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  cluster: async ({}, use) => {
    const cluster = await startFakeCluster({
      workers: 2,
      seed: 3,
      stepSeconds: [4, 6],
      pauseSeconds: [3.5, 4],
    });
    await use(cluster);
    await cluster.close();
  },
});

const drawer = (page: Page) => page.getByRole('complementary', { name: 'Why this number' });
const heading = (page: Page) => drawer(page).getByRole('heading').first();
const copied = (page: Page) => page.evaluate(() => navigator.clipboard.readText());

/** The one number that a statement gives, as SQLite runs it on the run's file. */
function run(folder: string, sql: string): number {
  const runs = path.join(folder, 'runs');
  const file = fs.readdirSync(runs).find((name) => name.endsWith('.sqlite'))!;
  const db = new Database(path.join(runs, file), { readonly: true });
  try {
    return db.prepare(sql).pluck().get() as number;
  } finally {
    db.close();
  }
}

test.use({ permissions: ['clipboard-read', 'clipboard-write'] });

test('a scalar: its SQL gives it, other readings take its place, Esc goes back to where one was', async ({
  page,
  serve,
}) => {
  test.setTimeout(150_000);
  const { url, folder } = await serve({ connect: true });
  await page.goto(url);
  await expectLines(page, 2);
  await page.keyboard.press('2');
  const panel = page.locator('[data-scalar="prefix_cache_hit_rate"]');
  await expect(page.getByText(/Steps: idle/)).toBeVisible({ timeout: 60_000 });
  const said = async () => (await panel.getByRole('img').getAttribute('aria-label')) ?? '';
  await expect
    .poll(async () => Number(/(\d+) steps?\.$/.exec(await said())?.[1] ?? 0), { timeout: 60_000 })
    .toBeGreaterThan(2);
  await panel.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('.');
  await expect.poll(said, { timeout: 30_000 }).toMatch(/Step 1: pooled [\d.]+.%/);
  const shown = /pooled ([\d.]+.%)/.exec(await said())![1]!;

  await page.keyboard.press('w');
  await expect(heading(page)).toHaveText(`Prefix hit rate, step 1: ${shown}`);
  await expect(drawer(page)).toContainText('May I believe it?');
  await expect(drawer(page)).toContainText(/Of [\d,]+ prompt tokens/);
  await expect(drawer(page).getByText('prefix_cache_queries', { exact: true })).toHaveCount(2);
  await expect(page.getByRole('complementary', { name: 'One step against the one before' })).toBeHidden();
  await looker(page, (name) => test.info().outputPath(`${name}.png`))('why');

  await drawer(page).getByRole('button', { name: 'Copy SQL' }).click();
  await expect(drawer(page).getByRole('status')).toHaveText('SQL copied.');
  const value = run(folder, await copied(page));
  expect(`${(value * 100).toFixed(1)}\u202f%`).toBe(shown);
  await drawer(page).getByRole('button', { name: 'Copy as text' }).click();
  await expect.poll(() => copied(page)).toContain(`Prefix hit rate, step 1: ${shown}`);

  const readings = drawer(page).getByRole('group', { name: 'What other readings would say' });
  const own = readings.locator('[aria-pressed=true]');
  await expect(own).toContainText(`${(value * 100).toFixed(2)}\u202f%`);
  const life = readings.getByRole('button', { name: /since the servers started/i });
  await life.click();
  const other = /([\d.]+.%)/.exec((await life.textContent()) ?? '')![1]!;
  await expect(heading(page)).toContainText(`: ${Number.parseFloat(other).toFixed(1)}\u202f%`);
  await expect(drawer(page)).toContainText('as “Since the servers started” would have it');
  await readings.getByRole('button').first().click();
  await expect(heading(page)).toContainText(shown);

  // from number to number, then back to where the first one was asked about
  await panel.locator('.end').first().click();
  await expect(heading(page)).toContainText('Prefix hit rate, step');
  await page.keyboard.press('Escape');
  await expect(drawer(page)).toBeHidden();
  await expect(panel).toBeFocused();

  // the table's numbers too, and that step in time
  const table = page.getByRole('complementary', { name: 'One step against the one before' });
  await table.getByRole('button', { name: /^Generation tokens .* in step 1: why$/ }).click();
  await expect(heading(page)).toContainText('Generation, sum, step 1: ');
  await drawer(page).getByRole('button', { name: 'Copy SQL' }).click();
  const tokens = run(folder, await copied(page));
  await expect(drawer(page)).toContainText(tokens.toLocaleString('en-US'));
  await drawer(page).getByRole('button', { name: 'Show in timeline' }).click();
  await expect(page.getByRole('slider', { name: 'Steps' })).toHaveAttribute('aria-valuetext', /^Step 1, /);
  await expect(drawer(page)).toBeVisible();
});

test('numbers of what is in view: by key and by click, in the place of the list of values', async ({
  page,
  serve,
}) => {
  const { url, folder } = await serve({ connect: true });
  await page.goto(url);
  await expectLines(page, 2);
  const panel = page.locator('[data-metric="running"]');
  // numbers of a window that stands
  await page.getByRole('button', { name: /Following/ }).click();
  await expect(panel.locator('.number.mean')).toHaveText(/mean [\d.]+/);
  await panel.focus();
  await page.keyboard.press('w');
  await expect(heading(page)).toHaveText(/^Running, mean: [\d.]+$/);
  const values = page.getByRole('complementary', { name: 'Values' });
  await expect(values).toBeHidden();
  const plot = (await page.locator('[data-metric="running"] .plot').boundingBox())!;
  const side = (await drawer(page).boundingBox())!;
  expect(plot.x + plot.width, 'it never covers data').toBeLessThanOrEqual(side.x + 1);
  await drawer(page).getByRole('button', { name: 'Copy SQL' }).click();
  const mean = run(folder, await copied(page));
  const said = Number.parseFloat((await heading(page).textContent())!.split(': ')[1]!);
  expect(Math.abs(mean - said)).toBeLessThan(0.051);
  await page.keyboard.press('Escape');
  await expect(panel).toBeFocused();
  await expect(values).toBeVisible();

  await panel.getByRole('button', { name: /^max .*, Running in view$/ }).click();
  await expect(heading(page)).toHaveText(/^Running, max: \d+$/);
  await drawer(page).getByRole('button', { name: 'Close' }).click();
  await values.getByRole('button', { name: /^p95 .*, Running in view$/ }).click();
  await expect(heading(page)).toContainText('Running, p95');
});
