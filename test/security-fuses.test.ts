// The fuses of packages: electron-builder.yml against the list of the design and against what electron-builder itself
// knows. That they are in a package can only be looked at there.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const root = path.dirname(import.meta.dirname);
const { electronFuses, asar } = parse(fs.readFileSync(path.join(root, 'electron-builder.yml'), 'utf8')) as {
  electronFuses: Record<string, boolean>;
  asar: unknown;
};

test('nothing runs as Node, takes NODE_OPTIONS or a debugger, or loads what is not in the asar', () => {
  expect(asar).toBe(true);
  expect(electronFuses).toEqual({
    runAsNode: false,
    enableNodeOptionsEnvironmentVariable: false,
    enableNodeCliInspectArguments: false,
    enableEmbeddedAsarIntegrityValidation: true,
    onlyLoadAppFromAsar: true,
    grantFileProtocolExtraPrivileges: false,
  });
});

test('electron-builder knows each of them by that name', () => {
  const schema = createRequire(import.meta.url)('app-builder-lib/scheme.json') as {
    definitions: { FuseOptionsV1: { properties: Record<string, unknown> } };
  };
  expect(Object.keys(schema.definitions.FuseOptionsV1.properties)).toEqual(
    expect.arrayContaining(Object.keys(electronFuses)),
  );
});
