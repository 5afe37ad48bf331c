"""The other side of workers.py: a program, started by its path, that needs nothing of this package.

The nursery imports the function once and then only waits: "s" n forks worker n, "k" n kills it with everything it has
started. A fork costs milliseconds, so that a killed worker does not cost a second import of sympy. When the nursery's
pipe closes, because the trainer closed it or died, it kills every worker and exits.

A worker reads pickled tasks and answers with one line of JSON each: what a worker sends cannot run code in the trainer.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from operator import attrgetter
from typing import Any

COMMAND = struct.Struct("<cQ")
PR_SET_PDEATHSIG = 1  # linux/prctl.h
Function = Callable[[Any], Any]


def main(control_fd: int, setup: dict[str, Any]) -> None:
    """Be the nursery: import, say how that went, obey until the pipe closes."""
    control = socket.socket(fileno=control_fd)
    sys.path[:] = setup["path"]
    if setup["empty_environment"]:
        os.environ.clear()
    try:
        module, _, name = setup["function"].partition(":")
        function: Function = attrgetter(name)(import_module(module))
    except BaseException as error:
        control.sendall(json.dumps({"error": _said(error)}).encode() + b"\n")
        return
    gc.freeze()  # what was imported stays shared with the workers instead of being walked in each
    control.sendall(json.dumps({"error": None}).encode() + b"\n")
    children: dict[int, int] = {}
    try:
        _obey(control, children, function, setup["memory_mb"])
    finally:
        for pid in children.values():
            _kill(pid)


def _obey(control: socket.socket, children: dict[int, int], function: Function, memory_mb: int | None) -> None:
    """Start and kill workers, {number: pid}, as told."""
    while True:
        command, fds, _, _ = socket.recv_fds(control, COMMAND.size, 1, socket.MSG_WAITALL)
        if len(command) < COMMAND.size:
            return
        what, number = COMMAND.unpack(command)
        if what == b"k":
            _kill(children.pop(number))
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            _serve(socket.socket(fileno=fds[0]), function, memory_mb)
        children[number] = pid
        os.close(fds[0])


def _kill(pid: int) -> None:
    """End a worker and its whole session. It is not reaped before, so its pid cannot have become someone else's."""
    for kill in (os.killpg, os.kill):  # killed right after the fork, it leads no group yet
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _serve(pipe: socket.socket, function: Function, memory_mb: int | None) -> None:
    """Be a worker until the pipe closes; never returns."""
    try:
        os.setsid()
        if sys.platform == "linux":  # a nursery that was killed takes its workers along
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory_mb is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
        with pipe.makefile("rb") as tasks:
            while tasks.peek(1):
                pipe.sendall(_answer(function, tasks))
    finally:
        os._exit(0)


def _answer(function: Function, tasks: Any) -> bytes:
    """One task's line. `last`: memory ran out, and what is left of this process is not to be used again."""
    last = False
    try:
        said: dict[str, Any] = {"status": "ok", "value": function(pickle.load(tasks)), "message": ""}
        return json.dumps({**said, "last": False}).encode() + b"\n"
    except MemoryError:
        last, message = True, "MemoryError: it needed more than memory_mb allows"
    except BaseException as error:  # SystemExit too: sys.exit() in a function ends the task, not the worker
        message = _said(error)
    return json.dumps({"status": "error", "value": None, "message": message, "last": last}).encode() + b"\n"


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:1000]
    except BaseException:  # an exception whose own __str__ fails
        return type(error).__name__


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
