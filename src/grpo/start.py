"""The start table: what is about to run, in words. Pure text from a configuration and the facts handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo import __version__
from grpo.config.crosscheck import warnings
from grpo.config.sentences import counted
from grpo.pages import Page, page

if TYPE_CHECKING:
    from grpo.config.schema import RunConfig
    from grpo.config.sizes import Sizes

COLUMN = 12


@dataclass(frozen=True)
class Facts:
    """What the configuration cannot know. Leave out what is not known; its words are then left out too."""

    folder: str = ""
    parameters: int | None = None
    trainable: int | None = None  # where an adapter is trained, its parameters; they are counted in parameters too
    dtype: str = ""
    device: str = ""  # cpu, cuda:0
    devices: int = 1
    backend: str = ""  # what carries tensors between devices: gloo, cpu:gloo,cuda:nccl
    whole: bool = False  # the objective looks at the whole update, which no two devices can share
    threads: int | None = None
    reference: str = "none"  # none · a copy of the policy · the base, adapter off
    train_questions: int | None = None
    validation_questions: int | None = None
    test_questions: int | None = None
    data_notes: Sequence[str] = ()  # dropped prompts, splits taken out of train, ...
    first_prompt: str = ""
    first_prompt_ids: Sequence[int] = ()
    restored: str = ""  # what resume found
    logger: str = ""  # W&B offline (no key): wandb sync ...
    memory: str = ""  # planned 0.1 GB
    whole_logits: str = ""  # why [tokens × vocabulary] must be held at once


def table(config: RunConfig, sizes: Sizes, objective: Any, facts: Facts) -> list[str]:
    """Lines of the start table. `objective` has describe() and inert(updates_per_step)."""
    about = page(config.algorithm)
    rows: list[tuple[str, str]] = [("objective", objective.describe().replace(" -> ", " → "))]
    rows += [("differs", about.differs)] if about.differs else []
    rows += [("inert", text) for text in objective.inert(sizes.updates_per_step)]
    rows += [("warning", text) for text in [*objective.unsafe, *warnings(config)]]
    rows += [
        ("sizes", sizes_line(sizes)),
        ("length", length_line(config, sizes)),
        ("model", model_line(config, facts)),
        *(("devices", line) for line in device_lines(facts)),
        ("data", data_line(config, facts)),
        *(("data", note) for note in facts.data_notes),
        ("prompt", prompt_line(facts)),
        ("memory", facts.memory),
        ("memory", whole_logits_line(facts.whole_logits)),
        ("output", joined([facts.logger, facts.restored])),
    ]
    return [header(config, about, facts), "", *aligned(rows)]


def aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Two columns; a repeated first word is written once, an empty line is left out."""
    lines, before = [], ""
    for word, text in rows:
        if text:
            lines.append(f"  {'' if word == before else word:<{COLUMN - 2}}  {text}")
            before = word
    return lines


def joined(parts: Sequence[str | None]) -> str:
    """The parts that say something, with dots between."""
    return " · ".join(part for part in parts if part)


def header(config: RunConfig, about: Page, facts: Facts) -> str:
    """grpo 0.1.0 · dapo (published, arXiv:2503.14476) · runs/dapo/3f9c21ab-s0/1"""
    source = ", ".join(part for part in (config.source, about.paper) if part)
    return joined([f"grpo {__version__}", f"{config.name} ({source})", facts.folder])


def sizes_line(sizes: Sizes) -> str:
    """Prompts, completions, updates and passes of one step."""
    updates = counted(sizes.updates_per_step, "update")
    if sizes.updates_per_step > 1:
        updates += (
            f" ({counted(sizes.epochs, 'epoch')} × {counted(sizes.minibatches, 'minibatch').replace('hs', 'hes')}"
        )
        updates += f", {sizes.completions_per_update} completions each)"
    return joined(
        [
            f"{counted(sizes.prompts_per_step, 'prompt')} × {sizes.group_size} completions "
            f"= {sizes.completions_per_step:,} per step",
            updates,
            f"≤ {sizes.max_completion_tokens:,} new tokens",
            f"{counted(sizes.forwards, 'forward')}, {counted(sizes.backwards, 'backward')} per completion",
        ]
    )


def length_line(config: RunConfig, sizes: Sizes) -> str:
    """When the run ends."""
    passes = None if sizes.passes is None else f"{sizes.passes:.2g} passes over the data"
    tokens = sizes.generated_tokens
    return joined(
        [
            counted(sizes.steps, "step") if sizes.steps is not None else None,
            passes,
            f"at most {tokens:,} generated tokens" if tokens is not None else None,
            f"seed {config.seed}",
        ]
    )


def model_line(config: RunConfig, facts: Facts) -> str:
    """The policy, where it lives, what samples from it, and the reference."""
    weight = None if facts.parameters is None else _millions(facts.parameters)
    if weight and facts.trainable is not None:
        weight = f"{_millions(facts.trainable)} of {weight} trained, LoRA r = {config.model.lora.r}"
    inside = ", ".join(part for part in (weight, facts.dtype) if part)
    name = config.model.kind if config.model.kind != "hf" else str(config.model.path)
    place = f" on {facts.device}" if facts.device else ""
    place += f", {counted(facts.threads, 'thread')}" if facts.threads else ""
    place += " each" if facts.devices > 1 and facts.threads else ""
    lag = f" ({counted(config.rollout.lag, 'update')} behind)" if config.rollout.lag else ""
    return joined(
        [
            f"{name}{f' ({inside})' if inside else ''}{place}",
            f"lr {config.optimizer.lr:g} {config.schedule.kind}",
            f"rollout {config.rollout.kind}{lag}{_perturbed(config)}",
            f"reference {facts.reference}",
        ]
    )


def device_lines(facts: Facts) -> list[str]:
    """How several devices share a run; nothing for one."""
    if facts.devices == 1:
        return []
    shares = "whole groups are sampled, completions trained in shares" if not facts.whole else ""
    lines = [joined([f"{facts.devices} × {facts.device} ({facts.backend})", shares, "rewards on the first"])]
    if facts.whole:
        lines.append("groups are sampled in shares; this objective looks at the whole update, so one device trains")
    return lines


def _perturbed(config: RunConfig) -> str:
    """ ", perturbed: temperature ×1.2, weights in 7 mantissa bits (a copy of the policy)"."""
    perturb, found = config.rollout.perturb, []
    if perturb.temperature != 1.0:
        found.append(f"temperature ×{perturb.temperature:g}")
    if perturb.noise:
        found.append(f"weight noise {100 * perturb.noise:g} %")
    if perturb.bits is not None:
        found.append(f"weights in {counted(perturb.bits, 'mantissa bit')}")
    copied = " (a copy of the policy)" if perturb.weights else ""
    return f", perturbed: {', '.join(found)}{copied}" if found else ""


def _millions(number: int) -> str:
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.2f} M"


def whole_logits_line(reason: str) -> str:
    """Said only where it is so."""
    words = "logits whole, tokens × vocabulary at once and not in chunks"
    return reason and f"{words}: {reason}; lower tokens_per_microbatch when memory runs out"


def data_line(config: RunConfig, facts: Facts) -> str:
    """The task and its splits."""
    sizes = (facts.train_questions, facts.validation_questions, facts.test_questions)
    named = zip(sizes, ("train", "validation", "test"), strict=True)
    splits = " / ".join(f"{size:,} {split}" for size, split in named if size is not None)
    name = config.choices.get("task") or type(config.task).__name__
    return f"{name}{f': {splits} problems, disjoint' if splits else ''}"


def prompt_line(facts: Facts) -> str:
    """The first prompt as the policy sees it, beginning and end: is there one BOS, is there the assistant's header?"""
    if not facts.first_prompt:
        return ""
    text, ids = facts.first_prompt, [str(i) for i in facts.first_prompt_ids]
    if len(text) > 90:
        text = f"{text[:44]} … {text[-44:]}"
    if len(ids) > 12:
        ids = [*ids[:6], "…", *ids[-5:]]
    quoted = '"' + repr(f"'{text}")[2:-1].replace("\\'", "'") + '"'  # repr shows line breaks; the quotes are ours
    return joined([quoted, f"{counted(len(facts.first_prompt_ids), 'token')}: {' '.join(ids)}" if ids else None])
