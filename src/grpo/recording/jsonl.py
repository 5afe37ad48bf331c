"""JSONL files that survive a kill: plain values, one flush per line, tolerant reading, atomic cutting.

NaN and ±inf are written as null: JSON has no such numbers, and a reader of tables takes null for NaN. Everything
outside ASCII is escaped, because completions may hold lone surrogates and Unicode line separators.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

VERSION = 1


def plain(value: Any) -> Any:
    """Values as JSON knows them: scalars of numpy and torch become numbers, arrays lists, non-finite numbers None."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy and torch
        return plain(value.tolist())
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be recorded; give plain numbers, text or lists")


def line(row: Mapping[str, Any]) -> str:
    """One line of a file, with its version first and its newline last."""
    return json.dumps({"v": VERSION, **plain(row)}, allow_nan=False) + "\n"


def open_append(path: Path) -> IO[str]:
    """Open for appending, first dropping a last line that a kill left without its end."""
    if path.exists():
        with path.open("r+b") as file:
            end = _last_newline(file)
            if end < file.seek(0, os.SEEK_END):
                file.truncate(end)
    return path.open("a", encoding="utf-8")


def _last_newline(file: IO[bytes], block: int = 1 << 16) -> int:
    """Offset just behind the last newline; 0 if there is none."""
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - block)
        file.seek(start)
        found = file.read(position - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        position = start
    return 0


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file; none if it does not exist. A last line without its end is passed over."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, text in enumerate(file, start=1):
            if not text.endswith("\n"):
                return
            try:
                yield json.loads(text)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}:{number}: this line is not JSON ({error.msg}); remove it to go on") from error


def rewrite(path: Path, keep: Callable[[dict[str, Any]], bool]) -> int:
    """Atomically drop the rows that `keep` refuses; their number. A kill leaves the old file or the new one."""
    if not path.exists():
        return 0
    dropped = 0
    new = path.with_name(path.name + ".tmp")
    with new.open("w", encoding="utf-8") as file:
        for row in read(path):
            if keep(row):
                file.write(json.dumps(row, allow_nan=False) + "\n")
            else:
                dropped += 1
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    return dropped
