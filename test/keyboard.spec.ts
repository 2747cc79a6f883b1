/** The first day by keyboard alone in Chromium; every view is held to axe's rules, light and dark. */
import { looker, walkByKeyboard } from './by-keyboard.ts';
import { test } from './served.ts';

test('by keyboard alone, from the empty page to a past run', async ({ page, serve, cluster }) => {
  test.setTimeout(400_000); // axe takes seconds for each look
  await page.goto((await serve()).url);
  await walkByKeyboard(
    page,
    cluster,
    looker(page, (name) => test.info().outputPath(`${name}.png`)),
  );
});
