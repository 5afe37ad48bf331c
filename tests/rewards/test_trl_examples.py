"""Functions written for TRL, of every shape its documentation shows, run as they are; and TRL's own as a witness.

The last part needs TRL (the extra `bench`).
"""

from __future__ import annotations

import asyncio
import functools
import random
import re
from collections import Counter

import pytest

from grpo.config.schema import RewardConfig
from grpo.data import Prompt, Rollout
from grpo.rewards.length import Cosine
from grpo.rewards.log import RewardLog
from grpo.rewards.repetition import Repetition
from grpo.rewards.scoring import Scorer

PLAIN = [
    Prompt("a", (1,), "1+1=", {"answer": "2", "kind": "sum", "level": 1}),
    Prompt("b", (1,), "the capital of France?", {"answer": "Paris", "kind": "fact", "level": 3}),
]
CHAT = [
    Prompt(p.id, (1,), f"<user>{p.text}<assistant>", dict(p.columns), ({"role": "user", "content": p.text},))
    for p in PLAIN
]


def rollout(prompt: str, sample: int, text: str, length: int = 3) -> Rollout:
    ids = tuple(range(length))
    return Rollout(prompt, "ab".index(prompt), sample, ids, (0.0,) * length, (True,) * length, "stop", text, 0)


SAID = [rollout("a", 0, r"\boxed{2}", 4), rollout("a", 1, "3", 2), rollout("b", 0, r"It is \boxed{Paris}.", 9)]


def scores(*functions, prompts=PLAIN, said=SAID, log=None, step=0, max_steps=None) -> list[list[float]]:
    """[R][B], NaN shown as None."""
    scorer = Scorer(RewardConfig(functions={f"f{i}": f for i, f in enumerate(functions)}), max_steps)
    try:
        table = scorer.score(prompts, said, step=step, log=log).rewards.T.tolist()
    finally:
        scorer.close()
    return [[None if value != value else value for value in row] for row in table]


# ---- the chapter's two functions: one looks its answer up by prompt, one pays the characters of a box

ANSWERS = {"1+1=": "2", "the capital of France?": "Paris"}


def inside_box(text: str) -> str | None:
    found = re.search(r"\\boxed\{([^}]*)\}", text)
    return found.group(1) if found else None


def right_by_prompt(completions, prompts, **kwargs):
    return [float(inside_box(text) == ANSWERS[question]) for text, question in zip(completions, prompts, strict=True)]


def pays_the_box(completions, **kwargs):
    return [float(r"\boxed{" in text) / 2 for text in completions]


def test_the_shapes_of_the_chapters_functions() -> None:
    assert scores(right_by_prompt, pays_the_box) == [[1.0, 0.0, 1.0], [0.5, 0.0, 0.5]]


# ---- the shapes of TRL's documentation


def counts_tokens(completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]


def counts_characters(completions, **kwargs):
    return [float(len(text)) for text in completions]


def wants_tags(completions, **kwargs):
    texts = [completion[0]["content"] for completion in completions]
    return [1.0 if re.match(r"^<why>.*?</why><so>.*?</so>$", text) else 0.0 for text in texts]


def reads_a_column(completions, answer, **kwargs):
    return [1.0 if inside_box(text) == gold else 0.0 for text, gold in zip(completions, answer, strict=True)]


def only_sums(prompts, completions, kind, **kwargs):
    return [float("2" in c) if k == "sum" else None for c, k in zip(completions, kind, strict=True)]


async def asks_somebody(prompts, completions, **kwargs):
    await asyncio.sleep(0.01)
    return [float(len(prompt)) for prompt in prompts]


async def asks_for_each(prompts, completions, **kwargs):
    async def one(text):
        await asyncio.sleep(0.01)
        return float("boxed" in text)

    return await asyncio.gather(*(one(text) for text in completions))


def grows_with_the_run(completions, trainer_state, **kwargs):
    done = trainer_state.global_step / trainer_state.max_steps
    return [done] * len(completions)


def says_more(completions, answer, log_extra=None, log_metric=None, **kwargs):
    found = [inside_box(text) for text in completions]
    if log_extra:
        log_extra("found", [f or "[none]" for f in found])
    if log_metric:
        log_metric("boxes", sum(f is not None for f in found) / len(found))
    return [float(f == gold) for f, gold in zip(found, answer, strict=True)]


def test_ids_texts_columns_and_none() -> None:
    assert scores(counts_tokens, counts_characters) == [[4.0, 2.0, 9.0], [9.0, 1.0, 20.0]]
    assert scores(reads_a_column, only_sums) == [[1.0, 0.0, 1.0], [1.0, 0.0, None]]


def test_chat_data_are_message_lists() -> None:
    said = [rollout("a", 0, "<why>1 and 1</why><so>2</so>"), rollout("b", 0, "Paris")]
    assert scores(wants_tags, prompts=CHAT, said=said) == [[1.0, 0.0]]


def test_async_alone_and_together_with_sync() -> None:
    table = scores(asks_somebody, counts_tokens, asks_for_each)
    assert table == [[4.0, 4.0, 22.0], [4.0, 2.0, 9.0], [1.0, 0.0, 1.0]]


def test_trainer_state() -> None:
    assert scores(grows_with_the_run, step=3, max_steps=12) == [[0.25, 0.25, 0.25]]


def test_log_extra_and_log_metric() -> None:
    log = RewardLog()
    assert scores(says_more, log=log) == [[1.0, 0.0, 1.0]]
    assert {key: column["found"] for key, column in log.columns.items()} == {
        (0, 0): "2",
        (0, 1): "[none]",
        (1, 0): "Paris",
    }
    assert log.metrics() == {"rewards/f0/boxes": pytest.approx(2 / 3)}


def test_partials_lambdas_and_objects() -> None:
    class Costs:
        __name__ = "costs"

        def __call__(self, completion_ids, **kwargs):
            return [-0.1 * len(ids) for ids in completion_ids]

    def scaled(completions, by, **kwargs):
        return [by * len(text) for text in completions]

    table = scores(Costs(), functools.partial(scaled, by=2.0), lambda completions, **kwargs: [1] * len(completions))
    assert table == [pytest.approx([-0.4, -0.2, -0.9]), [18.0, 2.0, 40.0], [1.0, 1.0, 1.0]]


# ---- TRL's own functions: they run here, and agree with ours

DRAWN = random.Random(3)
IDS = [[DRAWN.randrange(4) for _ in range(DRAWN.randrange(0, 30))] for _ in range(50)]


def test_trls_repetition_penalty_is_ours() -> None:
    rewards = pytest.importorskip("trl.rewards", reason="needs the extra bench")
    for n in (1, 2, 3):
        theirs = rewards.get_repetition_penalty_reward(ngram_size=n, max_penalty=-2.0)
        assert Repetition(ngram=n, penalty=2.0)(completion_ids=IDS) == pytest.approx(theirs(IDS))
    said = [rollout("a", i, "x", 5 + i) for i in range(3)]
    assert scores(rewards.get_repetition_penalty_reward(), said=said) == [[0.0, 0.0, 0.0]]


def test_trls_cosine_is_ours() -> None:
    rewards = pytest.importorskip("trl.rewards", reason="needs the extra bench")
    theirs = rewards.get_cosine_scaled_reward(max_len=20)
    right = [i % 2 for i in range(len(IDS))]
    texts = [[{"role": "assistant", "content": rf"\boxed{{{3 + r}}}"}] for r in right]
    numbers = {"right_short": 1.0, "right_long": 0.5, "wrong_short": -1.0, "wrong_long": -0.5}
    ours = Cosine(of=lambda completions: right, limit=20, exceed=None, **numbers)
    expected = theirs(texts, ["4"] * len(IDS), IDS)
    assert ours(prompts=["q"] * len(IDS), completions=texts, completion_ids=IDS) == pytest.approx(expected)
    assert len(Counter(expected)) > 20


def test_trls_accuracy_reward_runs_here() -> None:
    rewards = pytest.importorskip("trl.rewards", reason="needs the extra bench")
    prompts = [Prompt("a", (1,), "q", {"solution": "2"}, ({"role": "user", "content": "1+1"},))]
    log = RewardLog()
    said = [rollout("a", 0, r"$\boxed{2}$"), rollout("a", 1, r"$\boxed{3}$")]
    assert scores(rewards.accuracy_reward, prompts=prompts, said=said, log=log) == [[1.0, 0.0]]
    assert log.columns[0, 0]["solution"] == "2"
