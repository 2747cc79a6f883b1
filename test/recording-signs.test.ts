// What the desktop is told of recordings, on every system: Electron's objects are stand-ins here that only remember what
// they were told.
import { EventEmitter } from 'node:events';
import type { MenuItemConstructorOptions } from 'electron';
import { describe, expect, test } from 'vitest';
import { recordingSigns, type SignsOptions } from '../electron/recording-signs.ts';

type Items = MenuItemConstructorOptions[];

/** A desktop that remembers what it was asked to show. */
function desktop(platform: NodeJS.Platform, notifies = true) {
  const seen = {
    badge: '',
    opened: 0,
    quits: 0,
    awake: new Set<number>(),
    notifications: [] as Note[],
    trays: [] as Tray[],
  };
  class Tray extends EventEmitter {
    image: string;
    tip = '';
    items: Items = [];
    constructor(image: string) {
      super();
      this.image = image;
      seen.trays.push(this);
    }
    setImage(image: string) {
      this.image = image;
    }
    setToolTip(tip: string) {
      this.tip = tip;
    }
    setContextMenu(items: Items) {
      this.items = items;
    }
  }
  class Note extends EventEmitter {
    static isSupported = () => notifies;
    options: { body: string };
    shown = false;
    constructor(options: { body: string }) {
      super();
      this.options = options;
      seen.notifications.push(this);
    }
    show() {
      this.shown = true;
    }
  }
  let blockers = 0;
  const show = recordingSigns({
    app: { dock: platform === 'darwin' ? { setBadge: (text: string) => (seen.badge = text) } : undefined },
    Menu: { buildFromTemplate: (items: Items) => items },
    Notification: Note,
    Tray,
    powerSaveBlocker: {
      start: () => {
        seen.awake.add(++blockers);
        return blockers;
      },
      stop: (id: number) => seen.awake.delete(id),
    },
    platform,
    icons: { idle: 'idle.png', recording: 'recording.png', app: 'app.png' },
    open: () => seen.opened++,
    quit: () => seen.quits++,
  } as unknown as SignsOptions);
  const tell = (recording: string[], stopped: string[] = []) => show({ recording, stopped });
  return { seen, tell, tray: seen.trays[0] };
}

const labels = (items: Items = []) => items.map(({ label, type }) => label ?? type);
const click = (items: Items = [], label: string) =>
  (items.find((item) => item.label === label)?.click as (() => void) | undefined)?.();

describe('something is being recorded', () => {
  test.each(['linux', 'win32'] as const)('on %s the tray says so', (platform) => {
    const { seen, tell, tray } = desktop(platform);
    expect(seen.trays).toHaveLength(1);
    expect(tray).toMatchObject({ image: 'idle.png', tip: 'vLLM Scope' });
    expect(labels(tray?.items)).toEqual(['Open vLLM Scope', 'separator', 'Quit']);

    tell(['grpo', 'R&D']);
    expect(tray).toMatchObject({ image: 'recording.png', tip: 'vLLM Scope: recording grpo, R&D' });
    // a single & would be taken for the mark of a letter
    expect(labels(tray?.items)).toEqual([
      'Open vLLM Scope',
      'separator',
      'Recording grpo',
      'Recording R&&D',
      'Stop recording and quit',
    ]);
    click(tray?.items, 'Open vLLM Scope');
    tray?.emit('click');
    expect(seen.opened).toBe(2);
    click(tray?.items, 'Stop recording and quit');
    expect(seen.quits).toBe(1);

    tell([]);
    expect(tray).toMatchObject({ image: 'idle.png', tip: 'vLLM Scope' });
    expect(seen.trays).toHaveLength(1);
  });

  test('on macOS the dock does', () => {
    const { seen, tell } = desktop('darwin');
    tell(['grpo']);
    expect(seen).toMatchObject({ badge: '●', trays: [] });
    tell([]);
    expect(seen.badge).toBe('');
  });

  test('a tooltip fits into what Windows shows', () => {
    const { tell, tray } = desktop('win32');
    tell(Array.from({ length: 20 }, (_, i) => `a cluster with a long name ${i}`));
    expect(tray?.tip.length).toBeLessThan(128);
    expect(tray?.tip).toMatch(/…$/);
  });

  test('the machine is kept awake for as long, once', () => {
    const { seen, tell } = desktop('linux');
    expect(seen.awake.size).toBe(0);
    tell(['grpo']);
    tell(['grpo', 'eval']);
    expect(seen.awake.size).toBe(1);
    tell(['eval']);
    expect(seen.awake.size).toBe(1);
    tell([]);
    expect(seen.awake.size).toBe(0);
    tell(['grpo']);
    expect(seen.awake.size).toBe(1);
  });
});

describe('recording that stopped by itself', () => {
  test('is told once, with its sentence; a click opens the window', () => {
    const { seen, tell } = desktop('linux');
    tell(['grpo', 'eval']);
    tell(['eval'], ['grpo: Recording stopped: the disk is full.']);
    tell(['eval'], ['grpo: Recording stopped: the disk is full.']);
    tell([], ['grpo: Recording stopped: the disk is full.', 'eval: Recording stopped: the disk is full.']);
    expect(seen.notifications.map(({ options }) => options.body)).toEqual([
      'grpo: Recording stopped: the disk is full.',
      'eval: Recording stopped: the disk is full.',
    ]);
    expect(seen.notifications.every(({ shown }) => shown)).toBe(true);
    seen.notifications[0]?.emit('click');
    expect(seen.opened).toBe(1);

    // recorded again, and stopped again
    tell(['grpo']);
    tell([], ['grpo: Recording stopped: the disk is full.']);
    expect(seen.notifications).toHaveLength(3);
  });

  test('is not told where there are no notifications', () => {
    const { seen, tell } = desktop('linux', false);
    tell([], ['grpo: Recording stopped: the disk is full.']);
    expect(seen.notifications).toEqual([]);
  });
});
