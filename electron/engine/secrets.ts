/**
 * Headers, users and passwords that clusters are reached with. They never go to SQLite, a log or a page. With a
 * keychain (the desktop app's, electron/secrets.ts) the file holds what only that can read; without one they are kept in
 * the clear where the user said so, in a file of mode 0600, and otherwise until the engine ends.
 */
import fs from 'node:fs';
import path from 'node:path';
import type { Cluster, HeaderInput } from './api.ts';
import type { Login } from './addresses.ts';
import { EngineError, sentenceOf } from './errors.ts';
import type { CheckedCluster } from './input.ts';
import type { Keychain } from './parent.ts';

export interface ClusterSecrets {
  /** By name. */
  headers: Record<string, string>;
  /** By URL. */
  logins: Record<string, Login>;
}

/** Values that are null are taken from those kept. Throws `bad-input` where one is kept no more. */
export function mergedHeaders(
  kept: Record<string, string>,
  given: readonly HeaderInput[],
): Record<string, string> {
  return Object.fromEntries(
    given.map(({ name, value }) => {
      const now = value ?? (Object.hasOwn(kept, name) ? kept[name] : undefined);
      if (now === undefined)
        throw new EngineError('bad-input', `The value of ${name} is not kept any more. Give it again.`);
      return [name, now];
    }),
  );
}

/** Whether a change leaves all secrets as they are. */
export const givesNoSecret = ({ access, logins, forgetLogins }: CheckedCluster) =>
  access.headers.every((h) => h.value === null) && Object.keys(logins).length === 0 && !forgetLogins;

/** A cluster's secrets after it was changed: logins of addresses that are still there stay. */
export function mergedSecrets(kept: ClusterSecrets, input: CheckedCluster): ClusterSecrets {
  const still = input.forgetLogins
    ? []
    : Object.entries(kept.logins).filter(([url]) => input.endpoints.includes(url));
  return {
    headers: mergedHeaders(kept.headers, input.access.headers),
    logins: { ...Object.fromEntries(still), ...input.logins },
  };
}

type Kept = { sealed: string } | { plain: ClusterSecrets };

export const noSecrets = (): ClusterSecrets => ({ headers: {}, logins: {} });
const isEmpty = ({ headers, logins }: ClusterSecrets) =>
  Object.keys(headers).length === 0 && Object.keys(logins).length === 0;

export class Secrets {
  private readonly file: string;
  private readonly keychain: Keychain | null;
  /** Read or written since this engine began. */
  private readonly known = new Map<string, { secrets: ClusterSecrets; where: Cluster['secrets'] }>();

  constructor(folder: string, keychain: Keychain | null) {
    this.file = path.join(folder, 'secrets.json');
    this.keychain = keychain;
  }

  /** A cluster's secrets, none where it has none; `lost` where some were kept that cannot be read here. */
  async read(id: string): Promise<{ secrets: ClusterSecrets; where: Cluster['secrets'] }> {
    let found = this.known.get(id);
    if (!found) {
      found = await this.readKept(id);
      // a keychain that is locked now may be open later
      if (found.where !== 'lost') this.known.set(id, found);
    }
    return found;
  }

  private async readKept(id: string): Promise<{ secrets: ClusterSecrets; where: Cluster['secrets'] }> {
    let kept: Kept | undefined;
    try {
      kept = this.readFile()[id];
    } catch {
      return { secrets: noSecrets(), where: 'lost' }; // writing says why
    }
    if (!kept) return { secrets: noSecrets(), where: null };
    if ('plain' in kept) return { secrets: kept.plain, where: 'file' };
    const text = (await this.keychain?.unseal(kept.sealed)) ?? null;
    return text === null
      ? { secrets: noSecrets(), where: 'lost' }
      : { secrets: JSON.parse(text) as ClusterSecrets, where: 'keychain' };
  }

  /** `inFile`: keep them in the clear where there is no keychain. Throws `bad-input` where they cannot be kept. */
  async write(id: string, secrets: ClusterSecrets, inFile: boolean): Promise<Cluster['secrets']> {
    const none = isEmpty(secrets);
    const sealed = none || !this.keychain ? null : await this.keychain.seal(JSON.stringify(secrets));
    // from here on in one go: other clusters' secrets are in the same file
    const file = this.readFile();
    delete file[id];
    let where: Cluster['secrets'] = none ? null : 'memory';
    if (sealed !== null) {
      file[id] = { sealed };
      where = 'keychain';
    } else if (!none && inFile) {
      file[id] = { plain: secrets };
      where = 'file';
    }
    this.writeFile(file);
    this.known.set(id, { secrets, where });
    return where;
  }

  remove(id: string): void {
    const file = this.readFile();
    this.known.delete(id);
    if (!(id in file)) return;
    delete file[id];
    this.writeFile(file);
  }

  /** Throws `bad-input` where there is a file that cannot be read: writing it anew would lose what is in it. */
  private readFile(): Record<string, Kept> {
    try {
      return JSON.parse(fs.readFileSync(this.file, 'utf8')) as Record<string, Kept>;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
      throw new EngineError(
        'bad-input',
        `${this.file} cannot be read (${sentenceOf(error)}). Mend it, or move it away: then the secrets of clusters must be given again.`,
      );
    }
  }

  private writeFile(file: Record<string, Kept>): void {
    if (Object.keys(file).length === 0) {
      fs.rmSync(this.file, { force: true });
      return;
    }
    fs.writeFileSync(`${this.file}.new`, JSON.stringify(file) + '\n', { mode: 0o600 });
    fs.renameSync(`${this.file}.new`, this.file);
  }
}
