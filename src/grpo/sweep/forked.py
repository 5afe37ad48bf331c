"""launcher=fork: jobs are forked from a process that has imported the heavy libraries and has done nothing else.

That saves every job its imports, much of a tiny run's time. The process ("forkserver") has made no tensor and started
no thread, so its children are as good as fresh ones.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from grpo.runs.status import Status, birth
from grpo.sweep.launch import Local, Running, Start, deaf_to_interrupts, prepare

PRELOAD = ["grpo.sweep.preload"]
LOST = 255  # what multiprocessing says when the forkserver ended before the child


class Forked:
    """The launcher. `at_once` and the environment are the runner's business."""

    queue: int | None = None

    def start(self, jobs: Sequence[Start]) -> list[Running]:
        """The first start waits for the imports."""
        # The variables must stand when the forkserver loads torch; later ones reach only the children.
        with _environment(jobs[0].environment if jobs else {}), deaf_to_interrupts():
            multiprocessing.set_forkserver_preload(PRELOAD)
            forkserver.ensure_running()
        context = multiprocessing.get_context("forkserver")
        return [_Child(_started(context.Process(target=_run, args=_arguments(job)))) for job in jobs]

    def adopt(self, id: str) -> Running | None:
        """Its jobs end with their runner."""
        return None


class _Child(Local):
    def __init__(self, process: ForkServerProcess) -> None:
        self.process = process
        # Its process id may be another's by the time we ask: remember when it was born.
        self.identity = Status(
            "running", pid=process.pid or 0, host=socket.gethostname(), birth=birth(process.pid or 0)
        )

    def poll(self) -> int | None:
        code = self.process.exitcode
        return None if code == LOST and self.identity.alive else code  # without its forkserver it is still saving

    def stop(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.process.pid and self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


def _started(process: ForkServerProcess) -> ForkServerProcess:
    try:
        process.start()
    except EOFError as error:
        raise OSError("the process that jobs are forked from has ended") from error
    return process


def _arguments(job: Start) -> tuple[list[str], str, dict[str, str], str]:
    # The forkserver has the variables of its start; the job gets those of now.
    return list(job.words), str(job.log), {**os.environ, **job.environment}, os.getcwd()


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]):
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _run(words: list[str], log: str, environment: dict[str, str], folder: str) -> None:
    """In the child: be `python -m grpo <words>` with its output in the log."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the forkserver is deaf to it
    _let_go_of_the_forkserver()
    prepare()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    _redirect(log)
    sys.argv = [str(Path(__file__).parents[1] / "__main__.py"), *words]
    if threads := environment.get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(threads))  # torch read the variable when the forkserver imported it
    from grpo.cli import main

    sys.exit(main(words))


def _let_go_of_the_forkserver() -> None:
    """Children hold the pipe that keeps the forkserver alive (theirs may fork too). Then a killed sweep's forkserver
    would live as long as they do, and they would never hear of its end."""
    server: Any = forkserver._forkserver  # pyright: ignore
    descriptor, server._forkserver_alive_fd = server._forkserver_alive_fd, None
    if descriptor is not None:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _redirect(log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
