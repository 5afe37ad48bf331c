"""One arm against the baseline: its pairs, its numbers, its verdict in words."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from grpo.report import verdict as words_of
from grpo.report.simultaneous import Paired, blocks_by_signs, blocks_for, paired_t, quantile, sign_flip
from grpo.report.verdict import Verdict

FEWEST = 6
"""Blocks that a verdict needs: with 5 the sign-flip test cannot fall below 2/2⁵ = .0625."""
Scores = Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class Contrast:
    """One arm against the baseline. A number is None where there are too few blocks for it, never nan."""

    arm: str
    baseline: str
    seeds: tuple[int, ...]
    """Blocks that both have, ascending: the pairs."""
    differences: tuple[float, ...]
    """Arm − baseline, one per entry of `seeds`."""
    mean: float | None
    low: float | None
    high: float | None
    """Simultaneous interval: all arms' intervals hold their truths at once with 1 − α (Bonferroni)."""
    p: float | None
    """Two-sided paired t. Where all differences are equal: the sign-flip test's."""
    p_holm: float | None
    p_sign: float | None
    """Exact sign-flip test, for this arm alone; None below 6 blocks."""
    verdict: Verdict
    blocks_needed: int | None = None
    """Of an undecided arm: blocks that would bring the half-width under the margin (without one: under |mean|)."""
    correlation: float | None = None
    """Pearson's r of arm and baseline over the pairs; None below 3 of them or without spread."""
    words: str = ""
    """The verdict in words."""
    notes: tuple[str, ...] = ()
    """What the reader should know about the numbers: blocks left out, no spread, a block that stands apart."""

    @property
    def half(self) -> float | None:
        """Half-width of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def numbers(self) -> str:
        """+0.021 [+0.004, +0.038]"""
        return words_of.number_text(self.mean, self.low, self.high)

    @property
    def sentence(self) -> str:
        """Arm, difference with interval, verdict: one line that can go into a paper."""
        return f"{self.arm} against {self.baseline}    {self.numbers}   {'; '.join((self.words, *self.notes))}"


def correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Pearson's r; None below 3 pairs, and where one side has no spread."""
    if len(left) < 3 or min(np.ptp(left), np.ptp(right)) <= 1e-12:
        return None
    return float(np.clip(np.corrcoef(left, right)[0, 1], -1.0, 1.0))


@dataclass(frozen=True)
class Pairs:
    """The pairs of one arm and the baseline."""

    seeds: tuple[int, ...]
    dropped: tuple[int, ...]
    """Seeds that only one of the two has."""
    differences: tuple[float, ...]
    paired: Paired | None
    deviation: float
    correlation: float | None

    @classmethod
    def of(cls, scores: Scores, arm: str, baseline: str, first_stage: Collection[int]) -> Pairs:
        ours, theirs = scores[arm], scores[baseline]
        both = ours.keys() & theirs.keys()
        first = sorted(both & set(first_stage))
        order = first + sorted(both - set(first))  # the first stage leads; its variance alone counts
        d = [float(ours[s]) - float(theirs[s]) for s in order]
        staged = len(first) if len(first) > 1 and np.ptp(d[: len(first)]) > 1e-12 else None  # no spread: all blocks'
        paired = paired_t(d, staged) if len(d) > 1 else None
        seeds = tuple(sorted(both))
        by_seed = dict(zip(order, d, strict=True))
        return cls(
            seeds=seeds,
            dropped=tuple(sorted(ours.keys() ^ theirs.keys())),
            differences=tuple(by_seed[s] for s in seeds),
            paired=paired,
            deviation=float(paired.error) * math.sqrt(len(d)) if paired else 0.0,
            correlation=correlation([ours[s] for s in seeds], [theirs[s] for s in seeds]),
        )

    @property
    def p(self) -> float:
        """p of the paired t; 1 where there is none, so that Holm counts the arm and never helps it."""
        return float(self.paired.p) if self.paired else 1.0

    def notes(self) -> tuple[str, ...]:
        """Sentences about the pairs."""
        found = []
        if self.dropped:
            count, them = len(self.dropped), ", ".join(map(str, self.dropped))
            found.append(f"{count} {'block' if count == 1 else 'blocks'} without a pair left out (seed {them})")
        if self.paired is not None and float(self.paired.error) == 0.0:
            equal = "all differences are 0" if float(self.paired.mean) == 0.0 else "all differences are equal"
            found.append(f"the spread is zero ({equal}{'' if 'are 0' in equal else ', so p is the sign-flip test’s'})")
        if self.apart:
            found.append(", ".join(f"seed {s} stands apart ({words_of.signed(d)})" for s, d in self.apart))
        return tuple(found)

    @property
    def apart(self) -> list[tuple[int, float]]:
        """Blocks whose difference is over 6 robust standard deviations (1.4826 · MAD) from the median; they count."""
        if len(self.differences) < FEWEST:
            return []
        d = np.asarray(self.differences)
        off = np.abs(d - np.median(d))
        scale = 1.4826 * float(np.median(off))
        return [(self.seeds[i], self.differences[i]) for i in np.flatnonzero(off > 6 * scale)] if scale > 1e-12 else []


@dataclass(frozen=True)
class Rule:
    """What every contrast of a comparison is judged by; see `compare` for the fields."""

    baseline: str
    margin: float | None
    alpha: float
    family: int
    interim: str | None
    exploratory: str | None
    copies: Mapping[str, str]
    active: Mapping[str, bool | None]

    def contrast(self, arm: str, pairs: Pairs, p_holm: float | None) -> Contrast:
        """The finished contrast; p_holm None for a copy of another arm."""
        paired, n = pairs.paired, len(pairs.seeds)
        mean = float(paired.mean) if paired else (pairs.differences[0] if n == 1 else None)
        low = high = None
        if paired:
            half = quantile(self.alpha, self.family, paired.dof) * float(paired.error)
            low, high = float(paired.mean) - half, float(paired.mean) + half
        verdict, words, needed = self._judge(arm, pairs, low, high, p_holm)
        return Contrast(
            arm=arm,
            baseline=self.baseline,
            seeds=pairs.seeds,
            differences=pairs.differences,
            mean=mean,
            low=low,
            high=high,
            p=float(paired.p) if paired else None,
            p_holm=p_holm if paired else None,
            p_sign=sign_flip(pairs.differences) if n >= FEWEST else None,
            verdict=verdict,
            blocks_needed=needed,
            correlation=pairs.correlation,
            words=words,
            notes=pairs.notes(),
        )

    def _judge(
        self, arm: str, pairs: Pairs, low: float | None, high: float | None, p_holm: float | None
    ) -> tuple[Verdict, str, int | None]:
        """Verdict, its words, blocks needed."""
        n = len(pairs.seeds)
        if arm in self.copies:
            return "same algorithm", f"same algorithm as {self.copies[arm]}", None
        if self.exploratory:
            return "exploratory", f"exploratory: {self.exploratory}", None
        if self.interim:
            return "interim", f"interim: {self.interim}", None
        if self.active.get(arm) is False:
            return "not tested", "not tested: the mechanism under test did not act", None
        if n < FEWEST or pairs.paired is None or low is None or high is None or p_holm is None:
            return "too few blocks", f"too few blocks: {n} of the {FEWEST} that a verdict needs", None
        mean = float(pairs.paired.mean)
        verdict = cast(Verdict, str(words_of.decide(mean, low, high, p_holm, self.margin, self.alpha)))
        inside = bool(words_of.within(low, high, self.margin))
        if verdict == "equivalent":
            return "equivalent", f"equivalent within ±{self.margin:g}", None
        if verdict != "undecided":
            words = words_of.claimed(verdict, p_holm, inside, low <= 0 <= high, self.margin)
            return verdict, words, None
        needed, target = self._needed(pairs, mean, (high - low) / 2)
        return "undecided", words_of.undecided((high - low) / 2, needed, target), needed

    def _needed(self, pairs: Pairs, mean: float, half: float) -> tuple[int | None, float]:
        """Blocks that would settle the question, and the half-width that they would bring.

        The aim is the margin, or without one the observed difference. Where the half-width is under the margin
        already, half the margin: then no interval can hold 0 and leave ±margin at once, so every truth is settled.
        """
        aim = self.margin or abs(mean)
        if self.margin and half <= self.margin:
            aim = self.margin / 2
        if half == 0.0:
            return (blocks_by_signs(self.alpha, self.family), aim) if mean else (None, aim)
        if half <= aim or aim == 0.0:
            return None, aim
        return blocks_for(pairs.deviation, aim, self.alpha, self.family), aim
