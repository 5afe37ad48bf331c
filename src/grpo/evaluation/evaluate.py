"""One evaluation of a split: sample k completions per question (and a greedy one), score them, count.

To measure something else per question, add it to `_row` (and to recording/schemas/evaluations.json); to summarise it,
add a metric in `_summarise` and define it in recording/metrics.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from grpo.data import Prompt, Rollout, Sampling, Scores
from grpo.evaluation import statistics


class Generates(Protocol):
    """The part of a rollout engine that an evaluation uses."""

    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """n completions of each prompt, `group` being the prompt's index in `prompts`."""
        ...


class Judges(Protocol):
    """The part of the rewards that an evaluation uses."""

    def score(self, prompts: Sequence[Prompt], rollouts: Sequence[Rollout], /, *, step: int = 0) -> Scores:
        """Scores of B completions, in their order; step: how far the run is."""
        ...

    @property
    def many_answers(self) -> bool:
        """True where a question has many right answers."""
        ...

    def answer(self, text: str, /) -> str | None:
        """The answer that a completion gives, for the majority vote; None = it gives none."""
        ...


class Evaluation(NamedTuple):
    """Metrics by name ("test/avg@8", …) and one row per question, as in evaluations.jsonl (without "v")."""

    metrics: dict[str, float]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class _Question:
    """What one question's k completions came to; verdict None = the accuracy reward does not apply."""

    accuracy: list[float]
    verdicts: list[bool | None]
    answers: list[str | None]
    rollouts: list[Rollout]

    @property
    def counts(self) -> statistics.Counts:
        known = [verdict for verdict in self.verdicts if verdict is not None]
        return len(known), sum(known)


def evaluate(
    engine: Generates,
    scorer: Judges,
    prompts: Sequence[Prompt],
    *,
    split: str,
    step: int,
    seed: int,
    samples: int,
    sampling: Sampling,
    greedy: bool = True,
    right_at: float = 1.0,
    ks: Sequence[int] | None = None,
) -> Evaluation:
    """Evaluate the engine's policy on the questions of a split.

    A completion is right when the accuracy reward is ≥ `right_at`; one the reward does not apply to (NaN) counts
    nowhere. avg@k and pass@k are given for every k in `ks` (default: only `samples`) that was sampled, maj@k for
    k = samples. `sampling` is the evaluation's own; the greedy completion keeps only its length limit.
    """
    if not prompts:
        raise ValueError(f"{split}: there are no questions to evaluate; set eval.questions to at least 1")
    questions = _sample(engine, scorer, prompts, samples, sampling, seed, split, step, right_at)
    deterministic = Sampling(temperature=0.0, max_tokens=sampling.max_tokens)
    first = (
        _sample(engine, scorer, prompts, 1, deterministic, seed, f"{split}/greedy", step, right_at)
        if greedy
        else [None] * len(prompts)
    )
    rows = [
        _row(step, split, prompt, question, best)
        for prompt, question, best in zip(prompts, questions, first, strict=True)
    ]
    metrics = _summarise(questions, samples, tuple(ks or (samples,)))
    if scorer.many_answers:
        metrics[f"distinct@{samples}"] = fmean(_distinct(question) for question in questions)
    known = [q.verdicts[0] for q in first if q is not None and q.verdicts[0] is not None]
    if known:
        metrics["greedy"] = fmean(known)
    return Evaluation({f"{split}/{name}": value for name, value in metrics.items()}, rows)


def _sample(
    engine: Generates,
    scorer: Judges,
    prompts: Sequence[Prompt],
    samples: int,
    sampling: Sampling,
    seed: int,
    stream: str,
    step: int,
    right_at: float,
) -> list[_Question]:
    """`samples` scored completions of each question, in the order of `prompts` whatever the engine's order was."""
    rollouts = engine.generate(prompts, samples, sampling, seed=seed, stream=stream, step=step)
    rollouts = sorted(rollouts, key=lambda r: (r.group, r.sample))
    expected = [(group, sample) for group in range(len(prompts)) for sample in range(samples)]
    if [(r.group, r.sample) for r in rollouts] != expected:
        raise RuntimeError(f"{stream}: the engine did not return {samples} completions of {len(prompts)} prompts each")
    accuracy = [float(a) for a in scorer.score(prompts, rollouts, step=step).accuracy.tolist()]
    verdicts = [None if isnan(a) else a >= right_at for a in accuracy]
    answers = [scorer.answer(r.text) for r in rollouts]
    slices = [slice(g * samples, (g + 1) * samples) for g in range(len(prompts))]
    return [_Question(accuracy[s], verdicts[s], answers[s], rollouts[s]) for s in slices]


def _row(step: int, split: str, prompt: Prompt, question: _Question, greedy: _Question | None) -> dict[str, Any]:
    """A line of evaluations.jsonl: accuracy rewards of the samples, and of the greedy completion."""
    return {
        "step": step,
        "split": split,
        "question_id": prompt.id,
        "k": len(question.rollouts),
        "rewards": question.accuracy,
        "lengths": [r.length for r in question.rollouts],
        "finish": [r.finish_reason for r in question.rollouts],
        "greedy": None if greedy is None else greedy.accuracy[0],
    }


def _summarise(questions: Sequence[_Question], samples: int, ks: Sequence[int]) -> dict[str, float]:
    """Metrics without their split's prefix."""
    rollouts = [r for q in questions for r in q.rollouts]
    metrics = {
        "length": fmean(r.length for r in rollouts),
        "truncated": fmean(r.truncated for r in rollouts),
    }
    counts = [q.counts for q in questions if q.counts[0] > 0]
    low, high = statistics.cluster_interval([c / n for n, c in counts])
    for k in ks:
        if k > samples:
            raise ValueError(f"avg@{k} and pass@{k} need {k} completions per question, but {samples} are sampled")
        enough = [(n, c) for n, c in counts if n >= k]
        if enough:
            metrics[f"avg@{k}"] = statistics.avg_at_k(counts)
            metrics[f"avg@{k}/low"], metrics[f"avg@{k}/high"] = low, high
            metrics[f"pass@{k}"] = statistics.mean_pass_at_k(enough, k)
    if counts and _votes(questions):
        votes = [_majority(q) for q in questions if q.counts[0] > 0]
        metrics[f"maj@{samples}"] = fmean(votes)
    return metrics


def _distinct(question: _Question) -> int:
    """Different right answers among the k completions of a question."""
    return len({a for a, right in zip(question.answers, question.verdicts, strict=True) if right and a is not None})


def _votes(questions: Sequence[_Question]) -> bool:
    """False where no completion holds an answer although some are right: this task's answers cannot be read off."""
    pairs = [(answer, verdict) for q in questions for answer, verdict in zip(q.answers, q.verdicts, strict=True)]
    return any(answer is not None for answer, _ in pairs) or not any(verdict for _, verdict in pairs)


def _majority(question: _Question) -> float:
    """maj@k of one question, over the completions whose verdict is known."""
    pairs = [(a, v) for a, v in zip(question.answers, question.verdicts, strict=True) if v is not None]
    return statistics.maj_at_k([a for a, _ in pairs], [v for _, v in pairs])
