"""A checkpoint is a folder that appears by one rename: checkpoints/step-000050/.

    trainable.safetensors   the trainable weights by name; tied names are stored once each
    optimizer.pt            plain dicts, numbers and tensors; loads with weights_only=True
    state.json              step and counters, plain types
    extra.safetensors       further tensors (lagged weights of the rollout engine), if any
    manifest.json           size and sha256 of each of the files above, written last

Order of a save: all files into step-000050.tmp-<pid>, each fsynced → manifest, fsynced → the folder itself fsynced →
rename → parent fsynced. Before the rename there is no checkpoint, after it there is a whole one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo.errors import UserError
from grpo.runs.atomic import read_json, sync_file, sync_folder, unwritable
from grpo.runs.plain import plain, plain_json, separate

if TYPE_CHECKING:
    from torch import Tensor

MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{6,})")
_LEFTOVER = re.compile(r"(step-\d{6,})\.(tmp|old)-\d+")


@dataclass(frozen=True)
class Checkpoint:
    """What `load` returns, on the CPU."""

    path: Path
    step: int
    tensors: dict[str, Tensor]
    optimizer: dict[str, Any]
    state: dict[str, Any]
    extra: dict[str, Tensor]


def step_name(step: int) -> str:
    """step-000050."""
    return f"step-{step:06d}"


def step_of(path: Path) -> int | None:
    """50 for step-000050, None for any other name."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def save(
    folder: str | Path,
    step: int,
    tensors: Mapping[str, Tensor],
    optimizer: Mapping[str, Any],
    state: Mapping[str, Any],
    extra: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write the checkpoint of `step` into `folder` (a run's checkpoints/) and return its path.

    A checkpoint of the same step is replaced. Values of other than plain types raise TypeError before a file exists.
    """
    folder = Path(folder)
    from safetensors import SafetensorError

    target = folder / step_name(step)
    temporary = target.with_name(f"{target.name}.tmp-{os.getpid()}")
    plain_optimizer, plain_state = plain(optimizer, "optimizer"), plain_json(state, "state")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        _write_files(temporary, step, tensors, plain_optimizer, plain_state, extra)
        _put_in_place(temporary, target)
    except (OSError, RuntimeError, SafetensorError) as error:  # the writers of torch and safetensors have their own
        shutil.rmtree(temporary, ignore_errors=True)
        raise unwritable(target, error) from error
    return target


def _write_files(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    optimizer: dict[str, Any],
    state: dict[str, Any],
    extra: Mapping[str, Tensor] | None,
) -> None:
    import torch
    from safetensors.torch import save_file

    save_file(separate(tensors), folder / "trainable.safetensors")
    with open(folder / "optimizer.pt", "wb") as file:
        torch.save(optimizer, file)
    if extra:
        save_file(separate(extra), folder / "extra.safetensors")
    content = {"v": 1, "step": step, "state": state}
    (folder / "state.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    files = {}
    for path in sorted(folder.iterdir()):
        sync_file(path)
        files[path.name] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
    (folder / MANIFEST).write_text(json.dumps({"v": 1, "files": files}, indent=2) + "\n", encoding="utf-8")
    sync_file(folder / MANIFEST)
    sync_folder(folder)


def _put_in_place(temporary: Path, target: Path) -> None:
    """Rename; a folder cannot be renamed onto a full one, so an old checkpoint first steps aside (see `tidy`)."""
    aside = target.with_name(f"{target.name}.old-{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    replaces = target.exists()
    if replaces:
        os.rename(target, aside)
    try:
        os.rename(temporary, target)
    except OSError:
        if replaces:
            os.rename(aside, target)
        raise
    sync_folder(target.parent)
    if replaces:
        shutil.rmtree(aside, ignore_errors=True)


def load(path: str | Path) -> Checkpoint:
    """Read a checkpoint after checking every size and hash; damage raises UserError naming the file."""
    import torch
    from safetensors.torch import load_file

    path = Path(path)
    reason = damage(path)
    if reason:
        raise UserError(f"resume   {path} is damaged: {reason}")
    content = json.loads((path / "state.json").read_text(encoding="utf-8"))
    extra = path / "extra.safetensors"
    return Checkpoint(
        path=path,
        step=content["step"],
        tensors=load_file(path / "trainable.safetensors"),
        optimizer=torch.load(path / "optimizer.pt", map_location="cpu", weights_only=True),
        state=content["state"],
        extra=load_file(extra) if extra.exists() else {},
    )


def damage(path: Path, *, hashes: bool = True) -> str | None:
    """What is wrong with a checkpoint, as half a sentence; None if every file has its size and (if asked) hash."""
    manifest = read_json(path / MANIFEST)
    if manifest is None or not isinstance(manifest.get("files"), dict):
        return f"{MANIFEST} is missing or unreadable"
    for name, expected in manifest["files"].items():
        file = path / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != expected["bytes"]:
            return f"{name} has {file.stat().st_size} bytes instead of {expected['bytes']}"
        if hashes and _sha256(file) != expected["sha256"]:
            return f"{name} has changed since it was written (sha256 differs)"
    return None


def complete(path: str | Path) -> bool:
    """True for a checkpoint folder whose every file has its size and hash."""
    path = Path(path)
    return step_of(path) is not None and damage(path) is None


def every(folder: str | Path) -> list[Path]:
    """All checkpoint folders, whole or not, newest first."""
    folder = Path(folder)
    paths = [path for path in folder.iterdir() if step_of(path) is not None] if folder.is_dir() else []
    return sorted(paths, key=lambda path: step_of(path) or 0, reverse=True)


def newest_complete(folder: str | Path) -> tuple[Path | None, list[tuple[Path, str]]]:
    """The newest whole checkpoint, and the newer damaged ones that were passed over, each with the reason."""
    skipped: list[tuple[Path, str]] = []
    for path in every(folder):
        reason = damage(path)
        if reason is None:
            return path, skipped
        skipped.append((path, reason))
    return None, skipped


def prune(folder: str | Path, keep: int, protect: Iterable[int] = ()) -> list[Path]:
    """Delete all but the newest `keep` whole checkpoints and the protected steps (the best); returns the deleted.

    A damaged checkpoint never counts as one of those kept. Whole means by its sizes here: hashing the newest again
    after each save would cost as much as writing them.
    """
    protected, deleted, kept = set(protect), [], 0
    for path in every(folder):
        whole = kept < keep and damage(path, hashes=False) is None
        kept += whole
        if whole or step_of(path) in protected:
            continue
        _delete(path)
        deleted.append(path)
    return deleted


def drop_after(folder: str | Path, step: int) -> list[Path]:
    """Delete the checkpoints beyond `step`, whole or not; returns them.

    Going on from an older checkpoint starts another branch: without this a later resume=auto would jump back onto
    the old one.
    """
    beyond = [path for path in every(folder) if (step_of(path) or 0) > step]
    for path in beyond:
        _delete(path)
    return beyond


def _delete(path: Path) -> None:
    """A checkpoint leaves by a rename: a cut deletion then looks like a leftover, not like a damaged checkpoint."""
    aside = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    os.rename(path, aside)
    shutil.rmtree(aside, ignore_errors=True)


def tidy(folder: str | Path) -> list[Path]:
    """At start, when nobody else writes here: remove what a killed save left behind; returns what was removed.

    A save that was killed while it replaced a checkpoint has moved the old one aside: that one moves back.
    """
    folder, removed = Path(folder), []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        match = _LEFTOVER.fullmatch(path.name)
        if match and match[2] == "old" and not (folder / match[1]).exists():
            os.rename(path, folder / match[1])
        elif match:
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
    return removed


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
