r"""1 for a right mathematical answer, 0 for a wrong one or none, None where the right answer cannot be read.

    completion -> math_extract: the last box (or ####, or the last number), never the prompt
               -> math_shape:   one expression, or a list, an interval, a ratio
               -> math_plain:   numbers exactly, words, lists, intervals, ratios, units: here, in microseconds
               -> math_worker:  what is left is parsed by math-verify and compared by sympy in processes that can be
                                killed (workers.py); a junk power tower costs `seconds` and is worth 0

sympy and math-verify are never imported in the trainer. What counts as equal is written in math_plain.py,
math_number.py and math_units.py.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.rewards.exact import text_of
from grpo.rewards.extract import last_hash
from grpo.rewards.math_extract import find_answers, last_row, unclosed
from grpo.rewards.math_plain import LONGEST, problem, same
from grpo.rewards.math_shape import Node, key, parse, together
from grpo.rewards.math_text import tidy
from grpo.rewards.workers import Outcome, Workers
from grpo.tasks.base import Extract, answer_text

KEPT = 100_000
"""Right answers whose check is remembered."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Math:
    """r = 1 if the extracted answer equals the column `answer` as mathematics, else 0; None without a readable one."""

    extract: Extract = "boxed_or_hash"
    """boxed: the last row of boxes; hash: after the last ####; last_number; boxed_or_…: the other without a box."""
    workers: Annotated[int, Field(strict=True, ge=1)] = 2
    """Processes that parse LaTeX, ≥ 1; started when the first expression needs them."""
    seconds: Annotated[float, Field(gt=0.0)] = 3.0
    """Time limit of one comparison in seconds, > 0; then its process is killed and the answer is worth 0."""
    memory_mb: Annotated[int, Field(strict=True, ge=512)] = 2048
    """Address space of each process in MiB, ≥ 512."""

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], answer: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; answer: [B] right answers; returns [B]."""
        golds = [None if gold is None or gold != gold else gold_text(gold) for gold in answer]  # NaN: a gap in a table
        self._check([gold for gold in golds if gold is not None])
        texts = [text_of(completion) for completion in completions]
        pairs = [(find_answers(text, self.extract), gold) for text, gold in zip(texts, golds, strict=True)]
        asked = dict.fromkeys((parts, gold) for parts, gold in pairs if gold is not None and parts)
        verdicts = self._judge([(parts, gold) for parts, gold in asked if not self._problems[gold]])
        for text, (parts, gold) in zip(texts, pairs, strict=True):
            if not parts and gold is not None and not self._problems[gold]:
                self._count("unparsed" if unclosed(text, self.extract) else "no_answer")
        return [self._score(gold, verdicts.get((parts, gold or ""), False)) for parts, gold in pairs]

    def gold_problem(self, answer: Any) -> str | None:
        """What is wrong with a right answer, in words; None if answers can be compared with it."""
        return self.gold_problems([answer])[0]

    def gold_problems(self, answers: Sequence[Any]) -> list[str | None]:
        """The same for many, to check a data set before training: the processes share the work."""
        golds = [gold_text(answer) for answer in answers]
        self._check(golds)
        return [self._problems[gold] or None for gold in golds]

    def answer(self, text: str) -> str | None:
        """The answer a completion gives, equal for equal answers: what a majority vote counts."""
        parts = find_answers(text, self.extract)
        return key(together(parts)) if parts and _short(parts) else None

    def metrics(self) -> dict[str, float]:
        """Counts since the last call.

        no_answer: completions without one; unparsed: answers that nobody can read, or whose box never closes; timeouts,
        errors: comparisons that were killed, or raised or crashed (worth 0); gold_unparsed: samples left out; parsed:
        distinct comparisons that the processes made.
        """
        with _LOCK:
            counts = {name: float(self._counts[name]) for name in COUNTS}
            self._counts.clear()
        return counts

    def close(self) -> None:
        """End the processes."""
        self._pool.close()

    @cached_property
    def _pool(self) -> Workers:
        return Workers(
            "grpo.rewards.math_worker:judge", count=self.workers, seconds=self.seconds, memory_mb=self.memory_mb
        )

    @cached_property
    def _problems(self) -> dict[str, str]:
        """Right answer -> what is wrong with it, or ""."""
        return {}

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter()

    def _check(self, golds: Sequence[str]) -> None:
        """Fill `_problems` for these right answers, in the processes where only a parser can tell."""
        new = [gold for gold in dict.fromkeys(golds) if gold not in self._problems]
        if len(self._problems) + len(new) > KEPT:
            for gold in self._problems.keys() - set(golds):
                del self._problems[gold]
        unsure = []
        for gold in new:
            said = problem(_node(gold)) if len(gold) <= LONGEST else f"it has more than {LONGEST} characters"
            if said is None:
                unsure.append(gold)
            else:
                self._problems[gold] = said
        for gold, outcome in zip(unsure, self._ask([("gold", (), gold) for gold in unsure]), strict=True):
            self._problems[gold] = outcome.value if outcome.status == "ok" else _failed(outcome)

    def _judge(self, pairs: Sequence[tuple[tuple[str, ...], str]]) -> dict[tuple[tuple[str, ...], str], bool | str]:
        """True, False, or what went wrong ("unparsed", "timeout", "error", "crash"), for each distinct pair."""
        verdicts: dict[tuple[tuple[str, ...], str], bool | str] = {}
        unsure = []
        for parts, gold in pairs:
            verdict = same(together(parts), _node(gold)) if _short(parts) else "unparsed"
            if verdict is None:
                unsure.append((parts, gold))
            else:
                verdicts[parts, gold] = verdict
        outcomes = self._ask([("same", parts, gold) for parts, gold in unsure])
        for pair, outcome in zip(unsure, outcomes, strict=True):
            verdicts[pair] = outcome.status if outcome.status != "ok" else _verdict(outcome.value)
        self._count("parsed", len(unsure))
        return verdicts

    def _score(self, gold: str | None, verdict: bool | str) -> float | None:
        """One sample's reward."""
        if gold is None:
            return None
        if self._problems[gold]:
            self._count("gold_unparsed")
            return None
        if isinstance(verdict, str):
            self._count({"timeout": "timeouts", "error": "errors", "crash": "errors"}.get(verdict, verdict))
        return float(verdict is True)

    def _ask(self, tasks: list[tuple[str, tuple[str, ...], str]]) -> list[Outcome]:
        return self._pool.map(tasks) if tasks else []

    def _count(self, name: str, by: int = 1) -> None:
        with _LOCK:
            self._counts[name] += by


COUNTS = ("no_answer", "unparsed", "timeouts", "errors", "gold_unparsed", "parsed")


_LOCK = threading.Lock()  # not a field: a reward can be copied and pickled


def gold_text(answer: Any) -> str:
    r"""A right answer as data sets give it: bare, a list, in the last \boxed{} of a solution, after its ####; tidy."""
    text = answer_text(answer)
    boxed = last_row(text) if "boxed" in text or "fbox" in text else ()
    if boxed:
        return tidy(", ".join(boxed))
    return tidy(((last_hash(text) if "####" in text else None) or text)[: LONGEST + 1])


@lru_cache(maxsize=10_000)
def _node(gold: str) -> Node:
    return parse(gold)


def _short(parts: tuple[str, ...]) -> bool:
    return sum(map(len, parts)) <= LONGEST


def _verdict(value: Any) -> bool | str:
    return value if isinstance(value, bool) else "unparsed"


def _failed(outcome: Outcome) -> str:
    return f"it cannot be parsed ({outcome.message})"
