"""Partial credit for numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.rewards.graded import Digits, Distance


def one(reward, text: str, gold: str | None) -> float | None:
    return reward(prompts=["q"], completions=[text], answer=[gold])[0]


@pytest.mark.parametrize(
    ("said", "gold", "share"),
    [
        ("42", "42", 1.0),
        ("52", "42", 1 / 2),
        ("24", "42", 0.0),
        ("142", "42", 2 / 3),  # the digit too many is one of three
        ("2", "42", 1 / 2),
        ("5", "105", 1 / 3),  # a missing 0 is no right 0
        ("1,234", "1234", 1.0),
        ("0042", "42", 1.0),
        ("-42", "42", 0.0),
        ("-42", "-43", 1 / 2),
        ("42.0", "42", 1.0),
        ("42.5", "42", 0.0),
        ("forty-two", "42", 0.0),
        ("0", "0", 1.0),
        ("42", "1/2", None),  # the gold has no digits to compare
        ("42", "Tom", None),
        ("42", None, None),
    ],
)
def test_digits(said: str, gold: str | None, share: float | None) -> None:
    assert one(Digits(), rf"\boxed{{{said}}}", gold) == share


def test_nothing_said_is_nothing_paid() -> None:
    assert one(Digits(), "42", "42") == 0.0  # no box
    assert one(Digits(extract="last_number"), "it is 42", "42") == 1.0
    assert one(Distance(), "42", "42") == -10.0


@pytest.mark.parametrize(
    ("said", "gold", "paid"),
    [
        ("42", "42", 0.0),
        ("47", "42", -0.5),  # 5 / 10
        ("37", "42", -0.5),
        ("1/3", "0.5", -1 / 60),  # (1/2 − 1/3) / 10
        ("9999", "42", -10.0),
        ("1e50", "42", -10.0),
        ("Tom", "42", -10.0),
        ("42", "Tom", None),
    ],
)
def test_distance(said: str, gold: str, paid: float | None) -> None:
    assert one(Distance(), rf"\boxed{{{said}}}", gold) == (None if paid is None else pytest.approx(paid, rel=1e-12))


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_only_the_right_number_is_paid_in_full(said: int, gold: int) -> None:
    text = rf"\boxed{{{said}}}"
    assert (one(Digits(), text, str(gold)) == 1.0) == (said == gold)
    assert (one(Distance(), text, str(gold)) == 0.0) == (said == gold)


def test_majority_votes_count_equal_numbers() -> None:
    assert Digits().answer(r"\boxed{1,000}") == Digits().answer(r"\boxed{1000}") == "1000"
    assert Distance().answer("none") is None
