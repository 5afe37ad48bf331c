"""Advantages: what a completion's reward says against its baseline. All in float64, detached, [B].

Every scored completion enters the statistics, also one that the loss later masks. Unscored ones (every reward NaN) and
those of a group without spread get exactly 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

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
    return ((values - mean) / (sigma + eps)).where(live, 0.0)


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


@dataclass(frozen=True, config=STRICT)
class LeaveOneOut:
    """Aᵢ = rᵢ − mean of the others = (rᵢ − μ_G) · G / (G − 1)

    RLOO, Ahmadian et al., arXiv:2402.14740 §3.3: an unbiased baseline. rewards [B, R] -> A [B]
    """

    def __call__(self, scores: Scores) -> Tensor:
        _, _, count = moments(scores.total, scores.groups, scores.scored)
        return centred(scores.total, scores.groups, scores.scored) * count / (count - 1).clamp(min=1)

    def __repr__(self) -> str:
        return "leave_one_out"


@dataclass(frozen=True, config=STRICT)
class BatchWhitened:
    """Aᵢ = (rᵢ − μ_batch) / (σ_batch + eps)

    The chapter's CISPO; REINFORCE++, Hu et al., arXiv:2501.03262. A prompt that always fails is pushed down, one that
    is always solved pushed up: groups without spread are *not* zero here. rewards [B, R] -> A [B]
    """

    ddof: Annotated[int, Field(ge=0, le=1)] = 0
    """0: population σ; 1: sample σ"""
    eps: Annotated[float, Field(ge=0.0)] = 1e-6
    """added to σ"""

    def __call__(self, scores: Scores) -> Tensor:
        batch = scores.groups.new_zeros(scores.groups.shape)
        return standardised(scores.total, batch, scores.scored, self.ddof, self.eps)

    def __repr__(self) -> str:
        return "batch_whitened"


@dataclass(frozen=True, config=STRICT)
class GroupMeanBatchStd:
    """Aᵢ = (rᵢ − μ_G) / (σ_batch + eps)

    Lite PPO, arXiv:2508.08221; ScaleRL, arXiv:2510.13786 §4 takes σ of the centred values; TRL's
    scale_rewards="batch" of the raw rewards. rewards [B, R] -> A [B]
    """

    ddof: Annotated[int, Field(ge=0, le=1)] = 0
    """0: population σ; 1: sample σ"""
    eps: Annotated[float, Field(ge=0.0)] = 0.0
    """added to σ"""
    std_of: Literal["centred", "raw"] = "centred"
    """σ over the batch of rᵢ − μ_G, or of rᵢ"""

    def __call__(self, scores: Scores) -> Tensor:
        offsets = centred(scores.total, scores.groups, scores.scored)
        batch = scores.groups.new_zeros(scores.groups.shape)
        spread = offsets if self.std_of == "centred" else scores.total
        mean, sigma, _ = moments(spread, batch, scores.scored, self.ddof)
        return (offsets / (sigma + self.eps)).where(varies(sigma, mean), 0.0)

    def __repr__(self) -> str:
        return f"group_mean_batch_std({'sample ' * self.ddof}σ of {self.std_of})"


@dataclass(frozen=True, config=STRICT)
class RewardDecoupled:
    """A_n = (r_n − μ_n) / (σ_n + eps) within the group for each reward n; A = Σ_n w_n A_n; then whitened over the batch

    GDPO, Liu et al., arXiv:2601.05242 eq. 4–7; the chapter stops before the batch step. A reward that does not apply
    to a completion is left out for it. rewards [B, R], weights [R] -> A [B]
    """

    ddof: Annotated[int, Field(ge=0, le=1)] = 0
    """0: population σ; 1: sample σ, as in the paper's figure 2"""
    eps: Annotated[float, Field(ge=0.0)] = 1e-6
    """added to each σ"""
    batch_step: bool = True
    """standardise the sum over the batch (eq. 6), so that its scale does not grow with the number of rewards"""

    def __call__(self, scores: Scores) -> Tensor:
        total = scores.total.new_zeros(scores.total.shape)
        for rewards, weight in zip(scores.rewards.unbind(dim=1), scores.weights, strict=True):
            total = total + weight * standardised(rewards, scores.groups, ~rewards.isnan(), self.ddof, self.eps)
        if not self.batch_step:
            return total
        batch = scores.groups.new_zeros(scores.groups.shape)
        return standardised(total, batch, scores.scored, self.ddof, self.eps)

    def __repr__(self) -> str:
        return "reward_decoupled" + "(no batch step)" * (not self.batch_step)


@dataclass(frozen=True, config=STRICT)
class Ordinal:
    """Aᵢ = f(rankᵢ), rank 1 = worst … N = best among the group's scored completions, ties share their average rank

    GOPO, Choi et al., arXiv:2602.03876; equation (7.2) of the chapter. rewards [B, R] -> A [B]

        symmetric   (2·rank − (N + 1)) / (N − 1)   in [−1, 1], mean 0: the chapter's linear map read so that both ends
        fit published   2 − 4 (N − rank) / (N − 1)     = 2 · symmetric
        quantile    Φ⁻¹((rank − ½) / N)            the chapter's "quantile normalisation", finite at rank N
        literal     2·rank/N − 1                   f(u) = 2u − 1 as printed: its mean is 1/N, a constant push upwards
    """

    map: Literal["symmetric", "published", "quantile", "literal"] = "symmetric"
    """f, as above"""

    def __call__(self, scores: Scores) -> Tensor:
        ranks, size = average_ranks(scores.total, scores.groups, scores.scored)
        live = scores.scored & (size > 1)
        symmetric = (2 * ranks - (size + 1)) / (size - 1).clamp(min=1)
        if self.map == "quantile":
            mapped = (2 * (ranks - 0.5) / size.clamp(min=1) - 1).erfinv() * 2**0.5
        elif self.map == "literal":
            mapped = 2 * ranks / size.clamp(min=1) - 1
        else:
            mapped = symmetric * (2.0 if self.map == "published" else 1.0)
        return mapped.where(live, 0.0)

    def __repr__(self) -> str:
        return f"ordinal({self.map})"


def average_ranks(values: Tensor, groups: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Rank within the group, 1 = lowest, ties averaged, and the group's number of valid values, [B] each."""
    together = (groups[:, None] == groups) & valid
    below = (together & (values[:, None] > values)).sum(dim=1)
    equal = (together & (values[:, None] == values)).sum(dim=1)
    return (below + (equal + 1) / 2).to(values.dtype), together.sum(dim=1).to(values.dtype)
