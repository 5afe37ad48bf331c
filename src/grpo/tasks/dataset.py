"""Your own data: JSONL, Parquet or CSV files, a folder, or a data set of the hub."""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from grpo.config.nodes import auto_or_flag
from grpo.tasks.base import Extract, Question, Split, TooLong

if TYPE_CHECKING:
    from grpo.tasks.rows import Rows


def _pattern(value: Any) -> Any:
    try:
        re.compile(value or "")
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return value


Share = Annotated[float, Field(gt=0.0, lt=0.5)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Dataset:
    """Rows of a table. Columns: everything but the prompt reaches the reward functions by name; `answer` is the answer.

    Rows stay on the disk, in the memory-mapped Arrow files of the `datasets` library; here are 8 bytes per row.
    """

    path: str
    """A .jsonl, .json, .parquet, .csv or .tsv file, several as a pattern (data/*.jsonl), a folder, or a hub id."""
    subset: str | None = None
    """Configuration of a hub data set, such as main; null for its only one."""
    train: str = "train"
    """Name of the training split in a folder or on the hub; a file is a training split."""
    validation: str | None = None
    """Name of the validation split, or a file; null takes a share of the training rows, by hash of the prompt."""
    test: str | None = None
    """Name of the test split, or a file; null takes a share of the training rows, by hash of the prompt."""
    validation_share: Share = 0.05
    """Share of the training rows that becomes validation where no split is named, (0, 0.5)."""
    test_share: Share = 0.1
    """Share of the training rows that becomes the test where no split is named, (0, 0.5)."""
    prompt_column: str = "prompt"
    """Column of the question: text, or a list of messages with role and content."""
    answer_column: str | None = "answer"
    """Column of the right answer; null where the rewards need none."""
    answer_pattern: Annotated[str | None, BeforeValidator(_pattern)] = None
    """Regular expression for the answer inside of its column: the last match, its first group if it has one."""
    chat: Annotated[Literal["auto"] | bool, BeforeValidator(auto_or_flag)] = "auto"
    """true: under the chat template; false: plain text; auto: chat where there are messages or a system message."""
    system: str | None = None
    """System message; null leaves it to the chat template."""
    few_shot: str | None = None
    """Text before every question, such as solved examples, or @FILE with it."""
    template: str = "{prompt}"
    """Text around every question, which stands for {prompt}."""
    extract: Extract = "boxed_or_last_number"
    """Where the answer is read in a completion: boxed | last_number | boxed_or_last_number."""
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] = 256
    """Generation budget per completion in tokens, ≥ 1."""
    too_long: TooLong = "refuse"
    """Prompts over max_prompt_tokens: refuse to start, or drop them; both say how many."""
    bad_rows: Literal["refuse", "drop"] = "refuse"
    """Rows without a prompt or an answer: refuse to start, or drop them; both say how many."""
    overlap: Literal["refuse", "drop"] = "refuse"
    """Questions that stand in two named splits: refuse, or drop them from train (and validation); both say how many."""
    cache_dir: str | None = None
    """Folder of the Arrow files; null for the `datasets` library's own ($HF_DATASETS_CACHE)."""

    @model_validator(mode="after")
    def _fits(self) -> Dataset:
        if self.system is not None and self.chat is False:
            raise ValueError("system messages exist under a chat template only: say chat=true, or system=null")
        if "{prompt}" not in self.template:
            raise ValueError("template has no {prompt}, so the question would be missing")
        return self

    def size(self, split: Split) -> int:
        return len(_rows(self).indices[split])

    def question(self, split: Split, index: int) -> Question:
        return self.batch(split, index, index + 1)[0]

    def batch(self, split: Split, start: int, stop: int) -> list[Question]:
        return [self._question(name, row) for name, row in _rows(self).read(split, start, stop)]

    def notes(self) -> list[str]:
        return list(_rows(self).notes)

    def answer_of(self, row: dict[str, Any]) -> Any:
        """The answer of a row as text (a list of answers as it is), or None if there is none."""
        value = row.get(self.answer_column or "")
        if isinstance(value, float) and value != value:
            return None  # NaN: a gap in a table
        if self.answer_pattern is None or value is None:
            if isinstance(value, str):
                return value if value.strip() else None
            return (value or None) if isinstance(value, list | None) else str(value)
        pattern = re.compile(self.answer_pattern)
        last = deque(pattern.finditer(str(value)), maxlen=1)
        text = last[0].group(1 if pattern.groups else 0) if last else None
        return (text or "").strip() or None

    def _question(self, name: str, row: dict[str, Any]) -> Question:
        prompt = row[self.prompt_column]
        columns = {key: value for key, value in row.items() if key != self.prompt_column}
        if self.answer_column is not None:
            answer = self.answer_of(row)
            if "answer" in columns and str(columns["answer"]) != str(answer):
                columns["answer_raw"] = columns["answer"]  # GSM8K's whole solution stays within reach
            columns["answer"] = answer
        if isinstance(prompt, str):
            text, before = self._around(prompt), ()
        else:  # a list of messages; Arrow gives every message the keys of all, so some are None
            turns = [{key: value for key, value in message.items() if value is not None} for message in prompt]
            text, before = self._around(turns[-1]["content"]), tuple(turns[:-1])
        chat = not isinstance(prompt, str) or (self.chat == "auto" and self.system is not None)
        messages = (*before, {"role": "user", "content": text}) if chat else None
        return Question(name, text, columns, messages)

    def _around(self, prompt: str) -> str:
        """No str.format: the braces of \\boxed{} stay what they are."""
        text = self.template.replace("{prompt}", prompt)
        return f"{_text(self.few_shot, 'few_shot')}\n\n{text}" if self.few_shot else text


@lru_cache(maxsize=4)
def _text(value: str, field: str) -> str:
    """The text itself, or what stands in the file of @FILE."""
    from grpo.errors import UserError

    if not value.startswith("@"):
        return value
    file = Path(value[1:]).expanduser()
    if not file.is_file():
        raise UserError(f"task.{field}   there is no file {file}; @FILE is the file's text, anything else is itself")
    return file.read_text(encoding="utf-8").strip("\n")


@lru_cache(maxsize=4)
def _rows(task: Dataset) -> Rows:
    """Read once per process; `datasets` takes seconds to import, so not before somebody asks."""
    from grpo.tasks.rows import load

    return load(task)
