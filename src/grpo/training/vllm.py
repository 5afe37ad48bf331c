"""The vLLM engine of a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grpo.data import Prompt, Rollout
from grpo.models import load as models
from grpo.models.folders import locate
from grpo.rollout import vllm_version
from grpo.rollout.vllm_engine import VllmEngine
from grpo.rollout.vllm_guard import TOKENS, SyncGuard
from grpo.rollout.vllm_start import start_vllm
from grpo.training.logprobs import completion_logps

PROBES = 4  # prompts of the guard
LONG = 300  # tokens of one more: a cached prefix is whole blocks, and those of vLLM on CPU are 128 tokens long
CPU_PREFILL = 4096  # tokens of prompts read together on CPU
CPU_CACHE = 1 << 30  # bytes of KV cache on CPU; a longer queue waits


def engine_dtype(run: Any) -> torch.dtype:
    """bfloat16 where the trainer computes in it, whatever the weights are kept in."""
    precision = run.config.trainer.precision
    mixed = precision == "bf16-mixed" or (precision == "auto" and run.device.type == "cuda")
    return torch.bfloat16 if mixed and run.policy.dtype == torch.float32 else run.policy.dtype


def limits(run: Any) -> dict[str, Any]:
    """Lengths, rows and memory, as vllm.LLM calls them."""
    config = run.config
    gpu = run.device.type == "cuda"
    eager = config.rollout.enforce_eager
    positions = models.context_length(run.policy)
    length = config.max_prompt_tokens + config.max_completion_tokens
    found: dict[str, Any] = {
        "max_model_len": length if positions is None else min(length, positions),
        "max_num_seqs": config.rollout.max_rows,
        "max_logprobs": max(20, run.objective.top_k),
        "enforce_eager": not gpu if eager == "auto" else eager,
        "tensor_parallel_size": config.rollout.tensor_parallel_size,
    }
    if run.ranks.world > 1:  # each rank's engine on that rank's device; vLLM would take the first for all of them
        found["distributed_executor_backend"] = "external_launcher"
    if gpu:
        return {**found, "gpu_memory_utilization": config.rollout.gpu_memory_utilization, "enable_sleep_mode": True}
    # A prompt cut in two rewinds its seeded generator, which vLLM's CPU generators cannot: all of one prompt at once.
    whole = {"enable_chunked_prefill": False, "max_num_batched_tokens": max(CPU_PREFILL, found["max_model_len"])}
    return {**found, **whole, "kv_cache_memory_bytes": CPU_CACHE}


def vllm_engine(run: Any, model: Any) -> VllmEngine:
    """An engine whose weights follow `model`, after its self-test; `model` has the weights of the configuration."""
    config, dtype = run.config, engine_dtype(run)
    temperature = config.sampling.temperature
    pad_id = run.tokenizer.pad_token_id

    def logps(prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> Tensor:
        return completion_logps(
            model, prompts, rollouts, temperature=temperature, pad_id=pad_id, autocast=run.autocast
        ).logp

    def guard(engine: VllmEngine) -> SyncGuard:
        prompts = run.book.train(0, min(PROBES, run.book.size("train")))
        ids = (prompts[0].token_ids * LONG)[: max(1, min(LONG, lengths["max_model_len"] - TOKENS))]
        prompts.append(Prompt("long", ids, ""))
        return SyncGuard(engine, model, prompts, logps, temperature=temperature, dtype=dtype)

    lengths, vocabulary = limits(run), model.get_input_embeddings().weight.shape[0]
    own = not torch.distributed.is_initialized()
    llm = start_vllm(locate(config.model), dtype=str(dtype).removeprefix("torch."), seed=config.seed, **lengths)
    engine = VllmEngine(
        model,
        llm,
        eos_ids=[id_ for id_ in models.eos_ids(run.policy, run.tokenizer) if id_ < vocabulary],  # vLLM refuses others
        decode=partial(run.tokenizer.decode, skip_special_tokens=True),
        guard=guard,
        witnessed=model is run.policy and not config.rollout.perturbed,
        sleeps=run.device.type == "cuda",
        owns_group=own,
        workers=config.rollout.tensor_parallel_size,
        say=run.say,
    )
    try:
        engine.guard.self_test()
    except BaseException:
        engine.close()  # nobody else knows of it yet
        raise
    run.say(
        f"  engine      vLLM {vllm_version.installed()} · the sync reaches every tensor · mean |log π − log μ| "
        f"{engine.guard.usual:.1e} at start, alarm at {engine.guard.alarm:.1e}"
    )
    return engine
