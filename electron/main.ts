/// <reference types="electron-vite/node" />
/**
 * The desktop app: a list of small set-ups in the order they have to happen, one window, one engine beside it.
 * Everything a user sees is the engine's page; main only starts the engine and shows where it serves.
 */
import path from 'node:path';
import { parseArgs } from 'node:util';
import { app, BrowserWindow, Menu, nativeTheme, shell, utilityProcess } from 'electron';
import type { MenuItemConstructorOptions } from 'electron';
import { startEngine } from './engine-process.ts';
import type { EngineProcess } from './engine-process.ts';
import { denyByDefault } from './security.ts';
import icon from '../build/icon.png?asset';

/** Set by electron-vite in development: the page comes from Vite, which passes its calls on to the engine. */
const devPage = process.env.ELECTRON_RENDERER_URL;
const { values: given } = parseArgs({ strict: false, options: { data: { type: 'string' } } });
const named = [given.data, process.env.VLLM_SCOPE_DATA].find((value) => typeof value === 'string');
const dataFolder = named === undefined ? undefined : path.resolve(named);

let engine: EngineProcess | null = null;
let window: BrowserWindow | null = null;
let page: string | null = null;
/** A reload met no engine, or the page's process died. */
let pageLost = false;

// before 'ready': Chromium's own files go where the data goes, so that two data folders are two apart apps
if (dataFolder !== undefined) app.setPath('userData', path.join(dataFolder, 'window'));
denyByDefault(app, shell, () => (page === null ? null : new URL(page).origin));
app.on('window-all-closed', () => app.quit());
app.on('will-quit', endEngineFirst);
// never `await` it here: 'ready' waits until this module has run to its end
void app.whenReady().then(start);

function start(): void {
  Menu.setApplicationMenu(Menu.buildFromTemplate(menu()));
  window = openWindow();
  engine = startEngine({
    // plain Node, which may run the engine, cannot read inside an asar
    file: path.join(import.meta.dirname, 'engine.js').replace('app.asar', 'app.asar.unpacked'),
    appFolder: app.getAppPath(),
    dataFolder,
    port: Number(process.env.VLLM_SCOPE_PORT ?? 0),
    firstRestartMs: Number(process.env.VLLM_SCOPE_RESTART_DELAY_MS ?? 250),
    utility: utilityProcess,
    onListening: showPage,
    onFailed: (sentence) => void window?.loadURL(sentencePage(sentence)),
  });
}

function openWindow(): BrowserWindow {
  const opened = new BrowserWindow({
    width: 1440,
    height: 900,
    minWidth: 900,
    minHeight: 600,
    title: 'vLLM Scope',
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
  opened.once('ready-to-show', () => opened.show());
  opened.on('closed', () => (window = null));
  opened.webContents.on('did-fail-load', () => (pageLost = true));
  opened.webContents.on('render-process-gone', () => {
    pageLost = true;
    // not at once: a page that dies again and again must not keep the machine busy
    setTimeout(loadPage, 1000);
  });
  const follow = () => opened.isDestroyed() || opened.setBackgroundColor(background());
  nativeTheme.on('updated', follow);
  opened.on('closed', () => nativeTheme.off('updated', follow));
  return opened;
}

/** `--bg` of the page's style sheet, so that nothing flashes before the page is drawn. */
const background = () => (nativeTheme.shouldUseDarkColors ? '#0f1216' : '#f3f4f6');

/** On a restart the page connects again by itself; it is loaded anew only where it was lost meanwhile. */
function showPage(port: number): void {
  const first = page === null;
  page = devPage ?? `http://127.0.0.1:${port}/`;
  if (first || pageLost) loadPage();
}

function loadPage(): void {
  if (engine === null || window === null || page === null) return;
  pageLost = false;
  // a failure is told by 'did-fail-load'
  window.loadURL(`${page}#token=${engine.token}`).catch(() => undefined);
}

/** Where no engine can be had: its last sentence, as a page that can be read, copied and closed. */
function sentencePage(sentence: string): string {
  const text = sentence.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const style =
    'color-scheme:light dark;font:15px/1.5 system-ui;max-width:40em;margin:20vh auto;padding:0 24px';
  return `data:text/html;charset=utf-8,${encodeURIComponent(
    `<!doctype html><title>vLLM Scope</title><body style="${style}"><h1 style="font-size:20px">vLLM Scope cannot start</h1><p>${text}</p>`,
  )}`;
}

/** The windows are gone by now; the engine closes its run before main goes. */
function endEngineFirst(event: { preventDefault(): void }): void {
  if (engine === null) return;
  event.preventDefault();
  // not quit(): where the engine is gone already, that would come within the quit it is to finish
  void engine.end().then(() => app.exit());
}

function menu(): MenuItemConstructorOptions[] {
  const mac = process.platform === 'darwin';
  const tools: MenuItemConstructorOptions[] = app.isPackaged ? [] : [{ role: 'toggleDevTools' }];
  return [
    mac ? { role: 'appMenu' } : { label: 'File', submenu: [{ role: 'quit' }] },
    { role: 'editMenu' },
    {
      label: 'View',
      submenu: [
        { role: 'reload' },
        { type: 'separator' },
        { role: 'resetZoom' },
        { role: 'zoomIn' },
        { role: 'zoomOut' },
        { type: 'separator' },
        { role: 'togglefullscreen' },
        ...tools,
      ],
    },
    { role: 'windowMenu' },
    { role: 'help', submenu: mac ? [] : [{ role: 'about' }] },
  ];
}
