"""Ratios: log ρ of each token, and what it divides by. [B, T] with gradient, clamped to ±20

Anchor `old` is the policy before this step's updates; `rollout` is the engine's log μ. On the first update of a step the
trainer hands over log π_old = log π.detach(), so that ρ is exactly 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, Anchor, anchored, bounded

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens


@dataclass(frozen=True, config=STRICT)
class TokenRatio:
    """log ρ_it = log π(o_it) − log π_anchor(o_it)

    PPO, Schulman et al., arXiv:1707.06347 eq. 6; GRPO. logp [B, T] -> log ρ [B, T]
    """

    anchor: Anchor = "old"
    """denominator of ρ: old | rollout (DPPO, VESPO and ScaleRL divide by the engine's μ)"""

    def __call__(self, tokens: Tokens) -> Tensor:
        return bounded(tokens.logp - anchored(tokens, self.anchor, "ratio"))

    @property
    def inert(self) -> str:
        """Nothing: what ρ = 1 leaves without effect is the surrogate's to say."""
        return ""

    def __repr__(self) -> str:
        return "token ratio" + " to the rollout" * (self.anchor == "rollout")
