/** For tests of the upload in the page: a recorded run, a W&B that knows ada, and what a person does first. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, type Page } from '@playwright/test';
import { Library } from '../electron/engine/library.ts';
import { startFakeWandb, type FakeWandb, type FakeWandbOptions } from './fake-wandb.ts';
import { writeRecording } from './recordings.ts';
import { START } from './run-files.ts';
import { test as served, type Served } from './served.ts';

/** Of the stand-in; nothing else in these tests contains it. */
export const key = 'ada1'.repeat(10);
const users = [{ key, username: 'ada', teams: ['rl-lab', 'infra'] }];

/** Puts an ended run of so many workers into a data folder; `write` writes its file. */
export function putRun(folder: string, workers: number, write: (file: string) => void) {
  fs.mkdirSync(path.join(folder, 'runs'), { recursive: true });
  const file = path.join(folder, 'runs', 'old.sqlite');
  write(file);
  const library = new Library(folder);
  library.putRun({
    ...{ id: 'old', file, name: 'rollouts', cluster: 'c', cluster_name: 'lab', state: 'ended' },
    ...{ started: START, ended: START + 339_000, interval_ms: 1000, endpoints: 2, workers, ticks: 340 },
    ...{ bytes: fs.statSync(file).size, generation_tokens: null },
  });
  library.close();
}

/** The recording of two real servers under seven steps; written once. */
let recorded: Buffer | null = null;
const withRun = (folder: string) =>
  putRun(folder, 2, (file) => {
    if (recorded) fs.writeFileSync(file, recorded);
    else {
      writeRecording('rollouts', file);
      recorded = fs.readFileSync(file);
    }
  });

export const test = served.extend<{
  wandb: (options?: FakeWandbOptions) => Promise<FakeWandb>;
  /** The page on the run, with a W&B that knows ada. */
  open: (wandb: FakeWandb, env?: NodeJS.ProcessEnv) => Promise<Served>;
}>({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  wandb: async ({}, use) => {
    const all: FakeWandb[] = [];
    await use(async (options = {}) => {
      const fake = await startFakeWandb({ users, ...options });
      all.push(fake);
      return fake;
    });
    for (const fake of all) await fake.stop();
  },
  open: async ({ page, serve }, use) => {
    const home = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-home-'));
    await use(async (wandb, env = {}) => {
      // nothing that the machine's own W&B left
      const own = {
        HOME: home,
        NETRC: '',
        WANDB_API_KEY: '',
        WANDB_ENTITY: '',
        WANDB_PROJECT: '',
        SSL_CERT_FILE: undefined,
        REQUESTS_CA_BUNDLE: undefined,
      };
      const served = await serve({
        prepare: withRun,
        env: { ...own, WANDB_BASE_URL: wandb.url, ...env },
      });
      await page.goto(served.url);
      await expect(page.getByRole('heading', { name: 'rollouts' })).toBeVisible();
      return served;
    });
    fs.rmSync(home, { recursive: true, force: true });
  },
});

export const dialog = (page: Page) => page.getByRole('dialog');
export const button = (page: Page, name: string | RegExp) => dialog(page).getByRole('button', { name });
/** In the bar of the run. */
export const opener = (page: Page) => page.getByTitle(/^Upload to Weights & Biases/);
export const stage = (page: Page) => dialog(page).locator('[aria-current=step]');

/** Types the key, chooses a place and goes on to what goes. */
export async function signIn(page: Page) {
  await page.keyboard.press('u');
  await dialog(page).getByLabel('API key').fill(key);
  await button(page, 'Check').click();
  await expect(dialog(page)).toContainText('Signed in as ada');
  await dialog(page).getByLabel('Entity').selectOption('rl-lab');
  await dialog(page).getByLabel('Project').fill('grpo');
  await page.keyboard.press('Enter');
  await expect(stage(page)).toHaveText('2 What goes');
  await expect(button(page, 'Upload 7 rows')).toBeFocused();
}

/** The one run that somebody made there, by the id that the dialog shows. */
export async function storedIn(page: Page, fake: FakeWandb) {
  const id = /runs\/(\w+)/.exec((await dialog(page).textContent()) ?? '')?.[1] ?? 'none';
  return fake.stored('rl-lab', 'grpo', id);
}
