/**
 * What the view of workers is for: somebody who knows nothing of a fleet finds its slow worker by clicks alone. Which one
 * is slow is drawn anew each time, and the stand-in tells it only after the test has named one.
 */
import { expect } from '@playwright/test';
import { test as base } from './served.ts';
import { startFakeCluster } from './fake-vllm.ts';

declare global {
  interface Window {
    /** Clicks so far. */
    __clicks?: number;
  }
}

const test = base.extend({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  cluster: async ({}, use, info) => {
    const plantSlow = Math.floor(Math.random() * 2 ** 31);
    info.annotations.push({ type: 'planted with seed', description: String(plantSlow) });
    const cluster = await startFakeCluster({
      workers: 8,
      seed: 3,
      plantSlow,
      stepSeconds: [5, 7],
      pauseSeconds: [2.6, 3.4],
    });
    await use(cluster);
    await cluster.close();
  },
});

test('a slow worker is found within six clicks', async ({ page, serve, cluster }) => {
  await page.addInitScript(() => {
    window.__clicks = 0;
    addEventListener('click', () => (window.__clicks = (window.__clicks ?? 0) + 1), true);
  });
  await page.goto((await serve({ connect: true })).url);
  const stepsOver = () => cluster.rollouts.steps.filter((step) => step.end !== null).length;
  const begun = stepsOver();
  await expect.poll(stepsOver, { timeout: 80_000 }).toBeGreaterThanOrEqual(begun + 3);

  await page.getByRole('button', { name: 'Workers', exact: true }).click();
  const reading = page.getByRole('group', { name: 'Reading' });
  await expect(reading).toContainText(/ended last in [23] of \d train steps/, { timeout: 30_000 });
  await page.getByRole('columnheader', { name: 'Ended last' }).getByRole('button').click();
  const first = page.getByRole('grid', { name: 'Workers' }).getByRole('row').nth(1);
  await expect(first.getByRole('gridcell').nth(2)).toHaveText(/^[23] of \d$/);
  await first.click();
  const chip = page.getByRole('button', { name: /isolated: show all alike$/ });
  const named = (await chip.textContent())!.replace(/\s*✕.*/s, '').trim();
  await expect(reading, 'the words say the same').toContainText(`${named} ended last`);
  // everywhere: in Timelines too
  await page.getByRole('button', { name: 'Timelines', exact: true }).click();
  await expect(page.locator(`[data-worker="${named.slice(1)}"]`)).toHaveAttribute('aria-pressed', 'true');
  expect(await page.evaluate(() => window.__clicks)).toBeLessThanOrEqual(6);
  await page.screenshot({ path: test.info().outputPath('found.png') });

  expect(cluster.tellPlanted(named)).toBe(named);
});
