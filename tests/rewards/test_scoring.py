"""The scorer: the ecosystem's interface, None, and a sentence for everything a function can do wrong."""

import functools
import math
import reprlib
import sys

import numpy as np
import pytest
import torch

from grpo.config.schema import RewardConfig
from grpo.data import Prompt, Rollout
from grpo.errors import UserError
from grpo.rewards.exact import Exact
from grpo.rewards.scoring import Scorer

PROMPTS = [Prompt("p", (1,), "1+1=", {"answer": "2", "level": 1}), Prompt("q", (1,), "2+2=", {"answer": "4"})]
CHAT = [Prompt("p", (1,), "<user>1+1", {"answer": "2"}, ({"role": "user", "content": "1+1"},))]


def rollout(prompt: str, group: int, sample: int, text: str) -> Rollout:
    return Rollout(prompt, group, sample, (5, 6), (0.0, 0.0), (True, True), "stop", text, 0)


ROLLOUTS = [rollout("q", 1, 0, r"\boxed{4}"), rollout("p", 0, 0, r"\boxed{2}"), rollout("p", 0, 1, "2")]


def scorer(
    *functions, accuracy: str | None = None, weights: dict[str, float] | None = None, right_at: float = 1.0
) -> Scorer:
    named = {f"f{i}": function for i, function in enumerate(functions)}
    return Scorer(RewardConfig(functions=named, weights=weights or {}, accuracy=accuracy, right_at=right_at))


def test_exact_scores_by_prompt_id_whatever_the_order() -> None:
    scores = scorer(Exact()).score(PROMPTS, ROLLOUTS)
    assert scores.rewards.tolist() == [[1.0], [1.0], [0.0]]  # the last says 2 without a box
    assert scores.rewards.dtype == torch.float64
    assert scores.groups.tolist() == [1, 0, 0]
    assert scores.accuracy.tolist() == [1.0, 1.0, 0.0]


def test_weights_and_accuracy_column() -> None:
    def length(completions, **columns):
        return [float(len(c)) for c in completions]

    made = scorer(length, Exact(), weights={"f0": 0.5}, accuracy="f1")
    scores = made.score(PROMPTS, ROLLOUTS)
    # 0.5 · 9 characters + 1 · right = 5.5, the same, 0.5 · 1 + 0 = 0.5
    assert scores.total.tolist() == [5.5, 5.5, 0.5]
    assert scores.accuracy.tolist() == [1.0, 1.0, 0.0]
    assert (made.names, made.weights) == (("f0", "f1"), (0.5, 1.0))


def test_accuracy_is_a_threshold_and_unknown_stays_unknown() -> None:
    scores = scorer(lambda completions: [0.4, 0.9, None], right_at=0.5).score(PROMPTS, ROLLOUTS)
    assert scores.accuracy[:2].tolist() == [0.0, 1.0]
    assert math.isnan(scores.accuracy[2])
    assert scores.scored.tolist() == [True, True, False]


def test_arguments_are_those_of_trl() -> None:
    seen = {}

    def record(prompts, completions, completion_ids, answer, level, **rest):
        seen.update(prompts=prompts, completions=completions, ids=completion_ids, answer=answer, level=level)
        return [0.0] * len(prompts)

    scorer(record).score(PROMPTS, ROLLOUTS)
    assert seen["prompts"] == ["2+2=", "1+1=", "1+1="]
    assert seen["answer"] == ["4", "2", "2"]
    assert seen["level"] == [None, 1, 1]  # a column that one row lacks
    assert seen["ids"] == [[5, 6]] * 3


def test_chat_rewards_get_message_lists() -> None:
    seen = {}

    def record(prompts, completions, **columns):
        seen.update(prompts=prompts, completions=completions)
        return [1.0]

    scorer(record).score(CHAT, [rollout("p", 0, 0, "2")])
    assert seen["prompts"] == [[{"role": "user", "content": "1+1"}]]
    assert seen["completions"] == [[{"role": "assistant", "content": "2"}]]
    assert scorer(Exact(extract="last_number")).score(CHAT, [rollout("p", 0, 0, "It is 2.")]).rewards.item() == 1.0


def test_partial_keeps_its_numbers_and_scalars_are_numbers() -> None:
    def scaled(completions, answer, scale):
        return np.array([scale * (answer == "fixed")] * len(completions))

    made = scorer(functools.partial(scaled, scale=2.0, answer="fixed"))
    assert made.score(PROMPTS, ROLLOUTS).rewards[:, 0].tolist() == [2.0, 2.0, 2.0]


def explode(completions):
    if any(c == "2" for c in completions):
        raise KeyError("two")
    return [0.0] * len(completions)


BAD = "return a finite number, or None where it does not apply"
AT = "for sample 1 (question p, completion '\\\\boxed{2}'); "


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda completions: [1.0], "it returned 1 scores for 3 completions; return one each"),
        (lambda completions: 1.0, "it returned float; return a list with one number per completion"),
        (lambda completions: None, "it returned NoneType; return a list with one number per completion"),
        (lambda completions: torch.tensor(0.5), "it returned float; return a list with one number per completion"),
        (lambda completions: np.array(0.5), "it returned float; return a list with one number per completion"),
        (
            lambda completions: {0: 1.0, 1: 0.0, 2: 0.0},
            "it returned dict; return a list with one number per completion",
        ),
        (lambda completions: [0, 10**400, 0], f"it returned {reprlib.repr(10**400)} {AT}{BAD}"),
        (
            lambda completions: torch.tensor([[0, 0], [0, 1], [0, 0]])[1:],
            "it returned 2 scores for 3 completions; return one each",
        ),
        (lambda completions: [0, torch.tensor([0.0, 1.0]), 0], f"it returned [0.0, 1.0] {AT}{BAD}"),
        (lambda completions: [0, math.inf, 0], f"it returned inf {AT}{BAD}"),
        (lambda completions: [0, math.nan, 0], f"it returned nan {AT}{BAD}"),
        (lambda completions: [0, "1", 0], f"it returned '1' {AT}{BAD}"),
        (lambda completions, gold: [0, 0, 0], "it asks for gold, but the task's columns are: answer, level"),
        (
            lambda completions: sys.exit(3),
            "it raised SystemExit: 3 on sample 0 (question q, completion '\\\\boxed{4}'); mend the function",
        ),
        (explode, "it raised KeyError: 'two' on sample 2 (question p, completion '2'); mend the function"),
    ],
)
def test_mistakes_of_a_function_are_sentences(function, sentence: str) -> None:
    with pytest.raises(UserError) as raised:
        scorer(function).score(PROMPTS, ROLLOUTS)
    assert str(raised.value) == f"reward.functions.f0   {sentence}"


def test_unknown_accuracy_function() -> None:
    with pytest.raises(UserError, match=r"reward\.accuracy   there is no function math; choose f0"):
        scorer(Exact(), accuracy="math")


def test_nothing_to_score() -> None:
    scores = scorer(Exact()).score(PROMPTS, [])
    assert scores.rewards.shape == (0, 1)
    assert scores.accuracy.shape == (0,)


def test_no_gold_means_does_not_apply() -> None:
    assert Exact()(["q"], ["\\boxed{1}"], answer=[None]) == [None]
