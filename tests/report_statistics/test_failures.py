"""The share of failed runs."""

import pytest

from grpo.errors import UserError
from grpo.report.failures import failure_shares


def test_shares_with_exact_intervals_and_tests() -> None:
    base = dict.fromkeys(range(10), False)
    two = base | {3: True, 7: True}
    all_ten = dict.fromkeys(range(10), True)
    base_share, first, second, none = failure_shares({"base": base, "two": two, "all": all_ten, "none": {}}, "base")
    # none of 10: upper end 1 − .025^(1/10) = .3085
    assert (base_share.low, base_share.high) == (0.0, pytest.approx(1 - 0.025**0.1))
    assert base_share.p_mcnemar is None
    # two blocks differ, both the arm's: 2 · ½² = .5; Fisher: C(10,2)/C(20,2) twice = 2 · 45/190
    assert (first.p_mcnemar, first.p_fisher) == (pytest.approx(0.5), pytest.approx(90 / 190))
    assert first.sentence == "two: 2 of 10 runs failed [3 %, 56 %]; against the baseline McNemar p .500 (exploratory)"
    assert second.p_mcnemar == pytest.approx(2 / 2**10)
    assert (none.runs, none.low, none.high, none.p_mcnemar) == (0, 0.0, 1.0, None)


def test_failures_of_the_same_blocks_say_nothing_about_the_arm() -> None:
    same = {0: True, 1: True, 2: False}
    _, share = failure_shares({"base": same, "a": same}, "base")
    assert share.p_mcnemar == share.p_fisher == 1.0


def test_an_unknown_baseline_is_a_sentence() -> None:
    with pytest.raises(UserError, match="there is no arm 'b'"):
        failure_shares({"a": {}}, "b")
