/** What is said of uploads, and what switching does to what goes up. Expected texts are written by hand. */
import { describe, expect, test } from 'vitest';
import type {
  Step,
  Upload,
  UploadPlan,
  UploadProgress,
  WandbAccount,
  WandbChoice,
} from '../electron/engine/api.ts';
import { clock } from '../renderer/clock.ts';
import { thin } from '../renderer/format.ts';
import { hasTooManyKeys, isLastPart, toggled } from '../renderer/upload-choice.ts';
import {
  actOf,
  buttonWords,
  bytesWords,
  exampleWords,
  faultWords,
  isLink,
  isReadable,
  isUpToDate,
  isWandbOwn,
  keyWords,
  lowerBoundWords,
  nowWords,
  overWords,
  placeWords,
  sentWords,
  shareOf,
  tagsOf,
  userWords,
  workerWords,
} from '../renderer/upload-words.ts';

/** A plain underscore in an expected text stands for the narrow space before a unit. */
const narrow = (text: string) => text.replaceAll('_', thin);

const choice: WandbChoice = {
  ...{ source: 'idle', evals: false, scalars: true, plots: false, workers: 16 },
  ...{ metrics: ['running'], statistics: ['mean'] },
};
const plan = (more: Partial<UploadPlan> = {}): UploadPlan => ({
  ...{ rows: 6, steps: { train: 6, eval: 1, other: 0 }, keys: 91, bytes: 33_000, files: 0, fileBytes: 0 },
  ...{ workers: [0, 1], example: null, lowerBounds: [], acked: 0, changed: null, described: true },
  ...more,
});
const progress = (more: Partial<UploadProgress> = {}): UploadProgress => ({
  ...{ phase: 'rows', rows: 415, rowsTotal: 659, files: 0, filesTotal: 0 },
  ...{ bytes: 3_100_000, rate: 200_000, waiting: null, waitsUntil: null },
  ...more,
});
const upload = (more: Partial<Upload> = {}): Upload => ({
  ...{ run: 'r', choice, live: false, state: 'sending', runId: 'k3v9x2ab', url: null },
  target: {
    ...{ server: 'https://api.wandb.ai', entity: 'rl-lab', project: 'grpo' },
    ...{ name: 'grpo (vLLM)', group: '', tags: [], notes: '' },
  },
  ...{ rows: 415, rowsTotal: 659, progress: progress(), problem: null, failedFiles: [], updatedAt: 1 },
  ...more,
});

describe('accounts', () => {
  const account = (user: string | null, entities: string[]): WandbAccount => ({
    ...{ server: 'https://api.wandb.ai', key: 'memory', user, entity: user, entities },
    ...{ caFile: null, problem: null },
  });

  test('the user, and teams where there are any', () => {
    expect(userWords(account('ada', ['ada', 'rl-lab', 'infra']))).toEqual({
      user: 'ada',
      teams: ' (teams: rl-lab, infra)',
    });
    expect(userWords(account('ada', ['ada']))).toEqual({ user: 'ada', teams: '' });
    expect(userWords(account(null, []))).toBeNull();
  });

  test('the server’s text is quoted and cannot turn the line around; what hindered the way is a sentence', () => {
    const problem = { message: 'permission denied\u202e', advice: 'Choose another project.' };
    expect(faultWords({ kind: 'permission', ...problem }, 'https://api.wandb.ai')).toBe(
      'api.wandb.ai: “permission denied\\u202e”.',
    );
    const refused = { kind: 'network' as const, message: 'wandb.lab:80 refused the connection.', advice: '' };
    expect(faultWords(refused, 'http://wandb.lab')).toBe('wandb.lab:80 refused the connection.');
  });

  test('only https without a login becomes a link; http is readable unless it stays on this machine', () => {
    const addresses = [
      'https://wandb.ai/a/b/runs/c',
      'http://wandb.lab/a/b/runs/c',
      'https://ada:pw@wandb.ai/a',
      'javascript:alert(1)',
      'wandb.ai',
    ];
    expect(addresses.map(isLink)).toEqual([true, false, false, false, false]);
    const servers = [
      'http://wandb.lab',
      'http://127.0.0.1:8080',
      'http://localhost',
      'https://wandb.lab',
      'x',
    ];
    expect(servers.map(isReadable)).toEqual([true, false, false, false, false]);
    expect(
      ['https://api.wandb.ai', 'https://wandb.ai.evil.example', 'https://wandb.lab'].map(isWandbOwn),
    ).toEqual([true, false, false]);
  });

  test('tags between commas, each once', () => {
    expect(tagsOf(' vllm-scope, tiny,, tiny ,')).toEqual(['vllm-scope', 'tiny']);
    expect(tagsOf('')).toEqual([]);
  });
});

describe('what goes', () => {
  test('lower bounds by name; the engine names three, so there may be others', () => {
    expect(lowerBoundWords([])).toEqual([]);
    expect(lowerBoundWords([4])).toEqual([
      'Step 4 is a lower bound: a worker restarted or was lost, so counters are at least what its row says.',
    ]);
    expect(lowerBoundWords([4, 7])[0]).toMatch(/^Steps 4 and 7 are lower bounds: .* what rows say\.$/);
    expect(lowerBoundWords([4, 7, 9])[0]).toMatch(/^Steps 4, 7 and 9, perhaps others, are lower bounds: /);
  });

  test('a name that is another one is something to do', () => {
    const { text, can } = actOf(plan({ rows: 7, acked: 7, described: false }), false, false, 0);
    expect([text, can]).toEqual(['Change name, tags and notes', true]);
    expect(actOf(plan({ rows: 7, acked: 7 }), false, false, 0).can).toBe(false);
  });

  test('a warning past 2,000 keys, and why those of workers went off', () => {
    expect(keyWords(2000, null)).toEqual([]);
    expect(keyWords(2001, null)).toEqual([
      '2,001 keys: past 2,000 W&B may get slow. Fewer metrics, statistics or workers make fewer keys.',
    ]);
    expect(keyWords(91, 6240)).toEqual([
      'Keys per worker were switched off: with them there were 6,240 keys, and past 5,000 W&B is slow.',
    ]);
    expect(keyWords(2400, 6240)).toHaveLength(2);
  });

  test('keys per worker go off by themselves past 5,000 only, and only where there are any', () => {
    expect(hasTooManyKeys(plan({ keys: 5000 }), choice)).toBe(false);
    expect(hasTooManyKeys(plan({ keys: 5001 }), choice)).toBe(true);
    expect(hasTooManyKeys(plan({ keys: 5001, workers: [] }), choice)).toBe(false);
    expect(hasTooManyKeys(plan({ keys: 5001 }), { ...choice, scalars: false, plots: true })).toBe(false);
  });

  test('which workers have keys of their own', () => {
    expect(workerWords([0, 1], 2, 16)).toBe('this run has 2');
    expect(workerWords([3, 17, 40], 64, 16)).toBe('of 64: w3, w17, w40, which ended last most often');
    expect(workerWords([], 64, 0)).toBe('off: those of all workers together only');
  });

  test('switching keeps the order, and one of scalars and plots stays on', () => {
    const all = ['mean', 'max', 'p95'];
    expect(toggled(['p95'], 'mean', all)).toEqual(['mean', 'p95']);
    expect(toggled(['mean', 'p95'], 'mean', all)).toEqual(['p95']);
    expect(isLastPart(choice, 'scalars')).toBe(true);
    expect(isLastPart(choice, 'plots')).toBe(false);
    expect(isLastPart({ ...choice, plots: true }, 'scalars')).toBe(false);
    expect(isLastPart({ ...choice, scalars: false, plots: true }, 'plots')).toBe(true);
  });

  test('an example names its step and how many keys it has', () => {
    const step: Step = { n: 5, number: 5, kind: 'train', suggested: null, from: 0, to: 1 };
    expect(exampleWords(step, 93)).toBe('Row of step 5, 93 keys');
    expect(exampleWords(step, 7244)).toBe('Row of step 5, the first 300 of 7,244 keys');
  });
});

describe('what the last button does', () => {
  const act = (p: UploadPlan | null, { anew = false, live = false, retries = 0 } = {}) => {
    const { text, anew: isNew, can } = actOf(p, anew, live, retries);
    return `${can ? '' : 'not: '}${text}${isNew ? ' [new]' : ''}`;
  };

  test('all rows, the new ones, none', () => {
    expect(act(null)).toBe('not: Upload');
    expect(act(plan())).toBe('Upload 6 rows');
    expect(act(plan({ rows: 1 }))).toBe('Upload 1 row');
    expect(act(plan({ acked: 4 }))).toBe('Upload 2 new rows');
    expect(act(plan({ acked: 6 }))).toBe('not: Up to date');
    expect(act(plan({ rows: 0 }))).toBe('not: Nothing to upload');
    expect(act(plan({ acked: 6 }), { retries: 2 })).toBe('Send 2 files again');
  });

  test('a new run where one is wanted, or where the earlier one cannot go on', () => {
    expect(act(plan(), { anew: true })).toBe('Upload 6 rows as a new run [new]');
    expect(act(plan({ changed: 'It went to another place before.' }))).toBe('Upload as a new run [new]');
    expect(act(plan({ changed: 'It went to another place before.', rows: 0 }))).toBe(
      'not: Upload as a new run [new]',
    );
  });

  test('live: also while there is nothing yet', () => {
    expect(act(plan({ rows: 0 }), { live: true })).toBe('Upload as steps end');
    expect(act(plan({ acked: 6 }), { live: true })).toBe('Go on as steps end');
    expect(act(plan(), { live: true })).toBe('Upload 6 rows');
  });

  test('beside it: nothing was sent, or what is there already', () => {
    expect(sentWords(null)).toBe('Nothing has been sent.');
    expect(sentWords(plan())).toBe('Nothing has been sent.');
    expect(sentWords(plan({ acked: 1 }))).toBe('1 of 6 rows is on W&B already.');
    expect(sentWords(plan({ acked: 4 }))).toBe('4 of 6 rows are on W&B already.');
  });

  test('up to date: everything is there, and it could go on', () => {
    const done = upload({ state: 'done' });
    expect(isUpToDate(plan({ acked: 6 }), done)).toBe(true);
    expect(isUpToDate(plan({ acked: 5 }), done)).toBe(false);
    expect(isUpToDate(plan({ acked: 6, changed: 'Other edges.' }), done)).toBe(false);
    expect(isUpToDate(plan({ acked: 6 }), upload({ state: 'failed' }))).toBe(false);
    const left = upload({ state: 'done', failedFiles: [{ name: 'media/a', reason: '403' }] });
    expect(isUpToDate(plan({ acked: 6 }), left)).toBe(false);
  });
});

describe('how far it is', () => {
  test('what it does, or waits for and until when', () => {
    expect(nowWords(upload())).toEqual({ text: 'Sending rows.', waits: false });
    const until = 1_796_000_400_000;
    const waiting = progress({ waiting: 'W&B asks to wait 12 s', waitsUntil: until });
    expect(nowWords(upload({ progress: waiting }))).toEqual({
      text: `W&B asks to wait 12 s. Goes on by itself at ${clock(until)}.`,
      waits: true,
    });
    expect(nowWords(upload({ progress: progress({ phase: 'live' }) })).text).toBe(
      'Waiting for the next step to end.',
    );
    expect(nowWords(upload({ state: 'paused' })).text).toMatch(/^Paused\./);
    expect(nowWords(upload({ progress: null })).text).toBe('Asking W&B for the run.');
  });

  test('bytes and rate, and the share of rows and files', () => {
    expect(bytesWords(progress())).toBe(narrow('3.10_MB, 200_kB/s'));
    expect(bytesWords(progress({ rate: null }))).toBe(narrow('3.10_MB'));
    expect(bytesWords(null)).toBe('–');
    expect(shareOf(upload())).toBeCloseTo(0.6297, 4);
    expect(shareOf(upload({ progress: progress({ files: 41, filesTotal: 100 }) }))).toBeCloseTo(456 / 759, 9);
    expect(shareOf(upload({ rows: 0, rowsTotal: 0, progress: null }))).toBe(0);
  });

  test('the button of a run', () => {
    const button = (u: Upload | null) => {
      const { sign, text } = buttonWords(u);
      return sign + text;
    };
    expect(button(null)).toBe('Upload to W&B');
    expect(button(upload())).toBe('Uploading 415 of 659');
    expect(button(upload({ progress: null }))).toBe('Uploading…');
    expect(button(upload({ live: true, progress: progress({ phase: 'live' }) }))).toBe('Live on W&B');
    expect(button(upload({ progress: progress({ waiting: 'W&B asks to wait 12 s' }) }))).toBe(
      '▲Upload waits, 415 of 659',
    );
    expect(button(upload({ state: 'paused' }))).toBe('Upload paused, 415 of 659');
    expect(button(upload({ state: 'failed' }))).toBe('✕Upload failed');
    expect(button(upload({ state: 'stopped' }))).toBe('▲Stopped on W&B');
    for (const state of ['done', 'cancelled', 'interrupted'] as const)
      expect(button(upload({ state }))).toBe('Upload to W&B');
  });

  test('its end is said aloud', () => {
    expect(overWords(upload({ state: 'done', rows: 659 }))).toBe('The upload is done, 659 rows.');
    expect(overWords(upload({ state: 'failed' }))).toBe('The upload failed.');
    expect(overWords(upload())).toBe('');
  });

  test('where the run is: as W&B answered, otherwise as it was asked for', () => {
    const url = 'https://wandb.ai/rl-lab/grpo%20tiny/runs/k3v9x2ab';
    expect(placeWords(upload({ url }))).toBe(narrow('rl-lab_/_grpo tiny_/_k3v9x2ab'));
    expect(placeWords(upload())).toBe(narrow('rl-lab_/_grpo_/_k3v9x2ab'));
    expect(placeWords(upload({ url: 'https://wandb.ai/%E0%A4%A/p/runs/k3v9x2ab' }))).toContain('%E0%A4%A');
  });
});
