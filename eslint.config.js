// Lint: the recommended sets with types, and the walls of the house (which file may import what), which no reader
// keeps in mind for ever. The table `walls` is the whole of them.
import path from 'node:path';
import js from '@eslint/js';
import { defineConfig } from 'eslint/config';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

const root = import.meta.dirname;
const engine = 'electron/engine/';
const network = /^(node:)?(http|https|http2|net|tls|dgram|dns)(\/|$)|^(undici|ws)$/;
const sqlite = 'better-sqlite3';

/**
 * Which imports are stopped where. `from` and `to` are paths inside the project, `to` also a package
 * (then `inside` is false); `type` is true for `import type`. The first wall that answers is told.
 */
const walls = [
  {
    stops: ({ from, to, inside }) =>
      from.startsWith(engine) && (inside ? !to.startsWith(engine) : /^electron(\/|$)/.test(to)),
    because: 'engine/ runs anywhere Node runs: it imports nothing of Electron and nothing outside engine/',
  },
  {
    stops: ({ from, type }) => /^electron\/engine\/api(-clusters|-steps)?\.ts$/.test(from) && !type,
    because: 'api.ts is the contract: types only',
  },
  {
    stops: ({ from, to, type }) =>
      /^electron\/engine\/parse(-\w+)?\.ts$/.test(from) &&
      !type &&
      !/^electron\/engine\/(catalogue|parse-\w+)\.ts$/.test(to),
    because: 'parse.ts and its parts take values from catalogue.ts only',
  },
  {
    stops: ({ from, to }) =>
      to === sqlite &&
      !from.startsWith('test/') &&
      !/^electron\/engine\/(store|step-store|bucket-store|library|schema|reader|queries|lock|adopt)\.ts$/.test(
        from,
      ),
    because:
      'only store, step-store, bucket-store, library, schema, reader, queries, lock and adopt know better-sqlite3',
  },
  {
    stops: ({ from, to, type }) =>
      from.startsWith(engine) &&
      network.test(to) &&
      !type &&
      // running-engine.ts speaks to our own engine on this machine
      !/^electron\/engine\/(scrape\.ts|wandb\/|running-engine\.ts)/.test(from) &&
      // it listens; whoever listens needs these two
      !(from === `${engine}server.ts` && /^((node:)?http|ws)$/.test(to)),
    because: 'only scrape.ts and wandb/ open connections; server.ts listens',
  },
  {
    stops: ({ from, to, type }) =>
      from.startsWith('renderer/') &&
      to.startsWith('electron/') &&
      to !== `${engine}rpc.ts` &&
      !(to === `${engine}api.ts` && type),
    because: 'the page takes types from api.ts and values from rpc.ts, nothing else of electron/',
  },
  {
    stops: ({ from, to }) => from.startsWith('renderer/') && /^(node:|electron$|better-sqlite3$)/.test(to),
    because: 'the page runs in a browser',
  },
  {
    stops: ({ from, to, type }) => /^electron\/[^/]+$/.test(from) && to.startsWith(engine) && !type,
    because: 'main and preload start the engine as a process of its own; they take only types from it',
  },
];

const house = {
  rules: {
    walls: {
      create(context) {
        const from = path.relative(root, context.filename).split(path.sep).join('/');
        const check = (node, type) => {
          const source = node.source?.value;
          if (typeof source !== 'string') return;
          const inside = source.startsWith('.');
          const to = inside ? path.posix.join(path.posix.dirname(from), source.split('?')[0]) : source;
          const wall = walls.find(({ stops }) => stops({ from, to, inside, type }));
          if (wall) context.report({ node, message: `${wall.because}.` });
        };
        return {
          ImportDeclaration: (node) => check(node, node.importKind === 'type'),
          ExportNamedDeclaration: (node) => check(node, node.exportKind === 'type'),
          ExportAllDeclaration: (node) => check(node, node.exportKind === 'type'),
          ImportExpression: (node) => check(node, false),
        };
      },
    },
    /** `-- reason` behind every disabling comment. */
    'reason-for-disabling': {
      create: (context) => ({
        Program() {
          for (const comment of context.sourceCode.getAllComments())
            if (/^\s*eslint-disable/.test(comment.value) && !/\s--\s+\S/.test(comment.value))
              context.report({ loc: comment.loc, message: 'Say why, behind `--`, the rule is off here.' });
        },
      }),
    },
  },
};

export default defineConfig(
  { ignores: ['out/', 'dist/', '.electron/', '.electron-*/', 'node_modules/', 'test-results/'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  ts.configs.recommendedTypeChecked,
  svelte.configs.recommended,
  svelte.configs.prettier,
  {
    plugins: { house },
    languageOptions: {
      globals: { ...globals.browser, ...globals.node },
      parserOptions: { projectService: true, extraFileExtensions: ['.svelte'] },
    },
    rules: {
      'house/walls': 'error',
      'house/reason-for-disabling': 'error',
      'max-lines': ['error', { max: 400, skipBlankLines: false, skipComments: false }],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      // TypeScript knows better
      'no-undef': 'off',
    },
  },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } },
  },
  {
    files: [`${engine}**/*.ts`],
    ignores: [`${engine}scrape.ts`, `${engine}wandb/**`],
    rules: {
      'no-restricted-globals': [
        'error',
        ...['fetch', 'WebSocket', 'EventSource'].map((name) => ({
          name,
          message: 'Only scrape.ts and wandb/ open connections.',
        })),
      ],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: 'ExpressionStatement > CallExpression[callee.name="expect"]',
          message: 'An expectation without a matcher holds for ever.',
        },
        {
          selector: 'ExpressionStatement > MemberExpression:has(CallExpression[callee.name="expect"])',
          message: 'A matcher that is not called holds for ever.',
        },
        {
          selector: 'MemberExpression[object.name=/^(describe|it|test)$/][property.name="only"]',
          message: '`only` switches all other tests off.',
        },
      ],
    },
  },
  {
    files: ['**/*.js', '**/*.mjs'],
    extends: [ts.configs.disableTypeChecked],
    rules: { 'no-undef': 'error' },
  },
);
