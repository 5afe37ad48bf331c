"""launcher=process: each job is a fresh `python -m grpo …`, for GPUs and for several ranks per job.

Lightning starts its ranks by running the command line again, which must then be the job's and not the sweep's.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from grpo.sweep.launch import Local, Running, Start, command, prepare


class Processes:
    """The launcher."""

    queue: int | None = None

    def start(self, jobs: Sequence[Start]) -> list[Running]:
        """Jobs stay in this process's group: Ctrl-C reaches them from the terminal."""
        return [_Process(_popen(job)) for job in jobs]

    def adopt(self, id: str) -> Running | None:
        """Its jobs end with their runner."""
        return None


def _popen(job: Start) -> subprocess.Popen[bytes]:
    with job.log.open("ab") as log:
        return subprocess.Popen(
            command(job.words),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **job.environment},
            preexec_fn=prepare if os.name == "posix" else None,
        )


class _Process(Local):
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def poll(self) -> int | None:
        return self.process.poll()

    def stop(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()
