// Where tokens and secrets are while the engine works, and where they are not: a real `serve` with real faults, then
// every byte that it wrote and said. The W&B key has uploads.test.ts, the keychain keychain.test.ts.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { expect, it } from 'vitest';
import { fakes, folderFor, run, until, urlsOf } from './engines.ts';
import { connect, refused } from './pages.ts';
import { httpServer } from './small-servers.ts';

/** Files of a folder, by name, that hold `text`. */
const holding = (folder: string, text: string) =>
  fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => fs.readFileSync(file).includes(text))
    .map((file) => path.relative(folder, file))
    .sort();

const post = (port: number, token: string) =>
  new Promise<number>((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    http
      .request({ host: '127.0.0.1', port, path: '/api/step', method: 'POST', headers }, (reply) => {
        reply.resume();
        resolve(reply.statusCode ?? 0);
      })
      .on('error', reject)
      .end('{"run":"lab"}');
  });

it('tokens and credentials are in no log, and in no file but their own', async ({ onTestFinished }) => {
  const folder = path.join(folderFor(onTestFinished), 'data');
  const fake = await fakes(onTestFinished);
  const refusing = await httpServer((_request, response) => response.writeHead(403).end('no'));
  const broken = await httpServer((request, response) =>
    response.writeHead(500).end(`out of order: ${request.headers.authorization}`),
  );
  const ran = run(onTestFinished, ['serve', '--port', '0', '--data', folder]);
  const [address, port, token] = await until(
    () => /http:\/\/127\.0\.0\.1:(\d+)\/#token=(\w+)/.exec(ran.stdout()) ?? (false as never),
  );
  const markToken = fs.readFileSync(path.join(folder, 'mark-token'), 'utf8').trim();
  expect(markToken).not.toBe(token);
  const page = await connect(onTestFinished, Number(port), token!);

  const [password, bearer] = ['correct-horse-battery', 'eyJhbGciOi-staple'];
  const headers = [{ name: 'Authorization', value: `Bearer ${bearer}` }];
  const cluster = await page.methods.addCluster({
    name: 'lab',
    addresses: [urlsOf(fake), refusing.url, broken.url].join('\n'),
    headers,
    intervalSeconds: 0.2,
    timeoutSeconds: 5,
  });
  await page.methods.addCluster({
    name: 'gate',
    addresses: [refusing.url, broken.url].join('\n').replaceAll('//', `//ada:${password}@`),
    intervalSeconds: 0.2,
    timeoutSeconds: 5,
  });
  await until(() => refusing.seen.requests > 3 && broken.seen.requests > 2);

  // a server that says back what it was sent
  const said = async () =>
    (await page.methods.listClusters()).flatMap((c) => c.endpoints.map((e) => e.sentence ?? ''));
  await until(async () => (await said()).filter((text) => text.includes('out of order')).length === 2);
  expect((await said()).filter((text) => text.endsWith('said 500 "out of order: ***".'))).toHaveLength(2);

  // whoever knocks with almost the right one, and who calls what breaks
  const wrong = [...token!].reverse().join('');
  expect(await refused(connect(onTestFinished, Number(port), wrong))).toBe('401');
  expect([await post(Number(port), wrong), await post(Number(port), markToken)]).toEqual([401, 200]);
  const misspelt = `http://ada:${password}@127.0.0.1:99999`;
  for (const call of [
    () => page.methods.updateCluster(cluster.id, { name: 'lab', addresses: misspelt, headers }),
    () => page.methods.check({ address: misspelt, headers }),
  ]) {
    const refusal = await call().then(JSON.stringify, String);
    expect(refusal).toContain('is no address');
    for (const secret of [password, bearer]) expect(refusal).not.toContain(secret);
  }
  expect(holding(folder, token!)).toEqual(['engine.json', 'token']);
  expect(holding(folder, markToken)).toEqual(['mark-token']);

  ran.child.kill('SIGTERM');
  expect(await ran.ended).toBe(0);
  // whoever starts it by hand is told the address, once
  expect(ran.stdout()).toBe(`${address}\n`);
  for (const secret of [token!, markToken, wrong, password, bearer])
    expect(ran.stderr()).not.toContain(secret);
  expect(holding(folder, token!)).toEqual(['token']);
  const basic = Buffer.from(`ada:${password}`).toString('base64');
  for (const secret of [password, bearer, basic, wrong]) expect(holding(folder, secret)).toEqual([]);
});
