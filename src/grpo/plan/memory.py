"""Memory of one step on one device, in bytes: what stays, and the larger of what a rollout and an update add to it.

    kept     weights + gradients + 2 moments + reference + lagged copies + buckets of several devices
    rollout  the engine: KV cache of the rows decoded together and their logits, or vLLM's share of the card
    update   what the layers keep for the backward pass of one micro-batch + one chunk of log-probs over the vocabulary
    peak     kept + max(rollout, update)

Every prompt and completion counts at its limit (max_prompt_tokens, max_completion_tokens). GB are 10⁹ bytes.
With trainer.devices > 1 the lines are those of each device, which has a share of the completions and all of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from grpo.algorithm.form import build as build_objective
from grpo.models.load import pick_dtype
from grpo.models.lora import counts
from grpo.plan import architecture, engines
from grpo.plan.engines import Parts, Setting
from grpo.plan.update import update
from grpo.ranks.place import wanted
from grpo.training.assemble import prompt_limit


@dataclass(frozen=True)
class Plan:
    """Bytes by part, and in words what each is made of."""

    title: str
    kept: Parts
    rollout: Parts
    update: Parts

    @property
    def peak(self) -> int:
        """The most that is allocated at once."""
        stays, sampling, training = (
            sum(b for b, _ in part.values()) for part in (self.kept, self.rollout, self.update)
        )
        # The gradients of an update's only micro-batch appear while its activations go.
        return stays + max(sampling, training)

    def line(self) -> str:
        """planned 1.9 GB = weights 0.54 + …, for the start table."""
        parts = {**self.kept, "rollout": (self._sum(self.rollout), ""), "update": (self._sum(self.update), "")}
        inside = " · ".join(f"{name} {shown(size)}" for name, (size, _) in parts.items() if size)
        return f"planned {shown(self.peak)}: {inside} (the larger of rollout and update counts)"

    def lines(self) -> list[str]:
        """The table of `python -m grpo.plan`."""
        found = [self.title, ""]
        for head, part in (("kept", self.kept), ("rollout", self.rollout), ("update", self.update)):
            if part:
                found.append(f"  {head:<22}{shown(self._sum(part)):>9}")
                found += [f"    {name:<20}{shown(size):>9}   {words}" for name, (size, words) in part.items()]
        both = " + the larger of rollout and update" if self.update else ""
        return [*found, f"  {'peak':<22}{shown(self.peak):>9}   kept{both}"]

    @staticmethod
    def _sum(part: Parts) -> int:
        return sum(size for size, _ in part.values())


def shown(size: float) -> str:
    """140 GB, 1.9 GB, 36 MB."""
    number, unit = (size / 1e9, "GB") if size >= 0.9995e9 else (size / 1e6, "MB")
    return f"{number:.0f} {unit}" if number >= 10 or number == 0 else f"{number:.1f} {unit}"


def on_gpu(accelerator: str) -> bool:
    """Where the run would be; a plan for a GPU needs none."""
    return accelerator == "gpu" or (accelerator == "auto" and torch.cuda.is_available())


def from_count(config: Any, parameters: float, dtype: torch.dtype) -> Plan:
    """What is kept, from a number of parameters alone; all of them are trained."""
    number, name = int(parameters), str(dtype).removeprefix("torch.")
    kept = _kept(config, {dtype: number}, {dtype: number})
    return Plan(f"{number:,} parameters in {name}; KV cache and activations need the model's config.json", kept, {}, {})


def plan(config: Any, settings: Any | None = None) -> Plan:
    """`settings`: transformers' configuration of the model, where it was read already."""
    if settings is None:
        settings = architecture.read(config.model)
    assert settings is not None
    dtype = pick_dtype(config.model.dtype)
    model = architecture.build(settings, config.model, dtype)
    every, trained = _numbers(model, trained=False), _numbers(model, trained=True)
    gpu = on_gpu(config.trainer.accelerator)
    precision = config.trainer.precision
    mixed = precision == "bf16-mixed" or (precision == "auto" and gpu and dtype == torch.float32)
    compute = torch.bfloat16 if mixed else dtype
    title = f"{config.model.kind} · {counts(model)[1]:,} parameters in {str(dtype).removeprefix('torch.')}"
    title += ", bfloat16 autocast" if mixed else ""
    text = settings.get_text_config()
    limit = prompt_limit(config, getattr(text, "max_position_embeddings", None))
    where = Setting(limit=limit, compute=compute, mixed=mixed, gpu=gpu)
    kept = _kept(config, every, trained, changing=trained)
    rollout = engines.transformers(config, text, where)
    if config.rollout.kind == "vllm":
        kept, rollout = engines.with_vllm(config, text, where, model, kept)
    return Plan(
        title=f"{title} · {_place(config, gpu)} · prompts of {limit}, completions of "
        f"{config.max_completion_tokens} tokens",
        kept=kept,
        rollout=rollout,
        update=update(config, settings, model, where),
    )


def _place(config: Any, gpu: bool) -> str:
    """cpu, gpu, or each of 8 gpus: the lines are one device's."""
    count, kind = wanted(config.trainer), "gpu" if gpu else "cpu"
    return kind if count == 1 else f"each of {count} {kind}s"


def _numbers(model: Any, *, trained: bool) -> dict[torch.dtype, int]:
    """Parameters by type, tied ones once."""
    found: dict[torch.dtype, int] = {}
    for parameter in model.parameters():
        if parameter.requires_grad or not trained:
            found[parameter.dtype] = found.get(parameter.dtype, 0) + parameter.numel()
    return found


def _bytes(numbers: dict[torch.dtype, int]) -> int:
    return sum(number * dtype.itemsize for dtype, number in numbers.items())


def _words(numbers: dict[torch.dtype, int]) -> str:
    return " + ".join(f"{number:,} × {dtype.itemsize} bytes" for dtype, number in numbers.items())


def _kept(
    config: Any,
    every: dict[torch.dtype, int],
    trained: dict[torch.dtype, int],
    changing: dict[torch.dtype, int] | None = None,
) -> Parts:
    """Weights, gradients (they stay until the next update begins), AdamW's two moments, reference, lagged copies."""
    kept: Parts = {
        "weights": (_bytes(every), _words(every)),
        "gradients": (_bytes(trained), f"{sum(trained.values()):,} trained parameters"),
        "optimizer": (2 * _bytes(trained), "AdamW: two moments of each"),
    }
    adapter = config.model.lora.r is not None
    if build_objective(config).needs_reference:
        words = "the base with the adapter off: no copy" if adapter else "a copy of the weights"
        kept["reference"] = (0 if adapter else _bytes(every), words)
    if wanted(config.trainer) > 1:
        kept["buckets"] = (_bytes(changing or trained), "DDP's room for another copy of the gradients")
    if lag := config.rollout.lag:
        copies = lag + 2  # the engine's own, and those of versions −lag … 0
        kept["lagged weights"] = (copies * _bytes(changing or trained), f"{copies} copies of what is trained")
    return kept
