"""All jobs of a sweep and where each stands; jobs.json on the disk."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from grpo.errors import UserError
from grpo.runs.atomic import read_json, unwritable, write_json
from grpo.runs.lock import lock
from grpo.runs.status import Status
from grpo.sweep.launch import Running
from grpo.sweep.manifest import Job
from grpo.sweep.outcomes import JobState, Outcome

FILE = "jobs.json"
LOGS = "logs"


@dataclass
class Entry:
    """One job. The runner changes it; the live table reads it."""

    job: Job
    folder: Path
    log: Path
    attempts: int = 0
    state: JobState = "waiting"
    outcome: Outcome | None = None
    twin: Entry | None = None
    """An equal job of this sweep that runs first; its files are copied here."""
    running: Running | None = None
    id: str | None = None
    """The number that a cluster gave it."""
    place: int = 0
    """Which share of the cores it has."""
    began: float = 0.0
    """Monotonic clock at its start."""
    ended: float = 0.0
    before: Status | None = None
    """The run's status when it was started."""
    behind: int = 0
    """Size of the log when it was started, bytes."""

    def started(self, running: Running | None, place: int) -> None:
        """It runs from now on."""
        self.running, self.place, self.state, self.began = running, place, "running", time.monotonic()
        self.id = running.id if running else None

    def finish(self, outcome: Outcome) -> None:
        """It has ended, or needs no run."""
        self.running = self.id = None
        self.outcome, self.state, self.ended = outcome, outcome.state, time.monotonic()

    @property
    def seconds(self) -> float | None:
        """How long it ran in this call; None if it did not or still does."""
        return self.ended - self.began if self.began and self.ended else None


class Board:
    """The entries in the order of the jobs, each folder once."""

    def __init__(self, jobs: Sequence[Job], sweep: Path) -> None:
        self.sweep = sweep
        self.file = sweep / FILE
        self._old = {k: v for k, v in (read_json(self.file) or {}).items() if isinstance(v, dict)}
        self.entries: dict[str, Entry] = {}
        for job in jobs:
            log = sweep / LOGS / f"{job.folder}.log"
            old = self._old.get(job.folder, {})
            entry = Entry(job, sweep / job.folder, log, int(old.get("attempts", 0)), id=old.get("id"))
            self.entries.setdefault(job.folder, entry)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    def of(self, *states: JobState) -> list[Entry]:
        """The entries in one of these states."""
        return [entry for entry in self if entry.state in states]

    def write(self) -> None:
        """jobs.json, with the jobs of earlier calls (the tuning phase) as they were."""
        mine = {
            folder: {
                "state": entry.state,
                "code": entry.outcome.code if entry.outcome else None,
                "why": entry.outcome.why if entry.outcome else "",
                "log": str(entry.log),
                "attempts": entry.attempts,
                **({"id": entry.id} if entry.id else {}),
            }
            for folder, entry in self.entries.items()
        }
        write_json(self.file, {"v": 1, **self._old, **mine}, durable=False)


@contextlib.contextmanager
def locked(sweep: Path) -> Iterator[None]:
    """One runner per sweep. The lock is on the folder of the logs, leaves no file, and ends with the process."""
    logs = sweep / LOGS
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(logs, error, "sweep") from error
    try:
        descriptor = lock(logs)
    except BlockingIOError as error:
        raise UserError(f"sweep   another process is running the jobs of {sweep}; wait for it, or stop it") from error
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
