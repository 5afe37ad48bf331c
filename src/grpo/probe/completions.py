"""The completions that are tried on each question, and what each kind must or must not earn.

must   a right answer, as the prompt asks for it: has to be paid
may    a right answer in another shape: a reward may be strict or kind
never  a wrong answer or a trick: must not be called right, nor earn as much as the right answer
luck   wrong, but may happen to be right: a prompt that ends in its answer
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from grpo.probe import writing
from grpo.tasks.base import Question

Pays = Literal["must", "may", "never", "luck"]
FILLER = "Let me think about this again, step by step, because it is easy to make a mistake here. "
NO_BOX = "no box"
REPEATS = 6  # of the filler on either side: about 1,000 characters in all


@dataclass(frozen=True)
class Case:
    """What a completion is written from. gold and others are right answers, of this and of other questions."""

    task: Any
    question: Question
    gold: str | None
    wrong: Sequence[str]
    other: str | None
    strict: bool  # only a box or a mark counts

    def write(self, answer: str) -> str:
        """As the task's prompts ask for it."""
        return writing.write(self.task, answer)


@dataclass(frozen=True)
class Kind:
    """One row of the table; `make` gives None where a question has no such completion."""

    name: str
    says: str
    """The same as the subject of a sentence."""
    pays: Pays
    make: Callable[[Case], str | None]

    def pays_here(self, strict: bool) -> Pays:
        """An answer in a sentence is a trick where only a box or a mark counts, else one way to write it."""
        return ("never" if strict else "may") if self.name == NO_BOX else self.pays


def _right(case: Case) -> str | None:
    return None if case.gold is None else case.write(case.gold)


def _thought(case: Case) -> str | None:
    return None if case.gold is None else f"<think>Let me see.</think>\n{case.write(case.gold)}"


def _otherwise(case: Case) -> str | None:
    text = None if case.gold is None else writing.reformatted(case.gold)
    return None if text is None else case.write(text)


def _in_words(case: Case) -> str | None:
    text = None if case.gold is None else writing.spelled(case.gold)
    return None if text is None else case.write(text)


def _no_box(case: Case) -> str | None:
    return None if case.gold is None or _right(case) == writing.said(case.gold) else writing.said(case.gold)


def _wrong(case: Case) -> str | None:
    return case.write(case.wrong[0]) if case.wrong else None


def _other(case: Case) -> str | None:
    return None if case.other is None else case.write(case.other)


def _several(case: Case) -> str | None:
    """Guesses around the right one, a wrong one last."""
    if case.gold is None or len(case.wrong) < 2:
        return None
    guesses = [case.wrong[1], case.gold, case.wrong[0]]
    return " or ".join(case.write(guess) for guess in guesses)


def _hidden(case: Case) -> str | None:
    """The right answer mentioned in the middle of a long text that ends with a wrong one."""
    if case.gold is None or not case.wrong:
        return None
    thoughts = FILLER * REPEATS
    return f"{thoughts}Maybe {case.gold}? {thoughts}It could also be {case.wrong[0]}."


KINDS: tuple[Kind, ...] = (
    Kind("right answer", "the right answer", "must", _right),
    Kind("after thoughts", "the right answer after <think>…</think>", "may", _thought),
    Kind("in another format", "the right answer in another format", "may", _otherwise),
    Kind("in words", "the right answer in words", "may", _in_words),
    Kind(NO_BOX, "the right answer outside a box", "may", _no_box),
    Kind("wrong answer", "a wrong answer", "never", _wrong),
    Kind("another's answer", "the right answer of another question", "luck", _other),
    Kind("several answers", "a list of guesses", "never", _several),
    Kind("hidden in a text", "the right answer hidden in a long text", "never", _hidden),
    Kind("prompt echoed", "the echoed prompt", "luck", lambda case: case.question.text),
    Kind("empty", "an empty completion", "never", lambda case: ""),
)


def cases(task: Any, questions: Sequence[Question], strict: bool) -> list[Case]:
    """A case per question; the answer of another question is the next one that differs."""
    golds = [writing.right_answer(task, question) for question in questions]
    made = []
    for i, (question, gold) in enumerate(zip(questions, golds, strict=True)):
        following = [g for g in (*golds[i + 1 :], *golds[:i]) if g is not None]
        others = [g for g in following if gold is not None and not writing.equal(g, gold)]
        wrong = [] if gold is None else writing.wrong_answers(task, question, gold, others)
        made.append(Case(task, question, gold, wrong, others[0] if others else None, strict))
    return made


def kinds(cases: Sequence[Case]) -> list[Kind]:
    """The package's kinds and the tricks that the task knows."""
    tricks = dict.fromkeys(name for case in cases for name in _tricks(case))
    return [*KINDS, *(Kind(name, name, "never", partial(_trick, name)) for name in tricks)]


def _tricks(case: Case) -> Mapping[str, str]:
    own = getattr(case.task, "tricks", None)
    return own(case.question) if own else {}


def _trick(name: str, case: Case) -> str | None:
    answer = _tricks(case).get(name)
    return None if answer is None else case.write(answer)
