"""What a launcher is: it starts jobs, and says whether they have ended. The runner knows nothing else about them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from grpo.errors import UserError
from grpo.runs.status import now

LAUNCHERS = ("fork", "process", "submitit_local", "submitit_slurm")
PR_SET_PDEATHSIG = 1  # prctl(2)


@dataclass(frozen=True)
class Start:
    """A job as its launcher sees it."""

    words: tuple[str, ...]
    """The command line behind `python -m grpo`."""
    log: Path
    """Where standard output and standard error go; it exists and ends with the header of this attempt."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables on top of this process's."""


class Running(Protocol):
    """A job that was started."""

    def poll(self) -> int | None:
        """The exit code, −n for one killed by signal n; None while it runs (or waits in a cluster's queue)."""
        ...

    @property
    def id(self) -> str | None:
        """What a later runner finds it by (a cluster's number); None: it does not outlive this one."""
        ...

    @property
    def said(self) -> str:
        """What the launcher knows of its end that is in no log; mostly nothing."""
        ...

    def stop(self) -> None:
        """Ask it to finish its step, save and end."""
        ...

    def kill(self) -> None:
        """End it now."""
        ...


class Local:
    """What all jobs have in common that are processes of this machine."""

    id: str | None = None
    said: str = ""


class Launcher(Protocol):
    """A way to start jobs."""

    @property
    def queue(self) -> int | None:
        """None: the runner decides how many run. Else it takes all jobs together, and runs so many at a time itself."""
        ...

    def start(self, jobs: Sequence[Start]) -> Sequence[Running]:
        """Start the jobs, in order; an OSError fails the job, not the sweep."""
        ...

    def adopt(self, id: str) -> Running | None:
        """A job that an earlier runner started and that still runs; None if there is none."""
        ...


def command(words: Sequence[str], flags: Sequence[str] = ()) -> list[str]:
    """The job as a process of its own."""
    return [sys.executable, "-m", "grpo", *flags, *words]


def open_log(log: Path, words: Sequence[str], attempt: int) -> int:
    """Append the header of an attempt; the log's size behind it, where the attempt's own lines begin."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"── attempt {attempt} · {now()} · python -m grpo {shlex.join(words)}\n")
        file.flush()
        return file.tell()


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started here pass over the terminal's Ctrl-C: they only look after the jobs."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def prepare() -> None:
    """In a new process, before it becomes the job. A closed terminal ends the sweep, whose end is the job's SIGTERM."""
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    die_with_parent()


def die_with_parent() -> None:
    """Linux: SIGTERM to this process when its parent ends however that ends, so that a killed sweep leaves no jobs."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended in between, and nobody will say so again
        os.kill(os.getpid(), signal.SIGTERM)


def make(name: str, sweep: Path, resources: Mapping[str, Any], at_once: int | None) -> Launcher:
    """The launcher of that name, imported when asked for: submitit is an extra."""
    if name not in LAUNCHERS:
        raise UserError(f"hydra/launcher   there is no launcher {name}; say one of {', '.join(LAUNCHERS)}")
    if name.startswith("submitit_"):
        from grpo.sweep.slurm import Submitted

        return Submitted(name.removeprefix("submitit_"), sweep, resources, at_once)
    if resources:
        raise UserError(f"hydra.launcher   {', '.join(resources)}: only hydra/launcher=submitit_slurm knows resources")
    if name == "process":
        from grpo.sweep.process import Processes

        return Processes()
    from grpo.sweep.forked import Forked

    return Forked()
