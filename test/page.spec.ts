/** The page in Chromium, as `vllm-scope serve` serves it: a person's path, the demo's promise, gaps and a lost engine. */
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { expect } from '@playwright/test';
import { expectLines, walk } from './person.ts';
import { root, test } from './served.ts';

test('somebody new connects, watches, stops and opens the past run', async ({ page, serve, cluster }) => {
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text());
  });
  await page.goto((await serve()).url);
  await expect(page, 'the token leaves the address at once').toHaveURL(/\/$/);
  await walk(page, cluster);
  await page.screenshot({ path: test.info().outputPath('past-run.png') });
  expect(faults).toEqual([]);
});

test('connected from the command line it shows lines within 20 s, light and dark', async ({
  page,
  serve,
}) => {
  await page.goto((await serve({ connect: true })).url);
  await expectLines(page, 8);
  await page.waitForTimeout(30_000); // a rollout to look at
  await page.getByText('Generation', { exact: true }).first().click();
  await page.mouse.move(700, 480);
  for (const [scheme, width, height] of [
    ['light', 1440, 900],
    ['dark', 1440, 900],
    ['light', 1100, 700],
    ['dark', 1100, 700],
  ] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.setViewportSize({ width, height });
    await page.waitForTimeout(700);
    const shot = test.info().outputPath(`timelines-${scheme}-${width}.png`);
    await page.screenshot({ path: shot });
    // the README's picture, made anew where somebody asks for it
    if (process.env.VLLM_SCOPE_SCREENSHOT && scheme === 'light' && width === 1440)
      fs.copyFileSync(shot, path.join(root, 'docs/screenshot.png'));
  }
});

test('an endpoint that goes silent leaves a gap, and the others go on', async ({ page, serve, cluster }) => {
  await page.goto((await serve({ connect: true })).url);
  await expectLines(page, 8);
  cluster.endpoints[2]!.faults = { hang: true };
  await expect(page.getByRole('button', { name: /Recording .* 7 of 8 answer/ })).toBeVisible({
    timeout: 15_000,
  });
  await expect
    .poll(
      async () =>
        page.evaluate(() => {
          const running = window.__charts?.().find((c) => c.metric === 'running');
          const last = (name: string) =>
            running?.series.find((s) => s.name === name)?.points.at(-1)?.[0] ?? 0;
          const there = (name: string) =>
            running?.series
              .find((s) => s.name === name)
              ?.points.filter(([, v]) => v !== null)
              .at(-1)?.[0] ?? 0;
          return last('w0') > 0 && there('w0') - there('w2') > 3000;
        }),
      { timeout: 20_000 },
    )
    .toBe(true);
});

test('the engine dies: the page says so, and is whole again when it is back', async ({ page, serve }) => {
  const first = await serve({ connect: true });
  await page.goto(first.url);
  await expectLines(page, 8);
  first.child.kill('SIGKILL');
  await once(first.child, 'exit');
  await expect(page.getByText(/engine does not answer/i)).toBeVisible();
  const port = Number(new URL(first.url).port);
  await serve({ port, resume: true });
  await expect(page.getByText(/engine does not answer/i)).toBeHidden({ timeout: 20_000 });
  await expectLines(page, 8);
  await expect(page.getByRole('button', { name: /^Recording/ })).toBeVisible();
});
