"""Questions and grids become jobs: budgets, points, folders, hashes; all is checked before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.config.hashing import config_hash
from grpo.errors import ConfigError
from grpo.sweep import grid, layout
from grpo.sweep.arms import Planner, told
from grpo.sweep.question import Question, check
from grpo.sweep.words import assigned, key_of, merged

COMPOSER = Composer()
BASE: dict[str, Any] = {
    "common": ["updates.minibatches=4", "surrogate.low=0.1"],
    "arms": {"a": [], "b": ["surrogate.low=0.3"]},
    "baseline": "a",
    "endpoint": "test/avg@8",
    "at": {"generated_tokens": 5000},
    "seeds": [0, 1],
}
TUNE = {"grid": {"optimizer.lr": [0.0001, 0.0002], "kl.coef": [0.0]}, "seeds": [100, 101], "budget": 0.5}


def planner(**change: Any) -> Planner:
    return Planner(check({**BASE, **change}), COMPOSER)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("+algo=dapo", "algo"),
        ("algo/chapter=dapo", "algo"),
        ("++surrogate.high=0.3", "surrogate.high"),
        ("~a.b", "a.b"),
    ],
)
def test_which_key_a_word_sets(text: str, key: str) -> None:
    assert key_of(text) == key


def test_an_arms_own_word_beats_the_common_one() -> None:
    assert merged(["a=1", "+b=2"], ["b=3", "c=4"]) == ("a=1", "b=3", "c=4")


@pytest.mark.parametrize("value", [0.0001, 1e-5, [0.9, 0.95], True, None, "linear", 3])
def test_a_value_of_the_grid_reaches_its_key(value: Any) -> None:
    override = COMPOSER.parse(assigned("key", value))
    assert override.value() == value


def test_final_jobs() -> None:
    made = planner()
    arms, wrong = made.check()
    assert wrong == {}
    assert [arm.config.surrogate.low for arm in arms] == [0.1, 0.3]
    jobs = made.final("b", (0, 1))
    assert [job.folder for job in jobs] == ["b/seed=0", "b/seed=1"]
    assert jobs[1].overrides == (
        "updates.minibatches=4", "surrogate.low=0.3", "budget.generated_tokens=5000", "max_steps=null", "seed=1",
    )  # fmt: skip
    # What a job says is what it will be: the hash of the configuration that its words compose.
    config, resolved = load(jobs[1].words(Path("s")), COMPOSER)
    assert (config.seed, config.arm, config.run_dir) == (1, "b", "s/b/seed=1")
    assert jobs[1].config_hash == config_hash(resolved)


def test_tuning_jobs_run_every_point_on_every_tuning_seed_with_half_the_budget() -> None:
    made = planner(tune=TUNE)
    (arm, _), _ = made.check()
    assert [job.folder for job in arm.tune] == [
        "a/tune/lr=0.0001,coef=0.0/seed=100", "a/tune/lr=0.0001,coef=0.0/seed=101",
        "a/tune/lr=0.0002,coef=0.0/seed=100", "a/tune/lr=0.0002,coef=0.0/seed=101",
    ]  # fmt: skip
    config, _ = load(arm.tune[2].overrides, COMPOSER)
    assert (config.optimizer.lr, config.kl.coef, config.seed) == (0.0002, 0.0, 100)
    assert (config.budget.generated_tokens, config.max_steps) == (2500, None)
    assert (config.eval.test_questions, config.eval.greedy, config.checkpoint.export) == (0, False, False)
    final = made.final("a", (0,), arm.tune[2].point)[0]
    assert load(final.overrides, COMPOSER)[0].optimizer.lr == 0.0002
    assert final.point == {"optimizer.lr": 0.0002, "kl.coef": 0.0}


def test_without_a_token_budget_tuning_is_shortened_in_the_runs_own_unit() -> None:
    def tuned(**change: Any) -> Any:
        (arm,), _ = planner(at=None, tune=TUNE, arms={"a": []}, **change).check()
        return load(arm.tune[0].overrides, COMPOSER)[0]

    assert tuned(common=["max_steps=30"]).max_steps == 15
    assert tuned(common=["budget.generated_tokens=1001"]).budget.generated_tokens == 500
    assert tuned(common=["data.passes=2"]).data.passes == 1.0


def test_a_hash_that_reads_the_seed_is_taken_for_each_seed() -> None:
    jobs = planner(common=["reward=distorted"], arms={"a": []}).final("a", (0, 1))
    assert jobs[0].config_hash != jobs[1].config_hash  # its noise is drawn from the seed
    for job in jobs:
        assert job.config_hash == config_hash(load(job.overrides, COMPOSER)[1])


def test_mistakes_of_all_arms_are_told_at_once() -> None:
    made = planner(common=["grup_size=4"], arms={"a": ["surrogate.hihg=1"], "b": ["kl.beta=1"]})
    _, wrong = made.check()
    assert [m.key for m in told(wrong, ["a", "b"]).mistakes] == [
        "grup_size",
        "arms.a: surrogate.hihg",
        "arms.b: kl.beta",
    ]


@pytest.mark.parametrize(
    ("endpoint", "common", "sentence"),
    [
        ("test/avg@4", [], "endpoint   speaks of 4 completions, but eval.test_samples=8; say endpoint=test/avg@8 or "),
        ("test/avg@8", ["eval.test_questions=0"], "eval.test_questions   is 0, so nothing would record test/avg@8"),
        ("test/greedy", ["eval.greedy=false"], "eval.greedy   is false, so nothing would record test/greedy"),
    ],
)
def test_an_endpoint_that_no_run_would_record(endpoint: str, common: list[str], sentence: str) -> None:
    _, wrong = planner(endpoint=endpoint, common=common).check()
    assert str(wrong["a"]).startswith(sentence)


def test_the_digest_stays_with_more_seeds_and_changes_with_what_is_asked() -> None:
    def code(**change: Any) -> str:
        made = planner(**change)
        arms, _ = made.check()
        return layout.digest(made.question, {arm.name: arm.hashes for arm in arms})

    base = code()
    assert code(seeds="range(30)") == base
    assert code(claim={"text": "other"}) == base
    assert code(common=[*BASE["common"], "logger=none", "output_dir=elsewhere"]) == base
    assert code(common=["surrogate.low=0.1", "updates.minibatches=4"]) == base  # another order, the same runs
    others = [
        code(margin=0.1), code(tune=TUNE), code(at={"generated_tokens": 6000}), code(baseline="b"),
        code(arms={"a": [], "b": ["surrogate.low=0.4"]}), code(arms={"a": [], "c": ["surrogate.low=0.3"]}),
    ]  # fmt: skip
    assert len({base, *others}) == 7


def test_folders_of_arms() -> None:
    assert layout.arm_folders(["algo=chapter/dapo,x=1", "a b", "A B"]) == {
        "algo=chapter/dapo,x=1": "algo=chapter-dapo,x=1", "a b": "a_b", "A B": "A_B~2",
    }  # fmt: skip
    long = layout.arm_folders(["x" * 130 + "1", "x" * 130 + "2"])
    assert len(set(long.values())) == 2
    assert all(len(folder) <= 120 for folder in long.values())


def test_a_grid_is_a_question() -> None:
    words = ["+algo=chapter/dapo,grpo", "updates.minibatches=4", "group_size=4,8", "seed=range(3,5)", "resume=auto"]
    name, made = grid.question(words, COMPOSER)
    assert name == "algo,group_size"
    assert made == Question(
        common=("updates.minibatches=4",),
        arms={
            "algo=chapter/dapo,group_size=4": ("+algo=chapter/dapo", "group_size=4"),
            "algo=chapter/dapo,group_size=8": ("+algo=chapter/dapo", "group_size=8"),
            "algo=grpo,group_size=4": ("+algo=grpo", "group_size=4"),
            "algo=grpo,group_size=8": ("+algo=grpo", "group_size=8"),
        },
        baseline="algo=chapter/dapo,group_size=4",
        endpoint="test/avg@8",
        seeds=(3, 4),
        allow_same=True,
    )


def test_a_grid_over_seeds_alone_has_one_arm_with_the_configurations_name() -> None:
    name, made = grid.question(["algo=dapo", "surrogate.high=0.3", "seed=1,0", "eval.test_samples=2"], COMPOSER)
    assert (name, list(made.arms), made.seeds) == ("seed", ["dapo+surrogate.high=0.3"], (1, 0))
    assert made.endpoint == "test/avg@2"
    assert grid.question(["group_size=4,8"], COMPOSER)[1].seeds == (0,)


def test_an_arm_of_a_grid_that_is_wrong_leaves_the_others() -> None:
    _, made = grid.question(["group_size=1,4"], COMPOSER)
    right, wrong = Planner(made, COMPOSER, kind="grid").check()
    assert [arm.name for arm in right] == ["group_size=4"]
    assert list(wrong) == ["group_size=1"]
    with pytest.raises(ConfigError, match="must be at least 2"):
        grid.question(["group_size=1,0"], COMPOSER)
