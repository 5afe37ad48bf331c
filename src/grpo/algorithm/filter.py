"""Filters: which groups are worth a step, and which completions of a group enter the loss.

`keep(scores)`  group id -> worth keeping; a filter that `resamples` is refilled until the step is full
`rows(scores)`  [B] bool, completions that may enter the loss
`solved_at`     pass rate from which a question is not asked again, or None
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, moments, number, varies

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Scores


@dataclass(frozen=True, config=STRICT)
class NoFilter:
    """Every group and every scored completion counts."""

    resamples = False
    solved_at = None

    def keep(self, scores: Scores) -> dict[int, bool]:
        return dict.fromkeys(scores.groups.tolist(), True)

    def rows(self, scores: Scores) -> Tensor:
        return scores.scored

    def __repr__(self) -> str:
        return "no filter"


@dataclass(frozen=True, config=STRICT)
class MixedGroups:
    """Keep groups with 0 < #right < G, draw new prompts for the others

    Dynamic sampling, DAPO, arXiv:2503.14476 eq. 11 (by accuracy). By reward it is the chapter's "groups whose
    rewards are all equal", which keeps an all-wrong group as soon as a length punishment makes its rewards differ.
    """

    resamples = True

    by: Literal["accuracy", "reward"] = "accuracy"
    """what has to differ within a group: right or wrong, or the total reward with all shaping"""
    max_rounds: Annotated[int, Field(ge=1)] = 10
    """rounds of sampling per step, the first included"""
    when_exhausted: Literal["train", "skip", "stop"] = "train"
    """after max_rounds without enough groups: train on those there are, skip the step, or stop the run"""
    solved_at: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """pass rate of a group from which its question is not asked again in this run; null asks every question"""

    def keep(self, scores: Scores) -> dict[int, bool]:
        values = scores.accuracy if self.by == "accuracy" else scores.total
        mean, sigma, _ = moments(values, scores.groups, ~values.isnan())
        return dict(zip(scores.groups.tolist(), varies(sigma, mean).tolist(), strict=True))

    def rows(self, scores: Scores) -> Tensor:
        keep = self.keep(scores)
        return scores.scored & scores.scored.new_tensor([keep[group] for group in scores.groups.tolist()])

    def __repr__(self) -> str:
        rounds = f"≤ {self.max_rounds} round{'s' * (self.max_rounds > 1)}"
        solved = "" if self.solved_at is None else f", solved at {number(self.solved_at)}"
        return f"mixed_groups(by {self.by}, {rounds}, then {self.when_exhausted}{solved})"


@dataclass(frozen=True, config=STRICT)
class TopK:
    """Keep the k completions of each group with the highest reward, ties by lower index

    Rejection sampling, table 7.1 of the chapter; RAFT, Dong et al., arXiv:2304.06767. Advantages come from the whole
    group: on the kept ones, which are all right, a z-score would be 0/0. rewards [B, R] -> [B]
    """

    resamples = False
    solved_at = None

    k: Annotated[int, Field(ge=1)] = 2
    """completions kept per group; k ≥ group_size keeps every scored one"""

    def keep(self, scores: Scores) -> dict[int, bool]:
        return dict.fromkeys(scores.groups.tolist(), True)

    def rows(self, scores: Scores) -> Tensor:
        total, index = scores.total, scores.groups.new_ones(scores.groups.shape).cumsum(0)
        rivals = (scores.groups[:, None] == scores.groups) & scores.scored
        ahead = (total > total[:, None]) | (total == total[:, None]) & (index < index[:, None])
        return scores.scored & ((rivals & ahead).sum(dim=1) < self.k)

    def __repr__(self) -> str:
        return f"top_k({self.k})"
