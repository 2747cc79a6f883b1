/** The way to W&B: where the key goes, certificates, proxies, limits; real servers, TLS and tunnels. */
import http from 'node:http';
import https from 'node:https';
import net, { type AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ApiKey } from '../electron/engine/wandb/account.ts';
import { WandbError } from '../electron/engine/wandb/errors.ts';
import { createGraphql } from '../electron/engine/wandb/graphql.ts';
import { createHttp, type HttpRequest } from '../electron/engine/wandb/http.ts';
import { realTiming } from '../electron/engine/wandb/retry.ts';
import type { Connection } from '../electron/engine/wandb/contract.ts';
import { newAuthority, selfSigned } from './certificates.ts';
import type { ServerCertificate } from './fake-endpoint.ts';
import { httpServer, rawServer } from './small-servers.ts';

const KEY = 'k'.repeat(40);
const BASIC = `Basic ${Buffer.from(`api:${KEY}`).toString('base64')}`;

function client(connection: Partial<Connection> & { baseUrl: string }) {
  const made = createHttp({ ca: null, proxy: null, ...connection }, new ApiKey(KEY));
  onTestFinished(() => made.close());
  return (request: Partial<HttpRequest> = {}) =>
    made.request({
      ...{ method: 'POST', url: 'graphql', body: '{}', authorized: true, timeoutMs: 10_000 },
      ...{ signal: new AbortController().signal, ...request },
    });
}
const faultOf = (asked: Promise<unknown>): Promise<WandbError> =>
  asked.then(
    () => expect.fail('it was taken'),
    (error: unknown) => (error instanceof WandbError ? error : expect.fail(String(error))),
  );

/** Answers 200, and keeps the headers of what came. */
async function server(answer: http.RequestListener = (_request, response) => response.end('well')) {
  const seen: { path: string; headers: http.IncomingHttpHeaders }[] = [];
  const { port } = await httpServer((request, response) => {
    seen.push({ path: request.url!, headers: request.headers });
    request.resume();
    answer(request, response);
  });
  return { url: `http://127.0.0.1:${port}`, host: `127.0.0.1:${port}`, port, seen };
}

async function tlsServer(certificate: ServerCertificate) {
  const made = https.createServer(certificate, (request, response) =>
    response.end(request.headers.authorization === BASIC ? 'authorized' : 'not authorized'),
  );
  made.on('tlsClientError', () => {});
  await new Promise<void>((done) => made.listen(0, '127.0.0.1', done));
  onTestFinished(() => void (made.closeAllConnections(), made.close()));
  return (made.address() as AddressInfo).port;
}

/** A proxy that makes tunnels, all to this machine whatever the name; `answer` instead of one. */
async function proxy(answer: string | null = null) {
  const asked: { url: string; headers: http.IncomingHttpHeaders }[] = [];
  const made = http.createServer((request, response) => {
    asked.push({ url: request.url!, headers: request.headers });
    response.end('by the proxy');
  });
  const sockets = new Set<net.Socket>();
  made.on('connection', (socket) => sockets.add(socket));
  made.on('connect', (request, socket) => {
    asked.push({ url: request.url!, headers: request.headers });
    socket.on('error', () => {});
    if (answer !== null) return void socket.end(answer);
    const there = net.connect(Number(request.url!.split(':')[1]), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(there).pipe(socket);
    });
    there.on('error', () => socket.destroy());
  });
  await new Promise<void>((done) => made.listen(0, '127.0.0.1', done));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    made.close();
  });
  return { host: `127.0.0.1:${(made.address() as AddressInfo).port}`, asked };
}

describe('the key', () => {
  it('goes to the server, under the path of its address', async () => {
    const { url, seen } = await server();
    const reply = await client({ baseUrl: `${url}/wandb` })({ url: 'graphql' });
    expect(reply).toMatchObject({ status: 200, text: 'well' });
    expect(seen).toMatchObject([{ path: '/wandb/graphql', headers: { authorization: BASIC } }]);
    expect(seen[0]!.headers['user-agent']).toBe('vllm-scope');
  });

  it('does not go along a redirect, which is told and not followed', async () => {
    const other = await server();
    const { url } = await server((_request, response) =>
      response.writeHead(307, { location: `${other.url}/graphql` }).end(),
    );
    const reply = await client({ baseUrl: url })();
    expect(reply.status).toBe(307);
    expect(other.seen).toEqual([]);
  });

  it('does not go to storage, be it elsewhere or the same server', async () => {
    const base = await server();
    const storage = await server();
    const send = client({ baseUrl: `${base.url}/wandb` });
    const headers = { 'Content-Type': 'application/octet-stream' };
    for (const url of [`${storage.url}/bucket/x?sig=1`, '/upload/x'])
      await send({ method: 'PUT', url, headers, authorized: false, body: Buffer.from('bytes') });
    expect(storage.seen[0]!.path).toBe('/bucket/x?sig=1');
    expect(base.seen[0]!.path).toBe('/wandb/upload/x');
    for (const { headers } of [...storage.seen, ...base.seen]) {
      expect(headers).not.toHaveProperty('authorization');
      expect(headers).toMatchObject({ 'content-type': 'application/octet-stream', 'content-length': '5' });
    }
  });

  it('is not in what a server says back', async () => {
    const { url } = await server((request, response) =>
      response.end(`unknown key ${KEY}, came as ${request.headers.authorization}`),
    );
    const { text } = await client({ baseUrl: url })();
    expect(text).toBe('unknown key [W&B API key], came as Basic [W&B API key]');
  });

  it.each(['http://127.0.0.1:1/graphql', '../graphql', '//127.0.0.1/graphql', 'x/../../graphql'])(
    'is not sent to %s',
    async (url) => {
      const { url: baseUrl, seen } = await server();
      const send = client({ baseUrl: `${baseUrl}/wandb` });
      await send({ url }).catch(() => null);
      for (const { path } of seen) expect(path).toMatch(/^\/wandb\//);
    },
  );
});

describe('certificates', () => {
  it('of a private authority need its CA file', async () => {
    const authority = newAuthority();
    const port = await tlsServer(authority.issue('IP:127.0.0.1'));
    const baseUrl = `https://127.0.0.1:${port}`;
    const fault = await faultOf(client({ baseUrl })());
    expect(fault).toMatchObject({ kind: 'tls', retry: false });
    expect(fault.message).toMatch(
      /^The certificate of 127\.0\.0\.1:\d+ is of an authority that is not known here/,
    );
    expect(fault.advice).toBe('Give the CA file of the W&B server or of the proxy on the way to it.');
    const reply = await client({ baseUrl, ca: authority.pem })();
    expect(reply.text).toBe('authorized');
    const other = await faultOf(client({ baseUrl, ca: newAuthority().pem })());
    expect(other.advice).toMatch(/^Check that the CA file is the one/);
  });

  it('that are wrong are told', async () => {
    const authority = newAuthority();
    const expired = await tlsServer(authority.issue('IP:127.0.0.1', -1));
    const foreign = await tlsServer(authority.issue('DNS:elsewhere'));
    const own = await tlsServer(selfSigned('IP:127.0.0.1'));
    const said = async (port: number) => {
      const { kind, message } = await faultOf(
        client({ baseUrl: `https://127.0.0.1:${port}`, ca: authority.pem })(),
      );
      return [kind, message];
    };
    expect(await said(expired)).toEqual(['tls', expect.stringContaining('has expired')]);
    expect(await said(foreign)).toEqual(['tls', expect.stringContaining('is for elsewhere')]);
    expect(await said(own)).toEqual(['tls', expect.stringContaining('authority that is not known')]);
  });
});

describe('a proxy', () => {
  it('makes a tunnel that sees neither key nor content, with its own login', async () => {
    const authority = newAuthority();
    const port = await tlsServer(authority.issue('DNS:wandb.example'));
    const { host, asked } = await proxy();
    const send = client({
      ...{ baseUrl: `https://wandb.example:${port}`, ca: authority.pem, proxy: `http://u:p%40@${host}` },
    });
    expect((await send()).text).toBe('authorized');
    await send();
    // one tunnel, kept
    expect(asked).toMatchObject([{ url: `wandb.example:${port}` }]);
    expect(asked[0]!.headers).not.toHaveProperty('authorization');
    expect(asked[0]!.headers['proxy-authorization']).toBe(`Basic ${Buffer.from('u:p@').toString('base64')}`);
  });

  it('is the one of the environment where none is given, and not for hosts of NO_PROXY', async () => {
    const { host, asked } = await proxy();
    const { url } = await server();
    const before = { ...process.env };
    onTestFinished(() => void (process.env = before));
    process.env = { ...before, HTTP_PROXY: `http://${host}`, NO_PROXY: '' };
    expect((await client({ baseUrl: url, proxy: undefined })()).text).toBe('by the proxy');
    expect((await client({ baseUrl: url, proxy: null })()).text).toBe('well');
    process.env = { ...before, HTTP_PROXY: `http://${host}`, NO_PROXY: '127.0.0.1' };
    expect((await client({ baseUrl: url, proxy: undefined })()).text).toBe('well');
    expect(asked).toHaveLength(1);
  });

  it.each([
    ['HTTP/1.1 407 Proxy Authentication Required\r\n\r\n', /407 Proxy Auth/, /user and password/, false],
    ['HTTP/1.1 403 Forbidden\r\n\r\n', /403 Forbidden/, /HTTPS_PROXY/, false],
    ['HTTP/1.1 503 Busy\r\n\r\n', /503 Busy/, /HTTPS_PROXY/, true],
    ['', /ended unexpectedly/, /HTTPS_PROXY/, true],
  ])('that answers %j is told', async (answer, said, advice, retry) => {
    const { host } = await proxy(answer);
    const fault = await faultOf(client({ baseUrl: 'https://wandb.example', proxy: `http://${host}` })());
    expect(fault).toMatchObject({ kind: 'proxy', retry });
    expect(fault.message).toMatch(/^The proxy does not connect to wandb\.example: /);
    expect(fault.message).toMatch(said);
    expect(fault.advice).toMatch(advice);
  });

  it('that wants a login for a server without TLS answers in its place, and no try more helps', async () => {
    const { port } = await httpServer((_request, response) =>
      response.writeHead(407).end('<html><title>ERROR: Cache Access Denied</title></html>'),
    );
    const made = createHttp(
      { baseUrl: 'http://wandb.example', ca: null, proxy: `http://127.0.0.1:${port}` },
      new ApiKey(KEY),
    );
    onTestFinished(() => made.close());
    const options = { timing: realTiming, tries: 3, signal: new AbortController().signal };
    const fault = await faultOf(createGraphql({ http: made, ...options }).viewer());
    expect(fault).toMatchObject({ kind: 'proxy', retry: false, status: 407 });
    expect(fault.message).toBe('The proxy answered 407: “ERROR: Cache Access Denied”.');
    expect(fault.advice).toMatch(/user and password into the address of the proxy/);
  });

  it('that is not there is told as the proxy, not as W&B', async () => {
    const { port } = await httpServer(() => {});
    const gone = await faultOf(client({ baseUrl: 'https://wandb.example', proxy: 'http://127.0.0.1:1' })());
    expect(gone).toMatchObject({ kind: 'proxy', retry: true });
    expect(gone.message).toBe('The proxy 127.0.0.1:1 refused the connection. Is the server up?');
    const unknown = await faultOf(
      client({ baseUrl: `http://127.0.0.1:${port}`, proxy: 'http://nowhere.invalid:1' })(),
    );
    expect(unknown).toMatchObject({ kind: 'proxy' });
    expect(unknown.message).toContain('The proxy nowhere.invalid ');
  });

  it('that says nothing holds nobody up', async () => {
    const { name } = await rawServer(() => {});
    const send = client({ baseUrl: 'https://wandb.example', proxy: `http://${name}` });
    expect(await faultOf(send({ timeoutMs: 300 }))).toMatchObject({ kind: 'network', retry: true });
    const cancelling = new AbortController();
    const sent = send({ signal: cancelling.signal });
    setTimeout(() => cancelling.abort(), 100);
    await expect(sent).rejects.toThrow(/abort/i);
  });

  it.each(['socks5://u:secret@127.0.0.1:1', 'nonsense', 'u:secret@nonsense:1'])(
    'as %s is refused, be it given or of the environment',
    (given) => {
      const make = () => client({ baseUrl: 'https://wandb.example', proxy: given });
      expect(make).toThrow(/of a kind that is not known/);
      expect(make).toThrow(expect.not.stringContaining('secret') as Error);
      const before = { ...process.env };
      onTestFinished(() => void (process.env = before));
      const fromEnv = (baseUrl: string, env: NodeJS.ProcessEnv) => () => {
        process.env = { ...before, ...env };
        client({ baseUrl, proxy: undefined });
      };
      const own = fromEnv('https://wandb.example', { HTTPS_PROXY: given, NO_PROXY: 'other, .example.org' });
      expect(own).toThrow(/of a kind that is not known/);
      expect(own).toThrow(expect.not.stringContaining('secret') as Error);
      expect(fromEnv('http://wandb.example', { http_proxy: given })).toThrow(/of a kind that is not known/);
      // one that is not used
      expect(fromEnv('http://wandb.example', { HTTPS_PROXY: given, http_proxy: '' })).not.toThrow();
      for (const NO_PROXY of ['*', 'a,wandb.example', '.example', '*.example', 'wandb.example:443'])
        expect(fromEnv('https://wandb.example:443', { HTTPS_PROXY: given, NO_PROXY })).not.toThrow();
    },
  );
});

describe('a server', () => {
  it('that is not there, or closes, or takes too long is told, and may come back', async () => {
    const refused = await faultOf(client({ baseUrl: 'http://127.0.0.1:1' })());
    expect(refused).toMatchObject({ kind: 'network', retry: true });
    expect(refused.message).toBe('127.0.0.1:1 refused the connection. Is the server up?');
    const closing = await rawServer((socket) => socket.destroy());
    expect(await faultOf(client({ baseUrl: `http://${closing.name}` })())).toMatchObject({ kind: 'network' });
    const silent = await rawServer(() => {});
    const late = await faultOf(client({ baseUrl: `http://${silent.name}` })({ timeoutMs: 200 }));
    expect(late).toMatchObject({ kind: 'network', retry: true });
    expect(late.message).toContain('did not answer within 0.2 s');
    const unknown = await faultOf(client({ baseUrl: 'http://nowhere.invalid' })());
    expect(unknown).toMatchObject({ kind: 'network', retry: true });
  });

  it('that answers half of it has not answered', async () => {
    const { url } = await server((_request, response) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('half', () => response.destroy());
    });
    expect(await faultOf(client({ baseUrl: url })())).toMatchObject({ kind: 'network', retry: true });
  });

  it('that does not end is stopped', async () => {
    const piece = Buffer.alloc(1024 * 1024);
    let sent = 0;
    const { url } = await server((_request, response) => {
      const more = () => {
        while (!response.destroyed && response.write(piece)) sent++;
      };
      response.on('drain', more);
      more();
    });
    const fault = await faultOf(client({ baseUrl: url })());
    expect(fault).toMatchObject({ kind: 'refused', retry: false });
    expect(fault.message).toBe('The server answered with more than 64 MiB.');
    expect(sent).toBeLessThan(200);
  });

  it('that speaks TLS where http:// was written is told so', async () => {
    const port = await tlsServer(newAuthority().issue('IP:127.0.0.1'));
    const fault = await faultOf(client({ baseUrl: `http://127.0.0.1:${port}` })());
    expect(fault.kind).toBe('network');
    expect(fault.message).toContain('https://');
    // not all hang up: others answer with an alert of TLS
    const { name } = await rawServer((socket) => socket.end(Buffer.from([21, 3, 1, 0, 2, 2, 70])));
    const told = await faultOf(client({ baseUrl: `http://${name}` })());
    expect(told).toMatchObject({ kind: 'network', retry: false });
    expect(told.message).toBe(`${name} speaks TLS. Write https:// before it.`);
  });

  it('that speaks no TLS where https:// was written is told so, also behind a proxy', async () => {
    const { port, host } = await server();
    const fault = await faultOf(client({ baseUrl: `https://${host}` })());
    expect(fault).toMatchObject({ kind: 'network', retry: false });
    expect(fault.message).toBe(`${host} does not speak TLS. Write http:// before it.`);
    const tunnel = await proxy();
    const baseUrl = `https://wandb.example:${port}`;
    const behind = await faultOf(client({ baseUrl, proxy: `http://${tunnel.host}` })());
    expect(behind).toMatchObject({ kind: 'network', retry: false });
    expect(behind.message).toBe(`wandb.example:${port} does not speak TLS. Write http:// before it.`);
  });
});
