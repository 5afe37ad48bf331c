"""What sampling adds: the transformers engine's cache beside the policy, or a copy of the policy inside vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from grpo.models.lora import is_adapter
from grpo.ranks.place import wanted
from grpo.training.vllm import CPU_CACHE

Parts = dict[str, tuple[int, str]]
"""Bytes by part, and in words what each is made of."""


@dataclass(frozen=True)
class Setting:
    """Longest prompt, type that forward passes compute in, whether by bfloat16 autocast, whether on a GPU."""

    limit: int
    compute: torch.dtype
    mixed: bool
    gpu: bool


def transformers(config: Any, text: Any, where: Setting) -> Parts:
    """The transformers engine: whole groups up to rollout.max_rows, each prompt prefilled once."""
    rows, tokens = _rows(config), where.limit + config.max_completion_tokens
    layer = rows * tokens * _token(text, where) // text.num_hidden_layers
    # A layer's keys grow by concatenation: for a moment the old ones are there too.
    cache = text.num_hidden_layers * layer + layer // 2
    # Logits, log μ in float32, and two float64 tables of the inverse CDF.
    logits = rows * text.vocab_size * (where.compute.itemsize + 4 + 8 + 8)
    return {
        "KV cache": (cache, f"{text.num_hidden_layers} layers · {rows} completions × {tokens} tokens"),
        "logits": (logits, f"{rows} × {text.vocab_size:,} tokens of the vocabulary"),
    }


def with_vllm(
    config: Any, text: Any, where: Setting, model: Any, kept: Parts, card: int | None = None
) -> tuple[Parts, Parts]:
    """(what is kept, what sampling adds) with rollout=vllm; card: bytes of the GPU, by default of the one that is here.

    On a GPU vLLM takes its share of the card while it samples and sleeps while the update runs; on CPU it never sleeps.
    """
    weights, rollout = _weights(model, where), {}
    if config.model.lora.r is not None:
        largest = max((p.numel() for name, p in model.named_parameters() if ".base_layer." in name), default=0)
        words = "W + (alpha / r) B A of one layer after the other, on their way to vLLM, in float32"
        rollout["merged weights"] = (2 * 4 * largest, words)  # the product, and the sum
    if not where.gpu:
        words = f"its own weights in {_name(where.compute)}, and {CPU_CACHE / 1e9:.1f} GB of KV cache"
        return {**kept, "vLLM": (weights + CPU_CACHE, words)}, rollout
    rows, prompts = _rows(config), _prompts(config)
    tokens = rows * config.max_completion_tokens + prompts * where.limit
    share, needs = config.rollout.gpu_memory_utilization, weights // config.rollout.tensor_parallel_size
    if card is None and torch.cuda.is_available():
        card = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    if card is None:
        size = needs + tokens * _token(text, where) // config.rollout.tensor_parallel_size
        words = f"its own weights and the KV cache of {rows} completions; it will take {share:g} of the card"
    else:
        size = int(share * card)
        room = max(0, size - needs) * config.rollout.tensor_parallel_size // _token(text, where)
        words = f"{share:g} of a card of {card / 1e9:.0f} GB, its weights {needs / 1e9:.1f} GB of it"
        words += f": room for {room:,} of {tokens:,} tokens" if room else ": no room for a KV cache"
    rollout["vLLM"] = (size, f"{words}; asleep during the update")
    return kept, rollout


def _rows(config: Any) -> int:
    """Completions that the engine decodes together."""
    most, group = config.rollout.max_rows, config.group_size
    return min(most, max(1, min(_prompts(config), most // group)) * group)


def _prompts(config: Any) -> int:
    """A device's share of a step's prompts."""
    return -(-config.prompts_per_step // wanted(config.trainer))


def _token(text: Any, where: Setting) -> int:
    """Bytes of one token's keys and values in all layers."""
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return 2 * text.num_hidden_layers * heads * width * where.compute.itemsize


def _weights(model: Any, where: Setting) -> int:
    """Bytes of the plain model's weights in the engine's type."""
    return sum(p.numel() for name, p in model.named_parameters() if not is_adapter(name)) * where.compute.itemsize


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
