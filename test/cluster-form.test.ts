/** The form of a cluster as values: what is sent, what is kept secret, what is refused, what saving is said to do. */
import { describe, expect, test } from 'vitest';
import type { Cluster } from '../electron/engine/api.ts';
import {
  giveLogins,
  headersOf,
  inputOf,
  loginsIn,
  nameOf,
  noLogins,
  problemsOf,
  proposedInterval,
  takeLogins,
  type FormValues,
  valuesOf,
  whatSavingDoes as whatSavingDoesWith,
} from '../renderer/cluster-form.ts';

const cluster: Cluster = {
  id: 'c',
  name: 'lab',
  addresses: 'gpu-01:8000\ngpu-02:8000',
  endpoints: [],
  sources: [],
  caFile: null,
  headers: [],
  secrets: null,
  intervalSeconds: 1,
  timeoutSeconds: 5,
  record: true,
  connected: true,
  recording: 'run',
  stopped: null,
};
const header = (id: number, name: string, value: string, kept = false) => ({ id, name, value, kept });

describe('the interval that is proposed', () => {
  // issue 4: 1 s unless the round trip is above a third of it, then the next of 2, 5, 10, 30, 60
  test.each([
    [0.004, 1],
    [0.333, 1],
    [0.334, 2],
    [0.66, 2],
    [0.67, 5],
    [1.7, 10],
    [3.4, 30],
    [10.1, 60],
    [45, 60],
  ])('%f s of round trip: every %i s', (roundTrip, interval) => {
    expect(proposedInterval(roundTrip)).toBe(interval);
  });
});

describe('users and passwords in addresses', () => {
  const pasted =
    'http://ada:s3cret@gpu-01:8000/v1, bob:pass@gpu-02:8000\n# ask eve@lab\n/shared/a@b/*.json gpu-03:8000';

  test('leave the field, and what was typed is what the engine gets', () => {
    const { text, logins } = takeLogins(pasted, noLogins);
    expect(text).toBe('http://gpu-01:8000/v1, gpu-02:8000\n# ask eve@lab\n/shared/a@b/*.json gpu-03:8000');
    expect(giveLogins(text, logins)).toBe(pasted);
    expect(loginsIn(text, logins)).toEqual(['http://ada:s3cret@gpu-01:8000/v1', 'bob:pass@gpu-02:8000']);
  });

  test('no part of a password stays, whatever is in it', () => {
    for (const secret of ['p@ss', 'p/ss', 'p?s', 'p#s', 'p:s'])
      expect(takeLogins(`https://ada:${secret}@gpu-01:8000`, noLogins).text).toBe('https://gpu-01:8000');
  });

  test('an address that was changed since is another one', () => {
    const { logins } = takeLogins('ada:s3cret@gpu-01:8000', noLogins);
    expect(giveLogins('gpu-02:8000', logins)).toBe('gpu-02:8000');
    expect(loginsIn('gpu-02:8000', logins)).toEqual([]);
    const again = takeLogins('ada:other@gpu-01:8000', logins);
    expect(giveLogins(again.text, again.logins)).toBe('ada:other@gpu-01:8000');
  });
});

describe('headers', () => {
  test('a bearer token is an Authorization header, with or without its scheme', () => {
    for (const token of ['abc', ' Bearer abc ', 'bearer  abc'])
      expect(headersOf({ ...valuesOf(null), token })).toEqual([
        { name: 'Authorization', value: 'Bearer abc' },
      ]);
  });

  test('kept ones go back as null, and as what was typed where something was', () => {
    const values = valuesOf({ ...cluster, headers: ['authorization', 'X-Key', 'X-Other'], secrets: 'file' });
    expect(values.tokenKept).toBe(true);
    expect(values.keepInFile).toBe(true);
    values.headers[1]!.value = ' new ';
    expect(headersOf(values)).toEqual([
      { name: 'Authorization', value: null },
      { name: 'X-Key', value: null },
      { name: 'X-Other', value: 'new' },
    ]);
    values.tokenKept = false;
    values.headers.shift();
    expect(headersOf(values)).toEqual([{ name: 'X-Other', value: 'new' }]);
  });

  test('an empty row is none', () => {
    expect(headersOf({ ...valuesOf(null), headers: [header(0, ' ', '')] })).toEqual([]);
  });
});

describe('what cannot be sent', () => {
  test('a new form can', () => {
    expect(problemsOf(valuesOf(null))).toEqual({});
    expect(problemsOf({ ...valuesOf(null), interval: 0.2, timeout: 120 })).toEqual({});
  });

  test('times out of range, or none', () => {
    for (const interval of [0.19, 61, null])
      expect(problemsOf({ ...valuesOf(null), interval }).interval).toMatch(/from 0.2 to 60/);
    for (const timeout of [0, 121, null])
      expect(problemsOf({ ...valuesOf(null), timeout }).timeout).toMatch(/from 0.1 to 120/);
  });

  test('headers without name or value, twice, or with a name that is none', () => {
    const problems = problemsOf({
      ...valuesOf(null),
      token: 'abc',
      headers: [
        header(0, '', 'v'),
        header(1, 'X-Key', ''),
        header(2, 'X Key', 'v'),
        header(3, 'X-A', 'v'),
        header(4, 'x-a', 'v'),
        header(5, 'authorization', 'v'),
        header(6, 'X-Kept', '', true),
        header(7, '', ''),
      ],
    });
    expect(Object.keys(problems).sort()).toEqual(
      ['header-0', 'header-1', 'header-2', 'header-4', 'header-5'].sort(),
    );
  });
});

test('what is sent', () => {
  const values = {
    ...valuesOf(null),
    addresses: 'gpu-01:8000',
    caFile: ' /etc/ca.pem ',
    token: 'abc',
    interval: 2,
  };
  const logins = new Map([['gpu-01:8000', 'ada:s3cret@gpu-01:8000']]);
  expect(inputOf(values, 'lab', logins)).toEqual({
    name: 'lab',
    addresses: 'ada:s3cret@gpu-01:8000',
    intervalSeconds: 2,
    timeoutSeconds: 5,
    record: true,
    caFile: '/etc/ca.pem',
    headers: [{ name: 'Authorization', value: 'Bearer abc' }],
    keepInFile: false,
    forgetLogins: false,
  });
});

describe('a name that nobody gave', () => {
  test.each([
    ['http://ada:pw@gpu-01.lab:8000/v1', 'gpu-01.lab'],
    ['# my lab\n gpu-07:8000, gpu-08:8000', 'gpu-07'],
    ['/shared/vllm/*.json', 'vllm'],
    ['/etc/prometheus/engines.yml', 'engines'],
    ['~/sd/run-7.json', 'run-7'],
    ['', 'cluster'],
  ])('%s', (text, name) => {
    expect(nameOf(text, [])).toBe(name);
  });
  test('is not one that is taken', () => {
    expect(nameOf('gpu-01:8000', ['gpu-01', 'gpu-01 2'])).toBe('gpu-01 3');
  });
});

describe('what saving does', () => {
  const whatSavingDoes = (c: Cluster, values: FormValues) => whatSavingDoesWith(c, values, noLogins);

  test('nothing changed, or the name alone: nothing', () => {
    expect(whatSavingDoes(cluster, valuesOf(cluster))).toEqual([]);
    expect(whatSavingDoes(cluster, { ...valuesOf(cluster), name: 'other' })).toEqual([]);
    expect(whatSavingDoes(cluster, { ...valuesOf(cluster), addresses: 'gpu-02:8000, gpu-01:8000' })).toEqual(
      [],
    );
  });

  test('another interval ends the run, only where there is one', () => {
    const values = { ...valuesOf(cluster), interval: 2 };
    expect(whatSavingDoes(cluster, values)).toEqual([
      expect.stringMatching(/ends this run and begins a new one/),
    ]);
    expect(whatSavingDoes({ ...cluster, recording: null }, values)).toEqual([]);
  });

  test('other endpoints go on in the same run', () => {
    const values = { ...valuesOf(cluster), addresses: 'gpu-01:8000 gpu-03:8000' };
    expect(whatSavingDoes(cluster, values)).toEqual([expect.stringMatching(/go on in the same run/)]);
    expect(whatSavingDoes(cluster, { ...values, interval: 5 })).toEqual([
      expect.stringMatching(/ends this run and begins a new one/),
    ]);
  });

  test('access changes with the next scrape', () => {
    const login = { addresses: 'ada:pw@gpu-01:8000, gpu-02:8000' };
    const changes = [{ token: 'abc' }, { timeout: 2 }, { caFile: '/ca.pem' }, { forgetLogins: true }, login];
    for (const change of changes)
      expect(whatSavingDoes(cluster, { ...valuesOf(cluster), ...change })).toEqual([
        expect.stringMatching(/next scrape/),
      ]);
  });
});
