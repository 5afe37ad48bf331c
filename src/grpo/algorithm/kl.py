"""KL penalties against the reference policy: per token, [B, T], with gradient; estimates k1, k2, k3, or exact

d = log π_ref − log π. Under samples of π, E[k1] = E[k3] = KL(π‖π_ref); k2 is biased. In the loss their *gradients*
differ, in expectation and on-policy: k1's is zero, k2's the reverse KL's, k3's the forward KL's. In the reward they
are detached, and k1 is the one whose policy gradient is the reverse KL's. The exact one sums over the vocabulary: no
estimate, the reverse KL's gradient at every token, at the price of the reference's logits in every update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, bounded, needed, number

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens

Place = Literal["loss", "reward"]


def reference_gap(tokens: Tokens) -> Tensor:
    """d = log π_ref − log π, clamped to ±20, [B, T]."""
    return bounded(needed(tokens.logp_ref, "logp_ref", "kl") - tokens.logp)


@dataclass(frozen=True, config=STRICT)
class NoKL:
    """No penalty, and no reference model is loaded."""

    coef = 0.0
    place = "loss"
    exact = False

    def __call__(self, tokens: Tokens) -> Tensor:
        return tokens.logp.new_zeros(tokens.logp.shape)

    def __repr__(self) -> str:
        return "no KL"


@dataclass(frozen=True, config=STRICT)
class K1:
    """k1 = log π − log π_ref; unbiased, of either sign

    In the loss its gradient ∇log π has mean zero under π: noise, no penalty. Put it in the reward.
    Schulman, "Approximating KL divergence" (2020). logp, logp_ref [B, T] -> [B, T]
    """

    exact = False

    coef: Annotated[float, Field(ge=0.0)] = 0.04
    """β, per token; 0 loads no reference model"""
    place: Place = "loss"
    """loss: β·k per token beside J; reward: −β·Σ_t k, detached, before the advantages"""

    def __call__(self, tokens: Tokens) -> Tensor:
        return -reference_gap(tokens)

    def __repr__(self) -> str:
        return f"{number(self.coef)}·k1 in the {self.place}"


@dataclass(frozen=True, config=STRICT)
class K2:
    """k2 = ½ (log π − log π_ref)²; biased value, gradient (log π − log π_ref)·∇log π of the reverse KL

    Schulman (2020). logp, logp_ref [B, T] -> [B, T]
    """

    exact = False

    coef: Annotated[float, Field(ge=0.0)] = 0.04
    """β, per token; 0 loads no reference model"""
    place: Place = "loss"
    """loss: β·k per token beside J; reward: −β·Σ_t k, detached, before the advantages"""

    def __call__(self, tokens: Tokens) -> Tensor:
        return 0.5 * reference_gap(tokens).square()

    def __repr__(self) -> str:
        return f"{number(self.coef)}·k2 in the {self.place}"


@dataclass(frozen=True, config=STRICT)
class K3:
    """k3 = exp(d) − d − 1, d = log π_ref − log π; unbiased and never negative, gradient (1 − exp d)·∇log π

    GRPO, arXiv:2402.03300 eq. 4. logp, logp_ref [B, T] -> [B, T]
    """

    exact = False

    coef: Annotated[float, Field(ge=0.0)] = 0.04
    """β, per token (GRPO 0.04, DeepSeek-R1 0.001); 0 loads no reference model"""
    place: Place = "loss"
    """loss: β·k per token beside J; reward: −β·Σ_t k, detached, before the advantages"""

    def __call__(self, tokens: Tokens) -> Tensor:
        d = reference_gap(tokens)
        return d.expm1() - d  # exp(d) − d − 1 is all rounding below |d| = 1e-8

    def __repr__(self) -> str:
        return f"{number(self.coef)}·k3 in the {self.place}"


@dataclass(frozen=True, config=STRICT)
class ExactKL:
    """KL(π‖π_ref) = Σ_v π(v)·(log π(v) − log π_ref(v)) of the next token, over the whole vocabulary

    Along the sampled completion: its mean over the tokens is the sequence's KL per token in expectation (chain rule).
    In the loss it lowers each position's own KL and does not see how a token changes later positions; k1 in the reward
    does. kl_exact [B, T] -> [B, T]
    """

    exact = True

    coef: Annotated[float, Field(ge=0.0)] = 0.04
    """β, per token; 0 loads no reference model"""
    place: Place = "loss"
    """loss: β·KL per token beside J; reward: −β·Σ_t KL, detached, before the advantages"""

    def __call__(self, tokens: Tokens) -> Tensor:
        return needed(tokens.kl_exact, "kl_exact", "kl=exact")

    def __repr__(self) -> str:
        return f"{number(self.coef)}·exact KL in the {self.place}"
