"""Make a target from given numbers: "3,5,7=22=" asks for 3·5+7. Many expressions are right."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.rewards.expression import Place
from grpo.rewards.many import Use
from grpo.tasks.base import SPLITS, Question, Split, split_of
from grpo.tasks.order import hash64

LIMITS: dict[Split, int] = {"train": 2000, "validation": 256, "test": 512}
"""Most questions of a split; two small numbers allow fewer."""
FRUITLESS = 500  # draws in a row that bring nothing new: the pool is full

Problem = tuple[tuple[int, ...], int, str]
"""(numbers, target, an expression that is right)"""
RULE = {"all": "Use each number exactly once", "some": "Use each number at most once"}


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Countdown:
    """A problem is its numbers, in any order, and its target; it lives in one split.

    Columns: `numbers`, `target`, and `answer`, the one of the right expressions that made the problem.
    """

    numbers: Annotated[int, Field(strict=True, ge=2, le=6)] = 3
    """How many numbers are given, 2–6."""
    largest: Annotated[int, Field(strict=True, ge=2, le=100)] = 9
    """Largest number given, 2–100; they begin at 1."""
    largest_target: Annotated[int, Field(strict=True, ge=2)] = 99
    """Largest target, ≥ 2."""
    operations: Annotated[str, Field(pattern=r"^[-+*/]+$")] = "+-"
    """Operations that made the target, some of + - * /; an answer may use all four."""
    use: Use = "all"
    """all: each number exactly once; some: each at most once."""
    chat: bool = False
    """true: a sentence for chat models; false: the bare form "3,5,7=22=", for the embedded policy."""
    system: str | None = None
    """System message of the chat form; null leaves it to the chat template."""
    extract: Place = "last_expression"
    """Where the expression is read: boxed | last_expression | boxed_or_last_expression."""
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] = 32
    """Generation budget per completion in tokens, ≥ 1."""

    def size(self, split: Split) -> int:
        return len(self._pools()[split])

    def question(self, split: Split, index: int) -> Question:
        numbers, target, answer = self._pools()[split][index]
        columns = {"answer": answer, "numbers": list(numbers), "target": target}
        return Question(f"{','.join(map(str, numbers))}={target}", self._text(numbers, target), columns)

    def _pools(self) -> dict[Split, tuple[Problem, ...]]:
        return _pools(self.numbers, self.largest, self.largest_target, self.operations, self.use)

    def tricks(self, question: Question) -> dict[str, str]:
        """What grpo.probe tries besides: the target without the numbers."""
        target = question.columns["target"]
        return {"target alone": f"{target}", "target and zero": f"{target}+0"}

    def _text(self, numbers: tuple[int, ...], target: int) -> str:
        listed = [str(n) for n in numbers]
        if not self.chat:
            return f"{','.join(listed)}={target}="
        return (
            f"Write an expression that equals {target}, from the numbers {', '.join(listed[:-1])} and {listed[-1]} "
            f"with +, -, *, / and parentheses. {RULE[self.use]}. Put the expression in \\boxed{{}}."
        )


@lru_cache(maxsize=8)
def _pools(count: int, largest: int, most: int, operations: str, use: Use) -> dict[Split, tuple[Problem, ...]]:
    """Problems of each split: draw i is a pure function of the fields and i, and its problem decides the split."""
    pools: dict[Split, list[Problem]] = {split: [] for split in SPLITS}
    seen: set[tuple[int, ...]] = set()
    draw = last = 0
    while draw - last < FRUITLESS and any(len(pools[split]) < LIMITS[split] for split in SPLITS):
        key = ("countdown", count, largest, most, operations, use, draw)
        draw += 1
        given = _Digits(hash64(*key, "numbers"))
        numbers = tuple(1 + given.below(largest) for _ in range(count))
        made = _made(numbers, operations, use, _Digits(hash64(*key, "expression")))
        if made is None or not 1 <= made[0] <= most or made[0] in numbers:
            continue
        problem = (*sorted(numbers), made[0])
        split = split_of("countdown", *problem)
        if problem in seen or len(pools[split]) == LIMITS[split]:
            continue
        seen.add(problem)
        pools[split].append((numbers, *made))
        last = draw
    return {split: tuple(pool) for split, pool in pools.items()}


class _Digits:
    """Small numbers out of one hash, as its digits in a mixed base: six numbers need fewer than its 64 bits."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def below(self, n: int) -> int:
        self.bits, digit = divmod(self.bits, n)
        return digit


def _made(numbers: tuple[int, ...], operations: str, use: Use, draw: _Digits) -> tuple[int, str] | None:
    """(target, expression): two of what is left are joined until one is left; only whole numbers above 0 on the way.

    For use="some" between two and all of the numbers take part.
    """
    left = [(n, str(n)) for n in numbers]
    if use == "some":
        for _ in range(draw.below(len(left) - 1)):
            left.pop(draw.below(len(left)))
    while len(left) > 1:
        first, second = left.pop(draw.below(len(left))), left.pop(draw.below(len(left)))
        (a, one), (b, other) = sorted((first, second), reverse=True)  # a ≥ b
        ways = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if a % b == 0 else 0}
        sign = operations[draw.below(len(operations))]
        if ways[sign] < 1:
            return None
        left.append((ways[sign], f"({one}{sign}{other})"))
    return left[0][0], left[0][1].removeprefix("(").removesuffix(")")
