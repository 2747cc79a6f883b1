/**
 * From what people paste to endpoint URLs: `host:port`, `http://h:8000/v1`, a list with commas, trailing slashes,
 * IPv6 in brackets, https, a user and password before the host. `/metrics` is added, `/v1` taken off, doubles are
 * merged. vLLM's own port 8000 is meant where a bare host has none. Paths and globs of file_sd files are told from
 * addresses here; file-sd.ts reads them.
 */
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { EngineError } from './errors.ts';

const bad = (message: string) => new EngineError('bad-input', message);

/** For Basic authorization. */
export interface Login {
  user: string;
  password: string;
}

const SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i;
const withScheme = (word: string) => (SCHEME.test(word) ? word : `http://${word}`);

/** Whatever stands before the last @ may be a part of a password. */
const UP_TO_HOST = /^([a-z][a-z0-9+.-]*:\/\/)?.*@/is;
export const withoutLogin = (word: string): string => word.replace(UP_TO_HOST, '$1');
/** What a sentence may repeat. */
const shown = (word: string) => word.replace(UP_TO_HOST, '$1…@').slice(0, 200);

const encode =
  'In a password write / as %2F, ? as %3F, # as %23, comma as %2C, semicolon as %3B and % as %25.';

/** One address to the URL that is scraped, without the user and password. Throws `bad-input` with a sentence. */
export function parseAddress(word: string): { url: string; login: Login | null } {
  // http:///x would be the host x
  if (word.startsWith('/') || !URL.canParse(withScheme(word)))
    throw bad(
      `"${shown(word)}" is no address. Write host:port or http://host:port.${word.includes('@') ? ` ${encode}` : ''}`,
    );
  const url = new URL(withScheme(word));
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw bad(
      `"${shown(word)}" begins with ${url.protocol}//; endpoints are reached by http:// or https://.`,
    );
  // a password with / # or ? in it ends the host early, and its rest would be kept as a part of the URL
  if ((url.pathname + url.search + url.hash).includes('@'))
    throw bad(`"${shown(word)}" has an @ behind the host. ${encode}`);
  const login =
    url.username || url.password ? { user: decode(url.username), password: decode(url.password) } : null;
  url.username = url.password = '';
  if (!SCHEME.test(word) && url.port === '' && !/^[^/]*:80(?:\/|$)/.test(word)) url.port = '8000';
  const way = url.pathname.replace(/\/+$/, '');
  url.pathname = way.endsWith('/metrics') ? way : way.replace(/\/v1$/, '') + '/metrics';
  url.hash = '';
  return { url: url.href, login };
}

/** `%` that begins no escape stands for itself. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const endpointUrl = (word: string): string => parseAddress(word).url;

/**
 * The absolute path that is meant where `word` is a path or glob of file_sd files, otherwise null: it begins as a path
 * does, or ends as a file_sd file. Throws `bad-input` for a path that Prometheus would not take either.
 */
function sourcePath(word: string): string | null {
  const drive = /^[a-z]:[\\/]/i.test(word);
  const named = /\.(?:json|ya?ml)$/i.test(word);
  let file = word;
  if (/^file:/i.test(word)) {
    try {
      file = fileURLToPath(word);
    } catch {
      throw bad(`"${word}" is no path of this machine. Write it as /folder/*.json.`);
    }
  } else if (SCHEME.test(word) || !(named || drive || /^(?:\/|~\/|\.{1,2}\/)/.test(word))) return null;
  if (file.startsWith('~/')) file = path.join(os.homedir(), file.slice(2));
  if (!/\.(?:json|ya?ml)$/i.test(file))
    throw bad(
      `"${word}" names no file_sd file: they end in .json, .yml or .yaml, as in /folder/*.json. A space in a path is written %20, behind file://.`,
    );
  if (/\*.*[\\/]/.test(file))
    throw bad(
      `"${word}" has a wildcard in a folder. It may stand in the last part only, as in /folder/*.json.`,
    );
  return drive ? path.win32.normalize(file) : path.resolve(file);
}

/**
 * Everything pasted, in its order, each URL and path once. `logins` are by URL; of two for one URL the first counts.
 * Throws `bad-input` for the first word that is none, or for nothing at all.
 */
export function parseAddresses(pasted: string): {
  urls: string[];
  logins: Map<string, Login>;
  files: string[];
} {
  const urls = new Set<string>();
  const logins = new Map<string, Login>();
  const files = new Set<string>();
  for (const word of words(pasted)) {
    const file = sourcePath(word);
    if (file !== null) {
      files.add(file);
      continue;
    }
    const { url, login } = parseAddress(word);
    urls.add(url);
    if (login && !logins.has(url)) logins.set(url, login);
  }
  if (urls.size + files.size === 0)
    throw bad(
      'No address given. Paste the addresses of your vLLM servers, one a line, or a path of file_sd files.',
    );
  return { urls: [...urls], logins, files: [...files] };
}

/** What stands between spaces, commas and semicolons; `#` begins a comment where a word could begin. */
function* words(pasted: string): Generator<string> {
  for (const chunk of pasted.replace(/(^|\s)#.*$/gm, '$1').split(/\s+/)) {
    const parts = chunk.split(/[,;]+/).filter((part) => part !== '');
    for (const [i, part] of parts.entries()) {
      // perhaps a password with a comma in it was torn apart: then no sentence may repeat the part
      const rest = parts.slice(i + 1).find((later) => later.includes('@'));
      if (rest !== undefined && !URL.canParse(withScheme(part)))
        throw bad(`What stands before "${shown(rest)}" is no address. ${encode}`);
      yield part;
    }
  }
}

/** The URLs alone. */
export const endpointUrls = (pasted: string): string[] => parseAddresses(pasted).urls;

/** `host:port`, or with its path where that is not /metrics: what people call it. */
export function endpointName(url: string): string {
  const { host, pathname } = new URL(url);
  return pathname === '/metrics' ? host : host + pathname.replace(/\/metrics$/, '');
}
