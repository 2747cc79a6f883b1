/** Steps out of the trainer's run on W&B, chosen in the page with a real browser; the server is the strict stand-in. */
import { expect, type Locator } from '@playwright/test';
import { fakeKey, startFakeWandb } from './fake-wandb.ts';
import { expectLines } from './person.ts';
import { START } from './run-files.ts';
import { key, test } from './upload-page.ts';

test('the trainer’s run on W&B gives the steps', async ({ page, serve }) => {
  const wandb = await startFakeWandb({ projects: ['ent/rl'] });
  try {
    const { url } = await serve({
      connect: true,
      env: { WANDB_API_KEY: fakeKey, WANDB_BASE_URL: wandb.url, WANDB_PROJECT: 'rl' },
    });
    await page.goto(url);
    await expectLines(page, 8);
    await page.waitForTimeout(8000);
    // a step every 2 s, ended by a clock that is 100 s behind
    const now = Date.now() / 1000;
    wandb.leave('ent', 'rl', 'train01', {
      displayName: 'grpo seed 3',
      history: [-6, -4, -2, 0].map((at, i) => ({
        ...{
          _step: i,
          _runtime: i,
          _timestamp: now + at - 101,
          'train/global_step': 40 + i,
          'train/loss': 1,
        },
      })),
    });
    await page.getByRole('button', { name: /^Steps / }).click();
    await page.getByRole('button', { name: 'Choose a run…' }).click();
    await expect(page.getByLabel('Project')).toHaveValue('rl');
    const list = page.getByLabel('Run', { exact: true });
    await expect(list).toContainText('grpo seed 3 (finished, 4 rows)');
    await list.selectOption('train01');
    await expect(page.getByLabel('Step is')).toHaveValue('train/global_step');
    const preview = page.getByRole('button', { name: 'Preview' }).last();
    await preview.click();
    await expect(
      page.getByText('before the beginning of this recording. Do the clocks agree?'),
    ).toBeVisible();
    await page.getByLabel('Add to its times').fill('100');
    await preview.click();
    await expect(page.getByText('3 steps in this recording, of 4.')).toBeVisible();
    await page.screenshot({ path: test.info().outputPath('trainer.png') });
    await page.getByRole('button', { name: 'Use these' }).click();
    await expect(page.getByRole('button', { name: /^Steps / })).toHaveText(/w&b/i);
    await expect(page.getByRole('slider', { name: 'Steps' })).toHaveAttribute('aria-valuemax', '2');
  } finally {
    await wandb.stop();
  }
});

test('the place is chosen anew without mixing, a long run is read with its progress, names are shown as they are', async ({
  page,
  wandb,
  open,
}) => {
  test.setTimeout(120_000);
  const fake = await wandb();
  const rows = (n: number) =>
    Array.from({ length: n }, (_, i) => ({
      ...{ _step: i, _timestamp: START / 1000 + 20 + i * 0.03, 'train/global_step': i >> 8 },
    }));
  fake.leave('rl-lab', 'grpo', 'long', { displayName: 'seed 3', history: rows(9000) });
  const odd = `<img src=x>\u202Eevil ${'long'.repeat(100)}`;
  fake.leave('rl-lab', 'grpo', 'odd', { displayName: odd, history: [{ _step: 0, [odd]: 1, _timestamp: 1 }] });
  for (let i = 0; i < 60; i++) fake.leave('ada', 'many', `run${i}`, { history: rows(1) });
  await open(fake, { WANDB_API_KEY: key, WANDB_PROJECT: 'grpo' });
  await page.getByRole('button', { name: /^Steps / }).click();
  await page.getByRole('button', { name: 'Choose a run…' }).click();
  const menu = page.getByRole('dialog', { name: 'Steps' });
  // the user's own place has no such project
  await expect(menu.getByRole('alert')).toHaveText(/There is no project ada\/grpo that this API key may see/);
  await menu.getByLabel('Entity').selectOption('rl-lab');
  await expect(page.getByRole('alert').filter({ hasText: 'ada/grpo' })).toHaveCount(0);
  await menu.getByLabel('Project').press('Enter');
  const list = menu.getByLabel('Run', { exact: true });
  await expect(list.getByRole('option', { name: /^<img src=x>\\u202eevil long.{140,}…/ })).toBeAttached();
  expect((await list.textContent())!.includes('\u202E')).toBe(false);
  // a long name makes nothing wider
  const right = (of: Locator) => of.evaluate((e) => e.getBoundingClientRect().right);
  expect(await right(list)).toBeLessThan(await right(menu));
  await list.selectOption('odd');
  await expect(menu.getByLabel('Step is').getByRole('option', { name: /\\u202eevil/ })).toBeAttached();

  await list.selectOption('long');
  const preview = menu.getByRole('button', { name: 'Preview' }).last();
  await preview.click();
  await expect(menu.getByRole('progressbar', { name: 'Reading its rows' })).toHaveAttribute('max', '9000');
  await expect(menu.getByRole('progressbar')).not.toHaveAttribute('value', '0');
  await menu.getByRole('button', { name: 'Cancel' }).click();
  await expect(menu.getByRole('progressbar')).toHaveCount(0);
  const read = () => fake.requests().filter(({ operation }) => operation === 'SampledHistoryPage').length;
  await page.waitForTimeout(1500);
  const cancelled = read();
  expect(cancelled).toBeLessThan(9);
  await preview.click();
  await expect(menu.getByText('35 steps in this recording, of 36.')).toBeVisible({ timeout: 40_000 });
  await page.screenshot({ path: test.info().outputPath('trainer-long.png') });
  expect(read()).toBe(cancelled + 9);
  await menu.getByRole('button', { name: 'Use these' }).click();
  await expect(page.getByRole('button', { name: /^Steps / })).toHaveText(/w&b/i);
  expect(read()).toBe(cancelled + 9);

  // another project: what was chosen of the one before is gone
  await menu.getByLabel('Project').fill('none');
  await expect(list).toHaveCount(0);
  await expect(preview).toHaveCount(1);
  await menu.getByRole('button', { name: 'List runs' }).click();
  await expect(page.getByRole('alert').filter({ hasText: 'rl-lab/none' })).toHaveCount(1);
  await menu.getByLabel('Entity').selectOption('ada');
  await menu.getByLabel('Project').fill('many');
  await menu.getByRole('button', { name: 'List runs' }).click();
  await menu.getByRole('button', { name: 'More than 50' }).click();
  await expect(list.getByRole('option')).toHaveCount(61);
  await expect(menu.getByRole('button', { name: /^More than/ })).toHaveCount(0);
});
