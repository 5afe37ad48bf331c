"""countdown and pairs: solvable, disjoint, and paid by their own reward without being asked for it."""

from __future__ import annotations

from itertools import combinations

import pytest

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.rewards.many import Countdown as CountdownReward
from grpo.rewards.many import Pairs as PairsReward
from grpo.tasks.base import SPLITS, questions
from grpo.tasks.countdown import Countdown
from grpo.tasks.pairs import Pairs

COUNTDOWNS = [
    Countdown(),
    Countdown(use="some"),
    Countdown(numbers=2, largest=20),
    Countdown(numbers=4, largest=25, operations="+-", chat=True),
]


@pytest.mark.parametrize("task", COUNTDOWNS, ids=str)
def test_countdown_problems_are_solvable_new_and_in_one_split(task: Countdown) -> None:
    reward = CountdownReward(extract="last_expression", use=task.use)
    problems = {}
    for split in SPLITS:
        asked = questions(task, split, 0, min(300, task.size(split)))
        columns = {name: [q.columns[name] for q in asked] for name in ("numbers", "target")}
        golds = [f"\\boxed{{{q.columns['answer']}}}" for q in asked]
        assert set(reward([q.text for q in asked], golds, **columns)) == {1.0}
        assert all(str(q.columns["target"]) in q.text for q in asked)
        assert all(q.columns["target"] not in q.columns["numbers"] for q in asked)
        problems[split] = [(*sorted(q.columns["numbers"]), q.columns["target"]) for q in asked]
        assert len(set(problems[split])) == len(problems[split]) > 0
    for one, other in combinations(SPLITS, 2):
        assert not set(problems[one]) & set(problems[other])


@pytest.mark.parametrize("task", [Pairs(), Pairs(largest=9), Pairs(largest=500, chat=True)], ids=str)
def test_pairs_ask_every_sum_once(task: Pairs) -> None:
    asked = [q for split in SPLITS for q in questions(task, split, 0, task.size(split))]
    assert all(task.size(split) for split in SPLITS)
    assert sorted(q.columns["target"] for q in asked) == list(range(task.largest + 1))
    golds = [q.columns["answer"] for q in asked]
    targets = [q.columns["target"] for q in asked]
    assert set(PairsReward(extract="last_expression")([q.text for q in asked], golds, target=targets)) == {1.0}


def test_the_bare_forms() -> None:
    assert {len(q.text) for q in questions(Pairs(), "train", 0, 50)} == {3}  # "07=", "12="
    question = Countdown().question("train", 0)
    assert question.text == f"{','.join(map(str, question.columns['numbers']))}={question.columns['target']}="


def test_a_task_brings_its_reward_and_the_command_line_wins() -> None:
    composer = Composer()
    for task, reward in [("countdown", "countdown"), ("pairs", "pairs"), ("reasoning_gym", "reasoning_gym")]:
        assert load([f"task={task}"], composer)[0].choices["reward"] == reward
        assert load([f"task={task}", "reward=pairs"], composer)[0].choices["reward"] == "pairs"
        assert load(["+algo=dapo", f"task={task}"], composer)[0].choices["reward"] == reward
    assert load(["task=math"], composer)[0].choices["reward"] == "math"
    assert load(["task=words"], composer)[0].choices["reward"] == "exact"
    assert load(["task=math"], composer)[0].name == "grpo"  # no edit of the algorithm
    assert load(["task=countdown", "task.use=all"], composer)[0].reward.functions["countdown"].use == "all"
