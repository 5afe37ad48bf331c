"""Surrogates: the objective J of each token, to be maximised. [B, T]

They differ only in the weight w = ∂J/∂log π that they give a token's log-probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, number

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens


@dataclass(frozen=True, config=STRICT)
class Clip:
    """J = min(ρ A, clip(ρ, 1 − low, 1 + high) A)

    PPO, arXiv:1707.06347 eq. 7; high > low is DAPO's clip-higher, arXiv:2503.14476 eq. 8. The chapter's clip_DAPO gives
    the same numbers for every A: of the two bounds the outer min always picks the one of A's sign.
    log ρ [B, T], A [B, T] -> J [B, T]
    """

    low: Annotated[float, Field(ge=0.0)] = 0.2
    """ε_low: with A < 0 a token stops learning below ρ = 1 − low"""
    high: Annotated[float, Field(ge=0.0)] = 0.2
    """ε_high: with A > 0 a token stops learning above ρ = 1 + high; inf removes the bound"""
    dual_c: Annotated[float, Field(gt=1.0)] | None = None
    """for A < 0, J ≥ c·A bounds what one token can do (verl: 3); null: no bound"""
    delta: Annotated[float, Field(gt=0.0)] | None = None
    """the unclipped branch uses min(ρ, delta) (INTELLECT-2's two-sided clip); null: ρ"""

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        ratio = log_ratio.exp()
        free = ratio if self.delta is None else ratio.clamp(max=self.delta)
        clipped = ratio.clamp(min=1.0 - self.low, max=1.0 + self.high)
        value = (free * advantages).minimum(clipped * advantages)
        if self.dual_c is None:
            return value
        return value.maximum(self.dual_c * advantages).where(advantages < 0, value)

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Tokens without gradient because ρ left [1 − low, 1 + high] in the direction A pushes, [B, T] bool."""
        ratio = log_ratio.exp()
        top = min(self.dual_c or float("inf"), self.delta or float("inf"))
        high = (advantages > 0) & (ratio > 1.0 + self.high) | (advantages < 0) & (ratio > top)
        return {"clip_low": (advantages < 0) & (ratio < 1.0 - self.low), "clip_high": high}

    @property
    def inert(self) -> str:
        """What does nothing while ρ = 1."""
        return "clip"

    def __repr__(self) -> str:
        extras = [f"{name}={number(v)}" for name, v in (("dual_c", self.dual_c), ("delta", self.delta)) if v]
        return f"clip({', '.join([number(self.low), number(self.high), *extras])})"
