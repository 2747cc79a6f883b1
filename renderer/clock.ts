/** Times of day as the page shows them: local, with the zone said once; and where a time axis has its ticks. */
import type { Span } from './span.ts';

const pad = (n: number) => String(n).padStart(2, '0');

/** `09:02:17` */
export function clock(at: number): string {
  const d = new Date(at);
  return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `30 Nov`, with the year where it is another one. */
export function day(at: number, now = Date.now()): string {
  const d = new Date(at);
  const year = d.getFullYear() === new Date(now).getFullYear() ? '' : ` ${d.getFullYear()}`;
  return `${d.getDate()} ${months[d.getMonth()]}${year}`;
}

export const sameDay = (a: number, b: number) => new Date(a).toDateString() === new Date(b).toDateString();

/** `09:02`, with the date where it is not today. */
export function moment(at: number, now = Date.now()): string {
  const short = clock(at).slice(0, 5);
  return sameDay(at, now) ? short : `${day(at, now)} ${short}`;
}

/** Made once: that takes milliseconds. */
const zoneFormat = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'short' });

/** The zone's short name at that time: `UTC`, `CET`, `GMT+1`. */
export function zone(at: number): string {
  const parts = zoneFormat.formatToParts(at);
  return parts.find((p) => p.type === 'timeZoneName')?.value ?? '';
}

const stepsSeconds = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800,
  604_800,
];

/** Seconds from tick to tick; null: there is no room for any. */
function tickSeconds(from: number, to: number, pixels: number, apart: number): number | null {
  const span = (to - from) / 1000;
  if (!(span > 0) || !(pixels > 0)) return null;
  return stepsSeconds.find((s) => (pixels * s) / span >= apart) ?? 604_800;
}

export interface AxisTick {
  at: number;
  label: string;
}

/** Ticks at round local times, at least `apart` pixels from each other. */
export function axisTicks(from: number, to: number, pixels: number, apart: number): AxisTick[] {
  const step = tickSeconds(from, to, pixels, apart);
  if (step === null) return [];
  // Round local times are multiples of the step after the zone's offset is added; it is taken once, at the window's
  // begin: a change of clocks inside the window shifts the labels behind it, which still say the right time.
  const offset = -new Date(from).getTimezoneOffset() * 60_000;
  const ms = step * 1000;
  const ticks: AxisTick[] = [];
  for (let at = Math.ceil((from + offset) / ms) * ms - offset; at <= to; at += ms) {
    const d = new Date(at);
    const midnight = d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0;
    const label = step >= 86_400 || midnight ? day(at) : step >= 60 ? clock(at).slice(0, 5) : clock(at);
    ticks.push({ at, label });
  }
  return ticks;
}

/** Times in a window that are round lengths after `begin`, it included, at least `apart` pixels from each other. */
export function sinceTicks(begin: number, window: Span, pixels: number, apart: number): number[] {
  const step = tickSeconds(window.from, window.to, pixels, apart);
  if (step === null) return [];
  const ms = step * 1000;
  const ticks: number[] = [];
  for (let at = begin + Math.max(0, Math.ceil((window.from - begin) / ms)) * ms; at <= window.to; at += ms)
    ticks.push(at);
  return ticks;
}
