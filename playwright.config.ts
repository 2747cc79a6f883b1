// End-to-end tests: `chromium` drives the page as an engine serves it, `electron` the app in its real window.
// One worker: both count on real time and real ports, and the machines that run them are small.
import { existsSync } from 'node:fs';
import { defineConfig, devices } from '@playwright/test';

/** undefined: Playwright's own. build/system.mjs installs one where neither of these is there. */
const chromium = [process.env.CHROME_PATH, '/usr/bin/chromium'].find((file) => file && existsSync(file));
const quiet = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const root = process.getuid?.() === 0;

export default defineConfig({
  testDir: 'test',
  testMatch: '**/*.spec.ts',
  workers: 1,
  retries: 0,
  forbidOnly: Boolean(process.env.CI),
  timeout: 90_000,
  expect: { timeout: 15_000 },
  reporter: [
    ['list'],
    ['json', { outputFile: process.env.PLAYWRIGHT_JSON_OUTPUT_FILE ?? 'test-results/playwright.json' }],
  ],
  use: { screenshot: 'only-on-failure', trace: 'retain-on-failure' },
  projects: [
    {
      name: 'chromium',
      testIgnore: '**/shell*.spec.ts',
      // each project empties its own folder only, never the other's reports
      outputDir: 'test-results/chromium',
      use: {
        ...devices['Desktop Chrome'],
        channel: undefined,
        viewport: { width: 1440, height: 900 },
        launchOptions: {
          executablePath: chromium,
          args: root ? ['--no-sandbox', ...quiet] : quiet,
        },
      },
    },
    { name: 'electron', testMatch: '**/shell*.spec.ts', outputDir: 'test-results/electron' },
  ],
});
