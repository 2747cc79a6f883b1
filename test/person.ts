/**
 * The path of somebody who opens the app for the first time, in whatever shows the page: connect by pasting, see a line
 * a worker, read values, stop, open the past run. Walked in Chromium (page.spec.ts) and in the window (shell.spec.ts).
 */
import { expect, type Page } from '@playwright/test';
import type { FakeCluster } from './fake-vllm.ts';

/** What ECharts was given for one panel: per worker the values that are there. */
async function linesOf(page: Page, metric: string): Promise<Map<string, number[]>> {
  const charts = await page.evaluate(() => window.__charts?.() ?? []);
  const series = charts.find((chart) => chart.metric === metric)?.series ?? [];
  return new Map(
    series
      .filter(({ name }) => /^w\d+$/.test(name))
      .map(({ name, points }) => [name, points.flatMap(([, value]) => (value === null ? [] : [value]))]),
  );
}

/**
 * Each of these panels shows `workers` lines that change and are not all the same. A full batch may keep one worker's
 * running requests level for a while.
 */
export async function expectLines(page: Page, workers: number, within = 20_000): Promise<void> {
  for (const metric of ['running', 'kv_cache_usage', 'generation_tokens']) {
    await expect
      .poll(
        async () => {
          const lines = [...(await linesOf(page, metric)).values()];
          return {
            lines: lines.length,
            changing:
              lines.filter((values) => new Set(values).size > 1).length >=
              workers * (metric === 'running' ? 0.5 : 1),
            differ: new Set(lines.map((values) => values.join())).size > 1,
          };
        },
        { message: `${metric}: a line a worker, changing and different`, timeout: within },
      )
      .toEqual({ lines: workers, changing: true, differ: true });
  }
}

/** From the empty page to a past run. Leaves the page on the past run. */
export async function walk(page: Page, cluster: FakeCluster): Promise<void> {
  const addresses = page.getByLabel(/addresses/i).first();
  await expect(addresses).toBeFocused();

  // what is no address is refused with a sentence, and nothing typed is lost
  await addresses.fill('gpu-01:99999');
  await addresses.press('Control+Enter');
  await expect(page.getByRole('alert').filter({ hasText: '"gpu-01:99999" is no address' })).toBeVisible();
  await expect(addresses).toHaveValue('gpu-01:99999');

  // a user and password are secrets: they leave the field as soon as they are sent
  await addresses.fill('http://ada:secret@127.0.0.1:1');
  await addresses.press('Control+Enter');
  await expect(page.getByRole('row', { name: /127\.0\.0\.1:1 refused/ })).toBeVisible();
  await expect(addresses).toHaveValue('http://127.0.0.1:1');
  await expect(page.getByText('were taken out of the field')).toBeVisible();

  // any form of address, doubles merged
  const ports = cluster.endpoints.map(({ port }) => port);
  const forms = ports.map((port, i) =>
    i % 3 === 0
      ? `127.0.0.1:${port}`
      : i % 3 === 1
        ? `http://127.0.0.1:${port}/v1/`
        : `http://127.0.0.1:${port}/metrics`,
  );
  await addresses.fill([...forms, `http://127.0.0.1:${ports[0]}`].join(',\n'));
  // Ctrl Enter tests; then it connects
  await addresses.press('Control+Enter');
  await expect(page.getByRole('status').filter({ hasText: 'Done in' })).toContainText(
    `${ports.length} of ${ports.length} answer, ${ports.length} workers`,
  );
  await addresses.press('Control+Enter');
  await expectLines(page, ports.length);
  await expect(page.getByRole('button', { name: /^Recording .* Stop recording$/ })).toBeVisible();
  const rows = page.getByRole('complementary', { name: 'Values' }).getByRole('button', { name: /^w\d/ });
  await expect(rows).toHaveCount(ports.length);

  // an engine restarts: its line goes on
  const before = (await linesOf(page, 'generation_tokens')).get('w1')!.length;
  await cluster.endpoints[1]!.restart();
  await expect
    .poll(async () => (await linesOf(page, 'generation_tokens')).get('w1')!.length, { timeout: 15_000 })
    .toBeGreaterThan(before + 3);

  // stopping leaves a past run that opens from the list
  await page.getByRole('button', { name: /Stop recording$/ }).click();
  const confirm = page.getByRole('dialog').getByRole('button', { name: /^Stop/ });
  if (await confirm.isVisible()) await confirm.click();
  await expect(page.getByRole('button', { name: 'Record', exact: true })).toBeVisible();
  await page.getByRole('button', { name: 'All runs' }).first().click();
  await page.getByRole('table').getByRole('button').first().click();
  await expectLines(page, ports.length);
}
