/**
 * When a request is sent again, and how long to wait before: the server's Retry-After, or twice as long each time. And
 * the pace that RateLimit headers ask for. Knows no socket; time and chance are given.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { WandbError } from './errors.ts';
import type { Timing } from './contract.ts';

export const realTiming: Timing = {
  now: Date.now,
  random: Math.random,
  sleep: (ms, signal) => sleep(ms, undefined, { signal }),
};

/** A wait as a sentence without a full stop, and its end in epoch ms; nulls: it goes on. */
export type Waiting = (why: string | null, until: number | null) => void;

export interface Retrying {
  /** Tries in all, of one request; Infinity: until it is cancelled. */
  tries: number;
  timing: Timing;
  signal: AbortSignal;
  waiting?: Waiting;
}

const FIRST_MS = 2000;
const LONGEST_MS = 60_000;
const SHORTEST_MS = 500;
/** A server that asks for more is asked again all the same: nobody notices when it has forgotten its wish. */
const LONGEST_ASKED_MS = 3600_000;

/** Ms before try `n + 1`, counted from 0; `chance` is 0 to 1 and adds up to a quarter. */
export const backOff = (n: number, chance: number): number =>
  Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(n, 10) * (1 + chance / 4));

/** The SDK gives a request 20 tries, which is some 15 minutes. */
export const USUAL_TRIES = 20;

/** Sends until it is taken. Throws the last fault, or at once one that would come again; the signal's reason. */
export async function retrying<T>(attempt: () => Promise<T>, options: Retrying): Promise<T> {
  const { tries, timing, signal, waiting } = options;
  for (let n = 0; ; n++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof WandbError) || !error.retry || n + 1 >= tries) throw error;
      const asked = error.retryAfterMs;
      const ms =
        asked === null
          ? backOff(n, timing.random())
          : Math.min(LONGEST_ASKED_MS, Math.max(SHORTEST_MS, asked));
      waiting?.(reasonFor(error, ms), timing.now() + ms);
      await timing.sleep(ms, signal);
      waiting?.(null, null);
    }
  }
}

/** Why it waits, for the page. */
function reasonFor({ kind, message, status, retryAfterMs }: WandbError, ms: number): string {
  const time = inWords(ms);
  if (retryAfterMs !== null) return `W&B asks to wait ${time}`;
  if (kind === 'limited') return `W&B limits the pace; again in ${time}`;
  const said = message.replace(/\.$/, '');
  return `${status === null ? said : `W&B answered ${status} "${said}"`}; again in ${time}`;
}

/** `12 s`, `5 min`. */
export const inWords = (ms: number): string =>
  ms < 100_000 ? `${Math.ceil(ms / 1000)} s` : `${Math.round(ms / 60_000)} min`;

/** The least pace, whatever the headers say; as the SDK has it. */
const MIN_PER_SECOND = 0.1;
/** How much of an estimate is the one before it, and of how many requests it is made. */
const SMOOTHING = 0.2;
const REQUESTS = 5;

/**
 * How far apart requests must be so that what RateLimit-Remaining leaves lasts until RateLimit-Reset. Its unit is the
 * server's secret: how much of it a request costs is learnt from the requests themselves, as the SDK does it.
 */
export class Pace {
  private readonly maxPerSecond: number;
  private requests = 0;
  private remaining = 0;
  /** When what was remaining is reset, epoch ms. */
  private resetAt = 0;
  private requestsPerUnit = 1;
  private unitsPerSecond: number;

  /** `leastMs`: what requests are apart where no header asks for more. */
  constructor(leastMs: number) {
    this.maxPerSecond = 1000 / leastMs;
    this.unitsPerSecond = this.maxPerSecond;
  }

  /** From an answer's headers, by lower-case names. */
  observe(headers: Readonly<Record<string, string | string[] | undefined>>, now: number): void {
    this.requests++;
    const remaining = Number(headers['ratelimit-remaining'] ?? NaN);
    const reset = Number(headers['ratelimit-reset'] ?? NaN);
    // too little is left of its time to make a pace of it
    if (!(remaining >= 0) || !(reset > 1)) return;
    const anew = now > this.resetAt;
    if (!anew && this.requests < REQUESTS) return;
    const used = this.remaining - remaining;
    this.unitsPerSecond = remaining / reset;
    const seen =
      anew || used < 1
        ? this.maxPerSecond / Math.max(this.unitsPerSecond, 1e-6) // nothing says that it costs anything
        : this.requests / used;
    this.requestsPerUnit = this.requestsPerUnit * SMOOTHING + seen * (1 - SMOOTHING);
    this.requests = 0;
    this.remaining = remaining;
    this.resetAt = now + reset * 1000;
  }

  /** Ms from one request to the next. */
  get intervalMs(): number {
    const perSecond = this.requestsPerUnit * this.unitsPerSecond;
    return 1000 / Math.min(this.maxPerSecond, Math.max(MIN_PER_SECOND, perSecond));
  }
}
