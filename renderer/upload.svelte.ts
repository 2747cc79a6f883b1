/** Uploads to W&B as the page knows them: how each run's stands, and the one whose dialog is open. */
import type { Remote, RunSummary, Upload } from '../electron/engine/api.ts';
import { UploadDraft } from './upload-draft.svelte.ts';

export class Uploads {
  readonly #methods: () => Remote;
  readonly #runs: () => readonly RunSummary[];
  /** The last one of each run, as far as anybody looked or something happened. */
  known = $state.raw<Record<string, Upload>>({});
  draft = $state.raw<UploadDraft | null>(null);

  constructor(methods: () => Remote, runs: () => readonly RunSummary[]) {
    this.#methods = methods;
    this.#runs = runs;
  }

  run(id: string): RunSummary | null {
    return this.#runs().find((r) => r.id === id) ?? null;
  }

  of(run: string): Upload | null {
    return this.known[run] ?? null;
  }

  /** Answers and events may overtake each other. */
  take(upload: Upload) {
    const before = this.of(upload.run);
    if (before && before.updatedAt > upload.updatedAt) return;
    this.known = { ...this.known, [upload.run]: upload };
  }

  /** Reads how the upload of a run stands. */
  async look(run: string) {
    try {
      const { upload } = await this.#methods().uploadStart(run);
      if (upload) this.take(upload);
    } catch {
      // nobody asked for it: who opens the dialog is told what is wrong
    }
  }

  open(run: string) {
    this.close();
    this.draft = new UploadDraft(this.#methods(), this, run);
    void this.draft.begin();
  }

  close() {
    this.draft?.close();
    this.draft = null;
  }
}
