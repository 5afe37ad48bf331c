"""Pairs of the contrastive form: diversified ones, and distances between completions."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo.algorithm.distance import NgramJaccard, Said, diversity
from grpo.algorithm.form_contrastive import Contrastive

F64 = torch.float64
IDS = st.lists(st.integers(0, 3), max_size=6).map(tuple)


def said(*ids: tuple[int, ...]) -> list[Said]:
    return [Said("".join(map(str, row)), row) for row in ids]


def test_jaccard_by_hand() -> None:
    distance = NgramJaccard(ngram=2)
    a, b, c, empty, short = said((1, 2, 3), (1, 2, 4), (5, 6, 7), (), (1,))
    assert distance(a, b) == pytest.approx(2 / 3)  # {12, 23} and {12, 24}: 1 of 3 in common
    assert distance(a, c) == 1.0
    assert distance(empty, empty) == 0.0
    assert distance(empty, a) == 1.0
    assert distance(short, short) == 0.0  # one n-gram, the whole
    assert NgramJaccard(ngram=1)(a, b) == pytest.approx(1 - 2 / 4)  # {1, 2, 3} and {1, 2, 4}


@given(a=IDS, b=IDS, n=st.integers(1, 4))
def test_jaccard_is_a_distance(a: tuple[int, ...], b: tuple[int, ...], n: int) -> None:
    distance, (first, second) = NgramJaccard(ngram=n), said(a, b)
    assert 0 <= distance(first, second) <= 1
    assert distance(first, second) == distance(second, first)
    assert distance(first, first) == 0


ROWS = said((1, 2, 3), (1, 2, 4), (5, 6, 7), (1, 2, 3))
"""Distances: A–B 2/3, A–C 1, A–D 0, B–C 1, B–D 2/3, C–D 1; so the means are 5/9, 7/9, 1, 5/9."""


def test_diversity_by_hand() -> None:
    assert diversity(ROWS, NgramJaccard()) == pytest.approx([5 / 9, 7 / 9, 1.0, 5 / 9])
    assert diversity(ROWS[:1], NgramJaccard()) == [0.0]


def chosen(rewards: list[float], form: Contrastive, groups: list[int] | None = None) -> list[list[int]]:
    ids = torch.tensor(groups or [0] * len(rewards))
    kept = form.selected(torch.tensor(rewards, dtype=F64), ids, ROWS * 2)
    return form.pairs(kept, ids).tolist()


def test_diverse_pairs_take_the_least_alike_above_and_the_most_alike_below() -> None:
    nan = float("nan")
    diverse = Contrastive(pairing="diverse")
    assert chosen([1, 0, 1, 0], diverse) == [[2, 3]]  # C (1) over A (5/9); D (5/9) rather than B (7/9)
    assert chosen([1, 0, 1, 0], Contrastive(pairing="best_vs_worst")) == [[0, 1]]  # the first of each
    assert chosen([1, 0, nan, 0], diverse) == [[0, 3]]  # without C: A–B 2/3, A–D 0, B–D 2/3: D ⅓, B ⅔
    assert chosen([0.5, 0.5, 0.5, 0.5], diverse) == []
    assert chosen([0.4, 0.0, 1.0, 0.5], diverse) == [[2, 0]]  # mean 0.475: C and D above, A (5/9) and B (7/9) below
    assert chosen([1, 0, 1, 0, 1, 0, 1, 0], diverse, [5, 5, 5, 5, 2, 2, 2, 2]) == [[2, 3], [6, 7]]


def test_a_distance_of_ones_own() -> None:
    by_length = Contrastive(pairing="diverse", distance=lambda a, b: abs(len(a.text) - len(b.text)))
    rows = said((1,), (1, 1), (1, 1, 1, 1, 1), (1,))
    rewards = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=F64)
    kept = by_length.selected(rewards, torch.zeros(4, dtype=torch.long), rows)
    # lengths 1, 2, 5, 1: mean distances 5/3, 5/3, 11/3, 5/3
    assert by_length.pairs(kept, torch.zeros(4, dtype=torch.long)).tolist() == [[2, 3]]


@given(st.lists(st.sampled_from([0.0, 0.1, 0.3, 1.0]), min_size=8, max_size=8))
def test_the_better_one_is_strictly_better(rewards: list[float]) -> None:
    for better, worse in chosen(rewards, Contrastive(pairing="diverse"), [0, 0, 0, 1, 1, 1, 1, 1]):
        assert rewards[better] > rewards[worse]


def test_without_completions_it_is_an_error() -> None:
    with pytest.raises(ValueError, match="pairing=diverse compares completions"):
        Contrastive(pairing="diverse").selected(torch.zeros(2, dtype=F64), torch.zeros(2))
