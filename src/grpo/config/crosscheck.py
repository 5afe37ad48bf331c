"""Rules between fields: what each of them allows alone, but not together. Mistakes first, then warnings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from grpo.algorithm.form import build
from grpo.config.sentences import any_of
from grpo.errors import Mistake, UserError
from grpo.models import folders
from grpo.ranks.place import on_gpus, wanted
from grpo.rollout import vllm_version
from grpo.sweep.cores import gpus

if TYPE_CHECKING:
    from grpo.config.schema import RunConfig


def mistakes(config: RunConfig, given: Set[str] = frozenset()) -> list[Mistake]:
    """Everything that is wrong between the fields of a configuration whose fields are right."""
    rules = (
        _minibatches,
        _two_grpo,
        _parts,
        _truncated_sampling,
        _schedule,
        _reward,
        _rollout,
        _vllm,
        _model,
        _devices,
        _folders,
    )
    return [Mistake(key, text) for rule in rules for key, text in rule(config)]


def warnings(config: RunConfig) -> list[str]:
    """What works, but not as one may think; shown once, at start."""
    found = []
    if truncating := _truncating(config):
        found.append(
            f"{any_of(truncating, 'and')}: completions come from a truncated distribution, log π from the whole one; "
            "with ratios against log π_old this is a mild, usual bias"
        )
    if config.rollout.kind == "vllm":
        found += vllm_version.warnings()
        if config.rollout.lag or config.rollout.perturb.weights:
            found.append(
                "vllm with rollout.lag or perturbed weights: evaluation samples the newest weights through transformers"
            )
    if config.trainer.precision == "bf16-mixed" and config.model.dtype not in ("auto", "float32"):
        found.append(f"trainer.precision=bf16-mixed does nothing for weights in {config.model.dtype}")
    narrow = config.model.dtype in ("bfloat16", "float16")
    if narrow and config.optimizer.lr < 1e-4 and config.model.lora.r is None:  # an adapter is float32
        # bfloat16 has 8 bits of mantissa: w + δ = w for |δ| < |w|/512, and AdamW's |δ| is about the learning rate.
        found.append(
            f"model.dtype={config.model.dtype} loses updates smaller than 0.2 % of a weight, most of those at "
            f"optimizer.lr={config.optimizer.lr:g}; model.dtype=float32 trainer.precision=bf16-mixed keeps them"
        )
    return found


def _minibatches(config: RunConfig) -> Iterator[tuple[str, str]]:
    prompts, parts = config.prompts_per_step, config.updates.minibatches
    if prompts % parts:
        valid = any_of([str(n) for n in range(1, prompts + 1) if prompts % n == 0])
        yield (
            "updates.minibatches",
            f"{parts} minibatches do not divide the {prompts} prompts of a step "
            f"(a minibatch is whole groups); use {valid}",
        )


def _two_grpo(config: RunConfig) -> Iterator[tuple[str, str]]:
    if config.algorithm.rsplit("/", 1)[-1] == "two_grpo" and config.group_size != 2:
        g, name = config.group_size, config.algorithm
        yield (
            "group_size",
            f"{name} is GRPO with two completions per prompt; "
            f"drop group_size={g}, or drop +algo={name} to train GRPO with {g}",
        )


def _parts(config: RunConfig) -> Iterator[tuple[str, str]]:
    """What the parts say about each other; a part of one's own must answer what its axis is asked."""
    try:
        for text in build(config).conflicts():
            yield text.split("=")[0], text
    except AttributeError as error:
        yield "form", f"cannot put the parts together: {error}; see the parts of the same axis in grpo.algorithm"


def _truncating(config: RunConfig) -> list[str]:
    sampling = config.sampling
    off = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
    return [f"sampling.{k}={getattr(sampling, k):g}" for k, v in off.items() if getattr(sampling, k) != v]


def _truncated_sampling(config: RunConfig) -> Iterator[tuple[str, str]]:
    if not _truncating(config) or not build(config).needs_rollout_logp:
        return
    readers = []
    if getattr(config.correction, "needs_rollout_logp", True):
        readers.append(f"correction={config.choices.get('correction', 'none')} (use correction=none)")
    if getattr(config.ratio, "anchor", "old") == "rollout":
        readers.append("ratio.anchor=rollout (use ratio.anchor=old)")
    for setting in _truncating(config) if readers else ():
        key, value = setting.split("=")
        off = "0" if key != "sampling.top_p" else "1"
        yield (
            key,
            f"{value} makes log μ another distribution's than log π, and it is read by {any_of(readers, 'and')}; "
            f"or sample with {key}={off}",
        )


def _schedule(config: RunConfig) -> Iterator[tuple[str, str]]:
    if config.schedule.kind == "constant":
        return
    known = config.max_steps is not None or config.data.passes is not None
    if config.schedule.unit == "tokens" and config.budget.generated_tokens is None:
        yield "schedule.unit", f"a {config.schedule.kind} schedule in tokens needs budget.generated_tokens"
    if config.schedule.unit == "steps" and not known:
        yield (
            "schedule.unit",
            f"a {config.schedule.kind} schedule in steps needs max_steps or data.passes; use schedule.unit=tokens",
        )
    if config.schedule.unit == "steps" and config.max_steps and config.schedule.warmup_steps >= config.max_steps:
        warm = config.schedule.warmup_steps
        yield "schedule.warmup_steps", f"{warm} steps of warm-up leave none of the {config.max_steps} for the decay"


def _reward(config: RunConfig) -> Iterator[tuple[str, str]]:
    names = list(config.reward.functions)
    if config.reward.accuracy is not None and config.reward.accuracy not in names:
        yield "reward.accuracy", f"there is no reward function {config.reward.accuracy}; use {any_of(names)}"
    if all(weight == 0 for weight in config.reward.weights.values()):
        yield "reward.functions", "every weight is 0, so nothing is rewarded"


def _rollout(config: RunConfig) -> Iterator[tuple[str, str]]:
    rollout = config.rollout
    if rollout.kind == "replay":
        if rollout.path is None:
            yield "rollout.path", "say which run to replay: rollout.path=FOLDER, a run made with save_rollouts=true"
        elif not Path(rollout.path).is_dir():
            yield "rollout.path", f"there is no folder {rollout.path}"
        if config.filter.resamples:
            yield "rollout.kind", "recorded completions cannot be drawn again, as this filter wants: use filter=none"
        if rollout.lag:
            yield "rollout.lag", "recorded completions have no engine that could lag; use rollout.lag=0"
        if rollout.perturbed:
            yield "rollout.perturb", "recorded completions have no engine that could be perturbed; drop it"
    elif rollout.path is not None:
        yield "rollout.path", f"is read by rollout=replay only, not by rollout={rollout.kind}"


def _vllm(config: RunConfig) -> Iterator[tuple[str, str]]:
    if config.rollout.kind != "vllm":
        return
    if config.model.dtype == "float64":
        yield "model.dtype", "vLLM does not compute in float64; use float32, or rollout=transformers"
    if config.model.fp32_head and (config.model.dtype in ("bfloat16", "float16") or config.trainer.precision != "auto"):
        yield (
            "model.fp32_head",
            "vLLM computes its head in the network's type; use fp32_head=false, or model.dtype=float32",
        )
    workers = config.rollout.tensor_parallel_size
    if workers > 1 and config.trainer.devices != 1:
        yield (
            "rollout.tensor_parallel_size",
            f"spreads one engine over {workers} devices, and each of trainer.devices={config.trainer.devices} has an "
            "engine of its own; use 1, or trainer.devices=1",
        )


def _model(config: RunConfig) -> Iterator[tuple[str, str]]:
    model = config.model
    if model.lora.r is not None and config.rollout.perturb.weights:
        text = "perturbs weights, and the engine's copy shares an adapter's frozen base with the trainer"
        yield "rollout.perturb", f"{text}; use rollout.perturb.temperature, or model.lora.r=null"
    if model.attn_implementation == "flash_attention_2":
        if config.trainer.accelerator == "cpu":
            yield "model.attn_implementation", "flash_attention_2 runs on gpus only; use sdpa or auto with trainer=cpu"
        if model.dtype in ("float32", "float64"):
            text = f"flash_attention_2 computes in 16 bits, not in {model.dtype}; use sdpa, or model.dtype=bfloat16"
            yield "model.attn_implementation", text
    if model.lora.dropout:
        yield (
            "model.lora.dropout",
            f"{model.lora.dropout:g} makes log π differ from log μ and from one pass to the next; use 0",
        )
    if model.lora.r is not None and find_spec("peft") is None:
        yield "model.lora.r", "an adapter needs peft; run pip install 'grpo-lab[lora]'"
    if model.chat_template is not None and not Path(model.chat_template).is_file():
        yield "model.chat_template", f"there is no file {model.chat_template}"
    try:
        folders.locate(model)
    except UserError as error:
        key, _, text = str(error).partition("   ")
        yield key, text


def _devices(config: RunConfig) -> Iterator[tuple[str, str]]:
    count, prompts = wanted(config.trainer), config.prompts_per_step
    if count == 1:
        return
    present = len(gpus()) if on_gpus(config.trainer) else 0  # none: a plan for another machine
    if 0 < present < count:
        some = "is 1 GPU" if present == 1 else f"are {present} GPUs"
        yield "trainer.devices", f"there {some} here, not {count}; use {present}, or trainer=cpu"
    if count > prompts:
        text = f"{count} devices share whole groups, and a step has {prompts}; use at most {prompts}"
        yield "trainer.devices", f"{text}, or more prompts_per_step"


def _folders(config: RunConfig) -> Iterator[tuple[str, str]]:
    for key, folder in (("output_dir", config.output_dir), ("sweep", config.sweep), ("run_dir", config.run_dir)):
        if folder is None:
            continue
        place = Path(folder).expanduser().absolute()
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            yield key, f"cannot write to {folder}: {place} is a file; choose another folder"
        elif not os.access(place, os.W_OK | os.X_OK):
            yield key, f"cannot write to {folder}: no permission in {place}; choose another folder"
    if config.resume not in ("never", "auto") and not Path(config.resume).exists():
        yield "resume", f"there is no run or checkpoint {config.resume}; use never, auto or an existing folder"
