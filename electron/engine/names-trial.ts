/**
 * Finds out whether an endpoint honours `name[]`, and asks it by name from then on. What does not honour it answers whole
 * all the same, so trying costs no scrape of its own: the second answer tells.
 */
import type { ParsedBody } from './parse.ts';
import { namesOf, type Outcome, type Scraper } from './scrape.ts';

export class NamesTrial {
  private found: 'untried' | 'trial' | 'yes' | 'no' = 'untried';
  /** The whole answer that the trial is compared with. */
  private whole: ParsedBody | null = null;

  get restricted(): boolean {
    return this.found === 'yes';
  }

  async scrape(scraper: Scraper, signal: AbortSignal): Promise<Outcome> {
    scraper.names = this.found === 'trial' || this.found === 'yes';
    const outcome = await scraper.scrape(signal);
    if (!outcome.ok) {
      // refused with names, or nothing came by them: once more without
      if (!scraper.names || !['http', 'no-vllm', 'not-metrics'].includes(outcome.reason)) return outcome;
      scraper.names = false;
      const again = await scraper.scrape(signal);
      if (again.ok) this.found = 'no';
      return again;
    }
    // a whole answer has much of vLLM that nobody asks for: histograms of prompt lengths since 0.4.2
    const more = namesOf(outcome.body, 'others').length > 0;
    if (this.found === 'trial') {
      this.found = !more && this.whole && hasAllOf(outcome.body, this.whole) ? 'yes' : 'no';
      this.whole = null;
    } else if (this.found === 'untried' && more) {
      this.found = 'trial';
      this.whole = outcome.body;
    }
    return outcome;
  }
}

/** Whether each worker of `whole` is in `body` with all its values and histograms. */
const hasAllOf = (body: ParsedBody, whole: ParsedBody) =>
  whole.workers.every(({ engine, model, replica, values, buckets }) => {
    const same = body.workers.find((w) => w.engine === engine && w.model === model && w.replica === replica);
    return (
      same !== undefined &&
      values.every((v, i) => Number.isNaN(v) || !Number.isNaN(same.values[i]!)) &&
      [...buckets].every(([metric, { bounds }]) => same.buckets.get(metric)?.bounds === bounds)
    );
  });
