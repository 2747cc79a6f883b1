/**
 * The documents against the code: every query of docs/database.md gives what is printed beside it, on a run made here
 * from the recording in fixtures/recorded; every table, column, metric, verb and option is described.
 * Does not judge whether a description is right.
 */
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { columns, columnSources, metrics } from '../electron/engine/catalogue.ts';
import { Library } from '../electron/engine/library.ts';
import { writeRecording } from './recordings.ts';
import { RunMaker, START, temporaryFolder } from './run-files.ts';

const root = path.dirname(import.meta.dirname);
const read = (name: string) => fs.readFileSync(path.join(root, name), 'utf8');
const databaseDoc = read('docs/database.md');
const metricsDoc = read('docs/metrics.md');

// ---------------------------------------------------------------- the run of the document

type Row = Record<string, string | number | null>;

/** Rows as `sqlite3 -header -column` prints them, without blanks at the ends of lines. */
function printed(rows: Row[]): string {
  const names = Object.keys(rows[0] ?? {});
  const table = [names, ...rows.map((row) => names.map((name) => String(row[name] ?? '')))];
  const widths = names.map((_, i) => Math.max(...table.map((line) => line[i]!.length)));
  table.splice(
    1,
    0,
    widths.map((width) => '-'.repeat(width)),
  );
  return table
    .map((line) =>
      line
        .map((cell, i) => cell.padEnd(widths[i]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Each sql block with the heading it stands under and the text block that follows it. */
const queries = [...databaseDoc.matchAll(/^```sql\n(.*?)^```\n\n```text\n(.*?)^```$/gms)].map((m) => ({
  title: [...databaseDoc.slice(0, m.index).matchAll(/^#+ (.*)$/gm)].at(-1)![1]!,
  sql: m[1]!.trim(),
  result: m[2]!.trimEnd(),
}));

const sqlite3 = (() => {
  try {
    return execFileSync('sqlite3', ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch {
    return null;
  }
})();

describe('the queries of docs/database.md', () => {
  let file = '';
  beforeAll(() => {
    const ends: (() => void)[] = [];
    file = path.join(
      temporaryFolder((end) => ends.push(end)),
      'docs.sqlite',
    );
    writeRecording('rollouts', file);
    // to try them by hand: VLLM_SCOPE_DOCS_RUN=docs.sqlite npx vitest run test/database-docs.test.ts
    const copy = process.env.VLLM_SCOPE_DOCS_RUN;
    if (copy) fs.copyFileSync(file, copy);
    return () => ends.forEach((end) => end());
  });

  test('all of them have a result beside them', () => {
    expect(queries.length).toBeGreaterThanOrEqual(8);
    expect(queries).toHaveLength(databaseDoc.match(/^```sql$/gm)!.length);
  });

  test.each(queries)('$title', ({ sql, result }) => {
    const db = new Database(file, { readonly: true });
    onTestFinished(() => void db.close());
    expect(printed(db.prepare(sql).all() as Row[])).toBe(result);
  });

  // Debian 12 has 3.40, much older than better-sqlite3's own
  test.skipIf(sqlite3 === null).each(queries)('$title, in the sqlite3 program', ({ sql, result }) => {
    const json = execFileSync('sqlite3', ['-readonly', '-json', file, sql], { encoding: 'utf8' });
    expect(printed(JSON.parse(json || '[]') as Row[])).toBe(result);
  });
});

// ---------------------------------------------------------------- what must be named

/** The part of a document under a heading, up to the next one of the same depth or less. */
function section(document: string, heading: string): string {
  const begin = document.split('\n').findIndex((line) => line === heading);
  expect(begin, `there is no "${heading}"`).toBeGreaterThanOrEqual(0);
  const rest = document.split('\n').slice(begin + 1);
  const depth = /^#+/.exec(heading)![0].length;
  const end = rest.findIndex((line) => new RegExp(`^#{1,${depth}} `).test(line));
  return rest.slice(0, end < 0 ? undefined : end).join('\n');
}

/** Cells of the table rows of a document, by what stands in backticks in the first. */
function tableOf(document: string): Map<string, string[]> {
  const rows = [...document.matchAll(/^\| `([^`]+)` +\|(.*)\|$/gm)];
  return new Map(rows.map((m) => [m[1]!, m[2]!.split('|').map((cell) => cell.trim())]));
}

test('docs/database.md has every table and column of a run file and of library.db', () => {
  const folder = temporaryFolder(onTestFinished);
  new RunMaker(path.join(folder, 'run.sqlite'), 1).store.close(START);
  new Library(folder).close();
  for (const name of ['run.sqlite', 'library.db']) {
    const db = new Database(path.join(folder, name), { readonly: true });
    onTestFinished(() => void db.close());
    const tables = db
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all() as string[];
    expect(tables.length).toBeGreaterThan(2);
    for (const table of tables) {
      const described = tableOf(section(databaseDoc, `### \`${table}\``));
      const names = (db.pragma(`table_info(${table})`) as { name: string }[]).map((c) => c.name);
      expect([...described.keys()].sort(), table).toEqual(names.sort());
    }
  }
});

const code = (text: string) => `\`${text}\``;

test('docs/metrics.md has every column of the catalogue with its names, newest first', () => {
  const described = tableOf(section(metricsDoc, '## What is read'));
  expect([...described.keys()]).toEqual(columns.map((c) => c.id));
  for (const column of columns) {
    const sources = columnSources.filter((s) => s.id === column.id);
    const [kind, unit, names] = described.get(column.id)!;
    expect([kind, unit], column.id).toEqual([column.kind, column.unit]);
    expect(names!.match(/`[a-z0-9_]+`/g)!.slice(0, column.names.length), column.id).toEqual(
      column.names.map(code),
    );
    for (const { where, fromLabel } of sources)
      for (const label of [...(where?.label ?? []), ...(fromLabel === undefined ? [] : [fromLabel])])
        expect(names, column.id).toContain(code(label));
  }
});

test('docs/metrics.md has every metric with kind, unit, fleet number and what it is made of', () => {
  const described = tableOf(section(metricsDoc, '## What is shown'));
  expect([...described.keys()]).toEqual(metrics.map((m) => m.id));
  for (const m of metrics)
    expect(described.get(m.id)!.slice(0, 5), m.id).toEqual([
      m.title,
      m.kind,
      m.unit,
      m.fleet,
      m.of.map(code).join(' / '),
    ]);
});

test('README.md has every verb of the command line with every option', async () => {
  const cli = async (...args: string[]) => {
    const engine = path.join(root, 'electron/engine/cli.ts');
    const { stdout } = await promisify(execFile)(process.execPath, [engine, ...args]);
    return stdout;
  };
  const verbs = [...(await cli('--help')).matchAll(/^ {2}vllm-scope ([a-z]+)/gm)].map((m) => m[1]!);
  expect(verbs.length).toBeGreaterThan(2);
  const described = section(read('README.md'), '## The command line');
  for (const verb of verbs) {
    expect(described).toContain(`\`vllm-scope ${verb}`);
    const options = /^Options: (.*)$/m.exec(await cli(verb, '--help'))![1]!.split(', ');
    expect(options.length).toBeGreaterThan(2);
    for (const option of options)
      expect(described, `${verb} ${option}`).toMatch(new RegExp(`\`${option}[ \`]`));
  }
});

test('every file that a document names is there', () => {
  const documents = [
    'README.md',
    'CONTRIBUTING.md',
    ...fs.readdirSync(path.join(root, 'docs')).map((f) => `docs/${f}`),
  ];
  const files = ['electron', 'renderer', 'build', 'test']
    .flatMap((folder) => fs.readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }))
    .concat(fs.readdirSync(root));
  const known = new Set(files.map((file) => path.basename(file)));
  for (const document of documents.filter((name) => name.endsWith('.md'))) {
    const text = read(document);
    for (const [, name] of text.matchAll(/`([\w./-]+\.(?:ts|svelte|mjs|md|css|yml))`/g))
      expect(
        known.has(path.basename(name!)) || fs.existsSync(path.join(root, 'docs', name!)),
        `${document}: ${name}`,
      ).toBe(true);
    for (const [, link] of text.matchAll(/\]\(([^)#:]+\.md)(?:#[^)]*)?\)/g))
      expect(fs.existsSync(path.join(root, path.dirname(document), link!)), `${document}: ${link}`).toBe(
        true,
      );
  }
});
