"""Mistakes of the user, as sentences: what is wrong, where, what to do instead. They never show a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class UserError(Exception):
    """`UserError("key   sentence")`: the entry point prints the text and exits with 1."""

    exit_code = 1


@dataclass(frozen=True)
class Mistake:
    """One mistake in a configuration: the full key and one sentence."""

    key: str
    sentence: str


class ConfigError(UserError):
    """All mistakes of a configuration at once, one line each; exits with 1 and leaves no folder behind."""

    exit_code = 1

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes: Sequence[Mistake] = tuple(dict.fromkeys(mistakes))
        super().__init__(self._text())

    def _text(self) -> str:
        if len(self.mistakes) == 1:
            return f"{self.mistakes[0].key}   {self.mistakes[0].sentence}"
        width = max((len(m.key) for m in self.mistakes), default=0)
        lines = [f"  {m.key:<{width}}   {m.sentence}" for m in self.mistakes]
        return "\n".join([f"{len(self.mistakes)} mistakes in the configuration:", *lines])
