"""reasoning-gym: its data sets by name, its scorers as the reward, sentences for what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import lines, run

from grpo.config.check import load
from grpo.errors import UserError
from grpo.models.architecture import make_tokenizer
from grpo.rewards import reasoning_gym as reward_module
from grpo.rewards.reasoning_gym import ReasoningGym as Reward
from grpo.tasks.base import SPLITS, Question, questions
from grpo.tasks.prompts import PromptBook
from grpo.tasks.reasoning_gym import ReasoningGym

pytest.importorskip("reasoning_gym", reason="grpo-lab[tasks] is not installed")

NAMES = ["chain_sum", "gcd", "spell_backward", "number_sorting", "countdown", "letter_counting"]


def everything(task: ReasoningGym) -> list[Question]:
    return [q for split in SPLITS for q in questions(task, split, 0, task.size(split))]


@pytest.fixture
def paid() -> Iterator[Any]:
    """Scores of texts for one question; the processes end with the test."""
    rewards: dict[str, Reward] = {}

    def pay(task: ReasoningGym, question: Question, *texts: str, **fields: Any) -> list[float | None]:
        reward = rewards.setdefault(f"{task.name}{fields}", Reward(name=task.name, **fields))
        columns = {key: [value] * len(texts) for key, value in question.columns.items()}
        return reward([question.text] * len(texts), list(texts), **columns)

    yield pay
    for reward in rewards.values():
        reward.close()


@pytest.mark.parametrize("name", NAMES)
def test_splits_are_disjoint_and_a_function_of_the_seed(name: str) -> None:
    task = ReasoningGym(name=name, questions=60)
    texts = {split: [q.text for q in questions(task, split, 0, task.size(split))] for split in SPLITS}
    assert all(texts.values())
    assert all(len(set(found)) == len(found) for found in texts.values())
    for one, other in combinations(SPLITS, 2):
        assert not set(texts[one]) & set(texts[other])
    assert sum(map(len, texts.values())) == 60
    assert everything(ReasoningGym(name=name, questions=60, seed=1)) != everything(task)


@pytest.mark.parametrize("name", NAMES)
def test_the_gold_answer_is_paid_and_a_wrong_one_is_not(name: str, paid: Any) -> None:
    task = ReasoningGym(name=name, questions=20)
    question = task.question("train", 0)
    gold, wrong, none, empty = paid(
        task, question, f"So \\boxed{{{question.columns['answer']}}}", "\\boxed{??}", question.columns["answer"], ""
    )
    assert gold == 1.0
    assert wrong < 0.5
    assert none == empty == 0.0  # no box, no answer


def test_where_the_answer_is_read() -> None:
    tag = Reward(name="gcd", extract="answer_tag")
    assert tag.answer("<answer>1</answer> no: <answer>\n12\n</answer> done") == "12"
    assert tag.answer("<answer>12") is None
    assert tag.answer("12") is None
    assert Reward(name="gcd", extract="text").answer(" a\nb ") == "a\nb"
    assert Reward(name="gcd").answer("\\boxed{a b}") == "a b"


def test_the_difficulty_is_the_data_sets_own() -> None:
    task = ReasoningGym(name="chain_sum", questions=20, config={"min_terms": 2, "max_terms": 2, "max_digits": 1})
    assert all(q.columns["metadata"]["num_terms"] == 2 for q in everything(task))
    assert task.notes() == []
    few = ReasoningGym(name="chain_sum", questions=2000, config=task.config)
    # 9·9 ordered pairs of one digit, + and −: 162 questions, found up to the last few
    assert 150 <= sum(few.size(split) for split in SPLITS) <= 200
    assert few.notes()[0].startswith("chain_sum has ")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": "chain_som"}, r"^task\.name   reasoning-gym has no data set chain_som; did you mean chain_sum\?"),
        ({"name": "zzz"}, r"^task\.name   reasoning-gym has no data set zzz; it has ab, acre, "),
        ({"config": {"max_termz": 3}}, r"^task\.config\.max_termz   chain_sum has .*; did you mean max_terms\?"),
        ({"config": {"size": 3}}, r"^task\.config\.size   is set by task\.questions here"),
        ({"config": {"min_terms": -1}}, r"^task\.config   chain_sum does not accept it: "),
    ],
)
def test_wrong_names_and_numbers_are_sentences(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ReasoningGym(**{"name": "chain_sum", "questions": 20, **fields}).size("train")


def test_not_installed_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(UserError) as refusal:
        ReasoningGym(name="chain_sum", questions=21).size("train")
    assert str(refusal.value) == "task   reasoning-gym is not installed; pip install grpo-lab[tasks]"
    load(["task=reasoning_gym"])  # the configuration alone asks for nothing


def test_a_scorer_that_hangs_or_fails_is_paid_nothing_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    question = ReasoningGym(name="gcd", questions=20).question("train", 0)
    for target, counted in [("math:sqrt", "errors"), ("tests.tasks.test_reasoning_gym:hang", "timeouts")]:
        monkeypatch.setattr(reward_module, "FUNCTION", target)
        reward = Reward(name="gcd", seconds=0.5)
        columns = {key: [value] * 2 for key, value in question.columns.items()}
        assert reward(["q"] * 2, ["\\boxed{1}", "none"], **columns) == [0.0, 0.0]
        assert reward.metrics()[counted] == 1.0
        assert reward.metrics() == {"errors": 0.0, "timeouts": 0.0}  # since the last call
        reward.close()


def hang(task: Any) -> float:
    while True:
        pass


def test_the_embedded_policy_says_what_it_cannot_read() -> None:
    with pytest.raises(UserError, match=r"^model   its tokenizer has no token for "):
        PromptBook(ReasoningGym(name="emoji_mystery", questions=20), make_tokenizer(), 0, 2000)


@pytest.mark.parametrize("name", ["chain_sum", "gcd"])
def test_five_steps_end_to_end(tmp_path: Path, name: str) -> None:
    # helpers.SMALL brings a reward of its own; the task's must act here
    small = ["task=reasoning_gym", f"task.name={name}", "task.questions=40", "task.instruction=''", "max_steps=5"]
    code, folder = run(tmp_path, *small, without=("reward", "reward.functions.own._target_"))
    assert code == 0
    steps = [row for row in lines(folder / "metrics.jsonl") if "reward" in row]
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5]
    assert all(row["rewards/reasoning_gym/errors"] == 0.0 for row in steps)
