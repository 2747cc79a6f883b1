// Secrets between engine and keychain: the engine's end as a process of its own over a real channel, main's end as it
// is, and a keychain that encrypts for real; only the operating system's own cannot be had here.
import { fork } from 'node:child_process';
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import path from 'node:path';
import type { SafeStorage } from 'electron';
import { expect, test } from 'vitest';
import type { ToMain } from '../electron/engine/parent.ts';
import { answerOf, available, seal, unseal } from '../electron/secrets.ts';

interface Setting {
  encrypts?: boolean;
  backend?: string;
}

/** Stands in for Electron's safeStorage: as that does, it throws where it cannot. */
function storage({ encrypts = true, backend = 'gnome_libsecret' }: Setting = {}): SafeStorage {
  const key = randomBytes(32);
  return {
    isEncryptionAvailable: () => encrypts,
    getSelectedStorageBackend: () => backend,
    encryptString(text: string) {
      if (text === 'refuse me') throw new Error('locked');
      const iv = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', key, iv);
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([iv, cipher.getAuthTag(), body]);
    },
    decryptString(bytes: Buffer) {
      const cipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12));
      cipher.setAuthTag(bytes.subarray(12, 28));
      return Buffer.concat([cipher.update(bytes.subarray(28)), cipher.final()]).toString('utf8');
    },
  } as Partial<SafeStorage> as SafeStorage;
}

interface Told {
  none?: true;
  first: string;
  second: string;
  opened: string[];
  foreign: null;
  refused: string;
}

/** Runs the engine's end; `keychain` as main sets it. */
async function engineSide(
  safeStorage: SafeStorage,
  keychain: string,
): Promise<{ told: Told; asked: ToMain[] }> {
  const child = fork(path.join(import.meta.dirname, 'keychain-child.ts'), {
    env: { ...process.env, NODE_OPTIONS: '', VLLM_SCOPE_KEYCHAIN: keychain },
    execArgv: [],
    serialization: 'advanced',
  });
  const asked: ToMain[] = [];
  let told: Told | null = null;
  child.on('message', (message: ToMain | Told) => {
    if (!('type' in message)) {
      told = message;
      return;
    }
    asked.push(message);
    const answer = answerOf(safeStorage, message);
    if (answer) child.send(answer);
  });
  await once(child, 'exit');
  if (told === null) throw new Error('it said nothing');
  return { told, asked };
}

test('the engine keeps what only the keychain opens', async () => {
  const safeStorage = storage();
  const { told, asked } = await engineSide(safeStorage, '1');
  // calls that wait together get each its own answer
  expect(told.opened).toEqual(['second', 'first']);
  expect(unseal(safeStorage, told.first)).toBe('first');
  expect(Buffer.from(told.first, 'base64').toString('latin1')).not.toContain('first');
  expect(told.foreign).toBeNull();
  expect(told.refused).toMatch(/keychain refused/);
  expect(asked.map(({ type }) => type)).toEqual(['seal', 'seal', 'unseal', 'unseal', 'unseal', 'seal']);
});

test('without a keychain the engine has none', async () => {
  expect((await engineSide(storage(), '')).told).toEqual({ none: true });
});

test('what was sealed elsewhere, or damaged, is no secret of ours', () => {
  const [here, elsewhere] = [storage(), storage()];
  const sealed = seal(here, 'Bearer 0123')!;
  expect(unseal(here, sealed)).toBe('Bearer 0123');
  expect(unseal(elsewhere, sealed)).toBeNull();
  expect(unseal(here, sealed.slice(0, -6))).toBeNull();
  expect(unseal(here, '')).toBeNull();
});

test.each([
  ['linux', {}, true],
  ['linux', { backend: 'kwallet6' }, true],
  // a password that stands in Chromium's source
  ['linux', { backend: 'basic_text' }, false],
  ['linux', { backend: 'unknown' }, false],
  ['linux', { encrypts: false }, false],
  ['darwin', {}, true],
  ['darwin', { encrypts: false }, false],
  // only Linux has backends
  ['win32', { backend: 'unknown' }, true],
] as const)('on %s with %o a keychain is there: %s', (platform, setting, expected) => {
  expect(available(storage(setting), platform)).toBe(expected);
});

test('what is no request for the keychain gets no answer', () => {
  expect(answerOf(storage(), { type: 'listening', port: 1 })).toBeNull();
});
