/** `vllm-scope mark`: a step begins or ends now, told to the engine that records; and how a trainer tells it by itself. */
import { lastingToken } from './data-folder.ts';
import { EngineError } from './errors.ts';
import { stepKindOf, timeOf } from './input-steps.ts';
import { runningEngine } from './running-engine.ts';
import { iso, json, usage, wholeNumber } from './verbs-steps.ts';
import type { Given } from './verbs.ts';

export async function mark(given: Given): Promise<void> {
  const { step, kind, at, run = null } = given;
  const input = {
    step: step === undefined ? null : wholeNumber(step, '--step'),
    kind: kind === undefined ? null : usage(() => stepKindOf(kind)),
    at: at === undefined ? null : usage(() => timeOf(at)),
    end: given.end === true,
    run,
  };
  const engine = await runningEngine(given.dataFolder);
  if (!engine)
    throw new EngineError(
      'engine-gone',
      `No engine runs on ${given.dataFolder}, so nothing is recorded that could be marked. Start the app or "vllm-scope serve" there, or name its folder with --data DIR.`,
    );
  try {
    if (given.how === true) {
      how(engine.port, lastingToken(given.dataFolder, 'mark-token'), given.json);
      return;
    }
    const marked = await engine.methods.mark(input);
    if (given.json) {
      json(marked);
      return;
    }
    const { number, kind: what, from, to } = marked.step;
    const when = to === null ? `began at ${iso(from)}` : `ended at ${iso(to)}`;
    console.log(
      `Step ${number} (${what}) ${when}.${marked.changed ? '' : ' It was marked before; nothing changed.'}`,
    );
  } finally {
    await engine.close();
  }
}

/**
 * The address is asked without a proxy: clusters often set one, and it cannot reach this machine's loopback. Whatever goes
 * wrong is suppressed: a mark must never end a training.
 */
const python = (url: string, token: string) =>
  `import contextlib, json, urllib.request as u
with contextlib.suppress(Exception): u.build_opener(u.ProxyHandler({})).open(u.Request("${url}", json.dumps({"step": int(step)}).encode(), {"Authorization": "Bearer ${token}"}), timeout=2)`;

function how(port: number, token: string, asJson: boolean): void {
  const url = `http://127.0.0.1:${port}/api/step`;
  const ssh = `ssh -R ${port}:127.0.0.1:${port} TRAINER-HOST`;
  if (asJson) {
    json({ url, token, ssh, python: python(url, token) });
    return;
  }
  console.log(`Address  ${url}
Token    ${token}   (marks steps, and can do nothing else)

Where the trainer runs on another machine, from this one:

${ssh}

In the training loop, at the beginning of each step:

${python(url, token)}

By hand, to see what is answered:

curl -H "Authorization: Bearer ${token}" -d '{"step": 12}' ${url}`);
}
