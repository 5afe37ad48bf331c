"""Scorer: calls every reward function and checks what it returns before it can reach an advantage."""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from grpo.data import Prompt, Rollout, Scores
from grpo.errors import UserError
from grpo.rewards.calling import (
    Arguments,
    Loop,
    TooSlow,
    accepted,
    arguments_of,
    discard,
    limited,
    per_sample,
    single,
)
from grpo.rewards.log import RewardLog, TrainerState, Voice

if TYPE_CHECKING:
    from grpo.config.schema import RewardConfig


@dataclass
class _Call:
    """One function's turn: what it was called with, and what came of it (a value, a coroutine or an exception)."""

    name: str
    function: Callable[..., Any]
    arguments: Arguments
    voice: Voice
    single: bool
    result: Any = None


class Scorer:
    """The reward of a run: Σ_n weight_n · function_n, each function's column kept apart."""

    def __init__(self, config: RewardConfig, max_steps: int | None = None) -> None:
        self.functions: dict[str, Callable[..., Any]] = dict(config.functions)
        self.names: tuple[str, ...] = tuple(self.functions)
        self.weights: tuple[float, ...] = tuple(config.weights.get(name, 1.0) for name in self.names)
        self.accuracy_name: str = config.accuracy or self.names[0]
        self.right_at: float = config.right_at
        self.time_limit: float | None = config.time_limit
        self.max_steps = -1 if max_steps is None else max_steps
        self._loop = Loop()
        if self.accuracy_name not in self.names:
            raise UserError(
                f"reward.accuracy   there is no function {self.accuracy_name}; choose {', '.join(self.names)}"
            )

    def score(
        self, prompts: Sequence[Prompt], rollouts: Sequence[Rollout], *, step: int = 0, log: RewardLog | None = None
    ) -> Scores:
        """Rewards [B, R] in the order of the rollouts; accuracy [B] is 1 from `right_at` on, else 0, NaN = unknown.

        step: what trainer_state.global_step says. log: where log_extra, log_metric and counts go; evaluations have
        none.
        """
        import torch

        by_id = {prompt.id: prompt for prompt in prompts}
        asked = [by_id[rollout.prompt_id] for rollout in rollouts]
        columns = self._columns(asked, rollouts, step, log) if rollouts else [[] for _ in self.names]
        rewards = torch.tensor(columns, dtype=torch.float64).reshape(len(self.names), len(rollouts)).T.contiguous()
        judged = rewards[:, self.names.index(self.accuracy_name)]
        return Scores(
            rewards=rewards,
            weights=torch.tensor(self.weights, dtype=torch.float64),
            groups=torch.tensor([rollout.group for rollout in rollouts], dtype=torch.int64),
            accuracy=(judged >= self.right_at).double().where(~judged.isnan(), judged),
        )

    def answer(self, text: str) -> str | None:
        """The answer that a completion gives, for majority votes; None = none, or the function cannot say."""
        read: Any = getattr(self.functions[self.accuracy_name], "answer", None)
        return None if read is None else read(text)

    @property
    def many_answers(self) -> bool:
        """True where a question has many right answers, so that counting distinct ones says something."""
        return bool(getattr(self.functions[self.accuracy_name], "many_answers", False))

    def close(self) -> None:
        """Worker processes and connections of the functions end with the run."""
        self._loop.close()
        for function in self.functions.values():
            close: Any = getattr(function, "close", None)
            if callable(close):
                close()

    def _columns(
        self, prompts: Sequence[Prompt], rollouts: Sequence[Rollout], step: int, log: RewardLog | None
    ) -> list[list[float]]:
        """All functions' rewards, [R][B]: sync ones one after the other, then the async ones at the same time."""
        calls: list[_Call] = []
        for name, function in self.functions.items():
            voice = Voice(name, rollouts, log)
            one = per_sample(function)
            own = {"trainer_state": TrainerState(step, self.max_steps), "log_extra": voice.extra}
            arguments = {**arguments_of(prompts, rollouts), **own, "log_metric": voice.metric}
            calls.append(_Call(name, function, arguments, voice, one))
            self._start(calls[-1], len(rollouts))
        self._await(calls)
        return [self._checked(call, prompts, rollouts) for call in calls]

    def _start(self, call: _Call, count: int) -> None:
        """Call the function; of an async one only its coroutine is made."""
        with self._watch(call.name):
            call.result = self._tried(call, call.arguments, count)

    def _tried(self, call: _Call, arguments: Arguments, count: int) -> Any:
        """What the function returns, per sample as a list; an exception in its place."""
        key = _key(call.name)
        try:
            if not call.single:
                return call.function(**accepted(key, call.function, arguments))
            samples = [single(arguments, i) for i in range(count)]
            taken = accepted(key, call.function, samples[0])
            return [call.function(**{name: sample[name] for name in taken}) for sample in samples]
        except (UserError, TooSlow):
            raise
        except (Exception, SystemExit) as error:  # sys.exit() in a reward is no Ctrl-C
            return error

    def _await(self, calls: Sequence[_Call]) -> None:
        """Run all coroutines together and put their results in their places."""
        places: list[tuple[_Call, int | None]] = []
        waiting: list[Any] = []
        for call in calls:
            if inspect.isawaitable(call.result):
                places.append((call, None))
                waiting.append(call.result)
            elif call.single and isinstance(call.result, list):
                for i, value in enumerate(call.result):
                    if inspect.isawaitable(value):
                        places.append((call, i))
                        waiting.append(value)
        if not waiting:
            return
        with self._watch(*dict.fromkeys(call.name for call, _ in places)):
            results = self._loop.run(waiting)
        for (call, place), result in zip(places, results, strict=True):
            if place is None or isinstance(result, BaseException):
                call.result = result
            elif isinstance(call.result, list):
                call.result[place] = result

    def _watch(self, *names: str) -> Any:
        return _Watch(self.time_limit, names)

    def _checked(self, call: _Call, prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> list[float]:
        if isinstance(call.result, BaseException):
            error = call.result
            if isinstance(error, UserError):
                raise error
            where = self._culprit(call, len(rollouts))
            at = f" on sample {where} ({_named(prompts[where], rollouts[where])})" if where is not None else ""
            raise UserError(
                f"{_key(call.name)}   it raised {type(error).__name__}: {error}{at}; mend the function"
            ) from error
        counted: Any = getattr(call.function, "metrics", None)
        if callable(counted):
            call.voice.count(counted())  # pyright: ignore[reportArgumentType]
        return checked(call.name, call.result, prompts, rollouts)

    def _culprit(self, call: _Call, count: int) -> int | None:
        """The first sample on which the function also fails alone; None if it only fails on all of them together."""
        silent = {"log_extra": lambda column, values: None, "log_metric": lambda name, value: None}
        for i in range(count):
            alone = {k: v if k == "trainer_state" else [v[i]] for k, v in call.arguments.items() if k not in silent}
            with self._watch(call.name):
                result = self._tried(call, {**alone, **silent}, 1)
                results = result if call.single and isinstance(result, list) else [result]
                if any(inspect.isawaitable(r) for r in results):
                    results = self._loop.run(results)
            if any(isinstance(r, Exception | SystemExit) for r in results):
                return i
        return None


class _Watch:
    """The time limit around a call, as a sentence."""

    def __init__(self, seconds: float | None, names: Sequence[str]) -> None:
        self.seconds, self.names, self.limit = seconds, names, limited(seconds)

    def __enter__(self) -> None:
        self.limit.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.limit.__exit__(None, None, None)
        if kind is TooSlow:
            names = ", ".join(map(_key, self.names))
            raise UserError(
                f"{names}   it did not answer within {self.seconds:g} s; make it faster, or raise reward.time_limit"
            ) from None


def checked(name: str, values: Any, prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> list[float]:
    """[B] finite floats and NaN for None; anything else is the function's mistake and named as such."""
    if hasattr(values, "tolist"):  # numpy and torch; of no dimension: a bare number
        values = values.tolist()
    if not hasattr(values, "__len__") or isinstance(values, Mapping | Set | str):
        discard(values)
        raise UserError(
            f"{_key(name)}   it returned {type(values).__name__}; return a list with one number per completion"
        )
    if len(values) != len(rollouts):
        raise UserError(
            f"{_key(name)}   it returned {len(values)} scores for {len(rollouts)} completions; return one each"
        )
    numbers: list[float] = []
    for i, value in enumerate(values):
        value = _scalar(value)
        if value is None:
            numbers.append(math.nan)
        elif isinstance(value, Real) and _finite(value):
            numbers.append(float(value))
        else:
            raise UserError(
                f"{_key(name)}   it returned {reprlib.repr(value)} for sample {i} ({_named(prompts[i], rollouts[i])}); "
                "return a finite number, or None where it does not apply"
            )
    return numbers


def _scalar(value: Any) -> Any:
    """Scalars of numpy and torch, also [1] rows of a column, as plain numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond the largest float
        return False


def _key(name: str) -> str:
    return f"reward.functions.{name}"


def _named(prompt: Prompt, rollout: Rollout) -> str:
    text = rollout.text if len(rollout.text) <= 60 else rollout.text[:57] + "..."
    return f"question {prompt.id}, completion {text!r}"
