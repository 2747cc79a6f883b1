// The upload to W&B in the app's own window, from the menu to the link, with a real engine under it; the server is the
// strict stand-in. What each state looks like and says is tested in Chromium, where it is the same page.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { expect } from '@playwright/test';
import { fakeKey, startFakeWandb } from './fake-wandb.ts';
import { ownPage, test } from './shells.ts';
import { putRun } from './upload-page.ts';
import { differencesOf, rowsByPython } from './wandb-rows/by-python.ts';
import { makeRun } from './wandb-rows/made-run.ts';

test('a run goes to W&B from the menu; the second time it is up to date', async ({ launch, folder }) => {
  const wandb = await startFakeWandb();
  try {
    const home = path.join(folder, 'home');
    await mkdir(home);
    let file = '';
    putRun(folder, 8, (into) => makeRun((file = into), { seed: 12, steps: 240 }));
    const { app, page } = await launch({
      env: {
        WANDB_API_KEY: fakeKey,
        WANDB_BASE_URL: wandb.url,
        WANDB_PROJECT: 'rl',
        NETRC: path.join(home, 'none'),
      },
    });
    await page.waitForURL(ownPage);
    await page.getByText('rollouts').first().click();
    await expect(page.getByRole('heading', { name: 'rollouts' })).toBeVisible();
    const upload = () =>
      app.evaluate(({ Menu }) => {
        const file = Menu.getApplicationMenu()?.items.find((item) => item.label === 'File');
        const item = file?.submenu?.items.find(({ label }) => label === 'Upload to W&&B');
        (item?.click as (() => void) | undefined)?.();
      });
    await upload();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: /^Upload 2\d\d rows$/ }).click();
    await expect(dialog).toContainText('Up to date', { timeout: 30_000 });
    const [request] = wandb.requests().filter((r) => r.kind === 'file_stream');
    const runId = request!.path.split('/').at(-2)!;
    const stored = wandb.stored('ent', 'rl', runId)!;
    expect(stored).toMatchObject({ complete: true, exitcode: 0 });
    expect(differencesOf(stored, await rowsByPython(file, '--source', 'mark'))).toEqual([]);
    await page.screenshot({ path: 'test-results/window-uploaded.png' });
    await dialog.getByRole('button', { name: 'Close' }).first().click();
    await expect(dialog).toHaveCount(0);
    const sent = wandb.requests().filter((r) => r.kind === 'file_stream').length;
    await upload();
    await expect(dialog).toContainText('Up to date');
    expect(wandb.requests().filter((r) => r.kind === 'file_stream')).toHaveLength(sent);
  } finally {
    await wandb.stop();
  }
});
