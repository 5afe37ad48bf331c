"""How somebody's function is called: sync, async, per sample, with what it may log, and for how long."""

import asyncio
import functools
import threading
import time

import pytest

from grpo.config.schema import RewardConfig
from grpo.data import Prompt, Rollout
from grpo.errors import UserError
from grpo.rewards.log import RewardLog
from grpo.rewards.scoring import Scorer

PLAIN = [Prompt("p", (1,), "1+1=", {"answer": "2"}), Prompt("q", (1,), "2+2=", {"answer": "4"})]
CHAT = [Prompt("p", (1,), "<user>1+1", {"answer": "2"}, ({"role": "user", "content": "1+1"},))]


def rollout(prompt: str, group: int, sample: int, text: str) -> Rollout:
    return Rollout(prompt, group, sample, (5, 6), (0.0, 0.0), (True, True), "stop", text, 0)


THREE = [rollout("p", 0, 0, "2"), rollout("p", 0, 1, "33"), rollout("q", 1, 0, "4")]


def scorer(max_steps: int | None = None, time_limit: float | None = 600.0, **functions) -> Scorer:
    return Scorer(RewardConfig(functions=functions, time_limit=time_limit), max_steps)


def lengths(completions, **_):
    return [float(len(c)) for c in completions]


async def slow_lengths(completions, **_):
    await asyncio.sleep(0.01)
    return lengths(completions)


class Callable:
    async def __call__(self, prompts, completions, answer):
        return [float(c == a) for c, a in zip(completions, answer, strict=True)]


def test_async_functions_and_sync_ones_side_by_side() -> None:
    made = scorer(a=slow_lengths, b=lengths, c=Callable(), d=lambda completions: slow_lengths(completions),
                  e=functools.partial(slow_lengths, unused=1))  # fmt: skip
    rewards = made.score(PLAIN, THREE).rewards
    # lengths 1, 2, 1; right: "2" = 2 yes, "33" no, "4" = 4 yes
    assert rewards.T.tolist() == [[1, 2, 1], [1, 2, 1], [1, 0, 1], [1, 2, 1], [1, 2, 1]]
    made.close()


def test_async_functions_run_at_the_same_time() -> None:
    met = []

    def meeting(name):
        async def wait(completions):
            met.append(name)
            while len(met) < 2:  # one after the other they would wait for ever
                await asyncio.sleep(0.001)
            return [0.0] * len(completions)

        return wait

    scorer(a=meeting("a"), b=meeting("b"), time_limit=20.0).score(PLAIN, THREE)
    assert sorted(met) == ["a", "b"]


def test_an_async_function_works_inside_a_running_loop() -> None:
    async def notebook():
        return scorer(a=slow_lengths).score(PLAIN, THREE).total.tolist()

    assert asyncio.run(notebook()) == [1.0, 2.0, 1.0]


def test_per_sample_functions() -> None:
    def judge(completion, answer):
        return None if completion == "33" else float(completion == answer)

    async def judge_slowly(prompt, completion, **columns):
        await asyncio.sleep(0)
        return len(prompt) + 10.0 * len(completion) + float(columns["answer"])

    total = scorer(a=judge, b=judge_slowly).score(PLAIN, THREE).rewards
    # prompts have 4 characters: 4 + 10·1 + 2 = 16, 4 + 10·2 + 2 = 26, 4 + 10·1 + 4 = 18
    assert total[:, 1].tolist() == [16.0, 26.0, 18.0]
    assert total[:, 0].nan_to_num(nan=-1).tolist() == [1.0, -1.0, 1.0]


def test_per_sample_functions_get_texts_of_chat_tasks() -> None:
    seen = []
    scorer(a=lambda prompt, completion: seen.append((prompt, completion)) or 1.0).score(CHAT, THREE[:1])
    assert seen == [("1+1", "2")]


def test_trainer_state_says_how_far_the_run_is() -> None:
    def scheduled(completions, trainer_state):
        return [trainer_state.global_step / trainer_state.max_steps] * len(completions)

    assert scorer(max_steps=8, a=scheduled).score(PLAIN, THREE, step=2).total.tolist() == [0.25] * 3  # 2/8
    assert scorer(a=lambda completions, trainer_state: [trainer_state.max_steps] * 3).score(PLAIN, THREE).total[0] == -1


def test_what_functions_log() -> None:
    class Counting:
        def __call__(self, completions, log_extra, log_metric):
            log_extra("note", [f"<{c}>" for c in completions])
            log_metric("longest", max(map(len, completions)))
            return [0.0] * len(completions)

        def metrics(self):
            return {"timeouts": 2}

    made, log = scorer(a=Counting()), RewardLog()
    made.score(PLAIN, THREE, log=log)
    made.score(PLAIN, THREE[:1], log=log)
    assert log.columns == {(0, 0): {"note": "<2>"}, (0, 1): {"note": "<33>"}, (1, 0): {"note": "<4>"}}
    assert log.metrics() == {"rewards/a/longest": 1.5, "rewards/a/timeouts": 4.0}  # (2 + 1) / 2;  2 + 2
    made.score(PLAIN, THREE)  # an evaluation: nothing is kept, nothing fails
    assert log.metrics()["rewards/a/timeouts"] == 4.0


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda completions, log_extra: log_extra("x", [1]), r"log_extra\('x'\) got 1 values for 3 completions"),
        (lambda completions, log_metric: log_metric("x", "much"), r"log_metric\('x'\) got 'much'; give a number"),
        (lambda completion, golden: 1.0, "it asks for golden, but the task's columns are: answer"),
        (lambda completion: float("inf"), "returned inf for sample 0"),
        (lambda completion: 1 / (len(completion) - 2), "raised ZeroDivisionError.* on sample 1 .question p, .*'33'"),
    ],
)
def test_mistakes_are_sentences(function, sentence: str) -> None:
    with pytest.raises(UserError, match="reward.functions.own   .*" + sentence):
        scorer(own=function).score(PLAIN, THREE)


def test_an_async_function_that_fails_is_named_with_its_sample() -> None:
    async def fails(completions):
        await asyncio.sleep(0)
        if "33" in completions:
            raise KeyError("gone")
        return [0.0] * len(completions)

    async def leaves(completion):
        raise SystemExit(3)

    with pytest.raises(UserError, match="it raised KeyError: 'gone' on sample 1"):
        scorer(own=fails).score(PLAIN, THREE)
    with pytest.raises(UserError, match="it raised SystemExit: 3 on sample 0"):
        scorer(own=leaves).score(PLAIN, THREE)


@pytest.mark.parametrize("wait", [time.sleep, asyncio.sleep])
def test_a_reward_that_sleeps_for_ever_ends_the_run_with_a_sentence(wait) -> None:
    def sleeps(completions):
        try:
            return wait(1000)  # asyncio.sleep: a coroutine
        except Exception:  # a function that swallows everything must not swallow the limit
            return [0.0] * len(completions)

    began = time.monotonic()
    with pytest.raises(UserError, match=r"own   it did not answer within 0.2 s; .*reward.time_limit"):
        scorer(own=sleeps, time_limit=0.2).score(PLAIN, THREE)
    assert time.monotonic() - began < 30
    assert not [t for t in threading.enumerate() if isinstance(t, threading.Timer)]  # no alarm is left behind
    assert scorer(own=lengths, time_limit=0.2).score(PLAIN, THREE).total.tolist() == [1.0, 2.0, 1.0]


def test_what_a_function_does_to_its_arguments_stays_with_it() -> None:
    def spoils(prompts, completions, answer, numbers):
        numbers[0].append(9)
        answer[0], completions[:] = "spoiled", ["x"]
        prompts.clear()
        return [0.0] * 3

    seen = []
    prompts = [Prompt("p", (1,), "1+1=", {"answer": "2", "numbers": [1]}), PLAIN[1]]
    made = scorer(
        a=spoils,
        b=lambda prompts, completions, answer, numbers: (
            seen.append((prompts, completions, answer, numbers)) or [0.0] * 3
        ),
    )
    made.score(prompts, THREE)
    assert seen == [(["1+1=", "1+1=", "2+2="], ["2", "33", "4"], ["2", "2", "4"], [[1], [1], None])]
    assert prompts[0].columns["numbers"] == [1]
