/**
 * Whose W&B it is: the API key and where it came from, the server's address, entity and project, as the environment and
 * the files of W&B's own tools have them. And the address of a run in the browser.
 */
import fs from 'node:fs';
import path from 'node:path';
import { EngineError } from '../errors.ts';

export const DEFAULT_BASE_URL = 'https://api.wandb.ai';

const bad = (message: string) => new EngineError('bad-input', message);

/** Holds a key so that it can be sent, and neither printed, logged nor made JSON of. */
export class ApiKey {
  readonly #key: string;

  /** Throws `bad-input` for what cannot be a key; the sentence does not repeat it. */
  constructor(text: string) {
    const key = text.trim();
    const fault = keyFault(key);
    if (fault) throw bad(fault);
    this.#key = key;
  }

  /** The value of the header. */
  authorization(): string {
    return `Basic ${Buffer.from(`api:${this.#key}`).toString('base64')}`;
  }

  /** For the keychain and nothing else. */
  reveal(): string {
    return this.#key;
  }

  /** Without the key, where a server says it back. */
  hideIn(text: string): string {
    const encoded = this.authorization().slice('Basic '.length);
    return text.replaceAll(this.#key, String(this)).replaceAll(encoded, String(this));
  }

  toString(): string {
    return '[W&B API key]';
  }

  toJSON(): string {
    return this.toString();
  }
}

/** null: it looks like one. New keys have 86 characters, old ones 40; those of own servers have a prefix before a `-`. */
function keyFault(key: string): string | null {
  if (key === '') return 'There is no API key.';
  if (/^[\w-]+\.[\w-]+\.[\w-]+$/.test(key)) return null; // a JWT
  const secret = key.slice(key.indexOf('-') + 1);
  if (!/^[\w-]+$/.test(secret))
    return 'The API key has characters that no key has. Copy it again from your W&B settings.';
  return secret.length < 40
    ? `The API key is too short: ${secret.length} characters, where keys have 40 or more. Copy the whole of it.`
    : null;
}

/** Without a slash at its end. Throws `bad-input` with a sentence. */
export function parseBaseUrl(text: string): string {
  const trimmed = text.trim().replace(/\/+$/, '');
  if (!/^https?:\/\//i.test(trimmed) || !URL.canParse(trimmed))
    throw bad(`"${withoutLogin(trimmed)}" is no address of a W&B server. Write https://host.`);
  const url = new URL(trimmed);
  if (url.username || url.password)
    throw bad('The address of a W&B server has no user and password. Give the API key instead.');
  if (url.search || url.hash) throw bad('The address of a W&B server ends with its host or a path.');
  if (/(^|\.)wandb\.ai$/.test(url.hostname)) {
    if (!url.hostname.startsWith('api.'))
      throw bad(`"${trimmed}" is W&B's site for people. The server's address is ${DEFAULT_BASE_URL}.`);
    if (url.protocol !== 'https:')
      throw bad(`http is not secure. The server's address is ${DEFAULT_BASE_URL}.`);
  }
  return url.origin + url.pathname.replace(/\/+$/, '');
}

const withoutLogin = (text: string) => text.replace(/^([a-z]+:\/\/)?.*@/i, '$1').slice(0, 200);

/** Where a run is looked at. `appUrl`: WANDB_APP_URL, for servers whose site is elsewhere. */
export function runUrl(
  baseUrl: string,
  run: { entity: string; project: string; runId: string },
  appUrl: string | null = null,
): string {
  const app =
    appUrl ??
    (baseUrl.includes('://api.wandb.')
      ? baseUrl.replace('://api.wandb.', '://wandb.')
      : baseUrl.replace('://api.', '://app.'));
  const [entity, project, id] = [run.entity, run.project, run.runId].map(encodeURIComponent);
  return `${app.replace(/\/+$/, '')}/${entity}/${project}/runs/${id}`;
}

/** What is known of the place without asking the user. */
export interface FoundPlace {
  baseUrl: string;
  entity: string | null;
  project: string | null;
  appUrl: string | null;
}

export interface FoundKey {
  key: ApiKey;
  /** `WANDB_API_KEY`, or the path of the netrc file. */
  from: string;
}

/** Where W&B's own tools leave what they know. */
export interface AccountPlaces {
  env: NodeJS.ProcessEnv;
  home: string;
  platform: NodeJS.Platform;
}

/**
 * From the environment and W&B's settings file, in this order. `baseUrl`: a server that the user chose. Keys are not
 * looked at. Throws `bad-input` where the address cannot be one.
 */
export function findPlace({ env, home }: AccountPlaces, baseUrl?: string): FoundPlace {
  const settings = readSettings(env, home);
  return {
    baseUrl: parseBaseUrl(baseUrl ?? ownServer(env, settings)),
    entity: env.WANDB_ENTITY || settings.entity || null,
    project: env.WANDB_PROJECT || settings.project || null,
    appUrl: env.WANDB_APP_URL || null,
  };
}

/**
 * The key of a server (as parseBaseUrl gives it) in WANDB_API_KEY or netrc; null: neither has one for it. Throws
 * `bad-input` for one that cannot be a key, with where it stands.
 */
export function findKey(places: AccountPlaces, server: string): FoundKey | null {
  const { env, home, platform } = places;
  if (env.WANDB_API_KEY && serverOfEnvKey(places) === server)
    return { key: keyOf(env.WANDB_API_KEY, 'WANDB_API_KEY'), from: 'WANDB_API_KEY' };
  const file = netrcFile(env, home, platform);
  const password = netrcPassword(readText(file), new URL(server).hostname);
  return password === null ? null : { key: keyOf(password, file), from: file };
}

/** WANDB_API_KEY names no server: it is of the one that W&B's own tools would use. null: no key, or no such server. */
export function serverOfEnvKey({ env, home }: AccountPlaces): string | null {
  if (!env.WANDB_API_KEY) return null;
  try {
    return parseBaseUrl(ownServer(env, readSettings(env, home)));
  } catch {
    return null;
  }
}

const ownServer = (env: NodeJS.ProcessEnv, settings: Settings): string =>
  env.WANDB_BASE_URL || settings.base_url || DEFAULT_BASE_URL;

function keyOf(text: string, from: string): ApiKey {
  try {
    return new ApiKey(text);
  } catch (error) {
    throw bad(`In ${from}: ${(error as Error).message}`);
  }
}

function readText(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function netrcFile(env: NodeJS.ProcessEnv, home: string, platform: NodeJS.Platform): string {
  if (env.NETRC) return env.NETRC;
  const dotted = path.join(home, '.netrc');
  const other = path.join(home, '_netrc');
  if (platform === 'win32') return fs.existsSync(other) ? other : dotted;
  return fs.existsSync(dotted) ? dotted : other;
}

/** The words of a netrc file; a quoted one may hold blanks. A `#` begins a comment where a word could begin. */
const WORDS = /"((?:[^"\\]|\\.)*)"|#[^\n]*|(\S+)/g;

/** null: the file has no password for that machine. `default` is not taken: a key of W&B is of one server. */
export function netrcPassword(text: string, host: string): string | null {
  // a macro goes to the next empty line
  const words = [...text.replace(/^\s*macdef\b[\s\S]*?(\n\s*\n|(?![\s\S]))/gm, '\n').matchAll(WORDS)]
    .filter(([whole]) => !whole.startsWith('#'))
    .map(([, quoted, bare]) => quoted?.replace(/\\(.)/g, '$1') ?? bare!);
  let ours = false;
  for (let i = 0; i < words.length; i++) {
    if (words[i] === 'default') ours = false;
    else if (words[i] === 'machine') ours = words[++i] === host;
    else if (words[i] === 'login' || words[i] === 'account') i++;
    else if (words[i] === 'password') {
      const password = words[++i];
      if (ours && password !== undefined) return password;
    }
  }
  return null;
}

type Settings = Partial<Record<string, string>>;

/** `[default]` of W&B's settings file. */
function readSettings(env: NodeJS.ProcessEnv, home: string): Settings {
  const folder = env.WANDB_CONFIG_DIR || path.join(home, '.config', 'wandb');
  const settings: Record<string, string> = {};
  let section = '';
  for (const line of readText(path.join(folder, 'settings')).split(/\r?\n/)) {
    section = /^\s*\[(.*)\]\s*$/.exec(line)?.[1] ?? section;
    const [, name, value] = /^\s*([\w-]+)\s*[=:]\s*(.*?)\s*$/.exec(line) ?? [];
    if (section === 'default' && name !== undefined && value) settings[name] = value;
  }
  return settings;
}
