"""Overlong rules: what a completion cut by the length limit does in the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, config=STRICT)
class NoOverlong:
    """Truncated completions count like any other. truncated [B] -> in the loss [B]"""

    def rows(self, truncated: Tensor) -> Tensor:
        return truncated.new_ones(truncated.shape)

    def __call__(self, mask: Tensor, truncated: Tensor) -> Tensor:
        return mask

    def __repr__(self) -> str:
        return "no overlong filter"


@dataclass(frozen=True, config=STRICT)
class MaskTruncated:
    """mᵢ = 1[EOS ∈ oᵢ]: truncated completions leave the loss and its denominators, not the group's statistics

    Overlong filtering, DAPO, arXiv:2503.14476 §3.4. mask [B, T], truncated [B] -> mask [B, T]
    """

    def rows(self, truncated: Tensor) -> Tensor:
        return ~truncated

    def __call__(self, mask: Tensor, truncated: Tensor) -> Tensor:
        return mask & ~truncated[:, None]

    def __repr__(self) -> str:
        return "mask truncated"
