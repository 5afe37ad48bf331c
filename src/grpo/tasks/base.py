"""What a task offers: questions by (split, index), and how their answers are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from grpo.tasks.order import uniform

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
Extract = Literal["boxed", "hash", "boxed_or_hash", "last_number", "boxed_or_last_number"]
"""Where the answer stands in a completion; see rewards/extract.py."""

SHARES: dict[Split, float] = {"train": 0.65, "validation": 0.10, "test": 0.25}
"""Of all problems. The test pool is large, so that each seed can draw its own test set from it."""


@dataclass(frozen=True)
class Question:
    """One row of a task. `columns` reach the reward functions by name; "answer" is the right answer.

    messages: the conversation of a row that holds one, the user's turn last; `text` is then that turn.
    """

    id: str
    text: str
    columns: dict[str, Any] = field(default_factory=dict)
    messages: tuple[dict[str, str], ...] | None = None


TooLong = Literal["refuse", "drop"]
"""What to do with prompts over max_prompt_tokens. Both count them; nothing is ever cut."""


class Task(Protocol):
    """The members every task has; see arithmetic.py for the smallest one.

    A task may also have: `too_long`, refuse (where it is missing) or drop; `notes()`, lines for the start table about
    its splits; `batch(split, start, stop)`, many at once where that is cheaper than one by one; and what
    grpo.probe asks it about its answers (probe/writing.py).
    """

    @property
    def chat(self) -> bool | Literal["auto"]:
        """True: questions are user messages under the tokenizer's chat template. False: plain text.

        "auto": a question with `messages` is chat, one without is plain text.
        """
        ...

    @property
    def system(self) -> str | None:
        """System message of a chat task."""
        ...

    @property
    def extract(self) -> Extract:
        """Where the answer stands in a completion."""
        ...

    @property
    def max_completion_tokens(self) -> int:
        """Tokens a completion needs at most, end of sequence included."""
        ...

    def size(self, split: Split) -> int:
        """Number of questions in the split."""
        ...

    def question(self, split: Split, index: int) -> Question:
        """Question `index` of the split, a pure function of the task's fields, split and index."""
        ...


def answer_text(answer: Any) -> str:
    """A right answer as text; several in a list are one answer with as many members."""
    return ", ".join(map(str, answer)) if isinstance(answer, list | tuple) else str(answer)


def questions(task: Task, split: Split, start: int, stop: int) -> list[Question]:
    """Questions start … stop − 1 of the split."""
    many = getattr(task, "batch", None)
    return many(split, start, stop) if many else [task.question(split, i) for i in range(start, stop)]


def messages_of(task: Task, question: Question) -> tuple[dict[str, str], ...] | None:
    """System and user message of a chat task, or the question's own conversation; None for a plain one."""
    if task.chat is False or (task.chat == "auto" and question.messages is None):
        return None
    own = question.messages or ({"role": "user", "content": question.text},)
    system = task.system if own[0]["role"] != "system" else None
    return ({"role": "system", "content": system}, *own) if system else own


def split_of(*problem: str | int) -> Split:
    """The split a problem belongs to: a fixed hash of what makes it the same problem, whatever its wording or order."""
    share = uniform("split", *problem)
    for split in SPLITS:
        share -= SHARES[split]
        if share < 0:
            return split
    return "test"
