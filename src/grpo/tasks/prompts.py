"""PromptBook: the questions of a task as the policy sees them, in an order that is a function of the seed alone.

train(step, n)          position = step·n … step·n + n − 1;  pass = position // size;  order hashed from (seed, pass)
refill(step, round, n)  the first n of a permutation of its own, hashed from (seed, step, round)
split(name, n)          the first n of an order hashed from (seed, name): a procedural test set is fresh per seed
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from grpo.data import Prompt
from grpo.errors import UserError
from grpo.tasks.base import SPLITS, Question, Split, Task, messages_of
from grpo.tasks.encoding import encoded
from grpo.tasks.order import permuted
from grpo.tasks.survey import Survey, survey, too_long

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def train_index(position: int, size: int, seed: int) -> int:
    """Number of the question at this position of a run: each once per pass, every pass in another order."""
    return permuted(position % size, size, "train", seed, position // size)


KEPT = 8192  # prompts kept after they were made; a data set may have many more


class PromptBook:
    """Renders and encodes questions. Prompts that are too long are counted and refused or dropped, never cut."""

    def __init__(self, task: Task, tokenizer: PreTrainedTokenizerBase, seed: int, max_prompt_tokens: int) -> None:
        self.task, self.tokenizer, self.seed, self.max_prompt_tokens = task, tokenizer, seed, max_prompt_tokens
        if task.chat is True and not tokenizer.chat_template:
            raise self._no_template()
        self._cache: dict[tuple[Split, int], Prompt] = {}
        self.surveys: dict[Split, Survey] = {split: survey(self, split) for split in SPLITS}

    def size(self, split: Split) -> int:
        """Number of questions in the split, without dropped ones."""
        return self.surveys[split].kept

    def notes(self) -> list[str]:
        """What happened to the data on its way here, for the start table."""
        notes = getattr(self.task, "notes", None)
        return [*(notes() if notes else ()), *(note for found in self.surveys.values() for note in found.notes)]

    def train(self, step: int, n: int) -> list[Prompt]:
        """The `n` prompts of step `step` (0, 1, 2, …): each question once per pass, every pass in another order."""
        size = self.size("train")
        return [
            self._prompt("train", train_index(position, size, self.seed)) for position in range(step * n, step * n + n)
        ]

    def refill(self, step: int, round: int, n: int) -> list[Prompt]:
        """`n` further prompts for dynamic sampling; fewer are a prefix of more, so arms of a comparison stay paired."""
        size = self.size("train")
        return [
            self._prompt("train", permuted(i % size, size, "refill", self.seed, step, round, i // size))
            for i in range(n)
        ]

    def split(self, name: Split, n: int) -> list[Prompt]:
        """`n` prompts of a split, or all of them where it has fewer."""
        size = self.size(name)
        return [self._prompt(name, permuted(i, size, "split", name, self.seed)) for i in range(min(n, size))]

    def messages(self, question: Question) -> tuple[dict[str, str], ...] | None:
        """System and user message of a chat task, or the question's own conversation; None for a plain one."""
        return messages_of(self.task, question)

    def render(self, question: Question) -> str:
        """The text the policy continues: the question, or its chat template with the assistant's header at the end."""
        messages = self.messages(question)
        if messages is None:
            return question.text
        if not self.tokenizer.chat_template:
            raise self._no_template()
        try:
            text = self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except Exception as error:  # whatever a template's Jinja raises, e.g. "System role not supported"
            raise UserError(
                f"model.chat_template   the chat template fails on question {question.id}: {error}"
            ) from error
        assert isinstance(text, str)
        return text

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids with exactly one BOS where the tokenizer uses one."""
        return tuple(encoded(self.tokenizer, text))

    def _prompt(self, split: Split, position: int) -> Prompt:
        index = self.surveys[split].index(position)
        key = (split, index)
        if key not in self._cache:
            question = self.task.question(split, index)
            text = self.render(question)
            ids = self.encode(text)
            if len(ids) > self.max_prompt_tokens:  # a tokenizer with more tokens than bytes, which the survey trusts
                raise too_long(split, 1, self.task.size(split), self.max_prompt_tokens, len(ids))
            if len(self._cache) >= KEPT:
                self._cache.clear()
            self._cache[key] = Prompt(question.id, ids, text, question.columns, self.messages(question))
        return self._cache[key]

    def _no_template(self) -> UserError:
        fields = dataclasses.fields(self.task) if dataclasses.is_dataclass(self.task) else ()
        choice = any(field.name == "chat" for field in fields)
        plain = "say task.chat=false" if choice else "take a plain task such as task=arithmetic"
        return UserError(
            f"model.chat_template   the tokenizer of {self.tokenizer.name_or_path} has no chat template and this is a "
            f"chat task; say model.chat_template=<Jinja file>, or {plain}"
        )
