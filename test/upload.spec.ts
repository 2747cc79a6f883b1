/** The upload to W&B in Chromium, from the key that is typed to the link, against the strict stand-in for W&B. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect } from '@playwright/test';
import { makeLongRun } from './long-run.ts';
import { differencesOf, rowsByPython } from './wandb-rows/by-python.ts';
import { makeRun } from './wandb-rows/made-run.ts';
import { button, dialog, key, opener, putRun, signIn, stage, storedIn, test } from './upload-page.ts';

test('the first time: key, place, what goes, and where it is; the second time it is up to date', async ({
  page,
  open,
  wandb,
}) => {
  const fake = await wandb();
  const frames: { sent: boolean; text: string }[] = [];
  page.on('websocket', (socket) => {
    const take = (sent: boolean) => (frame: { payload: string | Buffer }) =>
      frames.push({ sent, text: frame.payload.toString() });
    socket.on('framesent', take(true));
    socket.on('framereceived', take(false));
  });
  await open(fake);
  await opener(page).click();
  const field = dialog(page).getByLabel('API key');
  await expect(field).toBeFocused();
  await expect(field).toHaveAttribute('type', 'password');
  await expect(dialog(page)).toContainText('Nothing has been sent.');

  // no key at all, one that cannot be one, one that is nobody's: said at the field, which is empty again
  await button(page, /^Next/).click();
  await expect(field).toBeFocused();
  await field.fill('short');
  await page.keyboard.press('Enter');
  await expect(dialog(page).getByRole('alert').filter({ hasText: 'too short: 5 characters' })).toBeVisible();
  await field.fill('b'.repeat(40));
  await button(page, 'Check').click();
  await expect(dialog(page).getByRole('alert').filter({ hasText: 'Check the API key' })).toContainText(
    /“.+”/,
  );
  await expect(field).toHaveValue('');
  // one question, and it was refused
  expect(fake.requests()).toHaveLength(1);

  // the right one, by Enter
  await field.fill(key);
  await page.keyboard.press('Enter');
  await expect(dialog(page)).toContainText('Signed in as ada (teams: rl-lab, infra).');
  await expect(field).toBeHidden();
  // without a project nothing goes on
  await button(page, /^Next/).click();
  await expect(dialog(page).getByText('Give a project.')).toBeVisible();
  await expect(dialog(page).getByLabel('Project')).toBeFocused();
  await dialog(page).getByLabel('Entity').selectOption('rl-lab');
  await dialog(page).getByLabel('Project').fill('grpo');
  await dialog(page).getByLabel('Tags').fill('vllm-scope, tiny');
  await button(page, /^Next/).click();

  // what goes: one row for each of the seven steps of the recording, and its last one
  const upload = button(page, 'Upload 7 rows');
  await expect(upload).toBeFocused();
  const example = dialog(page).getByRole('region', { name: /^Row of step 6/ });
  const shown = new Map<string, string>();
  for (const row of await example.getByRole('row').all()) {
    const [name = '', value = ''] = await row.getByRole('cell').allTextContents();
    shown.set(name, value);
  }
  await expect(dialog(page)).toContainText('Step 4 is a lower bound');
  await expect(dialog(page)).toContainText('Nothing has been sent.');
  expect(fake.requests().some(({ operation }) => operation === 'UpsertBucket')).toBe(false);

  await page.keyboard.press('Enter');
  await expect(dialog(page)).toContainText('7 of 7 rows acknowledged');
  await expect(page.getByRole('dialog', { name: '“rollouts” is on W&B' })).toBeVisible();
  const stored = (await storedIn(page, fake))!;
  expect(stored.state).toBe('finished');
  expect(stored.tags).toEqual(['vllm-scope', 'tiny']);
  expect(stored.history).toHaveLength(7);
  const last = JSON.parse(stored.history[6]!) as Record<string, unknown>;
  expect(Object.keys(last)).toHaveLength(shown.size);
  expect(shown.get('vllm_scope/step')).toBe('6');
  for (const name of Object.keys(last).filter((k) => !k.includes('/engine_')))
    expect(Number(shown.get(name)), name).toBe(last[name]);

  // the second click has nothing to send, and the page knows the key no more
  await button(page, 'Close').last().click();
  await expect(opener(page)).toBeFocused();
  const asked = fake.requests().length;
  await page.keyboard.press('u');
  await expect(dialog(page)).toContainText('7 of 7 rows acknowledged, 92 keys. Up to date.');
  await expect(button(page, 'Upload as a new run')).toBeVisible();
  await page.waitForTimeout(500);
  expect(
    fake
      .requests()
      .slice(asked)
      .every(({ kind, operation }) => kind === 'graphql' && /^(Viewer|GetProjects)$/.test(operation ?? '')),
  ).toBe(true);
  const kept = await page.evaluate(() =>
    JSON.stringify([
      { ...localStorage },
      { ...sessionStorage },
      location.href,
      document.documentElement.outerHTML,
      [...document.querySelectorAll('input, textarea')].map((e) => (e as HTMLInputElement).value),
    ]),
  );
  expect(kept).not.toContain(key);
  const withKey = frames.filter(({ text }) => text.includes(key));
  expect(withKey.map(({ sent, text }) => [sent, (JSON.parse(text) as { call: string }).call])).toEqual([
    [true, 'setWandbKey'],
  ]);
});

test('it goes on behind: waits, pause, cancel, and the rest with the next click', async ({
  page,
  open,
  wandb,
}) => {
  const fake = await wandb();
  await open(fake);
  await signIn(page);
  fake.inject('file_stream', {
    status: 429,
    body: { error: 'rate limit exceeded' },
    headers: { 'Retry-After': '6' },
  });
  await page.keyboard.press('Enter');
  await expect(stage(page)).toHaveText('3 Sending');
  await expect(dialog(page)).toContainText(/W&B asks to wait .*\. Goes on by itself at \d\d:\d\d:\d\d\./);
  await expect(dialog(page)).toContainText('0 of 7 acknowledged');
  await page.keyboard.press('Escape');
  await expect(dialog(page)).toBeHidden();
  await expect(opener(page)).toHaveText('▲ Upload waits, 0 of 7');

  // the button leads back to it
  await opener(page).click();
  await expect(stage(page)).toHaveText('3 Sending');
  await button(page, 'Pause').click();
  await expect(dialog(page)).toContainText('Paused.');
  await expect(opener(page)).toHaveText('Upload paused, 0 of 7');
  await button(page, 'Go on').click();
  await expect(button(page, 'Pause')).toBeVisible();
  await button(page, 'Cancel').click();
  await expect(stage(page)).toHaveText('2 What goes');
  await expect(opener(page)).toHaveText('Upload to W&B');

  // another page, another day: one click more sends
  await page.reload();
  await opener(page).click();
  await expect(button(page, /^Upload 7 (new )?rows$/)).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(dialog(page)).toContainText('7 of 7 rows acknowledged', { timeout: 30_000 });
  expect((await storedIn(page, fake))?.history).toHaveLength(7);
});

test('another choice, and a run that was deleted, need a new run', async ({ page, open, wandb }) => {
  const fake = await wandb();
  await open(fake);
  await signIn(page);
  await page.keyboard.press('Enter');
  await expect(dialog(page)).toContainText('7 of 7 rows acknowledged');
  const first = (await storedIn(page, fake))!;

  await button(page, 'See what goes').click();
  await expect(button(page, 'Up to date')).toBeVisible();
  const keys = dialog(page).locator('.numbers b').nth(1);
  await expect(keys).toHaveText('92');
  await dialog(page).getByRole('checkbox', { name: 'up to' }).uncheck();
  // without the three statistics of two workers for eight metrics
  await expect(keys).toHaveText('44');
  await expect(dialog(page)).toContainText('What goes up is chosen otherwise than before.');
  await button(page, 'Upload as a new run').click();
  await expect(dialog(page)).toContainText('7 of 7 rows acknowledged, 44 keys.');
  const second = (await storedIn(page, fake))!;
  expect(second.name).not.toBe(first.name);
  expect(Object.keys(JSON.parse(second.history[0]!) as object).some((k) => k.includes('engine_'))).toBe(
    false,
  );

  // a deleted one, found out while sending
  fake.inject('UpsertBucket', { status: 409, body: { error: 'run r was previously created and deleted' } });
  await button(page, 'Upload as a new run').click();
  await button(page, 'Upload 7 rows as a new run').click();
  await expect(dialog(page).getByRole('alert')).toContainText(
    '“run r was previously created and deleted”. W&B never gives the id of a deleted run again.',
  );
  await expect(opener(page)).toHaveText('✕ Upload failed');
  await button(page, 'Upload as a new run').click();
  await expect(dialog(page)).toContainText('7 of 7 rows acknowledged');
});

test('a server of one’s own with a certificate of one’s own; a key from the environment; files for wandb sync', async ({
  page,
  open,
  wandb,
}) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-ca-'));
  const [keyFile, pem] = [path.join(folder, 'key.pem'), path.join(folder, 'ca.pem')];
  const options = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1';
  execFileSync(
    'openssl',
    ['req', ...options.split(' '), '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', keyFile, '-out', pem],
    { stdio: 'ignore' },
  );
  const certificate = { key: fs.readFileSync(keyFile, 'utf8'), cert: fs.readFileSync(pem, 'utf8') };
  const fake = await wandb({ certificate });
  const { folder: data } = await open(fake, { WANDB_API_KEY: key, WANDB_PROJECT: 'grpo' });
  await page.keyboard.press('u');
  // what hinders it is said, and the field that helps is there
  await expect(dialog(page).getByRole('alert').filter({ hasText: 'certificate' })).toBeVisible();
  await dialog(page).getByLabel('CA file').fill(path.join(folder, 'other.pem'));
  await page.keyboard.press('Tab');
  await expect(dialog(page).getByText('cannot be used as a CA file')).toBeVisible();
  await dialog(page).getByLabel('CA file').fill(pem);
  await page.keyboard.press('Tab');
  await expect(dialog(page)).toContainText('Signed in as ada');
  await expect(dialog(page)).toContainText('From WANDB_API_KEY');

  await button(page, 'Write files for wandb sync instead').click();
  await button(page, 'Write files').click();
  await expect(dialog(page)).toContainText('7 rows written');
  const command = (await dialog(page).locator('code').first().textContent()) ?? '';
  const written = command.replace('wandb sync ', '');
  expect(written.startsWith(path.join(data, 'exports'))).toBe(true);
  expect(fs.readdirSync(written).some((name) => name.endsWith('.wandb'))).toBe(true);

  await button(page, 'Back').click();
  await dialog(page).getByLabel('Entity').selectOption('rl-lab');
  await button(page, /^Next/).click();
  await button(page, 'Upload 7 rows').click();
  const link = dialog(page).getByRole('link', { name: 'Open in the browser' });
  await expect(link).toBeFocused();
  await expect(link).toHaveAttribute('href', new RegExp(`^${fake.url}/rl-lab/grpo/runs/\\w{8}$`));
  await expect(link).toHaveAttribute('target', '_blank');
  await expect(link).toHaveAttribute('rel', 'noreferrer');
  fs.rmSync(folder, { recursive: true });
});

test('live: rows go up as steps end, and the run on W&B ends with the recording', async ({
  page,
  wandb,
  serve,
}) => {
  test.setTimeout(150_000);
  const fake = await wandb();
  const env = {
    WANDB_BASE_URL: fake.url,
    WANDB_API_KEY: key,
    WANDB_ENTITY: 'rl-lab',
    WANDB_PROJECT: 'grpo',
    SSL_CERT_FILE: undefined,
  };
  await page.goto((await serve({ connect: true, env })).url);
  await page.getByRole('button', { name: /^Steps / }).click();
  await page.getByRole('button', { name: 'Fixed', exact: true }).click();
  await page.getByRole('spinbutton', { name: 'Every' }).fill('3');
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByRole('button', { name: 'Use these' }).click();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.keyboard.press('u');
  await expect(dialog(page).getByRole('switch', { name: /^Rows go up as steps end/ })).toBeChecked();
  await button(page, /^Upload (\d+ rows?|as steps end)$/).click();
  await expect(dialog(page)).toContainText('Waiting for the next step to end.', { timeout: 30_000 });
  await button(page, 'Close, go on behind').click();
  await expect(opener(page)).toHaveText('Live on W&B');
  await opener(page).click();
  const rows = async () =>
    Number(/(\d+) of \d+ acknowledged/.exec((await dialog(page).textContent()) ?? '')?.[1]);
  const before = await rows();
  await expect.poll(rows, { timeout: 60_000 }).toBeGreaterThan(before);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: /Stop recording$/ }).click();
  const confirm = dialog(page).getByRole('button', { name: /^Stop/ });
  if (await confirm.isVisible()) await confirm.click();
  await expect(opener(page)).toHaveText('Upload to W&B', { timeout: 30_000 });
  await opener(page).click();
  await expect(dialog(page)).toContainText('Up to date.');
  expect((await storedIn(page, fake))?.state).toBe('finished');
});

test('of many workers three have keys of their own; too many keys switch themselves off', async ({
  page,
  wandb,
  serve,
}) => {
  const fake = await wandb();
  const env = {
    WANDB_BASE_URL: fake.url,
    WANDB_API_KEY: key,
    WANDB_PROJECT: 'grpo',
    SSL_CERT_FILE: undefined,
  };
  const prepare = (folder: string) => putRun(folder, 300, (file) => makeLongRun(file, 300, 130));
  await page.goto((await serve({ prepare, env })).url);
  await expect(opener(page)).toBeVisible();
  await page.keyboard.press('u');
  // remembered places and a key open at what goes
  await expect(button(page, /^Upload \d rows?$/)).toBeFocused({ timeout: 30_000 });
  await expect(dialog(page)).toContainText(/of 300: w\d+, w\d+, w\d+, which ended last most often/);
  const keys = dialog(page).locator('.numbers b').nth(1);
  const few = Number(await keys.textContent());

  const limit = dialog(page).getByRole('spinbutton', { name: 'Workers with keys of their own' });
  await limit.fill('300');
  await expect(dialog(page)).toContainText(
    /Keys per worker were switched off: with them there were 7,\d\d\d keys, and past 5,000 W&B is slow\./,
  );
  const own = dialog(page).getByRole('checkbox', { name: 'up to' });
  await expect(own).not.toBeChecked();
  // three workers, eight metrics, three statistics
  await expect(keys).toHaveText(String(few - 72));
  // who switches them on again knows; a warning stays
  await own.check();
  await expect(keys).toHaveText(/^7,\d\d\d$/);
  await expect(dialog(page)).toContainText(/7,\d\d\d keys: past 2,000 W&B may get slow\./);
  await expect(own).toBeChecked();
});

test('200 steps in one click are, line by line, what a Python script makes of the same file', async ({
  page,
  serve,
  wandb,
}) => {
  const fake = await wandb();
  let file = '';
  const { url } = await serve({
    prepare: (folder) => putRun(folder, 8, (into) => makeRun((file = into), { seed: 11, steps: 240 })),
    env: { WANDB_API_KEY: key, WANDB_BASE_URL: fake.url, WANDB_ENTITY: 'rl-lab', WANDB_PROJECT: 'grpo' },
  });
  await page.goto(url);
  await expect(page.getByRole('heading', { name: 'rollouts' })).toBeVisible();
  await opener(page).click();
  // train steps of marks; evaluations stay here
  await button(page, /^Upload 2\d\d rows$/).click();
  await expect(dialog(page)).toContainText(/(2\d\d) of \1 rows acknowledged/, { timeout: 30_000 });
  expect(differencesOf((await storedIn(page, fake))!, await rowsByPython(file, '--source', 'mark'))).toEqual(
    [],
  );
});
