"""Engines for the vLLM tests: the embedded policy, and the same with tied embeddings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tests.helpers import SMALL

from grpo.config.check import load
from grpo.data import Prompt, Sampling
from grpo.models.folders import TINY
from grpo.rollout.vllm_engine import VllmEngine
from grpo.training.assemble import Run, assemble
from grpo.training.vllm import vllm_engine


def tied_folder(folder: Path) -> Path:
    """A random policy with the embedded one's tokenizer whose head is its embedding matrix; uneven distributions."""
    from transformers import LlamaConfig, LlamaForCausalLM

    state = torch.get_rng_state()
    torch.manual_seed(0)
    settings = LlamaConfig.from_pretrained(TINY).to_dict() | {"tie_word_embeddings": True, "initializer_range": 0.15}
    LlamaForCausalLM(LlamaConfig(**settings)).save_pretrained(folder)
    torch.set_rng_state(state)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(TINY / name, folder / name)
    return folder


def made(*overrides: str) -> Run:
    """The objects of a small run with rollout=vllm."""
    said = {word.split("=")[0] for word in overrides}
    small = [word for word in SMALL if word.split("=")[0] not in said]
    config, _ = load([*small, "rollout=vllm", *overrides])
    return assemble(config)


@contextmanager
def running(run: Run) -> Iterator[VllmEngine]:
    """Its engine, closed in the end."""
    engine = vllm_engine(run, run.policy)
    try:
        yield engine
    finally:
        engine.close()


def sample(engine: VllmEngine, prompts: list[Prompt], n: int = 4, seed: int = 3, step: int = 5, **sampling: Any) -> Any:
    """Rollouts of a training stream, at most 12 tokens."""
    settings = Sampling(**{"max_tokens": 12, **sampling})
    return engine.generate(prompts, n, settings, seed=seed, stream="train/0", step=step)
