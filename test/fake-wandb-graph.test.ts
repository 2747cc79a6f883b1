/** The rules of the stand-in for W&B that concern GraphQL: queries, variables, names and config of a run, reading. */
import { describe, expect, it } from 'vitest';
import { createFiles, graphql, inOurs, put } from './fake-wandb-asking.ts';
import { refusedAndRemembered, stream, upsert, withRun, type Rule } from './fake-wandb-asking.ts';
import { operationText } from './fake-wandb-replay.ts';

const named = { project: 'proj', entity: 'ent', name: 'run1' };
const rules: Record<string, Rule> = {
  'an unknown operation': [
    (fake) => graphql(fake, 'Nothing', {}, { text: 'query Nothing { nothing { id } }' }),
    400,
    /Cannot query field "nothing"/,
  ],
  'an unknown field': [
    (fake) => graphql(fake, 'Viewer', {}, { text: 'query Viewer { viewer { id shoeSize } }' }),
    400,
    /Cannot query field "shoeSize"/,
  ],
  'an unknown argument': [
    (fake) => graphql(fake, 'P', {}, { text: 'query P { project(name: "proj", shoeSize: 1) { id } }' }),
    400,
    /Unknown argument "shoeSize"/,
  ],
  'a variable that is not declared': [
    (fake) => upsert(fake, { shoeSize: 1 }),
    400,
    /\$shoeSize is not declared/,
  ],
  'a variable of the wrong type': [(fake) => upsert(fake, { name: 5 }), 400, /\$name/],
  'a variable that is missing': [
    (fake) => graphql(fake, 'CreateRunFiles', { entity: 'ent', project: 'proj', run: 'run1' }),
    400,
    /\$files/,
  ],
  'another operation than it names': [
    (fake) => graphql(fake, 'Viewer', {}, { body: { operationName: 'Viewed' } }),
    400,
    /unknown operation named "Viewed"/,
  ],
  'text that is not GraphQL': [
    (fake) => graphql(fake, 'Viewer', {}, { text: '{ viewer' }),
    400,
    /Syntax Error/,
  ],
  'an unknown member beside the query': [
    (fake) => graphql(fake, 'Viewer', {}, { body: { extensions: {} } }),
    400,
    /unknown member/,
  ],

  'config without {"value"}': [(fake) => upsert(fake, { config: '{"a":1}' }), 400, /a is not \{"value"/],
  'config without telemetry': [
    (fake) => upsert(fake, { config: '{"a":{"value":1}}' }),
    400,
    /_wandb\.value\.t/,
  ],
  'config that is not JSON': [(fake) => upsert(fake, { config: '{' }), 400, /config is not JSON/],
  'a new run without config': [(fake) => upsert(fake, { name: 'run2', config: null }), 400, /no config/],
  "another run's id": [(fake) => upsert(fake, { id: 'UnVuOnYxOg' }), 400, /another run's/],
  'a run id with a slash': [(fake) => upsert(fake, { name: 'a/b' }), 400, /invalid run id/],
  'a run id with a blank at its end': [(fake) => upsert(fake, { name: 'a ' }), 400, /invalid run id/],
  'a run id of 65 characters': [(fake) => upsert(fake, { name: 'a'.repeat(65) }), 400, /invalid run id/],
  'a project with a colon': [(fake) => upsert(fake, { project: 'a:b' }), 400, /invalid project name/],
  'a project of 129 characters': [
    (fake) => upsert(fake, { project: 'a'.repeat(129) }),
    400,
    /invalid project/,
  ],
  'an empty tag': [(fake) => upsert(fake, { tags: [''] }), 400, /invalid tag/],
  'a tag of 65 characters': [(fake) => upsert(fake, { tags: ['a'.repeat(65)] }), 400, /invalid tag/],
  'a body that is a list': [
    (fake) => graphql(fake, 'Viewer', {}, { whole: [] }),
    400,
    /the body is not an object/,
  ],
  'a body without a query': [(fake) => graphql(fake, 'Viewer', {}, { whole: {} }), 400, /there is no query/],
  'variables that are a list': [(fake) => graphql(fake, 'Viewer', []), 400, /variables is not an object/],
  'two operations at once': [
    (fake) =>
      graphql(fake, 'Viewer', {}, { text: operationText('Viewer') + operationText('GetDefaultEntity') }),
    400,
    /there is not one operation/,
  ],
  'a run without a name': [(fake) => upsert(fake, { name: null }), 400, /there is no name/],
  'config that is a list': [(fake) => upsert(fake, { config: '[]' }), 400, /config is not an object/],
  'rewinding by another metric': [
    (fake) =>
      graphql(fake, 'RewindRun', {
        ...{ runName: 'run1', entity: 'ent', project: 'proj' },
        ...{ metricName: 'v', metricValue: 0 },
      }),
    400,
    /by _step only/,
  ],
  'marking as uploaded what was not': [
    (fake) => graphql(fake, 'Mark', { files: ['a.txt'] }, { text: markUploaded }),
    400,
    /a\.txt was not uploaded/,
  ],
  'an unknown member of a spec': [
    (fake) => graphql(fake, 'SampledHistoryPage', { ...inOurs, spec: '{"key":["v"]}' }),
    400,
    /sampledHistory: unknown key/,
  ],
  'a pattern of files': [(fake) => graphql(fake, 'RunFiles', { ...named, pattern: '*' }), 400, /no pattern/],
  'filters that are no object': [(fake) => runs(fake, { filters: '[]' }), 400, /filters is not an object/],
  'a filter that is not known': [(fake) => runs(fake, { filters: '{"size":1}' }), 400, /does not know size/],
  'a way to compare that is not known': [
    (fake) => runs(fake, { filters: '{"name":{"$gt":1}}' }),
    400,
    /does not know \{"\$gt":1\}/,
  ],
  'an order that is not known': [(fake) => runs(fake, { order: '-size' }), 400, /does not know -size/],
};

const markUploaded = `mutation Mark($files: [String!]!) {
  markRunFilesUploaded(input: {entityName: "ent", projectName: "proj", runName: "run1", files: $files}) { success }
}`;
const runs = (fake: Parameters<Rule[0]>[0], more: object) =>
  graphql(fake, 'Runs', { project: 'proj', entity: 'ent', ...more });

describe('refused and remembered:', () => {
  it.each(Object.entries(rules))('%s', (_, rule) => refusedAndRemembered(rule));
});

it('lets a file be reported as uploaded after the run was complete, which then stays so', async () => {
  const fake = await withRun();
  const { files } = await createFiles(fake, 'a.txt');
  await put(files[0]!.uploadUrl, 'a');
  await stream(fake, { complete: true, exitcode: 0 });
  const { text } = await graphql(fake, 'Mark', { files: ['a.txt'] }, { text: markUploaded });
  expect(JSON.parse(text)).toEqual({ data: { markRunFilesUploaded: { success: true } } });
  expect(fake.stored('ent', 'proj', 'run1')).toMatchObject({ uploaded: ['a.txt'], state: 'finished' });
});
