"""A penalty for saying the same again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.config.nodes import Count


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Repetition:
    """r = −penalty · (1 − distinct n-grams / n-grams), over the completion's tokens; 0 below that many tokens

    After Yeo et al., arXiv:2502.03373 App. C.2, whose penalty is −0.05 for each token inside a repeated 40-gram; this
    one is of the whole completion and does not grow with its length.
    """

    ngram: Count = 3
    """Tokens of an n-gram, ≥ 1."""
    penalty: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 1.0
    """What a completion loses that only repeats itself, > 0."""

    def __call__(self, completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float | None]:
        """completion_ids: [B] token ids; returns [B] in (−penalty, 0]."""
        return [-self.penalty * self._repeated(ids) for ids in completion_ids]

    def _repeated(self, ids: Sequence[int]) -> float:
        count = len(ids) - self.ngram + 1
        if count < 1:
            return 0.0
        return 1.0 - len({tuple(ids[i : i + self.ngram]) for i in range(count)}) / count
