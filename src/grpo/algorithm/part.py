"""What every part shares: strict fields, safe logarithms, statistics of groups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens

STRICT = ConfigDict(extra="forbid")
"""A misspelt, foreign or impossible number of a part fails at start, with its name."""

LOG_LIMIT = 20.0
"""|log ρ| is clamped here before exp: e²⁰ = 4.9e8 is finite in float32, and beyond it the gradient is 0."""

Anchor = Literal["old", "rollout"]
"""The denominator of ρ: the policy before this step's updates, or the engine that sampled (μ)."""


def bounded(log_ratio: Tensor, low: float = -LOG_LIMIT, high: float = LOG_LIMIT) -> Tensor:
    """Clamp a log ratio to [low, high]."""
    return log_ratio.clamp(min=low, max=high)


def needed(values: Tensor | None, name: str, reader: str) -> Tensor:
    """`values`, or an error that says which part misses which field of Tokens."""
    if values is None:
        raise ValueError(f"{reader} reads Tokens.{name}, which the trainer did not fill")
    return values


def anchored(tokens: Tokens, anchor: Anchor, reader: str) -> Tensor:
    """log π_old or log μ, [B, T]."""
    return needed(getattr(tokens, f"logp_{anchor}"), f"logp_{anchor}", reader)


def sequence_sum(values: Tensor, mask: Tensor) -> Tensor:
    """Σ_t over the tokens that count, [B, 1]."""
    return (values * mask).sum(dim=1, keepdim=True)


def sequence_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the tokens that count, [B, 1]; 0 for an empty completion."""
    return sequence_sum(values, mask) / mask.sum(dim=1, keepdim=True).clamp(min=1)


def moments(values: Tensor, groups: Tensor, valid: Tensor, ddof: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, standard deviation and count of the valid values in each row's group, [B] each.

    Fewer than ddof + 1 valid values have no spread: σ = 0. Group ids are any integers, in any order.
    """
    ids, index = groups.unique(return_inverse=True)

    def total(x: Tensor) -> Tensor:
        return x.new_zeros(ids.numel()).index_add(0, index, x)[index]

    x = values.where(valid, 0.0)
    count = total(valid.to(x.dtype))
    mean = total(x) / count.clamp(min=1)
    spread = (x - mean).where(valid, 0.0)
    sigma = (total(spread * spread) / (count - ddof).clamp(min=1)).sqrt()
    return mean, sigma, count


def varies(sigma: Tensor, mean: Tensor) -> Tensor:
    """True where a spread is more than rounding: mean(4 × 0.7) may miss 0.7 by one ulp.

    σ > max(1e-8, 1e-12 |μ|): rewards of 1e8 that differ by 1 still do, in float64.
    """
    return sigma > (1e-12 * mean.abs()).clamp(min=1e-8)


def number(value: float) -> str:
    """A number as people write it: 0.20, 3e-4, inf."""
    if not math.isfinite(value) or value == int(value):
        return f"{value:g}"
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"
