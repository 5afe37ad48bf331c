"""Ratios: log ρ of each token, and what it divides by. [B, T] with gradient, clamped to ±20

Anchor `old` is the policy before this step's updates; `rollout` is the engine's log μ. On the first update of a step
log π_old is log π.detach(), so that ρ is exactly 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, Anchor, anchored, bounded, sequence_mean, sequence_sum

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
        return bounded(tokens.logp - self.base(tokens))

    def base(self, tokens: Tokens) -> Tensor:
        """What ρ divides by, log π_old or log μ, [B, T]."""
        return anchored(tokens, self.anchor, "ratio")

    @property
    def inert(self) -> str:
        """Nothing: what ρ = 1 leaves without effect is the surrogate's to say."""
        return ""

    def __repr__(self) -> str:
        return "token ratio" + " to the rollout" * (self.anchor == "rollout")


@dataclass(frozen=True, config=STRICT)
class SequenceRatio:
    """log sᵢ = 1/|oᵢ| Σ_t (log π − log π_anchor), the same for every token of a completion

    GSPO, Zheng et al., arXiv:2507.18071 eq. 7. form=token is GSPO-token (eq. 14), s_it = sg[sᵢ] · π / sg[π]: equal
    value, but each token keeps its own gradient, so that its advantage may differ. An empty completion has s = 1.
    logp [B, T] -> log s [B, T]
    """

    anchor: Anchor = "old"
    """denominator of s: old | rollout"""
    form: Literal["sequence", "token"] = "sequence"
    """sequence: gradient sᵢ/|oᵢ| on every token; token: sᵢ on the token's own log π"""

    def __call__(self, tokens: Tokens) -> Tensor:
        gap = tokens.logp - self.base(tokens)
        mean = bounded(sequence_mean(bounded(gap), tokens.mask))
        if self.form == "token":
            return mean.detach() + tokens.logp - tokens.logp.detach()
        return mean.expand_as(gap)

    def base(self, tokens: Tokens) -> Tensor:
        """What the ratio divides by, log π_old or log μ, [B, T]."""
        return anchored(tokens, self.anchor, "ratio")

    @property
    def inert(self) -> str:
        """Nothing to tell s from ρ while both are 1."""
        return "sequence ratio"

    def __repr__(self) -> str:
        name = "sequence ratio" + " (token form)" * (self.form == "token")
        return name + " to the rollout" * (self.anchor == "rollout")


@dataclass(frozen=True, config=STRICT)
class SequenceProduct:
    """log Wᵢ = Σ_t (log π − log π_anchor), the exact importance weight of the whole completion

    VESPO, Shen et al., arXiv:2602.10693 eq. 20. Unbiased; its variance grows with length. logp [B, T] -> log W [B, T]
    """

    anchor: Anchor = "old"
    """denominator of W: old | rollout"""

    def __call__(self, tokens: Tokens) -> Tensor:
        gap = tokens.logp - self.base(tokens)
        return bounded(sequence_sum(bounded(gap), tokens.mask)).expand_as(gap)

    def base(self, tokens: Tokens) -> Tensor:
        """What the ratio divides by, log π_old or log μ, [B, T]."""
        return anchored(tokens, self.anchor, "ratio")

    @property
    def inert(self) -> str:
        """Nothing to tell W from ρ while both are 1."""
        return "sequence product"

    def __repr__(self) -> str:
        return "sequence product" + " to the rollout" * (self.anchor == "rollout")


@dataclass(frozen=True, config=STRICT)
class NoRatio:
    """log ρ = log π − sg[log π]: ρ is 1 at every update, with the gradient of log π

    REINFORCE, Williams (1992): the samples are taken to be the current policy's. logp [B, T] -> [B, T]
    """

    anchor = "old"
    inert = ""

    def __call__(self, tokens: Tokens) -> Tensor:
        return tokens.logp - self.base(tokens)

    def base(self, tokens: Tokens) -> Tensor:
        """What ρ divides by, sg[log π], [B, T]."""
        return tokens.logp.detach()

    def __repr__(self) -> str:
        return "no ratio"
