"""Paired t, Holm, intervals and sign flips, against arithmetic and against scipy's own functions."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grpo.report.simultaneous import blocks_by_signs, blocks_for, holm, paired_t, quantile, sign_flip

ARM = np.array([0.62, 0.66, 0.61, 0.70, 0.64, 0.67])
BASE = np.array([0.60, 0.63, 0.62, 0.65, 0.60, 0.66])


def test_paired_t_by_hand() -> None:
    # d = .02 .03 −.01 .05 .04 .01: mean .14/6 = .023333; squares .0056, less 6 · .023333² = .0032667 leaves .0023333,
    # /5 = .00046667; s = .0216025, s/√6 = .0088192, t = 2.6458 with 5 degrees of freedom
    paired = paired_t(ARM - BASE)
    assert float(paired.mean) == pytest.approx(0.14 / 6)
    assert float(paired.error) == pytest.approx(sqrt(0.0023333333 / 5 / 6), rel=1e-6)
    assert paired.dof == 5
    assert float(paired.p) == pytest.approx(2 * stats.t.sf(2.6457513, 5), rel=1e-6)
    assert float(paired.p) == pytest.approx(stats.ttest_rel(ARM, BASE).pvalue, rel=1e-9)
    assert float(paired.p) < stats.ttest_ind(ARM, BASE).pvalue / 2  # the blocks' common part has cancelled


def test_paired_t_of_many_sweeps_at_once_is_that_of_each() -> None:
    d = np.random.default_rng(0).normal(size=(3, 4, 7))
    many = paired_t(d)
    assert many.p.shape == (3, 4)
    np.testing.assert_allclose(many.p, stats.ttest_1samp(d, 0, axis=-1).pvalue)


def test_simultaneous_interval_is_scipys_at_the_bonferroni_level() -> None:
    d, arms = ARM - BASE, 3
    low, high = stats.ttest_1samp(d, 0).confidence_interval(1 - 0.05 / arms)
    paired = paired_t(d)
    half = quantile(0.05, arms, paired.dof) * float(paired.error)
    assert (float(paired.mean) - half, float(paired.mean) + half) == (pytest.approx(low), pytest.approx(high))
    # tables: t(5) at 97.5 % is 2.5706; at 1 − .05/6 it is 3.5341 (three arms)
    assert (quantile(0.05, 1, 5), quantile(0.05, 3, 5)) == (
        pytest.approx(2.5706, abs=1e-4),
        pytest.approx(3.5341, abs=1e-4),
    )


def test_equal_differences_are_judged_by_signs_and_not_by_rounding() -> None:
    # 0.3 − 0.1 and 0.5 − 0.3 differ by 5e-17, and t would be 1e16
    d = np.array([0.3 - 0.1, 0.5 - 0.3, 0.2, 0.2, 0.2, 0.2])
    paired = paired_t(d)
    assert (float(paired.error), float(paired.p)) == (0.0, 2 / 2**6)
    zero = paired_t(np.zeros(8))
    assert (float(zero.mean), float(zero.error), float(zero.p)) == (0.0, 0.0, 1.0)


def test_one_block_has_no_spread() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        paired_t([0.1])


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),  # .01·3; .03·2 = .06; .04·1 may not fall below it
        ([0.04, 0.02, 0.03], [0.06, 0.06, 0.06]),  # .02·3 = .06; .03·2 = .06; .04·1
        ([0.001, 0.010, 0.040], [0.003, 0.020, 0.040]),
        ([0.6, 0.4], [0.8, 0.8]),
        ([0.9, 0.8], [1.0, 1.0]),
        ([0.03], [0.03]),
        ([], []),
    ],
)
def test_holm_by_hand(p: list[float], adjusted: list[float]) -> None:
    np.testing.assert_allclose(holm(p), adjusted)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_procedure_rejects(p: list[float], alpha: float) -> None:
    rejected = set()
    for step, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[i] * (len(p) - step) >= alpha:
            break
        rejected.add(i)
    assert {i for i, value in enumerate(holm(p)) if value < alpha} == rejected


def test_holm_of_many_sweeps_at_once() -> None:
    np.testing.assert_allclose(
        holm([[0.01, 0.04, 0.03], [0.04, 0.001, 0.01]]), [[0.03, 0.06, 0.06], [0.04, 0.003, 0.02]]
    )


def test_sign_flip_counts_all_patterns() -> None:
    assert sign_flip([1, 2, 3, 4, 5, 6]) == 2 / 64  # only all signs alike reach 21
    # 1 2 3 4 5 −1: Σ = 14 of at most 16; ±16 in 2 patterns, ±14 with either of the two ones against the rest in 4
    assert sign_flip([1, 2, 3, 4, 5, -1]) == 6 / 64
    assert sign_flip([0.0] * 6) == 1.0
    assert sign_flip([0.1, 0.2, -0.3, 0.1, 0.2, -0.3]) == 1.0  # Σ is 0 but for rounding


@given(st.lists(st.integers(-5, 5), min_size=6, max_size=9))
def test_sign_flip_is_the_count_over_the_product_of_signs(d: list[int]) -> None:
    sums = [abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in product((1, -1), repeat=len(d))]
    assert sign_flip(np.array(d) / 10) == pytest.approx(sum(s >= abs(sum(d)) for s in sums) / len(sums))


def test_sign_flip_agrees_with_scipys_exact_permutation_test() -> None:
    d = ARM - BASE
    exact = stats.permutation_test((d,), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=False)
    assert sign_flip(d) == pytest.approx(exact.pvalue)


def test_sign_flip_of_many_blocks_is_drawn_and_the_same_each_time() -> None:
    d = np.random.default_rng(3).normal(0.4, 1, 24)
    drawn = sign_flip(d)
    assert drawn == sign_flip(d)
    assert drawn == pytest.approx(stats.ttest_1samp(d, 0).pvalue, abs=0.01)
    assert sign_flip(np.ones(21)) < 1e-4


def test_blocks_that_bring_the_half_width_down() -> None:
    # s = .05, ±.03: at 13 t(12) = 2.1788 · .05/√13 = .0302; at 14 t(13) = 2.1604 · .05/√14 = .0289
    assert blocks_for(0.05, 0.03, 0.05, 1) == 14
    assert blocks_for(0.05, 0.03, 0.05, 3) > 14
    assert blocks_for(1e-9, 0.03, 0.05, 1) == 2
    assert blocks_for(1e9, 0.03, 0.05, 1) == 1_000_000
    with pytest.raises(ValueError, match="half-width"):
        blocks_for(0.05, 0.0, 0.05, 1)


def test_blocks_at_which_equal_differences_are_significant() -> None:
    assert blocks_by_signs(0.05, 1) == 6  # 2/2⁵ = .0625, 2/2⁶ = .031
    assert blocks_by_signs(0.05, 12) == 9  # 12 · 2/2⁸ = .094, 12 · 2/2⁹ = .047
