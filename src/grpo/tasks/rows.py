"""From files, a folder or the hub to three disjoint splits of row numbers; the rows themselves stay on the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from grpo.config import sentences
from grpo.errors import UserError
from grpo.tasks.base import SPLITS, Split
from grpo.tasks.order import hash64
from grpo.tasks.tables import check_columns, tables_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo.tasks.dataset import Dataset

BATCH = 1000  # rows read at a time
CARVED: tuple[Split, ...] = ("test", "validation")


@dataclass(frozen=True, eq=False)
class Rows:
    """indices: split -> (source, its rows) as int64 row numbers; a carved split lives in the source of train."""

    sources: Mapping[Split, tuple[str, Any]]
    indices: Mapping[Split, NDArray[np.int64]]
    notes: Sequence[str]

    def read(self, split: Split, start: int, stop: int) -> list[tuple[str, dict[str, Any]]]:
        """(source:row number, row) of the questions start … stop − 1 of the split."""
        name, table = self.sources[split]
        numbers = self.indices[split][start:stop].tolist()
        columns = table[numbers]
        return [
            (f"{name}:{number}", {key: values[i] for key, values in columns.items()})
            for i, number in enumerate(numbers)
        ]


def load(task: Dataset) -> Rows:
    """The task's splits: named ones, and what is missing carved out of train by the hash of the prompt."""
    tables = tables_of(task)
    hashes: dict[Split, NDArray[np.uint64]] = {}
    notes: list[str] = []
    for split, table in tables.items():
        hashes[split], bad = _scan(task, split, table)
        notes += [f"{bad:,} rows of {split} without a prompt or an answer dropped"] if bad else []
    indices: dict[Split, NDArray[np.int64]] = {split: np.flatnonzero(marks) for split, marks in hashes.items()}
    notes += _separate(task, indices, hashes)
    sources: dict[Split, tuple[str, Any]] = {
        split: (str(getattr(task, split)), table) for split, table in tables.items()
    }
    missing: list[Split] = [split for split in CARVED if split not in tables]
    if missing:
        shares: dict[Split, float] = {split: float(getattr(task, f"{split}_share")) for split in missing}
        indices |= _carved(indices["train"], hashes["train"], shares)
        sources |= dict.fromkeys(missing, sources["train"])
        notes.append(f"{sentences.any_of(missing[::-1], 'and')} taken out of train by hash of the prompt")
    for split in SPLITS:
        if not len(indices[split]):
            raise UserError(
                f"task.{split}   {task.path} leaves no question for {split}; name a split or a file with more rows"
            )
    return Rows(sources, indices, notes)


def _separate(
    task: Dataset, indices: dict[Split, NDArray[np.int64]], hashes: Mapping[Split, NDArray[np.uint64]]
) -> list[str]:
    """No question in two named splits: one of the test leaves validation and train, one of validation train.

    In place; returns what was done.
    """
    notes: list[str] = []
    pairs: tuple[tuple[Split, Split], ...] = (("validation", "test"), ("train", "test"), ("train", "validation"))
    for split, other in pairs:
        if split not in indices or other not in indices:
            continue
        doubled = np.isin(hashes[split][indices[split]], hashes[other][indices[other]])
        count = int(doubled.sum())
        if count and task.overlap == "refuse":
            first = int(indices[split][doubled][0])
            raise UserError(
                f"task.overlap   {count:,} questions of {split} stand in {other} too (the first is row {first}), and "
                f"scores on {other} would be too good; say task.overlap=drop to take them out of {split}"
            )
        indices[split] = indices[split][~doubled]
        notes += [f"{count:,} questions of {split} that stand in {other} too dropped"] if count else []
    return notes


def _carved(
    rows: NDArray[np.int64], hashes: NDArray[np.uint64], shares: Mapping[Split, float]
) -> dict[Split, NDArray[np.int64]]:
    """Splits of one table. A question goes by its hash, so all rows with that question go together.

    Of few rows a share may get none, or leave none for the others: it then gets the one question with the least hash.
    """
    marks = hashes[rows]
    place = marks.astype(np.float64) / 2.0**64
    result: dict[Split, NDArray[np.int64]] = {}
    taken = np.zeros(len(rows), dtype=bool)
    low = 0.0
    for others, (split, share) in zip(range(len(shares), 0, -1), shares.items(), strict=True):
        chosen = (place >= low) & (place < low + share) & ~taken
        left = len(np.unique(marks[~taken & ~chosen]))
        if (left < others or not chosen.any()) and not taken.all():
            chosen = marks == marks[~taken].min()
        result[split] = rows[chosen]
        taken |= chosen
        low += share
    return {**result, "train": rows[~taken]}


def _scan(task: Dataset, split: Split, table: Any) -> tuple[NDArray[np.uint64], int]:
    """(a hash of each row's prompt, 0 for a bad row; how many are bad). One batch of two columns is in memory."""
    check_columns(task, table)
    wanted = [name for name in (task.prompt_column, task.answer_column) if name is not None]
    marks = np.zeros(len(table), dtype=np.uint64)
    bad, first, position = 0, "", 0
    for batch in table.select_columns(list(dict.fromkeys(wanted))).iter(batch_size=BATCH):
        for i, prompt in enumerate(batch[task.prompt_column]):
            answer = task.answer_of({name: batch[name][i] for name in wanted[1:]}) if task.answer_column else ""
            fault = _fault(task, prompt, answer)
            if fault is None:
                marks[position] = max(1, hash64(*_sameness(prompt)))
            else:
                bad, first = bad + 1, first or f"row {position} {fault}"
            position += 1
    if bad and task.bad_rows == "refuse":
        raise UserError(
            f"task.bad_rows   {bad:,} of {len(table):,} rows of {split} cannot be used ({first}); mend the data, or "
            "say task.bad_rows=drop"
        )
    return marks, bad


def _fault(task: Dataset, prompt: Any, answer: Any) -> str | None:
    """What is wrong with a row, or None."""
    if prompt is None or prompt == [] or (isinstance(prompt, str) and not prompt.strip()):
        return f"has no {task.prompt_column}"
    if not isinstance(prompt, str):
        turns: list[Any] = prompt if isinstance(prompt, list) else [None]
        if not all(isinstance(turn, Mapping) and isinstance(turn.get("content"), str) for turn in turns):
            return f"has a {task.prompt_column} that is neither text nor a list of messages with role and content"
        if turns[-1].get("role") != "user":
            return f"ends with a message of {turns[-1].get('role')}, not of the user"
        if task.chat is False:
            return "holds a list of messages, and task.chat=false wants text"
    if answer is None:
        where = f" that matches {task.answer_pattern}" if task.answer_pattern else ""
        return f"has no {task.answer_column}{where}"
    return None


def _sameness(prompt: Any) -> tuple[str, ...]:
    """What makes two prompts the same question: their words, whatever the case and the spaces between."""
    turns = [prompt] if isinstance(prompt, str) else [f"{turn['role']} {turn['content']}" for turn in prompt]
    return tuple(" ".join(turn.split()).casefold() for turn in turns)
