"""rollouts.py DIR PLAN.json TRUTH.json: serves a plan's endpoints and drives RL-like rollouts on them.

Prints a line of JSON for what happens: {"serving": [urls]}, one per step, {"done": true}. Writes TRUTH.json: start (epoch
seconds), steps (begin, end in seconds since start), events (killed, serving again) and every request with the usage that
the server itself said. A step is prompts x group with a shared beginning and lognormal output lengths; a plan's step
with "kill" kills that endpoint's server in the middle and serves it anew.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time

import aiohttp

HERE = os.path.dirname(os.path.abspath(__file__))
DIR, PLAN, TRUTH = sys.argv[1:4]
with open(PLAN) as file:
    plan = json.load(file)
endpoints = plan["endpoints"]
servers = {}
start = time.time()


def now():
    return round(time.time() - start, 4)


def say(**what):
    print(json.dumps(what), flush=True)


def url(i, path=""):
    return f"http://127.0.0.1:{endpoints[i]['port']}/{path}"


def serve(i):
    log = open(f"{TRUTH}.server-{i}.log", "a")
    command = [os.path.join(HERE, "serve.sh"), DIR, str(endpoints[i]["port"]), *endpoints[i]["args"]]
    servers[i] = subprocess.Popen(["nice", "-n", "10", *command], start_new_session=True, stdout=log, stderr=log)


def stop(i, how):
    try:
        os.killpg(servers[i].pid, how)
    except ProcessLookupError:
        pass


async def ready(http, i):
    while servers[i].poll() is None:
        try:
            async with http.get(url(i, "health")) as reply:
                if reply.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.5)
    raise SystemExit(f"server {i} ended; see its log beside {TRUTH}")


async def request(http, i, prompt, tokens, step, requests):
    record = {"step": step, "endpoint": i, "sent": now()}
    body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "temperature": 1.0}
    try:
        async with http.post(url(i, "v1/completions"), json=body) as reply:
            usage = (await reply.json()).get("usage") or {}
            record.update(prompt_tokens=usage.get("prompt_tokens"), completion_tokens=usage.get("completion_tokens"))
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        record["error"] = type(error).__name__
    record["done"] = now()
    requests.append(record)


async def run_step(http, number, step, rng, requests, events):
    tasks = []
    for _ in range(step["prompts"]):
        prompt = [3 + (j % 97) for j in range(256)] + [3 + rng.randrange(900) for _ in range(step["prompt_len"])]
        for _ in range(step["group"]):
            i = rng.randrange(len(endpoints))
            length = max(8, min(1500, int(rng.lognormvariate(step["mu"], 0.7))))
            tasks.append(asyncio.create_task(request(http, i, prompt, length, number, requests)))
    if "kill" in step:
        i = step["kill"]
        await asyncio.sleep(step["kill_after"])
        stop(i, signal.SIGKILL)
        await asyncio.to_thread(servers[i].wait)
        events.append({"t": now(), "endpoint": i, "event": "killed"})
        serve(i)
        await ready(http, i)
        events.append({"t": now(), "endpoint": i, "event": "serving"})
    await asyncio.gather(*tasks)


async def main():
    global start
    rng = random.Random(plan.get("seed", 1))
    requests, events, steps = [], [], []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(600), connector=connector) as http:
        for i in range(len(endpoints)):
            serve(i)
        await asyncio.gather(*[ready(http, i) for i in range(len(endpoints))])
        start = time.time()
        say(serving=[url(i) for i in range(len(endpoints))])
        await asyncio.sleep(plan.get("lead", 8))
        for number, step in enumerate(plan["steps"]):
            begin = now()
            await run_step(http, number, step, rng, requests, events)
            steps.append({"step": number, "begin": begin, "end": now()})
            say(**steps[-1])
            await asyncio.sleep(step.get("train", 6))
    with open(TRUTH, "w") as file:
        json.dump({"start": start, "steps": steps, "events": events, "requests": requests}, file)
    say(done=True)


try:
    asyncio.run(main())
finally:
    for i in servers:
        stop(i, signal.SIGTERM)
