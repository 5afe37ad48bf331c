"""The second endpoint: the share of runs that failed by themselves (diverged or collapsed). Always exploratory.

    share       exact interval of Clopper and Pearson (1934)
    paired      McNemar's exact test over the blocks that both have: of the blocks in which just one of the two failed,
                how many were the arm's (a fair coin if the arms fail alike)
    unpaired    Fisher's exact test of the two shares, which uses the other blocks too and ignores the pairs

Neither is adjusted for the number of arms: with ten blocks one arm must fail at least six times more to be noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from grpo.errors import UserError
from grpo.report.verdict import p_text


@dataclass(frozen=True)
class FailureShare:
    """How many of an arm's runs failed, and whether that differs from the baseline."""

    arm: str
    failed: int
    runs: int
    low: float
    high: float
    """Clopper–Pearson interval of the share; [0, 1] without a run."""
    p_mcnemar: float | None = None
    """None for the baseline itself and without a common block."""
    p_fisher: float | None = None

    @property
    def sentence(self) -> str:
        """no_upper: 2 of 10 runs failed [3 %, 56 %]; against the baseline McNemar p .500 (exploratory)"""
        words = f"{self.arm}: {self.failed} of {self.runs} runs failed [{self.low:.0%}, {self.high:.0%}]"
        words = words.replace("%", " %")
        if self.p_mcnemar is None:
            return words
        return f"{words}; against the baseline McNemar p {p_text(self.p_mcnemar)} (exploratory)"


def failure_shares(
    failed: Mapping[str, Mapping[int, bool]], baseline: str, alpha: float = 0.05
) -> tuple[FailureShare, ...]:
    """The arms' shares in the order given; failed: arm → seed → did the run fail, results only (missing is absent)."""
    if baseline not in failed:
        raise UserError(f"baseline   there is no arm {baseline!r}; the arms are {', '.join(failed) or 'none'}")
    return tuple(_share(arm, runs, failed[baseline], arm == baseline, alpha) for arm, runs in failed.items())


def _share(arm: str, ours: Mapping[int, bool], theirs: Mapping[int, bool], itself: bool, alpha: float) -> FailureShare:
    count, n = sum(ours.values()), len(ours)
    if not n:
        return FailureShare(arm, 0, 0, 0.0, 1.0)
    interval = stats.binomtest(count, n).proportion_ci(confidence_level=1 - alpha, method="exact")
    low, high = float(interval.low), float(interval.high)
    both = ours.keys() & theirs.keys()
    if itself or not both:
        return FailureShare(arm, count, n, low, high)
    only_ours = sum(ours[s] and not theirs[s] for s in both)
    only_theirs = sum(theirs[s] and not ours[s] for s in both)
    apart = only_ours + only_theirs
    mcnemar = float(stats.binomtest(only_ours, apart).pvalue) if apart else 1.0
    count_base = sum(theirs.values())
    table = [[count, n - count], [count_base, len(theirs) - count_base]]
    fisher = np.asarray(stats.fisher_exact(table))[1]
    return FailureShare(arm, count, n, low, high, mcnemar, float(fisher))
