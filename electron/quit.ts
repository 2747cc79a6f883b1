/**
 * What closing the window and quitting mean while something is being recorded: asked once, then as remembered. A
 * signal or the end of the session is never kept waiting by a question. Ending the engine is main's work.
 */
import type { App, BrowserWindow, Dialog, PowerMonitor } from 'electron';
import type { OnQuit, Remembered } from './remembered.ts';

export interface QuitOptions {
  app: App;
  dialog: Dialog;
  powerMonitor: PowerMonitor;
  /** Where SIGTERM and its like come in. */
  signals: Pick<NodeJS.Process, 'on'>;
  platform: NodeJS.Platform;
  remembered: Remembered;
  /** Names of clusters that are being recorded. */
  recording(this: void): readonly string[];
  window(this: void): BrowserWindow | null;
  /** A choice is remembered from now on. */
  onRemembered(this: void): void;
}

export interface Quit {
  /** Whether the app is on its way out. */
  readonly leaving: boolean;
  /** Quits, whatever is being recorded. */
  now(this: void): void;
  /** Watches over a window that was opened. */
  guard(this: void, window: BrowserWindow): void;
}

const choices: (Exclude<OnQuit, 'ask'> | 'cancel')[] = ['stop', 'keep', 'cancel'];

/** Call it when the app is ready: Chromium's own handlers of signals, which quit as a user does, are set by then. */
export function guardQuit(options: QuitOptions): Quit {
  const { app, dialog, powerMonitor, remembered, recording, window } = options;
  const mac = options.platform === 'darwin';
  let leaving = false;
  let asking = false;
  /** The window goes, the app stays. */
  let keeping = false;

  const now = () => {
    leaving = true;
    app.quit();
  };

  const ask = async (): Promise<(typeof choices)[number]> => {
    const box = {
      type: 'question' as const,
      title: 'vLLM Scope',
      message: `${listed(recording())} being recorded.`,
      detail: 'Recording can go on without a window. Opening vLLM Scope again brings the window back.',
      buttons: ['Stop recording and quit', 'Keep recording without a window', 'Cancel'],
      defaultId: 1,
      cancelId: 2,
      noLink: true,
      checkboxLabel: 'Do not ask again',
    };
    const parent = window();
    const { response, checkboxChecked } = await (parent
      ? dialog.showMessageBox(parent, box)
      : dialog.showMessageBox(box));
    const choice = choices[response] ?? 'cancel';
    if (checkboxChecked && choice !== 'cancel') {
      remembered.set({ onQuit: choice });
      options.onRemembered();
    }
    return choice;
  };

  const decide = async () => {
    if (asking) return;
    asking = true;
    try {
      const { onQuit } = remembered;
      // without a window, to keep recording cannot be what quitting is meant to do
      const known = onQuit === 'ask' || (onQuit === 'keep' && window() === null) ? null : onQuit;
      const choice = known ?? (await ask());
      if (leaving || choice === 'cancel') return;
      if (choice === 'stop' || recording().length === 0) now();
      else {
        keeping = true;
        window()?.close();
      }
    } finally {
      asking = false;
    }
  };

  const guard = (opened: BrowserWindow) => {
    keeping = false;
    opened.on('close', (event) => {
      if (leaving || keeping || mac || recording().length === 0) return;
      event.preventDefault();
      void decide();
    });
    // Windows gives no other sign that the session ends
    opened.on('session-end', now);
  };

  app.on('before-quit', (event) => {
    if (leaving || recording().length === 0) {
      leaving = true;
      return;
    }
    event.preventDefault();
    void decide();
  });
  app.on('window-all-closed', () => {
    if (!mac && !keeping) app.quit();
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) options.signals.on(signal, now);
  powerMonitor.on('shutdown', (event?: Electron.Event) => {
    // a moment for the engine to close its runs
    event?.preventDefault();
    now();
  });
  return {
    get leaving() {
      return leaving;
    },
    now,
    guard,
  };
}

/** `grpo is`, `grpo and eval are`, `grpo, eval and 3 more are`. */
function listed(names: readonly string[]): string {
  const [first = 'A cluster', second] = names;
  if (names.length <= 1) return `${first} is`;
  if (names.length === 2) return `${first} and ${second} are`;
  return `${first}, ${second} and ${names.length - 2} more are`;
}
