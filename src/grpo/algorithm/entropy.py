"""Entropy bonuses, from the exact entropy H of the tempered next-token distribution, [B, T]."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, number


@dataclass(frozen=True, config=STRICT)
class NoEntropy:
    """No bonus; entropy is recorded all the same."""

    coef = 0.0
    place = "loss"

    def __repr__(self) -> str:
        return "no entropy bonus"


@dataclass(frozen=True, config=STRICT)
class LossBonus:
    """loss −= coef · mean over all tokens of H, with gradient ∂H/∂z_j = −p_j (log p_j + H)

    Common practice (TRL entropy_coef, verl entropy_coeff).
    """

    place = "loss"

    coef: Annotated[float, Field(ge=0.0)] = 0.01
    """per token, in nats"""

    def __repr__(self) -> str:
        return f"{number(self.coef)}·entropy in the loss"


@dataclass(frozen=True, config=STRICT)
class RewardBonus:
    """rᵢ += coef · mean_t H_it, detached, before the advantages

    The chapter, table 7.1. After group normalisation only entropy *relative to the group* matters, and H itself gets no
    gradient: a nudge towards the more varied completions of a group.
    """

    place = "reward"

    coef: Annotated[float, Field(ge=0.0)] = 0.01
    """α, reward per nat of mean token entropy"""

    def __repr__(self) -> str:
        return f"{number(self.coef)}·entropy in the reward"
