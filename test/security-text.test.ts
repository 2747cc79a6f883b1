// Text from outside where it leaves as text: cells of a spreadsheet, a terminal, names of files. And the sources
// themselves: nothing in them makes HTML out of text or switches off what Electron protects by default.
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { shown } from '../electron/engine/shown.ts';
import { csv } from '../electron/engine/text-table.ts';

const root = path.dirname(import.meta.dirname);

describe('a cell of a spreadsheet', () => {
  // the characters that OWASP names for "CSV injection"
  test.each(['=', '+', '-', '@', '\t', '\r'])('%j at its begin is no formula', (sign) => {
    const [cell] = csv([[`${sign}cmd|' /C calc'!A0`]]).split(',');
    expect(cell!.replace(/^"/, '').startsWith(`'${sign}`)).toBe(true);
  });

  test('that holds a quote or a line stays one cell; a negative number stays a number', () => {
    expect(csv([['a",=1+1\n=2', -0.5, '=1"']])).toBe(`"a"",=1+1\n=2",-0.5,"'=1"""`);
  });
});

test('a terminal obeys no text of a server', () => {
  expect(shown('\u001b[2Jm\u0007\u202Egpj.exe\u200b\n')).toBe(
    '\\u001b[2Jm\\u0007\\u202egpj.exe\\u200b\\u000a',
  );
});

/** Sources of a folder that match; `deep`: with its folders. */
function matching(folder: string, pattern: RegExp, deep: boolean): string[] {
  const names = fs.readdirSync(path.join(root, folder), { recursive: deep }) as string[];
  const sources = names.filter((name) => /\.(ts|svelte|html)$/.test(name));
  expect(sources.length).toBeGreaterThan(5);
  return sources.filter((name) => pattern.test(fs.readFileSync(path.join(root, folder, name), 'utf8')));
}

test('the page makes no HTML and no code out of text', () => {
  const makers =
    /\{@html|\b(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|srcdoc|DOMParser|createContextualFragment|\beval\(|new Function\b|javascript:/;
  expect(matching('renderer', makers, true)).toEqual([]);
});

test('main listens to no page and leaves every protection of Electron as it is', () => {
  const off =
    /ipcMain|\.handle\(|webSecurity|allowRunningInsecureContent|experimentalFeatures|enableBlinkFeatures|webviewTag|nodeIntegrationIn|loadFile\(|registerSchemesAsPrivileged|(?:sandbox|contextIsolation): false|nodeIntegration: true|appendSwitch|commandLine|\.executeJavaScript/;
  expect(matching('electron', off, false)).toEqual([]);
});
