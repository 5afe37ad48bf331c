"""Exact through the whole completion: guesses side by side are no answer."""

import pytest

from grpo.rewards.exact import Exact


@pytest.mark.parametrize(
    ("completion", "gold", "reward"),
    [
        (r"\boxed{7} or \boxed{3}", "3", 0.0),
        (r"\boxed{7} or \boxed{3}", "7", 0.0),
        (r"\boxed{7}, \boxed{7.0}", "7", 1.0),  # the same number twice
        (r"it is \boxed{7}. No, I was wrong: \boxed{3}", "3", 1.0),  # words between: the last counts
        (r"\boxed{37+5} = \boxed{42}", "42", 1.0),
        (r"\boxed{42", "42", 0.0),
    ],
)
def test_one_answer_is_paid(completion: str, gold: str, reward: float) -> None:
    assert Exact()([""], [completion], [gold]) == [reward]


def test_guesses_have_no_vote() -> None:
    assert Exact().answer(r"\boxed{7} or \boxed{3}") is None
    assert Exact().answer(r"\boxed{7}, \boxed{7.0}") == "7"
