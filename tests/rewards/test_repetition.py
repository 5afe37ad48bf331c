"""n-grams said twice."""

from grpo.rewards.repetition import Repetition


def paid(reward: Repetition, *ids: list[int]) -> list[float | None]:
    return reward(completion_ids=ids, completions=["ignored"] * len(ids))


def test_by_hand() -> None:
    made = Repetition(ngram=2)
    # 1212: pairs 12 21 12, 2 of 3 distinct: −⅓.  5555: 55 55 55: 1 of 3: −⅔.  1234: none twice.
    assert paid(made, [1, 2, 1, 2], [5, 5, 5, 5], [1, 2, 3, 4]) == [-(1 - 2 / 3), -(1 - 1 / 3), 0.0]
    assert paid(Repetition(ngram=2, penalty=3.0), [5, 5, 5, 5]) == [-3.0 * (1 - 1 / 3)]


def test_short_completions_repeat_nothing() -> None:
    assert paid(Repetition(ngram=3), [], [1], [1, 1], [1, 1, 1]) == [0.0] * 4


def test_never_the_whole_penalty() -> None:
    (value,) = paid(Repetition(ngram=1), [9] * 1000)
    assert value == -(1 - 1 / 1000)
