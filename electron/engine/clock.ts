/**
 * The engine's time: the wall clock, except that it never goes back. Where the wall clock is set back, this one goes
 * on at the monotonic clock's pace until the wall clock has caught up, so that the times in a run rise with its ticks.
 */
export class Clock {
  /** The last time given, with its parts of a millisecond: rounded each time, it would lose its pace. */
  private last: number;
  private lastMono: number;
  private behind = false;
  private readonly wall: () => number;
  private readonly mono: () => number;
  private readonly steppedBack: (byMs: number) => void;

  /** `steppedBack` is told once for each time the wall clock is found over a second back. */
  constructor(
    steppedBack: (byMs: number) => void = () => {},
    wall: () => number = Date.now,
    mono: () => number = () => performance.now(),
  ) {
    this.steppedBack = steppedBack;
    this.wall = wall;
    this.mono = mono;
    this.last = wall();
    this.lastMono = mono();
  }

  /** Epoch ms, whole. */
  now(): number {
    const wall = this.wall();
    const mono = this.mono();
    const passed = mono - this.lastMono;
    this.lastMono = mono; // before anybody is told, who may ask for the time
    if (wall >= this.last) {
      this.last = wall;
      this.behind = false;
    } else {
      const by = this.last - wall;
      this.last += passed;
      if (by > 1000 && !this.behind) {
        this.behind = true;
        this.steppedBack(by);
      }
    }
    return Math.round(this.last);
  }

  /** Never give a time before this one (a run that goes on has times already). */
  notBefore(at: number): void {
    if (at > this.last) this.last = at;
  }
}

/** `2026-11-30 09:02`, local: the default name's end. */
export function localStamp(at: number): string {
  const d = new Date(at);
  const two = (n: number) => String(n).padStart(2, '0');
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}`;
}
