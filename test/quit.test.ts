// What closing the window and quitting do, on every system: Electron's app and window are stand-ins here that close and
// quit as Electron's do. Those of this system are met in shell-desktop.spec.ts.
import { EventEmitter } from 'node:events';
import type { BrowserWindow, MenuItemConstructorOptions, MessageBoxOptions } from 'electron';
import { describe, expect, test } from 'vitest';
import { menu } from '../electron/menu.ts';
import { guardQuit, type QuitOptions } from '../electron/quit.ts';
import type { OnQuit } from '../electron/remembered.ts';

interface Setting {
  platform?: NodeJS.Platform;
  recording?: string[];
  onQuit?: OnQuit;
  /** What is answered; undefined: nobody answers. */
  response?: number;
  checkboxChecked?: boolean;
}

/** An app with one window, which closes and quits as Electron's does. */
function running({
  platform = 'linux',
  recording = ['grpo'],
  onQuit = 'ask',
  response,
  checkboxChecked = false,
}: Setting = {}) {
  const app = Object.assign(new EventEmitter(), { gone: false, quit: () => quit() });
  const signals = new EventEmitter();
  const powerMonitor = new EventEmitter();
  const asked: MessageBoxOptions[] = [];
  const remembered = {
    window: null,
    onQuit,
    set: (change: object) => void Object.assign(remembered, change),
  };
  let window: (EventEmitter & { close(): void }) | null = null;
  let quitting = false;
  /** Whether the event may happen. */
  const may = (on: EventEmitter, name: string) => {
    let prevented = false;
    on.emit(name, { preventDefault: () => (prevented = true) });
    return !prevented;
  };
  function open() {
    const opened = Object.assign(new EventEmitter(), {
      close() {
        if (!may(opened, 'close')) return;
        // Electron's goes when its page has gone
        setImmediate(() => {
          window = null;
          if (quitting) app.gone = true;
          else app.emit('window-all-closed');
        });
      },
    });
    window = opened;
    guard.guard(opened as unknown as BrowserWindow);
  }
  function quit() {
    if (!may(app, 'before-quit')) return;
    quitting = true;
    if (window) window.close();
    else app.gone = true;
  }
  const guard = guardQuit({
    app,
    dialog: {
      showMessageBox: (...args: [...unknown[], MessageBoxOptions]) => {
        asked.push(args.at(-1) as MessageBoxOptions);
        return response === undefined
          ? new Promise(() => {})
          : Promise.resolve({ response, checkboxChecked });
      },
    },
    powerMonitor,
    signals,
    platform,
    remembered,
    recording: () => recording,
    window: () => window,
    onRemembered: () => undefined,
  } as unknown as QuitOptions);
  open();
  return {
    app,
    signals,
    powerMonitor,
    asked,
    remembered,
    recording,
    open,
    close: () => window?.close(),
    isOpen: () => window !== null,
    /** When everything that was begun has happened. */
    settled: () => new Promise((resolve) => setTimeout(resolve, 20)),
  };
}

const [stop, keep, cancel] = [0, 1, 2];

describe('while nothing is recorded', () => {
  test('closing the window quits, but on macOS', async () => {
    for (const platform of ['linux', 'win32', 'darwin'] as const) {
      const one = running({ platform, recording: [] });
      one.close();
      await one.settled();
      expect([one.asked, one.isOpen(), one.app.gone]).toEqual([[], false, platform !== 'darwin']);
    }
  });

  test('quitting asks nothing', async () => {
    const one = running({ recording: [] });
    one.app.quit();
    await one.settled();
    expect([one.asked, one.app.gone]).toEqual([[], true]);
  });
});

describe('while something is recorded', () => {
  test.each([
    ['stop', stop, false, true],
    ['keep', keep, false, false],
    ['cancel', cancel, true, false],
  ])('closing the window asks; %s', async (_name, response, isOpen, gone) => {
    const one = running({ response });
    one.close();
    await one.settled();
    expect(one.asked).toHaveLength(1);
    expect(one.asked[0]).toMatchObject({
      message: 'grpo is being recorded.',
      buttons: ['Stop recording and quit', 'Keep recording without a window', 'Cancel'],
      cancelId: cancel,
    });
    expect([one.isOpen(), one.app.gone]).toEqual([isOpen, gone]);
    expect(one.remembered.onQuit).toBe('ask');
  });

  test('it asks one question at a time', async () => {
    const one = running();
    one.close();
    one.app.quit();
    one.close();
    await one.settled();
    expect(one.asked).toHaveLength(1);
    expect([one.isOpen(), one.app.gone]).toEqual([true, false]);
  });

  test('"Do not ask again" is remembered, but not with Cancel', async () => {
    for (const [response, onQuit] of [
      [stop, 'stop'],
      [keep, 'keep'],
      [cancel, 'ask'],
    ] as const) {
      const one = running({ response, checkboxChecked: true });
      one.close();
      await one.settled();
      expect(one.remembered.onQuit).toBe(onQuit);
    }
  });

  test('what was remembered is done without asking', async () => {
    const stopping = running({ onQuit: 'stop' });
    stopping.close();
    await stopping.settled();
    expect([stopping.asked, stopping.app.gone]).toEqual([[], true]);

    const keeping = running({ onQuit: 'keep' });
    keeping.app.quit();
    await keeping.settled();
    expect([keeping.asked, keeping.isOpen(), keeping.app.gone]).toEqual([[], false, false]);
    // opened again, it is the same again
    keeping.open();
    keeping.close();
    await keeping.settled();
    expect([keeping.asked, keeping.isOpen(), keeping.app.gone]).toEqual([[], false, false]);
    // until it is to ask again
    keeping.open();
    keeping.remembered.onQuit = 'ask';
    keeping.close();
    await keeping.settled();
    expect([keeping.asked.length, keeping.isOpen()]).toEqual([1, true]);
  });

  test('quitting without a window asks, whatever was remembered of keeping', async () => {
    const one = running({ onQuit: 'keep', response: stop });
    one.close();
    await one.settled();
    expect([one.isOpen(), one.app.gone]).toEqual([false, false]);
    one.app.quit();
    await one.settled();
    expect(one.asked).toHaveLength(1);
    expect(one.app.gone).toBe(true);
  });

  test('on macOS closing the window asks nothing, quitting does', async () => {
    const one = running({ platform: 'darwin', response: stop });
    one.close();
    await one.settled();
    expect([one.asked, one.isOpen(), one.app.gone]).toEqual([[], false, false]);
    one.app.quit();
    await one.settled();
    expect(one.asked).toHaveLength(1);
    expect(one.app.gone).toBe(true);
  });

  test('that stopped meanwhile there is nothing to keep', async () => {
    const one = running({ response: keep });
    one.close();
    one.recording.length = 0;
    await one.settled();
    expect(one.app.gone).toBe(true);
  });

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'])('%s asks nothing, an open question neither', async (signal) => {
    const one = running();
    one.close();
    await one.settled();
    expect(one.asked).toHaveLength(1);
    one.signals.emit(signal);
    await one.settled();
    expect([one.asked.length, one.app.gone]).toEqual([1, true]);
  });

  test('the end of the session asks nothing and is waited with', async () => {
    const one = running({ platform: 'darwin' });
    let waits = false;
    one.powerMonitor.emit('shutdown', { preventDefault: () => (waits = true) });
    await one.settled();
    expect([one.asked, one.app.gone, waits]).toEqual([[], true, true]);
  });

  test.each([
    [['grpo'], 'grpo is being recorded.'],
    [['grpo', 'eval'], 'grpo and eval are being recorded.'],
    [['a', 'b', 'c', 'd'], 'a, b and 2 more are being recorded.'],
  ])('the question names %j', async (recording, message) => {
    const one = running({ recording });
    one.close();
    await one.settled();
    expect(one.asked[0]?.message).toBe(message);
  });
});

describe('the menu', () => {
  type Items = MenuItemConstructorOptions[];
  const flat = (items: Items): Items =>
    items.flatMap((item) => [item, ...(Array.isArray(item.submenu) ? flat(item.submenu) : [])]);
  const items = (given: { mac?: boolean; packaged?: boolean; asks?: boolean; askAgain?: () => void }) =>
    flat(
      menu({
        mac: false,
        packaged: true,
        asks: true,
        askAgain: () => undefined,
        press: () => undefined,
        ...given,
      }),
    );

  test.each([true, false])(
    'undoes "Do not ask again", where there is something to undo; macOS: %s',
    (mac) => {
      let again = 0;
      const ask = (asks: boolean) =>
        items({ mac, asks, askAgain: () => again++ }).find(({ type }) => type === 'checkbox');
      expect(ask(true)).toMatchObject({ checked: true, enabled: false });
      expect(ask(false)).toMatchObject({ checked: false, enabled: true });
      (ask(false)?.click as () => void)();
      expect(again).toBe(1);
    },
  );

  test('has developer tools only where it is not packaged', () => {
    const roles = (packaged: boolean) => items({ packaged }).map(({ role }) => role);
    expect(roles(false)).toContain('toggleDevTools');
    expect(roles(true)).not.toContain('toggleDevTools');
  });

  test("takes none of the page's keys", () => {
    const taken = items({}).filter((item) => item.accelerator && item.registerAccelerator !== false);
    const keys = taken.map(({ accelerator }) => String(accelerator));
    // the page has letters, digits and signs by themselves, and these with Ctrl or Cmd
    expect(keys.filter((key) => !key.startsWith('CommandOrControl+'))).toEqual([]);
    expect(keys.filter((key) => /[+](n|k|,|enter)$/i.test(key))).toEqual([]);
  });
});
