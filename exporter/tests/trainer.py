"""A trainer that embeds an engine, by itself or with more than one: what the tests run as a process of its own.

`AsyncLLM` does with the plugin what vLLM's own does. Reads commands, one a line, and answers each with a line of JSON;
ends as Python ends when its input does.
"""

import abc
import gc
import importlib
import json
import logging
import os
import signal
import sys

import vllm_scope_exporter
from prometheus_client import REGISTRY, Counter, Gauge
from vllm.v1.metrics import loggers

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=sys.stderr)


class AsyncLLM:
    def __init__(self, more_of_a_later_vllm=False):
        plugin = vllm_scope_exporter.Exporter
        if not (isinstance(plugin, type) and issubclass(plugin, loggers.AggregateStatLoggerBase)):
            raise TypeError("vLLM refuses a plugin that is no such class")
        more = {"client_count": 1} if more_of_a_later_vllm else {}
        self.logger = plugin(vllm_config=object(), engine_indexes=[0], **more)
        # as vLLM does: the newest engine's metrics are the registry's
        for collector in list(REGISTRY._collector_to_names):
            if getattr(collector, "_name", "").startswith("vllm:"):
                REGISTRY.unregister(collector)
        labels = {"model_name": "tiny", "engine": "0"}
        self.tokens = Counter("vllm:generation_tokens", "Generated.", labels).labels(**labels)
        self.running = Gauge("vllm:num_requests_running", "Running.", labels).labels(**labels)
        self.logger.log_engine_initialized()

    def generate(self, tokens):
        self.tokens.inc(tokens)
        self.logger.record(None, None, mm_cache_stats=None, engine_idx=0)
        self.logger.record_sleep_state(0, 0)
        self.logger.log()


def fork():
    """A child that makes an engine of its own, and ends as Python ends when it gets SIGUSR1."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        engines[:] = [AsyncLLM()]
        os.write(theirs, b".")
        signal.sigwait([signal.SIGUSR1])
        sys.exit()
    os.close(theirs)
    os.read(ours, 1)
    return pid


def fork_and_end(let_go):
    pid = os.fork()
    if pid == 0:
        if let_go:
            engines.clear()
            gc.collect()
        sys.exit()
    os.waitpid(pid, 0)


def later_vllm():
    """Its base class asks for one method more than the exporter has."""
    importlib.reload(loggers)
    loggers.AggregateStatLoggerBase.record_something_new = abc.abstractmethod(lambda self: None)
    abc.update_abstractmethods(loggers.AggregateStatLoggerBase)
    importlib.reload(vllm_scope_exporter)


engines = []
for line in sys.stdin:
    command, *words = line.split()
    answer = None
    if command == "engine":
        engines.append(AsyncLLM(*words))
    elif command == "generate":
        engines[-1].generate(int(words[0]))
    elif command == "end-engine":
        engines.pop(0)
        gc.collect()
    elif command == "fork":
        answer = fork()
    elif command == "fork-and-end":
        fork_and_end(let_go=False)
    elif command == "fork-and-end-engines":
        fork_and_end(let_go=True)
    elif command == "lose-patience-sooner":
        vllm_scope_exporter._Handler.timeout /= 100
    elif command == "have-patience":
        vllm_scope_exporter._Handler.timeout *= 100
    elif command == "later-vllm":
        later_vllm()
    else:
        raise ValueError(command)
    print(json.dumps(answer), flush=True)
