/**
 * The recordings of a real vLLM in fixtures/recorded as run files: each scrape goes through parser, book and store with
 * its own times, as the engine would have recorded it.
 */
import fs from 'node:fs';
import path from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import type { OutcomeReason } from '../electron/engine/api.ts';
import { parse } from '../electron/engine/parse.ts';
import { RunMaker, START } from './run-files.ts';

interface Scrape {
  endpoint: number;
  sent: number;
  ms: number;
  status: number;
  error?: string;
  body?: string;
}

const reasons: Record<string, [OutcomeReason, string]> = {
  TimeoutError: ['timeout', 'did not answer within 1 s.'],
  ClientConnectorError: ['refused', 'refused the connection. Is the server up?'],
  ClientOSError: ['unreachable', 'closed the connection before it answered.'],
  ServerDisconnectedError: ['unreachable', 'closed the connection before it answered.'],
};

/** An answer belongs to the slot in which it came. Leaves the run closed. */
export function writeRecording(name: 'rollouts' | 'dp2', file: string): void {
  const lines = zstdDecompressSync(
    fs.readFileSync(path.join(import.meta.dirname, 'fixtures/recorded', `${name}.jsonl.zst`)),
  ).toString();
  const run = new RunMaker(file, name === 'rollouts' ? 2 : 1);
  const slots = new Map<number, Map<number, Scrape>>();
  for (const line of lines.split('\n').filter((l) => l !== '')) {
    const scrape = JSON.parse(line) as Scrape;
    const slot = Math.floor(scrape.sent + scrape.ms / 1000);
    const there = slots.get(slot) ?? new Map<number, Scrape>();
    slots.set(slot, there);
    // of several in one slot the first that answered, as in the engine
    if (there.get(scrape.endpoint)?.status !== 200) there.set(scrape.endpoint, scrape);
  }
  for (const [slot, there] of [...slots].sort(([a], [b]) => a - b)) {
    const all = [...there.values()];
    run.tick(
      slot,
      START + slot * 1000,
      all
        .filter((s) => s.status === 200)
        .map((s) => ({
          endpoint: s.endpoint,
          body: parse(Buffer.from(s.body!).toString('latin1')),
          sentAt: START + s.sent * 1000,
          receivedAt: START + s.sent * 1000 + s.ms,
          serverAt: null,
          version: null,
        })),
      all
        .filter((s) => s.status !== 200)
        .map((s) => {
          const [reason, words] = reasons[s.error ?? ''] ?? ['unreachable', 'cannot be reached.'];
          return { endpoint: s.endpoint, reason, sentence: `host-${s.endpoint}:8000 ${words}`, asked: true };
        }),
    );
  }
  run.store.close(START + Math.max(...slots.keys()) * 1000);
}
