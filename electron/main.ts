/// <reference types="electron-vite/node" />
/**
 * The desktop app: a list of small set-ups in the order they have to happen, one window, one engine beside it.
 * Everything a user sees is the engine's page; main only starts the engine, shows where it serves, and tells the
 * desktop what is being recorded.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import {
  app,
  dialog,
  Menu,
  Notification,
  powerMonitor,
  powerSaveBlocker,
  safeStorage,
  session,
  shell,
  Tray,
  utilityProcess,
} from 'electron';
import { startEngine } from './engine-process.ts';
import type { EngineProcess, Serving } from './engine-process.ts';
import type { RecordingState } from './engine/parent.ts';
import { menu } from './menu.ts';
import { guardQuit } from './quit.ts';
import { recordingSigns } from './recording-signs.ts';
import { remember } from './remembered.ts';
import { available } from './secrets.ts';
import { denyByDefault, devPageOf } from './security.ts';
import { appWindow } from './window.ts';
import icon from '../build/icon.png?asset';
import trayIcon from '../build/tray.png?asset';
import trayRecordingIcon from '../build/tray-recording.png?asset';

/** Set by electron-vite in development: the page comes from Vite, which passes its calls on to the engine. */
const devPage = devPageOf(app, process.env);
const mac = process.platform === 'darwin';
const { values: given } = parseArgs({ strict: false, options: { data: { type: 'string' } } });
const named = [given.data, process.env.VLLM_SCOPE_DATA].find((value) => typeof value === 'string');
const dataFolder = named === undefined ? undefined : path.resolve(named);

let engine: EngineProcess | null = null;
let page: string | null = null;

// before 'ready': Chromium's own files go where the data goes, so that two data folders are two apart apps
if (dataFolder !== undefined) app.setPath('userData', path.join(dataFolder, 'window'));
// notifications of Windows name the app by it
app.setAppUserModelId('io.github.vllm-scope');
denyByDefault(app, shell, () => (page === null ? null : new URL(page).origin));
// a second start brings the first one's window to the front (see start) and goes; in development the next app starts
// while the last one is still ending
if (devPage !== undefined || app.requestSingleInstanceLock()) {
  app.on('will-quit', endEngineFirst);
  // never `await` it here: 'ready' waits until this module has run to its end
  void app.whenReady().then(start);
} else app.quit();

function start(): void {
  const remembered = remember(path.join(app.getPath('userData'), 'desktop.json'));
  let state: RecordingState = { recording: [], stopped: [] };

  const window = appWindow({ icon, remembered, onOpened: (opened) => quit.guard(opened) });
  const quit = guardQuit({
    app,
    dialog,
    powerMonitor,
    signals: process,
    platform: process.platform,
    remembered,
    recording: () => state.recording,
    window: () => window.current,
    onRemembered: setMenu,
  });
  const open = () => {
    if (!quit.leaving) window.open();
  };
  const showRecording = recordingSigns({
    app,
    Menu,
    Notification,
    Tray,
    powerSaveBlocker,
    platform: process.platform,
    icons: { idle: trayIcon, recording: trayRecordingIcon, app: icon },
    open,
    quit: quit.now,
  });

  function setMenu(): void {
    const askAgain = () => {
      remembered.set({ onQuit: 'ask' });
      setMenu();
    };
    const asks = remembered.onQuit === 'ask';
    const press = (key: string, command: boolean) => {
      open();
      window.press(key, command);
    };
    const template = menu({ mac, packaged: app.isPackaged, asks, askAgain, press });
    Menu.setApplicationMenu(Menu.buildFromTemplate(template));
  }

  function showPage({ port, token, own }: Serving): void {
    page = own && devPage ? devPage : `http://127.0.0.1:${port}/`;
    window.show(`${page}#token=${token}`, own ? '' : ' (engine of another vLLM Scope)');
  }

  let again = false;
  app.on('second-instance', () => {
    if (!quit.leaving) window.open();
    else if (!again) {
      // who quits and starts again at once gets an app when this one's engine has ended
      again = true;
      app.relaunch();
    }
  });
  app.on('activate', open);
  app.setAboutPanelOptions({
    applicationName: 'vLLM Scope',
    applicationVersion: app.getVersion(),
    copyright: 'Apache License 2.0',
    iconPath: icon,
  });
  setMenu();
  window.open();
  engine = startEngine({
    // plain Node, which may run the engine, cannot read inside an asar
    file: path.join(import.meta.dirname, 'engine.js').replace('app.asar', 'app.asar.unpacked'),
    appFolder: app.getAppPath(),
    dataFolder,
    port: Number(process.env.VLLM_SCOPE_PORT ?? 0),
    firstRestartMs: Number(process.env.VLLM_SCOPE_RESTART_DELAY_MS ?? 250),
    utility: utilityProcess,
    safeStorage: available(safeStorage) ? safeStorage : null,
    resolveProxy: (url) => session.defaultSession.resolveProxy(url),
    onServing: showPage,
    onState: (next) => {
      state = next;
      showRecording(state);
    },
    onFailed: (sentence) => window.show(sentencePage(sentence)),
  });
}

/** Where no engine can be had: its last sentence, as a page that can be read, copied and closed. */
function sentencePage(sentence: string): string {
  const text = sentence.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const style =
    'color-scheme:light dark;font:15px/1.5 system-ui;max-width:40em;margin:20vh auto;padding:0 24px';
  const policy = "default-src 'none'; style-src 'unsafe-inline'";
  return `data:text/html;charset=utf-8,${encodeURIComponent(
    `<!doctype html><meta http-equiv="Content-Security-Policy" content="${policy}"><title>vLLM Scope</title><body style="${style}"><h1 style="font-size:20px">vLLM Scope cannot start</h1><p>${text}</p>`,
  )}`;
}

/** The windows are gone by now; the engine closes its run before main goes. */
function endEngineFirst(event: { preventDefault(): void }): void {
  if (engine === null) return;
  event.preventDefault();
  // not quit(): where the engine is gone already, that would come within the quit it is to finish
  void engine.end().then(() => app.exit());
}
