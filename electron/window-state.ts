/**
 * Where the window was, and where it may be: never smaller than the page can be used in, never larger than the display,
 * never on a display that is gone. Sizes are Electron's device-independent pixels.
 */
import type { BrowserWindow, Rectangle } from 'electron';

export interface WindowState extends Rectangle {
  maximised: boolean;
}

export const leastSize = { width: 900, height: 600 };
const usualSize = { width: 1440, height: 900 };
/** As much of the window's upper edge must be on a display, to be taken hold of. */
const grip = { width: 100, height: 30 };

/** What was read from a file; null where it is no such state. */
export function readWindowState(found: unknown): WindowState | null {
  if (typeof found !== 'object' || found === null) return null;
  const { x, y, width, height, maximised } = found as { [key in keyof WindowState]?: unknown };
  const numbers = [x, y, width, height];
  if (!numbers.every((n) => Number.isInteger(n) && Math.abs(n as number) < 100_000)) return null;
  return { x, y, width, height, maximised: maximised === true } as WindowState;
}

/**
 * Bounds for a new window. `areas` are the displays' work areas, the primary one first. Without x and y the system
 * places it.
 */
export function boundsFor(
  kept: WindowState | null,
  areas: readonly Rectangle[],
): Partial<Rectangle> & { width: number; height: number } {
  const area = kept === null ? undefined : areas.find((one) => canBeHeld(kept, one));
  const within = area ?? areas[0];
  const size = kept ?? usualSize;
  const width = Math.max(leastSize.width, Math.min(size.width, within?.width ?? Infinity));
  const height = Math.max(leastSize.height, Math.min(size.height, within?.height ?? Infinity));
  return area === undefined || kept === null ? { width, height } : { x: kept.x, y: kept.y, width, height };
}

function canBeHeld(window: Rectangle, area: Rectangle): boolean {
  const wide = Math.min(window.x + window.width, area.x + area.width) - Math.max(window.x, area.x);
  const low = window.y + grip.height <= area.y + area.height;
  // systems count their own borders differently, a few pixels above the area
  return wide >= grip.width && window.y >= area.y - grip.height / 2 && low;
}

/** Tells where the window is, half a second after it was last moved, and when it is closed. */
export function followWindow(window: BrowserWindow, moved: (state: WindowState) => void): void {
  let timer: NodeJS.Timeout | undefined;
  const tell = () => {
    clearTimeout(timer);
    if (window.isDestroyed() || window.isMinimized() || window.isFullScreen()) return;
    moved({ ...window.getNormalBounds(), maximised: window.isMaximized() });
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(tell, 500);
  };
  window.on('resize', soon).on('move', soon).on('maximize', soon).on('unmaximize', soon).on('close', tell);
  window.on('closed', () => clearTimeout(timer));
}
