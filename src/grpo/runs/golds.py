"""Right answers that the reward cannot judge by, found before training: their samples would leave the loss unseen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from grpo.rewards.golds import gold_judge
from grpo.tasks.base import SPLITS, Split, questions
from grpo.tasks.order import permuted

BATCH = 256
SECONDS = 10.0  # then the rest is left to grpo.probe, which has a progress bar


@dataclass
class GoldReport:
    """checked of total right answers, how many of them cannot be used, and the first of these."""

    total: int
    checked: int = 0
    unusable: int = 0
    first: tuple[str, str, str] | None = None  # question, answer, what is wrong

    def lines(self) -> list[str]:
        """For the start table; nothing where every answer was looked at and is well."""
        found = []
        if self.first is not None:
            name, answer, reason = self.first
            shown = answer if len(answer) <= 40 else answer[:37] + "..."
            found.append(
                f"{self.unusable:,} of {self.checked:,} right answers cannot be used and their samples leave the loss; "
                f"the first is {shown!r} of question {name}: {reason}"
            )
        if self.checked < self.total:
            found.append(
                f"looked at {self.checked:,} of {self.total:,} in {SECONDS:.0f} s; python -m grpo.probe checks all"
            )
        return found


def look(task: Any, function: Any, clock: Callable[[], float] = time.monotonic) -> GoldReport | None:
    """The right answers of all splits, in a shuffled order, until the time is up; None where nobody can tell."""
    judge = gold_judge(function)
    if judge is None:
        return None
    began = clock()
    report = GoldReport(sum(task.size(split) for split in SPLITS))
    for split in SPLITS:
        for batch in _batches(task, split):
            if report.checked and clock() - began > SECONDS:
                return report
            named = [(q.id, q.columns["answer"]) for q in batch if q.columns.get("answer") is not None]
            problems = judge([answer for _, answer in named])
            report.checked += len(batch)
            for (name, answer), problem in zip(named, problems, strict=True):
                if problem:
                    report.unusable += 1
                    report.first = report.first or (name, str(answer), problem)
    return report


def _batches(task: Any, split: Split) -> Iterator[list[Any]]:
    size = task.size(split)
    count = -(-size // BATCH)
    for place in range(count):  # shuffled: a file sorted by kind would show one kind before the time is up
        start = permuted(place, count, "golds", split) * BATCH
        yield questions(task, split, start, min(start + BATCH, size))
