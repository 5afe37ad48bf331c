"""Rewards on several ranks: rank 0 computes them, as in one process, and the others are told.

Not in shares: a reward function may look at all completions it is given (its `log_metric` mostly does), count its
calls, ask a service with a rate limit or fill the machine with worker processes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpo.data import Prompt, Rollout, Scores
from grpo.ranks.ranks import Ranks
from grpo.rewards.log import RewardLog


class SharedScorer:
    """Wraps this rank's `Scorer`; all that is not `score` is the scorer's own."""

    def __init__(self, scorer: Any, ranks: Ranks) -> None:
        self.scorer, self.ranks = scorer, ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self.scorer, name)

    def score(
        self, prompts: Sequence[Prompt], rollouts: Sequence[Rollout], *, step: int = 0, log: RewardLog | None = None
    ) -> Scores:
        """See `Scorer.score`."""

        def work() -> tuple[Scores, RewardLog]:
            said = RewardLog()
            return self.scorer.score(prompts, rollouts, step=step, log=None if log is None else said), said

        scores, said = self.ranks.once(work)
        if log is not None:
            log.merge(said)
        return scores


def shared(scorer: Any, ranks: Ranks) -> Any:
    """The scorer itself where there is one rank."""
    return scorer if ranks.world == 1 else SharedScorer(scorer, ranks)
