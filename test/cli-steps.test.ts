/**
 * The command line's verbs about steps, as a person or a script starts them: which run is meant, tables, documents, exit
 * codes, and marks. The numbers are those of a recording of a real vLLM whose requests said how many tokens they had
 * (fixtures/recorded/README.md has the table).
 */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Marked, Steps, Why } from '../electron/engine/api.ts';
import { createEngine } from '../electron/engine/engine.ts';
import { withRun } from '../electron/engine/wanted-run.ts';
import { fakes, folderFor, run, until, urlsOf, type OnEnd } from './engines.ts';
import { connect } from './pages.ts';
import { writeRecording } from './recordings.ts';
import { temporaryFolder } from './run-files.ts';

/** Both endpoints of `rollouts`, by step: generation, prompt, hits; step 4 lost a worker. */
const truth: [number, number, number][] = [
  [33496 + 27131, 36188 + 33572, 29056 + 26752],
  [36759 + 27549, 38804 + 30956, 31360 + 24448],
  [3367 + 4726, 7412 + 6540, 5248 + 4480],
  [27541 + 47405, 22672 + 47088, 17408 + 38912],
  [NaN, NaN, NaN],
  [47779 + 42138, 52728 + 55432, 42624 + 44544],
  [37986 + 32597, 35316 + 34444, 28288 + 27520],
];
const LOST = 4;

interface ScalarDocument {
  run: string;
  source: string;
  metrics: { id: string; unit: string }[];
  steps: {
    number: number;
    from: number;
    to: number | null;
    metrics: Record<string, Numbers>;
  }[];
}
interface Numbers {
  samples: Record<string, number | null>;
  workers: Record<string, number | null>;
  requests: Record<string, unknown> | null;
  pooled: number | null;
  coverage: number;
  lowerBound: boolean;
}

let recording = '';
beforeAll(() => {
  // made once: it is parsed anew from 30 MB of text
  recording = path.join(
    temporaryFolder((end) => process.once('exit', end)),
    'rollouts.sqlite',
  );
  writeRecording('rollouts', recording);
});

/** A copy of the recording in a folder of its own. */
function copied(onEnd: OnEnd, name = 'rollouts.sqlite'): string {
  const file = path.join(folderFor(onEnd), name);
  fs.copyFileSync(recording, file);
  return file;
}

async function ended(onEnd: OnEnd, args: string[], env: NodeJS.ProcessEnv = {}) {
  const { ended: end, stdout, stderr } = run(onEnd, args, env);
  return { code: await end, stdout: stdout(), stderr: stderr() };
}

/** The one document on stdout of a call that must go well. */
async function documentOf<T>(onEnd: OnEnd, args: string[], env: NodeJS.ProcessEnv = {}): Promise<T> {
  const { code, stdout, stderr } = await ended(onEnd, [...args, '--json'], env);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as T;
}

const setMeta = (file: string, key: string, value: string) => {
  const db = new Database(file);
  db.prepare('UPDATE meta SET value = ? WHERE key = ?').run(value, key);
  db.close();
};

/** Some tests start half a dozen processes one after the other. */
const patience = { timeout: 90_000 };

describe('a run by the path of its file', patience, () => {
  it('steps: as the recording has them; nothing is left beside the file or in the data folder', async ({
    onTestFinished,
  }) => {
    const file = copied(onTestFinished);
    const env = { VLLM_SCOPE_DATA: path.join(folderFor(onTestFinished), 'data') };
    const { steps, ...rest } = await documentOf<Steps & { run: string }>(
      onTestFinished,
      ['steps', file],
      env,
    );
    expect(rest).toMatchObject({
      run: 'rollouts.sqlite',
      source: 'idle',
      chosen: false,
      counts: { mark: 0, idle: truth.length },
    });
    expect(steps.map((s) => [s.n, s.number, s.kind])).toEqual(truth.map((_, n) => [n, n, 'train']));
    expect(fs.readdirSync(path.dirname(file))).toEqual([path.basename(file)]);
    expect(fs.existsSync(env.VLLM_SCOPE_DATA)).toBe(false);

    const text = await ended(onTestFinished, ['steps', file], env);
    const [title, head, ...lines] = text.stdout.trimEnd().split('\n');
    expect(title).toMatch(/^idle steps of test: 7, taken by itself \(mark 0, /);
    expect(head).toMatch(/^step +kind +begin +seconds +note$/);
    expect(lines.map((line) => line.trim().split(/ +/).slice(0, 3))).toEqual(
      steps.map((s) => [String(s.number), s.kind, new Date(s.from).toISOString()]),
    );
    // the evaluation took a fifth of the others' time, and that is only said
    expect(lines.filter((line) => line.endsWith('much shorter: eval?'))).toEqual([lines[2]]);
  });

  it('scalars: the tokens are the requests’ own, absent is null, a lost worker is said', async ({
    onTestFinished,
  }) => {
    const file = copied(onTestFinished);
    const ids = ['generation_tokens', 'prefix_cache_hit_rate', 'ttft', 'running'];
    const args = ['scalars', file, ...ids.flatMap((id) => ['--metric', id])];
    const all = await documentOf<ScalarDocument>(onTestFinished, args);
    expect(all.metrics.map((m) => [m.id, m.unit])).toEqual([
      ['generation_tokens', 'tokens/s'],
      ['prefix_cache_hit_rate', 'ratio'],
      ['ttft', 's'],
      ['running', 'requests'],
    ]);
    const told = all.steps.filter((s) => s.number !== LOST);
    const known = truth.filter((_, n) => n !== LOST);
    expect(told.map((s) => s.metrics.generation_tokens!.samples.sum)).toEqual(known.map(([g]) => g));
    for (const [i, [, prompt, hits]] of known.entries())
      expect(told[i]!.metrics.prefix_cache_hit_rate!.pooled).toBeCloseTo(hits / prompt, 12);
    expect(all.steps.map((s) => s.metrics.generation_tokens!.lowerBound)).toEqual(
      truth.map((_, n) => n === LOST),
    );
    const { running, ttft } = all.steps[0]!.metrics;
    expect(running).toMatchObject({ requests: null, pooled: null, samples: { sum: null } });
    expect(Object.keys(ttft!.requests!)).toEqual(['p50', 'p95', 'p99', 'n', 'atLeast']);

    const one = await documentOf<ScalarDocument>(onTestFinished, [...args, '--step', '3']);
    expect(one).toEqual({ ...all, steps: [all.steps[3]] });
    const none = await ended(onTestFinished, [...args, '--step', '7']);
    expect(none).toEqual({ code: 1, stdout: '', stderr: 'There is no step 7. There are 0 to 6.\n' });
    const typo = await ended(onTestFinished, ['scalars', file, '--metric', 'ttfd']);
    expect([typo.code, typo.stdout]).toEqual([1, '']);
    expect(typo.stderr).toMatch(/^No metric is called "ttfd"\. This run has running, waiting, /);
  });

  it('scalars --csv: a row a step and metric; no cell is a formula', async ({ onTestFinished }) => {
    const file = copied(onTestFinished);
    setMeta(file, 'name', '=HYPERLINK("http://evil"), 1');
    const args = ['scalars', file, '--metric', 'generation_tokens', '--metric', 'prefix_cache_hit_rate'];
    const { steps } = await documentOf<ScalarDocument>(onTestFinished, args);
    const { code, stdout, stderr } = await ended(onTestFinished, [...args, '--csv']);
    expect([code, stderr]).toEqual([0, '']);
    const name = `"'=HYPERLINK(""http://evil""), 1"`;
    const [head, ...rows] = stdout.trimEnd().split('\n');
    expect(rows.every((row) => row.startsWith(`${name},idle,`))).toBe(true);
    const cells = rows.map((row) => row.slice(name.length + 1).split(','));
    const of = (column: string, row: string[]) => row[head!.split(',').slice(1).indexOf(column)];
    expect(
      cells.map((row) => [of('step', row), of('metric', row), of('begin', row), of('end', row)]),
    ).toEqual(
      steps.flatMap((s) =>
        ['generation_tokens', 'prefix_cache_hit_rate'].map((metric) => [
          String(s.number),
          metric,
          new Date(s.from).toISOString(),
          new Date(s.to!).toISOString(),
        ]),
      ),
    );
    const [generation, hits] = cells;
    expect(of('samples_sum', generation!)).toBe(String(truth[0]![0]));
    expect([of('pooled', generation!), of('requests_p95', generation!)]).toEqual(['', '']);
    expect(Number(of('pooled', hits!))).toBeCloseTo(truth[0]![2] / truth[0]![1], 12);
    expect(of('samples_sum', hits!)).toBe('');
    expect(cells.filter((row) => of('lower_bound', row) === '1').map((row) => of('step', row))).toEqual([
      String(LOST),
      String(LOST),
    ]);
    expect(stdout).not.toContain('NaN');
  });

  it('scalars as text: at most 100 columns, numbers to the right', async ({ onTestFinished }) => {
    const file = copied(onTestFinished);
    for (const args of [
      ['scalars', file],
      ['scalars', file, '--step', '0'],
    ]) {
      const { code, stdout, stderr } = await ended(onTestFinished, args);
      expect([code, stderr]).toEqual([0, '']);
      expect(stdout.split('\n').filter((line) => line.length > 100)).toEqual([]);
      expect(stdout).not.toContain('NaN');
    }
    const { stdout } = await ended(onTestFinished, ['scalars', file, '--metric', 'generation_tokens']);
    const [head, ...rows] = stdout
      .slice(stdout.indexOf('\nstep') + 1)
      .trimEnd()
      .split('\n');
    const end = head!.indexOf('sum') + 3;
    expect(rows.filter((_, n) => n !== LOST).map((row) => /[\d,]+$/.exec(row.slice(0, end))![0])).toEqual(
      truth.filter((_, n) => n !== LOST).map(([g]) => g.toLocaleString('en')),
    );
    expect(rows.map((row) => row.endsWith('*'))).toEqual(truth.map((_, n) => n === LOST));
  });

  it('why: the number, what was counted for it, and its SQL', async ({ onTestFinished }) => {
    const file = copied(onTestFinished);
    const args = ['why', file, '--step', '0', '--metric', 'prefix_cache_hit_rate'];
    const answer = await documentOf<Why & { asked: object; step: { number: number } }>(onTestFinished, args);
    const [, prompt, hits] = truth[0]!;
    expect(answer.value).toBeCloseTo(hits / prompt, 12);
    expect(answer.step.number).toBe(0);
    expect(answer.asked).toEqual({
      ...{ metric: 'prefix_cache_hit_rate', statistic: 'pooled', population: 'pooled', w: null },
    });
    const deltas = answer.workers.map((w) => w.columns.map((c) => c.delta));
    expect(deltas.flat().sort()).toEqual([29056, 36188, 26752, 33572].sort());
    const db = new Database(file, { readonly: true });
    expect(db.prepare(answer.sql).pluck().get()).toBeCloseTo(hits / prompt, 12);
    db.close();

    const text = await ended(onTestFinished, args);
    expect(text).toMatchObject({ code: 0, stderr: '' });
    expect(text.stdout).toMatch(/^pooled of prefix_cache_hit_rate, idle step 0: 0\.8\d* ratio\n/);
    for (const delta of ['29,056', '36,188', '26,752', '33,572']) expect(text.stdout).toContain(delta);

    // a worker has its own numbers over time
    const sum = [...args.slice(0, 4), '--metric', 'generation_tokens', '--worker', 'w1'];
    expect((await documentOf<Why>(onTestFinished, sum)).value).toBe(27131);
  });
});

describe.concurrent('which run', patience, () => {
  it('by id, name or path; a name of two runs says their ids', async ({ onTestFinished }) => {
    const dataFolder = folderFor(onTestFinished);
    const [one, two] = [copied(onTestFinished), copied(onTestFinished)];
    setMeta(two, 'id', 'the-other');
    const engine = await createEngine({ dataFolder, version: '0', idle: true });
    engine.adopt(one);
    engine.adopt(two);
    await engine.methods.renameRun('the-other', 'ppo');
    await engine.close();
    const given = { dataFolder, version: '0', json: true };
    const of = async (wanted: string) => {
      let id = '';
      await withRun(wanted, given, async ({ methods }, found) => {
        id = (await methods.getRun(found.id)).id;
      });
      return id;
    };
    expect(await of('rollouts.sqlite')).toBe('rollouts.sqlite');
    expect(await of('ppo')).toBe('the-other');
    expect(await of('test')).toBe('rollouts.sqlite');
    expect(await of(two)).toBe('the-other');

    const again = await createEngine({ dataFolder, version: '0', idle: true });
    await again.methods.renameRun('the-other', 'test');
    await again.close();
    const said = await ended(onTestFinished, ['steps', 'test', '--data', dataFolder]);
    expect([said.code, said.stdout]).toEqual([1, '']);
    expect(said.stderr).toMatch(/^2 runs are called "test"\. Give an id: /);
    for (const id of ['the-other', 'rollouts.sqlite']) expect(said.stderr).toContain(id);
  });

  it('what is no run is refused with a sentence and stays as it was', async ({ onTestFinished }) => {
    const folder = folderFor(onTestFinished);
    const file = (name: string) => path.join(folder, name);
    const foreign = new Database(file('foreign.sqlite'));
    foreign.exec('CREATE TABLE t(x)');
    foreign.close();
    fs.writeFileSync(file('empty.sqlite'), '');
    fs.writeFileSync(file('notes.txt'), 'tokens and steps, '.repeat(100));
    const open = new Database(copied(onTestFinished, 'open.sqlite'), { readonly: true });
    onTestFinished(() => void open.close());
    open.prepare('SELECT * FROM meta').all();
    const given = { dataFolder: file('data'), version: '0', json: false };
    for (const [wanted, sentence] of [
      [file('foreign.sqlite'), "foreign.sqlite is an SQLite file, but not one of vLLM Scope's."],
      [file('empty.sqlite'), "empty.sqlite is empty and no run of vLLM Scope's."],
      [file('notes.txt'), 'notes.txt is damaged (file is not a database).'],
      [open.name, 'open.sqlite is open in another program. If it is being recorded, ask again'],
      ['no such run', 'No run and no file is called "no such run". "vllm-scope runs" lists the runs of'],
    ] as const) {
      const before = fs.existsSync(wanted) ? fs.readFileSync(wanted) : null;
      await expect(withRun(wanted, given, () => Promise.resolve())).rejects.toMatchObject({
        name: 'EngineError',
        message: expect.stringContaining(sentence) as string,
      });
      if (before) expect(fs.readFileSync(wanted).equals(before)).toBe(true);
    }
    const said = await ended(onTestFinished, ['scalars', file('notes.txt'), '--data', given.dataFolder]);
    expect([said.code, said.stdout]).toEqual([1, '']);
    expect(said.stderr).toMatch(/^\S*notes\.txt is damaged \(.*\n$/);
    expect(fs.readdirSync(folder).sort()).toEqual(['empty.sqlite', 'foreign.sqlite', 'notes.txt']);
  });

  it.for<[string[], string]>([
    [['steps'], 'Usage: vllm-scope steps'],
    [['steps', 'x', '--source', 'guess'], 'Steps come from mark, wandb, idle, sleep, fixed, not'],
    [['scalars', 'x', '--json', '--csv'], 'Either --json or --csv'],
    [['why', 'x', '--metric', 'ttft'], 'Say which number: --step N --metric M'],
    [['why', 'x', '--metric', 'ttft', '--step', '1', '--stat', 'p42'], '--stat is one of mean, min'],
    [['why', 'x', '--metric', 'ttft', '--step', 'one'], '--step one is no whole number'],
    [['mark', '--step', '1.5'], '--step 1.5 is no whole number'],
    [['mark', '--kind', 'test'], 'A step is of kind train, eval, other, not "test"'],
    [['mark', '--at', 'soon'], '"soon" is no time'],
  ])('wrong usage ends with 2: %j', async ([args, said], { onTestFinished }) => {
    const { code, stdout, stderr } = await ended(onTestFinished, args, {
      VLLM_SCOPE_DATA: folderFor(onTestFinished),
    });
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(said);
  });
});

describe.concurrent('mark', patience, () => {
  it('without an engine says where one is missed', async ({ onTestFinished }) => {
    const folder = folderFor(onTestFinished);
    for (const args of [['--step', '1'], ['--how']]) {
      const { code, stdout, stderr } = await ended(onTestFinished, ['mark', ...args, '--data', folder]);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toBe(
        `No engine runs on ${folder}, so nothing is recorded that could be marked. Start the app or "vllm-scope serve" there, or name its folder with --data DIR.\n`,
      );
    }
    expect(fs.readdirSync(folder)).toEqual([]);
  });

  it('goes to the engine that records; --how is all that a trainer needs', async ({ onTestFinished }) => {
    const fake = await fakes(onTestFinished);
    const folder = folderFor(onTestFinished);
    const data = ['--data', folder];
    const args = ['serve', '--port', '0', ...data, '--connect', urlsOf(fake), '--interval', '0.2'];
    const ran = run(onTestFinished, args);
    const [, port, token] = await until(
      () => /127\.0\.0\.1:(\d+)\/#token=(\w+)/.exec(ran.stdout()) ?? (false as never),
    );
    const { client, methods } = await connect(onTestFinished, Number(port), token!);
    const stepped: string[] = [];
    client.on('stepped', (event) => stepped.push(event.run));

    const first = await ended(onTestFinished, ['mark', '--step', '4', ...data]);
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toMatch(/^Step 4 \(train\) began at \d{4}-.*Z\.\n$/);
    const again = await ended(onTestFinished, ['mark', '--step', '4', ...data]);
    expect(again.stdout).toBe(first.stdout.replace('\n', ' It was marked before; nothing changed.\n'));
    const back = await ended(onTestFinished, ['mark', '--step', '3', ...data]);
    expect([back.code, back.stdout]).toEqual([1, '']);
    expect(back.stderr).toMatch(/^Step 3 is behind step 4, /);
    const elsewhere = await ended(onTestFinished, ['mark', '--run', 'ppo', ...data]);
    expect([elsewhere.code, elsewhere.stdout]).toEqual([1, '']);

    // the example as it stands, in a trainer's Python
    const how = await documentOf<Record<'url' | 'token' | 'ssh' | 'python', string>>(onTestFinished, [
      ...['mark', '--how'],
      ...data,
    ]);
    expect(how.url).toBe(`http://127.0.0.1:${port}/api/step`);
    expect(how.ssh).toContain(`ssh -R ${port}:127.0.0.1:${port} `);
    expect(how.token).not.toBe(token);
    const file = path.join(folder, 'mark-token');
    expect(fs.readFileSync(file, 'utf8')).toBe(`${how.token}\n`);
    expect((fs.statSync(file).mode & 0o777).toString(8)).toBe('600');
    expect(how.python.split('\n')).toHaveLength(2);
    const text = await ended(onTestFinished, ['mark', '--how', ...data]);
    for (const part of Object.values(how)) expect(text.stdout).toContain(part);
    // a proxy that is set where the trainer runs is not asked
    const env = { ...process.env, http_proxy: 'http://127.0.0.1:9', no_proxy: '' };
    const python = spawnSync('python3', ['-c', `step = 5\n${how.python}`], { env, encoding: 'utf8' });
    expect([python.status, python.stderr]).toEqual([0, '']);
    // and where nobody answers, the trainer goes on
    const nobody = how.python.replace(`:${port}/`, ':9/');
    expect(spawnSync('python3', ['-c', `step = 6\n${nobody}`]).status).toBe(0);

    const marked = await documentOf<Marked>(onTestFinished, ['mark', '--kind', 'eval', ...data]);
    expect(marked).toMatchObject({ changed: true, step: { n: 2, number: 0, kind: 'eval', to: null } });
    const end = await ended(onTestFinished, ['mark', '--end', ...data]);
    expect(end.stdout).toMatch(/^Step 0 \(eval\) ended at /);
    const { steps } = await methods.steps(marked.run, 'mark');
    expect(steps.map((s) => [s.number, s.kind, s.to !== null])).toEqual([
      [4, 'train', true],
      [5, 'train', true],
      [0, 'eval', true],
    ]);
    expect(stepped.filter((id) => id === marked.run).length).toBeGreaterThanOrEqual(4);
    // while it is recorded, its file is read through the engine that records it
    const runs = await methods.listRuns();
    const listed = await documentOf<Steps>(onTestFinished, ['steps', runs[0]!.file, ...data]);
    expect(listed.steps).toEqual(steps);
  });
});
