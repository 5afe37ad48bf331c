"""A look at every prompt of a split before training, in batches: what is too long, and what the tokenizer cannot read.

Memory: one batch, and 8 bytes per dropped prompt.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from grpo.errors import UserError
from grpo.tasks.base import Question, Split, questions

if TYPE_CHECKING:
    from grpo.tasks.prompts import PromptBook

BATCH = 1000  # questions read at a time
STRANGE = "×−中\U0001f9ff"  # a tokenizer that knows or spells out all of these has no unknown characters


@dataclass(frozen=True)
class Survey:
    """What was found in one split."""

    kept: int
    """Prompts that take part."""
    gaps: Sequence[int] = ()
    """For each dropped prompt, in order, the number of kept ones before it."""
    notes: tuple[str, ...] = ()

    def index(self, position: int) -> int:
        """The task's index of the kept question number `position`."""
        return position + bisect_right(self.gaps, position)


def too_long(split: Split, count: int, size: int, limit: int, longest: int) -> UserError:
    """The refusal of prompts over the limit."""
    return UserError(
        f"max_prompt_tokens   {count:,} of {size:,} {split} prompts are longer than {limit} tokens and prompts are "
        f"never cut; say max_prompt_tokens={longest}"
    )


def survey(book: PromptBook, split: Split) -> Survey:
    """Only questions with more bytes than the limit leaves are encoded: character and byte-level tokenizers make at
    most one token per byte. `PromptBook` checks every other one when its turn comes.
    """
    size, limit = book.task.size(split), book.max_prompt_tokens
    dropping = getattr(book.task, "too_long", "refuse") == "drop"
    unknown, special = _Unknown(book, split, size), _Special(book)
    gaps: list[int] = []
    longest = 0
    added = -1
    for start in range(0, size, BATCH):
        batch = questions(book.task, split, start, min(start + BATCH, size))
        if added < 0:  # bytes of the template, the same around every question, and the BOS
            added = len(book.render(batch[0]).encode()) - len(batch[0].text.encode()) + 1
        for i, question in enumerate(batch, start):
            if question.messages is None and len(question.text.encode()) + added <= limit:
                continue
            length = len(book.encode(book.render(question)))
            if length > limit:
                gaps.append(i - len(gaps))
                longest = max(longest, length)
        unknown.see(batch)
        special.see(batch)
    unknown.refuse()
    if gaps and not dropping:
        raise _with_choice(too_long(split, len(gaps), size, limit, longest), book)
    if gaps and len(gaps) == size:
        raise UserError(
            f"max_prompt_tokens   all {size:,} {split} prompts are longer than {limit} tokens and dropped; say "
            f"max_prompt_tokens={longest}"
        )
    notes = [f"{len(gaps):,} of {size:,} {split} prompts over {limit} tokens dropped"] if gaps else []
    return Survey(size - len(gaps), tuple(gaps), (*notes, *special.notes(split)))


def _with_choice(error: UserError, book: PromptBook) -> UserError:
    return UserError(f"{error}, or task.too_long=drop") if hasattr(book.task, "too_long") else error


class _Unknown:
    """Characters that the tokenizer would hide behind its <unk>: the policy could not read the question."""

    def __init__(self, book: PromptBook, split: Split, size: int) -> None:
        self.book, self.split, self.size = book, split, size
        unk = book.tokenizer.unk_token_id
        self.active = unk is not None and any(unk in _ids(book, c) for c in STRANGE)
        self.count, self.first, self.found = 0, "", dict[str, None]()
        self.is_unknown = lru_cache(maxsize=100_000)(lambda character: unk in _ids(book, character))

    def see(self, batch: Sequence[Question]) -> None:
        for question in batch if self.active else ():
            strange = [c for c in sorted(set("".join(_texts(question)))) if self.is_unknown(c)]
            if strange:
                self.count += 1
                self.first = self.first or question.id
                self.found.update(dict.fromkeys(strange))

    def refuse(self) -> None:
        if not self.count:
            return
        shown = " ".join(list(self.found)[:8]) + (" …" if len(self.found) > 8 else "")
        raise UserError(
            f"model   its tokenizer has no token for {shown}, which {self.count:,} of {self.size:,} {self.split} "
            f"prompts hold (the first is {self.first}) and the policy could not read; take a model with a whole "
            "vocabulary, such as model=smollm2, or questions in characters that this one knows"
        )


def _texts(question: Question) -> list[str]:
    return [turn["content"] for turn in question.messages] if question.messages else [question.text]


def _ids(book: PromptBook, text: str) -> list[int]:
    return book.tokenizer.encode(text, add_special_tokens=False)


class _Special:
    """Questions that spell a special token, such as <s> for struck-out text: the tokenizer reads it as that token."""

    def __init__(self, book: PromptBook) -> None:
        tokens = [re.escape(str(token)) for token in book.tokenizer.all_special_tokens]
        self.pattern = re.compile("|".join(tokens)) if tokens else None
        self.count, self.token = 0, ""

    def see(self, batch: Sequence[Question]) -> None:
        for question in batch if self.pattern is not None else ():
            found = next((match for text in _texts(question) if (match := self.pattern.search(text))), None)  # pyright: ignore[reportOptionalMemberAccess]
            if found:
                self.count, self.token = self.count + 1, self.token or found.group()

    def notes(self, split: Split) -> list[str]:
        if not self.count:
            return []
        return [f"{self.count:,} {split} prompts spell the special token {self.token}, and are read so"]
