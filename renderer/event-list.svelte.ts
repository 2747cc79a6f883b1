/** What the view of events is set to: it outlives a look at another view. */
import type { Group } from './event-rows.ts';

export class EventList {
  group = $state<Group | 'all'>('all');
  /** '': everybody; `w3`, or an endpoint's address. */
  who = $state('');
  /** The key of the chosen row. */
  chosen = $state<string | null>(null);
  /** Pixels. */
  scrolled = 0;
}
