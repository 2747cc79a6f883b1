/** Steps on the timelines in Chromium: the ribbon against what the stand-in did, zoom and keys, sources, kinds, marks. */
import AxeBuilder from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import { startFakeCluster, type FakeCluster } from './fake-vllm.ts';
import { expectLines } from './person.ts';
import { test as served } from './served.ts';

/** Short rollouts with breaks that can be told. */
const test = served.extend<{ cluster: FakeCluster }>({
  // Playwright tells from the pattern which fixtures a fixture needs: here none
  // eslint-disable-next-line no-empty-pattern -- see above
  cluster: async ({}, use) => {
    const cluster = await startFakeCluster({
      workers: 4,
      seed: 3,
      stepSeconds: [4, 6],
      pauseSeconds: [3.5, 4],
    });
    await use(cluster);
    await cluster.close();
  },
});

const ribbon = (page: Page) => page.getByRole('slider', { name: 'Steps' });
const source = (page: Page) => page.getByRole('button', { name: /^Steps / });
const menu = (page: Page) => page.getByRole('dialog', { name: 'Steps' });
const list = (page: Page) => page.getByRole('complementary', { name: 'Values' });

interface Shown {
  number: number;
  /** All that its title says. */
  facts: string;
  /** In pixels of the ribbon. */
  left: number;
  right: number;
}

/** What the ribbon says under each pixel, put together to steps. */
const shownSteps = (page: Page): Promise<Shown[]> =>
  ribbon(page).evaluate((element: HTMLElement) => {
    const { left, top, width } = element.getBoundingClientRect();
    const found: Shown[] = [];
    for (let x = 0; x < width; x++) {
      element.dispatchEvent(new PointerEvent('pointermove', { clientX: left + x, clientY: top + 9 }));
      const number = Number(/^Step (\d+)/.exec(element.title)?.[1] ?? NaN);
      const last = found.at(-1);
      if (Number.isNaN(number)) continue;
      if (last?.number === number) last.right = x;
      else found.push({ number, facts: element.title, left: x, right: x });
    }
    return found;
  });

/** Waits for so many steps that are over, besides those of which the beginning was missed. */
async function stepsOver(page: Page, count: number): Promise<Shown[]> {
  const over = async () => (await shownSteps(page)).filter(({ facts }) => !facts.includes('so far'));
  await expect.poll(async () => (await over()).length, { timeout: 60_000 }).toBeGreaterThanOrEqual(count);
  return over();
}

/** `09:02:17` in a step's facts, as seconds of the day. */
function timesIn(facts: string): number[] {
  return [...facts.matchAll(/(\d\d):(\d\d):(\d\d)/g)].map(
    ([, h, m, s]) => Number(h) * 3600 + Number(m) * 60 + Number(s),
  );
}

const secondsOfDay = (at: number) => {
  const d = new Date(at);
  return d.getHours() * 3600 + d.getMinutes() * 60 + d.getSeconds() + d.getMilliseconds() / 1000;
};

/** No rule of axe is broken around the steps, light and dark; a picture of each is kept. */
async function looksRight(page: Page, name: string) {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(250); // colours fade over 90 ms, canvases are drawn anew
    const { violations } = await new AxeBuilder({ page }).include('.ribbon').include('.foot').analyze();
    expect
      .soft(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(' ')).join(', ')}`))
      .toEqual([]);
    await page.screenshot({ path: test.info().outputPath(`${name}-${colorScheme}.png`) });
  }
}

test('the ribbon shows what happened; a click zooms to a step, keys go on, and back', async ({
  page,
  serve,
  cluster,
}) => {
  test.setTimeout(150_000);
  await page.goto((await serve({ connect: true })).url);
  await expectLines(page, 4);
  await expect(source(page)).toHaveText(/idle/, { timeout: 30_000 });
  const seen = (await stepsOver(page, 3)).slice(1);

  // begin and end as the stand-in has them, within a slot and the second that the clock cuts off
  const truth = cluster.rollouts.steps.map((s) => ({
    begin: secondsOfDay(cluster.origin + s.begin * 1000),
    end: s.end === null ? NaN : secondsOfDay(cluster.origin + s.end * 1000),
  }));
  for (const { facts } of seen) {
    const [begin = NaN, end = NaN] = timesIn(facts);
    const own = truth.find((s) => Math.abs(s.begin - begin) < 2.5);
    expect(own, facts).toBeDefined();
    expect(Math.abs(end - own!.end), `${facts} ended ${own!.end}`).toBeLessThan(2.5);
  }
  const [first, second] = seen;
  if (!first || !second) throw new Error('no steps');

  // the crosshair says which step it is in, and how far
  const plot = (await page.locator('.sheet').boundingBox())!;
  const strip = (await ribbon(page).boundingBox())!;
  await page.getByRole('button', { name: 'Following' }).click();
  const now = (await shownSteps(page)).find(({ number }) => number === second.number)!;
  await page.mouse.move(strip.x + (now.left + now.right) / 2, plot.y + 200);
  await expect(list(page).locator('[data-part=which]')).toHaveText(
    new RegExp(`^step ${second.number} \\+\\d+.s$`),
  );
  const said = (await list(page).locator('[data-part=which]').textContent()) ?? '';
  const at = timesIn((await list(page).locator('[data-part=moment]').textContent()) ?? '')[0] ?? NaN;
  const [began = NaN] = timesIn(second.facts);
  expect(Math.abs(Number(/\+(\d+)/.exec(said)?.[1]) - (at - began))).toBeLessThanOrEqual(1);
  await page.mouse.move(strip.x + now.left - 4, plot.y + 200);
  await expect(list(page).locator('[data-part=which]')).toHaveText('no step');

  // a click fills the window with the step, and the axis counts its seconds
  const step = page.getByRole('button', { name: 'Step', exact: true });
  await ribbon(page).click({ position: { x: (now.left + now.right) / 2, y: 10 } });
  await expect(step).toHaveAttribute('aria-pressed', 'true');
  await expect(ribbon(page)).toHaveAttribute('aria-valuetext', new RegExp(`^Step ${second.number}, train`));
  await expect(page.getByText('since the begin')).toBeVisible();
  await expect
    .poll(async () => (await shownSteps(page)).map(({ number }) => number))
    .toEqual([second.number]);
  await looksRight(page, 'zoomed');

  // by keys from step to step; then back to where it began
  await page.keyboard.press(',');
  await expect(ribbon(page)).toHaveAttribute('aria-valuetext', new RegExp(`^Step ${first.number}, `));
  await page.keyboard.press('.');
  await expect(ribbon(page)).toHaveAttribute('aria-valuetext', new RegExp(`^Step ${second.number}, `));
  await ribbon(page).focus();
  await page.keyboard.press('ArrowLeft');
  await expect(ribbon(page)).toHaveAttribute('aria-valuetext', new RegExp(`^Step ${first.number}, `));
  await ribbon(page).dblclick({ position: { x: 300, y: 10 } });
  await expect(step).toHaveAttribute('aria-pressed', 'false');
  await expect(page.getByText('since the begin')).toBeHidden();
  expect((await shownSteps(page)).length).toBeGreaterThanOrEqual(3);
});

test('sources are tried and chosen, kinds are told apart, and both stay', async ({ page, serve }) => {
  test.setTimeout(150_000);
  const { url } = await serve({ connect: true });
  await page.goto(url);
  await expectLines(page, 4);
  await stepsOver(page, 2);

  // other settings are shown before they are stored
  await source(page).click();
  await expect(menu(page).getByRole('radio', { name: /^Automatic/ })).toBeChecked();
  await menu(page).getByRole('button', { name: 'Fixed' }).click();
  await menu(page).getByRole('spinbutton', { name: 'Every' }).fill('4');
  await menu(page).getByRole('button', { name: 'Preview' }).click();
  await expect(menu(page).getByRole('status')).toContainText(/^\d+ steps, 4\.00.s/);
  await expect(source(page)).toHaveText(/fixed, preview/);
  expect((await shownSteps(page)).slice(1, -1).every(({ facts }) => facts.includes('4.00\u202fs,'))).toBe(
    true,
  );
  await looksRight(page, 'menu');
  // Esc takes it back
  await page.keyboard.press('Escape');
  await expect(source(page)).toHaveText(/idle/);
  await expect(source(page)).toBeFocused();

  await source(page).click();
  await menu(page).getByRole('button', { name: 'Fixed' }).click();
  await menu(page).getByRole('spinbutton', { name: 'Every' }).fill('4');
  await menu(page).getByRole('button', { name: 'Preview' }).click();
  await menu(page).getByRole('button', { name: 'Use these' }).click();
  await expect(menu(page).getByRole('radio', { name: /^Fixed/ })).toBeChecked();
  await page.keyboard.press('Escape');
  await expect(source(page)).toHaveText(/fixed/);

  // a step becomes an evaluation, for everybody who looks
  await ribbon(page).focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  await source(page).click();
  const kind = menu(page).getByRole('group', { name: 'Kind of step 1' });
  await kind.getByRole('button', { name: 'eval' }).click();
  await expect(kind.getByRole('button', { name: 'eval' })).toHaveAttribute('aria-pressed', 'true');
  await page.goto('about:blank');
  await page.goto(url);
  await expect(source(page)).toHaveText(/fixed/);
  await expect
    .poll(async () => (await shownSteps(page)).find(({ number }) => number === 1)?.facts)
    .toMatch(/^Step 1, eval, 4\.00.s/);

  await source(page).click();
  await menu(page)
    .getByRole('radio', { name: /^Automatic/ })
    .check();
  await expect(source(page)).toHaveText(/idle/);
});

test('a step is marked by key and by button, ended, and stands in the strip', async ({ page, serve }) => {
  test.setTimeout(120_000);
  await page.goto((await serve({ connect: true })).url);
  await expectLines(page, 4);
  await page.keyboard.press('m');
  await expect(source(page)).toHaveText(/marks/);
  await expect.poll(async () => (await shownSteps(page)).at(-1)?.facts).toMatch(/so far/);
  const [first] = await shownSteps(page);
  await page.waitForTimeout(6000);
  await source(page).click();
  await menu(page)
    .getByRole('button', { name: /^Mark a step/ })
    .click();
  await expect.poll(async () => (await shownSteps(page)).length).toBe(2);
  await page.waitForTimeout(3000);
  await menu(page).getByRole('button', { name: 'End this step' }).click();
  await expect(menu(page).getByRole('button', { name: 'End this step' })).toBeDisabled();
  const [one, two] = await shownSteps(page);
  expect(timesIn(one!.facts)[0]).toBe(timesIn(first!.facts)[0]);
  // the second began where the first ended, and is over
  expect(timesIn(one!.facts)[1]).toBe(timesIn(two!.facts)[0]);
  expect(two!.number).toBe(one!.number + 1);
  expect(two!.facts).not.toContain('so far');
  await page.keyboard.press('Escape');

  // the strip says the same of the last full step
  const running = page.getByLabel('Vital numbers').locator('.vital').nth(1);
  await expect(running).toContainText(new RegExp(`step ${two!.number}: [\\d.]+ a worker`));
  // what has ended is marked no more
  await page.getByRole('button', { name: /Stop recording$/ }).click();
  const confirm = page.getByRole('dialog').getByRole('button', { name: /^Stop/ });
  if (await confirm.isVisible()) await confirm.click();
  await expect(page.getByRole('button', { name: 'Record', exact: true })).toBeVisible();
  await source(page).click();
  await expect(menu(page).getByRole('button', { name: /^Mark a step/ })).toHaveCount(0);
});
