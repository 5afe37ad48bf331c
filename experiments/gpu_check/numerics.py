"""Phases that compute by themselves: which kernels there are, what bfloat16 does to log π, what the pass costs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from experiments.gpu_check import model
from experiments.gpu_check.check import Context, Numbers, require
from grpo.config.nodes import ModelConfig
from grpo.data import Prompt, Rollout, Sampling
from grpo.models.load import load_policy
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.training.logprobs import completion_logps

KERNELS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
FUSED = KERNELS[:3]
BOUND = 0.1  # nats; the same policy on a CPU, 6 × 24 tokens: 0.031 under autocast, 0.039 in pure bfloat16


def kernels(context: Context) -> Numbers:
    """Milliseconds of causal attention in bfloat16 by each of torch's kernels; null where there is none."""
    shape = (2, 2, 64, 32) if context.small else (8, 16, 2048, 64)
    query, key, value = (torch.randn(shape, device=context.device, dtype=torch.bfloat16) for _ in range(3))
    numbers: Numbers = {"flash_attn_package": find_spec("flash_attn") is not None}
    for name in KERNELS:
        numbers[f"{name.lower()}_ms"] = _kernel(getattr(SDPBackend, name), query, key, value)
    if context.device == "cuda":
        numbers["capability"] = ".".join(map(str, torch.cuda.get_device_capability()))
        numbers["bf16"] = torch.cuda.is_bf16_supported()
    fused = any(numbers[f"{name.lower()}_ms"] is not None for name in FUSED)
    return require(
        numbers,
        (fused, "torch has no fused attention here"),
        (numbers.get("bf16", True), "the GPU has no bfloat16"),
    )


def _kernel(backend: Any, query: Tensor, key: Tensor, value: Tensor) -> float | None:
    def attend() -> Tensor:
        return scaled_dot_product_attention(query, key, value, is_causal=True)

    try:
        with sdpa_kernel([backend]):
            return round(1000 * timed(attend, query.device.type), 3)
    except RuntimeError:  # "No available kernel"
        return None


def timed(work: Callable[[], Any], device: str, times: int = 3) -> float:
    """Seconds of the fastest of some runs, after one to warm up."""
    best = float("inf")
    for turn in range(times + 1):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        best = min(best, time.perf_counter() - began) if turn else best
    return best


def wait(device: str) -> None:
    """Until the GPU has done what it was told."""
    if device == "cuda":
        torch.cuda.synchronize()


def precision(context: Context) -> Numbers:
    """log π of sampled completions in float32, under bfloat16 autocast and in pure bfloat16; and log μ in float32."""
    numbers = _passes(context)
    gc.collect()
    if context.device == "cuda":
        torch.cuda.empty_cache()  # the runs that follow are processes of their own
    return require(
        numbers,
        (numbers["float32_engine_mean"] <= 1e-4, "log μ of a cached decode is not log π in float32"),
        (numbers["bf16_autocast_mean"] <= BOUND, f"bfloat16 autocast moves log π by more than {BOUND} nats on average"),
        (numbers["bf16_pure_mean"] <= BOUND, f"pure bfloat16 moves log π by more than {BOUND} nats on average"),
    )


def _passes(context: Context) -> Numbers:
    policy, prompts, rollouts = sampled(context)
    cast = partial(torch.autocast, device_type=context.device, dtype=torch.bfloat16)
    ask = partial(completion_logps, prompts=prompts, rollouts=rollouts, temperature=1.0, pad_id=0)
    with torch.no_grad():
        exact, mixed = ask(policy).logp, ask(policy, autocast=cast).logp
        forward = timed(lambda: ask(policy, autocast=cast), context.device)
    both = timed(lambda: ask(policy, autocast=cast).logp.sum().backward(), context.device, times=2)
    policy.zero_grad(set_to_none=True)
    with torch.no_grad():
        # Loaded and not cast: .to() would round the rotary frequencies too, which nobody does.
        pure = ask(load(context, "bfloat16")).logp
    recorded = torch.tensor([r.logp_rollout for r in rollouts], dtype=exact.dtype, device=exact.device)
    tokens = sum(r.length for r in rollouts)
    return {
        "tokens": tokens,
        "logp_pass_s": round(forward, 4),
        "logp_tokens_per_s": round(tokens / forward),
        "forward_backward_s": round(both, 4),
        "forward_backward_tokens_per_s": round(tokens / both),
        **_apart("float32_engine", recorded, exact),
        **_apart("bf16_autocast", mixed, exact),
        **_apart("bf16_pure", pure, exact),
    }


def _apart(name: str, one: Tensor, other: Tensor) -> Numbers:
    gap = (one.double() - other.double()).abs()
    return {f"{name}_mean": float(f"{gap.mean():.3g}"), f"{name}_max": float(f"{gap.max():.3g}")}


def sampled(context: Context) -> tuple[Any, list[Prompt], list[Rollout]]:
    """The policy in float32, and completions of full length that it sampled itself, one per row."""
    policy = load(context, "float32")
    number, length = (2, 8) if context.small else (4, 128)
    prompts = [Prompt(f"p{i}", tuple(range(4, 10 + i % 2)), "") for i in range(number)]
    # No id ends a completion, so that all of them reach the limit.
    engine = TransformersEngine(policy, eos_ids=(-1,), pad_id=0, decode=lambda ids: "", max_rows=256)
    rollouts = engine.generate(prompts, 4, Sampling(max_tokens=length), seed=0, stream="check", step=0)
    return policy, [prompts[r.group] for r in rollouts], rollouts


def load(context: Context, dtype: Literal["float32", "bfloat16"]) -> Any:
    """The policy with random weights."""
    folder = model.write(context.work / "policy", small=context.small, device=context.device)
    return load_policy(ModelConfig(kind="hf", path=str(folder), dtype=dtype), context.device)[0]
