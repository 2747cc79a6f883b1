// What security.ts lets through, by the ways such guards are usually passed: prefixes, suffixes, user info,
// other schemes, addresses that only look like ours.
import { describe, expect, test } from 'vitest';
import { devPageOf, isOwnPage, mayGoOutside } from '../electron/security.ts';

const origin = 'http://127.0.0.1:8997';

describe('a navigation stays on the own page', () => {
  test.each([
    'http://127.0.0.1:8997/',
    'http://127.0.0.1:8997',
    'http://127.0.0.1:8997/#token=0123',
    'http://127.0.0.1:8997/runs?id=1#x',
    'HTTP://127.0.0.1:8997/',
    // other spellings of the same address, which the parser makes one of
    'http://127.1:8997/',
    'http:\\\\127.0.0.1:8997\\x',
  ])('%s', (url) => {
    expect(isOwnPage(url, origin)).toBe(true);
  });
});

describe('a navigation is denied', () => {
  test.each([
    'http://127.0.0.1:89970/',
    'http://127.0.0.1:8998/',
    'http://127.0.0.1/',
    'https://127.0.0.1:8997/',
    'ws://127.0.0.1:8997/',
    'http://localhost:8997/',
    'http://127.0.0.1:8997.example.org/',
    'http://127.0.0.1:8997@example.org/',
    'http://example.org/http://127.0.0.1:8997/',
    'http://example.org/?http://127.0.0.1:8997',
    'http://user@127.0.0.1:8997/',
    'http://user:password@127.0.0.1:8997/',
    'blob:http://127.0.0.1:8997/0b4ee4a9-0000-4000-8000-000000000000',
    'data:text/html,<p>',
    'javascript:alert(1)',
    'file:///etc/passwd',
    'about:blank',
    '/runs',
    '',
  ])('%s', (url) => {
    expect(isOwnPage(url, origin)).toBe(false);
  });

  test('everything, as long as there is no own page', () => {
    expect(isOwnPage(`${origin}/`, null)).toBe(false);
  });

  test('an opaque origin is no own page', () => {
    expect(isOwnPage('data:text/html,<p>', 'null')).toBe(false);
    expect(isOwnPage('file:///x', 'null')).toBe(false);
  });
});

describe('a link goes to the browser', () => {
  test.each([
    'https://docs.vllm.ai/',
    'https://wandb.ai/a/b?c=d#e',
    'HTTPS://example.org',
    'https:example.org',
  ])('%s', (url) => {
    expect(mayGoOutside(url)).toBe(true);
  });
});

describe('a link goes nowhere', () => {
  test.each([
    'http://example.org/',
    'httpsx://example.org/',
    'https.example.org',
    'file:///etc/passwd',
    'javascript:location="https://example.org"',
    'data:text/html,https://example.org',
    'blob:https://example.org/0b4ee4a9-0000-4000-8000-000000000000',
    'smb://example.org/share',
    'ms-msdt:/id https://',
    'mailto:a@example.org',
    'https://docs.vllm.ai@example.org/',
    'https://user:password@example.org/',
    'https://',
    '//example.org/',
    '',
  ])('%s', (url) => {
    expect(mayGoOutside(url)).toBe(false);
  });
});

test('only who develops has the page from elsewhere', () => {
  const env = { ELECTRON_RENDERER_URL: 'http://127.0.0.1:5173' };
  expect(devPageOf({ isPackaged: false }, env)).toBe('http://127.0.0.1:5173');
  expect(devPageOf({ isPackaged: false }, {})).toBeUndefined();
  expect(devPageOf({ isPackaged: true }, env)).toBeUndefined();
});
