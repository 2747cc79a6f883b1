/** Whether an upload goes on with a run that is on W&B already, and what is new about it. */
import type { UploadInput, WandbTarget } from './api-wandb.ts';
import type { StoredUpload } from './library.ts';
import type { ReaderCalls } from './reader.ts';
import { SCALARS_VERSION } from './scalars.ts';
import { MAPPING_VERSION, sameTarget, type Mapping } from './upload-mapping.ts';

/** The upload that would go on, and why it cannot; null: it can. One that made nothing on W&B holds nothing up. */
export async function earlierUpload(
  reader: ReaderCalls,
  file: string,
  last: StoredUpload | undefined,
  input: UploadInput,
): Promise<{ before: StoredUpload | undefined; changed: string | null }> {
  const before = input.anew ? undefined : last;
  if (!before?.created) return { before: undefined, changed: null };
  const changed =
    before.problem?.kind === 'deleted'
      ? 'This run was deleted on W&B.'
      : await whyNot(reader, file, before, input);
  return { before, changed };
}

export const otherSteps = 'Steps whose rows are on W&B have other edges, numbers or kinds now.';
export const otherVersion =
  'This version of vLLM Scope makes other rows than the one that sent those before.';
export const isOfOtherVersion = ({ version, formulas }: Mapping) =>
  version !== MAPPING_VERSION || formulas !== SCALARS_VERSION;

async function whyNot(
  reader: ReaderCalls,
  file: string,
  before: StoredUpload,
  input: UploadInput,
): Promise<string | null> {
  if (!sameTarget(before.target, input.target)) return 'It went to another place before.';
  const { mapping, digest } = before;
  if (JSON.stringify(mapping.choice) !== JSON.stringify(input.choice))
    return 'What goes up is chosen otherwise than before.';
  if (isOfOtherVersion(mapping)) return otherVersion;
  if (digest !== null && digest !== (await reader.rowsDigest(file, mapping, before.digestRows)))
    return otherSteps;
  return null;
}

/** What the run is called on W&B, its group, tags and notes are as W&B was told before. */
export function isDescribed({ described, target }: StoredUpload, input: UploadInput): boolean {
  const words = ({ name, group, tags, notes }: WandbTarget) => JSON.stringify([name, group, tags, notes]);
  return described && words(target) === words(input.target);
}
