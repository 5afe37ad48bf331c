"""Credit: how a completion's advantage is handed to its tokens. [B] -> [B, T]"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, needed

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


@dataclass(frozen=True, config=STRICT)
class RefDownweight:
    """A_it = Aᵢ · (1 − π_ref(o_it))

    The chapter's Dr. GRPO (the published one has nothing of this): tokens that the reference already finds likely learn
    less. Biased towards tokens that it finds unlikely, and needs π_ref even without a KL penalty.
    A [B], logp_ref [B, T] -> [B, T]
    """

    needs_reference = True

    def __call__(self, advantages: Tensor, tokens: Tokens) -> Tensor:
        logp_ref = needed(tokens.logp_ref, "logp_ref", "credit=ref_downweight")
        return advantages[:, None] * -logp_ref.clamp(max=0.0).expm1()

    def __repr__(self) -> str:
        return "A·(1 − π_ref)"
