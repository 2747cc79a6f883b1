/**
 * Marks that come from elsewhere, by HTTP as a trainer sends them and from the command line: they stand on the ribbon
 * without anything being done in the page. That the page hears of them at once is in mark-http.test.ts; how many ticks
 * went by until they were drawn depends on the machine, so it is noted and nothing is made of it.
 */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, type Page } from '@playwright/test';
import { expectLines } from './person.ts';
import { root, test } from './served.ts';

/** Resolves once the ribbon says of a pixel near its end that it is of this step; looks at every frame. */
const stands = (page: Page, step: number) =>
  page.waitForFunction(
    (name) => {
      const ribbon = document.querySelector<HTMLElement>('[role=slider][aria-label=Steps]');
      if (!ribbon) return false;
      const { right, top } = ribbon.getBoundingClientRect();
      for (let x = 1; x < 300; x++) {
        ribbon.dispatchEvent(new PointerEvent('pointermove', { clientX: right - x, clientY: top + 9 }));
        if (ribbon.title.startsWith(name)) return true;
      }
      return false;
    },
    `Step ${step},`,
    { polling: 'raf' },
  );

test('marks by HTTP and from the command line stand on the ribbon', async ({ page, serve }, info) => {
  /** What the engine told, in its order. */
  const told: string[] = [];
  page.on('websocket', (socket) =>
    socket.on('framereceived', ({ payload }) => {
      const event = typeof payload === 'string' ? /^\{"event":"(\w+)"/.exec(payload)?.[1] : undefined;
      if (event) told.push(event);
    }),
  );
  const { url, folder } = await serve({ connect: true });
  await page.goto(url);
  await expectLines(page, 8);

  const appears = async (step: number, mark: () => Promise<unknown>) => {
    const before = told.length;
    await mark();
    await stands(page, step);
    const since = told.slice(before);
    expect(since).toContain('stepped');
    const ticks = since.slice(since.indexOf('stepped')).filter((event) => event === 'ticked').length;
    info.annotations.push({ type: `step ${step}`, description: `drawn after ${ticks} ticks` });
  };
  await appears(41, async () => {
    const reply = await fetch(new URL('/api/step', url), {
      method: 'POST',
      headers: { authorization: `Bearer ${fs.readFileSync(path.join(folder, 'mark-token'), 'utf8').trim()}` },
      body: '{"step": 41}',
    });
    expect(reply.status).toBe(200);
  });
  await expect(page.getByRole('button', { name: /^Steps / })).toHaveText(/marks/);

  const cli = [path.join(root, 'out/main/engine.js'), 'mark', '--step', '42', '--data', folder];
  await appears(42, () => promisify(execFile)(process.execPath, cli));
});

test('a mark by mistake is taken back', async ({ page, serve }) => {
  const { url } = await serve({ connect: true });
  await page.goto(url);
  await expectLines(page, 8);
  const source = page.getByRole('button', { name: /^Steps / });
  await expect(source).not.toHaveText(/marks/);
  const before = await source.textContent();
  await page.keyboard.press('m');
  await expect(source).toHaveText(/marks/);
  await page.getByRole('button', { name: 'Take back' }).click();
  await expect(source).toHaveText(before!);
  await expect(page.getByRole('button', { name: 'Take back' })).toBeHidden();
});
