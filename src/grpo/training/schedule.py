"""The learning rate as a pure function of where the run is."""

from __future__ import annotations

import math
from typing import Any


def learning_rate(config: Any, *, step: int, generated_tokens: int, total_steps: int | None) -> float:
    """lr · warm-up · decay at the start of a step (0, 1, 2, …).

    Warm-up: (step + 1) / warmup_steps until it reaches 1. Decay over the rest of the run, counted in steps or, with
    schedule.unit=tokens, in generated tokens of the budget: constant 1, linear 1 → floor, or cosine
    floor + (1 − floor)·½(1 + cos πx).
    """
    schedule, peak = config.schedule, config.optimizer.lr
    warmup = min(1.0, (step + 1) / schedule.warmup_steps) if schedule.warmup_steps else 1.0
    if schedule.kind == "constant":
        return peak * warmup
    if schedule.unit == "tokens":
        progress = generated_tokens / config.budget.generated_tokens
    else:
        assert total_steps is not None, "the configuration check lets no decay in steps through without an end"
        progress = (step - schedule.warmup_steps) / max(1, total_steps - schedule.warmup_steps)
    progress = min(1.0, max(0.0, progress))
    shape = 1 - progress if schedule.kind == "linear" else 0.5 * (1 + math.cos(math.pi * progress))
    return peak * warmup * (schedule.floor + (1 - schedule.floor) * shape)
