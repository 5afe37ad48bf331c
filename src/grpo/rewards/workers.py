"""Functions called in processes of their own, where a time limit ends the work and a memory limit holds.

A signal in this process would do neither: SIGALRM waits until C code returns, and works in the main thread only.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal

from grpo.errors import UserError
from grpo.rewards.worker_process import COMMAND

PROGRAM = Path(__file__).with_name("worker_process.py")
START_SECONDS = 300.0
"""Longest import of a function; such a limit only turns a hang into a sentence."""
LONGEST = 64 << 20
"""Bytes of one answer, at most."""


@dataclass(frozen=True)
class Outcome:
    """What became of one task."""

    value: Any
    """What the function returned, through JSON (tuples arrive as lists); None unless ok."""
    status: Literal["ok", "error", "timeout", "crash"]
    """error: an exception, MemoryError too; crash: the process ended; timeout: it was ended."""
    message: str = ""


@dataclass(eq=False)
class _Worker:
    number: int
    pipe: socket.socket
    received: bytearray = field(default_factory=bytearray)


class Workers:
    """`count` processes that call `function` on tasks; started at the first use, replaced when killed.

    function: "package.module:name", imported in a fresh interpreter; its results must be JSON. seconds: limit of one
    task, kept by killing its process and whatever that has started. memory_mb: RLIMIT_AS of each process.
    empty_environment: no environment variables. fresh: every task gets a process of its own (a fork, milliseconds), so
    that no task sees what another left behind. `map` may be called from any thread; calls take turns.
    """

    def __init__(
        self,
        function: str,
        *,
        count: int,
        seconds: float,
        memory_mb: int | None = None,
        empty_environment: bool = False,
        fresh: bool = False,
    ) -> None:
        self.function, self.count, self.seconds = function, count, seconds
        self.memory_mb, self.empty_environment, self.fresh = memory_mb, empty_environment, fresh
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._nursery: _Nursery | None = None
        self._owner = os.getpid()

    def map(self, tasks: Sequence[Any]) -> list[Outcome]:
        """One outcome per task, in order. Ctrl-C, or any other exception in here, ends all the processes."""
        with self._lock:
            try:
                return self._map(tasks)
            except BaseException:
                self._stop()
                raise

    def close(self) -> None:
        """End the processes; a later `map` starts new ones."""
        with self._lock:
            self._stop()

    def __reduce__(self) -> tuple[Any, ...]:
        limits = (self.count, self.seconds, self.memory_mb, self.empty_environment, self.fresh)
        return _make, (self.function, *limits)

    def _map(self, tasks: Sequence[Any]) -> list[Outcome]:
        outcomes: list[Outcome | None] = [None] * len(tasks)
        waiting = deque(range(len(tasks)))
        busy: dict[_Worker, tuple[int, float]] = {}
        while waiting or busy:
            while waiting and len(busy) < self.count:
                index = waiting.popleft()
                worker = self._give(pickle.dumps(tasks[index]))
                busy[worker] = index, time.monotonic() + self.seconds
            first = min(deadline for _, deadline in busy.values())
            ready = wait([worker.pipe for worker in busy], max(0.0, first - time.monotonic()))
            now = time.monotonic()
            for worker, (index, deadline) in list(busy.items()):
                outcome, usable = _read(worker) if worker.pipe in ready else (None, True)
                if outcome is None and now >= deadline:
                    outcome, usable = Outcome(None, "timeout", f"killed after {self.seconds:g} s"), False
                if outcome is not None:
                    outcomes[index] = outcome
                    del busy[worker]
                    self._return(worker, usable)
        return [outcome for outcome in outcomes if outcome is not None]

    def _give(self, task: bytes) -> _Worker:
        """A worker that has been sent the task. One that died while idle is replaced, and the task not blamed."""
        if self._owner != os.getpid():  # a fork of the trainer: the processes are the parent's
            self._idle, self._nursery, self._owner = [], None, os.getpid()
        while self._idle:
            worker = self._idle.pop()
            if not wait([worker.pipe], 0):  # readable while idle: closed, or it said what nobody asked
                with suppress(OSError):
                    worker.pipe.sendall(task)
                    return worker
            self._return(worker, usable=False)
        worker = self._start()
        with suppress(OSError):  # a worker that dies at once is a crash, seen when it is read
            worker.pipe.sendall(task)
        return worker

    def _start(self) -> _Worker:
        if self._nursery is not None and self._nursery.process.poll() is not None:
            self._stop()
        if self._nursery is None:
            self._nursery = _Nursery(self.function, self.memory_mb, self.empty_environment)
        return self._nursery.start(timeout=self.seconds)

    def _return(self, worker: _Worker, usable: bool) -> None:
        if usable and not self.fresh:
            self._idle.append(worker)
            return
        worker.pipe.close()
        if self._nursery is not None:
            self._nursery.kill(worker)

    def _stop(self) -> None:
        nursery, idle = self._nursery, self._idle
        self._nursery, self._idle = None, []
        if self._owner != os.getpid():
            return
        if nursery is not None:
            nursery.end()
        for worker in idle:
            worker.pipe.close()


class _Nursery:
    """The process in which the function was imported, and which forks the workers; see worker_process.py."""

    def __init__(self, function: str, memory_mb: int | None, empty_environment: bool) -> None:
        control, other = socket.socketpair()
        setup = {
            "function": function,
            "memory_mb": memory_mb,
            "empty_environment": empty_environment,
            "path": sys.path,
        }
        # One hash seed: sympy walks through sets, and the same answer must be judged the same way in every run.
        inherited = {} if empty_environment else os.environ
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-s", str(PROGRAM), str(other.fileno()), json.dumps(setup)],
                env={**inherited, "PYTHONHASHSEED": "0"},
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal is the trainer's to handle
            )
        self.control, self.started = control, 0
        self.end = weakref.finalize(self, _end, self.process, control, os.getpid())
        control.settimeout(START_SECONDS)
        self._imported(function)

    def start(self, timeout: float) -> _Worker:
        """A new worker; its pipe takes at most `timeout` seconds to swallow a task."""
        pipe, other = socket.socketpair()
        pipe.settimeout(timeout)
        with other:
            socket.send_fds(self.control, [COMMAND.pack(b"s", self.started)], [other.fileno()])
        self.started += 1
        return _Worker(self.started - 1, pipe)

    def kill(self, worker: _Worker) -> None:
        """End the worker; it need not be alive."""
        with suppress(OSError):  # the nursery itself was killed, and its workers with it
            self.control.sendall(COMMAND.pack(b"k", worker.number))

    def _imported(self, function: str) -> None:
        """Wait for the import; its failure is the user's to read."""
        try:
            with self.control.makefile("rb") as file:
                line = file.readline()
            error = json.loads(line)["error"] if line else "the process ended"
        except TimeoutError:
            error = f"it took more than {START_SECONDS:g} s"
        if error is not None:
            self.end()
            raise UserError(f"{function}   it cannot be imported in a worker process ({error}); mend the import")


def _end(process: subprocess.Popen[bytes], control: socket.socket, owner: int) -> None:
    """Close the pipe, upon which the nursery kills its workers and exits; only by the process that started it."""
    if os.getpid() != owner:
        return
    control.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read(worker: _Worker) -> tuple[Outcome | None, bool]:
    """(outcome, may the worker be used again); no outcome while its line is incomplete."""
    try:
        received = worker.pipe.recv(1 << 20)
    except OSError:
        received = b""
    worker.received += received
    if not received or len(worker.received) > LONGEST:
        return Outcome(None, "crash", "its process ended" if not received else "its answer is too long"), False
    if not received.endswith(b"\n"):
        return None, True
    try:
        said = json.loads(worker.received)
        outcome, usable = Outcome(said["value"], said["status"], said["message"]), not said["last"]
    except (ValueError, TypeError, KeyError):
        return Outcome(None, "crash", "its answer is no answer"), False
    worker.received.clear()
    return outcome, usable


def _make(
    function: str, count: int, seconds: float, memory_mb: int | None, empty_environment: bool, fresh: bool
) -> Workers:
    return Workers(
        function,
        count=count,
        seconds=seconds,
        memory_mb=memory_mb,
        empty_environment=empty_environment,
        fresh=fresh,
    )
