/**
 * Files of a run: addresses from W&B, then PUTs to the storage behind it, a few at a time. The API key is not sent
 * there. A file that storage does not take is told and left out; the rows stay as they are.
 */
import { faultOf, WandbError } from './errors.ts';
import type { Graphql } from './graphql.ts';
import type { Http } from './http.ts';
import { retrying, type Retrying } from './retry.ts';
import type { UploadFile } from './contract.ts';

export interface FileUploader {
  http: Http;
  graphql: Graphql;
  run: { entity: string; project: string; runId: string };
  retry: Retrying;
}

export interface BatchResult {
  uploaded: string[];
  failed: { name: string; reason: string }[];
  bytes: number;
}

/** Names in one CreateRunFiles, and so in one `uploaded`. */
export const FILES_PER_BATCH = 50;
const AT_ONCE = 4;
const TIMEOUT_MS = 180_000;
/** An address that has expired is asked for anew, so often. */
const ADDRESSES = 3;

/** One batch. Throws a WandbError where W&B gives no addresses or the storage cannot be reached; the signal's reason. */
export async function uploadBatch(
  files: readonly UploadFile[],
  uploader: FileUploader,
): Promise<BatchResult> {
  const { graphql, run } = uploader;
  const place = { entity: run.entity, project: run.project };
  const result: BatchResult = { uploaded: [], failed: [], bytes: 0 };
  let open = [...files];
  for (let asked = 1; open.length > 0; asked++) {
    const names = open.map(({ name }) => name);
    const { headers, urls } = await graphql.createRunFiles(place, run.runId, names);
    const expired: UploadFile[] = [];
    const one = async (file: UploadFile): Promise<void> => {
      const url = urls.get(file.name) ?? null;
      const reason = url === null ? 'W&B gave no address for it.' : await put(file, url, headers, uploader);
      if (reason === null) {
        result.uploaded.push(file.name);
        result.bytes += file.size;
      } else if (reason instanceof WandbError && reason.kind === 'permission' && asked < ADDRESSES)
        expired.push(file);
      else
        result.failed.push({
          name: file.name,
          reason: String(reason instanceof Error ? reason.message : reason),
        });
    };
    await inTurns(open, one);
    open = expired;
  }
  return result;
}

/** Several at once, each after the one before it in its row. */
async function inTurns<T>(all: readonly T[], one: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const row = async (): Promise<void> => {
    while (next < all.length) await one(all[next++]!);
  };
  const ends = await Promise.allSettled(Array.from({ length: AT_ONCE }, row));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

/** null: it was taken; otherwise why the storage does not take it. Faults that pass are waited for. */
async function put(
  file: UploadFile,
  url: string,
  headers: Record<string, string>,
  { http, retry }: FileUploader,
): Promise<WandbError | null> {
  const body = await file.read();
  try {
    await retrying(async () => {
      const reply = await http.request({
        ...{
          method: 'PUT',
          url,
          headers,
          body,
          authorized: false,
          timeoutMs: TIMEOUT_MS,
          signal: retry.signal,
        },
      });
      const fault = faultOf(reply, 'file', retry.timing.now());
      if (fault) throw fault;
    }, retry);
    return null;
  } catch (error) {
    if (error instanceof WandbError && error.status !== null && !error.retry) return error;
    throw error;
  }
}
