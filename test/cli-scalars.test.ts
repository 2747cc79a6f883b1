/** `vllm-scope scalars` on small runs whose numbers are known: what each scrape added, and a run in which nobody answered. */
import path from 'node:path';
import { expect, it } from 'vitest';
import { defaultSettings } from '../electron/engine/steps.ts';
import { folderFor, run, type OnEnd } from './engines.ts';
import { answerOf, bodyOf, RunMaker, START } from './run-files.ts';

const at = (t: number) => START + t * 1000;

/** Of two endpoints those that answer count 10 and 30 tokens a scrape; one step from 2 to 12 s. */
function made(onEnd: OnEnd, workers: readonly number[]): string {
  const file = path.join(folderFor(onEnd), 'run.sqlite');
  const maker = new RunMaker(file, 2);
  for (let t = 0; t < 20; t++) {
    const answers = workers.map((e) =>
      answerOf(e, at(t), bodyOf([{ values: { running: 1, generation_tokens: t * [10, 30][e]! } }])),
    );
    maker.tick(t, at(t), answers);
  }
  maker.store.steps.replace('fixed', defaultSettings(1000), at(20), [{ from: at(2), to: at(12) }]);
  maker.store.close(at(20));
  return file;
}

async function scalars(onEnd: OnEnd, file: string, how: string) {
  const { ended, stdout, stderr } = run(onEnd, ['scalars', file, '--source', 'fixed', how]);
  return { code: await ended, stdout: stdout(), stderr: stderr() };
}

it('tells of counters what each scrape added, in the document and in the table', async ({
  onTestFinished,
}) => {
  const file = made(onTestFinished, [0, 1]);
  const document = await scalars(onTestFinished, file, '--json');
  const { steps } = JSON.parse(document.stdout) as {
    steps: { metrics: Record<string, { deltas: unknown }> }[];
  };
  const { generation_tokens: tokens, running } = steps[0]!.metrics;
  expect(tokens!.deltas).toEqual({ mean: 20, min: 10, max: 30, p50: 20, p95: 30 });
  expect(running!.deltas).toBeNull();

  const { stdout } = await scalars(onTestFinished, file, '--csv');
  const [head, ...rows] = stdout.trimEnd().split('\n');
  const columns = head!.split(',');
  const of = (metric: string) => {
    const row = rows.map((r) => r.split(',')).find((r) => r[columns.indexOf('metric')] === metric)!;
    expect(row).toHaveLength(columns.length);
    return ['mean', 'min', 'max', 'p50', 'p95'].map((key) => row[columns.indexOf(`deltas_${key}`)]);
  };
  expect(of('generation_tokens')).toEqual(['20', '10', '30', '20', '30']);
  expect(of('running')).toEqual(['', '', '', '', '']);
});

it('says that nothing was recorded where nobody answered', async ({ onTestFinished }) => {
  const file = made(onTestFinished, []);
  expect(await scalars(onTestFinished, file, '--json')).toEqual({
    ...{ code: 1, stdout: '' },
    stderr: 'Nothing was recorded in test: it has no numbers.\n',
  });
});
