"""embedded.py DIR [--disable-log-stats] [--data-parallel-size N]: an engine without an API server, as trainers embed it.

Prints a line of JSON when it can generate, then one for every line on stdin: "requests SEED COUNT" generates and answers
with the tokens of each request, counted from its output; "end" lets go of the engine, as NeMo RL does before its process
is killed. Ends as Python ends when its input does. What makes it scrapeable is the installed exporter; nothing here
knows of it.
"""

import argparse
import asyncio
import gc
import importlib.util
import inspect
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# as in serve.sh, whose README says why
settings = dict(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1")
settings.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind", OMP_NUM_THREADS="1")
os.environ.update({name: value for name, value in settings.items() if name not in os.environ})


def say(**what):
    print(json.dumps(what), file=answers, flush=True)


def differences():
    """Where the stand-in of exporter/tests is not as vLLM's base classes are: names of methods."""
    from vllm.v1.metrics import loggers as real

    file = os.path.join(HERE, "../../exporter/tests/stand_in/vllm/v1/metrics/loggers.py")
    spec = importlib.util.spec_from_file_location("stand_in", file)
    stand_in = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stand_in)

    def shape(cls, name):
        method = getattr(cls, name)
        return [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values()]

    found = []
    for cls in ("StatLoggerBase", "AggregateStatLoggerBase"):
        ours, theirs = getattr(stand_in, cls), getattr(real, cls)
        found += [f"{cls}.{name}" for name in ours.__abstractmethods__ ^ theirs.__abstractmethods__]
        found += [f"{cls}.{name}" for name in ours.__abstractmethods__ if shape(ours, name) != shape(theirs, name)]
    return sorted(found)


async def request(engine, name, prompt, tokens):
    from vllm import SamplingParams

    sampling = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=1.0)
    async for output in engine.generate({"prompt_token_ids": prompt}, sampling, name):
        last = output
    return {"prompt_tokens": len(last.prompt_token_ids), "completion_tokens": len(last.outputs[0].token_ids)}


async def requests(engine, seed, count):
    rng = random.Random(seed)
    shared = [3 + (j % 97) for j in range(256)]
    work = []
    for i in range(count):
        prompt = shared + [3 + rng.randrange(900) for _ in range(rng.randrange(20, 200))]
        work.append(request(engine, f"{seed}-{i}", prompt, rng.randrange(8, 200)))
    return await asyncio.gather(*work)


async def main():
    options = argparse.ArgumentParser()
    options.add_argument("dir")
    options.add_argument("--disable-log-stats", action="store_true")
    options.add_argument("--data-parallel-size", type=int, default=1)
    args = options.parse_args()

    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=os.path.join(args.dir, "tiny"), served_model_name="tiny", load_format="dummy", dtype="float32",
            max_model_len=2048, enforce_eager=True, max_num_seqs=16, num_gpu_blocks_override=48,
            disable_log_stats=args.disable_log_stats, data_parallel_size=args.data_parallel_size,
        )
    )
    say(ready=True, pid=os.getpid(), stand_in_differs_in=differences())
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, *numbers = line.split()
        if command == "requests":
            say(requests=await requests(engine, *map(int, numbers)))
        else:
            engine.shutdown()
            del engine
            gc.collect()
            say(ended=True)


# vLLM and its processes write to stdout, too: what is for the caller has a copy of it to itself
if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(main())
