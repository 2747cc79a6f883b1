/** Certificates for tests, made by openssl as an admin would make them; they go with the test. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { folderFor } from './engines.ts';
import type { ServerCertificate } from './fake-endpoint.ts';

const openssl = (folder: string, ...args: string[]) =>
  execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
const makeKey = (folder: string, file: string) =>
  openssl(folder, 'ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', file);

export interface Authority {
  /** Its own certificate. */
  pem: string;
  file: string;
  /** For these names (`IP:127.0.0.1`, `DNS:gpu-01`), from now on for so many days; fewer than 0: expired. */
  issue: (names: string, days?: number) => ServerCertificate;
}

export function newAuthority(): Authority {
  const folder = folderFor(onTestFinished);
  const read = (file: string) => fs.readFileSync(path.join(folder, file), 'utf8');
  makeKey(folder, 'ca.key');
  const own =
    '-x509 -new -key ca.key -subj /CN=Lab -days 2 -addext keyUsage=critical,keyCertSign -out ca.pem';
  openssl(folder, 'req', ...own.split(' '));
  let n = 0;
  return {
    pem: read('ca.pem'),
    file: path.join(folder, 'ca.pem'),
    issue: (names, days = 1) => {
      const name = `server-${n++}`;
      makeKey(folder, `${name}.key`);
      fs.writeFileSync(path.join(folder, `${name}.ext`), `subjectAltName=${names}\n`);
      openssl(folder, 'req', '-new', '-key', `${name}.key`, '-subj', '/CN=server', '-out', `${name}.csr`);
      const sign = `-req -in ${name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days ${days} -extfile ${name}.ext`;
      openssl(folder, 'x509', ...sign.split(' '), '-out', `${name}.pem`);
      return { key: read(`${name}.key`), cert: read(`${name}.pem`) };
    },
  };
}

/** A certificate that is its own authority, as `openssl req -x509` makes them. */
export function selfSigned(names: string): ServerCertificate {
  const folder = folderFor(onTestFinished);
  makeKey(folder, 'key');
  const own = `-x509 -new -key key -subj /CN=server -days 1 -addext subjectAltName=${names} -out pem`;
  openssl(folder, 'req', ...own.split(' '));
  const read = (file: string) => fs.readFileSync(path.join(folder, file), 'utf8');
  return { key: read('key'), cert: read('pem') };
}
