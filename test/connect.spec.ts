/** The form of a new cluster: the test of its addresses, what is refused, secrets. */
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect } from '@playwright/test';
import { address, connected, openEdit, openEndpoints, row, some } from './clusters.ts';
import { startFakeCluster } from './fake-vllm.ts';
import { test } from './served.ts';

/** Lets requests through to an endpoint that carry what they must; anything else is 401. */
async function gate(to: number, allowed: (headers: http.IncomingHttpHeaders) => boolean) {
  const server = http.createServer((request, response) => {
    if (!allowed(request.headers)) {
      response.writeHead(401, { 'content-type': 'text/plain' }).end('who are you');
      return;
    }
    http.get({ port: to, path: request.url }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

test('a test of addresses: a row each with what to know, a proposed interval, then connecting', async ({
  page,
  serve,
  cluster,
}) => {
  const faults = [{}, { lateMs: 900 }, { statsOff: true }, { status: 404 }];
  for (const [i, fault] of faults.entries()) cluster.endpoints[i]!.faults = fault;
  const strange = await startFakeCluster({ workers: 2, enginesPerEndpoint: 2, model: 'm\u202eodel' });
  await page.goto((await serve()).url);
  const addresses = page.getByLabel(/addresses/i);
  await addresses.fill([...some(cluster, 0, 4), address(strange, 0), '127.0.0.1:1'].join(' , '));
  await page.getByRole('button', { name: /^Test/ }).click();

  const status = page.getByRole('status').filter({ hasText: 'Done in' });
  await expect(status).toContainText('3 of 6 answer, 4 workers');
  await expect(row(page, address(cluster, 0))).toContainText(/●.*answers.*1 · w0.*qwen3-8b.*ms.*kB/);
  await expect(row(page, address(cluster, 2))).toContainText(/▲.*no statistics.*Statistics are off/);
  await expect(row(page, address(cluster, 3))).toContainText(/✕.*HTTP error.*404/);
  await expect(row(page, '127.0.0.1:1 ')).toContainText(/✕.*refused.*refused the connection/);
  // text from outside is shown, not obeyed
  await expect(row(page, address(strange, 0))).toContainText(
    /2 · w2, w3.*m\\u202eodel.*One address, 2 engines/,
  );

  // 0.9 s is more than a third of 1 s and of 2 s; who has chosen keeps what was chosen
  await page.getByRole('button', { name: 'Name, interval, access…' }).click();
  const interval = page.getByLabel('Every');
  await expect(interval).toHaveValue('5');
  await expect(page.getByText(/^Proposed: the slowest answer took/)).toBeVisible();
  await interval.fill('0.5');
  await page.getByRole('button', { name: 'Test again' }).click();
  await expect(page.getByRole('button', { name: 'Testing…' })).toBeVisible();
  await expect(status).toBeVisible();
  await expect(interval).toHaveValue('0.5');
  await expect(page.getByText(/The slowest answer took .*5\u202fs would leave it room/)).toBeVisible();

  // what was typed since is not what was tested
  await addresses.press('End');
  await addresses.pressSequentially(' ');
  await expect(page.getByText('Changed since: test again.')).toBeVisible();
  await expect(page.getByRole('button', { name: /^Test again Ctrl/ })).toBeVisible();

  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await expect(page.getByRole('button', { name: /Recording .* 3 of 6 answer/ })).toBeVisible();
  await strange.close();
});

test('a test is stopped by Esc and says how far it was; many rows can be narrowed', async ({
  page,
  serve,
  cluster,
}) => {
  await connected(page, (await serve()).url, some(cluster, 0, 1), 'one');
  for (const endpoint of cluster.endpoints.slice(4)) endpoint.faults = { hang: true };
  await page.keyboard.press('Control+n');
  const dialog = page.getByRole('dialog', { name: 'Add a cluster' });
  const refused = Array.from({ length: 12 }, (_, i) => `127.0.0.1:${i + 1}`);
  await dialog.getByLabel('Addresses').fill([...some(cluster, 0, 8), ...refused].join('\n'));
  await page.keyboard.press('Control+Enter');
  await expect(dialog.getByText('16 of 20')).toBeVisible();
  await expect(dialog.getByRole('progressbar')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(dialog.getByRole('status').filter({ hasText: 'stopped' })).toHaveText(
    '4 of 20 answer; stopped after 16.',
  );
  await expect(row(dialog, address(cluster, 7))).toContainText('not asked');
  await dialog.getByLabel('Only those to look at (12)').check();
  await expect(dialog.getByRole('row')).toHaveCount(1 + 12);

  // the second one leaves the dialog, and the focus is where it was
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
});

test('what cannot be sent is said at its field, which gets the focus', async ({ page, serve, cluster }) => {
  await connected(page, (await serve()).url, some(cluster, 0, 1), 'one');
  await page.getByRole('button', { name: 'Add a cluster' }).click();
  const dialog = page.getByRole('dialog', { name: 'Add a cluster' });
  await dialog.getByLabel('Addresses').fill(address(cluster, 1));
  await dialog.getByLabel('Every').fill('0.1');
  await page.keyboard.press('Enter');
  await expect(dialog.getByLabel('Every')).toBeFocused();
  await expect(dialog.getByLabel('Every')).toHaveAccessibleDescription(/from 0.2 to 60/);
  await dialog.getByLabel('Every').fill('1');
  await dialog.getByRole('button', { name: 'Token, headers, CA file…' }).click();
  await dialog.getByRole('button', { name: 'Add a header' }).click();
  await page.keyboard.type('X Key');
  await dialog.getByRole('button', { name: 'Connect', exact: true }).click();
  await expect(dialog.getByLabel('Name of header 1')).toBeFocused();
  await expect(dialog.getByLabel('Name of header 1')).toHaveAccessibleDescription(/no spaces/);
  await page.getByRole('button', { name: 'Remove header X Key' }).click();
  await expect(dialog.getByRole('button', { name: 'Add a header' })).toBeFocused();
  // what only the engine can know
  await dialog.getByLabel('CA file').fill('/nowhere/ca.pem');
  await dialog.getByRole('button', { name: 'Connect', exact: true }).click();
  await expect(dialog.getByLabel('CA file')).toBeFocused();
  await expect(dialog.getByLabel('CA file')).toHaveAccessibleDescription(/\/nowhere\/ca\.pem/);
  await expect(dialog.getByLabel('Addresses')).toHaveValue(address(cluster, 1));
  await page.keyboard.press('Escape');
  await expect(page.getByRole('button', { name: 'Add a cluster' })).toBeFocused();
});

test('a test of many addresses: the first 300 rows, and how many more', async ({ page, serve }) => {
  const served = await serve();
  await page.goto(served.url);
  const addresses = Array.from({ length: 420 }, (_, i) => `127.0.0.1:${i + 1}`).join(' ');
  await page.getByLabel(/addresses/i).fill(addresses);
  await page.keyboard.press('Control+Enter');
  await expect(page.getByRole('status').filter({ hasText: 'Done in' })).toContainText('0 of 420 answer');
  const result = page.getByRole('region', { name: 'Result of the test' });
  await expect(result.getByRole('row')).toHaveCount(1 + 300);
  await expect(result.getByText('and 120 more')).toBeVisible();
});

test('secrets are sent, never shown again, lost with the engine, and kept where the user says so', async ({
  page,
  serve,
  cluster,
}) => {
  const secrets = ['s3cret', 'k3y'];
  const basic = `Basic ${Buffer.from('ada:s3cret').toString('base64')}`;
  const byLogin = await gate(cluster.endpoints[0]!.port, (h) => h.authorization === basic);
  const byKey = await gate(cluster.endpoints[1]!.port, (h) => h['x-key'] === 'k3y');
  /** What the page holds: its markup and what stands in its fields. */
  const held = async () => {
    const text = await page.evaluate(
      () =>
        document.documentElement.outerHTML +
        [...document.querySelectorAll('input, textarea')].map((e) => (e as HTMLInputElement).value).join(),
    );
    return secrets.filter((secret) => text.includes(secret));
  };
  const first = await serve();
  await page.goto(first.url);
  const addresses = page.getByLabel(/addresses/i);
  await addresses.fill(`ada:s3cret@127.0.0.1:${byLogin.port}/v1\n127.0.0.1:${byKey.port}`);
  await page.getByRole('button', { name: 'Name, interval, access…' }).click();
  await page.getByLabel('Name', { exact: true }).fill('lab');
  await page.getByRole('button', { name: 'Add a header' }).click();
  await page.keyboard.type('X-Key');
  await page.keyboard.press('Tab');
  await page.keyboard.type('k3y');
  await page.keyboard.press('Control+Enter');
  await expect(page.getByRole('status').filter({ hasText: 'Done in' })).toContainText('2 of 2 answer');
  await expect(addresses).toHaveValue(`127.0.0.1:${byLogin.port}/v1\n127.0.0.1:${byKey.port}`);
  await expect(page.getByLabel('Keep them in a file only you can read')).not.toBeChecked();
  await page.keyboard.press('Control+Enter');
  await expect(page.getByRole('button', { name: /^Recording [^,]*\. Stop/ })).toBeVisible();
  expect(await held()).toEqual([]);

  let dialog = await openEdit(page, 'lab');
  await expect(dialog.getByLabel('Value of header X-Key, kept')).toHaveValue('');
  await expect(dialog.getByLabel('Forget the user and password kept for 1 address')).not.toBeChecked();
  // a test uses what is kept
  await dialog.getByRole('button', { name: 'Test', exact: true }).click();
  await expect(dialog.getByText('2 of 2')).toBeVisible();
  expect(await held()).toEqual([]);
  // without the login the kept header still is
  await dialog.getByLabel('Forget the user and password kept for 1 address').check();
  await dialog.getByRole('button', { name: 'Test again' }).click();
  await expect(dialog.getByText('1 of 2')).toBeVisible();
  await expect(dialog.getByRole('row', { name: `127.0.0.1:${byKey.port}` })).toContainText('answers');
  await page.keyboard.press('Escape');

  // nobody asked to keep them
  await first.end();
  expect(fs.existsSync(path.join(first.folder, 'secrets.json'))).toBe(false);
  const port = Number(new URL(first.url).port);
  const second = await serve({ port });
  await page.goto(second.url);
  await openEndpoints(page, 'lab');
  const note = page.getByRole('alert').filter({ hasText: 'The secrets of lab are lost' });
  await expect(row(page, `${byKey.port}/metrics`)).toContainText(/HTTP error.*401/);
  await note.getByRole('button', { name: 'Give them again' }).click();
  dialog = page.getByRole('dialog', { name: 'Edit lab' });
  await expect(dialog.getByLabel('Value of header X-Key, lost: type it again')).toBeFocused();
  await page.keyboard.type('k3y');
  await dialog
    .getByLabel('Addresses')
    .fill(`http://ada:s3cret@127.0.0.1:${byLogin.port}\n127.0.0.1:${byKey.port}`);
  await dialog.getByLabel('Keep them in a file only you can read').check();
  await page.keyboard.press('Control+Enter');
  await expect(dialog).toHaveCount(0);
  await expect(note).toHaveCount(0);
  await expect(row(page, `${byKey.port}/metrics`)).toContainText('answers');
  await expect(row(page, `${byLogin.port}/metrics`)).toContainText(/answers.*Asked with a user and password/);
  await expect(page.getByText('Asked with headers X-Key and user and password of')).toBeVisible();
  expect(await held()).toEqual([]);
  expect(fs.statSync(path.join(second.folder, 'secrets.json')).mode & 0o777).toBe(0o600);

  await second.end();
  await page.goto((await serve({ port })).url);
  await openEndpoints(page, 'lab');
  await expect(row(page, `${byKey.port}/metrics`)).toContainText('answers');
  await expect(note).toHaveCount(0);
  byLogin.close();
  byKey.close();
});

test('a bearer token is asked with, kept, and removed again', async ({ page, serve, cluster }) => {
  const door = await gate(cluster.endpoints[0]!.port, (h) => h.authorization === 'Bearer tok3n');
  await page.goto((await serve()).url);
  await page.getByLabel(/addresses/i).fill(`127.0.0.1:${door.port}`);
  await page.getByRole('button', { name: 'Name, interval, access…' }).click();
  await page.getByLabel('Name', { exact: true }).fill('lab');
  await page.getByLabel('Name', { exact: true }).press('Enter');
  await expect(row(page, `${door.port}`)).toContainText(/HTTP error.*401/);
  // pasted with its scheme
  await page.getByLabel('Bearer token').fill('Bearer tok3n');
  await page.keyboard.press('Enter');
  await expect(row(page, `${door.port}`)).toContainText('answers');
  await page.keyboard.press('Enter');
  await expect(page.getByRole('button', { name: /^Recording [^,]*\. Stop/ })).toBeVisible();

  const dialog = await openEdit(page, 'lab');
  await expect(dialog.getByLabel('Bearer token', { exact: true })).toHaveValue('');
  await expect(dialog.getByPlaceholder(/^kept/)).toBeVisible();
  await dialog.getByRole('button', { name: 'Remove the kept bearer token' }).click();
  await expect(dialog.getByLabel('Bearer token', { exact: true })).toBeFocused();
  await expect(dialog.getByText('Time-out and access change with the next scrape.')).toBeVisible();
  await page.keyboard.press('Control+Enter');
  await expect(dialog).toHaveCount(0);
  await openEndpoints(page, 'lab');
  await expect(row(page, `${door.port}/metrics`)).toContainText(/HTTP error.*401/);
  door.close();
});
