/** Faults of the stand-in for W&B: which request they wait for, and how an answer then goes wrong on its way. */
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** One request's misfortune; several at a time go together. An empty one lets its request pass. */
export interface Fault {
  /** This instead of the answer; the request is not applied. */
  status?: number;
  /** With `status`: a string as it is, anything else as JSON. */
  body?: unknown;
  /** More headers, such as Retry-After or RateLimit-Remaining; also on an answer that goes well. */
  headers?: Record<string, string>;
  /** The answer waits so long; the request is applied at once. */
  delayMs?: number;
  /** The connection ends without an answer, before or after the request was applied. */
  lost?: 'before' | 'after';
  /** The same with a reset. */
  reset?: 'before' | 'after';
  /** Applied, and the connection ends amid the answer's body. */
  half?: boolean;
  /** Applied, and 200 with something that is not JSON. */
  malformed?: boolean;
  /** file_stream: somebody pressed Stop; from now on every answer for this run says so. */
  stopped?: boolean;
  /** UpsertBucket, RunResumeStatus: so many lines more than there are; fewer where negative. */
  historyLineCountOff?: number;
  /** CreateRunFiles: addresses without scheme and host. */
  relativeUploadUrl?: boolean;
  /** CreateRunFiles: these, which each PUT must then carry; `Name:value`. */
  uploadHeaders?: string[];
  /** PUT: 403 from now on for this address; CreateRunFiles gives another. */
  expired?: boolean;
}

/** `graphql`, `file_stream`, `put`, or the name of an operation such as `UpsertBucket`. */
export type FaultTarget = 'graphql' | 'file_stream' | 'put' | (string & {});

export class Faults {
  private readonly waiting: { on: FaultTarget; fault: Fault; times: number }[] = [];

  add(on: FaultTarget, fault: Fault, times: number): void {
    this.waiting.push({ on, fault, times });
  }

  /** The oldest that waits for such a request; it is used up. */
  take(kind: string, operation: string | null): Fault {
    const found = this.waiting.find(({ on, times }) => times > 0 && (on === kind || on === operation));
    if (!found) return {};
    found.times--;
    return found.fault;
  }
}

export interface Reply {
  status: number;
  /** A string or bytes as they are, anything else as JSON. */
  body: unknown;
  headers?: Record<string, string>;
  /** The rule that the request broke. */
  violation?: string;
}

/** Ends the answer's connection instead. */
export function cutOff(response: ServerResponse, how: 'lost' | 'reset'): void {
  if (how === 'reset') response.socket?.resetAndDestroy();
  else response.socket?.destroy();
}

/** Sends it as the fault wants it. `done` is called when the request counts as answered. */
export async function send(
  response: ServerResponse,
  fault: Fault,
  reply: Reply,
  done: () => void,
): Promise<void> {
  if (fault.delayMs) await sleep(fault.delayMs);
  if (fault.lost) return cutOff(response, 'lost');
  if (fault.reset) return cutOff(response, 'reset');
  const { status } = reply;
  const plain = typeof reply.body === 'string' || Buffer.isBuffer(reply.body);
  const whole = Buffer.from(plain ? (reply.body as string | Buffer) : JSON.stringify(reply.body));
  const body = fault.malformed ? Buffer.from('<html>it works</html>') : whole;
  const headers = { 'Content-Type': 'application/json', ...reply.headers, ...fault.headers };
  response.writeHead(status, { ...headers, 'Content-Length': body.length });
  if (fault.half)
    return void response.write(body.subarray(0, body.length / 2), () => cutOff(response, 'lost'));
  done();
  response.end(body);
}
