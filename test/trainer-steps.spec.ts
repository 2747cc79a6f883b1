/** Steps out of the trainer's run on W&B, chosen in the page with a real browser; the server is the strict stand-in. */
import { expect } from '@playwright/test';
import { fakeKey, startFakeWandb } from './fake-wandb.ts';
import { expectLines } from './person.ts';
import { test } from './served.ts';

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
    await expect(page.getByText('none of them in this recording. Do the clocks agree?')).toBeVisible();
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
