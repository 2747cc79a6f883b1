/** A person's hands on clusters in the page: connect one, open what is about it, find a row. */
import { expect, type Locator, type Page } from '@playwright/test';
import type { FakeCluster } from './fake-vllm.ts';

export const address = (cluster: FakeCluster, i: number) => `127.0.0.1:${cluster.endpoints[i]!.port}`;
export const some = (cluster: FakeCluster, from: number, to: number) =>
  cluster.endpoints.slice(from, to).map(({ port }) => `127.0.0.1:${port}`);
export const row = (where: Page | Locator, text: string) => where.getByRole('row').filter({ hasText: text });

/** A fleet that is recorded, connected on the empty page without a test. */
export async function connected(page: Page, url: string, addresses: string[], name: string) {
  await page.goto(url);
  await page.getByLabel(/addresses/i).fill(addresses.join('\n'));
  await page.getByRole('button', { name: 'Name, interval, access…' }).click();
  await page.getByLabel('Name', { exact: true }).fill(name);
  await page.getByRole('button', { name: 'Connect', exact: true }).click();
  await expect(page.getByRole('button', { name: /^Recording/ })).toBeVisible();
}

export async function openEndpoints(page: Page, name: string) {
  await page.getByRole('button', { name: `Actions of ${name}` }).click();
  await page.getByRole('menuitem', { name: 'Endpoints' }).click();
}

export async function openEdit(page: Page, name: string) {
  await page.getByRole('button', { name: `Actions of ${name}` }).click();
  await page.getByRole('menuitem', { name: 'Edit…' }).click();
  const dialog = page.getByRole('dialog', { name: `Edit ${name}` });
  await expect(dialog.getByLabel('Addresses')).toBeFocused();
  return dialog;
}
