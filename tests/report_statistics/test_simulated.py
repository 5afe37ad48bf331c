"""Sweeps with known truth, 2,000 each: how often verdicts are wrong and what the intervals cover.

The seeds are fixed. With 2,000 sweeps a rate of .05 has a standard error of .0049, so .06 is two of them.
"""

import numpy as np
import pytest

from grpo.report.simulate import Truth, bootstrap_coverage, bootstrapped, draw, judge, rates, stein_sweeps

MARGIN = 0.03
SIZES = [(blocks, arms) for blocks in (6, 10) for arms in (1, 3, 12)]
SOME_TRUE = [(blocks, arms) for blocks, arms in SIZES if arms > 1]


@pytest.mark.parametrize(("blocks", "arms"), SIZES)
def test_normal_scores_under_the_null(blocks: int, arms: int) -> None:
    found = rates(Truth((0.0,) * arms), blocks, MARGIN)
    assert found.claimed <= 0.06
    assert found.covered >= 0.93
    assert found.claimed >= 0.025  # a procedure that never speaks would pass the line above


@pytest.mark.parametrize(("blocks", "arms"), SIZES)
@pytest.mark.parametrize("base", [0.7, 0.97])
def test_counted_scores_under_the_null(blocks: int, arms: int, base: float) -> None:
    found = rates(Truth((0.0,) * arms, "scores", base=base), blocks, MARGIN)
    assert found.claimed <= 0.06
    assert found.covered >= 0.93


@pytest.mark.parametrize(("blocks", "arms"), SIZES)
def test_runs_that_collapse_in_every_arm_alike_make_it_careful(blocks: int, arms: int) -> None:
    found = rates(Truth((0.0,) * arms, "scores", collapse=(0.1,) * (arms + 1)), blocks, MARGIN)
    assert found.claimed <= 0.06
    assert found.covered >= 0.93


@pytest.mark.parametrize(("blocks", "arms"), SOME_TRUE)
@pytest.mark.parametrize("seed", [0.01, 0.02])
def test_wrong_claims_of_both_kinds_where_some_arms_differ(blocks: int, arms: int, seed: float) -> None:
    # the worst mixture: one arm equal (only "better" or "worse" is wrong), the others just at the margin
    found = rates(Truth((0.0, *(MARGIN,) * (arms - 1)), seed=seed), blocks, MARGIN)
    assert found.either <= 0.06
    assert found.covered >= 0.93


@pytest.mark.parametrize(("blocks", "arms"), SOME_TRUE)
def test_holm_holds_where_half_of_the_arms_differ_clearly(blocks: int, arms: int) -> None:
    half = arms // 2
    found = rates(Truth((0.1,) * (arms - half) + (0.0,) * half), blocks)
    assert 0.015 <= found.claimed <= 0.06
    assert found.found >= 0.98


@pytest.mark.parametrize(("blocks", "arms"), SIZES)
def test_wrong_equivalent_at_the_margin(blocks: int, arms: int) -> None:
    found = rates(Truth((MARGIN,) * arms), blocks, MARGIN)
    assert found.equivalent <= 0.03  # α/2, since the interval must miss on one side
    assert found.covered >= 0.93


@pytest.mark.parametrize(("blocks", "arms"), [(6, 3), (10, 3), (10, 12)])
def test_a_collapsing_arm_makes_no_false_claims_about_the_others(blocks: int, arms: int) -> None:
    truth = Truth((0.0,) * arms, "scores", collapse=(0.0,) * arms + (0.5,))
    judged = judge(draw(truth, blocks, 2_000, np.random.default_rng(2)), MARGIN)
    said = (judged.verdicts == "better") | (judged.verdicts == "worse")
    assert said[:, :-1].any(axis=1).mean() <= 0.06
    assert (judged.verdicts[:, -1] == "better").mean() <= 0.002


def test_a_rare_collapse_is_not_seen_by_an_interval() -> None:
    # the limit that the README states: .9¹⁰ = 35 % of sweeps of ten blocks have none of an arm's one-in-ten collapses
    found = rates(Truth((0.0,), "scores", collapse=(0.0, 0.1)), 10, MARGIN)
    assert 0.6 <= found.covered <= 0.75


def test_pairs_find_what_two_samples_would_not() -> None:
    # blocks spread by .03 and cancel; the difference spreads by .02 · √2
    assert rates(Truth((0.03,)), 10).found == pytest.approx(rates(Truth((0.03,), block=0.3), 10).found, abs=0.05)
    assert rates(Truth((0.03,)), 10).found >= 0.8


@pytest.mark.parametrize(("first", "margin"), [(3, 0.03), (6, 0.015)])
def test_stein_keeps_coverage_where_an_ordinary_interval_does_not(first: int, margin: float) -> None:
    covered, blocks = stein_sweeps(Truth((0.01,)), margin, first)
    naive, _ = stein_sweeps(Truth((0.01,)), margin, first, naive=True)
    assert covered >= 0.94 - 0.005
    assert naive <= covered - 0.015
    assert blocks > 2 * first


def test_stein_over_three_arms_and_counted_scores() -> None:
    assert stein_sweeps(Truth((0.01, 0.0, -0.03)), 0.02, 10, sweeps=1_000)[0] >= 0.93
    assert stein_sweeps(Truth((0.01, 0.0, -0.03), "scores", base=0.95), 0.02, 10, sweeps=1_000)[0] >= 0.93


def test_the_bootstrap_covers_too_little() -> None:
    # of three normal numbers the resampled mean is the smallest with 1/27 > 2.5 %: the interval is [min, max], and all
    # three lie on one side of the truth with 2/2³: 75 %
    assert bootstrap_coverage(3, sweeps=10_000) == pytest.approx(0.75, abs=0.015)
    assert 0.82 <= bootstrap_coverage(5, sweeps=10_000) <= 0.85


def test_twelve_variants_and_three_seeds_by_bootstrap() -> None:
    found = bootstrapped(3, 12, paired=True, sweeps=1_000)
    assert found.different >= 0.85  # a false difference in 9 of 10 sweeps
    assert 0.5 <= found.winner <= 0.65  # a false winner over the baseline in 6 of 10


def test_collapse_and_cut_are_in_the_truth() -> None:
    # a run that collapses falls from .7 to .1 on average: .5 · .6 = .3
    truth = Truth((0.0, 0.0), "scores", collapse=(0.0, 0.0, 0.5))
    assert truth.differences[0] == 0.0
    assert truth.differences[1] == pytest.approx(-0.3, abs=0.003)
    scores = draw(Truth((0.5,), "scores"), 6, 10, np.random.default_rng(0))
    assert scores.max() == 1.0
