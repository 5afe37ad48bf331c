"""Which keys make two configurations different experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

_ABSENT = object()


def differences(
    there: Mapping[str, Any], here: Mapping[str, Any], hasher: Callable[[dict[str, Any]], str]
) -> list[str]:
    """One half sentence per key that differs and counts: "group_size is 8 there and 16 here".

    Which keys count is the hash's knowledge: a key counts if putting the other's value changes the hash. The seed
    counts always, the hash leaves it out.
    """
    old, new = flat(there), flat(here)
    if hasher(dict(there)) == hasher(dict(here)) and old.get("seed") == new.get("seed"):
        return []
    changed = [key for key in {**new, **old} if _unequal(old.get(key, _ABSENT), new.get(key, _ABSENT))]
    base = hasher(dict(here))
    counting = [key for key in changed if key == "seed" or hasher(_with(here, key, old.get(key, _ABSENT))) != base]
    return [_phrase(key, old.get(key, _ABSENT), new.get(key, _ABSENT)) for key in counting or changed]


def _unequal(one: Any, other: Any) -> bool:
    one, other = (list(x) if isinstance(x, tuple) else x for x in (one, other))
    return one != other or isinstance(one, bool) != isinstance(other, bool)  # True == 1


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} → {"a.b": 1}; an empty mapping stays a value."""
    result: dict[str, Any] = {}
    for key, content in value.items():
        nested = isinstance(content, Mapping) and content
        result |= flat(content, f"{prefix}{key}.") if nested else {f"{prefix}{key}": content}
    return result


def _with(value: Mapping[str, Any], key: str, content: Any) -> dict[str, Any]:
    """A copy with one dotted key set, or taken out."""
    result = deepcopy(dict(value))
    *parents, last = key.split(".")
    node = result
    for parent in parents:
        if not isinstance(node.get(parent), dict):
            node[parent] = {}
        node = node[parent]
    if content is _ABSENT:
        node.pop(last, None)
    else:
        node[last] = content
    return result


def _phrase(key: str, old: Any, new: Any) -> str:
    return f"{key} is {_text(old)} there and {_text(new)} here"


def _text(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    return "null" if value is None else str(value)
