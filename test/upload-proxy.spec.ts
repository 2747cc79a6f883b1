/** A proxy on the way to W&B that hinders the upload: the dialog shows what it said and what to do, and goes on after it. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from '@playwright/test';
import { button, dialog, key, test } from './upload-page.ts';

/** An address where nothing listens any more, or where every request is answered with 407. */
async function proxy(denies: boolean) {
  const server = http.createServer((_request, response) =>
    response.writeHead(407, { 'proxy-authenticate': 'Basic' }).end('<title>Cache access denied</title>'),
  );
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const stop = () => new Promise((done) => server.close(done));
  if (!denies) await stop();
  return { host: `127.0.0.1:${port}`, stop };
}
const env = (host: string) => ({
  ...{ HTTP_PROXY: `http://${host}`, http_proxy: '', NO_PROXY: '', no_proxy: '' },
  ...{ WANDB_API_KEY: key, WANDB_PROJECT: 'grpo' },
});

test('one that is down', async ({ page, open, wandb }) => {
  const fake = await wandb();
  const { host } = await proxy(false);
  await open(fake, env(host));
  await page.keyboard.press('u');
  await expect(dialog(page).getByRole('alert').filter({ hasText: 'The proxy' })).toHaveText(
    `✕ The proxy ${host} refused the connection. Is the server up? Check the proxy in the settings of the system or in HTTPS_PROXY.`,
  );
  await page.screenshot({ path: test.info().outputPath('proxy-down.png') });
  expect(fake.requests()).toEqual([]);
});

test('one that wants a password, when the account is asked for and when rows are sent', async ({
  page,
  open,
  wandb,
}) => {
  const fake = await wandb();
  const { host, stop } = await proxy(true);
  await open(fake, env(host));
  const said =
    'The proxy answered 407: “Cache access denied”. Write user and password into the address of the proxy: http://user:password@host:port.';
  await page.keyboard.press('u');
  await expect(dialog(page).getByRole('alert').filter({ hasText: 'The proxy' })).toHaveText(`✕ ${said}`);
  await button(page, /^Next/).click();
  await button(page, 'Upload 7 rows').click();
  await expect(dialog(page)).toContainText('The proxy answered 407: “Cache access denied”.');
  await expect(dialog(page)).toContainText('Write user and password into the address of the proxy');
  await page.screenshot({ path: test.info().outputPath('proxy-password.png') });
  expect(fake.requests()).toEqual([]);
  await stop();
});
