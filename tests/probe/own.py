"""Rewards and tasks of a user's own, most of them with a fault that the probe must find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo.rewards.exact import text_of
from grpo.tasks.base import Question, Split


def generous(completions: Sequence[str], **columns: Any) -> list[float]:
    """Pays whatever is said, a little more for saying more."""
    return [1.0 + len(text) / 1e6 for text in completions]


def mentions(completions: Sequence[str], answer: Sequence[str], **columns: Any) -> list[float]:
    """Pays the right answer wherever it stands."""
    return [float(gold in text_of(text)) for text, gold in zip(completions, answer, strict=True)]


def stingy(completions: Sequence[str], answer: Sequence[str], **columns: Any) -> list[float]:
    """Forgets the box."""
    return [float(gold == text) for text, gold in zip(completions, answer, strict=True)]


def nothing(completions: Sequence[str], **columns: Any) -> list[None]:
    """Never applies."""
    return [None] * len(completions)


def fragile(completions: Sequence[str], answer: Sequence[str], **columns: Any) -> list[float]:
    """Fails on an empty completion."""
    return [float(text[-1] == gold) for text, gold in zip(completions, answer, strict=True)]


def brief(completions: Sequence[str], **columns: Any) -> list[float]:
    """1 for silence, less for every character."""
    return [1.0 / (1 + len(text)) for text in completions]


def counts_ids(completion_ids: Sequence[Sequence[int]], **columns: Any) -> list[float]:
    """Number of token ids, end token included."""
    return [float(len(ids)) for ids in completion_ids]


seen: list[Any] = []


def listens(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
    """Keeps what it was called with."""
    seen.append((prompts[0], completions[0], columns))
    return [float(i) for i in range(len(prompts))]


@dataclass(frozen=True)
class Picky:
    """Exact, but says which right answers it cannot read."""

    def __call__(self, completions: Sequence[str], answer: Sequence[str], **columns: Any) -> list[float]:
        return [float(f"\\boxed{{{gold}}}" == text) for text, gold in zip(completions, answer, strict=True)]

    def gold_problem(self, answer: str) -> str | None:
        """Only digits are read."""
        return None if answer.isdecimal() else "not a number"


@dataclass
class Slow:
    """Gives up on everything that is long, and counts it."""

    count: float = 0.0

    def __call__(self, completions: Sequence[str], **columns: Any) -> list[float]:
        self.count += sum(len(text) > 1000 for text in completions)
        return [float("54" in text) for text in completions]

    def metrics(self) -> dict[str, float]:
        """Long ones since the last call."""
        counted, self.count = self.count, 0.0
        return {"timeouts": counted, "read": 7.0}


@dataclass(frozen=True)
class Holes:
    """Twelve questions a split; two right answers of train are missing or unreadable."""

    extract: str = "boxed"
    max_completion_tokens: int = 32
    chat = False
    system = None

    def size(self, split: Split) -> int:
        return 12

    def question(self, split: Split, index: int) -> Question:
        answer = {3: None, 7: "see figure"}.get(index, str(index)) if split == "train" else str(index)
        return Question(f"{split}-{index}", f"{index}=", {"answer": answer})


@dataclass(frozen=True)
class Open(Holes):
    """No right answers at all."""

    def question(self, split: Split, index: int) -> Question:
        return Question(f"{split}-{index}", f"Write a poem about {index}.")


@dataclass(frozen=True)
class Tagged(Holes):
    """Answers in a tag, which only the task knows how to write; even numbers are all right."""

    def question(self, split: Split, index: int) -> Question:
        return Question(f"{split}-{index}", "An even number?", {"kind": "even"})

    def right_answer(self, question: Question) -> str:
        return "4"

    def wrong_answers(self, question: Question) -> Sequence[str]:
        return ["5", "7"]

    def write_answer(self, answer: str) -> str:
        return f"<answer>{answer}</answer>"

    def tricks(self, question: Question) -> Mapping[str, str]:
        return {"a half": "4.5"}


def even(completions: Sequence[str], **columns: Any) -> list[float]:
    """Reads the tag."""
    inner = [text.removeprefix("<answer>").removesuffix("</answer>") for text in completions]
    return [float(text.isdecimal() and int(text) % 2 == 0) for text in inner]


def fussy(completions: Sequence[str], answer: Sequence[str], **columns: Any) -> list[float]:
    """Pays right answers only where they are even."""
    pairs = zip(completions, answer, strict=True)
    return [float(text == f"\\boxed{{{gold}}}" and int(gold) % 2 == 0) for text, gold in pairs]
