/**
 * The stand-in is only worth something if it writes as a real vLLM does: its bodies are held to recorded ones line
 * by line, its numbers to all that stand in them.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { pythonFloat } from './fake-metrics.ts';
import { bodyAt, start } from './fake-time.ts';

const recorded = (name: string) => readFileSync(new URL(`fixtures/${name}`, import.meta.url), 'utf8');
const after = recorded('samples/vllm-0.30-single-after.prom');
const before = recorded('samples/vllm-0.30-single-before.prom');
const severalProcesses = recorded('several-api-processes.prom');
const dp8 = recorded('samples/synthetic-dp8-one-api-server.prom');

vi.setConfig({ testTimeout: 30_000 }); // other work shares the machine

const masked = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => (line.startsWith('#') ? line : line.replace(/ \S+$/, '')));

describe('numbers', () => {
  it('are written as in the recorded bodies', () => {
    const texts = [after, before, severalProcesses, dp8].flatMap((text) =>
      text
        .trimEnd()
        .split('\n')
        .filter((line) => !line.startsWith('#'))
        .map((line) => line.slice(line.lastIndexOf(' ') + 1)),
    );
    expect(texts.length).toBeGreaterThan(4000);
    for (const text of texts) expect(pythonFloat(Number(text))).toBe(text);
  });

  it('are written as prometheus_client 0.26 writes them', () => {
    const printed =
      '0.0 -0.0 -1.0 0.3333333333333333 999999.0 1e+06 1.0000005e+06 1.2345678925e+08 1e+15 9.007199254740992e+15 ' +
      '1e+16 1.5e+22 0.0001 5.882e-05 1e-07 1.25e-10 -2500000.5 -1e-05 1.4285714285714286e-06 +Inf -Inf NaN';
    for (const text of printed.split(' '))
      expect(pythonFloat(Number(text.replace('Inf', 'Infinity')))).toBe(text);
  });
});

describe('bodies', () => {
  it('equal the recorded ones of one engine, line by line', async () => {
    const cluster = await start({ shape: { blocks: 2021 } });
    expect(masked(await bodyAt(cluster, 7))).toEqual(masked(before));
    expect(masked(await bodyAt(cluster, 12))).toEqual(masked(after));
  });

  it('equal the recorded ones of two engines behind several API processes', async () => {
    const cluster = await start({
      workers: 2,
      enginesPerEndpoint: 2,
      model: 'tiny',
      shape: { maxModelLen: 2048 },
    });
    // 0.32 has these two more, and other fields in the cache configuration.
    const added = /vllm:(prompt_tokens_cached_by_source|admission_rejections)_total/;
    const same = (text: string) =>
      masked(text)
        .filter((line) => !added.test(line))
        .map((line) => line.replace(/^(vllm:cache_config_info\{).*(engine="\d").*$/, '$1$2'));
    expect(same(await bodyAt(cluster, 6))).toEqual(same(severalProcesses));
    expect(severalProcesses).not.toMatch(/_created|process_|python_/);
  });

  it('of several processes have no gauge that no process has set', async () => {
    const cluster = await start({ workers: 2, enginesPerEndpoint: 2 });
    const first = await bodyAt(cluster, 0.1);
    expect(first).toContain('# TYPE vllm:num_requests_running gauge\n# HELP');
    expect(first).not.toMatch(
      /vllm:(num_requests_running|kv_cache_usage_perc|num_requests_waiting_by_reason)\{/,
    );
    expect(first).toContain('vllm:generation_tokens_total{engine="1",model_name="qwen3-8b"} 0.0\n');
    expect(first).not.toContain('http_requests_total');
  });

  it('of the older merge have the sums of all engines first', async () => {
    const cluster = await start({ workers: 2, enginesPerEndpoint: 2, apiProcesses: 'several-older' });
    const lines = masked(await bodyAt(cluster, 6)).filter((line) =>
      line.startsWith('vllm:request_prompt_tokens_'),
    );
    const model = 'model_name="qwen3-8b"';
    expect(lines.slice(0, 3)).toEqual([
      `vllm:request_prompt_tokens_sum{engine="0",${model}}`,
      `vllm:request_prompt_tokens_sum{engine="1",${model}}`,
      `vllm:request_prompt_tokens_bucket{engine="0",le="1.0",${model}}`,
    ]);
    expect(lines.at(-1)).toBe(`vllm:request_prompt_tokens_count{engine="1",${model}}`);
    const newer = await start({ workers: 2, enginesPerEndpoint: 2 });
    const text = await bodyAt(newer, 6);
    expect(lines.toSorted()).toEqual(
      masked(text)
        .filter((line) => line.startsWith('vllm:request_prompt_tokens_'))
        .toSorted(),
    );
  });

  it('of eight engines behind one API process have all that the reproduction has', async () => {
    const cluster = await start({
      workers: 8,
      enginesPerEndpoint: 8,
      apiProcesses: 'one',
      model: 'example/model-8b',
      shape: { maxModelLen: 131072 },
    });
    const text = await bodyAt(cluster, 6);
    const comparable = (lines: string[]) =>
      lines
        .filter((line) => line.includes('vllm:') && !/spec_decode|^vllm:cache_config_info/.test(line))
        .toSorted();
    expect(comparable(masked(text))).toEqual(comparable(masked(dp8)));
    // Value by value, each for all engines, as the children are created.
    expect(text.match(/request_success_total\{engine="(\d)",finished_reason="stop"/g)).toHaveLength(8);
    expect(text).toMatch(
      /engine="7",finished_reason="stop".*\nvllm:request_success_total\{engine="0",finished_reason="length"/,
    );
  });
});
