"""From numbers to a verdict and its words.

The rule, in this order, for the m arms that are compared with the baseline at the family-wise level α:

    better, worse   Holm p < α; the sign is the mean's
    equivalent      not so, and the simultaneous interval (1 − α over all arms) lies inside ±margin
    undecided       neither

A significant difference that is smaller than the margin is both. It is called *better* (or worse), with the note that
it is within the margin: the claim "not equal" was tested first and by the stronger error control, it stays true
whatever margin a reader prefers, and the note keeps it from being sold as a difference that matters.

What can be wrong, and how often at most:
- "better" or "worse" of an arm that is equal or has the other sign: α over all arms (Holm).
- "equivalent", or the note "within the margin", of an arm that is off by the margin or more: α/2 over all arms, since
  the interval must miss the truth on one given side: α/2m each, m arms.
- Any of the two: with one arm α (it cannot be equal and off by the margin at once); with m arms at most
  α + α/2 · (m − 1)/m, if one arm is equal to the baseline and all others sit exactly at the margin; with 6 or 10 blocks
  it stays at .05 all the same, since "equivalent" is asked only of arms that Holm did not reject (`report.simulate`).

What no interval can see is what did not happen: an arm that collapses in one run of ten does not collapse in a third of
all sweeps of ten blocks, and is then called equivalent. Read `failures` beside the verdict.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Verdict = Literal[
    "better",
    "worse",
    "equivalent",
    "undecided",
    "not tested",
    "same algorithm",
    "interim",
    "exploratory",
    "too few blocks",
]
MANY = 10_000
"""Above this many blocks the number is not worth printing."""


def within(low: ArrayLike, high: ArrayLike, margin: float | None) -> NDArray[np.bool_]:
    """Where the interval [low, high] lies inside ±margin; nowhere without a margin."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    return np.zeros(low.shape, dtype=bool) if margin is None else (low > -margin) & (high < margin)


def decide(
    mean: ArrayLike, low: ArrayLike, high: ArrayLike, p_holm: ArrayLike, margin: float | None, alpha: float
) -> NDArray[np.str_]:
    """The rule above, elementwise: "better" | "worse" | "equivalent" | "undecided"."""
    significant, mean = np.asarray(p_holm) < alpha, np.asarray(mean, dtype=float)
    return np.select(
        [significant & (mean > 0), significant & (mean < 0), within(low, high, margin)],
        ["better", "worse", "equivalent"],
        "undecided",
    )


def signed(value: float, digits: int = 3) -> str:
    """+0.021, −0.031, 0.000: with a true minus sign."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def digits_for(width: float | None) -> int:
    """Decimals: 3, or as many as show one figure of a half-width below .001."""
    return 3 if not width else int(min(9, max(3, -np.floor(np.log10(width)))))


def p_text(p: float) -> str:
    """.012, < .001, 1: as papers print it."""
    if p < 0.001:
        return "< .001"
    return "1" if p >= 0.9995 else f"{p:.3f}"[1:]


def number_text(mean: float | None, low: float | None, high: float | None) -> str:
    """+0.021 [+0.004, +0.038]; without an interval "+0.021 [one block]"; without a pair "no pair"."""
    if mean is None:
        return "no pair"
    if low is None or high is None:
        return f"{signed(mean)} [one block]"
    digits = digits_for((high - low) / 2)
    return f"{signed(mean, digits)} [{signed(low, digits)}, {signed(high, digits)}]"


def claimed(verdict: str, p_holm: float, inside: bool, covers_zero: bool, margin: float | None) -> str:
    """Words of a better or a worse: its p, and what a reader of the interval would ask."""
    notes = [f"Holm p {p_text(p_holm)}"]
    if covers_zero:
        notes.append("Holm decides; the simultaneous interval is wider")
    words = f"{verdict} ({'; '.join(notes)})"
    return f"{words}, but within the margin of {margin:g}" if inside and margin is not None else words


def undecided(half: float | None, needed: int | None, target: float) -> str:
    """Words of an undecided: the half-width that was reached and the blocks that would settle `target`."""
    words = "undecided" if not half else f"undecided (±{half:.{digits_for(half)}f})"
    if needed is None:
        return words
    count = f"about {needed:,}" if needed <= MANY else f"more than {MANY:,}"
    return f"{words}; {count} blocks would settle ±{float(f'{target:.2g}'):g}"
