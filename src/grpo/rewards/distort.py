"""Rewards bent on purpose: what advantages of ranks (+algo=gopo) or of each reward apart (+algo=gdpo) are for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.config.nodes import Float
from grpo.rewards.exact import text_of
from grpo.rewards.wrapped import Wrapped, prompt_key
from grpo.tasks.order import uniform

NotNegative = Annotated[Float, Field(ge=0.0)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Distorted(Wrapped):
    """r′ = s(q) · g(r) + noise · t_ν(q, o)

    g: r, r³ or exp(gain · r), all increasing: ranks stay, distances do not. s(q) = exp(spread · z), z ~ N(0, 1) hashed
    from (seed, prompt): prompts on scales of their own. t_ν: Student's t, hashed from (seed, prompt, completion): heavy
    tails, infinite variance for ν ≤ 2, Cauchy at ν = 1. The same completion always gets the same noise.
    """

    shape: Literal["none", "cube", "exp"] = "none"
    """g: none, cube (r³) or exp(gain · r)."""
    gain: Annotated[Float, Field(gt=0.0, le=100.0)] = 4.0
    """Gain of exp, (0, 100]."""
    spread: Annotated[Float, Field(ge=0.0, le=10.0)] = 0.0
    """Standard deviation of the log of a prompt's scale, [0, 10]; 0 leaves all prompts at 1."""
    noise: NotNegative = 0.0
    """Scale of the noise, ≥ 0; 0 is none."""
    tail: Annotated[Float, Field(ge=0.5)] = 1.5
    """ν, degrees of freedom of the noise, ≥ 0.5: the smaller the heavier."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Seed of scales and noise, ≥ 0."""

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; returns [B]."""
        values = self.inner({"prompts": prompts, "completions": completions, **columns})
        asked = [prompt_key(prompt) for prompt in prompts]
        return [
            None if value is None else self._bent(value, prompt, text_of(completion))
            for value, prompt, completion in zip(values, asked, completions, strict=True)
        ]

    def _bent(self, value: float, prompt: str, text: str) -> float:
        shaped = {"none": lambda: value, "cube": lambda: value**3, "exp": lambda: math.exp(self.gain * value)}
        scale = math.exp(self.spread * normal(self.seed, "scale", prompt)) if self.spread else 1.0
        added = self.noise * student_t(self.tail, self.seed, "noise", prompt, text) if self.noise else 0.0
        return scale * shaped[self.shape]() + added


def normal(*key: str | int) -> float:
    """z = √(−2 ln u) cos 2πv, Box & Muller 1958, with u, v hashed from the key."""
    u, v = _uniforms(*key)
    return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)


def student_t(df: float, *key: str | int) -> float:
    """t = √(ν (u^(−2/ν) − 1)) cos 2πv, Bailey 1994; finite, because u ≥ 2⁻⁵³."""
    u, v = _uniforms(*key)
    return math.sqrt(df * (u ** (-2.0 / df) - 1.0)) * math.cos(2.0 * math.pi * v)


def _uniforms(*key: str | int) -> tuple[float, float]:
    """u in (0, 1], v in [0, 1)."""
    return 1.0 - uniform(*key, "u"), uniform(*key, "v")
