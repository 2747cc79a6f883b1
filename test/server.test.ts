/**
 * The engine's server from the outside: who is let in, what is served, and that no request ends it. Requests are
 * written with node:http and node:net, which send any header and any path.
 */
import http from 'node:http';
import net from 'node:net';
import { describe, expect, it } from 'vitest';
import { newToken, serve } from '../electron/engine/server.ts';
import { connect, refused, SECRET, served } from './pages.ts';

interface Answer {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
}
/** One request just as it is given: the path is not made tidy, the Host header is what it is told to be. */
function ask(
  port: number,
  given: { path?: string; method?: string; headers?: http.OutgoingHttpHeaders } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    http
      .request({ host: '127.0.0.1', port, agent: false, ...given }, (reply) => {
        let text = '';
        reply.setEncoding('utf8').on('data', (part: string) => (text += part));
        reply.on('end', () => resolve({ status: reply.statusCode ?? 0, headers: reply.headers, text }));
      })
      .on('error', reject)
      .end();
  });
}
/** The first line that comes back for bytes that no HTTP client would send; '' where the connection just ends. */
function askRaw(port: number, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = net.connect(port, '127.0.0.1', () => socket.end(bytes));
    socket.setEncoding('utf8').on('data', (part: string) => (text += part));
    socket.on('error', () => {}).on('close', () => resolve(text.split('\r\n', 1)[0]!));
  });
}

describe.concurrent('the page', () => {
  it('is served with its types, for the root as for its name', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    for (const [where, type] of [
      ['/', 'text/html; charset=utf-8'],
      ['/index.html', 'text/html; charset=utf-8'],
      ['/?x=1', 'text/html; charset=utf-8'],
      ['/assets/main-1a2b.js', 'text/javascript; charset=utf-8'],
      ['/assets/style-3c4d.css', 'text/css; charset=utf-8'],
      ['/icon.svg', 'image/svg+xml'],
    ] as const) {
      const { status, headers } = await ask(port, { path: where });
      expect([where, status, headers['content-type']]).toEqual([where, 200, type]);
    }
    expect((await ask(port)).text).toContain('<title>vLLM Scope</title>');
    expect(await ask(port, { method: 'HEAD' })).toMatchObject({ status: 200, text: '' });
  });

  it('every answer denies what the page does not need', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    for (const given of [{}, { path: '/none' }, { method: 'POST' }, { headers: { host: 'evil.example' } }]) {
      const { headers } = await ask(port, given);
      const policy: Record<string, string> = Object.fromEntries(
        String(headers['content-security-policy'])
          .split('; ')
          .map((rule) => {
            const [name, ...sources] = rule.split(' ');
            return [name ?? '', sources.join(' ')];
          }),
      );
      expect(policy).toMatchObject({
        'default-src': "'none'",
        'script-src': "'self'",
        'connect-src': "'self'",
        'base-uri': "'none'",
        'form-action': "'none'",
        'frame-ancestors': "'none'",
      });
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
      expect(headers['access-control-allow-origin']).toBeUndefined();
    }
  });

  it('built files may be kept for ever, the page itself never unasked', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    expect((await ask(port, { path: '/assets/main-1a2b.js' })).headers['cache-control']).toContain(
      'immutable',
    );
    expect((await ask(port)).headers['cache-control']).toBe('no-cache');
  });

  it('nothing else of the disk is', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    for (const where of [
      '/../secret.html',
      '/assets/../../secret.html',
      '/..%2fsecret.html',
      '/%2e%2e/secret.html',
      '/assets/..%2f..%2fsecret.html',
      '/..\\secret.html',
      '/..%5csecret.html',
      '//secret.html',
      '/../page-beside/secret.html',
      '/assets/%2e%2e/%2e%2e/page-beside/secret.html',
      'http://x/../secret.html',
      '/etc/passwd',
      '/notes.txt', // no type of a page
      '/assets',
      '/assets/',
      '/index.html%00.js',
      '/none.html',
    ]) {
      const { status, text } = await ask(port, { path: where });
      expect([where, status]).toEqual([where, 404]);
      expect(text).not.toContain(SECRET);
    }
  });

  it('no path ends the engine', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    const host = `Host: 127.0.0.1:${port}\r\n`;
    for (const target of [
      '//',
      '///',
      '/\\',
      'http://',
      'http://[',
      '*',
      '/%',
      '/%ff',
      '?',
      '/'.repeat(5000),
    ]) {
      for (const method of ['GET', 'HEAD', 'OPTIONS'])
        await askRaw(port, `${method} ${target} HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
      const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n';
      await askRaw(port, `GET ${target} HTTP/1.1\r\n${host}${upgrade}\r\n`);
      await askRaw(port, `GET ${target} HTTP/1.0\r\n\r\n`);
    }
    expect((await ask(port)).status).toBe(200);
    expect(await askRaw(port, `GET // HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)).toContain(' 404 ');
  });

  it('is only read: other methods are refused', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS'])
      expect((await ask(port, { method })).status).toBe(405);
  });
});

describe.concurrent('who is let in', () => {
  it('by the names of this machine, at any port (ssh -L changes it), and by no other', async ({
    onTestFinished,
  }) => {
    const { port, token } = await served(onTestFinished, { allowHosts: ['Box.Example'] });
    const status = async (host: string) => (await ask(port, { headers: { host } })).status;
    for (const name of ['127.0.0.1', 'localhost', '[::1]', 'LOCALHOST', 'box.example']) {
      expect([name, await status(name)]).toEqual([name, 200]);
      expect([name, await status(`${name}:1234`)]).toEqual([name, 200]);
      expect(await refused(connect(onTestFinished, port, token, { host: `${name}:1234` }))).toBe('let in');
    }
    // a name that an attacker lets point to 127.0.0.1 (DNS rebinding)
    for (const name of [
      'evil.example',
      '127.0.0.1.evil.example',
      'localhost.evil.example',
      'evil-box.example',
      'box.example.evil.example',
      '127.0.0.2',
      '0.0.0.0',
      '[::2]',
      'a b',
    ]) {
      expect([name, await status(name)]).toEqual([name, 403]);
      expect(await refused(connect(onTestFinished, port, token, { host: name }))).toBe('403');
    }
    const { text } = await ask(port, { headers: { host: 'gpu-01:8997' } });
    expect(text).toContain('--allow-host NAME');
  });

  it('without a Host header nobody', async ({ onTestFinished }) => {
    const { port } = await served(onTestFinished);
    expect(await askRaw(port, 'GET / HTTP/1.0\r\n\r\n')).toContain(' 403 ');
  });

  it('a page of another site is not, though it knows the port', async ({ onTestFinished }) => {
    const { port, token } = await served(onTestFinished);
    const own = `http://127.0.0.1:${port}`;
    for (const origin of [
      'http://evil.example',
      'https://127.0.0.1',
      `https://127.0.0.1:${port}`,
      `http://localhost:${port}`, // another name is another origin
      `http://127.0.0.1:${port + 1}`,
      `${own}.evil.example`,
      'null',
    ])
      expect([origin, await refused(connect(onTestFinished, port, token, { origin }))]).toEqual([
        origin,
        '403',
      ]);
    expect(await refused(connect(onTestFinished, port, token, { origin: own }))).toBe('let in');
    expect(await refused(connect(onTestFinished, port, token))).toBe('let in'); // the command line sends none
  });

  it('only with the token, at the upgrade', async ({ onTestFinished }) => {
    const { port, token } = await served(onTestFinished);
    for (const protocols of [
      ['vllm-scope'],
      ['vllm-scope', 'x'],
      ['vllm-scope', token.slice(0, -1)],
      ['vllm-scope', `${token}0`],
      ['vllm-scope', token.toUpperCase()],
      ['vllm-scope', newToken()],
      ['vllm-scope', 'x', token],
      [token],
      [token, 'vllm-scope'],
      ['other', token],
      [],
    ])
      expect([protocols, await refused(connect(onTestFinished, port, token, { protocols }))]).toEqual([
        protocols,
        '401',
      ]);
    const { socket } = await connect(onTestFinished, port, token);
    expect(socket.protocol).toBe('vllm-scope'); // never the token back
    expect(token).toMatch(/^[0-9a-f]{32}$/);
  });

  it('only where the contract is', async ({ onTestFinished }) => {
    const { port, token } = await served(onTestFinished);
    for (const where of ['/', '/wss', '/ws/x', '//ws'])
      expect(await refused(connect(onTestFinished, port, token, { path: where }))).toBe('404');
    expect((await ask(port, { path: '/ws' })).status).toBe(404);
  });
});

it.concurrent('a port that is taken is a sentence that says what to do', async ({ onTestFinished }) => {
  const { port, engine } = await served(onTestFinished);
  const options = {
    host: '127.0.0.1',
    token: 't',
    markToken: 'm',
    allowHosts: [],
    pageFolder: '/',
    report: () => {},
  };
  await expect(serve(engine, { ...options, port })).rejects.toMatchObject({
    kind: 'bad-input',
    message: `Port ${port} is taken. Is vLLM Scope running already? Choose another with --port (0: any).`,
  });
});
