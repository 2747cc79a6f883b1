/**
 * How the desktop shows that something is being recorded: an icon in the tray (a badge in macOS' dock), a machine that
 * is kept from going to sleep, and a notification when recording stops by itself. Electron comes in as an argument.
 */
import type { App, Menu, MenuItemConstructorOptions, Notification, PowerSaveBlocker, Tray } from 'electron';
import type { RecordingState } from './engine/parent.ts';

export interface SignsOptions {
  app: App;
  Menu: typeof Menu;
  Notification: typeof Notification;
  Tray: typeof Tray;
  powerSaveBlocker: PowerSaveBlocker;
  platform: NodeJS.Platform;
  /** Files: the tray's icon, the same while recording, and the app's. */
  icons: { idle: string; recording: string; app: string };
  open(this: void): void;
  quit(this: void): void;
}

/** A tooltip may have 127 characters on Windows. */
const tooltipLength = 120;
const cut = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** Gives what is to be called with each new state. */
export function recordingSigns(options: SignsOptions): (state: RecordingState) => void {
  const { app, platform, icons, powerSaveBlocker, open } = options;
  let blocker: number | null = null;
  let stoppedBefore: readonly string[] = [];
  /** One that is collected hears no click. */
  const shown = new Set<Notification>();

  // created once and kept: without a window it is the way back
  const tray = platform === 'darwin' ? null : new options.Tray(icons.idle);
  tray?.on('click', open);

  const stayAwake = (awake: boolean) => {
    if (awake) blocker ??= powerSaveBlocker.start('prevent-app-suspension');
    else if (blocker !== null) {
      powerSaveBlocker.stop(blocker);
      blocker = null;
    }
  };

  const notify = (sentence: string) => {
    if (!options.Notification.isSupported()) return;
    const notification = new options.Notification({
      title: 'vLLM Scope',
      body: sentence,
      ...(platform === 'darwin' ? {} : { icon: icons.app }),
    });
    shown.add(notification);
    notification.on('click', () => {
      shown.delete(notification);
      open();
    });
    notification.on('close', () => shown.delete(notification));
    notification.show();
  };

  const draw = ({ recording }: RecordingState) => {
    const busy = recording.length > 0;
    // setBadge is macOS' own; setBadgeCount would count what nobody has to read
    app.dock?.setBadge(busy ? '●' : '');
    if (!tray) return;
    tray.setImage(busy ? icons.recording : icons.idle);
    tray.setToolTip(
      cut(busy ? `vLLM Scope: recording ${recording.join(', ')}` : 'vLLM Scope', tooltipLength),
    );
    const lines = recording.map((name): MenuItemConstructorOptions => {
      // a single & marks the letter behind it
      return { label: `Recording ${cut(name, 60).replaceAll('&', '&&')}`, enabled: false };
    });
    tray.setContextMenu(
      options.Menu.buildFromTemplate([
        { label: 'Open vLLM Scope', click: open },
        { type: 'separator' },
        ...lines,
        { label: busy ? 'Stop recording and quit' : 'Quit', click: options.quit },
      ]),
    );
  };

  const show = (state: RecordingState) => {
    draw(state);
    stayAwake(state.recording.length > 0);
    for (const sentence of state.stopped) if (!stoppedBefore.includes(sentence)) notify(sentence);
    stoppedBefore = state.stopped;
  };
  draw({ recording: [], stopped: [] });
  return show;
}
