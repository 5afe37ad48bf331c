"""Calling somebody's reward function: its arguments by name, sync or async, batch or one sample, with a time limit."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import Any

from grpo.data import Prompt, Rollout
from grpo.errors import UserError

OWN = ("prompts", "completions", "completion_ids", "prompt", "completion")  # arguments that are no data set columns
WHOLE = ("trainer_state", "log_extra", "log_metric")  # one for the batch, not one per sample
Arguments = dict[str, Any]


class TooSlow(BaseException):
    """The time limit is over. No Exception, or a function that catches everything would swallow it."""


def arguments_of(prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> Arguments:
    """What TRL passes: prompts and completions (message lists for chat tasks), token ids, every column as a list."""
    columns = dict.fromkeys(key for prompt in prompts for key in prompt.columns)
    messages = [[dict(turn) for turn in p.messages] if p.messages is not None else p.text for p in prompts]
    chat = [prompt.messages is not None for prompt in prompts]
    texts = [rollout.text for rollout in rollouts]
    return {
        "prompts": messages,
        "completions": [[{"role": "assistant", "content": t}] if c else t for c, t in zip(chat, texts, strict=True)],
        "completion_ids": [list(rollout.token_ids) for rollout in rollouts],
        **{key: [own(prompt.columns.get(key)) for prompt in prompts] for key in columns if key not in (*OWN, *WHOLE)},
    }


def own(value: Any) -> Any:
    """A copy of what could be changed in place: no function sees what another, or an earlier step, did to a column."""
    return value if isinstance(value, str | int | float | None) else deepcopy(value)


def per_sample(function: Callable[..., Any]) -> bool:
    """True for f(completion, ...) -> float | None, which judges one completion at a time."""
    names = {p.name for p in _parameters(function)}
    return "completion" in names and "completions" not in names


def single(arguments: Arguments, i: int) -> Arguments:
    """The i-th sample for a per-sample function: prompt and completion as texts, columns as single values."""
    one = {key: value if key in WHOLE else value[i] for key, value in arguments.items()}
    for many, name in (("prompts", "prompt"), ("completions", "completion")):
        value = one.pop(many)
        one[name] = value if isinstance(value, str) else value[-1]["content"]
    return one


def accepted(key: str, function: Callable[..., Any], arguments: Arguments) -> Arguments:
    """The arguments that the function takes: all where it has **kwargs; numbers set in the configuration win."""
    fixed = function.keywords if isinstance(function, partial) else {}
    arguments = {name: value for name, value in arguments.items() if name not in fixed}
    known = _parameters(function)
    if not known:  # a callable in C has no signature to read
        return arguments
    for parameter in known:
        needed = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if needed and parameter.name not in arguments:
            found = ", ".join(name for name in arguments if name not in (*OWN, *WHOLE)) or "none"
            raise UserError(f"{key}   it asks for {parameter.name}, but the task's columns are: {found}")
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        return arguments
    return {name: value for name, value in arguments.items() if name in {parameter.name for parameter in known}}


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


class Loop:
    """An event loop in a thread of its own: async rewards work inside notebooks too, and keep their connections."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
        """Results of all of them, run at the same time; an exception is returned in its place."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, daemon=True, name="async rewards").start()
        future = asyncio.run_coroutine_threadsafe(_all(awaitables), self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C or the time limit: nothing goes on behind our back
            future.cancel()
            raise

    def close(self) -> None:
        """Ends the thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


async def _all(awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*(_caught(a) for a in awaitables))


async def _caught(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except (Exception, SystemExit) as error:  # SystemExit in a task would end the loop, and the run with it
        return error


def discard(value: Any) -> None:
    """A coroutine that nobody will await; without this Python complains."""
    if isinstance(value, Coroutine):
        value.close()


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """TooSlow in the main thread after `seconds`; elsewhere, or with None, no limit.

    SIGALRM stays free: verifiers such as math-verify set alarms of their own.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGUSR2"):
        yield
        return
    open_ = [True]

    def handler(signum: int, frame: Any) -> None:
        if open_[0]:
            raise TooSlow

    def over() -> None:
        if open_[0]:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)

    before = signal.signal(signal.SIGUSR2, handler)
    timer = threading.Timer(seconds, over)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        open_[0] = False
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGUSR2, before)
