"""PromptBook: the questions of a task as the policy sees them, in an order that is a function of the seed alone.

train(step, n)          position = step·n … step·n + n − 1;  pass = position // size;  order hashed from (seed, pass)
refill(step, round, n)  the first n of a permutation of its own, hashed from (seed, step, round)
split(name, n)          the first n of an order hashed from (seed, name): a procedural test set is fresh per seed
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.data import Prompt
from grpo.errors import UserError
from grpo.tasks.base import SPLITS, Question, Split, Task
from grpo.tasks.order import permuted

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PromptBook:
    """Renders and encodes questions. Prompts that are too long are counted and refused, never cut."""

    def __init__(self, task: Task, tokenizer: PreTrainedTokenizerBase, seed: int, max_prompt_tokens: int) -> None:
        self.task, self.tokenizer, self.seed, self.max_prompt_tokens = task, tokenizer, seed, max_prompt_tokens
        if task.chat and not tokenizer.chat_template:
            raise UserError(
                f"model.chat_template   the tokenizer of {tokenizer.name_or_path} has no chat template and this is a "
                "chat task; say model.chat_template=<Jinja file>, or take a plain task such as task=arithmetic"
            )
        self._cache: dict[tuple[Split, int], Prompt] = {}
        self._adds_bos = tokenizer.bos_token_id is not None and tokenizer.encode("1")[0] == tokenizer.bos_token_id
        self._refuse_long()

    def size(self, split: Split) -> int:
        """Number of questions in the split."""
        return self.task.size(split)

    def train(self, step: int, n: int) -> list[Prompt]:
        """The `n` prompts of step `step` (0, 1, 2, …): each question once per pass, every pass in another order."""
        size = self.task.size("train")
        return [
            self._prompt("train", permuted(position % size, size, "train", self.seed, position // size))
            for position in range(step * n, step * n + n)
        ]

    def refill(self, step: int, round: int, n: int) -> list[Prompt]:
        """`n` further prompts for dynamic sampling; fewer are a prefix of more, so arms of a comparison stay paired."""
        size = self.task.size("train")
        return [
            self._prompt("train", permuted(i % size, size, "refill", self.seed, step, round, i // size))
            for i in range(n)
        ]

    def split(self, name: Split, n: int) -> list[Prompt]:
        """`n` prompts of a split, or all of them where it has fewer."""
        size = self.task.size(name)
        return [self._prompt(name, permuted(i, size, "split", name, self.seed)) for i in range(min(n, size))]

    def messages(self, question: Question) -> tuple[dict[str, str], ...] | None:
        """System and user message of a chat task; None for a plain one."""
        if not self.task.chat:
            return None
        system = [{"role": "system", "content": self.task.system}] if self.task.system else []
        return (*system, {"role": "user", "content": question.text})

    def render(self, question: Question) -> str:
        """The text the policy continues: the question, or its chat template with the assistant's header at the end."""
        messages = self.messages(question)
        if messages is None:
            return question.text
        try:
            text = self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        except Exception as error:  # whatever a template's Jinja raises, e.g. "System role not supported"
            raise UserError(
                f"model.chat_template   the chat template fails on question {question.id}: {error}"
            ) from error
        assert isinstance(text, str)
        return text

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids with exactly one BOS where the tokenizer uses one.

        Many templates write the BOS themselves, many tokenizers add one: both would be two. A tokenizer that would
        append its EOS must not end the completion before it begins either, hence add_special_tokens=False.
        """
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        bos = self.tokenizer.bos_token_id
        if self._adds_bos and ids[:1] != [bos]:
            ids.insert(0, bos)  # pyright: ignore[reportArgumentType]  # _adds_bos: it is an int
        return tuple(ids)

    def _prompt(self, split: Split, index: int) -> Prompt:
        key = (split, index)
        if key not in self._cache:
            question = self.task.question(split, index)
            text = self.render(question)
            ids = self.encode(text)
            if len(ids) > self.max_prompt_tokens:
                self._refuse(split, 1, len(ids))
            self._cache[key] = Prompt(question.id, ids, text, question.columns, self.messages(question))
        return self._cache[key]

    def _refuse_long(self) -> None:
        """Counts the prompts over the limit before training.

        Only questions with more bytes than the limit leaves are encoded: character and byte-level tokenizers make at
        most one token per byte. `_prompt` checks every other one when its turn comes.
        """
        for split in SPLITS:
            questions = [self.task.question(split, i) for i in range(self.task.size(split))]
            if not questions:
                continue
            added = len(self.render(questions[0]).encode()) - len(questions[0].text.encode()) + 1  # template and BOS
            suspects = [q for q in questions if len(q.text.encode()) + added > self.max_prompt_tokens]
            lengths = [len(self.encode(self.render(q))) for q in suspects]
            if too_long := [length for length in lengths if length > self.max_prompt_tokens]:
                self._refuse(split, len(too_long), max(too_long))

    def _refuse(self, split: Split, count: int, longest: int) -> None:
        raise UserError(
            f"max_prompt_tokens   {count} of {self.task.size(split)} {split} prompts are longer than "
            f"{self.max_prompt_tokens} tokens and prompts are never cut; say max_prompt_tokens={longest}"
        )
