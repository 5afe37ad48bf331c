"""Sweeps with known truth: how often the verdicts are wrong, what the intervals cover, what a bootstrap would do.

    python -m grpo.report.simulate          prints the tables (some seconds)

A block moves all its arms alike, every run adds the luck of its seed, the test draws questions and samples:

    score[arm, block] = base + block + effect[arm] + seed[arm, block]  (+ questions, binomial samples)

kind "normal" stops there. Kind "scores" is what a sweep really yields: accuracies cut at 0 and 1, counted over
questions that the arms of a block share, with runs that collapse to almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grpo.report.simultaneous import holm, paired_t, quantile
from grpo.report.stein import stein, stein_interval
from grpo.report.verdict import decide

Floats = NDArray[np.float64]
SWEEPS = 2_000


@dataclass(frozen=True)
class Truth:
    """What is true of a simulated sweep; entry 0 of the tuples is the first arm, the baseline has effect 0."""

    effects: tuple[float, ...]
    kind: Literal["normal", "scores"] = "normal"
    base: float = 0.7
    block: float = 0.03
    """Standard deviation of what a block's arms share."""
    seed: float = 0.02
    """Standard deviation of a run's own luck."""
    collapse: tuple[float, ...] = ()
    """Chance that a run collapses: of the baseline, then of each arm; () means never."""
    questions: int = 512
    samples: int = 8
    question: float = 0.3
    """Standard deviation of a question's difficulty, shared by the arms of a block."""

    @property
    def differences(self) -> Floats:
        """True mean of arm − baseline, [arms]; of cut and collapsing scores by 400,000 blocks."""
        return np.array(self.effects) if self.kind == "normal" else _true_differences(self)


def draw(truth: Truth, blocks: int, sweeps: int, rng: np.random.Generator) -> Floats:
    """Scores [sweeps, 1 + arms, blocks]; row 0 is the baseline."""
    shape = (sweeps, 1 + len(truth.effects), blocks)
    effects = np.array((0.0, *truth.effects))[:, None]
    shared = rng.normal(0, truth.block, (sweeps, 1, blocks))
    scores = truth.base + effects + shared + rng.normal(0, truth.seed, shape)
    if truth.kind == "normal":
        return scores
    scores += rng.normal(0, truth.question / np.sqrt(truth.questions), (sweeps, 1, blocks))
    if truth.collapse:
        fallen = rng.random(shape) < np.array(truth.collapse)[:, None]
        scores = np.where(fallen, rng.uniform(0, 0.2, shape), scores)
    asked = truth.questions * truth.samples
    return rng.binomial(asked, np.clip(scores, 0.0, 1.0)) / asked


@lru_cache(maxsize=64)
def _true_differences(truth: Truth) -> Floats:
    scores = draw(truth, 1, 400_000, np.random.default_rng(1))[:, :, 0]
    difference = (scores[:, 1:] - scores[:, :1]).mean(axis=0)
    alike = np.array(truth.effects) == 0
    if truth.collapse:
        alike &= np.array(truth.collapse[1:]) == truth.collapse[0]
    return np.where(alike, 0.0, difference)  # arms that are drawn like the baseline differ by nothing at all


def flags(
    truth: Truth, blocks: int, rng: np.random.Generator, effect: float = 0.0, shared: bool = False
) -> list[NDArray[np.int64]]:
    """One arm's right[b] [Q, k] per block; with `shared`, the baseline's and then the arm's, on the same questions."""
    found: list[NDArray[np.int64]] = []
    for _ in range(blocks):
        block = truth.base + rng.normal(0, truth.block)
        hard = rng.normal(0, truth.question, truth.questions)
        for arm in (0.0, effect) if shared else (effect,):
            chance = np.clip(block + arm + rng.normal(0, truth.seed) + hard, 0, 1)
            found.append((rng.random((truth.questions, truth.samples)) < chance[:, None]).astype(np.int64))
    return found


@dataclass(frozen=True)
class Judged:
    """What `compare` would say of many sweeps at once; arrays [sweeps, arms]."""

    low: Floats
    high: Floats
    p_holm: Floats
    verdicts: NDArray[np.str_]


def judge(scores: Floats, margin: float | None = None, alpha: float = 0.05) -> Judged:
    """The statistics and the rule of `compare`, with all blocks present."""
    paired = paired_t(scores[:, 1:] - scores[:, :1])
    half = quantile(alpha, scores.shape[1] - 1, paired.dof) * paired.error
    low, high, p_holm = paired.mean - half, paired.mean + half, holm(paired.p)
    return Judged(low, high, p_holm, decide(paired.mean, low, high, p_holm, margin, alpha))


def stein_sweeps(
    truth: Truth, margin: float, first: int, sweeps: int = SWEEPS, seed: int = 0, naive: bool = False
) -> tuple[float, float]:
    """`seeds: auto` on simulated sweeps: (simultaneous coverage, mean number of blocks).

    naive: an ordinary t over all blocks instead of the first stage's variance: what would go wrong.
    """
    rng, true, arms = np.random.default_rng(seed), truth.differences, len(truth.effects)
    covered, total = 0, 0
    for _ in range(sweeps):
        scores = draw(truth, first, 1, rng)[0]
        stage = {str(a): (row - scores[0]).tolist() for a, row in enumerate(scores[1:])}
        blocks = stein(stage, margin, arms=arms)
        if blocks > first:
            scores = np.concatenate([scores, draw(truth, blocks - first, 1, rng)[0]], axis=1)
        intervals = [stein_interval(row - scores[0], blocks if naive else first, arms=arms) for row in scores[1:]]
        covered += all(low <= t <= high for (_, low, high), t in zip(intervals, true, strict=True))
        total += blocks
    return covered / sweeps, total / sweeps


@dataclass(frozen=True)
class Rates:
    """Shares of sweeps."""

    claimed: float
    """A wrong "better" or "worse" of at least one arm: equal in truth, or of the other sign."""
    equivalent: float
    """A wrong "equivalent" of at least one arm: off by the margin or more in truth."""
    either: float
    covered: float
    """All intervals hold their truths at once."""
    found: float
    """Arms that differ in truth and are called so, with the right sign; of all such arms (0 without one)."""


def rates(truth: Truth, blocks: int, margin: float | None = None, sweeps: int = SWEEPS, seed: int = 0) -> Rates:
    """Error rates and coverage over simulated sweeps."""
    judged = judge(draw(truth, blocks, sweeps, np.random.default_rng(seed)), margin)
    true, verdicts = truth.differences, judged.verdicts
    right = np.where(true > 0, "better", np.where(true < 0, "worse", ""))
    said = (verdicts == "better") | (verdicts == "worse")
    wrong = (said & (verdicts != right)).any(axis=1)
    far = np.abs(true) >= (np.inf if margin is None else margin - 1e-12)
    equal = ((verdicts == "equivalent") & far).any(axis=1)
    covered = ((judged.low <= true) & (true <= judged.high)).all(axis=1)
    real = true != 0
    found = float((verdicts == right)[:, real].mean()) if real.any() else 0.0
    return Rates(float(wrong.mean()), float(equal.mean()), float((wrong | equal).mean()), float(covered.mean()), found)


def bootstrap(
    samples: Sequence[Floats], signs: Sequence[int], rng: np.random.Generator, resamples: int = 1_000
) -> tuple[Floats, Floats]:
    """95 % percentile bootstrap of Σ sign · mean over the last axis; each sample is resampled by itself.

    One sample (paired differences or one arm's scores), or two with signs 1, −1 (unpaired arms).
    """
    means = np.zeros(())
    for sample, sign in zip(samples, signs, strict=True):
        n = sample.shape[-1]
        weights = rng.multinomial(n, np.full(n, 1 / n), resamples) / n
        means = means + sign * (sample @ weights.T)
    low, high = np.percentile(means, [2.5, 97.5], axis=-1)
    return low, high


@dataclass(frozen=True)
class Bootstrapped:
    """What the usual habit yields; shares of sweeps in which no arm differs from the baseline."""

    covered: float
    """Of one arm: the interval holds the truth."""
    winner: float
    """At least one arm's interval lies above 0: a false winner."""
    different: float
    """At least one arm's interval leaves out 0."""


def bootstrapped(
    blocks: int, arms: int, paired: bool, sweeps: int = SWEEPS, seed: int = 0, block: float = 0.03
) -> Bootstrapped:
    """Bootstrap sweeps of equal arms, over pairs, or with both arms resampled by themselves."""
    rng = np.random.default_rng(seed)
    scores = draw(Truth((0.0,) * arms, block=block), blocks, sweeps, rng)
    ours, theirs = scores[:, 1:], scores[:, :1]
    low, high = bootstrap([ours - theirs], [1], rng) if paired else bootstrap([ours, theirs], [1, -1], rng)
    holds = (low <= 0) & (high >= 0)
    return Bootstrapped(
        float(holds[:, 0].mean()), float((low > 0).any(axis=1).mean()), float((~holds).any(axis=1).mean())
    )


def bootstrap_coverage(blocks: int, sweeps: int = 20_000, seed: int = 0) -> float:
    """Coverage of the "95 %" percentile bootstrap of one mean of `blocks` normal numbers."""
    rng = np.random.default_rng(seed)
    low, high = bootstrap([rng.normal(size=(sweeps, blocks))], [1], rng)
    return float(((low <= 0) & (high >= 0)).mean())


def main() -> None:
    """Print what the README says."""
    margin = 0.03
    print(f"{SWEEPS:,} sweeps each, margin {margin}; shares of sweeps; found: of the arms that differ\n")
    heads = ("blocks", "arms", "false claim", "false equal", "either", "covered", "found")
    print(f"{'truth':<50}" + "".join(f"{head:>12}" for head in heads))
    for name, truth, blocks in _cases(margin):
        r = rates(truth, blocks, margin)
        shares = (r.claimed, r.equivalent, r.either, r.covered, r.found)
        print(f"{name:<50}{blocks:>12}{len(truth.effects):>12}" + "".join(f"{share:>12.3f}" for share in shares))
    print("\nseeds=auto, one arm, half-width 0.015: coverage with the variance of the first stage / of all blocks")
    for first in (3, 6, 10):
        (right, blocks), (wrong, _) = (stein_sweeps(Truth((0.01,)), 0.015, first, naive=n) for n in (False, True))
        print(f"  first stage {first:>2}: {right:.3f} / {wrong:.3f}, {blocks:.1f} blocks on average")
    print('\nbootstrap, "95 %" of one mean: ', end="")
    print(", ".join(f"{n} blocks {bootstrap_coverage(n):.1%}" for n in (3, 5, 10, 20)))
    print("12 equal variants against a baseline, 3 seeds, bootstrap: sweeps with a false winner / a false difference")
    for name, paired, block in (
        ("paired", True, 0.03),
        ("unpaired", False, 0.0),
        ("unpaired, blocks shared", False, 0.03),
    ):
        b = bootstrapped(3, 12, paired, block=block)
        print(f"  {name:<26}{b.winner:.1%} / {b.different:.1%}")


def _cases(margin: float) -> Iterator[tuple[str, Truth, int]]:
    for blocks in (6, 10):
        for arms in (1, 3, 12):
            equal, off = (0.0,) * arms, (margin,) * (arms - 1)
            yield "all equal, normal", Truth(equal), blocks
            yield "all equal, counted scores near 1", Truth(equal, "scores", base=0.97), blocks
            yield (
                "all equal, every run collapses with 10 %",
                Truth(equal, "scores", collapse=(0.1,) * (arms + 1)),
                blocks,
            )
            if arms > 1:
                yield "one equal, the others at the margin", Truth((0.0, *off)), blocks
                yield "one equal, the others at the margin, little noise", Truth((0.0, *off), seed=0.01), blocks
            yield "all at the margin", Truth((margin,) * arms), blocks
            yield "last arm alone collapses with 10 %", Truth(equal, "scores", collapse=(0.0,) * arms + (0.1,)), blocks


if __name__ == "__main__":
    main()
