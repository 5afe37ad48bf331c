"""Which keys there are: the schema's at every level, and inside a component the parameters of its class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from grpo.config import components, sentences
from grpo.config.schema import COMPONENTS, Node, RunConfig

HIDDEN = {"choices", "overrides", "reward.weights"}  # written by the check, never by hand


def node_class(owner: type[Node], name: str) -> type[Node] | None:
    """The typed node at a field, or None for a value or a component."""
    kind = owner.model_fields[name].annotation
    return kind if isinstance(kind, type) and issubclass(kind, Node) else None


def names_in(owner: type[Node], prefix: str = "") -> list[str]:
    """The keys one may write in a node."""
    return [n for n in owner.model_fields if f"{prefix}{n}" not in HIDDEN]


@cache
def leaves() -> dict[str, str]:
    """Last word → full key, for keys inside a node: minibatches → updates.minibatches, lr → optimizer.lr."""
    found: dict[str, str] = {}
    for name in names_in(RunConfig):
        inner = node_class(RunConfig, name)
        for leaf in names_in(inner, f"{name}.") if inner else []:
            found.setdefault(leaf, f"{name}.{leaf}")
    return found | {
        "lr": "optimizer.lr",
        "learning_rate": "optimizer.lr",
        "beta": "kl.coef",
        "temperature": "sampling.temperature",
        "lora_r": "model.lora.r",
        "lora_alpha": "model.lora.alpha",
        "lora_dropout": "model.lora.dropout",
        "target_modules": "model.lora.target_modules",
    }


def no_such_key(key: str, groups: Mapping[str, list[str]], value: str = "") -> str:
    """There is no such key (or group); did you mean …?"""
    from grpo.config.trl_table import ours

    if key in leaves():
        return f"there is no such key; did you mean {leaves()[key]}?"
    if key in ours():
        return f"there is no such key; TRL's {key} is {ours()[key]} here"
    near = sentences.nearest(key, [*groups, *names_in(RunConfig)])
    if near in groups:
        plus = "" if near in RunConfig.model_fields else "+"
        return f"there is no such group; did you mean {near}?" + (f" ({plus}{near}={value})" if value else "")
    if near is None and (leaf := sentences.nearest(key, leaves())):
        near = leaves()[leaf]
    return f"there is no such key; did you mean {near}?" if near else "there is no such key; --help lists them"


def mistake_in(path: list[str], tree: Mapping[str, Any], groups: Mapping[str, list[str]], value: Any) -> str | None:
    """What is wrong with a dotted key, given the configuration chosen so far; None if it exists."""
    owner: type[Node] = RunConfig
    for depth, part in enumerate(path):
        prefix = ".".join(path[:depth])
        names = names_in(owner, f"{prefix}." if prefix else "")
        if part not in names:
            if depth == 0:
                return no_such_key(part, groups, str(value))
            return sentences.has_not(prefix, names, part)
        rest = path[depth + 1 :]
        if depth == 0 and part in COMPONENTS:
            return _in_component(tree.get(part), rest)
        if (prefix, part) == ("reward", "functions"):
            return _in_functions(tree.get("reward", {}).get("functions", {}), rest, value)
        inner = node_class(owner, part)
        if inner is None:
            return f"{'.'.join(path[: depth + 1])} is a single value and has no keys" if rest else None
        owner = inner
    return None


def _in_component(node: Any, rest: list[str]) -> str | None:
    if not rest or rest[0] == "_target_" or not isinstance(node, Mapping):
        return None
    try:
        target = components.locate(node.get("_target_"))
    except ValueError:
        return None  # the check says so, with the key of the _target_
    names: Iterable[str] | None = components.parameters(target)
    if names is None or rest[0] in names:
        return _in_component(node.get(rest[0]), rest[1:])
    return sentences.has_not(components.word(target), names, rest[0])


def _in_functions(functions: Mapping[str, Any], rest: list[str], value: Any) -> str | None:
    if not rest or (len(rest) == 1 and isinstance(value, Mapping)):
        return None
    if rest[0] not in functions:
        hint = (
            f"; to add one: +reward.functions.{rest[0]}={{_target_: my_module.my_function}}" if len(rest) == 1 else ""
        )
        return sentences.has_not("reward.functions", functions, rest[0]) + hint
    return None if rest[1:] == ["weight"] else _in_component(functions[rest[0]], rest[1:])
