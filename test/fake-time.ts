/** Stand-ins whose time is the test's own, ended with the test that started them. */
import { afterEach } from 'vitest';
import { startFakeCluster, type FakeCluster, type FakeClusterOptions } from './fake-vllm.ts';

export const begin = Date.UTC(2026, 10, 30);
/** Epoch ms that every stand-in of this file takes for now. */
export const time = { now: begin };
const started: FakeCluster[] = [];

/** Starts at `begin`. */
export async function start(options: FakeClusterOptions = {}): Promise<FakeCluster> {
  time.now = begin;
  const cluster = await startFakeCluster({ clock: () => time.now, ...options });
  started.push(cluster);
  return cluster;
}
afterEach(async () => {
  await Promise.all(started.splice(0).map((cluster) => cluster.close()));
});

export async function body(cluster: FakeCluster, endpoint = 0): Promise<string> {
  return (await fetch(cluster.endpoints[endpoint]!.url)).text();
}
/** At so many seconds after the start. */
export const bodyAt = (cluster: FakeCluster, seconds: number, endpoint = 0) => {
  time.now = begin + seconds * 1000;
  return body(cluster, endpoint);
};
