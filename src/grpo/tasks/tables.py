"""From a path to tables of the `datasets` library: memory-mapped Arrow files, so that their rows stay on the disk."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo.config import sentences
from grpo.errors import UserError
from grpo.tasks.base import SPLITS, Split

if TYPE_CHECKING:
    from grpo.tasks.dataset import Dataset

BUILDERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}
"""Suffix (before .gz) -> builder of `datasets`."""


def check_columns(task: Dataset, table: Any) -> None:
    for field in ("prompt_column", "answer_column"):
        name = getattr(task, field)
        if name is not None and name not in table.column_names:
            found = ", ".join(table.column_names)
            near = sentences.meant(name, table.column_names)
            raise UserError(f"task.{field}   there is no column {name} in {task.path}; it has {found}{near}")


def tables_of(task: Dataset) -> dict[Split, Any]:
    """The named splits; train is always among them."""
    path = Path(task.path).expanduser()
    if _builder(task.path):
        return _of_files(task)
    with _reading(task) as library:
        if path.is_dir() and (path / "dataset_dict.json").is_file():
            found = library.load_from_disk(str(path))
        elif path.is_dir() and (path / "state.json").is_file():
            found = {"train": library.load_from_disk(str(path))}
        else:
            place = str(path) if path.is_dir() else task.path
            found = library.load_dataset(place, task.subset, cache_dir=task.cache_dir)
    tables: dict[Split, Any] = {}
    for split in SPLITS:
        name = getattr(task, split)
        if name is None:
            continue
        if _builder(name):
            tables[split] = _file(task, split, name)
        elif name in found:
            tables[split] = found[name]
        else:
            near = sentences.meant(name, found)
            raise UserError(f"task.{split}   there is no split {name} in {task.path}; it has {', '.join(found)}{near}")
    return tables


def _of_files(task: Dataset) -> dict[Split, Any]:
    tables: dict[Split, Any] = {"train": _file(task, "train", task.path)}
    for split in ("validation", "test"):
        name = getattr(task, split)
        if name is not None:
            if not _builder(name):
                raise UserError(
                    f"task.{split}   {task.path} is a file, so {split} must be a file too, or null for a share of "
                    f"train; {name} is neither"
                )
            tables[split] = _file(task, split, name)
    return tables


def _builder(name: str) -> str | None:
    """The builder of `datasets` for a file of this name; None for a folder, a hub id or a split's name."""
    return BUILDERS.get(Path(name.removesuffix(".gz")).suffix.lower())


def _file(task: Dataset, split: Split, name: str) -> Any:
    """One file, or all that a pattern matches, as one table."""
    key = "task.path" if split == "train" else f"task.{split}"
    files = sorted(glob.glob(str(Path(name).expanduser())))
    if not files:
        raise UserError(f"{key}   there is no file {name}")
    options = {"sep": "\t"} if ".tsv" in Path(name).suffixes else {}
    with _reading(task, key) as library:
        return library.load_dataset(
            _builder(name), data_files={"train": files}, split="train", cache_dir=task.cache_dir, **options
        )


@contextmanager
def _reading(task: Dataset, key: str = "task.path") -> Iterator[Any]:
    """`datasets` without its progress bars, its errors in one sentence; the cause stays attached."""
    import datasets
    from datasets.utils import logging

    silent = datasets.are_progress_bars_disabled()
    level = logging.get_verbosity()
    datasets.disable_progress_bars()
    logging.set_verbosity_error()
    try:
        yield datasets
    except Exception as error:
        cause = error.__cause__ or error
        reason = " ".join(str(cause).split())[:300] or type(cause).__name__
        raise UserError(f"{key}   the datasets library cannot read {task.path}: {reason}") from error
    finally:
        logging.set_verbosity(level)
        if not silent:
            datasets.enable_progress_bars()
