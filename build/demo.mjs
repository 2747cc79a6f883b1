// `npm run demo`: eight made-up vLLM engines under RL rollouts, recorded into a data folder of its own. In a window
// where there is a display, otherwise in a browser, without fetching any Electron. All of it goes when it ends.
import fs from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { startFakeCluster } from '../test/fake-vllm.ts';
import { node } from './check.mjs';
import { ensureElectron } from './electron.mjs';
import { ensureBuilt, follow, startApp, startChild } from './start.mjs';
import { hasDisplay } from './system.mjs';

const engine = path.join(path.dirname(import.meta.dirname), 'out/main/engine.js');
/** The port that `serve` takes by itself, so that one `ssh -L` does for both. */
const usualPort = 8997;

const isFree = (port) =>
  new Promise((resolve) => {
    const server = createServer().on('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });

function inWindow(data, addresses) {
  return startApp(['--data', data], { VLLM_SCOPE_CONNECT: addresses, VLLM_SCOPE_CONNECT_NAME: 'Demo' });
}

async function inBrowser(data, addresses) {
  const port = (await isFree(usualPort)) ? usualPort : 0;
  console.log('Open the address below in a browser; Ctrl-C ends the demo.');
  const args = ['serve', '--port', String(port), '--data', data, '--connect', addresses, '--name', 'Demo'];
  return startChild(node, [engine, ...args], process.env);
}

if (!ensureBuilt()) process.exit(1);
const window = hasDisplay() && ensureElectron();
const cluster = await startFakeCluster({ workers: 8 });
const data = fs.mkdtempSync(path.join(os.tmpdir(), 'vllm-scope-demo-'));
try {
  const addresses = cluster.endpoints.map(({ url }) => url).join(' ');
  process.exitCode = await follow(await (window ? inWindow : inBrowser)(data, addresses));
} finally {
  await cluster.close();
  fs.rmSync(data, { recursive: true, force: true });
}
