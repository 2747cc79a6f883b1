/** The y axis of a panel: which values it spans and where a value stands in it. Pure. */

export interface Scale {
  low: number;
  high: number;
  log: boolean;
}

/** The next round number of {1, 1.6, 2, 3, 4, 5, 6, 8, 10} x 10^n. */
export function nice(v: number): number {
  if (!(v > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  for (const m of [1, 1.6, 2, 3, 4, 5, 6, 8, 10]) if (v <= m * power * 1.0001) return m * power;
  return v;
}

/**
 * From 0 to a round top. While following, `before` is the scale shown last: it may grow at once but shrinks only when
 * the peak fell below half of it, so that the axis does not pump.
 */
export function linear(unit: string, peak: number, before: Scale | undefined): Scale {
  // requests and counts: never an axis that ends between two whole ones
  const least = unit === 'requests' || unit === 'level' ? 2 : 0;
  const high = unit === 'ratio' ? 1 : nice(Math.max(peak, least));
  if (before && !before.log && high < before.high && peak > before.high / 2)
    return { low: 0, high: before.high, log: false };
  return { low: 0, high, log: false };
}

/** From the smallest value's decade to a round top. */
export function logarithmic(lowest: number, peak: number): Scale {
  if (!(peak > 0) || !Number.isFinite(lowest)) return { low: 0.1, high: 1, log: true };
  const low = 10 ** Math.floor(Math.log10(lowest));
  return { low, high: Math.max(nice(peak), low * 10), log: true };
}

/** 0 at the bottom, 1 at the top; values outside lie outside. */
export function share(s: Scale, v: number): number {
  if (!s.log) return (v - s.low) / (s.high - s.low);
  return v <= s.low ? 0 : Math.log(v / s.low) / Math.log(s.high / s.low);
}

/** The three values with a grid line; with a logarithm the decades. */
export function gridValues(s: Scale): number[] {
  if (!s.log) return [s.low, (s.low + s.high) / 2, s.high];
  const values: number[] = [];
  for (let v = s.low; v <= s.high * 1.0001; v *= 10) values.push(v);
  return values;
}
