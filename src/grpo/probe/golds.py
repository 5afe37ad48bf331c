"""Every right answer of the data set: is it there, can the reward use it (rewards/golds.py), does the reward pay it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo.probe import writing
from grpo.probe.measure import Encode, prompt_of, rollout
from grpo.rewards.golds import gold_judge
from grpo.tasks.base import SPLITS, Question, Split, questions

if TYPE_CHECKING:
    from grpo.rewards.scoring import Scorer

BATCH = 256
KEPT = 5  # problems of a split that are kept to be shown


@dataclass(frozen=True)
class Problem:
    """A right answer that cannot be used."""

    id: str
    answer: str | None
    reason: str


@dataclass(frozen=True)
class Golds:
    """The right answers of one split; `problems` are the first few of the `unusable` ones."""

    split: Split
    size: int
    checked: int
    unusable: int
    problems: Sequence[Problem]


@dataclass(frozen=True)
class GoldCheck:
    """task: where the answers are; functions: all of the reward, each may refuse; scorer: of the accuracy function."""

    task: Any
    functions: Mapping[str, Callable[..., Any]]
    scorer: Scorer
    encode: Encode | None
    most: int | None = None
    """Questions of a split that are looked at; None for all."""

    def count(self, split: Split) -> int:
        """Questions of a split that will be looked at."""
        size = self.task.size(split)
        return size if self.most is None else min(self.most, size)

    def run(self, advance: Callable[[int], None]) -> list[Golds]:
        """All splits, batch by batch; `advance` is told how many questions are done."""
        return [self._split(split, advance) for split in SPLITS]

    def _split(self, split: Split, advance: Callable[[int], None]) -> Golds:
        unusable, kept, count = 0, [], self.count(split)
        for start in range(0, count, BATCH):
            batch = questions(self.task, split, start, min(start + BATCH, count))
            for problem in self._problems(batch):
                unusable += 1
                kept += [problem] if len(kept) < KEPT else []
            advance(len(batch))
        return Golds(split, self.task.size(split), count, unusable, kept)

    def _problems(self, batch: Sequence[Question]) -> Iterator[Problem]:
        answers = [writing.right_answer(self.task, question) for question in batch]
        refused = self._refusals([answer for answer in answers if answer is not None])
        asked: list[tuple[Question, str]] = []
        for question, answer in zip(batch, answers, strict=True):
            if answer is None or refused[answer]:
                yield Problem(question.id, answer, "there is none" if answer is None else refused[answer] or "")
            else:
                asked.append((question, answer))
        prompts = [prompt_of(self.task, question) for question, _ in asked]
        texts = [writing.write(self.task, answer) for _, answer in asked]
        rollouts = [rollout(prompts[i], i, 0, text, self.encode) for i, text in enumerate(texts)]
        verdicts = self.scorer.score(prompts, rollouts).accuracy.tolist()
        for (question, answer), verdict in zip(asked, verdicts, strict=True):
            if verdict != 1.0:
                does = "does not judge" if verdict != verdict else "does not pay"
                yield Problem(question.id, answer, f"{self.scorer.accuracy_name} {does} it")

    def _refusals(self, answers: Sequence[str]) -> dict[str, str | None]:
        """Right answer → what a function has against it."""
        different = list(dict.fromkeys(answers))
        found: dict[str, str | None] = dict.fromkeys(different)
        for name, function in self.functions.items():
            for judge in (function, getattr(function, "of", None)):  # a reward of a reward: the inner one reads it
                told = gold_judge(judge)
                for answer, problem in zip(different, told(different), strict=True) if told else ():
                    if problem and not found[answer]:
                        found[answer] = f"{name}: {problem}"
        return found
