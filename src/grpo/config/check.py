"""Plain YAML → `RunConfig`, or every mistake at once, in about half a second and before anything heavy is imported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from grpo.config import components, crosscheck, keys, naming, overrides, sentences
from grpo.config.compose import MISSING, Composer
from grpo.config.schema import COMPONENTS, Node, RunConfig
from grpo.config.settle import settle
from grpo.errors import ConfigError, Mistake

Resolved = dict[str, Any]
UNSAID = {
    "model.path": "say which model: model.path=FOLDER, or a hub id such as model.path=Qwen/Qwen2.5-0.5B-Instruct",
}


def load(arguments: Sequence[str], composer: Composer | None = None) -> tuple[RunConfig, Resolved]:
    """The command line's configuration: typed, and as the plain dict that is saved and hashed."""
    composer = composer or Composer()
    words = overrides.read(arguments, composer)
    try:
        plain = composer.compose(words.all)
    except ConfigError as error:
        raise ConfigError([*words.mistakes, *error.mistakes]) from error
    algorithm = [text for text in words.hydra_choices if text.startswith("+algo=")]
    plain["name"] = naming.effective_name(plain, composer.compose(algorithm), composer.compose(words.hydra_choices))
    plain["overrides"] = list(arguments)
    return check(plain, words.given, words.mistakes)


def read(path: str | Path) -> tuple[RunConfig, Resolved]:
    """A saved configuration (config.yaml of a run)."""
    from omegaconf import OmegaConf  # PyYAML reads 1e-6 as text

    plain = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    if not isinstance(plain, dict):
        raise ConfigError([Mistake(str(path), "is no configuration")])
    return check({str(k): v for k, v in plain.items()})


def check(
    plain: Mapping[str, Any], given: Set[str] = frozenset(), known: Sequence[Mistake] = ()
) -> tuple[RunConfig, Resolved]:
    """`given`: keys on the command line; `known`: mistakes found before. ConfigError lists all of them."""
    plain = deepcopy(dict(plain))
    mistakes = [*known, *_unsaid(plain)]
    mistakes += settle(plain, given)
    parts, found = _build(plain)
    mistakes += found
    try:
        config = RunConfig.model_validate(parts)
    except ValidationError as error:
        mistakes += [_mistake(detail, set(plain)) for detail in error.errors()]
        raise ConfigError(_worth_telling(mistakes, given)) from error
    if mistakes:
        raise ConfigError(_worth_telling(mistakes, given))
    if found := crosscheck.mistakes(config, given):
        raise ConfigError(found)
    return config, resolved(config, plain)


def _unsaid(node: dict[str, Any], prefix: str = "") -> list[Mistake]:
    """Values that a file left to the user (???) and nobody gave; they become null. Components look for their own."""
    found = []
    for name, value in node.items():
        if isinstance(value, dict) and "_target_" not in value:
            found += _unsaid(value, f"{prefix}{name}.")
        elif value == MISSING:
            key, node[name] = f"{prefix}{name}", None
            found.append(Mistake(key, UNSAID.get(key, f"is missing; say {key}=...")))
    return found


def _build(plain: dict[str, Any]) -> tuple[dict[str, Any], list[Mistake]]:
    """The dict with its component nodes exchanged for instances."""
    parts, mistakes = dict(plain), []
    for name in COMPONENTS:
        if name in parts:
            parts[name], found = components.build(parts[name], name)
            mistakes += found
    reward = parts.get("reward")
    if isinstance(reward, Mapping) and isinstance(reward.get("functions"), Mapping):
        built, weights = {}, {}
        for name, node in reward["functions"].items():
            built[name], weights[name], found = _reward(node, f"reward.functions.{name}")
            mistakes += found
        parts["reward"] = {**reward, "functions": built, "weights": weights}
    return parts, mistakes


def _reward(node: Any, key: str) -> tuple[Any, Any, list[Mistake]]:
    """A reward function and its weight; a plain function has no parameter of that name."""
    if not isinstance(node, Mapping):
        return None, 1.0, components.build(node, key)[1]
    weight, takes = node.get("weight", 1.0), True
    try:
        target = components.locate(node.get("_target_"))
        takes = "weight" in (components.parameters(target) or ())
    except ValueError:
        pass  # build says so
    function, mistakes = components.build({k: v for k, v in node.items() if takes or k != "weight"}, key)
    return function, weight, mistakes


def _mistake(detail: Any, top: Set[str]) -> Mistake:
    path = [str(part) for part in detail["loc"]]
    key = ".".join(path)
    if path[:2] == ["reward", "weights"]:
        key = f"reward.functions.{path[2]}.weight" if len(path) > 2 else "reward.functions"
    if detail["type"] == "extra_forbidden":
        return Mistake(key, keys.mistake_in(path, {}, {}, "") or "is no key to write by hand")
    return Mistake(key, sentences.of_type_error(detail, key))


def _worth_telling(mistakes: Sequence[Mistake], given: Set[str]) -> list[Mistake]:
    """One per key; and what model.lr=abc does to optimizer.lr=${model.lr} is no second mistake."""
    typed = {mistake.sentence for mistake in mistakes if mistake.key in given}
    kept: dict[str, Mistake] = {}
    for mistake in mistakes:
        if mistake.key in given or mistake.sentence not in typed:
            kept.setdefault(mistake.key, mistake)
    return list(kept.values())


def resolved(config: RunConfig, plain: Mapping[str, Any]) -> Resolved:
    """The configuration as plain data with every default written out; `check` reads it back to the same RunConfig."""
    return {name: _plain(getattr(config, name), plain.get(name)) for name in RunConfig.model_fields}


def _plain(value: Any, node: Any) -> Any:
    node = node if isinstance(node, Mapping) else {}
    if isinstance(value, Node):
        names = [n for n in type(value).model_fields if n != "weights"]
        return {n: _plain(getattr(value, n), node.get(n)) for n in names}
    if isinstance(value, Mapping):
        return {k: _plain(v, node.get(k)) for k, v in value.items()}
    if "_target_" in node:
        fields: dict[str, Any] = {}
        if dataclasses.is_dataclass(value):
            fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        elif isinstance(value, BaseModel):
            fields = {name: getattr(value, name) for name in type(value).model_fields}
        return deepcopy({**node, **{k: _plain(v, node.get(k)) for k, v in fields.items()}})
    return _listed(value)


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple | list) else value
