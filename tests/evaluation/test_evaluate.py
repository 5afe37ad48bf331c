"""An evaluation against an engine and a scorer whose answers are known."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files

import jsonschema
import pytest
import torch

from grpo.data import Prompt, Rollout, Sampling, Scores
from grpo.evaluation.evaluate import evaluate
from grpo.recording import metrics as registry
from grpo.recording.jsonl import line

PROMPTS = [Prompt("a", (1,), "37+5=", {"answer": "42"}), Prompt("b", (2,), "1+1=", {"answer": "2"})]
SAID = {("a", "s"): ["42", "42", "41", "?"], ("b", "s"): ["3", "3", "2", "4"], ("a", "g"): ["42"], ("b", "g"): ["3"]}


@dataclass
class FakeEngine:
    """Says what the table says, in an order of its own."""

    calls: list[tuple] = field(default_factory=list)

    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        self.calls.append((n, sampling, seed, stream, step))
        mode = "g" if sampling.temperature == 0 else "s"
        made = [
            Rollout(
                p.id,
                g,
                i,
                (5,) * (i + 1),
                (-1.0,) * (i + 1),
                (True,) * (i + 1),
                "length" if i == 3 else "stop",
                text,
                0,
            )
            for g, p in enumerate(prompts)
            for i, text in enumerate(SAID[p.id, mode][:n])
        ]
        return made[::-1]


class FakeScorer:
    """1 for the right answer; "?" is a completion that the reward does not apply to, or one that gives no answer."""

    many_answers = False

    def __init__(self, unknown: bool = False) -> None:
        self.unknown = unknown

    def answer(self, text: str) -> str | None:
        return None if text == "?" else text

    def score(self, prompts: Sequence[Prompt], rollouts: Sequence[Rollout], *, step: int = 0) -> Scores:
        right = [
            math.nan if self.unknown and r.text == "?" else float(r.text == prompts[r.group].columns["answer"])
            for r in rollouts
        ]
        column = torch.tensor(right, dtype=torch.float64)
        groups = torch.tensor([r.group for r in rollouts])
        return Scores(column[:, None], torch.ones(1, dtype=torch.float64), groups, column)


def run(engine=None, unknown=False, **changes):
    settings = {"split": "validation", "step": 3, "seed": 7, "samples": 4, "sampling": Sampling(max_tokens=9)} | changes
    return evaluate(engine or FakeEngine(), FakeScorer(unknown), PROMPTS, **settings)


def test_metrics_of_a_known_evaluation() -> None:
    metrics, _ = run(ks=(2, 4))
    # question a: 2 of 4 right, votes 42 42 41 → right; b: 1 of 4 right, votes 3 3 2 4 → wrong
    assert metrics["validation/avg@4"] == metrics["validation/avg@2"] == (2 / 4 + 1 / 4) / 2
    assert metrics["validation/maj@4"] == (1 + 0) / 2
    assert metrics["validation/pass@4"] == 1.0
    # pass@2: a 1 - C(2,2)/C(4,2) = 5/6, b 1 - C(3,2)/C(4,2) = 1/2
    assert metrics["validation/pass@2"] == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert metrics["validation/greedy"] == 0.5
    assert metrics["validation/length"] == (1 + 2 + 3 + 4) / 4
    assert metrics["validation/truncated"] == 0.25
    assert metrics["validation/avg@4/low"] == 0.0  # means 1/2, 1/4: t(1) = 12.7, half = 12.7·0.177/√2 = 1.59
    registry.check(metrics)


def test_a_completion_the_reward_does_not_apply_to_counts_nowhere() -> None:
    metrics, rows = run(unknown=True, ks=(3,))
    assert metrics["validation/avg@3"] == pytest.approx((2 / 3 + 1 / 4) / 2)
    assert math.isnan(rows[0]["rewards"][3])
    # pass@4 cannot be had of question a's 3 known ones: only b counts, 1 - C(3,4)/C(4,4) = 1
    assert run(unknown=True)[0]["validation/pass@4"] == 1.0


def test_rows_are_lines_of_evaluations_jsonl() -> None:
    _, rows = run()
    assert [row["question_id"] for row in rows] == ["a", "b"]
    assert rows[0] == {
        "step": 3,
        "split": "validation",
        "question_id": "a",
        "k": 4,
        "rewards": [1.0, 1.0, 0.0, 0.0],
        "lengths": [1, 2, 3, 4],
        "finish": ["stop", "stop", "stop", "length"],
        "greedy": 1.0,
    }
    schema = json.loads(files("grpo.recording").joinpath("schemas/evaluations.json").read_text())
    for row in [*rows, *run(greedy=False)[1]]:
        jsonschema.validate(json.loads(line(row)), schema)


def test_the_engine_is_asked_with_the_evaluations_own_sampling() -> None:
    engine = FakeEngine()
    run(engine, sampling=Sampling(temperature=0.6, top_p=0.9, max_tokens=9))
    assert engine.calls == [
        (4, Sampling(temperature=0.6, top_p=0.9, max_tokens=9), 7, "validation", 3),
        (1, Sampling(temperature=0.0, max_tokens=9), 7, "validation/greedy", 3),
    ]


def test_more_than_was_sampled_is_an_error() -> None:
    with pytest.raises(ValueError, match="avg@8 and pass@8 need 8 completions per question, but 4 are sampled"):
        run(ks=(8,))


def test_missing_completions_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="did not return 5 completions of 2 prompts each"):
        run(samples=5)


def test_right_at_is_the_threshold() -> None:
    assert run(right_at=0.5)[0]["validation/avg@4"] == 0.375
    assert run(right_at=1.5)[0]["validation/avg@4"] == 0.0


def test_distinct_right_answers_are_counted_where_a_question_has_many() -> None:
    class Many(FakeScorer):
        many_answers = True

        def score(self, prompts, rollouts, *, step=0):
            made = super().score(prompts, rollouts)
            return Scores(made.rewards * 0 + 1, made.weights, made.groups, made.accuracy * 0 + 1)  # all are right

    made = evaluate(FakeEngine(), Many(), PROMPTS, split="test", step=3, seed=7, samples=4, sampling=Sampling())
    assert made.metrics["test/distinct@4"] == 2.5  # 42 and 41 for a, 3, 2 and 4 for b; "?" is no answer
    assert "validation/distinct@4" not in run().metrics
