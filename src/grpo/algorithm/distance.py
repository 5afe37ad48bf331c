"""Distances between two completions of one prompt, for pairs that differ in more than their reward (pairing=diverse)

A distance is f(first, second) -> a number ≥ 0, larger = less alike; symmetric. `Said` has the text and the token ids.
Your own: form.distance._target_=my_module.my_distance
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT


class Said(NamedTuple):
    """A completion as a distance sees it."""

    text: str
    token_ids: tuple[int, ...]


Distance = Callable[[Said, Said], float]


@dataclass(frozen=True, config=STRICT)
class NgramJaccard:
    """1 − |A ∩ B| / |A ∪ B|, A and B the sets of token n-grams; 0 = the same n-grams, 1 = none in common

    Jaccard (1901). Completions shorter than n tokens are one n-gram; two empty ones have distance 0.
    """

    ngram: Annotated[int, Field(ge=1)] = 2
    """tokens per n-gram"""

    def __call__(self, first: Said, second: Said) -> float:
        """In [0, 1]."""
        a, b = self._grams(first.token_ids), self._grams(second.token_ids)
        return 1.0 - len(a & b) / len(a | b) if a | b else 0.0

    def _grams(self, ids: Sequence[int]) -> set[tuple[int, ...]]:
        ids = tuple(ids)
        if not ids:
            return set()
        return {ids[i : i + self.ngram] for i in range(max(1, len(ids) - self.ngram + 1))}

    def __repr__(self) -> str:
        return f"jaccard({self.ngram}-grams)"


def diversity(said: Sequence[Said], distance: Distance) -> list[float]:
    """Mean distance of each completion to the others of its group; 0 for a group of one."""
    table = [[0.0] * len(said) for _ in said]
    for i, first in enumerate(said):
        for j in range(i):
            table[i][j] = table[j][i] = float(distance(first, said[j]))
    return [sum(row) / max(1, len(said) - 1) for row in table]
