"""Right answers that nobody can judge by are found before training."""

from itertools import count

from grpo.rewards.exact import Exact
from grpo.runs import golds
from grpo.tasks.base import Question


class Task:
    """Ten questions per split; number 7 of train has no readable answer, number 8 none at all."""

    def size(self, split):
        return 10

    def question(self, split, index):
        answer = {7: "an apple a day", 8: None}.get(index, str(index)) if split == "train" else str(index)
        return Question(f"{split}{index}", "?", {"answer": answer})


class Strict:
    def gold_problems(self, answers):
        return [None if answer.isdigit() else "it is a sentence" for answer in answers]


def test_unusable_answers_are_counted_and_the_first_is_shown() -> None:
    report = golds.look(Task(), Strict())
    assert (report.total, report.checked, report.unusable) == (30, 30, 1)
    (line,) = report.lines()
    assert line.startswith("1 of 30 right answers cannot be used")
    assert "'an apple a day' of question train7: it is a sentence" in line


def test_large_data_is_looked_at_for_a_while(monkeypatch) -> None:
    monkeypatch.setattr(golds, "BATCH", 4)
    seconds = count(step=6)
    report = golds.look(Task(), Strict(), clock=lambda: next(seconds))
    # began at 0; 6 s after the first batch (the second is taken), 12 s after the second
    assert 4 < report.checked <= 8
    assert report.lines()[-1] == f"looked at {report.checked} of 30 in 10 s; python -m grpo.probe checks all"


def test_functions_that_cannot_tell_are_not_asked() -> None:
    assert golds.look(Task(), Exact()) is None
