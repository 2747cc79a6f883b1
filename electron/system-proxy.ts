/** The system's proxy for an address, as Electron finds it, in the form in which the engine wants it. */

/** Chromium's answer, as `PROXY host:8080; DIRECT`: the first of it as a URL; null: none is needed. */
export function proxyUrl(answer: string): string | null {
  const [kind = '', host] = (answer.split(';')[0] ?? '').trim().split(/\s+/);
  if (host === undefined || kind.toUpperCase() === 'DIRECT') return null;
  const scheme: Record<string, string> = { PROXY: 'http', HTTP: 'http', HTTPS: 'https' };
  return `${scheme[kind.toUpperCase()] ?? kind.toLowerCase()}://${host}`;
}
