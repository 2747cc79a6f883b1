// Unit tests: plain Node, real files and sockets. At most two at once, as on the machines that run them.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    environment: 'node',
    pool: 'forks',
    maxWorkers: 2,
    globals: false,
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});
