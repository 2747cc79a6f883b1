/** The stand-in as a process of its own, so that its work is not counted as the engine's. */
import { fork } from 'node:child_process';
import path from 'node:path';

/** Addresses of its endpoints, in one line; `end` ends it. */
export async function forkStandIn(workers: number, perEndpoint: number) {
  const child = fork(
    path.join(import.meta.dirname, 'fake-vllm.ts'),
    ['--workers', String(workers), '--engines-per-endpoint', String(perEndpoint), '--port', '0'],
    { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] },
  );
  const urls: string[] = [];
  for await (const chunk of child.stdout! as AsyncIterable<Buffer>) {
    urls.push(
      ...chunk
        .toString()
        .split('\n')
        .filter((line) => line.startsWith('http')),
    );
    if (urls.length >= workers / perEndpoint) break;
  }
  return { addresses: urls.join(' '), end: () => child.kill() };
}
