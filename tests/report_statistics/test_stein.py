"""Stein's two stages, by hand."""

import numpy as np
import pytest
from scipy import stats

from grpo.errors import UserError
from grpo.report.compare import compare
from grpo.report.stein import stein, stein_interval

FIRST = [0.01, 0.03, 0.05, 0.03, -0.01, 0.07]  # mean .03; deviations −.02 0 .02 0 −.04 .04: Σ² = .004, s² = .0008


def test_number_of_blocks_by_hand() -> None:
    # t(5) at 97.5 % = 2.570582: 6.607891 · .0008 / .015² = 23.49 → 24; two arms t = 3.163381: 10.00698 · … = 35.58 → 36
    assert stein({"a": FIRST}, 0.015) == 24
    assert stein({"a": FIRST, "b": [0.0, 0.001, 0.0, 0.001, 0.0, 0.001]}, 0.015) == 36
    assert stein({"a": FIRST}, 0.015, arms=2) == 36
    assert stein({"a": FIRST}, 1.0) == 6  # never fewer than the first stage
    assert stein({"a": [0.02] * 6}, 0.015) == 6


def test_half_width_is_within_the_margin_by_construction() -> None:
    d = FIRST + [0.5, -0.5] * 9  # however the second stage spreads
    mean, low, high = stein_interval(d, 6)
    assert mean == pytest.approx(0.18 / 24)
    half = stats.t.ppf(0.975, 5) * np.sqrt(0.0008 / 24)
    assert (high - low) / 2 == pytest.approx(half)
    assert half <= 0.015


def test_compare_takes_the_variance_of_the_first_stage() -> None:
    d = [0.5, -0.4, *FIRST, 0.03, 0.05]
    scores = {"base": dict.fromkeys(range(10), 0.5), "a": {seed: 0.5 + x for seed, x in enumerate(d)}}
    contrast = compare(scores, "base", first_stage=range(2, 8)).arms[0]
    mean, low, high = stein_interval([*FIRST, 0.5, -0.4, 0.03, 0.05], 6)
    assert (contrast.mean, contrast.low, contrast.high) == (
        pytest.approx(mean),
        pytest.approx(low),
        pytest.approx(high),
    )
    assert contrast.differences == pytest.approx(d)  # in the order of the seeds all the same
    assert contrast.p == pytest.approx(2 * stats.t.sf(mean / np.sqrt(0.0008 / 10), 5))


@pytest.mark.parametrize(
    ("differences", "margin", "sentence"),
    [
        ({"a": [0.1]}, 0.03, "a has 1 blocks in its first stage"),
        ({"a": [0.1, float("nan")]}, 0.03, "not a number"),
        ({"a": FIRST}, 0.0, "the smallest difference that matters"),
        ({}, 0.03, "nothing to compare"),
    ],
)
def test_mistakes_are_sentences(differences: dict[str, list[float]], margin: float, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        stein(differences, margin)
