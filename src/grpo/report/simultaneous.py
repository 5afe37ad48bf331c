"""Paired differences over blocks: t, Holm, simultaneous intervals, sign flips. Every function works on the last axis.

    d [..., n]      differences arm − baseline, one per block
    t = d̄ / (s/√n),  s² with n − 1                            Student 1908
    Holm:  p₍ᵢ₎ → max_{j ≤ i} min(1, (m − j) p₍ⱼ₎), j = 0 …    Holm 1979; m arms
    interval:  d̄ ± t(1 − α/2m, n − 1) s/√n                    Bonferroni, all m at once with 1 − α

No bootstrap: with few blocks its "95 %" is far too narrow (`python -m grpo.report.simulate` shows by how much).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Floats = NDArray[np.float64]
EXACT_UP_TO = 20
"""Blocks up to which all 2ⁿ sign patterns are counted; 2¹⁹ sums take a few milliseconds."""
RESAMPLES = 99_999
MOST_BLOCKS = 1_000_000
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Paired:
    """Paired t of one or of many sets of differences; arrays [...] without the axis of blocks."""

    mean: Floats
    error: Floats
    """Standard error of the mean; 0 where all differences are equal."""
    dof: int
    p: Floats
    """Two-sided, never 0 by division: where the spread is zero it is the sign-flip test's 2/2ⁿ, or 1 at d̄ = 0."""


def paired_t(differences: ArrayLike, first: int | None = None) -> Paired:
    """Paired t over the last axis; at least two blocks.

    first: number of leading blocks that alone give the variance (Stein's first stage), with first − 1 degrees of
    freedom; the mean is that of all blocks.

    The trap: differences that are equal on paper differ by rounding (0.3 − 0.1, 0.5 − 0.3), and t becomes 10¹⁶. A
    spread below 10⁻¹² of the largest difference (or of 1, the scale of a score) is zero.
    """
    d = np.asarray(differences, dtype=float)
    n = d.shape[-1]
    staged = d if first is None else d[..., :first]
    if staged.shape[-1] < 2:
        raise ValueError(f"paired t: {staged.shape[-1]} blocks have no spread; give at least 2")
    largest = np.abs(d).max(axis=-1)
    flat = np.ptp(staged, axis=-1) <= _ROUNDING * np.maximum(largest, 1.0)
    none = largest <= _ROUNDING
    mean = np.where(none, 0.0, d.mean(axis=-1))
    error = np.where(flat, 0.0, staged.std(axis=-1, ddof=1) / np.sqrt(n))
    dof = staged.shape[-1] - 1
    t = mean / np.where(flat, 1.0, error)
    p = np.where(flat, np.where(mean == 0.0, 1.0, 2.0 ** (1 - n)), 2 * stats.t.sf(np.abs(t), dof))
    return Paired(mean, error, dof, p)


@lru_cache(maxsize=4096)
def quantile(alpha: float, family: int, dof: int) -> float:
    """t(1 − α/2m, dof): how many standard errors wide each of m simultaneous two-sided intervals is, to one side."""
    return float(stats.t.isf(alpha / (2 * family), dof))


def holm(p: ArrayLike) -> Floats:
    """Holm's adjusted p [..., m] over the last axis: the smallest times m, the next times m − 1, …, never falling."""
    p = np.asarray(p, dtype=float)
    m = p.shape[-1]
    order = np.argsort(p, axis=-1, kind="stable")
    stepped = np.take_along_axis(p, order, axis=-1) * np.arange(m, 0, -1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.minimum(1.0, np.maximum.accumulate(stepped, axis=-1)), axis=-1)
    return adjusted


def sign_flip(differences: ArrayLike) -> float:
    """Two-sided sign-flip test of d [n]: the share of the 2ⁿ sign patterns whose |Σ ± d| reaches |Σ d|, ties counted.

    Exact up to 20 blocks; above, scipy's permutation_test with 99,999 patterns from a fixed seed. It supposes only
    that a difference is as likely as its negative, and its smallest value is 2/2ⁿ.
    """
    d = np.asarray(differences, dtype=float)
    if d.size > EXACT_UP_TO:
        seed: dict[str, Any] = {"random_state": np.random.default_rng(0)}  # scipy ≥ 1.15 names it rng and takes both
        drawn = stats.permutation_test(
            (d,),
            lambda x, axis: np.abs(x.sum(axis=axis)),  # two-sided by the statistic
            permutation_type="samples",
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=2_000,
            alternative="greater",
            **seed,
        )
        return float(drawn.pvalue)
    sums = d[:1]  # the first sign stays: the other half of the patterns are the negatives, with equal |Σ|
    for value in d[1:]:
        sums = np.concatenate([sums + value, sums - value])
    # rounding must not break a tie
    return float(np.mean(np.abs(sums) >= abs(d.sum()) - _ROUNDING * np.abs(d).sum()))


def blocks_for(deviation: float, half: float, alpha: float, family: int) -> int:
    """Smallest n ≥ 2 with t(1 − α/2m, n − 1) s/√n ≤ half, for s = `deviation` of one difference; at most a million."""
    if half <= 0:
        raise ValueError(f"blocks_for: a half-width of {half:g} is reached by no number of blocks; give one above 0")

    def enough(n: int) -> bool:
        return quantile(alpha, family, n - 1) * deviation <= half * np.sqrt(n)

    low, high = 1, 2
    while not enough(high):
        if high >= MOST_BLOCKS:
            return MOST_BLOCKS
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def blocks_by_signs(alpha: float, family: int) -> int:
    """Smallest n at which equal differences are significant: m · 2/2ⁿ < α."""
    n = 1
    while family * 2.0 ** (1 - n) >= alpha:
        n += 1
    return n
