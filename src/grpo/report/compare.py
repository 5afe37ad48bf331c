"""The comparison of design: paired t over blocks, Holm for decisions, simultaneous intervals, exact sign flips beside.

    compare({"a": {0: .61, 1: .64, …}, "b": {…}}, baseline="a", margin=0.03).arms[0].sentence
    'b against a    +0.021 [+0.004, +0.038]   better (Holm p .012)'

A block is a seed: one number per arm and block enters, so training, question and sampling noise are all in the spread
between blocks, and what a block does to all its arms alike (prompts, test questions) cancels in the difference.
What the verdicts mean and how often they can be wrong stands in `verdict`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from grpo.errors import UserError
from grpo.report.contrast import FEWEST, Contrast, Pairs, Rule, Scores, correlation
from grpo.report.simultaneous import holm

__all__ = ["FEWEST", "Comparison", "Contrast", "Scores", "compare", "correlation", "mean_correlation"]


@dataclass(frozen=True)
class Comparison:
    """All arms against the baseline."""

    baseline: str
    arms: tuple[Contrast, ...]
    """In the order of the scores, without the baseline."""
    planned: int | None
    complete: int
    """Blocks that every compared arm and the baseline have."""
    alpha: float
    margin: float | None
    interim: str | None
    exploratory: str | None
    correlation: float | None = None
    """Mean of Pearson's r over all pairs of different arms: how much the blocks share."""
    family: int = field(default=0, kw_only=True)
    """m: arms that α is shared over; copies of another arm are none."""

    @property
    def level(self) -> float:
        """Confidence of each single interval: 1 − α/m."""
        return 1 - self.alpha / max(1, self.family)

    def contrast(self, arm: str) -> Contrast:
        """The contrast of `arm`; KeyError without one."""
        return {contrast.arm: contrast for contrast in self.arms}[arm]


def compare(
    scores: Scores,
    baseline: str,
    *,
    margin: float | None = None,
    alpha: float = 0.05,
    planned: int | None = None,
    interim: str | None = None,
    active: Mapping[str, bool | None] | None = None,
    same: Mapping[str, str] | None = None,
    exploratory: str | None = None,
    first_stage: Collection[int] = (),
) -> Comparison:
    """Compare every arm with the baseline over the blocks that both have.

    scores        arm → seed → endpoint (higher is better); what is absent is missing, an arm without runs is {}
    margin        the smallest difference that matters; without it nothing is called equivalent
    planned       blocks declared; fewer or more complete ones make every verdict "interim", as does `interim` (why)
    active        arm → did its mechanism act; only False counts, it gives "not tested"
    same          arm → the arm that it equals; it takes no share of α
    exploratory   why there is no verdict at all
    first_stage   seeds of the first stage of `seeds: auto`: they alone give the variance (see `stein`)

    An arm that is "not tested" or has too few blocks keeps its share of α: whether it acted is known only afterwards.
    Precedence: same algorithm, exploratory, interim, not tested, too few blocks (< 6), then the rule of `verdict`.
    UserError for a score that is no number, an unknown baseline, a margin or an α that cannot be.
    """
    _check(scores, baseline, margin, alpha)
    arms = [arm for arm in scores if arm != baseline]
    copies = _copies(arms, baseline, same or {})
    tested = [arm for arm in arms if arm not in copies]
    complete = len(set.intersection(*(set(scores[arm]) for arm in (baseline, *tested))))
    interim = interim or _interim(complete, planned)
    pairs = {arm: Pairs.of(scores, arm, baseline, first_stage) for arm in arms}
    adjusted = holm([pairs[arm].p for arm in tested])
    p_holm = dict(zip(tested, adjusted.tolist(), strict=True))
    rule = Rule(baseline, margin, alpha, max(1, len(tested)), interim, exploratory, copies, active or {})
    return Comparison(
        baseline=baseline,
        arms=tuple(rule.contrast(arm, pairs[arm], p_holm.get(arm)) for arm in arms),
        planned=planned,
        complete=complete,
        alpha=alpha,
        margin=margin,
        interim=interim,
        exploratory=exploratory,
        correlation=mean_correlation({arm: scores[arm] for arm in (baseline, *tested)}),
        family=len(tested),
    )


def mean_correlation(scores: Scores) -> float | None:
    """Mean of r over all pairs of arms, each over the blocks that the two have; None where no pair has one."""
    found = []
    for left, right in combinations(scores.values(), 2):
        seeds = sorted(left.keys() & right.keys())
        found.append(correlation([left[s] for s in seeds], [right[s] for s in seeds]))
    known = [r for r in found if r is not None]
    return float(np.mean(known)) if known else None


def _check(scores: Scores, baseline: str, margin: float | None, alpha: float) -> None:
    if baseline not in scores:
        raise UserError(f"baseline   there is no arm {baseline!r}; the arms are {', '.join(scores) or 'none'}")
    if margin is not None and not (margin > 0 and math.isfinite(margin)):
        raise UserError(f"margin   {margin:g} is no difference that matters; give a number above 0, or none")
    if not 0 < alpha < 1:
        raise UserError(f"alpha   {alpha:g} is no error rate; give a number between 0 and 1, usually 0.05")
    for arm, by_seed in scores.items():
        for seed, score in by_seed.items():
            if not math.isfinite(score):
                raise UserError(
                    f"{arm}   the score of seed {seed} is {score:g}, not a number; leave the run out as missing, "
                    "or give its last score if it diverged"
                )


def _copies(arms: list[str], baseline: str, same: Mapping[str, str]) -> dict[str, str]:
    """Arm → the arm that it is a copy of; of two arms that name each other the first one is the original."""
    copies: dict[str, str] = {}
    for arm in arms:
        other = same.get(arm) or (baseline if same.get(baseline) == arm else None)
        if other is not None and other != arm and copies.get(other) != arm:
            copies[arm] = other
    return copies


def _interim(complete: int, planned: int | None) -> str | None:
    """Why a sweep that declared `planned` blocks is unfinished or enlarged; None if it is neither."""
    if planned is None or complete == planned:
        return None
    if complete < planned:
        return f"{complete} of {planned} blocks are complete"
    return f"{complete} blocks where {planned} were declared"
