"""Arms that are the same algorithm are found, and nothing else is taken for one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic.dataclasses import dataclass

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.sweep import sameness

COMPOSER = Composer()


def find(common: list[str], *arms: list[str], tuned: tuple[str, ...] = ()) -> list[tuple[str, str, float | None]]:
    """(first, second, factor) of the arms, which are called by their place."""
    loaded = [(str(n), *load([*common, *words], COMPOSER)) for n, words in enumerate(arms)]
    return [(pair.first, pair.second, pair.factor) for pair in sameness.find(loaded, tuned)]


def test_on_policy_a_clip_is_nothing_and_off_policy_something() -> None:
    arms = [[], ["surrogate.high=0.28"], ["surrogate.high=inf"], ["ratio=sequence"]]
    # One update per rollout: ρ = 1, where every clip and ratio level has the same gradient.
    assert find([], *arms) == [("0", "1", 1.0), ("0", "2", 1.0), ("0", "3", 1.0)]
    assert find(["updates.minibatches=4"], *arms) == []
    assert find(["updates.epochs=2"], *arms) == []


def test_corrections_are_nothing_until_the_engine_differs() -> None:
    arms = [["algo=grpo"], ["algo=tis"], ["algo=mis"], ["algo=chapter/mis"]]
    assert [pair[:2] for pair in find(["updates.minibatches=4"], *arms)] == [("0", "1"), ("0", "2"), ("0", "3")]
    assert find(["rollout.lag=1"], *arms) == []


def test_a_constant_factor_is_the_same_algorithm_and_is_said() -> None:
    # RLOO's A is G/(G−1) times the group-mean advantage: 8/7 with eight completions. Sums over tokens stay sums.
    (found,) = find(["updates.minibatches=4"], ["algo=reinforce"], ["algo=rloo"])
    assert found[:2] == ("0", "1")
    assert found[2] == pytest.approx(8 / 7, rel=1e-12)
    # An average over the completion's budget of 32 tokens instead of a sum: 1/32, at the run's own budget.
    common = ["updates.minibatches=4", "kl=none", "advantage=group_mean"]
    (found,) = find(common, ["aggregation=sequence_sum"], ["aggregation=constant"])
    assert found[2] == pytest.approx(1 / 32, rel=1e-12)


def test_opposite_gradients_are_not_the_same() -> None:
    config, _ = load(["updates.minibatches=4"], COMPOSER)
    mine = sameness.signature(config)
    assert mine.gradients is not None
    opposite = sameness.Signature(mine.collection, -mine.gradients)
    assert sameness.factor(mine, mine) == pytest.approx(1.0)
    assert sameness.factor(mine, opposite) is None
    assert sameness.factor(mine, sameness.Signature(mine.collection, 0 * mine.gradients)) is None
    assert sameness.factor(mine, sameness.Signature("other rounds", mine.gradients)) is None


@pytest.mark.parametrize(
    "arm",
    [
        "kl=none", "kl.coef=0.05", "kl=k2", "kl=exact", "entropy=loss_bonus", "entropy=reward_bonus",
        "shaping=soft_overlong", "overlong=mask_truncated", "aggregation=token_mean", "filter=mixed_groups",
        "filter.k=2", "advantage=group_mean", "credit=ref_downweight", "surrogate=soft_gate", "surrogate=detached_cap",
    ],
)  # fmt: skip
def test_what_makes_a_difference_is_seen(arm: str) -> None:
    words = ["filter=top_k", arm] if arm == "filter.k=2" else [arm]
    other = ["filter=top_k", "filter.k=3"] if arm == "filter.k=2" else []
    assert find(["updates.minibatches=4"], other, words) == []


@pytest.mark.parametrize(
    ("common", "one", "other"),
    [
        (["surrogate=detached_cap"], "surrogate.cap=4.0", "surrogate.cap=7.0"),
        (["filter=mixed_groups"], "filter.by=accuracy", "filter.by=reward"),
        (["filter=mixed_groups"], "filter.max_rounds=10", "filter.max_rounds=2"),
        (["filter=mixed_groups", "filter.max_rounds=1"], "filter.when_exhausted=skip", "filter.when_exhausted=train"),
        (["form=contrastive"], "form.pairing=all", "form.pairing=diverse"),
    ],
)
def test_numbers_that_make_a_difference_are_seen(common: list[str], one: str, other: str) -> None:
    assert find(["updates.minibatches=4", *common], [one], [other]) == []


def test_ranks_are_z_scores_of_right_and_wrong_but_not_of_shares() -> None:
    arms = (["algo=gopo"], ["algo=gopo", "advantage=group_mean"])
    # Of m right ones among G, ranks and means both are a constant apart: the factor is the published step 4/(G−1)·G/2.
    (found,) = find(["updates.minibatches=4"], *arms)
    assert found[2] == pytest.approx((7 / 4) / 4, rel=1e-9)
    assert find(["updates.minibatches=4", "reward=digits"], *arms) == []
    assert find(["updates.minibatches=4", "reward=multi"], *arms) == []


def test_other_settings_make_other_arms_except_the_tuned_ones() -> None:
    assert find([], [], ["optimizer.lr=1e-5"]) == []
    assert find([], [], ["optimizer.lr=1e-5"], tuned=("optimizer.lr",)) == [("0", "1", 1.0)]
    assert find([], [], ["kl.coef=0.05"], tuned=("kl.coef",)) == [("0", "1", 1.0)]
    assert find([], [], ["updates.minibatches=4"]) == []
    assert find([], [], ["logger=none"]) == [("0", "1", 1.0)]  # changes no number


@dataclass(frozen=True)
class Own:
    """A surrogate of the user's: whatever it does, nobody has looked into it."""

    strength: float = 1.0
    inert = ""

    def __call__(self, log_ratio: Any, advantages: Any, tokens: Any) -> Any:
        """J [B, T]."""
        return advantages * log_ratio.exp()

    def diagnostics(self, log_ratio: Any, advantages: Any, tokens: Any) -> dict[str, Any]:
        """Nothing."""
        return {}


def test_a_part_of_ones_own_is_different_unless_it_is_written_the_same() -> None:
    own = f"{__name__}.Own"
    config, resolved = load([], COMPOSER)
    mine = config.model_copy(update={"surrogate": Own()})
    written = {**resolved, "surrogate": {"_target_": own, "strength": 1.0}}
    other = {**resolved, "surrogate": {"_target_": own, "strength": 2.0}}
    assert [p.second for p in sameness.find([("a", mine, written), ("b", mine, written)])] == ["b"]
    assert sameness.find([("a", mine, written), ("b", mine, other)]) == []


def test_the_sentence_says_why() -> None:
    loaded = [(name, *load(words, COMPOSER)) for name, words in (("low", []), ("high", ["surrogate.high=0.3"]))]
    (pair,) = sameness.find(loaded)
    assert pair.sentence == (
        "high is the same algorithm as low in these runs: equal settings, equal gradients; with one update per rollout "
        "ratios and clips do nothing (updates.minibatches=4 gives them work)"
    )
    (again,) = sameness.find([loaded[0], ("copy", *loaded[0][1:])])
    assert again.sentence == "copy is low: every setting that changes numbers is equal"


def test_leaving_out_uniform_groups_scales_every_step_by_another_factor() -> None:
    # 6 / 4 = 1.5 with two uniform groups of six, 6 / 3 = 2 with three: no one factor, hence another algorithm.
    assert find(["kl=none"], [], ["filter=drop_uniform"]) == []


def test_shaping_finer_than_the_synthetic_lengths_is_seen() -> None:
    assert find(["shaping=soft_overlong"], ["shaping.interval=0.05"], ["shaping.interval=0.06"]) == []
    assert [pair[:2] for pair in find(["shaping=soft_overlong"], [], ["surrogate.high=0.3"])] == [("0", "1")]
