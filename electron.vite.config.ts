// How the four bundles are built: main, preload, engine (with its reader thread) and page. The targets stand here
// since electron-vite would take Electron 45's; main and preload must also run in the tests' older stand-in.
import { chmod } from 'node:fs/promises';
import { resolve } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'electron-vite';
import type { Plugin } from 'vite';

const shebang = '#!/usr/bin/env node\n';

/** The engine is also the package's `bin`: it begins with a shebang and may be executed. */
const executableEngine: Plugin = {
  name: 'executable-engine',
  renderChunk(code, chunk) {
    const wanted = chunk.isEntry && chunk.name === 'engine' && !code.startsWith('#!');
    return wanted ? { code: shebang + code, map: null } : null;
  },
  async writeBundle({ dir }) {
    if (dir !== undefined) await chmod(resolve(dir, 'engine.js'), 0o755);
  },
};

/** In development the page comes from Vite: what it asks of its own origin goes on to the engine (build/dev.mjs). */
const enginePort = process.env.VLLM_SCOPE_PORT;
const toEngine = {
  target: `http://127.0.0.1:${enginePort}`,
  ws: true,
  changeOrigin: true,
  rewriteWsOrigin: true,
};

export default defineConfig({
  main: {
    plugins: [executableEngine],
    build: {
      target: 'node20.18',
      externalizeDeps: true,
      rolldownOptions: {
        input: {
          main: 'electron/main.ts',
          engine: 'electron/engine/cli.ts',
          reader: 'electron/engine/reader.ts',
        },
      },
    },
  },
  preload: {
    build: {
      target: 'node20.18',
      externalizeDeps: false,
      rolldownOptions: {
        input: { preload: 'electron/preload.ts' },
        output: { format: 'cjs', entryFileNames: '[name].cjs' },
      },
    },
  },
  renderer: {
    root: 'renderer',
    server: { host: '127.0.0.1', proxy: enginePort === undefined ? undefined : { '/ws': toEngine } },
    build: {
      target: 'chrome130',
      minify: true,
      // two thirds of it is ECharts, and it comes from this machine
      chunkSizeWarningLimit: 800,
      rolldownOptions: { input: resolve(import.meta.dirname, 'renderer/index.html') },
    },
    plugins: [svelte({ configFile: resolve(import.meta.dirname, 'svelte.config.js') })],
  },
});
