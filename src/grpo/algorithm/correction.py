"""Corrections for the gap between the engine that samples (μ) and the trainer that scores (π_old). Detached, [B, T]

They multiply the policy term of a token, never its KL penalty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens


@dataclass(frozen=True, config=STRICT)
class NoCorrection:
    """w = 1: what the engine says of its samples is not read."""

    needs_rollout_logp = False

    def __call__(self, tokens: Tokens) -> Tensor | None:
        return None

    def __repr__(self) -> str:
        return "no correction"
