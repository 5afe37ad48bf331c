"""The rewards of the probe's completions, from the Scorer that a run uses."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from grpo.data import Prompt, Rollout
from grpo.probe.completions import Case, Kind, kinds
from grpo.rewards.log import RewardLog
from grpo.tasks.base import Question, messages_of
from grpo.tasks.prompts import train_index

if TYPE_CHECKING:
    from grpo.config.schema import RewardConfig, RunConfig
    from grpo.rewards.scoring import Scorer

TROUBLE = ("errors", "timeouts")  # counts of `metrics()` that no completion should cause
Encode = Callable[[str], tuple[int, ...]]


@dataclass(frozen=True)
class Paid:
    """One completion and its rewards; None = no function applies, or nobody can tell right from wrong."""

    case: int
    kind: str
    text: str
    rewards: Mapping[str, float | None]
    total: float | None
    right: bool | None


@dataclass(frozen=True)
class Measured:
    """All completions of all questions."""

    cases: Sequence[Case]
    kinds: Sequence[Kind]
    paid: Sequence[Paid]
    names: Sequence[str]
    weights: Sequence[float]
    trouble: Mapping[str, int]
    """What functions counted as gone wrong: rewards/math/timeouts → 3."""

    def of(self, kind: str) -> list[Paid]:
        """The completions of one kind, at most one per question."""
        return [paid for paid in self.paid if paid.kind == kind]

    def mean(self, kind: str, name: str | None = None) -> float | None:
        """Mean reward of a kind over its questions, of one function or of all together."""
        values = [paid.total if name is None else paid.rewards[name] for paid in self.of(kind)]
        known = [value for value in values if value is not None]
        return fmean(known) if known else None


def questions(config: RunConfig, count: int) -> list[Question]:
    """The first training questions of a run with this seed."""
    size = config.task.size("train")
    order = (train_index(position, size, config.seed) for position in range(min(count, size)))
    return [config.task.question("train", index) for index in order]


def measure(config: RunConfig, scorer: Scorer, cases: Sequence[Case], encode: Encode | None) -> Measured:
    """Write every completion of every case and score them all in one call, as a step does."""
    tried = kinds(cases)
    made = [(i, kind.name, kind.make(case)) for i, case in enumerate(cases) for kind in tried]
    texts = [(i, name, text) for i, name, text in made if text is not None]
    prompts = [prompt_of(config.task, case.question) for case in cases]
    rollouts = [rollout(prompts[i], i, j, text, encode) for j, (i, _, text) in enumerate(texts)]
    log = RewardLog()
    scores = scorer.score(prompts, rollouts, log=log)
    rows = zip(texts, scores.rewards.tolist(), scores.total.tolist(), scores.accuracy.tolist(), strict=True)
    paid = [
        Paid(i, kind, text, dict(zip(scorer.names, map(_known, rewards), strict=True)), _known(total), _right(accuracy))
        for (i, kind, text), rewards, total, accuracy in rows
    ]
    trouble = {name: int(n) for name, n in log.counts.items() if n and name.rpartition("/")[2] in TROUBLE}
    return Measured(cases, tried, paid, scorer.names, scorer.weights, trouble)


def prompt_of(task: Any, question: Question) -> Prompt:
    """The question as reward functions see it: a text, or messages for a chat task."""
    return Prompt(question.id, (), question.text, question.columns, messages_of(task, question))


def rollout(prompt: Prompt, group: int, sample: int, text: str, encode: Encode | None) -> Rollout:
    """A completion that nobody sampled, ended by EOS."""
    ids = encode(text) if encode else ()
    return Rollout(prompt.id, group, sample, ids, (0.0,) * len(ids), (True,) * len(ids), "stop", text, 0)


def encoder(config: RunConfig, functions: Mapping[str, Callable[..., Any]]) -> Encode | None:
    """Text → token ids with EOS at the end, where a function may read them; else None, and no tokenizer is loaded."""
    if not any(map(_reads_ids, functions.values())):
        return None
    from grpo.models.load import load_tokenizer  # transformers: seconds

    tokenizer: Any = load_tokenizer(config.model)

    def encode(text: str) -> tuple[int, ...]:
        return (*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id)

    return encode


def _reads_ids(function: Callable[..., Any]) -> bool:
    """It names completion_ids, or takes whatever comes; the package's own functions name what they read."""
    inner = function.func if isinstance(function, partial) else function
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    own = (getattr(inner, "__module__", None) or "").startswith("grpo.")
    return any(p.name == "completion_ids" or (p.kind is p.VAR_KEYWORD and not own) for p in known)


def only_accuracy(reward: RewardConfig) -> RewardConfig:
    """The reward with nothing but the function that tells right from wrong."""
    name = reward.accuracy or next(iter(reward.functions))
    one = {"functions": {name: reward.functions[name]}, "weights": {}, "accuracy": name}
    return reward.model_copy(update=one)


def strict(config: RunConfig) -> bool:
    """True where only a box or a mark counts, by the accuracy function's own word or else by the task's."""
    name = config.reward.accuracy or next(iter(config.reward.functions))
    own = getattr(config.reward.functions[name], "extract", None)
    return str(own or getattr(config.task, "extract", "")) in ("boxed", "hash", "boxed_or_hash", "answer_tag")


def _known(value: float) -> float | None:
    return None if value != value else value


def _right(value: float) -> bool | None:
    return None if value != value else value == 1.0
