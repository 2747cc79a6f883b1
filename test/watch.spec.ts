/** Watching a run in Chromium: vital numbers, events and their place in time, panels in one's own order, what is in view. */
import { expect, type Page } from '@playwright/test';
import { expectLines } from './person.ts';
import { test } from './served.ts';

interface Ask {
  /** Of the strip, otherwise of what is in view. */
  strip: boolean;
  coarse: boolean;
  sent: number;
  answered: number;
}
declare global {
  interface Window {
    /** Calls of `statistics`, kept by this test. */
    __asks?: Ask[];
  }
}

const strip = (page: Page) => page.getByLabel('Vital numbers');
const vital = (page: Page, title: string) =>
  strip(page).locator('div', { has: page.getByText(title, { exact: true }) });
const panels = (page: Page) =>
  page.locator('[data-metric]').evaluateAll((list) => list.map((e) => e.getAttribute('data-metric')));

/** What ECharts was given: per worker the values that are there, with their times. */
const pointsOf = (page: Page, metric: string) =>
  page.evaluate((id) => {
    const chart = window.__charts?.().find((c) => c.metric === id);
    return (chart?.series ?? [])
      .filter(({ name }) => /^w\d+$/.test(name))
      .map(({ points }) => points.filter((p): p is [number, number] => p[1] !== null));
  }, metric);

test('the strip says what is now and what is wrong; of a past run what is in view', async ({
  page,
  serve,
  cluster,
}) => {
  await page.goto((await serve({ connect: true })).url);
  await expectLines(page, 8);
  await expect(strip(page).locator('dt')).toHaveText([
    /^Workers\s*now$/,
    /^Running\s*now, sum$/,
    /^Waiting\s*now, sum$/,
    /^KV cache\s*now, max$/,
    /^Hit rate\s*\d+.s, pooled$/,
    /^Generation\s*\d+.s, sum$/,
    /^Preemptions\s*\d+.s, sum$/,
  ]);
  await expect(vital(page, 'Workers')).toContainText('8of 8 answer');
  // the sum of what the lines end with; both are read until they are of the same tick
  await expect
    .poll(async () => {
      const sum = (await pointsOf(page, 'running')).reduce((n, points) => n + points.at(-1)![1], 0);
      const said = (await vital(page, 'Running').locator('dd').first().textContent()) ?? '';
      return said.startsWith(`${sum}requests`);
    })
    .toBe(true);

  cluster.endpoints[2]!.faults = { hang: true };
  await expect(vital(page, 'Workers')).toContainText('7of 8 answer');
  await expect(vital(page, 'Workers').getByRole('img', { name: 'Attention' })).toBeVisible();
  // the worker in the strip isolates it everywhere; Esc takes it back
  await vital(page, 'Workers').getByRole('button', { name: 'w2' }).click();
  await expect(page.getByRole('button', { name: 'w2 isolated: show all alike' })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByRole('button', { name: 'w2 isolated: show all alike' })).toBeHidden();
  // so does its lane
  const lanes = page.getByRole('img', { name: 'Answers of each worker' }).locator('canvas');
  const { height } = (await lanes.boundingBox())!;
  await lanes.click({ position: { x: 600, y: 2 + ((height - 2) / 8) * 5.5 } });
  await expect(page.getByRole('button', { name: 'w5 isolated: show all alike' })).toBeVisible();

  await page.getByRole('button', { name: /Stop recording$/ }).click();
  const confirm = page.getByRole('dialog').getByRole('button', { name: /^Stop/ });
  if (await confirm.isVisible()) await confirm.click();
  await expect(strip(page).locator('dt')).toHaveText(Array.from({ length: 7 }, () => /in view/));
  await expect(strip(page).locator('dd').filter({ hasText: 'not read yet' })).toHaveCount(0);
  // over the samples that are drawn, all in view
  const running = (await pointsOf(page, 'running')).flat().map(([, v]) => v);
  const mean = running.reduce((a, b) => a + b, 0) / running.length;
  const numbers = page.getByRole('region', { name: 'Running in view' });
  await expect.poll(async () => Number(await numbers.locator('.mean dd').textContent())).toBeCloseTo(mean, 1);
  await expect(numbers.locator('.max dd')).toHaveText(String(Math.max(...running)));
  await expect(numbers.locator('.min dd')).toHaveText(String(Math.min(...running)));
});

test('a restart is announced, stands in Events and leads to its place in time, by keyboard', async ({
  page,
  serve,
  cluster,
}) => {
  await page.goto((await serve({ connect: true })).url);
  await expectLines(page, 8);
  await cluster.endpoints[1]!.restart();
  await expect(page.locator('[aria-live=polite]')).toContainText(/w1 on .* restarted/);

  await page.keyboard.press('4');
  const grid = page.getByRole('grid', { name: /^Events/ });
  await expect(grid).toBeFocused();
  const row = grid.getByRole('row').filter({ hasText: 'Restarted' });
  await expect(row).toHaveCount(1);
  await page.getByRole('button', { name: /^Restarts 1$/ }).click();
  await page.keyboard.press('j');
  await expect(row).toHaveAttribute('aria-selected', 'true');
  const at = (await row.getByRole('gridcell').first().textContent())!.trim();

  // in a list that scrolls what comes later neither moves what is chosen nor takes the focus
  for (const i of [2, 3, 5, 6, 7]) await cluster.endpoints[i]!.restart();
  await page.setViewportSize({ width: 1440, height: 260 });
  await page.getByRole('button', { name: /^All \d+$/ }).click();
  await expect(grid.getByRole('row').filter({ hasText: 'w7 on' })).toBeVisible();
  await grid.focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('j');
  const chosen = grid.locator('[aria-selected=true]');
  const key = await chosen.textContent();
  const before = await chosen.boundingBox();
  const rows = await grid.getAttribute('aria-rowcount');
  await cluster.endpoints[4]!.restart();
  await expect(grid).not.toHaveAttribute('aria-rowcount', rows!);
  expect(await chosen.textContent()).toBe(key);
  expect(await chosen.boundingBox()).toEqual(before);
  await expect(grid).toBeFocused();
  await page.setViewportSize({ width: 1440, height: 900 });

  await row.filter({ hasText: 'w1 on' }).click();
  await page.keyboard.press('Enter');
  await expect(page.locator('.mark')).toBeVisible();
  const seconds = (clock: string) => clock.split(':').reduce((n, part) => n * 60 + Number(part), 0);
  // the list says the time of the crosshair
  const moment = page.getByRole('complementary', { name: 'Values' }).locator('[data-part=moment]');
  await expect
    .poll(async () => Math.abs(seconds((await moment.textContent())!) - seconds(at)))
    .toBeLessThanOrEqual(1);
  await expect(page.getByRole('button', { name: /^▸ Follow$/ }), 'it stands still there').toBeVisible();
  await expect(page.locator('[data-metric]').first()).toBeFocused();
  await page.keyboard.press('4');
  await expect(row.filter({ hasText: 'w1 on' })).toHaveAttribute('aria-selected', 'true');
});

test('panels are moved by keyboard and by hand, and stay so; all of the catalogue can be had', async ({
  page,
  serve,
}) => {
  const { url } = await serve({ connect: true });
  await page.goto(url);
  await expectLines(page, 8);
  const usual = await panels(page);
  expect(usual).toHaveLength(7);
  await page.locator('[data-metric=running]').focus();
  await page.keyboard.press('Alt+ArrowDown');
  const [first, second, ...rest] = usual;
  expect(await panels(page)).toEqual([second, first, ...rest]);
  await expect(page.locator('[data-metric=running]')).toBeFocused();

  await page.keyboard.press('p');
  const menu = page.getByRole('dialog', { name: 'Panels' });
  await expect(menu.getByRole('checkbox')).toHaveCount(21 + 1);
  await menu.getByLabel('Queue time').check();
  // dragged to the top
  const list = menu.getByRole('list', { name: 'Order' });
  const handle = (await list.getByRole('button', { name: /^Queue time/ }).boundingBox())!;
  const top = (await list.boundingBox())!;
  await page.mouse.move(handle.x + 8, handle.y + 8);
  await page.mouse.down();
  await page.mouse.move(top.x + 8, top.y + 60, { steps: 4 });
  await page.mouse.move(top.x + 8, top.y + 3, { steps: 4 });
  await page.mouse.up();
  const mine = ['queue_time', second, first, ...rest];
  expect(await panels(page)).toEqual(mine);
  await list.getByRole('button', { name: /^Queue time/ }).focus();
  await page.keyboard.press('Alt+ArrowDown');
  await expect(
    list.getByRole('button', { name: 'Queue time, 2 of 8. Alt and arrows move it' }),
  ).toBeFocused();
  await page.keyboard.press('Alt+ArrowUp');

  await page.goto('about:blank');
  await page.goto(url);
  await expect.poll(() => panels(page)).toEqual(mine);
  await page.keyboard.press('p');
  await menu.getByRole('button', { name: 'Reset to default' }).click();
  expect(await panels(page)).toEqual(usual);
});

test('statistics take at most a tenth of the time, and nothing while nobody looks', async ({
  page,
  serve,
}) => {
  // timed in the page itself: what Playwright hears of frames comes late on a busy machine
  await page.addInitScript(() => {
    const asks: Ask[] = [];
    window.__asks = asks;
    const open = new Map<number, Ask>();
    const own = window.WebSocket;
    window.WebSocket = class extends own {
      constructor(url: string | URL, protocols?: string | string[]) {
        super(url, protocols);
        this.addEventListener('message', ({ data }) => {
          const id = typeof data === 'string' ? (JSON.parse(data) as { id?: number }).id : undefined;
          const ask = open.get(id ?? -1);
          if (ask) ask.answered = performance.now();
        });
      }
      override send(data: string) {
        const frame = JSON.parse(data) as { id: number; call: string; args: unknown[] };
        if (frame.call === 'statistics') {
          const { metrics, coarse } = frame.args[0] as { metrics: string[]; coarse: boolean };
          const ask = { strip: metrics.length === 3, coarse, sent: performance.now(), answered: Infinity };
          asks.push(ask);
          open.set(frame.id, ask);
        }
        super.send(data);
      }
    };
  });
  const asksNow = () => page.evaluate(() => window.__asks!);
  await page.goto((await serve({ connect: true })).url);
  await expectLines(page, 8);
  await expect(vital(page, 'Generation')).toContainText('tok/s');
  // the first data and the first window are asked for at once, one after the other
  await page.waitForTimeout(3000);
  const begun = (await asksNow()).length;
  await page.waitForTimeout(8000);
  const asks = await asksNow();
  expect(asks.every((a) => a.coarse)).toBe(true);
  for (const strip of [true, false]) {
    const of = asks.slice(begun).filter((a) => a.strip === strip);
    expect(of.length).toBeGreaterThanOrEqual(2);
    for (const [i, ask] of of.slice(1).entries()) {
      const { sent, answered } = of[i]!;
      expect(ask.sent - answered).toBeGreaterThan(9.5 * (answered - sent));
    }
  }

  await page.evaluate(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await page.waitForTimeout(1500);
  const hidden = (await asksNow()).length;
  await page.waitForTimeout(4000);
  expect(await asksNow()).toHaveLength(hidden);
});
