/**
 * Endpoints from file_sd files: real files in folders of their own. What a file means was written by hand from
 * Prometheus' documentation of file_sd and of its labels, and from its sources where that is silent.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readTargets } from '../electron/engine/file-sd.ts';
import { folderWith, group, urls, urlsIn } from './file-sd-files.ts';

const posix = process.platform !== 'win32';

/** What one file of this text names: URL and sentence. */
async function read(content: string | object, name = 'a.json') {
  const { at } = folderWith({ [name]: content });
  return readTargets(at(name));
}
describe('a file', () => {
  const groups = [
    { targets: ['node-1:9100', 'node-2:9100'], labels: { job: 'rollout', rack: '7' } },
    { targets: ['10.0.0.7:8000'] },
  ];

  it('in JSON names endpoints with their labels', async () => {
    const { at } = folderWith({ 'a.json': groups });
    fs.utimesSync(at('a.json'), 1_700_000_000, 1_700_000_000);
    const common = { file: at('a.json'), changedAt: 1_700_000_000_000, sentence: null };
    const labels = { job: 'rollout', rack: '7' };
    expect(await readTargets(at('a.json'))).toEqual({
      targets: [
        { ...common, address: 'node-1:9100', url: 'http://node-1:9100/metrics', labels },
        { ...common, address: 'node-2:9100', url: 'http://node-2:9100/metrics', labels },
        { ...common, address: '10.0.0.7:8000', url: 'http://10.0.0.7:8000/metrics', labels: {} },
      ],
      state: { path: at('a.json'), files: 1, targets: 3, sentence: null },
    });
  });

  it('in YAML means the same, and every value is a text', async () => {
    const yaml = `# made by hand
- targets: ['node-1:9100', "node-2:9100"]
  labels: &labels
    version: 1.10
    on: yes
    hex: 0x10
    empty:
- targets:
    - node-3:9100
  labels: *labels
- labels: {}
- targets:
`;
    for (const name of ['a.yml', 'a.yaml', 'a.YML']) {
      const { targets, state } = await read(yaml, name);
      expect(state).toMatchObject({ targets: 3, sentence: null });
      expect(targets.map((t) => t.address)).toEqual(['node-1:9100', 'node-2:9100', 'node-3:9100']);
      for (const target of targets)
        expect(target.labels).toEqual({ version: '1.10', on: 'yes', hex: '0x10' });
    }
  });

  it('says scheme, path and parameters in labels, which are kept no more than others with __', async () => {
    const labels = {
      __scheme__: 'https',
      __metrics_path__: '/vllm/a/v1',
      __param_pool: 'a b&c',
      __address__: 'elsewhere:1',
      __meta_filepath: '/x.json',
      __scrape_interval__: '15s',
      __tmp_x: 'y',
      job: 'kept',
    };
    expect((await read([{ targets: ['h:9000', 'h'], labels }])).targets).toMatchObject([
      { url: 'https://h:9000/vllm/a/v1?pool=a+b%26c', labels: { job: 'kept' } },
      { url: 'https://h/vllm/a/v1?pool=a+b%26c' },
    ]);
  });

  it('may have targets as people paste them, which Prometheus would refuse', async () => {
    const found = await read(group('h', 'http://h', 'https://h:8443/v1', 'h:8000/x', '[::1]:8000'));
    expect(urlsIn(found)).toEqual([
      'http://h:8000/metrics', // vLLM's own port
      'http://h/metrics',
      'https://h:8443/metrics',
      'http://h:8000/x/metrics',
      'http://[::1]:8000/metrics',
    ]);
    const plain = await read([{ targets: ['h', 'https://i'], labels: { __scheme__: 'http' } }]);
    expect(urlsIn(plain)).toEqual(['http://h/metrics', 'https://i/metrics']);
  });

  it('has targets that are none: each with its reason, the others stay', async () => {
    const { targets, state } = await read([
      { targets: ['a:1', 'x y', 'b:2', ''] },
      { targets: ['c:3'], labels: { __scheme__: 'ftp' } },
    ]);
    expect(targets.map((t) => [t.address, t.url])).toEqual([
      ['a:1', 'http://a:1/metrics'],
      ['x y', null],
      ['b:2', 'http://b:2/metrics'],
      ['', null],
      ['c:3', null],
    ]);
    expect(targets[1]!.sentence).toBe('"x y" is no address. Write host:port or http://host:port.');
    expect(targets[4]!.sentence).toBe('"c:3" has the scheme "ftp"; http and https are known.');
    expect(state.targets).toBe(2);
    expect(state.sentence).toBe(`${state.path}: ${targets[1]!.sentence} (And 2 more.)`);
  });

  it('holds a password: it is neither used nor shown', async () => {
    const { targets, state } = await read(group('me:hunter2@h:1', 'me:hunter2@h:x'));
    expect(targets).toMatchObject([
      { address: 'h:1', url: 'http://h:1/metrics' },
      { address: 'h:x', url: null },
    ]);
    expect(targets[0]!.sentence).toContain('Give them under "Access"');
    expect(JSON.stringify([targets, state])).not.toContain('hunter2');
  });

  it('from a stranger: odd labels do no harm', async () => {
    const labels = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`l${i}`, 'x'.repeat(10_000)]));
    const text = JSON.stringify([{ targets: ['h:1'], labels: { constructor: 'a', ...labels } }]);
    const [target] = (await read(text.replace('"constructor"', '"__proto__":"b","constructor"'))).targets;
    expect(Object.keys(target!.labels)).toHaveLength(50);
    expect(Object.getPrototypeOf(target!.labels)).toBe(Object.prototype);
    expect(Object.entries(target!.labels)[0]).toEqual(['constructor', 'a']);
    expect(target!.labels.l1).toBe('x'.repeat(200));
  });

  it('may be empty of targets, and have a byte order mark', async () => {
    for (const [name, text] of Object.entries({ 'a.json': '[]', 'a.yml': '[]', 'b.json': '\ufeff[]' }))
      expect((await read(text, name)).state).toMatchObject({ files: 1, targets: 0, sentence: null });
  });

  it.each([
    ['a.json', '', 'it is empty'],
    ['a.yml', ' \n', 'it is empty'],
    ['a.yml', '# nothing yet\n', 'it holds no list. A list without entries is written []'],
    ['a.json', '[{"targets": ["a:1"', "Expected ',' or ']'"],
    ['a.yml', '- targets: ["a:1"', 'Flow sequence in block collection'],
    ['a.json', '{"targets": ["a:1"]}', 'it holds no list'],
    ['a.yml', 'global:\n  scrape_interval: 15s\n', 'it holds no list'],
    ['a.json', '[null]', 'entry 1 is no "targets" with "labels"'],
    ['a.json', '["a:1"]', 'entry 1 is no "targets" with "labels"'],
    [
      'a.json',
      '[{"targets": []}, {"hosts": []}]',
      'entry 2 has "hosts", where "targets" and "labels" may stand',
    ],
    ['a.json', '[{"targets": "a:1"}]', 'the targets of entry 1 are no list of host:port'],
    ['a.json', '[{"targets": [8000]}]', 'the targets of entry 1 are no list of host:port'],
    ['a.json', '[{"labels": ["a"]}]', 'the labels of entry 1 are no names with values'],
    ['a.json', '[{"labels": {"a": {}}}]', 'the label "a" of entry 1 is no text'],
    ['a.yml', `- targets: [${'['.repeat(5000)}`, 'Maximum call stack'],
    ['a.yml', `- targets: &a [${'x:1, '.repeat(200)}]\n${'- targets: *a\n'.repeat(6000)}`, 'Excessive alias'],
  ])('%s that is broken: %j', async (name, text, because) => {
    const { targets, state } = await read(text, name);
    expect(targets).toEqual([]);
    expect(state).toMatchObject({ files: 1, targets: 0 });
    expect(state.sentence).toContain(`${state.path} cannot be used: ${because}`);
    expect(state.sentence).toMatch(/\.$/);
    expect(state.sentence!.length).toBeLessThan(400);
  });

  it('of more than a megabyte is not read, nor of more YAML than there is time for', async () => {
    const long = (bytes: number) => JSON.stringify(group('a:1')) + ' '.repeat(bytes);
    expect((await read(long(1_000_000))).state.sentence).toContain('it is larger than 1 MB');
    expect(urlsIn(await read(long(990_000)))).toEqual(urls('a:1'));
    expect((await read(long(100_000), 'a.yml')).state.sentence).toContain('it is larger than 100 kB');
  });

  it('of more than 4,096 targets is cut, and says so', async () => {
    const hosts = Array.from({ length: 4100 }, (_, i) => `h${i}:1`);
    const { targets, state } = await read(group(...hosts));
    expect(urlsIn({ targets })).toEqual(urls(...hosts.slice(0, 4096)));
    expect(state.targets).toBe(4096);
    expect(state.sentence).toBe(`More than 4096 targets: the rest of ${state.path} is left out.`);
  });
});

describe('a glob', () => {
  it('stands for any characters in the last part, and nothing else is special', async () => {
    const { at } = folderWith({
      'w-1.json': group('a:1'),
      'w-2.json.tmp': group('b:1'),
      'w.json': group('c:1'),
      'v[1].json': group('d:1'),
      'v1.json': group('e:1'),
      'vv.yml': '- targets: [f:1]',
      wxjson: group('g:1'),
    });
    fs.mkdirSync(at('w-folder.json'));
    expect(urlsIn(await readTargets(at('w*.json')))).toEqual(urls('a:1', 'c:1'));
    expect(urlsIn(await readTargets(at('*-*.json')))).toEqual(urls('a:1'));
    expect(urlsIn(await readTargets(at('v[1].j*on.json')))).toEqual([]);
    expect(urlsIn(await readTargets(at('v[*].json')))).toEqual(urls('d:1'));
    expect(urlsIn(await readTargets(at('*.yml')))).toEqual(urls('f:1'));
  });

  it('of many stars takes no longer for names that nearly match', async () => {
    const { at } = folderWith({ [`${'a'.repeat(230)}.json`]: group('a:1'), 'xaayab.json': group('b:1') });
    expect(urlsIn(await readTargets(at('*a*a*a*a*a*b.json')))).toEqual([]);
    expect(urlsIn(await readTargets(at('*a*a*a*b.json')))).toEqual(urls('b:1'));
    expect(urlsIn(await readTargets(at('*a*a*a*a*.json')))).toEqual(urls('a:1'));
  });

  it('gives its files by name, numbers as numbers; of one URL the first counts', async () => {
    const { glob, at } = folderWith({
      'node-10.json': [{ targets: ['h10:1', 'h2:1'], labels: { from: 'node-10' } }],
      'node-2.json': [{ targets: ['h2:1', 'h2:1', 'http://h2:1/v1'], labels: { from: 'node-2' } }],
    });
    const { targets, state } = await readTargets(glob);
    expect(targets.map((t) => [t.url, t.labels.from, t.file])).toEqual([
      ['http://h2:1/metrics', 'node-2', at('node-2.json')],
      ['http://h10:1/metrics', 'node-10', at('node-10.json')],
    ]);
    expect(state).toMatchObject({ files: 2, targets: 2, sentence: null });
  });

  it('or path of nothing is a sentence and no error', async () => {
    const { folder, glob, at } = folderWith();
    const sentence = async (pattern: string) => (await readTargets(pattern)).state.sentence;
    expect(await sentence(glob)).toBe(`There is no ${glob}. It is looked for every 2 s.`);
    expect(await sentence(at('a.yml'))).toBe(`There is no ${at('a.yml')}. It is looked for every 2 s.`);
    expect(await sentence(path.join(folder, 'none', '*.json'))).toBe(
      `There is no folder ${path.join(folder, 'none')}. It is looked for every 2 s.`,
    );
  });

  it.runIf(posix)('never waits for what is no file', async () => {
    const { glob, at } = folderWith({ 'b.json': group('b:1') });
    execFileSync('mkfifo', [at('a.json')]);
    expect(urlsIn(await readTargets(glob))).toEqual(urls('b:1'));
  });
});
