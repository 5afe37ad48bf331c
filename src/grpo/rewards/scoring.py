"""Scorer: calls every reward function and checks what it returns before it can reach an advantage."""

from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

from grpo.data import Prompt, Rollout, Scores
from grpo.errors import UserError

if TYPE_CHECKING:
    from grpo.config.schema import RewardConfig

OWN = ("prompts", "completions", "completion_ids")  # arguments that are no data set columns


class Scorer:
    """The reward of a run: Σ_n weight_n · function_n, each function's column kept apart."""

    def __init__(self, config: RewardConfig) -> None:
        self.functions: dict[str, Callable[..., Any]] = dict(config.functions)
        self.names: tuple[str, ...] = tuple(self.functions)
        self.weights: tuple[float, ...] = tuple(config.weights.get(name, 1.0) for name in self.names)
        self.accuracy_name: str = config.accuracy or self.names[0]
        self.right_at: float = config.right_at
        if self.accuracy_name not in self.names:
            raise UserError(
                f"reward.accuracy   there is no function {self.accuracy_name}; choose {', '.join(self.names)}"
            )

    def score(self, prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> Scores:
        """Rewards [B, R] in the order of the rollouts; accuracy [B] is 1 from `right_at` on, else 0, NaN = unknown."""
        import torch

        by_id = {prompt.id: prompt for prompt in prompts}
        asked = [by_id[rollout.prompt_id] for rollout in rollouts]
        columns = [self._call(name, asked, rollouts) for name in self.names]
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

    def _call(self, name: str, prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> list[float]:
        """One function's rewards [B], NaN where it said None."""
        if not rollouts:
            return []
        function = self.functions[name]
        arguments = _accepted(name, function, _arguments(prompts, rollouts))
        try:
            values = function(**arguments)
        except (Exception, SystemExit) as error:  # sys.exit() in a reward is no Ctrl-C
            where = _culprit(function, arguments, len(rollouts))
            at = f" on sample {where} ({_named(prompts[where], rollouts[where])})" if where is not None else ""
            raise UserError(
                f"{_key(name)}   it raised {type(error).__name__}: {error}{at}; mend the function"
            ) from error
        return _checked(name, values, prompts, rollouts)


def _arguments(prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> dict[str, list[Any]]:
    """What TRL passes: prompts and completions (message lists for chat tasks), token ids, every column as a list."""
    columns = dict.fromkeys(key for prompt in prompts for key in prompt.columns)
    chat = [prompt.messages is not None for prompt in prompts]
    texts = [rollout.text for rollout in rollouts]
    return {
        "prompts": [list(p.messages) if p.messages is not None else p.text for p in prompts],
        "completions": [[{"role": "assistant", "content": t}] if c else t for c, t in zip(chat, texts, strict=True)],
        "completion_ids": [list(rollout.token_ids) for rollout in rollouts],
        **{key: [prompt.columns.get(key) for prompt in prompts] for key in columns if key not in OWN},
    }


def _accepted(name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the function takes: all where it has **kwargs; numbers set in the configuration win."""
    fixed = function.keywords if isinstance(function, partial) else {}
    arguments = {key: value for key, value in arguments.items() if key not in fixed}
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a callable in C has no signature to read
        return arguments
    for parameter in known:
        needed = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if needed and parameter.name not in arguments:
            found = ", ".join(key for key in arguments if key not in OWN) or "none"
            raise UserError(f"{_key(name)}   it asks for {parameter.name}, but the task's columns are: {found}")
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        return arguments
    return {key: value for key, value in arguments.items() if key in {parameter.name for parameter in known}}


def _checked(name: str, values: Any, prompts: Sequence[Prompt], rollouts: Sequence[Rollout]) -> list[float]:
    """[B] finite floats and NaN for None; anything else is the function's mistake and named as such."""
    if hasattr(values, "tolist"):  # numpy and torch; of no dimension: a bare number
        values = values.tolist()
    if not hasattr(values, "__len__") or isinstance(values, Mapping | Set):
        if inspect.iscoroutine(values):
            values.close()  # or Python complains that nobody awaited it
        raise UserError(
            f"{_key(name)}   it returned {type(values).__name__}; return a list with one number per completion"
        )
    if len(values) != len(rollouts):
        raise UserError(
            f"{_key(name)}   it returned {len(values)} scores for {len(rollouts)} completions; return one each"
        )
    checked: list[float] = []
    for i, value in enumerate(values):
        value = _scalar(value)
        if value is None:
            checked.append(math.nan)
        elif isinstance(value, Real) and _finite(value):
            checked.append(float(value))
        else:
            raise UserError(
                f"{_key(name)}   it returned {reprlib.repr(value)} for sample {i} ({_named(prompts[i], rollouts[i])}); "
                "return a finite number, or None where it does not apply"
            )
    return checked


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


def _culprit(function: Callable[..., Any], arguments: dict[str, Any], count: int) -> int | None:
    """The first sample on which the function also fails alone; None if it only fails on all of them together."""
    for i in range(count):
        try:
            function(**{key: [value[i]] for key, value in arguments.items()})
        except (Exception, SystemExit):
            return i
    return None


def _key(name: str) -> str:
    return f"reward.functions.{name}"


def _named(prompt: Prompt, rollout: Rollout) -> str:
    text = rollout.text if len(rollout.text) <= 60 else rollout.text[:57] + "..."
    return f"question {prompt.id}, completion {text!r}"
