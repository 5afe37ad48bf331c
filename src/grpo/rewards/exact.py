"""1 for the right answer, 0 for a wrong one or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from grpo.rewards.extract import number, same
from grpo.rewards.math_extract import one_answer
from grpo.tasks.base import Extract


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Exact:
    """r = 1 if the extracted answer equals the column `answer` exactly, else 0; None where the column has none."""

    extract: Extract = "boxed"
    """boxed: the last closed box, no row of guesses; hash: after the last ####; last_number; boxed_or_…: either."""

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], answer: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; answer: [B] right answers; returns [B]."""
        return [self._score(text_of(c), gold) for c, gold in zip(completions, answer, strict=True)]

    def _score(self, text: str, gold: Any) -> float | None:
        if gold is None:
            return None
        found = one_answer(text, self.extract)
        return float(found is not None and same(found, str(gold)))

    def answer(self, text: str) -> str | None:
        """The answer a completion gives, equal for equal answers: what a majority vote counts."""
        found = one_answer(text, self.extract)
        value = None if found is None else number(found)
        return found if value is None else str(value)


def text_of(completion: str | Sequence[dict[str, Any]]) -> str:
    """The completion's text: itself, or the content of its last message."""
    return completion if isinstance(completion, str) else str(completion[-1]["content"]) if completion else ""
