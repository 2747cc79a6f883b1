/**
 * The engine's secrets in the OS's keychain, through Electron's safeStorage: main seals and opens them for the engine,
 * which keeps what was sealed. safeStorage comes in as an argument, so that this is tested without an Electron.
 */
import type { SafeStorage } from 'electron';
import type { FromMain, ToMain } from './engine/parent.ts';

/**
 * Whether secrets are really kept from others. On Linux without a keychain Electron would encrypt with a password that
 * stands in its source.
 */
export function available(safeStorage: SafeStorage, platform = process.platform): boolean {
  if (platform === 'linux' && ['basic_text', 'unknown'].includes(safeStorage.getSelectedStorageBackend()))
    return false;
  return safeStorage.isEncryptionAvailable();
}

/** Gives base64; null where the keychain refuses. */
export function seal(safeStorage: SafeStorage, text: string): string | null {
  try {
    return safeStorage.encryptString(text).toString('base64');
  } catch {
    return null;
  }
}

/** null: sealed by another user or on another machine, damaged, or the keychain refuses. */
export function unseal(safeStorage: SafeStorage, sealed: string): string | null {
  try {
    return safeStorage.decryptString(Buffer.from(sealed, 'base64'));
  } catch {
    return null;
  }
}

/** The answer to an engine's request; null for what is none. */
export function answerOf(safeStorage: SafeStorage, asked: ToMain): FromMain | null {
  if (asked.type === 'seal') return { type: 'sealed', id: asked.id, sealed: seal(safeStorage, asked.text) };
  if (asked.type === 'unseal')
    return { type: 'unsealed', id: asked.id, text: unseal(safeStorage, asked.sealed) };
  return null;
}
