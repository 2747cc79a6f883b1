// The engine's end of the channel, as a process of its own: seals and opens what it is told, for keychain.test.ts.
import { parent } from '../electron/engine/parent.ts';

const keychain = parent()?.keychain ?? null;
const say = (message: object) => process.send?.(message);

if (keychain === null) say({ none: true });
else {
  const [first, second] = await Promise.all([keychain.seal('first'), keychain.seal('second')]);
  say({
    first,
    second,
    opened: await Promise.all([keychain.unseal(second), keychain.unseal(first)]),
    foreign: await keychain.unseal('bm90IG91cnM='),
    refused: await keychain.seal('refuse me').catch((error: unknown) => String(error)),
  });
}
process.disconnect();
