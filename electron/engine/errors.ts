/** The one error that users meet: a kind and one sentence that says what is wrong and what to do. */
import type { ErrorKind } from './api.ts';

export class EngineError extends Error {
  readonly kind: ErrorKind;
  constructor(kind: ErrorKind, message: string) {
    super(message);
    this.name = 'EngineError';
    this.kind = kind;
  }
}

/** The sentence of anything thrown; for text that goes to a person. */
export const sentenceOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
