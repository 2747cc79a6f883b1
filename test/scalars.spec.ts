/** Scalars in Chromium: a point a step with the numbers that the stand-in knows, switches, populations, panels, keys. */
import { expect, type Page } from '@playwright/test';
import { looker } from './by-keyboard.ts';
import { startFakeCluster, type FakeCluster } from './fake-vllm.ts';
import { expectLines } from './person.ts';
import { test as served } from './served.ts';

/** Short rollouts with breaks that can be told, and every request kept. */
const test = served.extend<{ cluster: FakeCluster }>({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  cluster: async ({}, use) => {
    const cluster = await startFakeCluster({
      workers: 2,
      seed: 3,
      stepSeconds: [4, 6],
      pauseSeconds: [3.5, 4],
      keepRequests: true,
    });
    await use(cluster);
    await cluster.close();
  },
});

const cell = (page: Page, id: string) => page.locator(`[data-scalar="${id}"]`);
/** What a chart says of itself: every statistic that is on, in the selected step. */
const said = (page: Page, id: string) => cell(page, id).getByRole('img').getAttribute('aria-label');
const table = (page: Page) => page.getByRole('complementary', { name: 'One step against the one before' });
const toggle = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

/** Waits for so many points that are numbers of steps found by themselves. */
async function steps(page: Page, count: number) {
  await expect(page.getByText(/Steps: idle/)).toBeVisible({ timeout: 60_000 });
  await expect
    .poll(async () => Number(/(\d+) steps?\.$/.exec((await said(page, 'duration')) ?? '')?.[1] ?? 0), {
      timeout: 60_000,
    })
    .toBeGreaterThanOrEqual(count);
}

async function openScalars(page: Page, url: string) {
  await page.goto(url);
  await expectLines(page, 2);
  await page.keyboard.press('2');
}

/** What a cell of the table says: `16.3 k` is good to three digits, `9,252` exact. */
function isShownAs(text: string, truth: number): boolean {
  const rounded = text.includes('k');
  const shown = Number(text.replace(/[^\d.]/g, '')) * (rounded ? 1000 : 1);
  return Math.abs(shown - truth) <= (rounded ? truth * 0.005 : 0);
}

test('the numbers of steps are those of their requests; steps are gone through by keys alone', async ({
  page,
  serve,
  cluster,
}) => {
  test.setTimeout(150_000);
  await openScalars(page, (await serve({ connect: true })).url);
  await steps(page, 5);
  const row = (title: string) => table(page).getByRole('row', { name: new RegExp(`^${title}`) });
  const tokens = row('Generation tokens').getByRole('button').first();
  const header = table(page).locator('header b');

  // the newest whole step is shown until one is chosen; from there two back: of the first the begin was missed
  await page.keyboard.press('j');
  await expect(cell(page, 'duration')).toBeFocused();
  const shown: string[] = [];
  for (let i = 0; i < 2; i++) {
    await page.keyboard.press(i % 2 === 0 ? 'ArrowLeft' : ',');
    await expect(tokens).not.toHaveText('–', { timeout: 30_000 });
    shown.unshift((await tokens.textContent()) ?? '');
    // the panel says the same of that step
    const sum = /sum ([^,.]+(?:[,.]\d+[^,.]*)*)\. /.exec(
      (await said(page, 'generation_tokens:sum')) ?? '',
    )?.[1];
    expect(sum).toBe(shown[0]);
  }
  const made = cluster.rollouts.steps.map(({ number }) =>
    [...cluster.rollouts.requests.values()]
      .flat()
      .filter((r) => r.step === number)
      .reduce((n, r) => n + r.generated, 0),
  );
  // the page numbers its steps by itself: two in a row of what was made
  const pairs = made.slice(0, -1).map((_, i) => made.slice(i, i + 2));
  const found = pairs.filter((pair) => pair.every((n, k) => isShownAs(shown[k]!, n)));
  expect(found, `${shown.join(' and ')} of ${made.join(', ')}`).toHaveLength(1);

  // a click on a point selects its step, tinted in every panel; the step before is the one it is measured against
  const chosen = Number(/\d+/.exec((await header.textContent()) ?? '')![0]);
  await page.keyboard.press('.');
  await expect(header).toHaveText(`Step ${chosen + 1}`);
  await expect(table(page)).toContainText(`against step ${chosen}, the one before`);
  const box = (await cell(page, 'waiting').boundingBox())!;
  await page.mouse.click(box.x + 59, box.y + box.height / 2);
  await expect(header).toHaveText('Step 0');
  await expect(table(page)).toContainText('the first of its kind');
  expect(await page.locator('.tint').count()).toBe(await page.locator('[data-scalar]').count());

  // who ended last has a name that isolates it everywhere
  await page.keyboard.press('.');
  const workers = table(page).getByRole('region', { name: 'Workers in step 1' });
  await expect(workers).toContainText(/w\d ended last/);
  await workers.getByRole('button').first().click();
  await expect(page.getByRole('button', { name: /w\d isolated: show all alike/ })).toBeVisible();
  await page.keyboard.press('Escape');

  // Enter: that step in Timelines; back by its key it is still selected
  await cell(page, 'running').focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('slider', { name: 'Steps' })).toHaveAttribute('aria-valuetext', /^Step 1, /);
  await expect(page.locator('[data-metric]').first()).toBeFocused();
  await page.keyboard.press('2');
  await expect(header).toHaveText('Step 1');
});

test('statistics, populations and the axis are chosen for all and for one, and stay so', async ({
  page,
  serve,
}) => {
  const { url } = await serve({ connect: true });
  await openScalars(page, url);
  await steps(page, 2);
  const look = looker(page, (name) => test.info().outputPath(`${name}.png`));
  await look('scalars');
  await expect
    .poll(() => said(page, 'running'))
    .toMatch(/over samples\. Step \d+: mean \S+, max \S+, p95 \S+\. /);

  await toggle(page, 'min').click();
  await toggle(page, 'max').click();
  await expect.poll(() => said(page, 'running')).toMatch(/: mean \S+, min \S+, p95 \S+\. /);
  // its own menu: by keys, and a number in it for each
  await cell(page, 'running').focus();
  await page.keyboard.press('Tab');
  await expect(page.getByRole('button', { name: 'Statistics of Running' })).toBeFocused();
  await page.keyboard.press('Enter');
  const menu = page.getByRole('dialog', { name: 'Statistics of Running' });
  await menu.getByRole('checkbox', { name: 'mean' }).uncheck();
  await menu.getByRole('checkbox', { name: 'p50' }).check();
  await look('scalar-menu');
  await page.keyboard.press('Escape');
  await expect(menu).toBeHidden();
  await expect.poll(() => said(page, 'running')).toMatch(/: min \S+, p50 \S+, p95 \S+\. /);
  await expect.poll(() => said(page, 'waiting')).toMatch(/: mean \S+, min \S+, p95 \S+\. /);

  // who has no such population says what it has instead
  await page.getByLabel('Population').selectOption('over workers');
  await expect(cell(page, 'running')).toContainText('over workers');
  await expect(cell(page, 'generation_tokens')).toContainText('tok/s a worker, over samples');
  await page.getByLabel('Population').selectOption('over time of w1');
  await expect(cell(page, 'ttft')).toContainText('s, over time of w1');

  await page.getByRole('button', { name: 'by time' }).click();
  await page.goto('about:blank');
  await openScalars(page, url);
  await steps(page, 2);
  await expect(page.getByRole('button', { name: 'by time' })).toHaveAttribute('aria-pressed', 'true');
  await expect(page.getByLabel('Population')).toHaveValue('time 1');
  await expect
    .poll(() => said(page, 'running'))
    .toMatch(/time of w1\. Step \d+: min \S+, p50 \S+, p95 \S+\. /);

  await page.getByRole('button', { name: 'As NeMo RL' }).click();
  await expect.poll(() => said(page, 'running')).toMatch(/: mean \S+, max \S+, p95 \S+\. /);
  for (const name of ['mean', 'max', 'p95'])
    await expect(toggle(page, name)).toHaveAttribute('aria-pressed', 'true');
  for (const name of ['min', 'p50'])
    await expect(toggle(page, name)).toHaveAttribute('aria-pressed', 'false');
});

test('panels are chosen for scalars alone; a whole view can be off, and says how it comes back', async ({
  page,
  serve,
}) => {
  const { url } = await serve({ connect: true });
  await openScalars(page, url);
  const panels = () =>
    page.locator('[data-scalar]').evaluateAll((list) => list.map((e) => e.getAttribute('data-scalar')));
  await expect.poll(async () => (await panels()).length).toBe(9);
  await page.keyboard.press('p');
  const menu = page.getByRole('dialog', { name: 'Panels' });
  await menu.getByLabel('Queue time').check();
  await menu.getByRole('group', { name: 'Sums' }).getByLabel('Preemptions').uncheck();
  const list = menu.getByRole('list', { name: 'Order' });
  await list.getByRole('button', { name: /^Queue time/ }).focus();
  await page.keyboard.press('Alt+ArrowUp');
  const mine = await panels();
  expect(mine.indexOf('queue_time')).toBe(7);
  expect(mine).not.toContain('preemptions:sum');

  await menu.getByRole('switch', { name: 'Scalars' }).uncheck();
  await page.keyboard.press('Escape');
  await expect(page.getByText('Scalars are off for this cluster.')).toBeVisible();
  await page.keyboard.press('1');
  // timelines have their own panels, and are on
  await expect(page.locator('[data-metric]')).toHaveCount(7);
  await page.goto('about:blank');
  await page.goto(url);
  await expectLines(page, 2);
  await page.keyboard.press('2');
  await page.getByRole('button', { name: 'Switch them on' }).click();
  await expect.poll(panels).toEqual(mine);
});
