/** Whose W&B it is: keys, addresses, and what W&B's own tools left in the environment and in files. */
import fs from 'node:fs';
import path from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  ApiKey,
  findKey,
  findPlace,
  netrcPassword,
  parseBaseUrl,
  runUrl,
} from '../electron/engine/wandb/account.ts';
import { folderFor } from './engines.ts';

const OLD = '0123456789abcdef0123456789abcdef01234567';
const NEW = `wandb_v1_${'aB3_'.repeat(19)}x`;

describe('a key', () => {
  it.each([OLD, NEW, `local-${OLD}`, ` ${OLD}\n`, 'eyJh.eyJz-dg.c2ln_'])('may be %j', (text) => {
    const sent = Buffer.from(new ApiKey(text).authorization().replace('Basic ', ''), 'base64').toString();
    expect(sent).toBe(`api:${text.trim()}`);
  });

  it.each([
    ['', /no API key/],
    [OLD.slice(1), /too short: 39/],
    [`local-${OLD.slice(1)}`, /too short: 39/],
    [`${OLD} x`, /characters that no key has/],
    [`"${OLD}"`, /characters that no key has/],
  ])('cannot be %j', (text, sentence) => {
    expect(() => new ApiKey(text)).toThrow(sentence);
  });

  it('is in no text that is made of it, nor in the sentence that refuses it', () => {
    const key = new ApiKey(OLD);
    const texts = [
      String(key),
      JSON.stringify({ key }),
      inspect(key, { depth: 9, showHidden: true }),
      `${inspect([key])}`,
    ];
    for (const text of texts) expect(text).not.toContain(OLD);
    expect(() => new ApiKey(`${OLD}!`)).toThrow(expect.not.stringContaining(OLD.slice(0, 8)) as Error);
  });
});

describe('the address of the server', () => {
  it.each([
    ['https://api.wandb.ai', 'https://api.wandb.ai'],
    ['https://api.wandb.ai//', 'https://api.wandb.ai'],
    ['http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    [' https://tools.example.com/wandb/ ', 'https://tools.example.com/wandb'],
    ['https://acme.wandb.io', 'https://acme.wandb.io'],
  ])('%s is taken as %s', (text, url) => {
    expect(parseBaseUrl(text)).toBe(url);
  });

  it.each([
    ['https://wandb.ai', /site for people.*https:\/\/api\.wandb\.ai/],
    ['http://api.wandb.ai', /not secure/],
    ['api.wandb.ai', /no address/],
    ['ftp://api.wandb.ai', /no address/],
    ['https://u:secret@host', /no user and password/],
    ['https://host/?a=b', /ends with its host/],
  ])('%s is refused', (text, sentence) => {
    expect(() => parseBaseUrl(text)).toThrow(sentence);
    expect(() => parseBaseUrl(text)).toThrow(expect.not.stringContaining('secret') as Error);
  });

  const run = { entity: 'my team', project: 'p', runId: 'abc' };
  it.each([
    ['https://api.wandb.ai', null, 'https://wandb.ai/my%20team/p/runs/abc'],
    ['https://api.acme.com', null, 'https://app.acme.com/my%20team/p/runs/abc'],
    ['https://acme.wandb.io', null, 'https://acme.wandb.io/my%20team/p/runs/abc'],
    ['https://host/wandb', null, 'https://host/wandb/my%20team/p/runs/abc'],
    [
      'https://api.wandb.ai',
      'https://forge.example/wandb/',
      'https://forge.example/wandb/my%20team/p/runs/abc',
    ],
  ])('a run of %s (site %s) is looked at under %s', (base, app, url) => {
    expect(runUrl(base, run, app)).toBe(url);
  });
});

describe('netrc', () => {
  const netrc = [
    '# a comment with password in it',
    `machine other.host login user password ${'o'.repeat(40)}`,
    'macdef init',
    'machine api.wandb.ai password wrong',
    '',
    `machine api.wandb.ai\n  login user # password no\n  password ${OLD}`,
    'machine quoted login user password "with \\"blank"',
    'default login anonymous password nobody',
  ].join('\n');

  it.each([
    ['api.wandb.ai', OLD],
    ['quoted', 'with "blank'],
    ['elsewhere', null],
    ['wandb.ai', null],
  ])('has for %s: %s', (host, password) => {
    expect(netrcPassword(netrc, host)).toBe(password);
  });

  it('a word that is a login is no keyword', () => {
    expect(netrcPassword('machine h login password password p', 'h')).toBe('p');
    expect(netrcPassword('machine h login u password', 'h')).toBeNull();
  });
});

describe('what is found', () => {
  function home(files: Record<string, string>) {
    const folder = folderFor(onTestFinished);
    for (const [name, text] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
      fs.writeFileSync(path.join(folder, name), text);
    }
    return folder;
  }
  const settings = '[default]\nbase_url = https://wandb.acme.com\nentity = team\n[other]\nproject = no\n';
  const netrc = `machine wandb.acme.com login user password ${OLD}\n`;
  const places = (env: NodeJS.ProcessEnv, files: Record<string, string> = {}) => ({
    ...{ env, home: home(files), platform: 'linux' as const },
  });
  const w = 'https://api.wandb.ai';

  it('is nothing where there is nothing', () => {
    expect(findPlace(places({}))).toEqual({ baseUrl: w, entity: null, project: null, appUrl: null });
    expect(findKey(places({}), w)).toBeNull();
  });

  it('is the settings file of W&B and the netrc entry of its server', () => {
    const at = places({ WANDB_PROJECT: 'p' }, { '.config/wandb/settings': settings, '.netrc': netrc });
    const baseUrl = 'https://wandb.acme.com';
    expect(findPlace(at)).toMatchObject({ baseUrl, entity: 'team', project: 'p' });
    const found = findKey(at, baseUrl);
    expect(found?.from).toBe(path.join(at.home, '.netrc'));
    expect(found?.key.reveal()).toBe(OLD);
    // a server that was chosen has an entry of its own
    expect(findPlace(at, w).baseUrl).toBe(w);
    expect(findKey(at, w)).toBeNull();
  });

  it('is the environment before any file', () => {
    const env = {
      WANDB_API_KEY: NEW,
      WANDB_BASE_URL: 'http://h:1/',
      WANDB_ENTITY: 'e',
      WANDB_APP_URL: 'http://a',
    };
    const files = { '.config/wandb/settings': settings, '.netrc': `machine h password ${OLD}` };
    const at = places(env, files);
    expect(findPlace(at)).toMatchObject({ baseUrl: 'http://h:1', entity: 'e', appUrl: 'http://a' });
    const found = findKey(at, 'http://h:1');
    expect(found?.from).toBe('WANDB_API_KEY');
    expect(found?.key.reveal()).toBe(NEW);
  });

  it.each([
    ['WANDB_BASE_URL', { WANDB_BASE_URL: 'http://h:1' }, {}, 'http://h:1'],
    ['the settings file', {}, { '.config/wandb/settings': settings }, 'https://wandb.acme.com'],
    ['nobody', {}, {}, w],
  ])('a key of the environment is of the server that %s names, and of no other', (_, env, files, own) => {
    const at = places({ WANDB_API_KEY: NEW, ...env }, files);
    for (const server of ['http://h:1', 'http://h:2', 'https://wandb.acme.com', w, `${w}.evil.example`])
      expect(findKey(at, server)?.key.reveal(), server).toBe(server === own ? NEW : undefined);
  });

  it('beside a key of the environment for another server is netrc', () => {
    const at = places({ WANDB_API_KEY: NEW, WANDB_BASE_URL: 'nonsense' }, { '.netrc': netrc });
    expect(findKey(at, 'https://wandb.acme.com')?.key.reveal()).toBe(OLD);
    expect(findKey(at, w)).toBeNull();
  });

  it('is _netrc on Windows', () => {
    const at = { ...places({}, { _netrc: `machine api.wandb.ai login user password ${OLD}` }) };
    expect(findKey({ ...at, platform: 'win32' }, w)?.from).toBe(path.join(at.home, '_netrc'));
  });

  it('a key that cannot be one is told with where it stands, without the key, and hinders nothing else', () => {
    const at = places({ WANDB_API_KEY: 'hunter2' });
    const ask = () => findKey(at, w);
    expect(ask).toThrow('In WANDB_API_KEY: The API key is too short: 7 characters');
    expect(ask).toThrow(expect.not.stringContaining('hunter2') as Error);
    expect(findPlace(at)).toMatchObject({ baseUrl: w });
  });
});
