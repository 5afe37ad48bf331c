"""Memory of one step on one device, in bytes: what stays, and the larger of what a rollout and an update add to it.

    kept     weights + gradients + 2 moments + reference + lagged copies + buckets of several devices
    rollout  KV cache of the rows decoded together + their logits
    update   what the layers keep for the backward pass of one micro-batch + its log-probs over the vocabulary
    peak     kept + max(rollout, update)

Every prompt and completion counts at its limit (max_prompt_tokens, max_completion_tokens). GB are 10⁹ bytes.
With trainer.devices > 1 the lines are those of each device, which has a share of the completions and all of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from grpo.algorithm.form import build as build_objective
from grpo.config.sizes import sizes
from grpo.models.load import CHECKPOINTING_FROM, pick_dtype
from grpo.models.lora import counts, is_adapter
from grpo.plan import architecture
from grpo.ranks.place import wanted
from grpo.training.assemble import prompt_limit

CHUNK = 4096  # tokens whose log-probs are taken together, as in training/logprobs.py


@dataclass(frozen=True)
class Plan:
    """Bytes by part, and in words what each is made of."""

    title: str
    kept: dict[str, tuple[int, str]]
    rollout: dict[str, tuple[int, str]]
    update: dict[str, tuple[int, str]]

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
    def _sum(part: dict[str, tuple[int, str]]) -> int:
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
    return Plan(
        title=f"{title} · {_place(config, gpu)} · prompts of {limit}, completions of "
        f"{config.max_completion_tokens} tokens",
        kept=_kept(config, every, trained, changing=trained),
        rollout=_rollout(config, text, limit, compute),
        update=_update(config, settings, model, limit, compute, mixed=mixed, gpu=gpu),
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
) -> dict[str, tuple[int, str]]:
    """Weights, gradients (they stay until the next update begins), AdamW's two moments, reference, lagged copies."""
    kept = {
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


def _rollout(config: Any, text: Any, limit: int, compute: torch.dtype) -> dict[str, tuple[int, str]]:
    """The transformers engine: whole groups up to rollout.max_rows, each prompt prefilled once."""
    most, group = config.rollout.max_rows, config.group_size
    prompts = max(1, min(-(-config.prompts_per_step // wanted(config.trainer)), most // group))
    rows = min(most, prompts * group)
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    tokens = limit + config.max_completion_tokens
    layer = 2 * rows * tokens * heads * width * compute.itemsize
    # A layer's keys grow by concatenation: for a moment the old ones are there too.
    cache = text.num_hidden_layers * layer + layer // 2
    # Logits, log μ in float32, and two float64 tables of the inverse CDF.
    logits = rows * text.vocab_size * (compute.itemsize + 4 + 8 + 8)
    return {
        "KV cache": (cache, f"{text.num_hidden_layers} layers · {rows} completions × {tokens} tokens"),
        "logits": (logits, f"{rows} × {text.vocab_size:,} tokens of the vocabulary"),
    }


def _update(
    config: Any, settings: Any, model: Any, limit: int, compute: torch.dtype, *, mixed: bool, gpu: bool
) -> dict[str, tuple[int, str]]:
    """One micro-batch: as many completions as tokens_per_microbatch lets in, at least one."""
    text = settings.get_text_config()
    width = limit + config.max_completion_tokens
    share = -(-sizes(config).completions_per_update // wanted(config.trainer))
    rows = min(max(1, config.tokens_per_microbatch // width), share)
    traced = architecture.build(settings, config.model, compute) if mixed else model
    layers = architecture.activations(traced, rows, width, config.max_completion_tokens + 1)
    words = f"{rows} × {width} tokens"
    parameters = sum(p.numel() for n, p in model.named_parameters() if not is_adapter(n))
    checkpointing = config.model.gradient_checkpointing
    if checkpointing is True or (checkpointing == "auto" and gpu and parameters >= CHECKPOINTING_FROM):
        depth = text.num_hidden_layers
        layers = layers // depth + depth * rows * width * text.hidden_size * compute.itemsize
        words += ", one layer at a time (gradient checkpointing)"
    found = {"activations": (layers, words)}
    if mixed:
        found["autocast"] = (2 * parameters, "the weights in bfloat16")
    tokens = rows * config.max_completion_tokens
    number = 4 if config.model.fp32_head and compute.itemsize < 4 else compute.itemsize
    wide = max(4, compute.itemsize)  # log-probs are float32 or float64
    # Logits and log-probs of all tokens, and of one chunk the clamped ones, their exponential and the product.
    logits = text.vocab_size * (tokens * (number + wide) + 3 * min(tokens, CHUNK) * wide)
    found["log-probs, entropy"] = (logits, f"{tokens:,} × {text.vocab_size:,} tokens of the vocabulary")
    return found
