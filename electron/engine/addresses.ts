/**
 * From what people paste to endpoint URLs: `host:port`, `http://h:8000/v1`, a list with commas, trailing slashes,
 * IPv6 in brackets, https. `/metrics` is added, `/v1` taken off, doubles are merged. vLLM's own port 8000 is meant
 * where a bare host has none.
 */
import { EngineError } from './errors.ts';

const bad = (message: string) => new EngineError('bad-input', message);

/** One address to the URL that is scraped. Throws `bad-input` with a sentence. */
export function endpointUrl(address: string): string {
  const hasScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(address);
  const shown = address.replace(/[^/]*@/, '…@'); // a sentence must not repeat a password
  let url: URL;
  try {
    url = new URL(hasScheme ? address : `http://${address}`);
  } catch {
    throw bad(`"${shown}" is no address. Write host:port or http://host:port.`);
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw bad(`"${shown}" begins with ${url.protocol}//; endpoints are reached by http:// or https://.`);
  if (url.username || url.password)
    throw bad(
      `The address of ${url.host} holds a user or password; this version cannot keep secrets yet. Give the address without it.`,
    );
  if (!hasScheme && url.port === '' && !/^[^/]*:80(?:\/|$)/.test(address)) url.port = '8000';
  let path = url.pathname.replace(/\/+$/, '');
  if (!path.endsWith('/metrics')) path = path.replace(/\/v1$/, '') + '/metrics';
  url.pathname = path;
  url.hash = '';
  return url.href;
}

/** Everything pasted, in its order, each URL once. Throws `bad-input` for the first that is none, or for nothing. */
export function endpointUrls(pasted: string): string[] {
  const words = pasted
    .replace(/(^|\s)#.*$/gm, '$1')
    .split(/[\s,;]+/)
    .filter((word) => word !== '');
  if (words.length === 0)
    throw bad('No address given. Paste the addresses of your vLLM servers, one a line.');
  return [...new Set(words.map(endpointUrl))];
}

/** `host:port`, or with its path where that is not /metrics: what people call it. */
export function endpointName(url: string): string {
  const { host, pathname } = new URL(url);
  return pathname === '/metrics' ? host : host + pathname.replace(/\/metrics$/, '');
}
