/**
 * Keys of W&B servers: typed in and kept as other secrets are, or found where W&B's own tools have them; whose they are;
 * and connections made with them. No key leaves this file but to its server.
 */
import os from 'node:os';
import type { Implementation } from './api.ts';
import type { WandbAccount, WandbKeySource, WandbProblem } from './api-wandb.ts';
import { EngineError } from './errors.ts';
import { text } from './input.ts';
import type { Library } from './library.ts';
import { noSecrets, type Secrets } from './secrets.ts';
import { readAuthorities } from './targets.ts';
import {
  ApiKey,
  findKey,
  findPlace,
  parseBaseUrl,
  serverOfEnvKey,
  type AccountPlaces,
  type FoundPlace,
} from './wandb/account.ts';
import { problemText, WandbError } from './wandb/errors.ts';
import { createGraphql, type Graphql } from './wandb/graphql.ts';
import { createHttp, type Http } from './wandb/http.ts';
import { realTiming } from './wandb/retry.ts';

export interface AccountSurroundings {
  library: Library;
  secrets: Secrets;
  env: NodeJS.ProcessEnv;
  /** As main knows the system's: URL of a proxy, null for none, undefined where nobody knows (then as the environment says). */
  proxyFor: (url: string) => Promise<string | null | undefined>;
}

/** `ahead`: seconds by which the server's clock was ahead of ours at its last answer; null: it does not say. */
type Asking<T> = (graphql: Graphql, ahead: () => number | null) => Promise<T>;

/** Somebody waits for the answer, so a server that is down is not asked for minutes. */
const TRIES = 2;
const PREFERENCE = 'wandb-servers';
/** As a CA file: somebody wants none. */
const NO_CA = '';
const secretId = (server: string) => `wandb ${server}`;

export const problemOf = ({ kind, message, advice }: WandbError): WandbProblem => ({ kind, message, advice });

export class WandbAccounts {
  private readonly around: AccountSurroundings;

  constructor(around: AccountSurroundings) {
    this.around = around;
  }

  private get places(): AccountPlaces {
    return { env: this.around.env, home: os.homedir(), platform: process.platform };
  }

  /**
   * What the environment and W&B's files say of the place, whatever they hold for a key. null: their server. Throws
   * `bad-input` where its address cannot be one.
   */
  found(server: string | null): FoundPlace {
    return findPlace(this.places, server ?? undefined);
  }

  private async keyOf(server: string): Promise<{ key: ApiKey; from: WandbKeySource } | null> {
    // one that somebody typed in comes before those that happen to be there
    const { secrets, where } = await this.around.secrets.read(secretId(server));
    const typed = secrets.headers.key;
    if (typed !== undefined && where !== null && where !== 'lost')
      return { key: new ApiKey(typed), from: where };
    const found = findKey(this.places, server);
    return found && { key: found.key, from: found.from === 'WANDB_API_KEY' ? 'environment' : 'netrc' };
  }

  private get caFiles(): Record<string, string> {
    return (this.around.library.preferences()[PREFERENCE] ?? {}) as Record<string, string>;
  }

  caFile(server: string): string | null {
    const { SSL_CERT_FILE, REQUESTS_CA_BUNDLE } = this.around.env;
    return (this.caFiles[server] ?? (SSL_CERT_FILE || REQUESTS_CA_BUNDLE)) || null;
  }

  /** null: none, not even the environment's. Throws `bad-input` for a file that is none. */
  setCaFile(server: string, file: string | null): void {
    readAuthorities(file); // says what is wrong with it
    this.around.library.setPreference(PREFERENCE, { ...this.caFiles, [server]: file ?? NO_CA });
  }

  /** A connection with the key that is there. Throws a WandbError of kind `key` where there is none. */
  async connect(server: string): Promise<Http> {
    const found = await this.keyOf(server);
    if (!found)
      throw new WandbError('key', `There is no API key for ${server}.`, {
        advice: this.adviceOnKey(server),
      });
    return this.connectWith(server, found.key);
  }

  private adviceOnKey(server: string): string {
    const other = serverOfEnvKey(this.places);
    const not = other === null ? '' : `WANDB_API_KEY is sent to ${other} only. `;
    return `${not}Give one under “Upload to W&B” in the page, in netrc, or as WANDB_API_KEY with WANDB_BASE_URL=${server}.`;
  }

  private async connectWith(server: string, key: ApiKey): Promise<Http> {
    const caFile = this.caFile(server);
    const proxy = await this.around.proxyFor(server);
    return createHttp({ baseUrl: server, ca: readAuthorities(caFile), proxy }, key);
  }

  /** Asks with the key that is there; the connection is closed after it. */
  async ask<T>(server: string, act: Asking<T>, signal?: AbortSignal): Promise<T> {
    return this.askOver(await this.connect(server), act, signal);
  }

  private async askOver<T>(http: Http, act: Asking<T>, signal?: AbortSignal): Promise<T> {
    let ahead: number | null = null;
    const answered = (headers: Record<string, string | string[] | undefined>) => {
      const at = Date.parse(String(headers.date));
      if (!Number.isNaN(at)) ahead = (at - Date.now()) / 1000;
    };
    const options = { timing: realTiming, tries: TRIES, signal: signal ?? new AbortController().signal };
    try {
      return await act(createGraphql({ http, ...options, answered }), () => ahead);
    } catch (error) {
      if (signal?.aborted) throw new EngineError('cancelled', 'Cancelled.');
      throw error;
    } finally {
      http.close();
    }
  }

  /** Whose key there is. */
  async account(server: string, signal?: AbortSignal): Promise<WandbAccount> {
    let found: Awaited<ReturnType<WandbAccounts['keyOf']>>;
    try {
      found = await this.keyOf(server);
    } catch (error) {
      // a netrc or an environment that cannot be
      if (!(error instanceof EngineError)) throw error;
      const problem = {
        kind: 'key' as const,
        message: error.message,
        advice: 'Correct it, or give a key here.',
      };
      return { ...this.nobody(server), problem };
    }
    return found ? this.whose(server, found.key, found.from, signal) : this.nobody(server);
  }

  private nobody(server: string): WandbAccount {
    return {
      ...{ server, key: null, user: null, entity: null, entities: [] },
      ...{ caFile: this.caFile(server), problem: null },
    };
  }

  private async whose(
    server: string,
    key: ApiKey,
    from: WandbKeySource,
    signal?: AbortSignal,
  ): Promise<WandbAccount> {
    const nobody = { ...this.nobody(server), key: from };
    try {
      const viewer = await this.askOver(await this.connectWith(server, key), (g) => g.viewer(), signal);
      return { ...nobody, user: viewer.username, entity: viewer.entity, entities: viewer.entities };
    } catch (error) {
      if (error instanceof WandbError) return { ...nobody, problem: problemOf(error) };
      // what stands as a CA file is none: then there is a field to correct it in
      if (error instanceof EngineError && error.kind === 'bad-input')
        return { ...nobody, problem: { kind: 'tls', message: error.message, advice: 'Or do without one.' } };
      throw error;
    }
  }

  async setKey(server: string, text: string, inFile: boolean, signal?: AbortSignal): Promise<WandbAccount> {
    const key = new ApiKey(text);
    const account = await this.whose(server, key, 'memory', signal);
    if (account.user === null) return { ...account, key: null };
    const secrets = { ...noSecrets(), headers: { key: key.reveal() } };
    const where = await this.around.secrets.write(secretId(server), secrets, inFile);
    return { ...account, key: where === null || where === 'lost' ? 'memory' : where };
  }

  forgetKey(server: string): void {
    this.around.secrets.remove(secretId(server));
  }
}

export const serverOf = (text: unknown): string => {
  if (typeof text !== 'string') throw new EngineError('bad-input', 'Say which W&B server.');
  return parseBaseUrl(text);
};

type AccountMethods = Pick<
  Implementation,
  'wandbAccount' | 'setWandbKey' | 'forgetWandbKey' | 'setWandbCa' | 'wandbProjects'
>;

/** The contract's calls about accounts. `lastServer`: the one that is meant where none is named. */
export function accountMethods(accounts: WandbAccounts, lastServer: () => string): AccountMethods {
  return {
    wandbAccount: (server, signal) =>
      accounts.account(server === null ? lastServer() : serverOf(server), signal),
    setWandbKey: (server, key, inFile, signal) =>
      accounts.setKey(serverOf(server), text(key, 'The API key'), inFile === true, signal),
    forgetWandbKey: (server, signal) => {
      accounts.forgetKey(serverOf(server));
      return accounts.account(serverOf(server), signal);
    },
    setWandbCa: (server, caFile, signal) => {
      accounts.setCaFile(serverOf(server), caFile === null ? null : text(caFile, 'A CA file'));
      return accounts.account(serverOf(server), signal);
    },
    wandbProjects: (server, entity, signal) =>
      saidPlainly(
        accounts.ask(
          serverOf(server),
          async (graphql) => {
            const of = entity ?? (await graphql.viewer()).entity;
            return (await graphql.projects(of)).rows.map(({ name }) => name);
          },
          signal,
        ),
      ),
  };
}

/** What W&B said becomes an error that goes over the wire. */
export async function saidPlainly<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof WandbError) throw new EngineError('bad-input', problemText(error));
    throw error;
  }
}
