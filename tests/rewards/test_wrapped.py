"""What a reward of a reward passes on."""

from __future__ import annotations

import pytest
import torch

from grpo.errors import UserError
from grpo.rewards.distort import Distorted
from grpo.rewards.exact import Exact
from grpo.rewards.wrapped import Wrapped


def test_only_the_arguments_that_the_inner_one_takes() -> None:
    def narrow(completions, level):
        return [float(n) for n in level]

    made = Wrapped(of=narrow)
    assert made.inner({"prompts": ["q"], "completions": ["o"], "level": [3], "answer": ["4"]}) == [3.0]
    with pytest.raises(UserError, match="of   it asks for level, but the task's columns are: answer"):
        made.inner({"prompts": ["q"], "completions": ["o"], "answer": ["4"]})


def test_per_sample_functions_tensors_and_none() -> None:
    def each(completion, answer):
        return None if completion == answer else 1

    given = {"prompts": ["q", "q"], "completions": ["4", "5"], "answer": ["4", "4"]}
    assert Wrapped(of=each).inner(given) == [None, 1.0]
    assert Wrapped(of=lambda completions: torch.tensor([1, 2])).inner(given) == [1.0, 2.0]


def test_async_and_short_ones_are_refused() -> None:
    async def later(completions):
        return [0.0]

    with pytest.raises(TypeError, match="of is an async reward"):
        Wrapped(of=later).inner({"prompts": ["q"], "completions": ["o"]})
    with pytest.raises(ValueError, match="of returned 1 scores for 2 completions"):
        Wrapped(of=lambda completions: [0.0]).inner({"prompts": ["q"] * 2, "completions": ["o"] * 2})


def test_what_the_inner_one_says_about_itself() -> None:
    class Counting:
        closed = False

        def __call__(self, completions):
            return [0.0]

        def metrics(self):
            return {"timeouts": 2.0}

        def close(self):
            self.closed = True

    counting = Counting()
    made = Distorted(of=counting)
    assert made.metrics() == {"timeouts": 2.0}
    made.close()
    assert counting.closed
    assert made.answer("x") is None
    plain = Distorted(of=Exact())
    assert (plain.metrics(), plain.close(), plain.answer(r"\boxed{4.0}")) == ({}, None, "4")
