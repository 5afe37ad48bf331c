"""Shaping: rewards that depend on a completion's length alone. lengths [B] -> [B] float64, or None

The column joins the others as reward `name` with weight `weight`. Lengths are fractions of max_completion_tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, number

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, config=STRICT)
class NoShaping:
    """Length costs nothing."""

    name = "none"
    weight = 0.0

    def __call__(self, lengths: Tensor, max_completion_tokens: int, truncated: Tensor) -> Tensor | None:
        return None

    def __repr__(self) -> str:
        return "no shaping"


@dataclass(frozen=True, config=STRICT)
class SoftOverlong:
    """0 up to L − C, then ((L − C) − |o|) / C, −1 from L on; C = interval · L

    Soft overlong punishment, DAPO, arXiv:2503.14476 eq. 13 (L 20480, C 4096). Its rewards are ±1: where yours are 0 and
    1, weight=0.5 is the same punishment.
    """

    name = "soft_overlong"

    interval: Annotated[float, Field(gt=0.0, le=1.0)] = 0.2
    """width of the punished interval before the limit, as a fraction of max_completion_tokens"""
    weight: Annotated[float, Field(ge=0.0)] = 1.0
    """reward lost by a completion of full length"""

    def __call__(self, lengths: Tensor, max_completion_tokens: int, truncated: Tensor) -> Tensor | None:
        interval = self.interval * max_completion_tokens
        return ((max_completion_tokens - interval - lengths.double()) / interval).clamp(min=-1.0, max=0.0)

    def __repr__(self) -> str:
        return f"soft_overlong(last {number(self.interval)} of the budget, weight {number(self.weight)})"


@dataclass(frozen=True, config=STRICT)
class SoftOverlongChapter:
    """−max(0, (|o| − L_cache) / (L − L_cache)), L_cache = safe · L, without a floor

    The chapter's L_cache is the safe *length*, the paper's the width of the punished interval: the same name for
    complementary numbers. With safe = 1 − interval they agree up to L.
    """

    name = "soft_overlong_chapter"

    safe: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.8
    """length without punishment, as a fraction of max_completion_tokens"""
    weight: Annotated[float, Field(ge=0.0)] = 1.0
    """λ, reward lost by a completion of full length"""

    def __call__(self, lengths: Tensor, max_completion_tokens: int, truncated: Tensor) -> Tensor | None:
        cache = self.safe * max_completion_tokens
        return -((lengths.double() - cache) / (max_completion_tokens - cache)).clamp(min=0.0)

    def __repr__(self) -> str:
        return f"soft_overlong_chapter(safe up to {number(self.safe)}, λ = {number(self.weight)})"
