/** The one place where an error becomes the sentence that a person reads. One case for each kind of the contract. */
import { EngineError } from '../electron/engine/rpc.ts';
import { plain } from './format.ts';

export function sentence(error: unknown): string {
  if (!(error instanceof EngineError))
    return `A fault in the page: ${plain(error instanceof Error ? error.message : String(error))}`;
  const said = plain(error.message);
  switch (error.kind) {
    case 'cancelled':
      return 'Cancelled.';
    case 'engine-gone':
      return 'The engine does not answer; trying again.';
    case 'bug':
      return `A fault in vLLM Scope, please report it: ${said}`;
    // the engine's own sentence says what and why and what to do
    case 'bad-input':
    case 'not-found':
    case 'file-damaged':
    case 'file-newer':
    case 'file-foreign':
    case 'folder-locked':
    case 'folder-remote':
    case 'disk-full':
      return said;
  }
}

export const isKind = (error: unknown, kind: EngineError['kind']) =>
  error instanceof EngineError && error.kind === kind;
