/** The forms are those of Chromium's PAC results (FindProxyForURL). */
import { expect, it } from 'vitest';
import { proxyUrl } from '../electron/system-proxy.ts';

it.each([
  ['DIRECT', null],
  ['', null],
  ['PROXY proxy.lab:3128', 'http://proxy.lab:3128'],
  ['PROXY proxy.lab:3128; DIRECT', 'http://proxy.lab:3128'],
  ['HTTPS secure.lab:443;PROXY other:80', 'https://secure.lab:443'],
  ['SOCKS5 socks.lab:1080', 'socks5://socks.lab:1080'],
  ['DIRECT; PROXY proxy.lab:3128', null],
])('%s', (answer, url) => {
  expect(proxyUrl(answer)).toBe(url);
});
