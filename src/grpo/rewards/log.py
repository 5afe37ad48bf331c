"""What reward functions say beside their scores: columns of the sample table, metrics, counts of what went wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from statistics import fmean
from typing import Any

from grpo.data import Rollout
from grpo.errors import UserError


@dataclass(frozen=True)
class TrainerState:
    """`trainer_state` of a reward function: how far the run is, under the names of transformers' TrainerState."""

    global_step: int = 0  # steps that are finished
    max_steps: int = -1  # steps of the run; −1 where a token budget ends it


@dataclass
class RewardLog:
    """Of one step. means: name → values, averaged; counts: name → sum; columns: (group, sample) → column → value."""

    means: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    columns: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)

    def merge(self, other: RewardLog) -> None:
        """Add what another one holds."""
        for name, values in other.means.items():
            self.means.setdefault(name, []).extend(values)
        for name, value in other.counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + value
        for place, columns in other.columns.items():
            self.columns.setdefault(place, {}).update(columns)

    def metrics(self) -> dict[str, float]:
        """Metrics of the step by their names in metrics.jsonl."""
        return {**{name: fmean(values) for name, values in self.means.items()}, **self.counts}


@dataclass
class Voice:
    """`log_extra` and `log_metric` of one call of one function. Without a log (in evaluations) nothing is kept."""

    function: str
    rollouts: Sequence[Rollout]
    log: RewardLog | None

    def extra(self, column: str, values: Sequence[Any]) -> None:
        """One value per completion for a column of samples.jsonl."""
        values = values.tolist() if hasattr(values, "tolist") else list(values)  # pyright: ignore[reportAttributeAccessIssue]
        if len(values) != len(self.rollouts):
            raise UserError(
                f"reward.functions.{self.function}   log_extra({column!r}) got {len(values)} values for "
                f"{len(self.rollouts)} completions; give one each"
            )
        if self.log is not None:
            for rollout, value in zip(self.rollouts, values, strict=True):
                plain = value.item() if hasattr(value, "item") else value
                kept = plain if isinstance(plain, str | int | float | bool | None) else str(plain)
                kept = None if isinstance(kept, float) and not math.isfinite(kept) else kept
                self.log.columns.setdefault((rollout.group, rollout.sample), {})[str(column)] = kept

    def metric(self, name: str, value: Any) -> None:
        """A number of this batch; metrics.jsonl has the mean over the step's calls."""
        number = value.item() if hasattr(value, "item") else value
        if not isinstance(number, Real):
            raise UserError(f"reward.functions.{self.function}   log_metric({name!r}) got {value!r}; give a number")
        if self.log is not None:
            self.log.means.setdefault(metric_name(self.function, name), []).append(float(number))

    def count(self, counted: dict[str, float]) -> None:
        """What the function object has counted since the last call (`metrics()`)."""
        if self.log is not None:
            for name, value in counted.items():
                key = metric_name(self.function, name)
                self.log.counts[key] = self.log.counts.get(key, 0.0) + float(value)


def metric_name(function: str, name: str) -> str:
    """rewards/<function>/<name>; a slash would open another level, and `mean` is the reward's own."""
    plain = str(name).replace("/", "_")
    return f"rewards/{function}/{'logged_mean' if plain == 'mean' else plain}"
