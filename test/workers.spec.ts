/**
 * The view of workers in Chromium: its numbers against the raw rows of the run's file, one sort for table and heat map,
 * isolating, zooming in time, KV pressure on the timelines and in Events.
 */
import fs from 'node:fs';
import path from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import Database from 'better-sqlite3';
import { startFakeCluster, type FakeCluster } from './fake-vllm.ts';
import { expectLines } from './person.ts';
import { test as served } from './served.ts';

/** Two engines behind each address, and so little room that their caches run full. */
const test = served.extend<{ cluster: FakeCluster }>({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  cluster: async ({}, use) => {
    const cluster = await startFakeCluster({
      workers: 8,
      enginesPerEndpoint: 2,
      seed: 3,
      stepSeconds: [7, 9],
      pauseSeconds: [3, 3.4],
      shape: { blocks: 420 },
    });
    await use(cluster);
    await cluster.close();
  },
});

const grid = (page: Page) => page.getByRole('grid', { name: 'Workers' });
const rows = (page: Page) => grid(page).locator('[data-worker]');
const header = (page: Page, name: string | RegExp) => grid(page).getByRole('columnheader', { name });
const reading = (page: Page) => page.getByRole('group', { name: 'Reading' });
const over = (page: Page) => page.getByLabel('Over');
const map = (page: Page) => page.getByRole('img', { name: /^Heat map of/ });
const isolated = (page: Page) => page.getByRole('button', { name: /isolated: show all alike$/ });

/** Of all rows in sight, the texts of a column. */
const column = (page: Page, place: number) =>
  rows(page).evaluateAll(
    (list, n) => list.map((row) => row.querySelectorAll('[role=gridcell]')[n]!.textContent.trim()),
    place,
  );
const order = (page: Page) =>
  rows(page).evaluateAll((list) =>
    list
      .map((row) => ({ w: row.getAttribute('data-worker'), top: row.getBoundingClientRect().top }))
      .sort((a, b) => a.top - b.top)
      .map(({ w }) => Number(w)),
  );

/** Straight from the file, with nothing of the engine's: per worker its raw samples, oldest first. */
function samplesIn(folder: string) {
  const [file] = fs.readdirSync(path.join(folder, 'runs')).filter((name) => name.endsWith('.sqlite'));
  const db = new Database(path.join(folder, 'runs', file!), { readonly: true });
  const all = db
    .prepare(
      'SELECT k % 4096 AS w, at, running, kv_usage AS kv, generation_tokens AS tokens FROM sample ORDER BY k',
    )
    .all() as { w: number; at: number; running: number | null; kv: number; tokens: number }[];
  db.close();
  return Array.from({ length: 8 }, (_, w) => all.filter((s) => s.w === w));
}

async function stop(page: Page) {
  await page.getByRole('button', { name: /Stop recording$/ }).click();
  const confirm = page.getByRole('dialog').getByRole('button', { name: /^Stop/ });
  if (await confirm.isVisible()) await confirm.click();
  await expect(page.getByRole('button', { name: 'Record', exact: true })).toBeVisible();
}

test('numbers are those of the raw rows; one sort for table and heat map, remembered', async ({
  page,
  serve,
}) => {
  const { url, folder } = await serve({ connect: true });
  await page.goto(url);
  await expectLines(page, 8);
  await page.waitForTimeout(12_000);
  await stop(page);
  await page.keyboard.press('3');
  await expect(grid(page)).toBeFocused();
  await expect(rows(page)).toHaveCount(8);
  await expect(page.getByText('Not read yet.')).toHaveCount(0);

  // sorted by keyboard
  await header(page, 'Running').getByRole('button').focus();
  await page.keyboard.press('Enter');
  await expect(header(page, 'Running')).toHaveAttribute('aria-sort', 'descending');
  const samples = samplesIn(folder);
  // the first body of a server lacks some families
  const means = samples.map((list) => {
    const there = list.flatMap(({ running }) => running ?? []);
    return there.reduce((sum, v) => sum + v, 0) / there.length;
  });
  const byMean = means.map((mean, w) => ({ mean, w })).sort((a, b) => b.mean - a.mean);
  await expect.poll(() => order(page)).toEqual(byMean.map(({ w }) => w));
  // the last ticks may come in a moment after the end
  const shown = async () => (await column(page, 4)).map(Number).sort((a, b) => b - a);
  const off = async () => Math.max(...(await shown()).map((v, i) => Math.abs(v - byMean[i]!.mean)));
  await expect.poll(off).toBeLessThan(0.06);
  const delta = (w: number) => samples[w]!.at(-1)!.tokens - samples[w]![0]!.tokens;
  const [most] = byMean;
  const tokens = rows(page)
    .and(page.locator(`[data-worker="${most!.w}"]`))
    .getByRole('gridcell')
    .nth(7);
  // three digits, as the page writes counts from 10,000 on
  const d = delta(most!.w);
  const digits = d < 10_000 ? d.toLocaleString('en') : `${Number((d / 1000).toPrecision(3))}`;
  await expect(tokens).toContainText(digits);
  await header(page, 'Running').getByRole('button').click();
  await expect(header(page, 'Running')).toHaveAttribute('aria-sort', 'ascending');
  const up = byMean.toSorted((a, b) => a.mean - b.mean || a.w - b.w);
  await expect.poll(() => order(page)).toEqual(up.map(({ w }) => w));

  // under the pointer: the worker of that row, a time, and a value that it had about then
  await page.getByRole('combobox', { name: 'Heat map' }).selectOption('KV cache used');
  await expect(map(page)).toHaveAttribute(
    'aria-label',
    /^Heat map of KV cache used, a row a worker, .* 0 to 100/,
  );
  const box = (await map(page).boundingBox())!;
  const third = (await order(page))[2]!;
  const row = (await rows(page)
    .and(page.locator(`[data-worker="${third}"]`))
    .boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.4, row.y + row.height / 2);
  const said = page.locator('.said');
  await expect(said).toContainText(new RegExp(`^w${third}\\b`));
  const text = (await said.textContent())!;
  const [, clock] = /(\d\d:\d\d:\d\d)/.exec(text)!;
  const value = Number(/KV cache used ([\d.]+)/.exec(text)![1]) / 100;
  const near = samples[third]!.filter((s) => {
    const t = new Date(s.at).toTimeString().slice(0, 8);
    return t === clock || new Date(s.at + 1000).toTimeString().slice(0, 8) === clock;
  });
  expect(near.map((s) => Math.abs(s.kv - value) < 0.0006)).toContain(true);
  // a click isolates it, Shift adds, Esc takes it back
  await page.mouse.down();
  await page.mouse.up();
  await expect(isolated(page)).toHaveText(`w${third} ✕`);
  await expect(rows(page).and(page.locator('[aria-selected=true]'))).toHaveCount(1);
  const other = (await order(page))[5]!;
  await rows(page)
    .and(page.locator(`[data-worker="${other}"]`))
    .click({ modifiers: ['Shift'] });
  await expect(isolated(page)).toHaveCount(2);
  await page.keyboard.press('Escape');
  await expect(isolated(page)).toHaveCount(0);

  // a drag zooms, here and in Timelines
  const before = await map(page).getAttribute('aria-label');
  await page.mouse.move(box.x + box.width * 0.2, row.y + 4);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, row.y + 4, { steps: 5 });
  await page.mouse.up();
  await expect(over(page)).toHaveValue('view');
  await expect(map(page)).not.toHaveAttribute('aria-label', before!);
  await page.mouse.dblclick(box.x + 300, row.y + 4);
  await expect(over(page)).toHaveValue('whole');
  await page.keyboard.press('Escape');

  await page.getByRole('button', { name: 'Fit all' }).click();
  await page.goto('about:blank');
  await page.goto(url);
  await page.getByRole('button', { name: 'All runs' }).first().click();
  await page.getByRole('table').getByRole('button').first().click();
  await page.keyboard.press('3');
  await expect(header(page, 'Running')).toHaveAttribute('aria-sort', 'ascending');
  await expect(page.getByRole('button', { name: 'Fit all' })).toHaveAttribute('aria-pressed', 'true');
});

test('by keyboard: rows, isolating, a step; a restart is signed; axe has nothing to say', async ({
  page,
  serve,
  cluster,
}) => {
  test.setTimeout(150_000);
  await page.goto((await serve({ connect: true })).url);
  await page.keyboard.press('3');
  await expect(grid(page)).toBeVisible();
  await expect(rows(page)).toHaveCount(8);
  await cluster.endpoints[1]!.restart();
  await expect(rows(page).filter({ has: page.getByRole('img', { name: 'restarted' }) })).toHaveCount(2, {
    timeout: 30_000,
  });
  await expect(reading(page)).toContainText(/w2, ?w3 restarted/);

  await header(page, 'Worker').getByRole('button').click();
  await grid(page).focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('j');
  await expect(grid(page)).toHaveAttribute('aria-activedescendant', 'worker-2');
  await page.keyboard.press('i');
  await expect(isolated(page)).toHaveText('w2 ✕');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(isolated(page)).toHaveText('w1 ✕');
  await page.keyboard.press('Escape');
  // a name in the reading isolates too
  await reading(page).getByRole('button', { name: 'w3', exact: true }).click();
  await expect(isolated(page)).toHaveText('w3 ✕');
  await page.keyboard.press('Escape');

  // a step: exact, percentiles too
  await expect.poll(() => over(page).locator('option').count(), { timeout: 60_000 }).toBeGreaterThan(3);
  const step = over(page).locator('option').nth(3);
  await over(page).selectOption(await step.getAttribute('value'));
  await page.getByLabel('Statistic').selectOption('p95');
  await expect(grid(page)).toContainText('p95, /s');
  await expect.poll(async () => (await column(page, 4)).every((text) => /^\d/.test(text))).toBe(true);

  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(300);
    const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
    expect(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`)).toEqual(
      [],
    );
    await page.screenshot({ path: test.info().outputPath(`workers-${colorScheme}.png`) });
  }
});

test('KV pressure stands in Events, leads to its place, and is marked on the KV panel', async ({
  page,
  serve,
}) => {
  await page.goto((await serve({ connect: true })).url);
  await expectLines(page, 8);
  await page.keyboard.press('4');
  const list = page.getByRole('grid', { name: /^Events/ });
  const spell = list.getByRole('row').filter({ hasText: 'KV pressure' });
  await expect(spell.first()).toBeVisible({ timeout: 60_000 });
  await page.getByRole('button', { name: /^KV pressure \d+$/ }).click();
  await expect(list.getByRole('row').filter({ hasText: /Restarted|No answer/ })).toHaveCount(0);
  await expect(spell.first()).toContainText(/(In step \d+|Between steps); hit rate .* before, .* in it/);
  await spell.first().click();
  await page.keyboard.press('Enter');
  await expect(page.locator('.mark')).toBeVisible();
  // the bar has the token's colour, on the upper edge of the panel
  const colour = await page.evaluate(() => {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.style.color = 'var(--preempt)';
    const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g)!.map(Number);
    probe.remove();
    return [r, g, b];
  });
  await expect
    .poll(() =>
      page.evaluate(([r, g, b]) => {
        const canvas = document.querySelector<HTMLCanvasElement>('canvas.layer')!;
        const panel = document.querySelector<HTMLElement>('[data-metric=kv_cache_usage]')!;
        const sheet = canvas.parentElement!.getBoundingClientRect();
        const top = Math.round((panel.getBoundingClientRect().top - sheet.top) * devicePixelRatio);
        const { data } = canvas.getContext('2d')!.getImageData(0, top, canvas.width, 1);
        let n = 0;
        for (let i = 0; i < data.length; i += 4)
          if (data[i] === r && data[i + 1] === g && data[i + 2] === b) n++;
        return n;
      }, colour),
    )
    .toBeGreaterThan(8);
  await page.screenshot({ path: test.info().outputPath('pressure.png') });
});
