/**
 * Bodies of file_stream, the door through which rows go to W&B. A line's number is its place in the server's file, so
 * the same body may be sent again. Pure.
 */
import { ownError } from './errors.ts';
import { encodeSummary } from './json.ts';
import type { JsonObject } from './contract.ts';

/** What W&B takes of one line; longer ones it refuses. */
export const MAX_LINE_BYTES = 10 * 1024 * 1024 - 100 * 1024;
/** Of one request: small enough to be sent again without regret. */
export const MAX_LINES = 2000;
export const MAX_BYTES = 1_500_000;

export interface StreamParts {
  /** Consecutive lines of the history, from `offset` on. */
  history?: { offset: number; lines: readonly string[] };
  /** The whole of it, always. */
  summary?: JsonObject;
  /** Names of files that were uploaded. */
  uploaded?: readonly string[];
  /** The run's exit code; nothing may come after it. */
  exitCode?: number;
}

/** How many of the lines go into one request. Throws for a line that W&B would not take. `offset`: of the first. */
export function fitting(lines: readonly string[], offset: number): number {
  let bytes = 0;
  for (const [i, line] of lines.entries()) {
    const size = Buffer.byteLength(line);
    if (size > MAX_LINE_BYTES)
      throw ownError(
        'refused',
        `Row ${offset + i} has ${(size / 1024 / 1024).toFixed(1)} MiB; W&B takes no row of more than 9.9 MiB.`,
        'Upload fewer metrics, or leave the timelines out.',
      );
    bytes += size;
    if (i > 0 && (bytes > MAX_BYTES || i >= MAX_LINES)) return i;
  }
  return lines.length;
}

/** Nothing at all is the heartbeat. */
export function streamBody({ history, summary, uploaded = [], exitCode }: StreamParts): string {
  const files = {
    ...(history &&
      history.lines.length > 0 && {
        'wandb-history.jsonl': { offset: history.offset, content: history.lines },
      }),
    ...(summary && { 'wandb-summary.json': { offset: 0, content: [encodeSummary(summary)] } }),
  };
  return JSON.stringify({
    ...(Object.keys(files).length > 0 && { files }),
    ...(uploaded.length > 0 && { uploaded }),
    ...(exitCode !== undefined && { complete: true, exitcode: exitCode }),
  });
}
