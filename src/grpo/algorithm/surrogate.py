"""Surrogates: the objective J of each token, to be maximised. [B, T]

They differ only in the weight w = ∂J/∂log π that they give a token's log-probability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, number

LOG_FLOOR = -18.420680743952367  # ln 1e-8, the smallest log W of VESPO's code

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens


@dataclass(frozen=True, config=STRICT)
class Clip:
    """J = min(ρ A, clip(ρ, 1 − low, 1 + high) A)

    PPO, arXiv:1707.06347 eq. 7; high > low is DAPO's clip-higher, arXiv:2503.14476 eq. 8. The chapter's clip_DAPO gives
    the same numbers for every A: of the two bounds the outer min always picks the one of A's sign.
    log ρ [B, T], A [B, T] -> J [B, T]
    """

    low: Annotated[float, Field(ge=0.0)] = 0.2
    """ε_low: with A < 0 a token stops learning below ρ = 1 − low"""
    high: Annotated[float, Field(ge=0.0)] = 0.2
    """ε_high: with A > 0 a token stops learning above ρ = 1 + high; inf removes the bound"""
    dual_c: Annotated[float, Field(gt=1.0)] | None = None
    """for A < 0, J ≥ c·A bounds what one token can do (verl: 3); null: no bound"""
    delta: Annotated[float, Field(gt=0.0)] | None = None
    """the unclipped branch uses min(ρ, delta) (INTELLECT-2's two-sided clip); null: ρ"""

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        ratio = log_ratio.exp()
        free = ratio if self.delta is None else ratio.clamp(max=self.delta)
        clipped = ratio.clamp(min=1.0 - self.low, max=1.0 + self.high)
        value = (free * advantages).minimum(clipped * advantages)
        if self.dual_c is None:
            return value
        return value.maximum(self.dual_c * advantages).where(advantages < 0, value)

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Tokens without gradient because ρ left [1 − low, 1 + high] in the direction A pushes, [B, T] bool."""
        ratio = log_ratio.exp()
        top = min(self.dual_c or float("inf"), self.delta or float("inf"))
        high = (advantages > 0) & (ratio > 1.0 + self.high) | (advantages < 0) & (ratio > top)
        return {"clip_low": (advantages < 0) & (ratio < 1.0 - self.low), "clip_high": high}

    @property
    def inert(self) -> str:
        """What does nothing while ρ = 1."""
        return "clip"

    def __repr__(self) -> str:
        extras = [f"{name}={number(v)}" for name, v in (("dual_c", self.dual_c), ("delta", self.delta)) if v]
        return f"clip({', '.join([number(self.low), number(self.high), *extras])})"


@dataclass(frozen=True, config=STRICT)
class DetachedCap:
    """J = sg[clip(ρ, floor, cap)] A log π

    CISPO, MiniMax-M1, arXiv:2506.13585 eq. 4–5; ScaleRL, arXiv:2510.13786. Tokens beyond the cap keep learning, with
    weight cap·A, where `clip` gives them none. The value contains log π and does not compare between steps.
    log ρ, A, log π [B, T] -> J [B, T]
    """

    floor: Annotated[float, Field(ge=0.0)] = 0.0
    """smallest weight; 0: no lower bound, as published"""
    cap: Annotated[float, Field(gt=0.0)] = 5.0
    """largest weight. MiniMax prints no value; ScaleRL finds 4–8 alike; TRL's epsilon_high=5.0 is this cap"""

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        return log_ratio.detach().exp().clamp(min=self.floor, max=self.cap) * advantages * tokens.logp

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Tokens whose weight was capped, [B, T] bool; they still learn."""
        ratio = log_ratio.exp()
        return {"clip_low": ratio < self.floor, "clip_high": ratio > self.cap}

    @property
    def inert(self) -> str:
        """What does nothing while ρ = 1."""
        return "cap"

    def __repr__(self) -> str:
        return f"detached_cap({number(self.floor)}–{number(self.cap)})"


@dataclass(frozen=True, config=STRICT)
class SoftGate:
    """J = A · 4/τ · σ(τ (ρ − 1)), τ = tau_pos where A > 0, else tau_neg

    SAPO, Gao et al., arXiv:2511.20347 eq. 5–6. ∂J/∂ρ = A · 4 σ (1 − σ): 1 at ρ = 1 for any τ, and it decays on both
    sides, a soft trust region. Larger τ decays faster. log ρ, A [B, T] -> J [B, T]
    """

    tau_pos: Annotated[float, Field(gt=0.0)] = 1.0
    """τ for A > 0"""
    tau_neg: Annotated[float, Field(gt=0.0)] = 1.05
    """τ for A ≤ 0; larger than tau_pos in the paper, because negative tokens destabilise"""

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        tau = pick(advantages > 0, self.tau_pos, self.tau_neg, log_ratio)
        return advantages * (tau * log_ratio.expm1()).sigmoid() * 4.0 / tau

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Nothing is clipped."""
        return {}

    @property
    def inert(self) -> str:
        """What does nothing while ρ = 1."""
        return "soft gate"

    def __repr__(self) -> str:
        return f"soft_gate({number(self.tau_pos)}, {number(self.tau_neg)})"


@dataclass(frozen=True, config=STRICT)
class SoftGateChapter:
    """J = A ρ σ((ρ − 1)/τ₊) where A > 0, else A ρ σ((1 − ρ)/τ₋)

    The chapter's SAPO to the letter. τ divides, so it means the inverse of the published τ; the gate opens in the
    direction in which the policy moves; and for A < 0 the slope σ − ρσ(1 − σ)/τ₋ turns *negative* beyond ρ ≈ 1.63
    (τ₋ = 1.05), and everywhere near 1 for τ₋ < ½: descent then raises bad tokens. log ρ, A [B, T] -> J [B, T]
    """

    tau_pos: Annotated[float, Field(gt=0.0)] = 1.0
    """τ₊, for A > 0"""
    tau_neg: Annotated[float, Field(gt=0.0)] = 1.05
    """τ₋, for A ≤ 0; below ½ the gradient has the wrong sign at ρ = 1"""
    detach_gate: bool = False
    """stop the gradient of σ: the sign of the gradient is then always right"""

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        scale = pick(advantages > 0, 1.0 / self.tau_pos, -1.0 / self.tau_neg, log_ratio)
        gate = (scale * log_ratio.expm1()).sigmoid()
        return advantages * (gate.detach() if self.detach_gate else gate) * log_ratio.exp()

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Nothing is clipped."""
        return {}

    @property
    def unsafe(self) -> str:
        """Why this runs at one's own risk."""
        if self.detach_gate:
            return ""
        where = "already at ρ = 1" if self.tau_neg < 0.5 else "for large ρ (beyond 1.63 at τ₋ = 1.05)"
        return f"soft_gate_chapter: wrong sign of the gradient for A < 0 {where}; published: surrogate=soft_gate"

    inert = ""  # its gate halves the gradient even at ρ = 1

    def __repr__(self) -> str:
        return f"soft_gate_chapter({number(self.tau_pos)}, {number(self.tau_neg)})"


@dataclass(frozen=True, config=STRICT)
class Kernel:
    """J = sg[φ(W)] A log π, φ(W) = W^k exp(λ (1 − W)); (k, λ) by the sign of A

    VESPO, Shen et al., arXiv:2602.10693 eq. 20: φ(1) = 1, W^k damps W ≪ 1 and the exponential W ≫ 1 (the chapter says
    it the other way round), with the peak at W = k/λ. Made for ratio=sequence_product. The chapter has one (k, λ) for
    both signs. log W, A, log π [B, T] -> J [B, T]
    """

    k_pos: Annotated[float, Field(ge=0.0)] = 2.0
    """k for A ≥ 0"""
    lam_pos: Annotated[float, Field(ge=0.0)] = 3.0
    """λ for A ≥ 0"""
    k_neg: Annotated[float, Field(ge=0.0)] = 3.0
    """k for A < 0"""
    lam_neg: Annotated[float, Field(ge=0.0)] = 2.0
    """λ for A < 0"""
    detach: bool = True
    """false: J = A φ(W)/|o|, differentiated; at W = 1 its slope is k − λ = −1 for (2, 3), the wrong sign"""

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        phi = self.weight(log_ratio.clamp(min=LOG_FLOOR), advantages)
        if not self.detach:
            return advantages * phi / tokens.mask.sum(dim=1, keepdim=True).clamp(min=1)
        return phi.detach() * advantages * tokens.logp

    def weight(self, log_ratio: Tensor, advantages: Tensor) -> Tensor:
        """φ, in log space until the last moment: W^k overflows where e^{−λW} would have won."""
        k = pick(advantages >= 0, self.k_pos, self.k_neg, log_ratio)
        lam = pick(advantages >= 0, self.lam_pos, self.lam_neg, log_ratio)
        return (k * log_ratio - lam * log_ratio.expm1()).exp()

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Nothing is clipped."""
        return {}

    @property
    def unsafe(self) -> str:
        """Why this runs at one's own risk."""
        return "" if self.detach else "kernel: differentiated, φ's slope k − λW has the wrong sign at W = 1 for (2, 3)"

    @property
    def inert(self) -> str:
        """What does nothing while W = 1."""
        return "kernel" if self.detach else ""

    def __repr__(self) -> str:
        pairs = f"{number(self.k_pos)}, {number(self.lam_pos)} | {number(self.k_neg)}, {number(self.lam_neg)}"
        return f"kernel({pairs})" + ", differentiated" * (not self.detach)


@dataclass(frozen=True, config=STRICT)
class Reinforce:
    """J = A log π

    Williams (1992): the samples are taken to be the current policy's, whatever the ratio says. A, log π [B, T] -> J
    [B, T]
    """

    inert = ""

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        return advantages * tokens.logp

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Nothing is clipped."""
        return {}

    def __repr__(self) -> str:
        return "reinforce"


def pick(condition: Tensor, yes: float, no: float, like: Tensor) -> Tensor:
    """`yes` where the condition holds, else `no`, in the dtype of `like`."""
    return like.new_full((), yes).where(condition, no)
