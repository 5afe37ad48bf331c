"""Expected share of dead groups at several group sizes, from the counts of a small sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal

from grpo.evaluation.statistics import Counts, dead_groups

FEWEST_PROMPTS = 8  # a spread between prompts cannot be fitted to fewer


@dataclass(frozen=True)
class DeadShare:
    """Expected share of groups, all right or all wrong, at one group size."""

    share: float
    how: Literal["counted", "fitted", "bound"]
    """counted: G ≤ n, unbiased; fitted: G > n, from the beta-binomial; bound: at most this."""

    def __str__(self) -> str:
        return {"counted": "", "fitted": "~", "bound": "≤"}[self.how] + f"{100 * self.share:.0f}"


def expected_dead(counts: Sequence[Counts], sizes: Sequence[int]) -> dict[int, DeadShare]:
    """Share of dead groups at each size G from per-prompt counts (n, c).

    G ≤ n    mean of [C(c,G) + C(n−c,G)] / C(n,G), unbiased for each prompt
    G > n    nobody can count it. With at least `FEWEST_PROMPTS` prompts: p ~ Beta(α, β) over prompts, fitted by maximum
             likelihood, E[p^G + (1−p)^G] = [B(α+G, β) + B(α, β+G)] / B(α, β), at most the share at G = n, because the
             share of dead groups falls with G for every p. With fewer prompts: that bound alone.
    """
    result: dict[int, DeadShare] = {}
    fit = None
    for size in sizes:
        counted = dead_groups(counts, size)
        if not counted.is_bound:
            result[size] = DeadShare(counted.share, "counted")
        elif len(counts) < FEWEST_PROMPTS:
            result[size] = DeadShare(counted.share, "bound")
        else:
            fit = fit or fit_beta(counts)
            result[size] = DeadShare(min(counted.share, dead_of_beta(*fit, size)), "fitted")
    return result


def dead_of_beta(alpha: float, beta: float, size: int) -> float:
    """E[p^G + (1−p)^G] for p ~ Beta(α, β); for the uniform (1, 1) it is 2/(G+1)."""
    from scipy.special import betaln

    whole = betaln(alpha, beta)
    return exp(betaln(alpha + size, beta) - whole) + exp(betaln(alpha, beta + size) - whole)


def fit_beta(counts: Sequence[Counts]) -> tuple[float, float]:
    """α, β that maximise Π B(c+α, n−c+β) / B(α, β) (Skellam 1948), the concentration α+β within [0.02, 10⁴].

    The bounds stand for "every prompt is all right or all wrong" and "every prompt has the same p", where the maximum
    lies at 0 or infinity.
    """
    import numpy as np
    from scipy.optimize import minimize
    from scipy.special import betaln, expit

    n, c = (np.array(column, dtype=float) for column in zip(*counts, strict=True))

    def unpack(point: Sequence[float]) -> tuple[float, float]:
        mean, total = float(expit(point[0])), exp(point[1])
        return mean * total, (1 - mean) * total

    def minus_log_likelihood(point: Sequence[float]) -> float:
        alpha, beta = unpack(point)
        return float(betaln(alpha, beta) * len(n) - betaln(c + alpha, n - c + beta).sum())

    mean = (c.sum() + 0.5) / (n.sum() + 1)
    bounds = [(-10.0, 10.0), (log(0.02), log(1e4))]
    best = minimize(minus_log_likelihood, [log(mean / (1 - mean)), 0.0], bounds=bounds, method="L-BFGS-B")
    return unpack(best.x)
