/** How the upload looks: no rule of axe is broken, and nothing is out of reach in a small window or with larger text. */
import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import { button, dialog, signIn, stage, test } from './upload-page.ts';

/** Of windows, and of text in percent of the usual one. */
const sizes = [
  { width: 1440, height: 900, text: 100 },
  { width: 1100, height: 700, text: 100 },
  { width: 1100, height: 700, text: 130 },
];

/** In both themes and all sizes; a picture of each is kept. */
async function look(page: Page, name: string) {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(200); // colours fade over 90 ms
    const { violations } = await new AxeBuilder({ page }).include('dialog').analyze();
    const found = violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`);
    expect.soft(found, `${name}, ${colorScheme}`).toEqual([]);
    for (const { width, height, text } of sizes) {
      await page.setViewportSize({ width, height });
      await page.evaluate((percent) => (document.documentElement.style.fontSize = `${percent}%`), text);
      const { top, bottom, right } = await dialog(page).evaluate((d) => d.getBoundingClientRect());
      expect
        .soft([top >= 0, bottom <= height, right <= width], `${name}: inside`)
        .toEqual([true, true, true]);
      // its buttons are never scrolled away
      await expect.soft(dialog(page).locator('footer .primary')).toBeInViewport({ ratio: 1 });
      const picture = `${name}-${colorScheme}-${width}-${text}.png`;
      await page.screenshot({ path: test.info().outputPath(picture) });
    }
  }
  await page.evaluate(() => (document.documentElement.style.fontSize = ''));
}

test('every step of it can be read, light and dark, in a small window and with larger text', async ({
  page,
  open,
  wandb,
}) => {
  test.setTimeout(180_000);
  const fake = await wandb();
  await open(fake);
  await page.keyboard.press('u');
  await dialog(page).getByLabel('API key').fill('b'.repeat(40));
  await button(page, 'Check').click();
  await expect(dialog(page).getByRole('alert').filter({ hasText: 'Check the API key' })).toBeVisible();
  await look(page, '1-wrong-key');
  await page.keyboard.press('Escape');
  await signIn(page);
  await button(page, 'Back').click();
  await look(page, '2-where');
  await button(page, /^Next/).click();
  await expect(button(page, 'Upload 7 rows')).toBeVisible();
  await look(page, '3-what');
  await button(page, /8 of \d+/).click();
  await dialog(page).getByRole('checkbox', { name: 'per step, as Plotly' }).check();
  await expect(dialog(page)).toContainText(/\d+ files, /);
  await look(page, '4-what-all');
  fake.inject('file_stream', { status: 429, body: { error: 'slow down' }, headers: { 'Retry-After': '60' } });
  await button(page, 'Upload 7 rows').click();
  await expect(dialog(page)).toContainText('Goes on by itself at');
  await look(page, '5-sending');
  await button(page, 'Cancel').click();
  await expect(stage(page)).toHaveText('2 What goes');
  fake.inject('UpsertBucket', { status: 403, body: { error: 'permission denied' } });
  await button(page, /^Upload 7/).click();
  await expect(dialog(page).getByRole('alert')).toContainText('“permission denied”');
  await look(page, '6-failed');
  await button(page, 'Try again').click();
  await expect(dialog(page)).toContainText('7 of 7 rows acknowledged', { timeout: 30_000 });
  await look(page, '7-done');
});
