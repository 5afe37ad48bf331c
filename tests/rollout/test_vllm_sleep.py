"""When the vLLM engine sleeps and wakes, told to a stand-in: on CPU vLLM itself ignores both."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch

from grpo.data import Sampling
from grpo.rollout import vllm_engine


class Recorder:
    """An LLM that only remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def sleep(self, level: int) -> None:
        self.calls.append(f"sleep {level}")

    def wake_up(self, tags: list[str]) -> None:
        self.calls.append(f"wake {'+'.join(tags)}")

    def collective_rpc(self, function: Any, args: tuple) -> None:
        self.calls.append("weights")

    def reset_prefix_cache(self) -> bool:
        self.calls.append("forget")
        return True

    def generate(self, requests: list, params: list, use_tqdm: bool) -> list:
        self.calls.append("generate")
        return []


def engine(monkeypatch: Any, sleeps: bool) -> Any:
    monkeypatch.setattr(vllm_engine.VllmEngine, "_params", lambda *_: None)
    return vllm_engine.VllmEngine(
        torch.nn.Linear(1, 1), Recorder(), eos_ids=(), decode=str, guard=lambda _: SimpleNamespace(), sleeps=sleeps
    )


def ask(made: Any) -> None:
    made.sample([], 2, Sampling(), seed=0, stream="train/0", step=0)


def test_the_memory_is_the_updates_between_sampling_and_copying(monkeypatch: Any) -> None:
    made = engine(monkeypatch, sleeps=True)
    ask(made)
    ask(made)  # another round of the same step: nothing sleeps in between
    made.rest()
    made.rest()
    made.sync({}, 1)
    made.sync({}, 2)
    assert made.llm.calls == ["forget", "generate"] * 2 + ["sleep 1"]
    made.llm.calls.clear()
    made.catch_up()  # the cache of keys and values is not wanted yet
    assert made.llm.calls == ["wake weights", "weights"]
    ask(made)  # nothing is woken twice, vLLM would map its memory again
    assert made.llm.calls[2:] == ["wake kv_cache", "forget", "generate"]
    made.rest()
    made.llm.calls.clear()
    ask(made)  # without an update in between: awake, and no copy
    assert made.llm.calls == ["wake weights", "wake kv_cache", "forget", "generate"]


def test_on_cpu_nothing_sleeps(monkeypatch: Any) -> None:
    made = engine(monkeypatch, sleeps=False)
    made.rest()
    ask(made)
    assert made.llm.calls == ["forget", "generate"]


def test_seeds_are_far_apart() -> None:
    # vLLM draws sample i with seed + i: the seeds of 1,000 requests of 32 samples must not come near each other.
    made = (vllm_engine.request_seed(0, "train/0", step, str(p)) for step in range(10) for p in range(100))
    seeds = sorted(made)
    assert min(b - a for a, b in pairwise(seeds)) > 32
    assert seeds[0] >= 0
    assert seeds[-1] < 1 << 48
