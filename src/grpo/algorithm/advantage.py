"""Advantages: what a completion's reward says against its baseline. All in float64, detached, [B].

Every scored completion enters the statistics, also one that the loss later masks. Unscored ones (every reward NaN) and
those of a group without spread get exactly 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, moments, number, varies

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Scores


def standardised(values: Tensor, groups: Tensor, valid: Tensor, ddof: int, eps: float) -> Tensor:
    """(x − μ_g) / (σ_g + eps) among the valid values of each group, 0 elsewhere, [B]."""
    mean, sigma, _ = moments(values, groups, valid, ddof)
    live = valid & varies(sigma, mean)
    return ((values - mean) / (sigma + eps).where(live, 1.0)).where(live, 0.0)


def centred(values: Tensor, groups: Tensor, valid: Tensor) -> Tensor:
    """x − μ_g among the valid values of each group, 0 elsewhere, [B]."""
    mean, sigma, _ = moments(values, groups, valid)
    return (values - mean).where(valid & varies(sigma, mean), 0.0)


@dataclass(frozen=True, config=STRICT)
class GroupZScore:
    """Aᵢ = (rᵢ − μ_G) / (σ_G + eps)

    GRPO, Shao et al., arXiv:2402.03300 §4.1; equation (7.1) of the chapter. rewards [B, R] -> A [B]
    """

    ddof: Annotated[int, Field(ge=0, le=1)] = 0
    """0: population σ (the paper's ±1 for pairs needs it); 1: sample σ, as TRL, verl and oat compute it"""
    eps: Annotated[float, Field(ge=0.0)] = 0.0
    """added to σ; shrinks small reward gaps (TRL 1e-4, verl 1e-6, oat 1e-8)"""

    def __call__(self, scores: Scores) -> Tensor:
        return standardised(scores.total, scores.groups, scores.scored, self.ddof, self.eps)

    def __repr__(self) -> str:
        extras = ["sample σ"] * self.ddof + [f"eps={number(self.eps)}"] * (self.eps > 0)
        return "group_zscore" + (f"({', '.join(extras)})" if extras else "")


@dataclass(frozen=True, config=STRICT)
class GroupMean:
    """Aᵢ = rᵢ − μ_G

    Dr. GRPO, Liu et al., arXiv:2503.20783 §3.2; also VESPO eq. 20 and DPPO. rewards [B, R] -> A [B]
    """

    def __call__(self, scores: Scores) -> Tensor:
        return centred(scores.total, scores.groups, scores.scored)

    def __repr__(self) -> str:
        return "group_mean"
