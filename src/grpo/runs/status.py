"""status.json: where a run stands, and whether its process still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from grpo.runs.atomic import read_json, write_json

State = Literal["running", "done", "failed", "stopped"]
STATUS_FILE = "status.json"


def now() -> str:
    """This moment, ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def birth(pid: int) -> int | None:
    """Clock ticks between boot and the start of process `pid`; None where /proc does not say.

    A process id alone is not a process: after a reboot, and in every fresh container, the same small ids return.
    """
    return _stat(pid)[1]


def _stat(pid: int) -> tuple[str, int | None]:
    """State (Z is a zombie) and start of a process; ("?", None) without /proc."""
    try:
        numbers = (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        )  # the name may hold spaces and brackets
    except OSError:
        return "?", None
    return numbers[0], int(numbers[19])  # fields 3 and 22 of proc(5)


@dataclass(frozen=True)
class Status:
    """The content of status.json."""

    status: State
    step: int = 0
    """Last finished step."""
    started: str = ""
    """ISO 8601, UTC: when the run first started."""
    updated: str = ""
    """ISO 8601, UTC: when this file was written."""
    pid: int = 0
    host: str = ""
    birth: int | None = None
    """Clock ticks from boot to the start of `pid`."""
    error: str | None = None
    """The sentence that ended a failed run."""
    reason: str | None = None
    """Why the run ended: "all steps done", "SIGTERM", "budget", ..."""
    kind: str | None = None
    """What sort of failure: "diverged" (its own numbers ended it, which is a result); None for all others."""

    @classmethod
    def of_this_process(cls, status: State, *, step: int = 0, started: str | None = None) -> Status:
        """A status that names this process."""
        pid = os.getpid()
        return cls(status, step, started or now(), now(), pid, socket.gethostname(), birth(pid))

    @property
    def is_result(self) -> bool:
        """True for a run that need not run again: done, or ended by its own numbers, which is a result too."""
        return self.status == "done" or (self.status == "failed" and self.kind == "diverged")

    @property
    def alive(self) -> bool:
        """True if the process that wrote this status still runs on this machine and is not this process.

        On another machine nobody can look; False there, so that a preempted job may go on elsewhere.
        """
        if self.status != "running" or self.pid <= 0 or self.host != socket.gethostname() or self.pid == os.getpid():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # somebody else's process: it exists
        state, started = _stat(self.pid)
        # A killed job whose parent (a sweep) has not yet asked for its exit code is a zombie: it answers, no more.
        return state not in "ZX" and (None in (started, self.birth) or started == self.birth)

    def now(
        self,
        status: State,
        *,
        step: int | None = None,
        error: str | None = None,
        reason: str | None = None,
        kind: str | None = None,
    ) -> Status:
        """The same run a little later."""
        step = self.step if step is None else step
        return replace(self, status=status, step=step, updated=now(), error=error, reason=reason, kind=kind)


def write_status(folder: Path, status: Status) -> None:
    """Write status.json atomically."""
    write_json(folder / STATUS_FILE, {"v": 1, **asdict(status)})


def read_status(folder: Path) -> Status | None:
    """The status of a run folder; None where there is none or it cannot be read."""
    value = read_json(folder / STATUS_FILE)
    if value is None or value.get("status") not in ("running", "done", "failed", "stopped"):
        return None
    known = {field.name for field in fields(Status)}
    return Status(**{name: content for name, content in value.items() if name in known})
