/** What stands behind an address, in a report: real servers, and bodies of those that are no vLLM. */
import fs from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { checkFile, checkTarget, checkUrl, type CheckTarget } from '../electron/engine/check.ts';
import { EngineError } from '../electron/engine/errors.ts';
import { newAuthority } from './certificates.ts';
import { fakes } from './engines.ts';
import { serving } from './small-servers.ts';

const sample = (name: string) =>
  fs.readFileSync(new URL(`fixtures/samples/${name}`, import.meta.url), 'utf8');
const check = (url: string, options: Partial<CheckTarget> = {}) =>
  checkTarget({ url, timeoutMs: 20_000, headers: {}, login: null, ca: null, ...options });

describe('a vLLM', () => {
  it('is called so, and whether it honours name[]', async () => {
    const endpoint = (await fakes(onTestFinished, { workers: 2, enginesPerEndpoint: 2 })).endpoints[0]!;
    const report = await check(endpoint.url);
    expect(report).toMatchObject({ server: 'vLLM', restricts: false, error: null, reachable: true });
    expect(report.workers.map((w) => w.engine)).toEqual(['0', '1']);
    endpoint.faults = { honoursNames: true };
    expect(await check(endpoint.url)).toMatchObject({ server: 'vLLM', restricts: true, error: null });
  });

  it('in a file was not tried', () => {
    const file = new URL('fixtures/samples/vllm-0.32-dp2-first.prom', import.meta.url).pathname;
    expect(checkFile(file)).toMatchObject({ server: 'vLLM', restricts: null });
    const other = new URL('fixtures/samples/sglang-docs-2025.prom', import.meta.url).pathname;
    expect(checkFile(other)).toMatchObject({ server: 'SGLang', restricts: null, generation: null });
  });

  it('that wants a header, or a login and trust in its certificate, gets them', async () => {
    const plain = (await fakes(onTestFinished)).endpoints[0]!;
    plain.faults = { wants: 'Bearer s3cret' };
    expect((await check(plain.url, { headers: { Authorization: 'Bearer s3cret' } })).error).toBeNull();
    expect(await check(plain.url)).toMatchObject({ reachable: true, server: null, restricts: null });

    const authority = newAuthority();
    const certificate = authority.issue('IP:127.0.0.1');
    const secure = (await fakes(onTestFinished, { certificate })).endpoints[0]!;
    secure.faults = { wants: `Basic ${Buffer.from('me:pw').toString('base64')}` };
    const login = { user: 'me', password: 'pw' };
    expect((await check(secure.url, { ca: authority.pem, login })).error).toBeNull();
    expect(await check(secure.url, { login })).toMatchObject({ reachable: false, workers: [] });
  });

  it('takes the login of an address, and the report does not give it back', async () => {
    const endpoint = (await fakes(onTestFinished)).endpoints[0]!;
    endpoint.faults = { wants: `Basic ${Buffer.from('me:hunter2').toString('base64')}` };
    const report = await checkUrl(`me:hunter2@127.0.0.1:${endpoint.port}/v1`);
    expect(report).toMatchObject({ address: endpoint.url, error: null });
    expect(JSON.stringify(report)).not.toContain('hunter2');
  });

  it('that is two behind a load balancer is found out', async () => {
    const cluster = await fakes(onTestFinished, { workers: 2 });
    const report = await check((await cluster.addLoadBalancer()).url);
    expect(report.findings.join()).toContain('Several servers behind');
  });

  it('that hangs is not waited for when the asker takes it back', async () => {
    const endpoint = (await fakes(onTestFinished)).endpoints[0]!;
    endpoint.faults = { hang: true };
    const call = checkUrl(endpoint.url, AbortSignal.timeout(100)).catch((error: unknown) => error);
    expect(await call).toBeInstanceOf(EngineError);
    expect(await call).toMatchObject({ kind: 'cancelled' });
  });
});

describe('what is no vLLM is named, with what to do', () => {
  const trt = '# TYPE trtllm_num_requests_running gauge\ntrtllm_num_requests_running{pid="7"} 0.0\n';
  const frontend = '# TYPE dynamo_frontend_queued_requests gauge\ndynamo_frontend_queued_requests 0\n';
  const ray = '# TYPE ray_node_cpu_count gauge\nray_node_cpu_count{SessionName="s"} 64.0\n';
  const iterations = '[{"gpuMemUsage":1,"iter":1,"iterLatencyMS":16.5,"kvCacheStats":{"freeNumBlocks":9}}]';
  const table: [what: string, body: string, server: string | null, sentence: string][] = [
    ['SGLang', sample('sglang-docs-2025.prom'), 'SGLang', "Only vLLM's engines are recorded."],
    ['TensorRT-LLM', trt, 'TensorRT-LLM', "Only vLLM's engines are recorded."],
    ['TensorRT-LLM in Triton', 'nv_trt_llm_request_metrics{model="m"} 1\n', 'TensorRT-LLM', 'is no vLLM'],
    ['TensorRT-LLM’s own /metrics', iterations, 'TensorRT-LLM', 'is no vLLM'],
    ['TensorRT-LLM under Dynamo', trt + frontend, 'TensorRT-LLM', 'is no vLLM'],
    [
      'Dynamo’s frontend',
      frontend,
      'NVIDIA Dynamo',
      'is the frontend of NVIDIA Dynamo. Give the system ports',
    ],
    ['a Dynamo part', sample('dynamo-runtime-example.prom'), 'NVIDIA Dynamo', 'DYN_SYSTEM_PORT, often 8081'],
    ['Ray', ray, 'Ray', 'Give the metrics addresses of Ray nodes on which vLLM runs'],
    ['another', 'node_load1 0.5\n', null, 'answers with metrics, but none of vLLM.'],
    ['vLLM without statistics', 'python_info{version="3.12"} 1.0\n', null, 'Statistics are off'],
  ];

  it('for each', async () => {
    // all at once: each takes a second, most of it waiting
    await Promise.all(
      table.map(async ([what, body, server, sentence]) => {
        const { url, name } = await serving(body);
        const report = await check(url);
        const none = { restricts: null, generation: null, workers: [] };
        expect(report, what).toMatchObject({ reachable: true, server, ...none });
        expect(report.error, what).toContain(name);
        expect(report.error, what).toContain(sentence);
        expect(report.findings, what).toEqual([report.error]);
      }),
    );
  });

  it('a worker of NeMo RL', async () => {
    const endpoint = (await fakes(onTestFinished)).endpoints[0]!;
    endpoint.faults = { noMetrics: true };
    const report = await check(endpoint.url);
    expect(report).toMatchObject({ reachable: true, server: null });
    expect(report.error).toContain('docs/nemo-rl.md');
  });
});

it('a Ray node on which vLLM runs, and a Dynamo worker, are vLLM', async () => {
  for (const name of ['made-ray-0.13-three-workers.prom', 'made-dynamo-two-workers.prom'])
    expect(await check((await serving(sample(name))).url)).toMatchObject({ server: 'vLLM', error: null });
});
