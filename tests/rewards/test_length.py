"""Lengths: within a limit, relative to the group, scaled by a cosine."""

from __future__ import annotations

import math

import pytest

from grpo.rewards.exact import Exact
from grpo.rewards.length import Cosine, RelativeLength, RightWithinLength, WithinLength

RIGHT, WRONG = r"\boxed{4}", r"\boxed{5}"


def ids(*lengths: int) -> list[list[int]]:
    return [[7] * n for n in lengths]


def test_within_length_counts_tokens_and_not_characters() -> None:
    # share · limit = 0.5 · 9 = 4.5 tokens
    assert WithinLength(limit=9)(completion_ids=ids(4, 5, 0), completions=["x" * 99] * 3) == [1.0, 0.0, 1.0]


def test_only_right_answers_are_paid_for_being_short() -> None:
    made = RightWithinLength(of=Exact(), limit=10, share=0.4)
    paid = made(
        prompts=["q"] * 5,
        completions=[RIGHT, RIGHT, WRONG, "", RIGHT],
        completion_ids=ids(4, 5, 4, 0, 4),
        answer=["4"] * 4 + [None],
    )
    assert paid == [1.0, 0.0, 0.0, 0.0, None]


def test_relative_length_by_hand() -> None:
    # Prompt a: lengths 10, 20, 30: λ = ½ − (|o| − 10)/20 = ½, 0, −½. Prompt b alone: all equally long, so 0.
    paid = RelativeLength(of=Exact())(
        prompts=["a", "b", "a", "a"],
        completions=[RIGHT, RIGHT, WRONG, RIGHT],
        completion_ids=ids(10, 50, 20, 30),
        answer=["4"] * 4,
    )
    assert paid == [0.5, 0.0, 0.0, -0.5]
    # A short wrong answer earns nothing: min(0, ½).
    wrong = RelativeLength(of=Exact())(
        prompts=["a", "a"], completions=[WRONG, WRONG], completion_ids=ids(10, 30), answer=["4", "4"]
    )
    assert wrong == [0.0, -0.5]


def test_relative_length_groups_chat_prompts_and_passes_none_on() -> None:
    chat = [{"role": "user", "content": "2+2"}]
    paid = RelativeLength(of=Exact())(
        prompts=[chat, [dict(m) for m in chat]],
        completions=[[{"role": "assistant", "content": RIGHT}]] * 2,
        completion_ids=ids(1, 3),
        answer=["4", None],
    )
    assert paid == [0.5, None]


@pytest.mark.parametrize(
    ("length", "right", "wrong"),
    [
        (0, 2.0, -10.0),
        (50, 1.5, -5.0),  # cos(π/2) = 0: the middle
        # |o|/L = ¼: cos = √½, right 1 + ½·1·(1+√½), wrong 0 + ½·(−10)·(1+√½)
        (25, 1 + 0.5 * (1 + math.sqrt(0.5)), -5 * (1 + math.sqrt(0.5))),
        (100, -10.0, -10.0),
        (140, -10.0, -10.0),
    ],
)
def test_cosine_by_hand(length: int, right: float, wrong: float) -> None:
    made = Cosine(of=Exact(), limit=100)
    paid = made(prompts=["q"] * 2, completions=[RIGHT, WRONG], completion_ids=ids(length, length), answer=["4"] * 2)
    assert paid == pytest.approx([right, wrong], rel=1e-12)


def test_cosine_short_right_beats_long_right_and_long_wrong_beats_short_wrong() -> None:
    made = Cosine(of=Exact(), limit=100)
    lengths = range(0, 100, 7)
    right = made(["q"] * 15, [RIGHT] * 15, ids(*lengths), answer=["4"] * 15)
    wrong = made(["q"] * 15, [WRONG] * 15, ids(*lengths), answer=["4"] * 15)
    assert right == sorted(right, reverse=True)
    assert wrong == sorted(wrong)
    assert max(wrong) < min(right)


def test_cosine_without_exceed_stays_at_the_end_of_the_curve() -> None:
    made = Cosine(of=Exact(), limit=10, exceed=None)
    # cos π = −1, and beyond L it does not rise again
    assert made(["q"] * 3, [RIGHT, WRONG, RIGHT], ids(10, 20, 20), answer=["4", "4", None]) == [1.0, 0.0, None]
