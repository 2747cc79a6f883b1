/**
 * What stands in the form of a cluster, as values: what is asked of the engine, what is wrong before it is asked, what
 * saving will do. Pure; ClusterForm.svelte shows it.
 */
import type { Cluster, ClusterInput, HeaderInput } from '../electron/engine/api.ts';

export interface HeaderRow {
  id: number;
  name: string;
  /** Typed now; never one that is kept. */
  value: string;
  /** The engine keeps a value under this name. */
  kept: boolean;
}

export interface FormValues {
  name: string;
  addresses: string;
  /** Seconds; null: the field is empty. */
  interval: number | null;
  timeout: number | null;
  record: boolean;
  token: string;
  /** The engine keeps an Authorization header. */
  tokenKept: boolean;
  headers: HeaderRow[];
  caFile: string;
  keepInFile: boolean;
  forgetLogins: boolean;
}

/** As the engine has them (api-clusters.ts). */
const defaults = { interval: 1, timeout: 5 };
const limits = { interval: [0.2, 60], timeout: [0.1, 120] } as const;

const isAuthorization = (name: string) => name.trim().toLowerCase() === 'authorization';

export function valuesOf(cluster: Cluster | null): FormValues {
  const headers = cluster?.headers ?? [];
  return {
    name: cluster?.name ?? '',
    addresses: cluster?.addresses ?? '',
    interval: cluster?.intervalSeconds ?? defaults.interval,
    timeout: cluster?.timeoutSeconds ?? defaults.timeout,
    record: true,
    token: '',
    tokenKept: headers.some(isAuthorization),
    headers: headers
      .filter((name) => !isAuthorization(name))
      .map((name, id) => ({ id, name, value: '', kept: true })),
    caFile: cluster?.caFile ?? '',
    keepInFile: cluster?.secrets === 'file',
    forgetLogins: false,
  };
}

/** Rows that hold nothing are no headers. */
const filled = (rows: readonly HeaderRow[]) =>
  rows.filter((h) => h.kept || h.name.trim() !== '' || h.value.trim() !== '');

/** A token is pasted with its scheme or without it. */
const bearer = (token: string) => `Bearer ${token.trim().replace(/^bearer\s+/i, '')}`;

export function headersOf(values: FormValues): HeaderInput[] {
  const headers: HeaderInput[] = [];
  if (values.token.trim() !== '') headers.push({ name: 'Authorization', value: bearer(values.token) });
  else if (values.tokenKept) headers.push({ name: 'Authorization', value: null });
  for (const h of filled(values.headers)) {
    const value = h.value.trim();
    headers.push({ name: h.name.trim(), value: value === '' && h.kept ? null : value });
  }
  return headers;
}

/** `logins`: as takeLogins found them. */
export function inputOf(values: FormValues, name: string, logins: Logins): ClusterInput {
  return {
    name,
    addresses: giveLogins(values.addresses, logins),
    intervalSeconds: values.interval ?? defaults.interval,
    timeoutSeconds: values.timeout ?? defaults.timeout,
    record: values.record,
    caFile: values.caFile.trim() || null,
    headers: headersOf(values),
    keepInFile: values.keepInFile,
    forgetLogins: values.forgetLogins,
  };
}

// ---------------------------------------------------------------- what is wrong

/** A field: `interval`, `timeout`, `token`, or a header by its row's id. */
export type Field = 'interval' | 'timeout' | 'token' | `header-${number}`;

/** A sentence for each field that cannot be sent; the engine looks at all else. */
export function problemsOf(values: FormValues): Partial<Record<Field, string>> {
  const problems: Partial<Record<Field, string>> = {};
  for (const field of ['interval', 'timeout'] as const) {
    const [least, most] = limits[field];
    const given = values[field];
    if (given === null || !(given >= least && given <= most))
      problems[field] = `Give a number of seconds from ${least} to ${most}.`;
  }
  const taken = new Set<string>();
  for (const h of filled(values.headers)) {
    const name = h.name.trim();
    const lower = name.toLowerCase();
    const problem =
      name === ''
        ? 'Give this header a name.'
        : /[^!#$%&'*+.^_`|~\w-]/.test(name)
          ? 'A header’s name has letters, digits and hyphens, no spaces.'
          : taken.has(lower)
            ? `${name} is there twice.`
            : isAuthorization(name) && (values.token.trim() !== '' || values.tokenKept)
              ? 'The bearer token is an Authorization header already.'
              : h.value.trim() === '' && !h.kept
                ? `Give ${name} a value, or remove it.`
                : null;
    taken.add(lower);
    if (problem !== null) problems[`header-${h.id}`] = problem;
  }
  return problems;
}

// ---------------------------------------------------------------- addresses

/** What is a comment, and what is a word: as the engine reads pasted addresses. */
const words = /(?:^|\s)#.*$|[^\s,;]+/gm;
const isComment = (word: string) => word.trimStart().startsWith('#');
/** A file's path may have an @ in it. */
const path = /^(?:file:|~?[./\\]|[a-z]:[\\/])/i;
/** Up to the last @: a password may hold anything, and no part of it may stay. */
const login = /^([a-z][a-z0-9+.-]*:\/\/)?.*@/i;
const hasLogin = (word: string) => !isComment(word) && !path.test(word) && login.test(word);

/** An address without its user and password, to the same with them. */
export type Logins = ReadonlyMap<string, string>;
export const noLogins: Logins = new Map();

/** Takes users and passwords out of what the field shows; `known` are those taken before. */
export function takeLogins(text: string, known: Logins): { text: string; logins: Logins } {
  const logins = new Map(known);
  const shown = text.replace(words, (word) => {
    if (!hasLogin(word)) return word;
    const bare = word.replace(login, '$1');
    logins.set(bare, word);
    return bare;
  });
  return { text: shown, logins };
}

/** Puts them back for the engine. */
export const giveLogins = (text: string, logins: Logins) =>
  text.replace(words, (word) => (isComment(word) ? word : (logins.get(word) ?? word)));

const wordsOf = (text: string) => (text.match(words) ?? []).filter((word) => !isComment(word));

/** The addresses shown of which a user and password were taken out, with them. */
export const loginsIn = (text: string, logins: Logins) =>
  wordsOf(text).flatMap((word) => logins.get(word) ?? []);

/** Without a name a cluster is called by its first host, or by the folder or file of its file_sd files. */
export function nameOf(text: string, taken: readonly string[]): string {
  const first = wordsOf(text)[0] ?? '';
  const host = (hasLogin(first) ? first.replace(login, '$1') : first)
    .replace(/^\w+:\/\//, '')
    .replace(/[/?].*$/, '')
    .replace(/:\d+$/, '');
  const parts = first.split(/[/\\]/).filter((part) => part !== '' && !part.includes('*'));
  const base =
    (path.test(first) || /\.(json|ya?ml)$/i.test(first)
      ? parts.at(-1)?.replace(/\.(json|ya?ml)$/i, '')
      : host) || 'cluster';
  let unique = base;
  for (let n = 2; taken.includes(unique); n++) unique = `${base} ${n}`;
  return unique;
}

// ---------------------------------------------------------------- the interval

const proposals = [1, 2, 5, 10, 30, 60];

/** The shortest usual interval of which the slowest answer takes at most a third. Seconds. */
export const proposedInterval = (slowest: number) =>
  proposals.find((interval) => slowest <= interval / 3) ?? 60;

// ---------------------------------------------------------------- changing a cluster

/** What saving will do to the run and to scraping, in sentences; none: nothing that a person would notice. */
export function whatSavingDoes(cluster: Cluster, values: FormValues, known: Logins): string[] {
  const recording = cluster.recording !== null;
  const said: string[] = [];
  const { text, logins } = takeLogins(values.addresses, known);
  const others = wordsOf(text).sort().join() !== wordsOf(cluster.addresses).sort().join();
  const another = values.interval !== null && values.interval !== cluster.intervalSeconds;
  if (another && recording)
    said.push(
      `Another interval ends this run and begins a new one${others ? ', with the other endpoints' : ''}.`,
    );
  else if (others && recording)
    said.push('Other endpoints go on in the same run; workers that are new come after those that are there.');
  const access =
    values.timeout !== cluster.timeoutSeconds ||
    (values.caFile.trim() || null) !== cluster.caFile ||
    values.forgetLogins ||
    loginsIn(text, logins).length > 0 ||
    headersOf(values).some((h) => h.value !== null) ||
    headersOf(values).length !== cluster.headers.length;
  if (access && cluster.connected) said.push('Time-out and access change with the next scrape.');
  return said;
}
