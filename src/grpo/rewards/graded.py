"""Graded rewards for answers that are numbers: how nearly right is a wrong answer?"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from grpo.config.nodes import Positive
from grpo.rewards.exact import text_of
from grpo.rewards.extract import number
from grpo.rewards.math_extract import one_answer
from grpo.tasks.base import Extract


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Numeric:
    """Reads the number that a completion answers; None for a gold that is no number (of this kind)."""

    extract: Extract = "boxed"
    """boxed: the last closed box only; last_number; boxed_or_last_number: the last number where no box was opened."""

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], answer: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; answer: [B] right answers; returns [B]."""
        golds = [None if gold is None else number(str(gold)) for gold in answer]
        return [
            None if gold is None else self.graded(self.said(text_of(c)), gold)
            for c, gold in zip(completions, golds, strict=True)
        ]

    def said(self, text: str) -> Fraction | None:
        """The number that the completion answers; None if it answers none."""
        found = one_answer(text, self.extract)
        return None if found is None else number(found)

    def answer(self, text: str) -> str | None:
        """The answer as text, equal for equal numbers: what a majority vote counts."""
        value = self.said(text)
        return None if value is None else str(value)

    def graded(self, said: Fraction | None, gold: Fraction) -> float | None:
        """The reward of a number."""
        raise NotImplementedError


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Digits(Numeric):
    """r = digits that agree / digits of the longer number, compared from the units on; 1 only for the right number

    Whole numbers: 52 for 42 is ½, 142 for 42 is ⅔. Another sign, no number or no whole one is 0; None for a gold that
    is not whole.
    """

    def graded(self, said: Fraction | None, gold: Fraction) -> float | None:
        if gold.denominator != 1:
            return None
        if said is None or said.denominator != 1 or (said < 0) != (gold < 0):
            return 0.0
        ours, theirs = str(abs(said)), str(abs(gold))
        agree = sum(a == b for a, b in zip(reversed(ours), reversed(theirs), strict=False))
        return agree / max(len(ours), len(theirs))


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Distance(Numeric):
    """r = −min(|answer − gold| / scale, worst); −worst where there is no number; 0 only for the right one

    Not a share of anything: the scale is the error that costs 1, and errors beyond scale · worst cost the same.
    """

    scale: Positive = 10.0
    """The error that costs 1, > 0, in units of the answer."""
    worst: Positive = 10.0
    """The most that an answer can cost, > 0."""

    def graded(self, said: Fraction | None, gold: Fraction) -> float | None:
        if said is None:
            return -self.worst
        error = abs(said - gold) / Fraction(self.scale)
        return 0.0 if not error else -(float(error) if error < self.worst else self.worst)
