"""Batches for the witness tests, in the layout of golden.json, and what our objective says of them."""

from __future__ import annotations

from typing import Any

import torch
from tests.algorithm.golden import Result, objective_of, run_batch
from torch import Tensor

BUDGET = 16
"""max_completion_tokens of these batches; TRL's max_completion_length."""

TRL_SIGMA = "advantage.ddof=1 advantage.eps=1e-4"
"""TRL's z-score: sample σ, 1e-4 added."""


def random_batch(seed: int, groups: int = 3, size: int = 4, width: int = 7, empty: bool = False) -> dict[str, Any]:
    """Unequal lengths 1 … width, two rewards with weights 1 and 0.7, a fifth of the completions truncated.

    Log ratios reach ±0.5 per token and the engine's gap ±0.4, so that every clip, cap and mask finds both kinds.
    """
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    rows = groups * size
    lengths = torch.randint(1, width + 1, (rows,), generator=generator)
    lengths[0] = width
    if empty:
        lengths[1] = 0
    logp = -0.1 - 2.5 * rand(rows, width)
    columns = {"logp": logp, "logp_ref": logp + rand(rows, width) - 0.5, "entropy": 0.1 + rand(rows, width)}
    columns["logp_old"] = logp + (rand(rows, width) - 0.5) * (0.2 + rand(rows, 1)) + 0.1 * (rand(rows, 1) - 0.5)
    columns["logp_rollout"] = columns["logp_old"] + 0.8 * (rand(rows, width) - 0.5)
    return {name: values.tolist() for name, values in columns.items()} | {
        "mask": (torch.arange(width) < lengths[:, None]).long().tolist(),
        "rewards_per_func": torch.stack([rand(rows).round(), rand(rows)], dim=1).tolist(),
        "reward_weights": [1.0, 0.7],
        "group_ids": [g for g in range(groups) for _ in range(size)],
        "truncated": [*(rand(rows) < 0.2).tolist()[:-1], True],
    }


def on_policy(batch: dict[str, Any]) -> dict[str, Any]:
    """The first update of a step: no log π_old, and an engine that measures itself against log π."""
    return {name: values for name, values in batch.items() if name != "logp_old"}


def take(batch: dict[str, Any], rows: slice) -> dict[str, Any]:
    """Some rows of a batch."""
    return {name: values if name == "reward_weights" else values[rows] for name, values in batch.items()}


def lengths(batch: dict[str, Any]) -> Tensor:
    """|o| of each completion, [B]."""
    return torch.tensor(batch["mask"], dtype=torch.float64).sum(dim=1)


def ours(words: str, batch: dict[str, Any]) -> Result:
    """Loss, gradient and advantages under the overrides of a command line, with nan in the padding."""
    objective, budget = objective_of((*words.split(), f"max_completion_tokens={BUDGET}"))
    columns = {name: values for name, values in batch.items() if name != "entropy"}
    return run_batch(objective, columns, budget, {"reward_weights": batch.get("reward_weights")}, poison=float("nan"))


def close(actual: Any, expected: Any) -> None:
    """Equal to nine digits."""
    actual, expected = (
        x.detach() if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64) for x in (actual, expected)
    )
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-12)
