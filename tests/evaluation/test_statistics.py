"""The statistics of repeated samples, with their arithmetic."""

from itertools import combinations
from math import isnan, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.evaluation import statistics


def test_pass_at_k_of_one_right_in_four() -> None:
    # 1 - C(3,1)/C(4,1) = 1/4; 1 - C(3,2)/C(4,2) = 1 - 3/6; 1 - C(3,4)/C(4,4) = 1 - 0  (verl-project/verl#7240)
    assert [statistics.pass_at_k(4, 1, k) for k in (1, 2, 4)] == [0.25, 0.5, 1.0]


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_counts_the_subsets(case: tuple[int, int, int]) -> None:
    n, c, k = case
    subsets = list(combinations([True] * c + [False] * (n - c), k))
    assert statistics.pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-15)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 1), (4, -1, 1)])
def test_pass_at_k_refuses_what_was_not_sampled(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="pass@"):
        statistics.pass_at_k(n, c, k)


def test_means_over_questions_weigh_questions_equally() -> None:
    counts = [(4, 1), (2, 2)]  # 1/4 and 2/2; 3 of 6 completions would be 0.5
    assert statistics.avg_at_k(counts) == (0.25 + 1.0) / 2
    assert statistics.mean_pass_at_k(counts, 2) == (0.5 + 1.0) / 2


@pytest.mark.parametrize(
    ("answers", "right", "expected"),
    [
        (["7", "7", "8"], [True, True, False], 1.0),
        (["7", "8", "8"], [True, False, False], 0.0),
        (["7", "8"], [True, False], 0.5),  # a tie by lot: (1 + 0)/2
        (["7", "8", "9"], [True, False, False], 1 / 3),
        (["7", None, None, None], [True, False, False, False], 1.0),  # no answer, no vote
        ([None, None], [False, False], 0.0),
        (["1/2", "1/2", "3", "3"], [True, True, False, False], 0.5),
    ],
)
def test_majority(answers: list[str | None], right: list[bool], expected: float) -> None:
    assert statistics.maj_at_k(answers, right) == pytest.approx(expected)


def test_wilson_interval_of_one_in_ten() -> None:
    # z = 1.959964, z² = 3.841459: centre (0.1 + 0.192073)/1.384146, half z·sqrt(0.009 + 0.009604)/1.384146
    low, high = statistics.wilson_interval(1, 10)
    assert low == pytest.approx(0.292073 / 1.384146 - 1.959964 * sqrt(0.0186036) / 1.384146, abs=1e-5)
    assert high == pytest.approx(0.292073 / 1.384146 + 1.959964 * sqrt(0.0186036) / 1.384146, abs=1e-5)
    assert statistics.wilson_interval(0, 10)[0] == 0.0
    assert statistics.wilson_interval(10, 10)[1] == 1.0


def test_clustered_interval_counts_questions_not_completions() -> None:
    # means 0, 1/2, 1: s = 1/2, t(2) at 97.5 % = 4.302653; half = 4.302653 · 0.5/√3 = 1.242 → cut to [0, 1]
    assert statistics.cluster_interval([0.0, 0.5, 1.0]) == (0.0, 1.0)
    # means .4 .5 .6: s = 0.1 → half = 4.302653 · 0.1/√3 = 0.248414
    low, high = statistics.cluster_interval([0.4, 0.5, 0.6])
    assert (low, high) == (pytest.approx(0.5 - 0.248414, abs=1e-6), pytest.approx(0.5 + 0.248414, abs=1e-6))


def test_clustered_interval_of_equal_questions_is_not_a_point() -> None:
    assert statistics.cluster_interval([1.0] * 20) == statistics.wilson_interval(20, 20)
    assert statistics.cluster_interval([1.0] * 20)[0] < 0.9
    assert isnan(statistics.cluster_interval([0.5])[0])


def test_dead_groups_per_prompt_and_not_at_the_mean() -> None:
    # an easy prompt (4 of 4) and a hard one (0 of 4): every group is dead, although .5² + .5² = 0.5 at the mean
    dead = statistics.dead_groups([(4, 4), (4, 0)], 2)
    assert (dead.all_right, dead.all_wrong, dead.share) == (0.5, 0.5, 1.0)
    # 2 right of 4: pairs of equals C(2,2)/C(4,2) = 1/6 twice
    even = statistics.dead_groups([(4, 2)], 2)
    assert even.share == pytest.approx(1 / 3)
    assert not even.is_bound


def test_dead_groups_larger_than_the_sample_are_a_bound() -> None:
    dead = statistics.dead_groups([(4, 2), (4, 4)], 8)
    assert (dead.share, dead.drawn, dead.is_bound) == (0.5, 4, True)
    with pytest.raises(ValueError, match="no prompt"):
        statistics.dead_groups([], 2)


@pytest.mark.parametrize(("rate", "size"), [(0.9, 4), (0.51, 4), (0.5, 8), (0.31, 8), (0.2, 8), (0.19, 16), (0.0, 16)])
def test_recommended_group_size_follows_the_chapters_table(rate: float, size: int) -> None:
    assert statistics.recommended_group_size(rate)[0] == size
