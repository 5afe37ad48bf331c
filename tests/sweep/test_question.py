"""Sweep files become questions, or every mistake at once; words of the command line edit them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grpo.config.compose import Composer
from grpo.errors import ConfigError
from grpo.sweep import files
from grpo.sweep.asked import asked
from grpo.sweep.question import Condition, check, read_seeds

COMPOSER = Composer()
YAML = """\
claim: {text: clip-higher keeps rare right tokens alive, source: "arXiv:2503.14476"}
common: [updates.minibatches=8, surrogate=clip]
arms: {eps_0.20: [], eps_0.28: [surrogate.high=0.28]}
baseline: eps_0.20
endpoint: test/avg@8
at: {generated_tokens: 400_000}
margin: 3e-2
tune: {grid: {optimizer.lr: [1e-4, 2e-4]}, seeds: [100, 101]}
seeds: range(2, 8)
active: surrogate/clip_high >= 0.005
"""


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "mine.yaml").write_text(YAML)
    return files.read(tmp_path / "mine.yaml")


def test_a_file_becomes_a_question(plain: dict[str, Any]) -> None:
    question = check(plain)
    assert question.arms == {"eps_0.20": (), "eps_0.28": ("surrogate.high=0.28",)}
    assert question.seeds == (2, 3, 4, 5, 6, 7)
    assert (question.margin, question.at.generated_tokens, question.k) == (0.03, 400000, 8)
    assert question.tune is not None
    assert question.tune.grid == {"optimizer.lr": [0.0001, 0.0002]}  # numbers, which PyYAML alone reads as text
    assert (question.tune.budget, question.tune.seeds) == (0.5, (100, 101))
    assert question.condition == Condition("surrogate/clip_high", ">=", 0.005)
    assert question.condition.holds(0.005)
    assert not question.condition.holds(0.0049)
    assert check(question.plain()) == question  # sweep.json can be read back


@pytest.mark.parametrize(
    ("value", "seeds"),
    [
        ("range(3)", (0, 1, 2)),
        ("range( 2 , 8, 2)", (2, 4, 6)),
        ("5, 7", (5, 7)),
        (4, (4,)),
        ([9, 1], (9, 1)),
        ("auto", "auto"),
    ],
)
def test_seeds_that_can_be_read(value: Any, seeds: Any) -> None:
    assert read_seeds(value) == seeds


@pytest.mark.parametrize("value", ["range(0)", "range(1, 2, 0)", True, [0.5], [], -1, None, "ten", [2**31]])
def test_seeds_that_cannot(value: Any) -> None:
    with pytest.raises(ValueError, match="must be range"):
        read_seeds(value)


def test_quick_is_three_seeds_without_tuning(plain: dict[str, Any]) -> None:
    quick = check({**plain, "profile": "quick"})
    assert (quick.seeds, quick.tune) == ((0, 1, 2), None)
    assert asked(plain, ["profile=quick", "seeds=range(2)"], COMPOSER).seeds == (0, 1)


def sentences(call: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        call()
    return [f"{m.key}   {m.sentence}" for m in caught.value.mistakes]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"baseline": "esp_0.20"}, "baseline   there is no arm esp_0.20; did you mean eps_0.20? (arms: eps_0.20, "),
        ({"endpoint": "test/avg@0"}, "endpoint   is one of test/avg@k"),
        ({"endpoint": "validation/avg@8"}, "endpoint   is one of test/avg@k"),
        ({"arms": {}}, "arms   is empty; name at least one"),
        ({"arms": {"eps_0.20": "surrogate.high=1"}}, "arms.eps_0.20   is a list of overrides"),
        ({"arms": {"eps_0.20": ["optimizer.lr=1"]}}, "arms.eps_0.20   sets optimizer.lr=1, which tune.grid chooses"),
        ({"arms": {"eps_0.20": [], "a/b": [], "A-b": []}}, "arms.A-b   and a/b would share the folder A-b"),
        ({"arms": {"eps_0.20": [], "logs": []}}, "arms.logs   cannot be the name of an arm"),
        ({"arms": {"eps_0.20": ["+seed=3"]}}, "arms.eps_0.20   sets +seed=3: every arm runs with every seed of the "
         "question; say seeds=3"),
        ({"common": ["run_dir=here"]}, "common   sets run_dir=here: the sweep places its runs itself"),
        ({"common": ["resume=never"]}, "common   sets resume=never: a sweep goes on by itself"),
        ({"common": ["max_steps=3"]}, "common   sets max_steps=3, but at.generated_tokens=400000 is the budget"),
        ({"seeds": [2, 2]}, "seeds   names 2 twice"),
        ({"seeds": "range(99, 103)"}, "tune.seeds   and seeds share 100, 101: what tuning has seen is no test"),
        ({"seeds": "auto", "margin": None}, "seeds   auto needs margin"),
        ({"margin": 0}, "margin   must be greater than 0, not 0"),
        ({"active": "surrogate/clip_hihg >= 0.005"}, "active   there is no metric surrogate/clip_hihg; did you mean "
         "surrogate/clip_high?"),
        ({"active": "clip_high"}, "active   is <metric> <op> <number>"),
        ({"active": "reward > much"}, "active   compares reward with a number, not with much"),
        ({"tune": {"grid": {"optimizer.lr": []}, "seeds": [100]}}, "tune.grid.optimizer.lr   is empty"),
        ({"tune": {"grid": {"optimizer.lr": [1]}, "seeds": [100], "budget": 0}}, "tune.budget   is a tuning run"),
        ({"tune": {"grid": {"optimizer.lr": [1]}, "seeds": [100], "budget": 1.5}}, "tune.budget   is a tuning run's"),
        ({"arms": {"eps_0.20": [], "Sweep.json": []}}, "arms.Sweep.json   cannot be the name of an arm"),
        ({"arms": {"eps_0.20": [], "長" * 67: []}}, f"arms.{'長' * 67}   is too long for a folder's name (200 bytes)"),
        ({"arms": {"eps_0.20": [], 1: [], "1": []}}, "arms.1   is there twice, as a text and as a number"),
        ({"active": "reward > nan"}, "active   compares reward with a number, not with nan"),
        ({"active": ""}, "active   is <metric> <op> <number>"),
        ({"seeds": "range(1000000000)"}, "seeds   must be at most 10,000 seeds"),
        ({"tune": {"grid": {"max_steps": [5, 9]}, "seeds": [100]}}, "tune.grid.max_steps   is no setting to choose"),
        ({"tune": {"grid": {"eval.samples": [2, 4]}, "seeds": [100]}}, "tune.grid.eval.samples   is no setting to"),
        ({"tune": {"grid": {"optimizer.lr": [0.1, 0.1]}, "seeds": [100]}}, "tune.grid.optimizer.lr   names a value "
         "twice: 0.1, 0.1"),
        ({"allow_same": "yes"}, "allow_same   must be true or false, not yes"),
        ({"marign": 1}, "marign   a question has claim, common, arms"),
        ({"claim": {"txt": "x"}}, "claim.txt   claim has text, source; did you mean text?"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_sentence(plain: dict[str, Any], change: dict[str, Any], sentence: str) -> None:
    assert any(text.startswith(sentence) for text in sentences(lambda: check({**plain, **change})))


def test_all_mistakes_at_once(plain: dict[str, Any]) -> None:
    wrong = {**plain, "margin": -1, "baseline": "x", "arms": {"a": ["seed=1"], "b": ["sweep=s", "arm=c"]}}
    assert [text.split("   ")[0] for text in sentences(lambda: check(wrong))] == [
        "margin", "baseline", "arms.a", "arms.b", "arms.b",
    ]  # fmt: skip
    assert [text.split("   ")[0] for text in sentences(lambda: check({"arms": {"a": []}}))] == ["baseline", "endpoint"]


def test_words_edit_the_question_and_replace_common_overrides(plain: dict[str, Any]) -> None:
    words = ["margin=5e-2", "updates.minibatches=2", "+task=words", "tune.grid.optimizer.lr=[1e-5]", "seeds=[0,1]",
             "active=null", "claim.text=is it so: yes", "endpoint=test/greedy", "arms=eps_0.20"]  # fmt: skip
    question = asked(plain, words, COMPOSER)
    assert question.common == ("surrogate=clip", "updates.minibatches=2", "+task=words")
    assert (question.margin, question.seeds, question.active, question.endpoint) == (0.05, (0, 1), None, "test/greedy")
    assert question.tune is not None
    assert question.tune.grid == {"optimizer.lr": [0.00001]}
    assert question.claim is not None
    assert question.claim.text == "is it so: yes"
    assert list(question.arms) == ["eps_0.20"]
    assert asked(plain, ["tune=null"], COMPOSER).tune is None


def test_words_that_are_mistakes(plain: dict[str, Any]) -> None:
    words = ["seed=3", "seedz=2", "surrogate.high=0.3", "arms=eps_0.28,eps", "common=[x]", "margin"]
    assert [text.split(";")[0] for text in sentences(lambda: asked(plain, words, COMPOSER))] == [
        "common   has no need of a word: every override on the command line joins it",
        "margin   is a key of the question and needs a value: margin=...",
        "arms   there is no arm eps (arms: eps_0.20, eps_0.28)",
        "seed   every arm runs with every seed of the question",
        "seedz   there is no such key",
        "surrogate.high   arm eps_0.28 sets it, which is what is compared",
    ]
    assert sentences(lambda: asked(plain, ["arms=eps_0.28"], COMPOSER)) == [
        "arms   leaves out the baseline eps_0.20; add it, or say baseline=eps_0.28"
    ]
    assert sentences(lambda: asked(plain, ["seeds=[0,1"], COMPOSER))[0].startswith("seeds   ")
    assert sentences(lambda: asked(plain, ["optimizer.lr=0.1"], COMPOSER)) == [
        "optimizer.lr   is what tune.grid chooses for every arm, so this would do nothing; add tune=null"
    ]
    assert asked(plain, ["arms=eps_0.28", "baseline=eps_0.28", "surrogate.low=0.1"], COMPOSER).baseline == "eps_0.28"


def test_files_are_found_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sweeps").mkdir()
    (tmp_path / "sweeps" / "mine.yaml").write_text(YAML)
    (tmp_path / "sweeps" / "wandb_x.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert files.find("mine") == tmp_path / "sweeps" / "mine.yaml"
    assert files.find("sweeps/mine.yaml") == Path("sweeps/mine.yaml")
    assert "clip_high" in files.known()  # those of the package are still there
    assert "wandb_x" not in files.known()
    assert "  mine" in files.listed()
    with pytest.raises(ConfigError, match="there is no sweep clip_hihg; did you mean clip_high"):
        files.find("clip_hihg")
    (tmp_path / "list.yaml").write_text("- 1\n")
    with pytest.raises(ConfigError, match="is no question"):
        files.read(tmp_path / "list.yaml")
    (tmp_path / "torn.yaml").write_text("a: [1\n")
    with pytest.raises(ConfigError, match="cannot be read as YAML"):
        files.read(tmp_path / "torn.yaml")
