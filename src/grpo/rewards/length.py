"""Rewards for the length of a completion, |o| in tokens with the end token.

Soft overlong punishment is not here: it is an axis of the algorithm, shaping=soft_overlong (DAPO's) or
shaping=soft_overlong_chapter, and combines with any of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.config.nodes import Count, Float
from grpo.rewards.wrapped import Wrapped, prompt_key

STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True, config=STRICT)
class WithinLength:
    """r = 1 if |o| ≤ share · limit, else 0: the length reward of GDPO, arXiv:2601.05242 (there 4,000 tokens)

    It also pays a completion that says nothing; RightWithinLength does not.
    """

    limit: Count
    """Tokens, ≥ 1; ${max_completion_tokens} in the configuration."""
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Part of the limit that is short enough, (0, 1]."""

    def __call__(self, completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float | None]:
        """completion_ids: [B] token ids; returns [B]."""
        return [float(len(ids) <= self.share * self.limit) for ids in completion_ids]


@dataclass(frozen=True, config=STRICT)
class RightWithinLength(Wrapped):
    """r = 1 if right and |o| ≤ share · limit, else 0: GDPO's conditioned length reward, arXiv:2601.05242

    `of` tells right from wrong; None where it says None.
    """

    limit: Count
    """Tokens, ≥ 1; ${max_completion_tokens} in the configuration."""
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Part of the limit that is short enough, (0, 1]."""
    right_at: Float = 1.0
    """Least value of the inner reward that counts as right."""

    def __call__(
        self, completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **columns: Any
    ) -> list[float | None]:
        """completions, completion_ids: [B]; returns [B]."""
        judged = self.inner({"completions": completions, "completion_ids": completion_ids, **columns})
        short = WithinLength(limit=self.limit, share=self.share)(completion_ids)
        return [
            None if value is None else float(value >= self.right_at and fits == 1.0)
            for value, fits in zip(judged, short, strict=True)
        ]


@dataclass(frozen=True, config=STRICT)
class RelativeLength(Wrapped):
    """λ = ½ − (|o| − min) / (max − min) over the completions of one prompt;  r = λ if right, min(0, λ) if wrong

    Kimi k1.5, arXiv:2501.12599 §2.3.3: 0 for all where all are equally long. Completions of one prompt are those with
    the same prompt in one call. `of` tells right from wrong; None where it says None.
    """

    right_at: Float = 1.0
    """Least value of the inner reward that counts as right."""

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        **columns: Any,
    ) -> list[float | None]:
        """prompts, completions, completion_ids: [B]; returns [B]."""
        given = {"prompts": prompts, "completions": completions, "completion_ids": completion_ids, **columns}
        judged = self.inner(given)
        lengths: dict[str, list[int]] = {}
        groups = [prompt_key(prompt) for prompt in prompts]
        for group, ids in zip(groups, completion_ids, strict=True):
            lengths.setdefault(group, []).append(len(ids))
        paid: list[float | None] = []
        for value, group, ids in zip(judged, groups, completion_ids, strict=True):
            low, high = min(lengths[group]), max(lengths[group])
            share = 0.0 if low == high else 0.5 - (len(ids) - low) / (high - low)
            paid.append(None if value is None else share if value >= self.right_at else min(0.0, share))
        return paid


@dataclass(frozen=True, config=STRICT)
class Cosine(Wrapped):
    """r = r_L + ½ (r_0 − r_L) (1 + cos(π |o| / L)):  r_0 at length 0, r_L at L;  r = exceed from L on

    Yeo et al., arXiv:2502.03373 App. C.1: right answers are paid more when short (+2 → +1), wrong ones punished less
    when long (−10 → 0), so that a policy that fails goes on thinking. `of` tells right from wrong.
    """

    limit: Count
    """L in tokens, ≥ 1; ${max_completion_tokens} in the configuration."""
    right_short: Float = 2.0
    """r_0 of a right answer."""
    right_long: Float = 1.0
    """r_L of a right answer."""
    wrong_short: Float = -10.0
    """r_0 of a wrong answer."""
    wrong_long: Float = 0.0
    """r_L of a wrong answer."""
    exceed: Float | None = -10.0
    """Reward of a completion of L tokens or more, right or wrong; null: the value at L."""
    right_at: Float = 1.0
    """Least value of the inner reward that counts as right."""

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        **columns: Any,
    ) -> list[float | None]:
        """prompts, completions, completion_ids: [B]; returns [B]."""
        given = {"prompts": prompts, "completions": completions, "completion_ids": completion_ids, **columns}
        judged = self.inner(given)
        return [
            None if value is None else self._paid(value >= self.right_at, len(ids))
            for value, ids in zip(judged, completion_ids, strict=True)
        ]

    def _paid(self, right: bool, length: int) -> float:
        if length >= self.limit and self.exceed is not None:
            return self.exceed
        start, end = (self.right_short, self.right_long) if right else (self.wrong_short, self.wrong_long)
        # The cosine rises again beyond L: the share is capped there.
        return end + 0.5 * (start - end) * (1.0 + math.cos(math.pi * min(1.0, length / self.limit)))
