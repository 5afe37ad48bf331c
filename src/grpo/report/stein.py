"""`seeds: auto`: how many blocks, in two stages (Stein 1945), so that the interval keeps its coverage.

    stage 1   n₀ blocks; s² of each arm's paired differences, n₀ − 1 degrees of freedom
    N       = max(n₀, ⌈ max over arms  t(1 − α/2m, n₀ − 1)² s² / margin² ⌉)
    stage 2   blocks up to N; interval  d̄_N ± t(1 − α/2m, n₀ − 1) s / √N      half-width ≤ margin, by construction

The trap is the interval of the second stage. The number of blocks was chosen by the first stage's spread, so a sweep
stops early just where that spread came out small; an ordinary t over all N blocks would use that luck again and cover
too little (92 % after a first stage of three or six: `report.simulate`). With s² and degrees of freedom *from the
first stage alone*, and the mean of all blocks, t is exactly Student's: of normal differences the mean is independent of
s², whatever N(s²) is; with several arms likewise, since all arms' means are independent of all arms' variances.
`compare(first_stage=…)` computes it so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil, isfinite

import numpy as np

from grpo.errors import UserError
from grpo.report.simultaneous import paired_t, quantile

MOST = 200
"""Blocks that seeds=auto goes up to; more is a decision for a person, and the verdict may stay open."""


def stein(
    differences: Mapping[str, Sequence[float]], margin: float, alpha: float = 0.05, arms: int | None = None
) -> int:
    """Blocks in total for simultaneous intervals of half-width ≤ margin, from the first stage's differences.

    differences   arm → arm − baseline, one per block of the first stage
    arms          m: arms that α is shared over; those of `differences` if not given

    At least the first stage's blocks. UserError with fewer than two blocks in an arm or without a margin.
    """
    if not (margin > 0 and isfinite(margin)):
        raise UserError(f"margin   seeds=auto needs the smallest difference that matters; {margin:g} is none")
    family = arms or len(differences)
    most = 0
    for arm, d in differences.items():
        if len(d) < 2:
            raise UserError(f"seeds   {arm} has {len(d)} blocks in its first stage; auto needs at least 2, better 10")
        if not np.isfinite(d).all():
            raise UserError(f"{arm}   a difference of the first stage is not a number; leave that block out")
        variance = len(d) * float(paired_t(d).error) ** 2
        needed = variance * (quantile(alpha, family, len(d) - 1) / margin) ** 2
        most = max(most, len(d), ceil(needed * (1 - 1e-12)))
    if not most:
        raise UserError("seeds   there is no arm beside the baseline; auto has nothing to compare")
    return most


def second_stage(
    scores: Mapping[str, Mapping[int, float]], baseline: str, first: Collection[int], margin: float
) -> int | None:
    """`stein` on the pairs that each arm of `scores` and the baseline have in the first stage, whose seeds are `first`.

    None where there is no arm to compare, or one with fewer than two pairs.
    """
    base = scores.get(baseline, {})
    pairs = {
        arm: [ours[seed] - base[seed] for seed in first if seed in ours and seed in base]
        for arm, ours in scores.items()
        if arm != baseline
    }
    return stein(pairs, margin) if pairs and min(map(len, pairs.values())) > 1 else None


def stein_interval(
    differences: Sequence[float], first: int, alpha: float = 0.05, arms: int = 1
) -> tuple[float, float, float]:
    """Mean and simultaneous interval after the second stage: (mean, low, high).

    differences   of all N blocks, those of the first stage leading
    first         n₀, the blocks of the first stage: they alone give the variance and the degrees of freedom
    """
    paired = paired_t(differences, first)
    half = quantile(alpha, arms, first - 1) * float(paired.error)
    return float(paired.mean), float(paired.mean) - half, float(paired.mean) + half
