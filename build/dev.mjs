// `npm run dev`: the app with the page from Vite, so that a change of the page shows at once; main, preload and
// engine are built anew and started again. What comes after `--` goes to the app.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import path from 'node:path';
import { node, tool } from './check.mjs';
import { ensureElectron } from './electron.mjs';
import { follow } from './start.mjs';
import { electronEnv, hasDisplay } from './system.mjs';

/** Vite has to know before the engine starts where to pass the page's calls on to. */
const freePort = () =>
  new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

if (!hasDisplay()) {
  console.error(
    'There is no display for a window. Without one: `npm run build`, then `npx vllm-scope serve`, which serves the built page to a browser.',
  );
  process.exitCode = 1;
} else if (!ensureElectron()) {
  process.exitCode = 1;
} else {
  const args = [tool('electron-vite/bin/electron-vite.js'), 'dev', '--watch', '--', ...process.argv.slice(2)];
  const child = spawn(node, args, {
    cwd: path.dirname(import.meta.dirname),
    stdio: 'inherit',
    env: { ...electronEnv(), VLLM_SCOPE_PORT: String(await freePort()) },
  });
  process.exitCode = await follow(child);
}
