"""Addition of two numbers: "37+5=" asks for \\boxed{42}."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.tasks.base import Extract, Question, Split, split_of
from grpo.tasks.order import hash64, permuted

LIMITS: dict[Split, int] = {"train": 8000, "validation": 512, "test": 2048}
"""Most questions of a split; two digits have fewer: 5,050 pairs in all."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Arithmetic:
    """Two numbers of up to `digits` digits; a + b and b + a are one problem, asked once, in an order drawn by hash."""

    digits: Annotated[int, Field(strict=True, ge=1, le=9)] = 2
    """Digits of the larger possible number, 1–9: the difficulty. The embedded policy was warmed up on 2."""
    extract: Extract = "boxed"
    """Where the answer is read: boxed | last_number | boxed_or_last_number."""
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] = 32
    """Generation budget per completion in tokens, ≥ 1."""

    chat: ClassVar[bool] = False
    system: ClassVar[None] = None

    def size(self, split: Split) -> int:
        return len(_pool(self.digits, split))

    def question(self, split: Split, index: int) -> Question:
        low, high = _pair(_pool(self.digits, split)[index])
        a, b = (low, high) if hash64("order", low, high) % 2 else (high, low)
        return Question(id=f"{a}+{b}", text=f"{a}+{b}=", columns={"answer": str(a + b)})


def _pair(index: int) -> tuple[int, int]:
    """The index-th pair low ≤ high in the order (0,0), (0,1), (1,1), (0,2), …: index = high·(high+1)/2 + low."""
    high = (isqrt(8 * index + 1) - 1) // 2
    return index - high * (high + 1) // 2, high


@lru_cache(maxsize=8)
def _pool(digits: int, split: Split) -> tuple[int, ...]:
    """Pair indices of the split, walking through all pairs in one fixed shuffled order until the split is full."""
    numbers = 10**digits
    pairs = numbers * (numbers + 1) // 2
    pool: list[int] = []
    for position in range(pairs):
        index = permuted(position, pairs, "arithmetic", digits)
        if split_of("addition", *_pair(index)) == split:
            pool.append(index)
            if len(pool) == LIMITS[split]:
                break
    return tuple(pool)
