"""Defaults that give way to what was said: any two of three sizes, one end of a run, one rhythm of evaluation.

A key on the command line always wins over one from a file; two that contradict each other on the command line are a
mistake. Afterwards all three sizes stand in the configuration, so equal runs have equal hashes.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from grpo.config.sentences import any_of
from grpo.errors import Mistake

SIZES = ("prompts_per_step", "group_size", "completions_per_step")


def settle(plain: dict[str, Any], given: Set[str]) -> list[Mistake]:
    """Fill in `plain`, in place; `given` are the keys on the command line."""
    said = {key for key in given if _at(plain, key) is not None}
    return [*_sizes(plain, said), *_end(plain, said), *_rhythm(plain, said)]


def _at(plain: dict[str, Any], key: str) -> Any:
    node: Any = plain
    for part in key.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _count(value: Any) -> int:
    """The value if it is a size at all, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else 0


def _sizes(plain: dict[str, Any], said: Set[str]) -> list[Mistake]:
    prompts, group, completions = (_count(plain.get(name)) for name in SIZES)
    if plain.get("completions_per_step") is None or (said >= set(SIZES[:2]) and "completions_per_step" not in said):
        plain["completions_per_step"] = prompts * group or 1
        return []
    if not prompts * group * completions or prompts * group == completions:
        return []  # wrong types are the schema's to say
    if said >= set(SIZES):
        text = f"{prompts} prompts × {group} completions are {prompts * group} completions, not {completions}"
        return [Mistake("completions_per_step", f"{text}; give any two of {any_of(SIZES, 'and')}")]
    if "prompts_per_step" in said:
        plain["group_size"] = max(2, completions // prompts)
        return [] if completions == prompts * plain["group_size"] else [_unshared(completions, prompts)]
    plain["prompts_per_step"] = max(1, completions // group)
    return [] if completions % group == 0 else [_ungrouped(completions, group)]


def _around(number: int, unit: int) -> str:
    low = number - number % unit
    return any_of([str(n) for n in (low, low + unit) if n >= unit])


def _ungrouped(completions: int, group: int) -> Mistake:
    sizes = [str(n) for n in range(2, completions + 1) if completions % n == 0]
    other = f", or group_size {any_of(sizes)}" if sizes else ""
    text = f"{completions} completions are no whole number of groups of {group} completions"
    return Mistake("completions_per_step", f"{text}; use {_around(completions, group)} completions{other}")


def _unshared(completions: int, prompts: int) -> Mistake:
    sizes = [str(n) for n in range(1, completions // 2 + 1) if completions % n == 0]
    other = f", or prompts_per_step {any_of(sizes)}" if sizes else ""
    text = f"{completions} completions cannot be shared equally by {prompts} prompts"
    return Mistake("completions_per_step", f"{text}; use {_around(completions, prompts)} completions{other}")


def _end(plain: dict[str, Any], said: Set[str]) -> list[Mistake]:
    passes, tokens = _at(plain, "data.passes"), _at(plain, "budget.generated_tokens")
    if passes is not None and plain.get("max_steps") is not None:
        if said >= {"data.passes", "max_steps"}:
            return [Mistake("data.passes", "counts passes over the data, max_steps counts steps: give one of them")]
        if "max_steps" in said:
            plain["data"]["passes"] = None
        else:
            plain["max_steps"] = None
    elif tokens is not None and "budget.generated_tokens" in said and "max_steps" not in said:
        plain["max_steps"] = None
    if plain.get("max_steps") is None and _at(plain, "data.passes") is None and tokens is None:
        return [Mistake("max_steps", "nothing ends this run; give max_steps, data.passes or budget.generated_tokens")]
    return []


def _rhythm(plain: dict[str, Any], said: Set[str]) -> list[Mistake]:
    node = plain.get("eval")
    if not isinstance(node, dict) or node.get("every") is None or node.get("every_tokens") is None:
        return []
    if said >= {"eval.every", "eval.every_tokens"}:
        return [Mistake("eval.every_tokens", "counts tokens between evaluations, eval.every steps: give one of them")]
    node["every_tokens" if "eval.every" in said else "every"] = None
    return []
