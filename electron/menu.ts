/**
 * The native menu. Its accelerators leave the page's keys alone; where an item does what a key of the page does, it
 * presses that key for the page and only shows it.
 */
import type { MenuItemConstructorOptions } from 'electron';

export interface MenuOptions {
  mac: boolean;
  /** Developer tools are for who develops. */
  packaged: boolean;
  /** Whether quitting while recording asks. */
  asks: boolean;
  /** The user wants to be asked again. */
  askAgain(this: void): void;
  /** A key of the page's; `command`: with Ctrl or Cmd. */
  press(this: void, key: string, command: boolean): void;
}

export function menu({ mac, packaged, asks, askAgain, press }: MenuOptions): MenuItemConstructorOptions[] {
  const line = { type: 'separator' as const };
  const pageKey = (label: string, key: string): MenuItemConstructorOptions => {
    return {
      label,
      accelerator: `CommandOrControl+${key}`,
      registerAccelerator: false,
      click: () => press(key, true),
    };
  };
  const newCluster = pageKey('New cluster', 'N');
  const settings = pageKey('Settings', ',');
  // its key is a single letter, which only the page may take
  const upload: MenuItemConstructorOptions = { label: 'Upload to W&&B', click: () => press('u', false) };
  // undoes "Do not ask again"; as long as it asks there is nothing to undo
  const ask: MenuItemConstructorOptions = {
    label: 'Ask when quitting while recording',
    type: 'checkbox',
    checked: asks,
    enabled: !asks,
    click: askAgain,
  };
  const app: MenuItemConstructorOptions = {
    role: 'appMenu',
    submenu: [
      { role: 'about' },
      line,
      settings,
      ask,
      line,
      { role: 'services' },
      line,
      { role: 'hide' },
      { role: 'hideOthers' },
      { role: 'unhide' },
      line,
      { role: 'quit' },
    ],
  };
  /** The same act under the key's other places: + without Shift, and the number pad. */
  const also = (role: 'zoomIn' | 'zoomOut' | 'resetZoom', ...keys: string[]) =>
    keys.map((key): MenuItemConstructorOptions => {
      return {
        role,
        accelerator: `CommandOrControl+${key}`,
        visible: false,
        acceleratorWorksWhenHidden: true,
      };
    });
  return [
    ...(mac ? [app] : []),
    {
      label: 'File',
      submenu: mac
        ? [newCluster, upload, line, { role: 'close' }]
        : [newCluster, upload, line, settings, ask, line, { role: 'quit' }],
    },
    { role: 'editMenu' },
    {
      label: 'View',
      submenu: [
        { role: 'zoomIn', label: 'Larger text' },
        { role: 'zoomOut', label: 'Smaller text' },
        { role: 'resetZoom', label: 'Usual text size' },
        ...also('zoomIn', '=', 'numadd'),
        ...also('zoomOut', 'numsub'),
        ...also('resetZoom', 'num0'),
        line,
        { role: 'reload' },
        { role: 'togglefullscreen', label: 'Full screen' },
        ...(packaged ? [] : [{ role: 'toggleDevTools' as const, label: 'Developer tools' }]),
      ],
    },
    { role: 'windowMenu' },
    { role: 'help', submenu: mac ? [] : [{ role: 'about' }] },
  ];
}
