"""Before a sweep's jobs start: which of them are done, and what lies in the way of the others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from grpo.errors import UserError
from grpo.runs.atomic import read_json, unwritable
from grpo.runs.folder import CONFIG_FILE
from grpo.runs.status import Status, read_status
from grpo.sweep.manifest import Job

LEFTOVERS = "leftovers"
PATIENCE = 60.0  # seconds that a killed sweep's job may take to finish its step and save
Say = Callable[[str], None]


def complete(job: Job, folder: Path) -> Status | None:
    """The status of a run that need not run again: done, or diverged by itself, with the job's configuration."""
    status = read_status(folder)
    return status if status is not None and status.is_result and belongs(job, folder) else None


def belongs(job: Job, folder: Path) -> bool:
    """True if the run in the folder has the job's configuration and seed."""
    record = read_json(folder / "environment.json") or {}
    return (record.get("config_hash"), record.get("seed")) == (job.config_hash, job.seed)


def wait_for(jobs: Sequence[Job], sweep: Path, say: Say, patience: float | None = None) -> None:
    """Wait for processes that still write to the jobs' folders; a UserError names one that does not end in `patience`.

    They are jobs of a sweep that was killed: they have got SIGTERM and are finishing their step.
    """
    patience = PATIENCE if patience is None else patience
    busy, told, end = _alive(jobs, sweep), False, time.monotonic() + patience
    while busy:
        folder, pid = next(iter(busy.items()))
        if time.monotonic() >= end:
            raise UserError(f"sweep   process {pid} is writing to {folder}; wait for it, or stop it (kill {pid})")
        if not told:
            processes = ", ".join(map(str, busy.values()))
            say(f"waiting for what an earlier start has left running (process {processes}), {patience:.0f} s at most")
            told = True
        time.sleep(0.2)
        busy = _alive(jobs, sweep)


def _alive(jobs: Sequence[Job], sweep: Path) -> dict[Path, int]:
    """Folder → process id."""
    found = {sweep / job.folder: read_status(sweep / job.folder) for job in jobs}
    return {folder: status.pid for folder, status in found.items() if status is not None and status.alive}


def clear(job: Job, sweep: Path, say: Say) -> None:
    """Move a run of another configuration (or half of a run) out of the job's folder, to <sweep>/leftovers."""
    folder = sweep / job.folder
    if read_status(folder) is None and not (folder / CONFIG_FILE).exists():
        return
    if (folder / CONFIG_FILE).exists() and belongs(job, folder):
        return
    target = set_aside(folder, sweep)
    say(f"{job.folder} held another configuration's run, or half of one; it is now {target}, and is not counted")


def set_aside(folder: Path, sweep: Path) -> Path:
    """Move a run folder to <sweep>/leftovers/<same name>[-2]; its new place."""
    target = sweep / LEFTOVERS / folder.relative_to(sweep)
    number = 1
    while target.exists():
        number += 1
        target = target.with_name(f"{folder.name}-{number}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder, target)
    except OSError as error:
        raise unwritable(target, error, "sweep") from error
    return target
