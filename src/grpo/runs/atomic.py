"""Files that exist whole or not at all: write beside the target, fsync, rename, fsync the folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpo.errors import UserError


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace `path` by `text` in one rename; `durable=False` leaves the fsync out (progress once per step).

    The temporary file lies beside the target: a rename across file systems is a copy, and a copy can be cut.
    """
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if durable:
            sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = True) -> None:
    """`write_text` of indented JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", durable=durable)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in `path`; None where the file is missing or is not a JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def sync_file(path: Path) -> None:
    """Have the kernel write `path` to the disk (the pages belong to the file, so any descriptor will do)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable; without it a rename may be gone after a power cut."""
    if os.name == "posix":  # Windows cannot open folders
        sync_file(path)


def unwritable(path: Path, error: Exception, key: str = "output_dir") -> UserError:
    """The sentence for a file or folder that could not be written."""
    if isinstance(error, PermissionError):
        return UserError(f"{key}   no permission to write {path}; say {key}=<a folder that you may write to>")
    why = error.strerror if isinstance(error, OSError) and error.strerror else error
    return UserError(f"{key}   cannot write {path}: {why}; make room there or say {key}=<another folder>")
