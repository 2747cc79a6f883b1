// `npm test`: everything that is tested, in one go, from lint to the real window. A stage that fails does not
// hide the next ones. The last line counts: lint, format, types and build one each, tests by their own reports.
import fs from 'node:fs';
import path from 'node:path';
import { checks, node, run, tool } from './check.mjs';
import { ensureElectron } from './electron.mjs';
import { electronEnv, ensureTestSystem, hasDisplay, python } from './system.mjs';

const reports = path.join(path.dirname(import.meta.dirname), 'test-results');
const total = { passed: 0, failed: 0, skipped: 0 };
let tests = 0;

const count = (ok) => (ok ? total.passed++ : total.failed++);

/** Runs a stage that writes a report and adds up what it says. A stage that failed without a failed test crashed. */
function runTests({ report, read, ...stage }) {
  const file = path.join(reports, report);
  const ok = run(stage);
  let counts = { passed: 0, failed: 0, skipped: 0 };
  try {
    const text = fs.readFileSync(file, 'utf8');
    counts = read(report.endsWith('.json') ? JSON.parse(text) : text);
  } catch (error) {
    console.log(`== ${stage.name}: no report (${error.message})`);
  }
  const ran = counts.passed + counts.failed;
  tests += ran;
  if (counts.failed === 0 && (!ok || ran === 0)) counts.failed = 1;
  for (const key of Object.keys(total)) total[key] += counts[key];
}

/** A file that could not be loaded has no tests to fail: it counts as one. */
const ofVitest = ({ numPassedTests, numFailedTests, numPendingTests, numTodoTests, testResults }) => ({
  passed: numPassedTests,
  failed:
    numFailedTests +
    testResults.filter((file) => file.status === 'failed' && file.assertionResults.length === 0).length,
  skipped: numPendingTests + numTodoTests,
});

const ofPlaywright = ({ stats, errors = [] }) => ({
  passed: stats.expected,
  failed: stats.unexpected + stats.flaky + errors.length,
  skipped: stats.skipped,
});

/** The suite's own attributes; a file that could not be loaded is an error. */
function ofPytest(xml) {
  const [tests, failures, errors, skipped] = ['tests', 'failures', 'errors', 'skipped'].map((name) =>
    Number(new RegExp(`<testsuite [^>]*\\b${name}="(\\d+)"`).exec(xml)[1]),
  );
  const failed = failures + errors;
  return { passed: tests - failed - skipped, failed, skipped };
}

/** Playwright's files are given to the one Node; `xvfb` brings a display of its own. */
function runPlaywright(project, env, xvfb = false) {
  const args = [tool('@playwright/test/cli.js'), 'test', '--project', project];
  const report = `playwright-${project}.json`;
  runTests({
    name: `tests in ${project}`,
    ...(xvfb
      ? { command: 'xvfb-run', args: ['-a', '-s', '-screen 0 1600x1000x24', node, ...args] }
      : { args }),
    env: { ...env, PLAYWRIGHT_JSON_OUTPUT_FILE: path.join(reports, report) },
    report,
    read: ofPlaywright,
  });
}

/** A preparation is no test: it counts only where it fails. */
function prepare(name, act) {
  console.log(`\n== ${name}`);
  let ok = false;
  try {
    ok = act();
  } catch (error) {
    console.log(error.message);
  }
  if (!ok) {
    console.log(`== ${name} failed`);
    total.failed++;
  }
  return ok;
}

// an old report must not stand in for one that was not written
fs.rmSync(reports, { recursive: true, force: true });

prepare('system packages', ensureTestSystem);
for (const check of checks) count(run(check));
runTests({
  name: 'unit tests',
  args: [
    tool('vitest/vitest.mjs'),
    'run',
    '--reporter=default',
    '--reporter=json',
    '--outputFile.json=test-results/vitest.json',
  ],
  report: 'vitest.json',
  read: ofVitest,
});
runTests({
  name: 'tests of the exporter',
  // where no Python has what is needed, this one says so
  command: python() ?? 'python3',
  args: '-m pytest -q -p no:cacheprovider --junitxml=test-results/pytest.xml exporter/tests'.split(' '),
  report: 'pytest.xml',
  read: ofPytest,
});
const built = run({
  name: 'build',
  args: [tool('electron-vite/bin/electron-vite.js'), 'build', '--logLevel', 'warn'],
});
count(built);
if (built) {
  runPlaywright('chromium', process.env);
  if (prepare('Electron', ensureElectron)) runPlaywright('electron', electronEnv(), !hasDisplay());
} else {
  console.log('\n== without a build neither the page nor the window can be tested');
  total.failed += 2;
}

const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : '';
console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`);
process.exitCode = total.failed > 0 || tests === 0 ? 1 : 0;
