"""What a reward function says about right answers: which of them it cannot judge by.

It may offer `gold_problem(answer) -> str | None`, or `gold_problems(answers)`, the same for many at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

GoldJudge = Callable[[Sequence[Any]], Sequence[str | None]]


def gold_judge(function: Any) -> GoldJudge | None:
    """Right answers -> what is wrong with each (None: nothing), all at once where it can; None if it cannot tell."""
    if many := getattr(function, "gold_problems", None):
        return many
    one = getattr(function, "gold_problem", None)
    return None if one is None else lambda answers: [one(answer) for answer in answers]
