/** Rows, summary and config as text, against what the real SDK sent for the same values. */
import { describe, expect, it } from 'vitest';
import { configJson, metricEntries } from '../electron/engine/wandb/config.ts';
import { decode, encodeConfig, encodeLine, encodeSummary } from '../electron/engine/wandb/json.ts';
import type { JsonObject, MetricDefinition } from '../electron/engine/wandb/contract.ts';
import { recording, type StreamBody } from './fake-wandb-replay.ts';
import { parseLoose } from './fake-wandb-runs.ts';
import { inputs, type Logged } from './wandb-fixtures.ts';

const parse = (text: string) => parseLoose(text) as Record<string, unknown>;
/** What the clock and the SDK itself add. */
const without = (row: Record<string, unknown>, ...names: string[]) =>
  Object.fromEntries(Object.entries(row).filter(([key]) => !names.includes(key)));
const bodies = (name: string) =>
  recording(name)
    .filter(({ path }) => path.endsWith('/file_stream'))
    .map(({ body }) => body as StreamBody);
const lines = (name: string) =>
  bodies(name).flatMap(({ files }) => files?.['wandb-history.jsonl']?.content ?? []);
const lastSummary = (name: string) =>
  bodies(name)
    .flatMap(({ files }) => files?.['wandb-summary.json']?.content ?? [])
    .at(-1)!;
const lastConfig = (name: string) =>
  recording(name)
    .filter(({ operation }) => operation === 'UpsertBucket')
    .map(({ body }) => (body as { variables: { config: string } }).variables.config)
    .at(-1)!;

const { init, rows, metrics, summary } = inputs('scalars') as Logged;

describe('a line of history', () => {
  it.each(rows.map((row, i) => [i, row] as const))('says what the SDK says of row %i', (i, row) => {
    const sent = without(parse(lines('01-scalars')[i]!), '_timestamp', '_runtime');
    expect(parse(encodeLine({ ...row, _step: i }))).toStrictEqual(sent);
  });

  it('has the digits of the SDK for integers of 64 bits, and words for what is no number', () => {
    const keys = ['int_2p53', 'int_2p53_1', 'int_max', 'int_uint64', 'int_1e21', 'float_1e20', 'float_1e21'];
    const row = encodeLine(rows[1]!);
    const own = (text: string) => keys.map((key) => new RegExp(`"${key}":[^,}]*`).exec(text)![0]);
    expect(own(row)).toEqual(own(lines('01-scalars')[1]!));
    expect(row).toContain('"neg_zero":0');
    expect(encodeLine(rows[2]!)).toContain('"nan":NaN,"inf":Infinity,"ninf":-Infinity,"none":null');
  });

  it('leaves out objects without a value and keeps lists as they are', () => {
    expect(encodeLine({ a: {}, b: { c: {} }, d: [{}, [], { e: {}, f: null }], g: [] })).toBe(
      '{"d":[{},[],{"e":{},"f":null}],"g":[]}',
    );
  });
});

describe('the summary', () => {
  it('says what the SDK says', () => {
    const last = Object.assign({}, ...rows) as JsonObject;
    // a NaN set by hand, and nothing else, takes its key away
    const ours = { ...last, ...summary, nan: null, _step: rows.length - 1 };
    const sent = without(parse(lastSummary('01-scalars')), '_timestamp', '_runtime', '_wandb');
    expect(parse(encodeSummary(ours))).toStrictEqual(sent);
    expect(sent).not.toHaveProperty('none');
  });

  it('keeps a NaN that a row had, as the SDK does in what it adds up', () => {
    const sent = parse(lastSummary('12-metrics'));
    expect(sent.always_nan).toBeNaN();
    expect(encodeSummary({ c: sent.c as JsonObject, always_nan: NaN })).toBe(
      '{"c":{"first":3,"max":NaN,"min":NaN,"mean":NaN,"last":NaN},"always_nan":NaN}',
    );
  });
});

describe('the config', () => {
  /** The place in the list is only an address: the name that it means counts. */
  const named = (m: Record<string, unknown>[]) =>
    m
      .map((entry) => ({
        ...entry,
        '5': entry['5'] === undefined ? null : m[(entry['5'] as number) - 1]!['1'],
        '6': [...(entry['6'] as number[])].sort(),
      }))
      .sort((a, b) => JSON.stringify(a).localeCompare(JSON.stringify(b)));
  interface Own {
    value: { m: Record<string, unknown>[]; t: Record<string, unknown> };
  }

  it('says what the SDK says, with telemetry and metrics', () => {
    const defined = metrics.map(({ name, step_metric }) => ({ name, step: step_metric }));
    const ours = parse(configJson(init.config, defined, 'linux-x86_64'));
    const sent = parse(lastConfig('01-scalars'));
    expect(without(ours, '_wandb')).toStrictEqual(without(sent, '_wandb'));
    const [own, theirs] = [ours._wandb as Own, sent._wandb as Own];
    expect(named(own.value.m)).toEqual(named(theirs.value.m));
    expect(own.value.t).toEqual({ '13': theirs.value.t['13'] });
    expect(Object.keys(own.value)).toEqual(['t', 'm']);
  });

  it('has NaN as null and Infinity bare, in lists too', () => {
    expect(encodeConfig({ a: NaN, b: [NaN, -Infinity], c: {}, d: { e: NaN } })).toBe(
      '{"a":null,"b":[null,-Infinity],"d":{"e":null}}',
    );
  });

  it('defines metrics in all forms as the SDK does', () => {
    const defined: MetricDefinition[] = [
      { name: 'step' },
      { name: 'a', step: 'step' },
      { name: 'b', step: 'undeclared' },
      { name: 'c', summary: ['min', 'max', 'mean', 'last', 'first'] },
      { name: 'd', summary: ['copy'] },
      { name: 'e', summary: ['none'] },
      { name: 'f', hidden: true },
      { name: 'g', step: 'step', stepSync: false },
      { name: 'h', step: 'step' },
      { name: 'glob/*', step: 'step', summary: ['max'] },
    ];
    const sent = parse(lastConfig('12-metrics'))._wandb as Own;
    expect(named(metricEntries(defined) as Record<string, unknown>[])).toEqual(named(sent.value.m));
  });

  it('defines a metric once: the last definition counts', () => {
    expect(metricEntries([{ name: 'a' }, { name: 's' }, { name: 'a', step: 's' }])).toEqual([
      { '1': 'a', '5': 2, '6': [1, 3], '7': [] },
      { '1': 's', '6': [3], '7': [] },
    ]);
  });
});

describe('reading', () => {
  it('knows bare words, and leaves the same words in texts alone', () => {
    expect(decode('{"a":[NaN,-Infinity,Infinity,1],"NaN":"Infinity","b":"\\"NaN\\\\","c":-0}')).toStrictEqual(
      {
        a: [NaN, -Infinity, Infinity, 1],
        NaN: 'Infinity',
        b: '"NaN\\',
        c: -0,
      },
    );
    expect(decode('NaN')).toBeNaN();
  });

  it('reads every line and config of the recordings as another reader does', () => {
    const all = ['01-scalars', '12-metrics'].flatMap((name) => [
      ...lines(name),
      lastSummary(name),
      lastConfig(name),
    ]);
    for (const text of all) expect(decode(text)).toStrictEqual(parseLoose(text));
  });

  it('refuses what is no JSON, and a long text does not overflow it', () => {
    for (const text of ['', 'nan', '{"a":NaN', 'Infinity1', '<html>NaN'])
      expect(() => decode(text)).toThrow(SyntaxError);
    const long = '\\"'.repeat(3_000_000);
    expect(decode(`["${long}",NaN]`)).toStrictEqual(['"'.repeat(3_000_000), NaN]);
  });
});
