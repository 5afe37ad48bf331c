"""A run that exists already is copied, not repeated: equal configuration, seed, code, versions and hardware.

    <sweeps>/<this sweep>/<arm>/seed=0/      the copy, with reused.json saying from where
    <sweeps>/<sibling>/<arm>/seed=0/         the run

Checkpoints, the exported policy, W&B's files and recorded rollouts stay with the run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from grpo.config.hashing import UNHASHED
from grpo.errors import UserError
from grpo.runs import environment
from grpo.runs.atomic import read_json, sync_folder, unwritable, write_json
from grpo.runs.folder import load_config
from grpo.runs.status import now, read_status
from grpo.sweep import cores, manifest

LEFT_OUT = ("checkpoints", "policy", "wandb", "rollouts")
PACKAGES = ("grpo-lab", "torch", "transformers")
FILE = "reused.json"


def siblings(sweep: Path) -> dict[tuple[str, int], Path]:
    """(config_hash, seed) → run folder, over the finished runs of the other sweeps beside this one, where they have a
    manifest and this machine with this code would compute the same."""
    found: dict[tuple[str, int], Path] = {}
    here = fingerprint(_present())
    if here is None:
        return found
    for folder in sorted(path.parent for path in sweep.resolve().parent.glob(f"*/{manifest.FILE}")):
        if folder == sweep.resolve():
            continue
        try:
            made = manifest.read(folder)
        except UserError:  # another version's; it will say so itself when it is asked for
            continue
        for job in made.jobs if made else ():
            if usable(folder / job.folder, job, here):
                found.setdefault((job.config_hash, job.seed), folder / job.folder)
    return found


def usable(folder: Path, job: manifest.Job, here: Mapping[str, Any]) -> bool:
    """True for a finished run of the job's configuration and seed, made by the same code on the same hardware."""
    status = read_status(folder)
    if status is None or status.status != "done":
        return False
    record = read_json(folder / "environment.json") or {}
    same = (record.get("config_hash"), record.get("seed")) == (job.config_hash, job.seed)
    # A run that was resumed has one entry for each start, and each may have had other code.
    starts = [record, *record.get("resumed", [])]
    return same and all(fingerprint(each) == here for each in starts) and same_inputs(folder, status.started)


def same_inputs(folder: Path, started: str) -> bool:
    """False where a run read what its configuration hash does not cover and what may have changed since: code of one's
    own (a `_target_` outside this package), or files that are newer than its start."""
    try:
        config = load_config(folder)
    except UserError:
        return False
    since = datetime.fromisoformat(started).timestamp() if started else 0.0
    for key, value in _leaves({k: v for k, v in config.items() if k not in UNHASHED}):
        if key == "_target_" and not value.startswith("grpo."):
            return False
        if key.endswith("path") and any(file.stat().st_mtime > since for file in _files(Path(value))):
            return False
    return True


def _leaves(node: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(last key, text) of all texts in a configuration."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _leaves(value, str(key))
    elif isinstance(node, list):
        for value in node:
            yield from _leaves(value, name)
    elif isinstance(node, str):
        yield name, node


def _files(path: Path) -> list[Path]:
    """The file, or those of the folder; none for what is no path here (a hub id)."""
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path] if path.is_file() else []


def fingerprint(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """What has to agree, of an environment.json; None where uncommitted changes make the code unknowable."""
    git = record.get("git")
    if git and git.get("dirty"):
        return None
    packages = record.get("packages") or {}
    return {
        "commit": git and git.get("commit"),
        "packages": {name: packages.get(name) for name in PACKAGES},
        "cpu": (record.get("cpu") or {}).get("model"),
        "gpu": sorted({each.get("name", "") for each in record.get("gpu") or []}),
    }


def _present() -> dict[str, Any]:
    """This machine, now. torch is not loaded here, so the GPUs come from nvidia-smi."""
    words = cores.gpus()
    names = [{"name": name} for index, name in cores.machine_gpus() if index in words]
    return {**environment.environment(), "gpu": names}


def copy(source: Path, target: Path) -> None:
    """The small files of a run, whole or not at all. Copies, not links: a later append must not change both."""
    temporary = target.with_name(f"{target.name}.tmp-{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(source, temporary, ignore=_left_out(source))
        record = {"v": 1, "from": str(source.resolve()), "time": now()}
        write_json(temporary / FILE, record)
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        os.rename(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise unwritable(target, error, "sweep") from error


def _left_out(source: Path):
    """Only at the top: a task may well have a folder called policy further down."""

    def names(folder: str, entries: list[str]) -> set[str]:
        top = Path(folder) == source
        return {name for name in entries if (top and name in LEFT_OUT) or ".tmp-" in name}

    return names
