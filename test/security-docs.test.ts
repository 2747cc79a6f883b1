// docs/security.md names files and tests: they are there, and no recommendation of Electron's is left out.
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const root = path.dirname(import.meta.dirname);
const text = fs.readFileSync(path.join(root, 'docs/security.md'), 'utf8');

test('every recommendation has its row', () => {
  const numbers = [...text.matchAll(/^\| (\d+) +\|/gm)].map(([, number]) => Number(number));
  expect(numbers).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
});

test('every file is there', () => {
  const rows = text.split('\n').filter((line) => line.startsWith('|'));
  const names = rows.flatMap((row) => [
    ...row.matchAll(/`((?:\.\.\/|engine\/)?[\w./-]+\.(?:ts|yml|js|mjs))`/g),
  ]);
  expect(names.length).toBeGreaterThan(40);
  const missing = names.filter(([, name]) => {
    const inElectron = path.join(root, 'electron', name!);
    return !fs.existsSync(inElectron) && !fs.existsSync(path.join(root, 'electron/engine', name!));
  });
  expect(missing.map(([, name]) => name)).toEqual([]);
});

test('every test is there by its name', () => {
  const named = [...text.matchAll(/([\w-]+\.(?:test|spec))\b((?:,? "[^"]+")*)/g)];
  expect(named.length).toBeGreaterThan(40);
  for (const [, file, names] of named) {
    const source = fs.readFileSync(path.join(root, 'test', `${file}.ts`), 'utf8');
    for (const [, name] of names!.matchAll(/"([^"]+)"/g))
      expect([file, name, source.includes(name!.replaceAll('…', ''))]).toEqual([file, name, true]);
  }
});
