"""Stands in for vLLM's module of the same name: the base classes of stat loggers, with the signatures of vLLM 0.20 and
0.32, as abstract as those are. test/real-vllm/embedded.py compares it with the real one."""

from abc import ABC, abstractmethod


class StatLoggerBase(ABC):
    @abstractmethod
    def __init__(self, vllm_config, engine_index=0): ...

    @abstractmethod
    def record(self, scheduler_stats, iteration_stats, mm_cache_stats=None, engine_idx=0): ...

    @abstractmethod
    def log_engine_initialized(self): ...

    def log(self):
        pass

    def record_sleep_state(self, is_awake, level):
        pass


class AggregateStatLoggerBase(StatLoggerBase):
    @abstractmethod
    def __init__(self, vllm_config, engine_indexes): ...
