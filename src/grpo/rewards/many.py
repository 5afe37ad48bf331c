"""Questions with many right answers: the answer is worked out, not compared with a column.

`answer` gives the normal form of an expression, so evaluations count *distinct* right answers (`<split>/distinct@<k>`),
and in training `rewards/<name>/distinct_right` is their mean number per group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.rewards.exact import text_of
from grpo.rewards.expression import Expression, Place, find_expression

Use = Literal["all", "some"]
"""all: each number given exactly once; some: each at most once."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Countdown:
    """r = 1 if the expression makes the target from the numbers given, `valid` if it only uses them rightly, else 0.

    Columns: `numbers` (a list) and `target`. Exact fractions: 8/3·3 is 8. A sign before the first number, powers and
    joined digits are not allowed.
    """

    extract: Place = "boxed"
    """Where the expression is read: boxed | last_expression | boxed_or_last_expression."""
    use: Use = "all"
    """all: each number exactly once (the usual form of the task for language models); some: at most once."""
    valid: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Paid for an expression of the right numbers with another value, 0–1; 0 for nothing."""

    many_answers: ClassVar[bool] = True

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        numbers: Sequence[Sequence[int]],
        target: Sequence[int],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; numbers, target: [B]; returns [B]."""
        found = [find_expression(text_of(c), self.extract) for c in completions]
        scores = [self._score(*row) for row in zip(found, numbers, target, strict=True)]
        _count_distinct(prompts, found, scores, log_metric)
        return list(scores)

    def _score(self, found: Expression | None, numbers: Sequence[int], target: int) -> float:
        if found is None:
            return 0.0
        used, given = Counter(found.numbers), Counter(int(n) for n in numbers)
        if not (used == given if self.use == "all" else used <= given):
            return 0.0
        return 1.0 if found.value == target else self.valid

    def answer(self, text: str) -> str | None:
        """The expression's normal form: 3+5·2 and (2·5)+3 are one answer."""
        return _form(text, self.extract)


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Pairs:
    """r = 1 if the answer is a sum of two whole numbers, 0 or more, that comes to the column `target`; else 0."""

    extract: Place = "boxed"
    """Where the sum is read: boxed | last_expression | boxed_or_last_expression."""

    many_answers: ClassVar[bool] = True

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        target: Sequence[int],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; target: [B]; returns [B]."""
        found = [find_expression(text_of(c), self.extract) for c in completions]
        scores = [float(_is_pair(f, t)) for f, t in zip(found, target, strict=True)]
        _count_distinct(prompts, found, scores, log_metric)
        return list(scores)

    def answer(self, text: str) -> str | None:
        """The pair, smaller number first: 7+5 and 5+7 are one answer."""
        return _form(text, self.extract)


def _is_pair(found: Expression | None, total: int) -> bool:
    """A sum of two numbers, by its normal form (9−2 and 3·4 are none), that comes to `total`."""
    return found is not None and found.value == total and len(found.numbers) == 2 and "+" in found.form


def _form(text: str, place: Place) -> str | None:
    found = find_expression(text, place)
    return None if found is None else found.form


def _count_distinct(
    prompts: Sequence[Any],
    found: Sequence[Expression | None],
    scores: Sequence[float],
    log_metric: Callable[[str, float], None] | None,
) -> None:
    """distinct_right: mean over the questions of the batch of the number of different right answers."""
    if log_metric is None or not prompts:
        return
    right: dict[str, set[str]] = {}
    for prompt, expression, score in zip(prompts, found, scores, strict=True):
        forms = right.setdefault(repr(prompt), set())
        if expression is not None and score >= 1.0:
            forms.add(expression.form)
    log_metric("distinct_right", fmean(len(forms) for forms in right.values()))
