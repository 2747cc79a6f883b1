/** The first day by keyboard alone in the real window; every view is held to axe's rules, light and dark. */
import { looker, walkByKeyboard } from './by-keyboard.ts';
import { startFakeCluster } from './fake-vllm.ts';
import { ownPage, test } from './shells.ts';

test('by keyboard alone, from the empty page to a past run', async ({ launch }) => {
  test.setTimeout(400_000); // axe takes seconds for each look
  const cluster = await startFakeCluster({ workers: 8, seed: 3 });
  try {
    const { page } = await launch();
    await page.waitForURL(ownPage);
    await walkByKeyboard(
      page,
      cluster,
      looker(page, (name) => `test-results/electron-${name}.png`),
    );
  } finally {
    await cluster.close();
  }
});
