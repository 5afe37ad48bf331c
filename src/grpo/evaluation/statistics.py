"""Statistics of repeated samples: avg@k, pass@k, maj@k, intervals, dead groups.

Counts are always pairs (n, c) of *one* question: n completions, c of them right. Counts of questions never enter here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, isnan, sqrt
from statistics import NormalDist, fmean, stdev

Counts = tuple[int, int]  # (n completions, c of them right) of one question


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that k of n completions, drawn without replacement, hold a right one: 1 − C(n−c, k) / C(n, k).

    The unbiased estimator of Chen et al. 2021 (arXiv:2107.03374, eq. 1). More than was sampled cannot be estimated:
    k > n is an error, not a number.
    """
    if not 0 <= c <= n:
        raise ValueError(f"pass@k: {c} right of {n} completions is impossible; give the counts of one question")
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} needs between 1 and n completions per question, but n is {n}; sample at least {k}")
    return 1.0 - comb(n - c, k) / comb(n, k)


def mean_pass_at_k(counts: Sequence[Counts], k: int) -> float:
    """pass@k averaged over questions; NaN without questions."""
    return fmean(pass_at_k(n, c, k) for n, c in counts) if counts else float("nan")


def avg_at_k(counts: Sequence[Counts]) -> float:
    """Mean over questions of c/n, every question weighing the same; NaN without questions."""
    return fmean(c / n for n, c in counts) if counts else float("nan")


def maj_at_k(answers: Sequence[str | None], right: Sequence[bool]) -> float:
    """Accuracy of the most frequent answer of one question's completions, in [0, 1].

    A completion without an answer (None) does not vote. Ties are drawn by lot, so this is the expected accuracy
    over the tied answers; with no vote at all it is 0. Wang et al. 2022, arXiv:2203.11171 (self-consistency).
    """
    if len(answers) != len(right):
        raise ValueError(f"maj@k: {len(answers)} answers but {len(right)} verdicts; give one of each per completion")
    votes: dict[str, list[bool]] = {}
    for answer, verdict in zip(answers, right, strict=True):
        if answer is not None:
            votes.setdefault(answer, []).append(verdict)
    if not votes:
        return 0.0
    most = max(len(verdicts) for verdicts in votes.values())
    return fmean(fmean(verdicts) for verdicts in votes.values() if len(verdicts) == most)


def wilson_interval(successes: float, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share (1927); of independent trials, so not for several completions per question."""
    if trials <= 0:
        return (float("nan"), float("nan"))
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    # at 0 and at all successes the ends are exact; rounding would leave 3e-17
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return (low, high)


def cluster_interval(question_means: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Interval for avg@k, clustered by question: mean ± t(Q−1) · s/√Q over the Q question means, cut to [0, 1].

    Completions of one question are not independent, so the question is the unit; its own sampling noise is inside the
    spread between questions. Where all questions agree (s = 0) t would claim certainty: Wilson over Q questions.
    """
    means = [m for m in question_means if not isnan(m)]
    if len(means) < 2:
        return (float("nan"), float("nan"))
    centre, spread = fmean(means), stdev(means)
    if spread == 0.0:
        return wilson_interval(centre * len(means), len(means), confidence)
    from scipy.stats import t  # half a second to import, so only where it is used

    half = float(t.ppf(0.5 + confidence / 2, len(means) - 1)) * spread / sqrt(len(means))
    return (max(0.0, centre - half), min(1.0, centre + half))


@dataclass(frozen=True)
class DeadGroups:
    """Expected shares of groups whose completions are all right or all wrong, and so carry no signal."""

    group_size: int
    """The G that was asked for."""
    drawn: int
    """The G that could be computed: the smaller of G and the completions sampled per prompt."""
    all_right: float
    all_wrong: float

    @property
    def share(self) -> float:
        """Expected share of dead groups, in [0, 1]."""
        return self.all_right + self.all_wrong

    @property
    def is_bound(self) -> bool:
        """True if fewer than G completions per prompt were sampled: the share at G is then at most `share`."""
        return self.drawn < self.group_size


def dead_groups(counts: Sequence[Counts], group_size: int) -> DeadGroups:
    """Expected dead groups at G: mean over prompts of [C(c,G) + C(n−c,G)] / C(n,G).

    Per prompt, because p^G + (1−p)^G at the mean p is far too low when some prompts are easy and others hard. A prompt
    with n < G is taken at G = n, an upper bound (a larger group is dead less often); `is_bound` says so.
    """
    if not counts:
        raise ValueError("dead groups: there is no prompt; sample some first")
    drawn = [min(group_size, n) for n, _ in counts]
    right = fmean(comb(c, g) / comb(n, g) for (n, c), g in zip(counts, drawn, strict=True))
    wrong = fmean(comb(n - c, g) / comb(n, g) for (n, c), g in zip(counts, drawn, strict=True))
    return DeadGroups(group_size, min(drawn), right, wrong)


def recommended_group_size(pass_rate: float) -> tuple[int, str]:
    """The group size of the chapter's table ("组大小分析") for a measured pass rate, with the table's reason.

    32 ("huge compute and an extremely hard task") is never recommended by itself: a pass rate cannot know the compute.
    """
    if pass_rate > 0.5:
        return 4, "simple task (pass rate above 50 %), quick experiments"
    if pass_rate < 0.2:
        return 16, "hard task (pass rate below 20 %): many tries until one is right; 32 only with huge compute"
    return 8, "the default: a good balance for most tasks"
