"""The words of a mistake: what is wrong, and the nearest name that is right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

WHY = {
    ("group_size", "greater_than_equal"): "an advantage compares the completions of one prompt",
}


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    known = {name.lower(): name for name in names}
    turned = [name for name in known if sorted(name) == sorted(word.lower())]  # dpao is dapo, not dpo
    if turned:
        return known[turned[0]]
    if match := get_close_matches(word.lower(), list(known), n=1, cutoff=0.6):
        return known[match[0]]
    pieces = {piece: name for name in reversed(known) for piece in name.split("_") if len(piece) > 3}
    match = get_close_matches(word.lower(), list(pieces), n=1, cutoff=0.75)  # grup is a piece of group_size
    return known[pieces[match[0]]] if match else None


def meant(word: str, names: Iterable[str]) -> str:
    """ "; did you mean high?", or nothing where no name is near."""
    near = nearest(word, names)
    return f"; did you mean {near}?" if near else ""


def counted(number: int, word: str) -> str:
    """1 update, 4 updates, 1,000 updates."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def any_of(names: Sequence[str], last: str = "or") -> str:
    """a, b or c."""
    names = [str(n) for n in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def shown(value: Any) -> str:
    """A value as one writes it on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) and re.fullmatch(r"[-+.\deE]+", value):
        return f'"{value}"'
    return str(value)


def has_not(owner: str, names: Iterable[str], word: str) -> str:
    """clip has low, high, dual_c, delta; did you mean high?"""
    names = list(names)
    if not names:
        return f"{owner} has no keys"
    return f"{owner} has {', '.join(names)}{meant(word, names)}"


def snake(name: str) -> str:
    """SoftGate → soft_gate."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def of_type_error(error: ErrorDetails, key: str) -> str:
    """Pydantic's error as our sentence; unknown keys are the caller's, who knows the valid ones."""
    kind, value, ctx = error["type"], error["input"], error.get("ctx", {})
    text = shown(value)
    bounds = {
        "greater_than_equal": ("at least", "ge"),
        "greater_than": ("greater than", "gt"),
        "less_than_equal": ("at most", "le"),
        "less_than": ("less than", "lt"),
    }
    if kind in bounds:
        words, name = bounds[kind]
        why = WHY.get((key, kind))
        return f"must be {words} {_number(ctx[name])}, not {text}" + (f": {why}" if why else "")
    if kind in ("missing", "missing_argument", "missing_keyword_only_argument") or value == "???":
        return f"is missing; say {key}=..."
    if kind.startswith("int_"):
        whole = isinstance(value, float) and value.is_integer()
        return f"must be a whole number, not {text}" + (f"; write {int(value)}" if whole else "")
    if kind.startswith("float_"):
        return f"must be a number, not {text}"
    if kind == "finite_number":
        return f"must be a finite number, not {text}"
    if kind.startswith("bool_"):
        return f"must be true or false, not {text}"
    if kind == "literal_error":
        names = re.findall(r"'([^']*)'", str(ctx["expected"])) or [str(ctx["expected"])]
        return f"must be {any_of(names)}, not {text}{meant(str(value), names)}"
    if kind == "string_type":
        return f"must be text, not {text}"
    if kind == "value_error":
        return str(ctx["error"])
    if kind in ("model_type", "dataclass_type", "dict_type", "model_attributes_type"):
        return f"is a group of keys, not the single value {text}"
    if kind in ("tuple_type", "list_type"):
        return f"must be a list such as [0.9,0.99], not {text}"
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, not {text}"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
