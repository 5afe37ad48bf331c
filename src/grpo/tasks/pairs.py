"""Two numbers whose sum is N: "12=" asks for 5+7, or any other of its seven pairs."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.rewards.expression import Place
from grpo.tasks.base import SPLITS, Question, Split, split_of
from grpo.tasks.order import hash64


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Pairs:
    """A problem is its N, 0 … `largest`, with ⌊N/2⌋ + 1 right answers. Columns: `target`, and `answer`, one of them."""

    largest: Annotated[int, Field(strict=True, ge=9, le=99_999)] = 99
    """Largest sum asked for, 9–99,999: the difficulty, and with it the number of problems."""
    chat: bool = False
    """true: a sentence for chat models; false: the bare form "12=", for the embedded policy."""
    system: str | None = None
    """System message of the chat form; null leaves it to the chat template."""
    extract: Place = "last_expression"
    """Where the sum is read: boxed | last_expression | boxed_or_last_expression."""
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] = 32
    """Generation budget per completion in tokens, ≥ 1."""

    def size(self, split: Split) -> int:
        return len(_pool(self.largest, split))

    def question(self, split: Split, index: int) -> Question:
        target = _pool(self.largest, split)[index]
        text = f"{target:0{len(str(self.largest))}}="  # 07= beside 12=: as many characters for every N
        if self.chat:
            text = f"Write {target} as the sum of two whole numbers. Put the sum, such as a+b, in \\boxed{{}}."
        share = hash64("pair", target) % (target + 1)
        return Question(str(target), text, {"answer": f"{share}+{target - share}", "target": target})

    def tricks(self, question: Question) -> dict[str, str]:
        """What grpo.probe tries besides: the target alone, a difference, a sum of three numbers."""
        target = question.columns["target"]
        return {"target alone": f"{target}", "difference": f"{target + 1}-1", "three numbers": f"{target}+0+0"}


@lru_cache(maxsize=8)
def _pool(largest: int, split: Split) -> tuple[int, ...]:
    """The sums of a split, by hash; of so few numbers a split could get none, which the last sums then go to."""
    owners = {target: split_of("pairs", target) for target in range(largest + 1)}
    for spare, name in enumerate(SPLITS):
        if name not in owners.values():
            owners[largest - spare] = name
    return tuple(target for target, owner in owners.items() if owner == split)
