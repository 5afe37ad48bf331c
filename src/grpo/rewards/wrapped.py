"""A reward made from another one: `of` is a component itself.

reward.functions.<name>={_target_: grpo.rewards.distort.Distorted, of: {_target_: grpo.rewards.exact.Exact}, ...}
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from grpo.rewards.calling import accepted, discard, per_sample, single


def prompt_key(prompt: Any) -> str:
    """Equal for equal prompts, texts or message lists."""
    return prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Wrapped:
    """What every reward of a reward shares: calling the inner one, and passing on what it says about itself."""

    of: Callable[..., Any]
    """The reward inside: a component with a `_target_` of its own, or a function that is not async."""

    def inner(self, arguments: dict[str, Any]) -> list[float | None]:
        """[B] of the inner reward, given all that the outer one was given."""
        count = len(arguments["completions"])
        values: Any
        if per_sample(self.of):
            values = [self.of(**accepted("of", self.of, single(arguments, i))) for i in range(count)]
        else:
            values = self.of(**accepted("of", self.of, arguments))
        if inspect.isawaitable(values) or (isinstance(values, list) and any(map(inspect.isawaitable, values))):
            for value in values if isinstance(values, list) else [values]:
                discard(value)
            raise TypeError("of is an async reward, which cannot stand inside another one")
        values = list(getattr(values, "tolist", lambda: values)())
        if len(values) != count:
            raise ValueError(f"of returned {len(values)} scores for {count} completions")
        return [None if value is None else float(value) for value in values]

    @property
    def many_answers(self) -> bool:
        """True where a question has many right answers, as the inner reward says."""
        return bool(getattr(self.of, "many_answers", False))

    def answer(self, text: str) -> str | None:
        """The inner reward's reading of an answer; None where it has none."""
        read = getattr(self.of, "answer", None)
        return None if read is None else read(text)

    def metrics(self) -> dict[str, float]:
        """The inner reward's counts since the last call."""
        counts = getattr(self.of, "metrics", None)
        return {} if counts is None else counts()

    def close(self) -> None:
        """Ends the inner reward's processes."""
        end = getattr(self.of, "close", None)
        if end is not None:
            end()
