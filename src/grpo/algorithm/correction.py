"""Corrections for the gap between the engine that samples (μ) and the trainer that scores (π_old). Detached, [B, T]

They multiply the policy term of a token, never its KL penalty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, bounded, needed, number, sequence_mean, sequence_sum

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens

Level = Literal["token", "sequence", "geometric"]


@dataclass(frozen=True, config=STRICT)
class NoCorrection:
    """w = 1: what the engine says of its samples is not read."""

    needs_rollout_logp = False

    def __call__(self, tokens: Tokens) -> Tensor | None:
        return None

    def __repr__(self) -> str:
        return "no correction"


def log_weight(tokens: Tokens, level: Level) -> Tensor:
    """log (π_old / μ) at a level, clamped to ±20, [B, T]; nan where the engine gave no finite log μ."""
    gap = needed(tokens.logp_old, "logp_old", "correction") - needed(tokens.logp_rollout, "logp_rollout", "correction")
    gap = gap.where(gap.isfinite(), float("nan"))
    if level == "token":
        return bounded(gap)
    pool = sequence_sum if level == "sequence" else sequence_mean
    return bounded(pool(gap, tokens.mask)).expand_as(gap)


@dataclass(frozen=True, config=STRICT)
class Truncate:
    """w = min(C, π_old / μ)

    TIS, Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training" (2025): level token, C
    2–8. Levels: sequence is the product over the completion, the unbiased weight; geometric its |o|-th root, the
    chapter's "sequence level", which is no importance weight but does not depend on length. Tokens without a finite
    log μ get 0. logp_old, logp_rollout [B, T] -> w [B, T]
    """

    needs_rollout_logp = True

    level: Level = "token"
    """what the ratio is taken over: token | sequence (product) | geometric (mean)"""
    cap: Annotated[float, Field(gt=0.0)] = 2.0
    """C, largest weight; inf is plain importance sampling"""

    def __call__(self, tokens: Tokens) -> Tensor | None:
        return log_weight(tokens, self.level).exp().clamp(max=self.cap).nan_to_num(nan=0.0)

    def __repr__(self) -> str:
        return f"truncate({self.level}, {number(self.cap)})"


@dataclass(frozen=True, config=STRICT)
class Mask:
    """w = (π_old / μ or 1) · 1[low ≤ π_old / μ ≤ high]

    Weighting ratio: MIS, Liu, Li et al., "When Speed Kills Stability" (2025), level sequence; IcePop (Ring-1T),
    arXiv:2510.18855, level token within [0.5, 5]. Weighting indicator: the chapter's MIS, with an upper bound alone.
    Masked tokens stay in the loss's denominators. logp_old, logp_rollout [B, T] -> w [B, T]
    """

    needs_rollout_logp = True

    level: Level = "sequence"
    """what the ratio is taken over: token | sequence (product) | geometric (mean)"""
    low: Annotated[float, Field(ge=0.0)] = 0.0
    """smallest ratio that still counts"""
    high: Annotated[float, Field(gt=0.0)] = 3.0
    """C, largest ratio that still counts"""
    weighting: Literal["ratio", "indicator"] = "ratio"
    """kept tokens weigh their ratio, or 1"""

    def __call__(self, tokens: Tokens) -> Tensor | None:
        ratio = log_weight(tokens, self.level).exp()
        kept = (ratio >= self.low) & (ratio <= self.high)
        return (ratio if self.weighting == "ratio" else ratio.new_ones(ratio.shape)).where(kept, 0.0)

    def __repr__(self) -> str:
        return f"mask({self.level}, {number(self.low)}–{number(self.high)}, {self.weighting})"
