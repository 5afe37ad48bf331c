"""Bent rewards: ranks stay, distances do not, and the noise is a function of what was said."""

from __future__ import annotations

import math
import statistics

import pytest
import torch

from grpo.algorithm.advantage import GroupZScore, Ordinal
from grpo.data import Scores
from grpo.rewards.distort import Distorted, normal, student_t
from grpo.rewards.exact import text_of


def given(completions, **columns):
    return [None if text_of(c) == "?" else float(text_of(c)) for c in completions]


def paid(made: Distorted, *texts: str, prompt="q") -> list[float | None]:
    return made([prompt] * len(texts), list(texts))


def test_shapes_by_hand() -> None:
    assert paid(Distorted(of=given, shape="none"), "0.5", "-2", "?") == [0.5, -2.0, None]
    assert paid(Distorted(of=given, shape="cube"), "0.5", "-2") == [0.125, -8.0]
    assert paid(Distorted(of=given, shape="exp", gain=2.0), "0", "0.5") == [1.0, math.e]


def test_scale_per_prompt_is_one_factor_for_the_whole_group() -> None:
    made = Distorted(of=given, spread=1.5, seed=3)
    first = paid(made, "1", "2", "-4", prompt="a")
    assert first == [pytest.approx(k * math.exp(1.5 * normal(3, "scale", "a"))) for k in (1, 2, -4)]
    assert paid(made, "1", prompt="b")[0] != first[0]
    chat = [{"role": "user", "content": "a"}]
    other = [{"role": "user", "content": "b"}]
    said = [{"role": "assistant", "content": "1"}]
    one, again, two = made([chat, chat, other], [said] * 3)
    assert one == again != two


def test_noise_is_a_function_of_seed_prompt_and_completion() -> None:
    made = Distorted(of=given, noise=0.1, seed=1)
    a, b, again = paid(made, "1", "2", "1")
    assert a == again == 1 + 0.1 * student_t(1.5, 1, "noise", "q", "1")
    assert b != a + 1
    assert paid(made, "1", prompt="other")[0] != a
    assert paid(Distorted(of=given, noise=0.1, seed=2), "1")[0] != a


def test_hashed_distributions() -> None:
    z = [normal("z", i) for i in range(4000)]
    assert statistics.fmean(z) == pytest.approx(0.0, abs=0.06)
    assert statistics.pstdev(z) == pytest.approx(1.0, abs=0.05)
    # ν = 1 is Cauchy, whose quartiles are ±1; the quartiles of ν = 2 are ±√⅔ = ±0.8165 (F(t) = ½ + t / 2√(2 + t²)).
    for df, quartile in ((1.0, 1.0), (2.0, math.sqrt(2 / 3))):
        low, middle, high = statistics.quantiles([student_t(df, "t", i) for i in range(4000)], n=4)
        assert middle == pytest.approx(0.0, abs=0.08)
        assert (low, high) == pytest.approx((-quartile, quartile), abs=0.08)


def test_the_heaviest_tail_is_still_finite() -> None:
    assert all(math.isfinite(student_t(0.5, "t", i)) for i in range(1000))
    assert math.sqrt(0.5 * ((2.0**-53) ** (-2.0 / 0.5) - 1.0)) < math.inf  # the smallest u there is


def test_gopo_does_not_notice_an_increasing_distortion_and_grpo_does() -> None:
    texts = ("0.1", "0.4", "0.5", "0.9")
    plain, bent = (
        torch.tensor([paid(Distorted(of=given, shape=shape, spread=spread), *texts)], dtype=torch.float64).T
        for shape, spread in (("none", 0.0), ("exp", 1.0))
    )
    groups = torch.zeros(4, dtype=torch.int64)
    weights = torch.ones(1, dtype=torch.float64)

    def advantages(part, rewards):
        return part(Scores(rewards, weights, groups, rewards[:, 0]))

    assert torch.equal(advantages(Ordinal(), plain), advantages(Ordinal(), bent))
    assert not torch.allclose(advantages(GroupZScore(), plain), advantages(GroupZScore(), bent), atol=1e-2)
