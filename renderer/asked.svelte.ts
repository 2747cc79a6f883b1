/**
 * A question that is put to the engine again and again as what is in view moves and ticks come: at most one ask is under
 * way, the last wish wins, what was found stays until the new is in. Nothing is asked while the page is hidden, and live
 * never more than a tenth of the time that an answer takes. Knows neither what is asked nor what is answered.
 */
import { isKind, sentence } from './sentence.ts';

/** What is shown is old once an answer takes longer than this. */
const patienceMs = 300;

export class Asked<Wish, Found> {
  found = $state.raw<Found | null>(null);
  /** Why there is nothing. */
  fault = $state<string | null>(null);
  /** An answer to another wish than the one that is shown is long in coming. */
  late = $state(false);
  readonly #ask: (wish: Wish, signal: AbortSignal) => Promise<Found>;
  readonly #restMs: number;
  #wish: Wish | null = null;
  /** The wish is not the one before with a tick more. */
  #other = false;
  #under: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #notBefore = 0;
  #closed = false;

  /** `restMs`: a wish that goes on from the one before waits at least so long after its answer. */
  constructor(ask: (wish: Wish, signal: AbortSignal) => Promise<Found>, restMs = 0) {
    this.#ask = ask;
    this.#restMs = restMs;
  }

  /** Goes on from an ask that runs: its answer is as good. */
  want(wish: Wish) {
    this.#wish = wish;
    if (this.#under === null && this.#timer === undefined) this.#in(this.#notBefore - performance.now());
  }

  /** What was asked for is of no use any more. */
  wantAnew(wish: Wish, delayMs: number) {
    this.#wish = wish;
    this.#other = true;
    this.#under?.abort();
    this.#under = null;
    this.#in(delayMs);
  }

  #in(ms: number) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#now(), Math.max(0, ms));
  }

  async #now() {
    this.#timer = undefined;
    const wish = this.#wish;
    if (wish === null || this.#closed || document.hidden) return;
    this.#wish = null;
    const control = new AbortController();
    this.#under = control;
    const begin = performance.now();
    const other = this.#other;
    this.#other = false;
    const slow = setTimeout(() => (this.late = other), patienceMs);
    try {
      const found = await this.#ask(wish, control.signal);
      if (control.signal.aborted) return;
      this.found = found;
      this.fault = null;
    } catch (error) {
      if (control.signal.aborted || isKind(error, 'cancelled') || isKind(error, 'engine-gone')) return;
      this.fault = sentence(error);
    } finally {
      clearTimeout(slow);
      if (this.#under === control) {
        this.#under = null;
        this.late = false;
        const end = performance.now();
        this.#notBefore = end + Math.max(this.#restMs, 10 * (end - begin));
        if (this.#wish !== null) this.#in(this.#notBefore - end);
      }
    }
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#under?.abort();
  }
}
