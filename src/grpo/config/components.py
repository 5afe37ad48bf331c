"""A mapping with `_target_` → an instance of that class: the package's parts and a user's own, one way for both.

A pydantic dataclass types its own numbers. Any other class or function is called with the numbers as keywords; a
function becomes a `partial`, so a reward can be a plain `def`. A parameter may be a component itself
(`of: {_target_: ...}`).
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from grpo.config import sentences
from grpo.errors import Mistake, UserError


def locate(path: Any) -> Callable[..., Any]:
    """The class or function called `path` (grpo.algorithm.surrogate.Clip); ValueError with a sentence if none."""
    if not isinstance(path, str) or "." not in path:
        raise ValueError(f"must be an importable path such as my_package.my_module.MyClass, not {path}")
    module_name, _, name = path.rpartition(".")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"cannot import {module_name} ({error}); is its folder on PYTHONPATH?") from error
    except Exception as error:  # a mistake inside of it
        raise ValueError(f"cannot import {module_name}: it raised {type(error).__name__}: {error}") from error
    if not callable(getattr(module, name, None)):
        names = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module_name]
        raise ValueError(f"{module_name} has no {name}{sentences.meant(name, names)}")
    return getattr(module, name)


def word(target: Callable[..., Any]) -> str:
    """What a component is called in a sentence: clip for Clip."""
    return sentences.snake(getattr(target, "__name__", str(target)))


def parameters(target: Callable[..., Any]) -> list[str] | None:
    """Names that a component takes; None for a class that takes any. A function's **columns are the data's."""
    if dataclasses.is_dataclass(target):
        return [f.name for f in dataclasses.fields(target) if f.init]
    if hasattr(target, "model_fields"):
        return list(target.model_fields)  # type: ignore[attr-defined]
    known = inspect.signature(target).parameters.values()
    if inspect.isclass(target) and any(p.kind is p.VAR_KEYWORD for p in known):
        return None
    return [p.name for p in known if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def build(node: Any, key: str) -> tuple[Any, list[Mistake]]:
    """The instance, or None and what is wrong with the node at `key`."""
    if not isinstance(node, Mapping) or "_target_" not in node:
        return None, [Mistake(key, f"must be the name of an option or a mapping with _target_, not {node}")]
    if node["_target_"] == "???":
        return None, [Mistake(f"{key}._target_", f"is missing; say {key}._target_=my_module.my_function")]
    try:
        target = locate(node["_target_"])
    except ValueError as error:
        return None, [Mistake(f"{key}._target_", str(error))]
    numbers = {str(k): v for k, v in node.items() if k != "_target_"}
    missing = [Mistake(f"{key}.{k}", f"is missing; say {key}.{k}=...") for k, v in numbers.items() if v == "???"]
    names = parameters(target)
    unknown = [] if names is None else [k for k in numbers if k not in names]
    mistakes = [Mistake(f"{key}.{k}", sentences.has_not(word(target), names or [], k)) for k in unknown]
    mistakes += missing
    if found := _build_inner(numbers, key):
        return None, mistakes + found
    if not inspect.isclass(target):
        function = partial(target, **numbers) if numbers else target
        return (None if mistakes else function), mistakes
    numbers = {k: v for k, v in numbers.items() if k not in unknown and v != "???"}
    try:
        instance = target(**numbers)
    except ValidationError as error:
        skip = {m.key for m in mistakes}
        for detail in error.errors():
            at = ".".join([key, *map(str, detail["loc"])])
            if at not in skip:
                mistakes.append(Mistake(at, sentences.of_type_error(detail, at)))
        return None, list(dict.fromkeys(mistakes))
    except (TypeError, ValueError, UserError) as error:
        return None, [*mistakes, Mistake(key, f"{word(target)} says: {error}")]
    mistakes += [Mistake(f"{key}.{k}", text) for k, v in numbers.items() if (text := _bent(v, getattr(instance, k, v)))]
    return (None if mistakes else instance), mistakes


def _build_inner(numbers: dict[str, Any], key: str) -> list[Mistake]:
    """Exchanges the components among the numbers for instances; what is wrong with them."""
    mistakes: list[Mistake] = []
    for name, value in numbers.items():
        if isinstance(value, Mapping) and "_target_" in value:
            numbers[name], found = build(value, f"{key}.{name}")
            mistakes += found
    return mistakes


def _bent(given: Any, kept: Any) -> str | None:
    """Pydantic reads true as 1.0 and 10.0 as 10; nobody who wrote that meant it."""
    if isinstance(given, bool) and isinstance(kept, int | float) and not isinstance(kept, bool):
        return f"must be a number, not {sentences.shown(given)}"
    if isinstance(given, float) and isinstance(kept, int):
        return f"must be a whole number, not {given}; write {kept}"
    return None
