/** What a cluster's poller has to ask: pasted endpoints, then those of file_sd files, with the logins kept for them. */
import fs from 'node:fs';
import { X509Certificate } from 'node:crypto';
import type { SourceState, Target } from './api.ts';
import { endpointName, endpointUrl, parseAddresses } from './addresses.ts';
import { EngineError, sentenceOf } from './errors.ts';
import { FileSource, readTargets } from './file-sd.ts';
import type { StoredCluster } from './library.ts';
import type { PollTarget } from './poll.ts';
import type { ClusterSecrets } from './secrets.ts';

type Addresses = Pick<StoredCluster, 'endpoints' | 'files'>;

export class ClusterTargets {
  private stored: Addresses;
  private logins: ClusterSecrets['logins'];
  private source: FileSource;
  private readonly onChange: () => void;

  /** `onChange`: other targets, or another state of a file. */
  constructor(stored: Addresses, logins: ClusterSecrets['logins'], onChange: () => void) {
    this.stored = stored;
    this.logins = logins;
    this.onChange = onChange;
    this.source = new FileSource(stored.files, onChange);
  }

  /** Resolves when every file was read once. */
  start(): Promise<void> {
    return this.source.start();
  }

  /** Files that are watched already go on being watched: what a broken one last gave is known to that watcher only. */
  async change(stored: Addresses, logins: ClusterSecrets['logins']): Promise<void> {
    const same = JSON.stringify(stored.files) === JSON.stringify(this.stored.files);
    this.stored = stored;
    this.logins = logins;
    if (same) return;
    this.source.stop();
    this.source = new FileSource(stored.files, this.onChange);
    await this.source.start();
  }

  stop(): void {
    this.source.stop();
  }

  get list(): PollTarget[] {
    const found = this.stored.endpoints.map((url): PollTarget => this.target(url, {}, null));
    const pasted = new Set(this.stored.endpoints);
    for (const { url, labels, file, changedAt } of this.source.targets)
      if (url !== null && !pasted.has(url)) found.push(this.target(url, labels, { path: file, changedAt }));
    return found;
  }

  private target(url: string, labels: Record<string, string>, file: PollTarget['file']): PollTarget {
    return { url, labels, file, login: this.logins[url] ?? null };
  }

  get sources(): SourceState[] {
    return [...this.source.states];
  }
}

/** What pasted text means: a row per endpoint, file_sd files read now. Throws `bad-input` as parseAddresses does. */
export async function pastedTargets(pasted: string): Promise<Target[]> {
  const { urls, files } = parseAddresses(pasted);
  const found: Target[] = urls.map((url) => ({
    address: shortAddress(url),
    url,
    labels: {},
    file: null,
    sentence: null,
  }));
  for (const pattern of files) {
    const { targets, state } = await readTargets(pattern);
    for (const { address, url, labels, file, sentence } of targets)
      if (url === null || !found.some((t) => t.url === url))
        found.push({ address, url, labels, file, sentence });
    if (state.sentence !== null || targets.length === 0)
      found.push({
        address: pattern,
        url: null,
        labels: {},
        file: pattern,
        sentence: state.sentence ?? 'No endpoint is announced there yet; it is looked for again.',
      });
  }
  return found;
}

/** Before anything was read. */
export const unreadSources = (files: readonly string[]): SourceState[] =>
  files.map((path) => ({ path, files: 0, targets: 0, sentence: null }));

/** What to paste to mean the same again, one a line. */
export const addressesOf = ({ endpoints, files }: Addresses): string =>
  [...endpoints.map(shortAddress), ...files].join('\n');

function shortAddress(url: string): string {
  const short = endpointName(url);
  return endpointUrl(short) === url ? short : url;
}

/** The text of a PEM file, null for none. Throws `bad-input` where there is no certificate in it. */
export function readAuthorities(file: string | null): string | null {
  if (file === null) return null;
  try {
    const stat = fs.statSync(file);
    // a device may never end, and scrapes wait meanwhile
    if (!stat.isFile() || stat.size > 1_000_000) throw new Error('no file of at most 1 MB');
    const pem = fs.readFileSync(file, 'utf8');
    new X509Certificate(pem);
    return pem;
  } catch (error) {
    throw new EngineError(
      'bad-input',
      `${file} cannot be used as a CA file (${sentenceOf(error)}). Give a PEM file with certificates.`,
    );
  }
}
