"""Credit: how a completion's advantage is handed to its tokens. [B] -> [B, T]"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens


@dataclass(frozen=True, config=STRICT)
class Uniform:
    """A_it = Aᵢ: every token of a completion gets its advantage. [B] -> [B, T]"""

    needs_reference = False

    def __call__(self, advantages: Tensor, tokens: Tokens) -> Tensor:
        return advantages[:, None].expand_as(tokens.logp)

    def __repr__(self) -> str:
        return "uniform"
