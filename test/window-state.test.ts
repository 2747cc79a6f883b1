// Where a window opens: as it was left, but never where nobody can take hold of it, and after any file at all.
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { remember } from '../electron/remembered.ts';
import { boundsFor, readWindowState } from '../electron/window-state.ts';
import { folderFor } from './engines.ts';

const laptop = { x: 0, y: 25, width: 1512, height: 920 };
const right = { x: 1512, y: 0, width: 2560, height: 1400 };
const left = { x: -1920, y: 0, width: 1920, height: 1040 };
const state = (x: number, y: number, width = 1200, height = 800) => ({
  x,
  y,
  width,
  height,
  maximised: false,
});

describe('a window opens', () => {
  test.each([
    ['for the first time: the usual size, placed by the system', null, [right], { width: 1440, height: 900 }],
    [
      'for the first time on a small display',
      null,
      [{ ...laptop, width: 1280, height: 700 }],
      { width: 1280, height: 700 },
    ],
    ['where it was', state(100, 100), [laptop], { x: 100, y: 100, width: 1200, height: 800 }],
    [
      'on the second display',
      state(2000, 50, 1800, 1200),
      [laptop, right],
      { x: 2000, y: 50, width: 1800, height: 1200 },
    ],
    [
      'on a display at the left',
      state(-1800, 50),
      [laptop, left],
      { x: -1800, y: 50, width: 1200, height: 800 },
    ],
    [
      'partly beside the display, but to be taken hold of',
      state(1400, 300),
      [laptop],
      { x: 1400, y: 300, width: 1200, height: 800 },
    ],
    ['on the primary display, its own being gone', state(2000, 50), [laptop], { width: 1200, height: 800 }],
    [
      'not larger than the display that is left',
      state(2000, 50, 2400, 1300),
      [laptop],
      { width: 1512, height: 920 },
    ],
    ['not with its title below the display', state(100, 930), [laptop], { width: 1200, height: 800 }],
    ['not with its title above the display', state(100, -40), [laptop], { width: 1200, height: 800 }],
    ['not with a sliver to be seen', state(1500, 100), [laptop], { width: 1200, height: 800 }],
    [
      'never smaller than the page needs',
      state(10, 30, 200, 50),
      [laptop],
      { x: 10, y: 30, width: 900, height: 600 },
    ],
    [
      'never smaller than the page needs, on any display',
      state(0, 0),
      [{ x: 0, y: 0, width: 640, height: 480 }],
      { x: 0, y: 0, width: 900, height: 600 },
    ],
  ] as const)('%s', (_what, kept, areas, expected) => {
    expect(boundsFor(kept, areas)).toEqual(expected);
  });
});

test.each([
  null,
  'text',
  {},
  { x: 1, y: 2, width: 3 },
  { x: '1', y: 2, width: 3, height: 4 },
  { x: 0.5, y: 2, width: 3, height: 4 },
  { x: 1e9, y: 2, width: 3, height: 4 },
  [[1, 2, 3, 4]],
])('%j is no window', (found) => {
  expect(readWindowState(found)).toBeNull();
});

describe('what the app remembers', () => {
  test('comes back, a change at a time', () => {
    const file = path.join(folderFor(onTestFinished), 'window', 'desktop.json');
    const first = remember(file);
    expect([first.window, first.onQuit]).toEqual([null, 'ask']);
    first.set({ window: { ...state(1, 2), maximised: true } });
    first.set({ onQuit: 'keep' });
    expect(first.onQuit).toBe('keep');
    const second = remember(file);
    expect([second.window, second.onQuit]).toEqual([{ ...state(1, 2), maximised: true }, 'keep']);
  });

  test.each(['', '{', 'null', '[]', '{"window":7,"onQuit":"explode"}'])(
    'is the default after "%s"',
    (text) => {
      const folder = folderFor(onTestFinished);
      const file = path.join(folder, 'desktop.json');
      fs.writeFileSync(file, text);
      const remembered = remember(file);
      expect([remembered.window, remembered.onQuit]).toEqual([null, 'ask']);
    },
  );

  test('holds for this time where it cannot be written', () => {
    const folder = folderFor(onTestFinished);
    fs.writeFileSync(path.join(folder, 'taken'), '');
    const remembered = remember(path.join(folder, 'taken', 'desktop.json'));
    remembered.set({ onQuit: 'stop' });
    expect(remembered.onQuit).toBe('stop');
  });
});
