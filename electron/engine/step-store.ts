/**
 * The writing end of steps in one run file: sets with their steps, marks, scalars that were computed, spells of KV
 * pressure. RunStore holds one; every call is one transaction.
 */
import type Database from 'better-sqlite3';
import type { StepKind, StepSettings, StepSource } from './api-steps.ts';
import { EngineError } from './errors.ts';
import type { Spell } from './pressure.ts';
import type { FoundStep } from './steps.ts';
import { FINDER_VERSION } from './steps.ts';

/** A row of `step`. */
export interface StoredStep {
  n: number;
  number: number;
  kind: StepKind;
  began: number;
  /** null: not over. */
  ended: number | null;
}

/** One step's scalars, packed by scalars.ts. */
export interface PackedScalars {
  n: number;
  began: number;
  ended: number;
  fleet: Uint8Array;
  /** By metric. */
  each: [metric: string, each: Uint8Array][];
}

export interface MarkOfStep {
  number: number | null;
  /** null: train, or at an end whatever runs. */
  kind: StepKind | null;
  at: number;
  end: boolean;
}

const columns = 'n, number, kind, began, ended';

export class StepStore {
  private readonly db: Database.Database;
  private readonly putStep: Database.Statement;
  private readonly since: Database.Statement;

  constructor(db: Database.Database) {
    this.db = db;
    this.putStep = db.prepare(
      `INSERT INTO step(source, n, number, kind, began, ended) VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT(source, n) DO UPDATE SET kind = excluded.kind, began = excluded.began, ended = excluded.ended`,
    );
    this.since = db.prepare(`SELECT ${columns} FROM step WHERE source = ? AND n >= ? ORDER BY n`);
  }

  /** Throws its scalars away where the run's numbers changed behind them. */
  dropScalars(): void {
    this.db.exec('DELETE FROM scalar; DELETE FROM worker_scalar;');
  }

  steps(source: StepSource): StoredStep[] {
    return this.db
      .prepare(`SELECT ${columns} FROM step WHERE source = ? ORDER BY n`)
      .all(source) as StoredStep[];
  }

  count(source: StepSource): number {
    return this.db.prepare('SELECT count(*) FROM step WHERE source = ?').pluck().get(source) as number;
  }

  private putSet(source: StepSource, settings: StepSettings, until: number): void {
    this.db
      .prepare(
        `INSERT INTO step_set(source, settings, finder, until) VALUES (?, ?, ?, ?) ON CONFLICT(source) DO UPDATE
         SET settings = excluded.settings, finder = excluded.finder, until = excluded.until`,
      )
      .run(source, JSON.stringify(settings), FINDER_VERSION, until);
  }

  /**
   * Of each source its steps from place `first` on. `all`: there are no others, so what stood behind them is no more;
   * otherwise the look goes on, and it stays until that comes there. `look`: that was looked until then is written even
   * where nothing is another. A kind that somebody gave to a step stays with the time at which it began. True where
   * something is another.
   */
  writeFound(
    found: readonly {
      source: StepSource;
      settings: StepSettings;
      first: number;
      steps: readonly FoundStep[];
    }[],
    until: number,
    { all, look }: { all: boolean; look: boolean },
  ): boolean {
    return this.db.transaction(() => {
      let any = false;
      for (const { source, settings, first, steps } of found) {
        const before = this.since.all(source, first) as StoredStep[];
        const isOther = (s: FoundStep, i: number) => before[i]?.began !== s.from || before[i].ended !== s.to;
        const kinds = new Map(before.map((s) => [s.began, s.kind]));
        const gone = all && before.length > steps.length;
        const changed = gone || before.length < steps.length || steps.some(isOther);
        if (changed || look) this.putSet(source, settings, until);
        steps.forEach((s, i) => {
          if (isOther(s, i))
            this.putStep.run(source, first + i, first + i, kinds.get(s.from) ?? 'train', s.from, s.to);
        });
        if (gone)
          this.db.prepare('DELETE FROM step WHERE source = ? AND n >= ?').run(source, first + steps.length);
        any ||= changed;
      }
      return any;
    })();
  }

  /** The whole set anew. A kind that somebody gave to a step stays where the step does. */
  replace(source: StepSource, settings: StepSettings, until: number, steps: readonly FoundStep[]): void {
    this.db.transaction(() => {
      const kinds = new Map(this.steps(source).map((s) => [`${s.began} ${s.ended}`, s.kind]));
      this.db.prepare('DELETE FROM step WHERE source = ?').run(source);
      this.db.prepare('DELETE FROM scalar WHERE source = ?').run(source);
      this.db.prepare('DELETE FROM worker_scalar WHERE source = ?').run(source);
      this.putSet(source, settings, until);
      steps.forEach((s, n) =>
        this.putStep.run(source, n, s.number ?? n, kinds.get(`${s.from} ${s.to}`) ?? 'train', s.from, s.to),
      );
    })();
  }

  setKind(source: StepSource, n: number, kind: StepKind): void {
    const { changes } = this.db
      .prepare('UPDATE step SET kind = ? WHERE source = ? AND n = ?')
      .run(kind, source, n);
    if (changes === 0) throw new EngineError('not-found', `There is no step at place ${n} of these steps.`);
  }

  /** null: by itself. */
  choose(source: StepSource | null): void {
    if (source === null) this.db.prepare("DELETE FROM meta WHERE key = 'steps'").run();
    else this.db.prepare("INSERT OR REPLACE INTO meta(key, value) VALUES ('steps', ?)").run(source);
  }

  /**
   * A mark: the step before ends there, and the next begins unless `end`. The same step once more changes nothing. Throws
   * `bad-input` for what cannot be: a step or a time that goes backwards, an end where nothing runs.
   */
  mark(m: MarkOfStep, settings: StepSettings): { step: StoredStep; changed: boolean } {
    return this.db.transaction(() => {
      const all = this.steps('mark');
      const last = all.at(-1);
      if (m.end) return this.endStep(last, m);
      const kind = m.kind ?? 'train';
      const same = all.findLast((s) => s.kind === kind);
      const number = m.number ?? (same ? same.number + 1 : 0);
      if (same?.number === number) return { step: same, changed: false };
      if (same && number < same.number)
        throw new EngineError(
          'bad-input',
          `Step ${number} is behind step ${same.number}, which was marked before it. Steps of a run only go forward; after a restart of the trainer begin a new recording.`,
        );
      this.refuseBefore(last, m.at);
      this.putSet('mark', settings, m.at);
      if (last?.ended === null) this.putStep.run('mark', last.n, last.number, last.kind, last.began, m.at);
      const step: StoredStep = { n: all.length, number, kind, began: m.at, ended: null };
      this.putStep.run('mark', step.n, number, kind, m.at, null);
      return { step, changed: true };
    })();
  }

  /** The step that the last mark began is no more, the one that it ended runs on. */
  takeBack(mark: { n: number; began: number; ended: number | null }): void {
    this.db.transaction(() => {
      const all = this.steps('mark');
      const [before, last] = [null, null, ...all].slice(-2);
      if (last?.n !== mark.n || last.began !== mark.began || last.ended !== mark.ended)
        throw new EngineError(
          'bad-input',
          all.some((s) => s.n === mark.n && s.began === mark.began)
            ? 'Only the last mark can be taken back. Another one came after it.'
            : 'That mark is not there any more.',
        );
      for (const table of ['scalar', 'worker_scalar'])
        this.db.prepare(`DELETE FROM ${table} WHERE source = 'mark' AND n >= ?`).run(last.n - 1);
      const goesOn = last.ended !== null ? last : before?.ended === last.began ? before : null;
      if (goesOn !== last) this.db.prepare("DELETE FROM step WHERE source = 'mark' AND n = ?").run(last.n);
      if (goesOn) this.putStep.run('mark', goesOn.n, goesOn.number, goesOn.kind, goesOn.began, null);
      const newest = this.steps('mark').at(-1);
      if (newest)
        this.db
          .prepare("UPDATE step_set SET until = ? WHERE source = 'mark'")
          .run(newest.ended ?? newest.began);
      else this.db.prepare("DELETE FROM step_set WHERE source = 'mark'").run();
    })();
  }

  private endStep(last: StoredStep | undefined, m: MarkOfStep): { step: StoredStep; changed: boolean } {
    const asked = m.number === null || m.number === last?.number;
    if (last && asked && last.ended !== null && m.number !== null) return { step: last, changed: false };
    if (!last || last.ended !== null || !asked)
      throw new EngineError(
        'bad-input',
        m.number === null
          ? 'No step is running that could end. Mark one first.'
          : `Step ${m.number} is not the one that runs${last?.ended === null ? `: that is step ${last.number}` : ''}.`,
      );
    if (m.kind !== null && m.kind !== last.kind)
      throw new EngineError(
        'bad-input',
        `The step that runs is ${last.number} (${last.kind}), so no step of the kind ${m.kind} can end.`,
      );
    this.refuseBefore(last, m.at);
    const step = { ...last, ended: m.at };
    this.putStep.run('mark', step.n, step.number, step.kind, step.began, m.at);
    return { step, changed: true };
  }

  private refuseBefore(last: StoredStep | undefined, at: number): void {
    const least = last ? (last.ended ?? last.began) : null;
    if (last && least !== null && at <= least)
      throw new EngineError(
        'bad-input',
        `${new Date(at).toISOString()} is not after ${new Date(least).toISOString()}, when step ${last.number} ${last.ended === null ? 'began' : 'ended'}. Marks come in the order of time.`,
      );
  }

  writeScalars(source: StepSource, packed: readonly PackedScalars[]): void {
    const put = this.db.prepare(
      'INSERT OR REPLACE INTO scalar(source, n, began, ended, fleet) VALUES (?, ?, ?, ?, ?)',
    );
    const putEach = this.db.prepare(
      'INSERT OR REPLACE INTO worker_scalar(source, metric, n, each) VALUES (?, ?, ?, ?)',
    );
    this.db.transaction(() => {
      for (const p of packed) {
        put.run(source, p.n, p.began, p.ended, p.fleet);
        for (const [metric, each] of p.each) putEach.run(source, metric, p.n, each);
      }
    })();
  }

  /** Spells that are new or went on; `hits` stay NULL where there was no traffic. */
  writeSpells(
    spells: readonly (Spell & { hitsBefore: number | null; hits: number | null })[],
    until: number,
  ): void {
    const put = this.db.prepare(
      'INSERT OR REPLACE INTO pressure(w, began, ended, preemptions, waiting, hits_before, hits) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.db.transaction(() => {
      this.db.prepare("INSERT OR REPLACE INTO meta(key, value) VALUES ('pressureUntil', ?)").run(until);
      for (const s of spells) put.run(s.w, s.from, s.to, s.preemptions, s.waiting, s.hitsBefore, s.hits);
    })();
  }
}
