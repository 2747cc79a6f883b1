/** What comes over the wire, looked at before anything is done with it. All throw `bad-input` with a sentence. */
import type { CheckInput, ClusterInput, HeaderInput, StatisticsQuery } from './api.ts';
import { endpointName, parseAddress, parseAddresses, type Login } from './addresses.ts';
import { metrics } from './catalogue.ts';
import { EngineError } from './errors.ts';
import { WORKERS_MAX } from './schema.ts';

const bad = (message: string) => new EngineError('bad-input', message);

/** A cluster as it was asked for. */
export interface CheckedCluster {
  name: string;
  endpoints: string[];
  files: string[];
  /** By URL. */
  logins: Record<string, Login>;
  intervalMs: number;
  access: CheckedAccess;
  record: boolean;
  keepInFile: boolean;
  forgetLogins: boolean;
}

/** What a cluster is kept with, less its secrets. */
export const settingsOf = ({ name, endpoints, files, intervalMs, access }: CheckedCluster) => ({
  name,
  endpoints,
  files,
  intervalMs,
  timeoutMs: access.timeoutMs,
  caFile: access.caFile,
});

export interface CheckedAccess {
  timeoutMs: number;
  caFile: string | null;
  headers: HeaderInput[];
}

export function checkedCluster(input: ClusterInput): CheckedCluster {
  isObject(input, 'A cluster');
  const { urls, logins, files } = parseAddresses(text(input.addresses, 'Addresses'));
  if (urls.length > WORKERS_MAX)
    throw bad(
      `${urls.length.toLocaleString('en')} addresses are more than the ${WORKERS_MAX.toLocaleString('en')} workers that a run holds.`,
    );
  const name = typeof input.name === 'string' ? input.name.trim().slice(0, 200) : '';
  return {
    name: name || (urls[0] ? endpointName(urls[0]) : (files[0] ?? '')),
    endpoints: urls,
    files,
    logins: Object.fromEntries(logins),
    intervalMs: milliseconds(input.intervalSeconds, 1, 0.2, 60, 'The interval'),
    access: checkedAccess(input),
    record: input.record !== false,
    keepInFile: input.keepInFile === true,
    forgetLogins: input.forgetLogins === true,
  };
}

export function checkedCheck(input: CheckInput): { url: string; login: Login | null; access: CheckedAccess } {
  isObject(input, 'An address');
  return { ...parseAddress(text(input.address, 'An address')), access: checkedAccess(input) };
}

type AccessInput = Pick<ClusterInput, 'timeoutSeconds' | 'caFile' | 'headers'>;

function checkedAccess({ timeoutSeconds, caFile, headers = [] }: AccessInput): CheckedAccess {
  if (!Array.isArray(headers) || headers.length > 50) throw bad('Headers must be a list of at most 50.');
  if (caFile !== undefined && caFile !== null && typeof caFile !== 'string')
    throw bad('The CA file must be a path.');
  return {
    timeoutMs: milliseconds(timeoutSeconds, 5, 0.1, 120, 'The time-out'),
    caFile: caFile?.trim() || null,
    headers: headers.map(checkedHeader),
  };
}

/** RFC 9110: what may stand in a header, less the ones that are ours or the connection's. */
function checkedHeader(given: HeaderInput): HeaderInput {
  isObject(given, 'A header');
  const name = text(given.name, 'The name of a header');
  if (!/^[!#$%&'*+.^_`|~\w-]{1,100}$/.test(name))
    throw bad(`"${name.slice(0, 100)}" is no name of a header.`);
  if (/^(host|connection|content-length|transfer-encoding|accept|accept-encoding)$/i.test(name))
    throw bad(`The header ${name} is set by vLLM Scope itself.`);
  if (given.value === null) return { name, value: null };
  const value = text(given.value, `The value of ${name}`);
  // never the value in a sentence
  if (value.length > 8192 || /[^\t\x20-\x7e\x80-\xff]/.test(value))
    throw bad(
      `The value of ${name} holds what may not stand in a header. Was something else pasted with it?`,
    );
  return { name, value };
}

function milliseconds(
  value: number | undefined,
  otherwise: number,
  least: number,
  most: number,
  what: string,
): number {
  const given = value ?? otherwise;
  if (typeof given !== 'number' || !(given >= least && given <= most))
    throw bad(`${what} must lie between ${least} and ${most} s.`);
  return Math.round(given * 1000);
}

/** A string that says something; everything over the wire is unknown until looked at. */
export function text(value: unknown, what: string): string {
  if (typeof value !== 'string' || value.trim() === '') throw bad(`${what} is missing.`);
  return value.trim();
}

export function number(value: unknown, what: string): number {
  if (typeof value !== 'number' || Number.isNaN(value)) throw bad(`${what} must be a number.`);
  return value;
}

function isObject(value: unknown, what: string): void {
  if (typeof value !== 'object' || value === null || value instanceof AbortSignal)
    throw bad(`${what} is missing.`);
}

/** What timelines and statistics ask for. */
export function checkQuery(query: StatisticsQuery): void {
  isObject(query, 'A query');
  number(query.from, 'from');
  number(query.to, 'to');
  const { metrics: asked } = query as { metrics: unknown };
  if (!Array.isArray(asked) || asked.length === 0 || !asked.every((m) => typeof m === 'string'))
    throw bad('A query needs a list of metrics.');
  // each is read once, however often it is asked for
  query.metrics = [...new Set(query.metrics)];
  if (query.metrics.length > metrics.length) throw bad('More metrics than there are.');
}
