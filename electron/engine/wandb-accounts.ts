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
import { ApiKey, findAccount, parseBaseUrl, type FoundAccount } from './wandb/account.ts';
import { WandbError } from './wandb/errors.ts';
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
const secretId = (server: string) => `wandb ${server}`;

export const problemOf = ({ kind, message, advice }: WandbError): WandbProblem => ({ kind, message, advice });

export class WandbAccounts {
  private readonly around: AccountSurroundings;

  constructor(around: AccountSurroundings) {
    this.around = around;
  }

  /** What the environment and W&B's files say. null: the server of these. Throws `bad-input` where they say nonsense. */
  found(server: string | null): FoundAccount {
    const places = { env: this.around.env, home: os.homedir(), platform: process.platform };
    return findAccount(places, server ?? undefined);
  }

  private async keyOf(server: string): Promise<{ key: ApiKey; from: WandbKeySource } | null> {
    // one that somebody typed in comes before those that happen to be there
    const { secrets, where } = await this.around.secrets.read(secretId(server));
    const typed = secrets.headers.key;
    if (typed !== undefined && where !== null && where !== 'lost')
      return { key: new ApiKey(typed), from: where };
    const { key, keyFrom } = this.found(server);
    return key && { key, from: keyFrom === 'WANDB_API_KEY' ? 'environment' : 'netrc' };
  }

  private get caFiles(): Record<string, string> {
    return (this.around.library.preferences()[PREFERENCE] ?? {}) as Record<string, string>;
  }

  caFile(server: string): string | null {
    const { SSL_CERT_FILE, REQUESTS_CA_BUNDLE } = this.around.env;
    return this.caFiles[server] ?? (SSL_CERT_FILE || REQUESTS_CA_BUNDLE || null);
  }

  setCaFile(server: string, file: string | null): void {
    if (file !== null) readAuthorities(file); // says what is wrong with it
    const others = Object.entries(this.caFiles).filter(([other]) => other !== server);
    const now = file === null ? others : [...others, [server, file]];
    this.around.library.setPreference(PREFERENCE, Object.fromEntries(now));
  }

  /** A connection with the key that is there. Throws a WandbError of kind `key` where there is none. */
  async connect(server: string): Promise<Http> {
    const found = await this.keyOf(server);
    if (!found)
      throw new WandbError('key', `There is no API key for ${server}.`, {
        advice: 'Give one, or set WANDB_API_KEY.',
      });
    return this.connectWith(server, found.key);
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
    if (error instanceof WandbError) throw new EngineError('bad-input', `${error.message} ${error.advice}`);
    throw error;
  }
}
