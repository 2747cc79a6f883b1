/**
 * Endpoints that want something before they answer: a header, a user and password, trust in their certificate. Real
 * servers, real TLS with authorities that openssl makes here. What Basic and Bearer look like is RFC 7617 and 6750.
 */
import { execFile } from 'node:child_process';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createScraper, type ScrapeOptions } from '../electron/engine/scrape.ts';
import { newAuthority, selfSigned } from './certificates.ts';
import { fakes, root } from './engines.ts';
import type { Faults, ServerCertificate } from './fake-endpoint.ts';
import { httpServer, METRICS, rawServer, serving } from './small-servers.ts';

const scraperFor = (url: string, options: Partial<ScrapeOptions> = {}) => {
  const scraper = createScraper(url, { timeoutMs: 20_000, now: Date.now, ...options });
  onTestFinished(() => scraper.close());
  return scraper;
};
/** What one scrape came to: `ok`, or the reason and the sentence. */
async function asked(url: string, options: Partial<ScrapeOptions> = {}) {
  const outcome = await scraperFor(url, options).scrape();
  return outcome.ok ? 'ok' : `${outcome.reason}: ${outcome.sentence}`;
}
async function endpointWith(faults: Faults = {}, certificate?: ServerCertificate) {
  const endpoint = (await fakes(onTestFinished, { certificate })).endpoints[0]!;
  endpoint.faults = faults;
  return { endpoint, url: endpoint.url, name: `127.0.0.1:${endpoint.port}` };
}

describe('a header', () => {
  it('goes with every request, over redirects too', async () => {
    const { endpoint, url } = await endpointWith({ wants: 'Bearer s3cret', redirect: 'same-origin' });
    const scraper = scraperFor(url, { headers: { Authorization: 'Bearer s3cret', 'X-Pool': 'a' } });
    for (let i = 0; i < 2; i++) expect((await scraper.scrape()).ok).toBe(true);
    expect(endpoint.seen.requests).toBe(4);
    expect(endpoint.seen.headers).toMatchObject({ authorization: 'Bearer s3cret', 'x-pool': 'a' });
  });

  it('never leaves the origin', async () => {
    const other = await serving(METRICS);
    const { url } = await endpointWith({ redirect: other.url });
    const said = await asked(url, { headers: { authorization: 'Bearer s3cret' } });
    expect(said).toContain(`redirects to http://${other.name}. Give that address, if it is meant.`);
    expect(other.seen.connections).toBe(0);
  });

  it('takes the place of ours, but never of how the answer is read', async () => {
    const { endpoint, url } = await endpointWith();
    const headers = { 'User-Agent': 'mine', Accept: 'application/openmetrics-text', 'Accept-Encoding': 'br' };
    expect(await asked(url, { headers })).toBe('ok');
    expect(endpoint.seen.headers).toMatchObject({
      'user-agent': 'mine',
      accept: 'text/plain;version=0.0.4',
      'accept-encoding': 'gzip, deflate',
    });
  });
});

describe('a user and password', () => {
  it.each([
    // RFC 7617's own example, and its one in UTF-8
    ['Aladdin', 'open sesame', 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=='],
    ['test', '123£', 'Basic dGVzdDoxMjPCow=='],
  ])('%s, %s', async (user, password, wants) => {
    const { url } = await endpointWith({ wants });
    expect(await asked(url, { login: { user, password } })).toBe('ok');
  });

  it('give way to a header of that name', async () => {
    const { url } = await endpointWith({ wants: 'Bearer s3cret' });
    const login = { user: 'me', password: 'pw' };
    expect(await asked(url, { login, headers: { AUTHORIZATION: 'Bearer s3cret' } })).toBe('ok');
  });
});

describe('who is not let in reads what to do', () => {
  const bearer = { headers: { Authorization: 'Bearer hunter2' } };
  const login = { login: { user: 'me', password: 'hunter2' } };

  it('nothing was given: what is wanted', async () => {
    const { endpoint, url, name } = await endpointWith({ wants: 'Bearer s3cret' });
    expect(await asked(url)).toBe(
      `http: ${name} said 401: it wants a key. Give a bearer token or a header under "Access".`,
    );
    endpoint.faults = { wants: 'Basic bWU6cHc=' };
    expect(await asked(url)).toBe(
      `http: ${name} said 401: it wants a user and password. Write them before its host: user:password@host.`,
    );
  });

  it('the wrong one was given: that it was refused, and never what it was', async () => {
    const { url, name } = await endpointWith({ wants: 'Bearer s3cret' });
    for (const [options, what] of [
      [bearer, 'the header Authorization that was given'],
      [login, 'the user and password that were given'],
      [{ headers: { 'X-Key': 'hunter2', 'X-B': 'hunter2' } }, 'the headers that were given (X-Key, X-B)'],
    ] as const) {
      const said = await asked(url, options);
      expect(said).toBe(`http: ${name} said 401: it refused ${what}. Look at it under "Access".`);
    }
    const forbidden = await serving('no', {}, 403);
    expect(await asked(forbidden.url, bearer)).toBe(
      `http: ${forbidden.name} said 403: it refused the header Authorization that was given. Look at it under "Access".`,
    );
  });
});

describe('TLS', () => {
  const access = 'Give its CA file under "Access".';

  it('of an authority that is given is trusted, redirects and a second scrape included', async () => {
    const authority = newAuthority();
    const certificate = authority.issue('IP:127.0.0.1');
    const { endpoint, url } = await endpointWith({ redirect: 'same-origin' }, certificate);
    expect(url).toMatch(/^https:/);
    const scraper = scraperFor(url, { ca: authority.pem });
    for (let i = 0; i < 3; i++) expect((await scraper.scrape()).ok).toBe(true);
    expect(endpoint.seen).toMatchObject({ requests: 6, connections: 1 });
    // two authorities in one file, as bundles have them
    expect(await asked(url, { ca: newAuthority().pem + authority.pem })).toBe('ok');
  });

  it('of another authority is refused: without a CA file, and with a wrong one', async () => {
    const authority = newAuthority();
    const { url, name, endpoint } = await endpointWith({}, authority.issue('IP:127.0.0.1'));
    expect(await asked(url)).toBe(
      `unreachable: The certificate of ${name} is of an authority that is not known here. ${access}`,
    );
    expect(await asked(url, { ca: newAuthority().pem })).toBe(
      `unreachable: The certificate of ${name} is of no authority in the CA file, nor of one that the system knows. Is it the right CA file?`,
    );
    expect(endpoint.seen.requests).toBe(0);
  });

  it('signed by itself is refused, and trusted where it is given', async () => {
    const own = selfSigned('IP:127.0.0.1');
    const { url, name } = await endpointWith({}, own);
    expect(await asked(url)).toBe(
      `unreachable: The certificate of ${name} is signed by itself. Give it as the CA file under "Access".`,
    );
    expect(await asked(url, { ca: own.cert })).toBe('ok');
  });

  it('for another name, and expired', async () => {
    const authority = newAuthority();
    const other = await endpointWith({}, authority.issue('DNS:gpu-01,DNS:gpu-01.lab,IP:10.0.0.7'));
    expect(await asked(other.url, { ca: authority.pem })).toBe(
      `unreachable: The certificate of ${other.name} is for gpu-01, gpu-01.lab, 10.0.0.7. Give the address by a name that it is for.`,
    );
    const old = await endpointWith({}, authority.issue('IP:127.0.0.1', -1));
    expect(await asked(old.url, { ca: authority.pem })).toBe(
      `unreachable: The certificate of ${old.name} has expired. It must be renewed on the server, unless this machine's clock is wrong.`,
    );
  });

  it('with a certificate of the client', async () => {
    const authority = newAuthority();
    const options = { ...authority.issue('IP:127.0.0.1'), ca: authority.pem, requestCert: true };
    const server = https.createServer(options, (_request, response) => response.end(METRICS));
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    expect(await asked(`https://127.0.0.1:${port}/metrics`, { ca: authority.pem })).toBe(
      `unreachable: 127.0.0.1:${port} wants a client certificate, which cannot be given here.`,
    );
  });

  it('where plain HTTP is spoken, and the reverse', async () => {
    const plain = await serving(METRICS);
    expect(await asked(plain.url.replace('http:', 'https:'))).toBe(
      `unreachable: ${plain.name} does not speak TLS. Write http:// before it.`,
    );
    const { url, name } = await endpointWith({}, selfSigned('IP:127.0.0.1'));
    expect(await asked(url.replace('https:', 'http:'))).toBe(
      `unreachable: ${name} closed the connection before it answered. If it speaks TLS, write https:// before it.`,
    );
  });

  it.each([
    ['nginx', '<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>'],
    ['Go', 'Client sent an HTTP request to an HTTPS server.\n'],
    ['Apache', "Reason: You're speaking plain HTTP to an SSL-enabled server port.<br />"],
  ])('where plain HTTP is spoken to it, in the words of %s', async (_server, body) => {
    const { url, name } = await serving(body, {}, 400);
    expect(await asked(url)).toBe(`http: ${name} speaks TLS. Write https:// before it.`);
  });

  it('where plain HTTP is spoken to it, in an alert', async () => {
    // fatal, protocol_version, as OpenSSL's and Rust's servers send it
    const { url, name } = await rawServer((socket) => socket.end(Buffer.from([21, 3, 1, 0, 2, 2, 70])));
    expect(await asked(url)).toBe(`not-metrics: ${name} speaks TLS. Write https:// before it.`);
  });

  it('of an authority that only the system knows is trusted', async () => {
    const authority = newAuthority();
    const { url } = await endpointWith({}, authority.issue('IP:127.0.0.1'));
    const script = `
      const { createScraper } = await import('./electron/engine/scrape.ts');
      const scraper = createScraper(process.argv[1], { timeoutMs: 20000, now: Date.now });
      console.log((await scraper.scrape()).ok);
      scraper.close();`;
    // OpenSSL's way to say where the system's authorities are; read at the start of a process
    const env = { ...process.env, SSL_CERT_FILE: authority.file };
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '-e', script, url],
      { cwd: root, env },
    );
    expect(stdout.trim()).toBe('true');
  });
});

describe('404', () => {
  it('in FastAPI’s words: NeMo RL, and the way out', async () => {
    const { url, name } = await endpointWith({ noMetrics: true });
    expect(await asked(url)).toBe(
      `http: ${name} said 404: it serves no /metrics. Workers and routers of NeMo RL serve none; with the exporter installed beside their engines they do (docs/nemo-rl.md).`,
    );
  });

  it('of a router in words of its own, of a page, of nothing', async () => {
    const hint =
      'it serves no /metrics. Is it the port of a vLLM server? A router often serves none: give the servers behind it. For NeMo RL: docs/nemo-rl.md.';
    const router = await serving('{"detail":"Ask the shards themselves"}', {}, 404);
    expect(await asked(router.url)).toBe(
      `http: ${router.name} said 404 "{"detail":"Ask the shards themselves"}": ${hint}`,
    );
    for (const body of ['<html><h1>404</h1></html>', '404 page not found\n', 'Not Found', '']) {
      const { url, name } = await serving(body, {}, 404);
      expect(await asked(url)).toBe(`http: ${name} said 404: ${hint}`);
    }
  });

  it('under a path of its own: the path', async () => {
    const { url } = await httpServer((_request, response) =>
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}'),
    );
    const under = new URL('/vllm/metrics', url);
    expect(await asked(under.href)).toBe(
      `http: ${under.host}/vllm said 404: there are no metrics under this path. vLLM's are at /metrics, right behind host and port.`,
    );
  });
});
