/**
 * From the text of one of Prometheus' file_sd files to endpoints: a JSON or YAML list of `{targets, labels}`. As
 * Prometheus does it, `__scheme__`, `__metrics_path__` and `__param_NAME` make the URL, and no other label with `__` in
 * front is kept (`__address__` is the target's own). Unlike it, a target may also be a whole address, and one without
 * a port is read as a pasted one is: vLLM's 8000, or the scheme's own port where `__scheme__` is given.
 */
import { parse as parseYaml } from 'yaml';
import { parseAddress, withoutLogin } from './addresses.ts';
import { sentenceOf } from './errors.ts';

/** One target of a file. */
export interface Entry {
  /** As it stands there, without user and password. */
  address: string;
  /** null: it is none; the sentence says why. */
  url: string | null;
  labels: Record<string, string>;
  /** Also of one that can be asked, but not as it stands there. */
  sentence: string | null;
}

/** Labels go to every page with every endpoint; the text is from elsewhere. */
const LABELS_MAX = 50;
const TEXT_MAX = 200;

/** Throws an error that says what is wrong, without the file's name. Gives at most `most` entries. */
export function readEntries(text: string, dialect: 'json' | 'yaml', most: number): Entry[] {
  // every YAML scalar is a text: 1.10 must not become 1.1
  // a key twice is no harm here, and looking for them takes time that grows with the square of their number
  const options = { schema: 'failsafe', uniqueKeys: false, prettyErrors: false, logLevel: 'error' } as const;
  const groups: unknown = dialect === 'json' ? JSON.parse(text) : parseYaml(text, options);
  // also a YAML file of nothing but comments: more likely half written than meant
  if (!Array.isArray(groups)) throw new Error('it holds no list. A list without entries is written []');
  const entries: Entry[] = [];
  for (const [i, group] of groups.entries()) {
    const { targets, labels } = fieldsOf(group, `entry ${i + 1}`);
    for (const target of targets) {
      if (entries.length === most) return entries;
      entries.push(entryOf(target, labels));
    }
  }
  return entries;
}

const isNothing = (value: unknown) => value === undefined || value === null || value === '';

function fieldsOf(group: unknown, which: string): { targets: string[]; labels: Map<string, string> } {
  if (typeof group !== 'object' || group === null || Array.isArray(group))
    throw new Error(`${which} is no "targets" with "labels"`);
  const { targets: given, labels: pairs, ...others } = group as Record<string, unknown>;
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw new Error(`${which} has "${other.slice(0, 100)}", where "targets" and "labels" may stand`);
  const targets = isNothing(given) ? [] : given;
  if (!Array.isArray(targets) || !targets.every((target) => typeof target === 'string'))
    throw new Error(`the targets of ${which} are no list of host:port`);
  const labels = new Map<string, string>();
  if (!isNothing(pairs) && (typeof pairs !== 'object' || Array.isArray(pairs)))
    throw new Error(`the labels of ${which} are no names with values`);
  for (const [name, value] of Object.entries(pairs || {})) {
    if (isNothing(value)) continue; // as good as none, to Prometheus too
    if (!['string', 'number', 'boolean'].includes(typeof value))
      throw new Error(`the label "${name.slice(0, 100)}" of ${which} is no text`);
    labels.set(name, String(value));
  }
  return { targets, labels };
}

function entryOf(target: string, all: ReadonlyMap<string, string>): Entry {
  const labels = [...all]
    .filter(([name]) => !name.startsWith('__'))
    .slice(0, LABELS_MAX)
    .map(([name, value]) => [name.slice(0, TEXT_MAX), value.slice(0, TEXT_MAX)]);
  const entry = {
    address: withoutLogin(target).slice(0, TEXT_MAX),
    labels: Object.fromEntries(labels) as Record<string, string>,
  };
  try {
    const scheme = all.get('__scheme__');
    if (scheme !== undefined && !/^https?$/i.test(scheme))
      throw new Error(
        `"${entry.address}" has the scheme "${scheme.slice(0, 20)}"; http and https are known.`,
      );
    const { url: plain, login } = parseAddress(
      scheme === undefined || target.includes('://') ? target : `${scheme}://${target}`,
    );
    const url = new URL(plain);
    const path = all.get('__metrics_path__');
    if (path !== undefined) url.pathname = path;
    for (const [name, value] of all)
      if (name.startsWith('__param_')) url.searchParams.set(name.slice('__param_'.length), value);
    return {
      ...entry,
      url: url.href,
      sentence: login && `The user and password in the file are not used. Give them under "Access".`,
    };
  } catch (error) {
    return { ...entry, url: null, sentence: sentenceOf(error) };
  }
}
