// The page as a target: whatever an attacker gets into it, the policy that it is served with lets nothing run, load or
// leave; and text from servers stays text in every view. In the window it is the same page: shell-security.spec.ts.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from '@playwright/test';
import type { Page } from '@playwright/test';
import { connected, openEdit, openEndpoints } from './clusters.ts';
import { startFakeCluster } from './fake-vllm.ts';
import { test as base } from './served.ts';

/** A server of somebody else's: what it is asked for. */
const test = base.extend<{ elsewhere: { url: string; asked: string[] } }>({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  elsewhere: async ({}, use) => {
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url ?? '');
      response.writeHead(200, { 'access-control-allow-origin': '*' }).end('void 0');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    await use({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked });
    server.closeAllConnections();
    server.close();
  },
});

interface Violations {
  violated?: string[];
}

test('the policy of the page lets nothing of others run, load or leave, and the page needs nothing it denies', async ({
  page,
  serve,
  cluster,
  elsewhere,
}) => {
  await page.addInitScript(() => {
    const seen = window as unknown as Violations;
    seen.violated = [];
    document.addEventListener('securitypolicyviolation', (event) =>
      seen.violated?.push(event.effectiveDirective),
    );
  });
  const violated = () => page.evaluate(() => (window as unknown as Violations).violated ?? []);
  await connected(page, (await serve()).url, [`127.0.0.1:${cluster.endpoints[0]!.port}`], 'lab');
  for (const key of ['2', '3', '4', '1']) await page.keyboard.press(key);
  await expect(page.locator('[data-metric]').first()).toBeVisible();
  expect(await violated()).toEqual([]);

  const home = page.url();
  await page.evaluate(async (url) => {
    const add = (name: string, attributes: Record<string, string>, text = '') => {
      const element = document.createElement(name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      document.body.append(element);
      return element;
    };
    const tried = (act: () => unknown) => {
      try {
        return act();
      } catch {
        return null; // refused at once
      }
    };
    add('script', {}, 'window.ran = 1');
    add('script', { src: `${url}/script` });
    add('script', { src: 'data:text/javascript,window.ran=1' });
    add('button', { onclick: 'window.ran = 1' }).click();
    add('a', { href: 'javascript:window.ran=1' }).click();
    // as eval() would; that one is let through where a debugger calls it
    (setTimeout as (code: string) => void)('window.ran = 1');
    tried(() => new Worker(URL.createObjectURL(new Blob(['1']))));
    add('link', { rel: 'stylesheet', href: `${url}/style` });
    add('img', { src: `${url}/image` });
    add('video', { src: `${url}/video` });
    add('iframe', { src: `${url}/frame` });
    add('object', { data: `${url}/object` });
    add('base', { href: `${url}/` });
    const form = add('form', { action: `${url}/form`, method: 'post' }) as HTMLFormElement;
    form.submit();
    await Promise.resolve(tried(() => fetch(`${url}/fetch`))).catch(() => null);
    tried(() => new WebSocket(url.replace('http', 'ws')));
    tried(() => navigator.sendBeacon(`${url}/beacon`));
    const font = new FontFace('odd', `url(${url}/font)`);
    document.fonts.add(font);
    await font.load().catch(() => null);
  }, elsewhere.url);
  await expect
    .poll(async () => [...new Set(await violated())].sort())
    .toEqual([
      'base-uri',
      'connect-src',
      'font-src',
      'form-action',
      'frame-src',
      'img-src',
      'media-src',
      'object-src',
      'script-src',
      'script-src-attr',
      'script-src-elem',
      'style-src-elem',
      'worker-src',
    ]);
  // time enough for what was let through
  await page.waitForTimeout(500);
  expect(elsewhere.asked).toEqual([]);
  expect(page.url()).toBe(home);
  expect(await page.evaluate(() => 'ran' in window)).toBe(false);
});

/** What would be an element, and what would turn the text around it. */
const planted = '<b data-planted>bold</b>\u202Egpj.exe';

const asHtml = (page: Page) =>
  page.evaluate(() => ({
    elements: document.querySelectorAll('[data-planted]').length,
    turned: (document.body.textContent ?? '').includes('\u202E'),
  }));

test('names and answers of servers are text in every view, never HTML', async ({ page, serve }) => {
  const odd = await startFakeCluster({ workers: 2, model: planted });
  const faulty = createServer((_request, response) =>
    response.writeHead(500, { 'content-type': 'text/html' }).end(`no ${planted}`),
  );
  await once(faulty.listen(0, '127.0.0.1'), 'listening');
  try {
    const addresses = odd.endpoints.map(({ port }) => `127.0.0.1:${port}`);
    addresses.push(`127.0.0.1:${(faulty.address() as AddressInfo).port}`);
    await page.goto((await serve()).url);
    await page.getByLabel(/addresses/i).fill(addresses.join('\n'));
    // the test of the addresses says each server's model, or what it answered
    await page.keyboard.press('Control+Enter');
    await expect(page.getByRole('status').filter({ hasText: 'Done in' })).toContainText('2 of 3 answer');
    await expect(page.getByText('<b data-planted>').first()).toBeVisible();
    expect(await asHtml(page)).toEqual({ elements: 0, turned: false });

    await connected(page, page.url(), addresses, `${planted} lab`);
    await expect(page.locator('[data-metric]').first()).toBeVisible();
    // Timelines, Scalars, Workers, Events
    for (const key of ['1', '2', '3', '4']) {
      await page.keyboard.press(key);
      await page.waitForTimeout(300);
      expect([key, await asHtml(page)]).toEqual([key, { elements: 0, turned: false }]);
    }
    await page.keyboard.press('u');
    await expect(page.getByRole('dialog')).toBeVisible();
    expect(await asHtml(page)).toEqual({ elements: 0, turned: false });
    await page.keyboard.press('Escape');
    const shown = '<b data-planted>bold</b>\\u202egpj.exe lab';
    await openEdit(page, shown);
    expect(await asHtml(page)).toEqual({ elements: 0, turned: false });
    await page.keyboard.press('Escape');
    await openEndpoints(page, shown);
    await expect(page.getByRole('row').filter({ hasText: '500' })).toBeVisible();
    expect(await asHtml(page)).toEqual({ elements: 0, turned: false });
  } finally {
    await odd.close();
    faulty.close();
  }
});
