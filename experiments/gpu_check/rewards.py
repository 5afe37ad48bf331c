"""A reward that varies whatever a policy is worth: random weights must be trained, or no update is measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def parity(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """1 where the sum of a completion's token ids is odd."""
    return [float(sum(ids) % 2) for ids in completion_ids]
