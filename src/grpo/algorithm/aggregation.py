"""Aggregations: the weight of each token in loss = −Σ J·weight. [B, T]

The denominators are those of the whole optimizer step (`Totals`), so that micro-batches add up to the same loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Totals

Empty = Literal["counted", "excluded"]


def sequences(totals: Totals, empty: Empty) -> int:
    """Completions in the denominator, at least 1."""
    return max(totals.sequences if empty == "counted" else totals.nonempty, 1)


@dataclass(frozen=True, config=STRICT)
class SequenceMean:
    """1/N Σᵢ 1/|oᵢ| Σ_t: every completion weighs the same, whatever its length

    GRPO, arXiv:2402.03300 eq. 3. mask [B, T] -> weights [B, T]
    """

    empty: Empty = "counted"
    """completions without a token that counts: counted in N (TRL) or excluded (verl)"""

    def weights(self, mask: Tensor, groups: Tensor, totals: Totals, like: Tensor) -> Tensor:
        return mask.to(like.dtype) / (mask.sum(dim=1, keepdim=True).clamp(min=1) * sequences(totals, self.empty))

    def __repr__(self) -> str:
        return "sequence_mean" + "(empty excluded)" * (self.empty == "excluded")


@dataclass(frozen=True, config=STRICT)
class TokenMean:
    """1/Σ|oᵢ| Σᵢ Σ_t: every token weighs the same, so long completions weigh more

    DAPO, arXiv:2503.14476 eq. 8 over the whole step, as verl and TRL compute it. mask [B, T] -> weights [B, T]
    """

    def weights(self, mask: Tensor, groups: Tensor, totals: Totals, like: Tensor) -> Tensor:
        return mask.to(like.dtype) / max(totals.tokens, 1)

    def __repr__(self) -> str:
        return "token_mean"


@dataclass(frozen=True, config=STRICT)
class PromptMean:
    """1/P Σ_g 1/Σ_{i∈g}|oᵢ| Σ_{i∈g} Σ_t: every prompt weighs the same, and every token within it

    DAPO eq. 8 read literally (1/Σ|oᵢ| stands inside E_q); ScaleRL, arXiv:2510.13786. mask [B, T] -> weights [B, T]
    """

    def weights(self, mask: Tensor, groups: Tensor, totals: Totals, like: Tensor) -> Tensor:
        counts = like.new_tensor([max(totals.group_tokens[group], 1) for group in groups.tolist()])
        return mask.to(like.dtype) / (counts[:, None] * max(totals.groups, 1))

    def __repr__(self) -> str:
        return "prompt_mean"


@dataclass(frozen=True, config=STRICT)
class SequenceSum:
    """1/N Σᵢ Σ_t: the log-probability of a completion is the sum over its tokens

    VESPO, arXiv:2602.10693; RLOO. mask [B, T] -> weights [B, T]
    """

    empty: Empty = "counted"
    """completions without a token that counts: counted in N or excluded"""

    def weights(self, mask: Tensor, groups: Tensor, totals: Totals, like: Tensor) -> Tensor:
        return mask.to(like.dtype) / sequences(totals, self.empty)

    def __repr__(self) -> str:
        return "sequence_sum" + "(empty excluded)" * (self.empty == "excluded")


@dataclass(frozen=True, config=STRICT)
class Constant:
    """1/(N L) Σᵢ Σ_t, L = max_completion_tokens: no division by a length that the policy chose

    Dr. GRPO, arXiv:2503.20783 §3.2. L is the generation budget, not the longest completion at hand, or the scale would
    drift. The loss is smaller by mean length / L, so the learning rate wants tuning. mask [B, T] -> weights [B, T]
    """

    empty: Empty = "counted"
    """completions without a token that counts: counted in N or excluded"""

    def weights(self, mask: Tensor, groups: Tensor, totals: Totals, like: Tensor) -> Tensor:
        return mask.to(like.dtype) / (sequences(totals, self.empty) * totals.max_completion_tokens)

    def __repr__(self) -> str:
        return "constant" + "(empty excluded)" * (self.empty == "excluded")
