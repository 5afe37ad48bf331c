"""Overrides as words: which key a word sets, and what a word on the command line does to a list of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from grpo.config.overrides import word

PLACES = ("sweep", "arm", "run_dir")
"""Keys by which a sweep places its runs."""


def key_of(text: str) -> str:
    """The key of an override: algo for +algo=dapo and algo/chapter=dapo, surrogate.high for ++surrogate.high=0.3."""
    key = text.lstrip("+~").split("=", 1)[0].split("@", 1)[0].strip()
    return key.split("/", 1)[0]


def value_of(text: str) -> str:
    """What stands behind the first equals sign."""
    return text.split("=", 1)[1] if "=" in text else ""


def without(words: Iterable[str], keys: Iterable[str]) -> tuple[str, ...]:
    """The words that set none of these keys."""
    keys = set(keys)
    return tuple(text for text in words if key_of(text) not in keys)


def merged(common: Sequence[str], own: Sequence[str]) -> tuple[str, ...]:
    """`common`, then `own`, whose keys beat those of `common`."""
    return (*without(common, map(key_of, own)), *own)


def assigned(key: str, value: Any) -> str:
    """key=value for a plain value."""
    from grpo.config.sentences import shown

    if isinstance(value, list | tuple):
        return f"{key}=[{','.join(map(shown, value))}]"
    if isinstance(value, str):
        return word(key, value)
    return f"{key}={shown(value)}"
