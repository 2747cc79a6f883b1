/**
 * The first day with the app by keyboard alone: connect, watch, isolate, find a restart in Events, order panels, change
 * the cluster, stop, open the past run. Walked in Chromium (keyboard.spec.ts) and in the window (shell-keyboard.spec.ts);
 * `look` is called in every view, and looks at it light and dark.
 */
import AxeBuilder from '@axe-core/playwright';
import { expect, type Locator, type Page } from '@playwright/test';
import type { FakeCluster } from './fake-vllm.ts';
import { expectLines } from './person.ts';

/** Presses Tab until it has the focus: whoever cannot be reached so, or only on endless ways, is out of reach. */
async function tabTo(page: Page, wanted: Locator, most = 80): Promise<void> {
  const reached = () => wanted.evaluate((e) => e === document.activeElement);
  for (let i = 0; i < most && !(await reached()); i++) await page.keyboard.press('Tab');
  await expect(wanted).toBeFocused();
}

/** No rule of axe is broken, light and dark; a picture of each is kept. */
export const looker =
  (page: Page, picture: (name: string) => string) =>
  async (view: string): Promise<void> => {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(250); // colours fade over 90 ms, canvases are drawn anew
      // legacy: a window of Electron opens no further page for axe to collect its results in
      const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
      const found = violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`);
      expect.soft(found, `${view}, ${colorScheme}`).toEqual([]);
      await page.screenshot({ path: picture(`${view}-${colorScheme}`) });
    }
    await page.emulateMedia({ colorScheme: 'light' });
  };

export async function walkByKeyboard(
  page: Page,
  cluster: FakeCluster,
  look: (view: string) => Promise<void>,
): Promise<void> {
  const { keyboard } = page;
  const button = (name: string | RegExp) => page.getByRole('button', { name });
  const dialog = page.getByRole('dialog');

  // connect
  await expect(page.getByLabel(/addresses/i).first()).toBeFocused();
  await look('empty');
  await keyboard.insertText(cluster.endpoints.map(({ port }) => `127.0.0.1:${port}`).join('\n'));
  await keyboard.press('Control+Enter');
  await expect(page.getByRole('status').filter({ hasText: 'Done in' })).toContainText('8 of 8 answer');
  await look('tested');
  await keyboard.press('Control+Enter');
  await expectLines(page, 8);

  // watch: panels, the crosshair, a worker, zoom
  await look('timelines');
  await keyboard.press('j');
  const panel = page.locator('[data-metric]').nth(1);
  await expect(panel).toBeFocused();
  await keyboard.press('ArrowLeft');
  await expect(page.locator('.mark')).toBeVisible();
  await keyboard.press('Enter');
  await expect(page.locator('[data-metric]')).toHaveCount(1);
  await keyboard.press('Enter');
  await keyboard.press('Escape');
  await keyboard.press('i');
  await expect(button(/isolated: show all alike/)).toHaveCount(1);
  await look('isolated');
  await keyboard.press('Escape');
  await expect(button(/isolated: show all alike/)).toHaveCount(0);
  await keyboard.press('+');
  await expect(button('Whole run')).toHaveAttribute('aria-pressed', 'false');
  await keyboard.press('0');
  await expect(button('Whole run')).toHaveAttribute('aria-pressed', 'true');

  // numbers per step, why one of them is what it is, workers
  await keyboard.press('2');
  await expect(page.getByText(/^Step duration/)).toBeVisible();
  await expect(
    page
      .getByRole('complementary')
      .getByText(/^Step \d+/)
      .first(),
  ).toBeVisible({ timeout: 60_000 });
  await look('scalars');
  await keyboard.press('w');
  await expect(page.getByText('May I believe it?')).toBeVisible();
  await look('why');
  await keyboard.press('Escape');
  await expect(page.getByText('May I believe it?')).toBeHidden();
  await keyboard.press('3');
  await expect(page.getByRole('row', { name: /w7/ })).toBeVisible();
  await look('workers');
  await keyboard.press('1');

  // the list of panels
  await keyboard.press('p');
  const prompt = page.getByRole('checkbox', { name: /Prompt tokens/ });
  await tabTo(page, prompt);
  await keyboard.press('Space');
  await expect(page.locator('[data-metric=prompt_tokens]')).toBeAttached();
  await look('panels');
  await keyboard.press('Space');
  await expect(page.locator('[data-metric=prompt_tokens]')).not.toBeAttached();
  await keyboard.press('Escape');

  // a restart, found in Events and followed to its place in time
  await cluster.endpoints[1]!.restart();
  await keyboard.press('4');
  const grid = page.getByRole('grid', { name: /^Events/ });
  const row = grid.getByRole('row').filter({ hasText: /w1 on .* restarted/ });
  await expect(grid).toBeFocused();
  await expect(row).toBeVisible({ timeout: 30_000 });
  await look('events');
  await tabTo(page, button(/^Restarts/)); // a busy machine has many rows of late answers
  await keyboard.press('Enter');
  await tabTo(page, grid);
  await keyboard.press('Home');
  for (let i = 0; i < 40 && (await row.getAttribute('aria-selected')) !== 'true'; i++)
    await keyboard.press('ArrowDown');
  await expect(row).toHaveAttribute('aria-selected', 'true');
  await keyboard.press('Enter');
  await expect(page.locator('.mark')).toBeVisible();
  await look('found');
  await keyboard.press('f');

  // settings, keys
  await keyboard.press('g');
  await keyboard.press('s');
  await expect(dialog).toContainText('Theme');
  await look('settings');
  await keyboard.press('Escape');
  await keyboard.press('?');
  await expect(dialog).toContainText('isolate a worker');
  await keyboard.press('Escape');

  // the cluster: its endpoints, another name
  const actions = button(/^Actions of /);
  const line = page.locator('nav button', { hasText: '8 workers' });
  await tabTo(page, line);
  await keyboard.press('ArrowRight');
  await expect(actions).toBeFocused();
  await keyboard.press('Enter');
  await keyboard.press('Enter');
  await expect(page.getByRole('table')).toContainText(`127.0.0.1:${cluster.endpoints[0]!.port}`);
  await look('endpoints');
  await tabTo(page, line);
  await keyboard.press('ArrowRight');
  await keyboard.press('Enter');
  await keyboard.press('ArrowDown');
  await keyboard.press('Enter');
  await expect(dialog).toBeVisible();
  await look('edit');
  await tabTo(page, dialog.getByLabel('Name', { exact: true }));
  await keyboard.press('Control+a');
  await keyboard.insertText('grpo');
  await keyboard.press('Control+Enter');
  await expect(dialog).toBeHidden();
  await expect(button('Actions of grpo')).toBeVisible();

  // stop, and the past run from the list
  await keyboard.press('1');
  await tabTo(page, button(/Stop recording$/));
  await keyboard.press('Enter');
  await expect(button(/^Record$/)).toBeVisible();
  await look('stopped');
  await keyboard.press('g');
  await keyboard.press('r');
  const past = page.getByRole('table').getByRole('button').first();
  await expect(past).toBeVisible();
  await look('runs');
  await tabTo(page, past);
  await keyboard.press('Enter');
  await expectLines(page, 8);
}
