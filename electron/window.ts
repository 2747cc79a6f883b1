/**
 * The one window: where it was last, the page it shows, and opened again after it was closed. Sandboxed; what its page
 * may do is decided in security.ts.
 */
import path from 'node:path';
import { BrowserWindow, nativeTheme, screen } from 'electron';
import type { Remembered } from './remembered.ts';
import { boundsFor, followWindow, leastSize } from './window-state.ts';

export interface WindowOptions {
  icon: string;
  remembered: Remembered;
  /** For who wants to hear of its events, each time that it is opened. */
  onOpened(this: void, window: BrowserWindow): void;
}

export interface AppWindow {
  /** null: closed. */
  readonly current: BrowserWindow | null;
  /** Opens it, or brings it to the front. */
  open(): void;
  /**
   * What it shows from now on. A page that is there already is loaded anew only where it was lost meanwhile: it
   * connects to a restarted engine by itself. `suffix` is put behind the page's title.
   */
  show(address: string, suffix?: string): void;
  /** A key for the page, as if it had been pressed; `command`: with Ctrl, or Cmd on macOS. */
  press(this: void, key: string, command: boolean): void;
}

/** Chromium's ERR_ABORTED. */
const aborted = -3;

/** `--bg` of the page's style sheet, so that nothing flashes before the page is drawn. */
const background = () => (nativeTheme.shouldUseDarkColors ? '#0f1216' : '#f3f4f6');

export function appWindow(options: WindowOptions): AppWindow {
  let window: BrowserWindow | null = null;
  let address: string | null = null;
  let titleSuffix = '';
  /** A reload met no engine, or the page's process died. */
  let lost = false;

  const load = () => {
    if (window === null || address === null) return;
    lost = false;
    // a failure is told by 'did-fail-load'
    window.loadURL(address).catch(() => undefined);
  };

  const create = (): BrowserWindow => {
    const { icon, remembered } = options;
    const primary = screen.getPrimaryDisplay();
    const others = screen.getAllDisplays().filter((display) => display.id !== primary.id);
    const areas = [primary, ...others].map((display) => display.workArea);
    const opened = new BrowserWindow({
      ...boundsFor(remembered.window, areas),
      minWidth: leastSize.width,
      minHeight: leastSize.height,
      title: `vLLM Scope${titleSuffix}`,
      icon,
      show: false,
      backgroundColor: background(),
      webPreferences: {
        preload: path.join(import.meta.dirname, '../preload/preload.cjs'),
        sandbox: true,
        contextIsolation: true,
        nodeIntegration: false,
        // its dictionaries would be fetched from elsewhere
        spellcheck: false,
      },
    });
    const maximised = remembered.window?.maximised === true;
    opened.once('ready-to-show', () => (maximised ? opened.maximize() : opened.show()));
    opened.on('page-title-updated', (event, title) => {
      event.preventDefault();
      opened.setTitle(title + titleSuffix);
    });
    opened.on('closed', () => (window = null));
    opened.webContents.on('did-fail-load', (_event, code, _text, _url, isMainFrame) => {
      // not where another load took its place
      if (isMainFrame && code !== aborted) lost = true;
    });
    opened.webContents.on('render-process-gone', () => {
      lost = true;
      // not at once: a page that dies again and again must not keep the machine busy
      setTimeout(load, 1000);
    });
    followWindow(opened, (state) => remembered.set({ window: state }));
    const recolour = () => opened.isDestroyed() || opened.setBackgroundColor(background());
    nativeTheme.on('updated', recolour);
    opened.on('closed', () => nativeTheme.off('updated', recolour));
    options.onOpened(opened);
    return opened;
  };

  return {
    get current() {
      return window;
    },
    open() {
      if (window === null) {
        window = create();
        load();
        return;
      }
      if (window.isMinimized()) window.restore();
      window.show();
      window.focus();
    },
    show(next, suffix = '') {
      const known = next === address;
      address = next;
      titleSuffix = suffix;
      if (!known || lost) load();
    },
    press(key, command) {
      const modifier = process.platform === 'darwin' ? ('meta' as const) : ('control' as const);
      const modifiers = command ? [modifier] : [];
      window?.webContents.sendInputEvent({ type: 'keyDown', keyCode: key, modifiers });
    },
  };
}
