"""Are two algorithms the same on a batch? They are where their gradients are proportional."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.explain.account import Account

TOLERANCE = 1e-9  # of the second gradient's largest entry


@dataclass(frozen=True)
class Comparison:
    """second = factor × first; factor None: not proportional. `both_zero`: neither algorithm learns from the batch."""

    factor: float | None
    both_zero: bool = False

    @property
    def sentence(self) -> str:
        """In words."""
        if self.both_zero:
            return "both gradients are zero on this batch"
        if self.factor is None:
            return "gradients are not proportional"
        if self.factor == 0:
            return "its gradient is zero on this batch"
        if abs(self.factor - 1) < TOLERANCE:
            return "same gradient"
        opposite = "opposite" if self.factor < 0 else "same"
        return f"{opposite} gradient up to ×{abs(self.factor):.6g}"


def proportion(first: Tensor, second: Tensor) -> float | None:
    """c with second = c · first, or None. Least squares, and then every entry has to agree."""
    size = first.square().sum()
    if size == 0:
        return None
    factor = (first * second).sum() / size
    rest, largest = (second - factor * first).abs().max(), second.abs().max()
    return float(factor) if rest <= TOLERANCE * largest else None


def flat(made: Account) -> Tensor:
    """All that the loss hands to the network: ∂loss/∂log π, and ∂loss/∂H and ∂loss/∂KL where these are trained."""
    others = (made.entropy_gradient, made.kl_gradient)
    given = [torch.zeros_like(made.gradient) if gradient is None else gradient for gradient in others]
    return torch.cat([part.flatten() for part in (made.gradient, *given)])


def compare(first: Account, second: Account) -> Comparison:
    """The second algorithm against the first."""
    a, b = flat(first), flat(second)
    if not a.any():
        return Comparison(None if b.any() else 1.0, both_zero=not bool(b.any()))
    return Comparison(proportion(a, b))
