"""Runs a program and its tests inside a worker process (workers.py), each test in a child of its own (files apart).

Not a sandbox: limits against accidents, no walls against intent. The child has no environment, an empty working folder,
its own limits and no open files, but the user's rights and network.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from typing import Any


def run(task: dict[str, Any]) -> list[bool]:
    """Which of task["tests"] pass after task["program"]; no test sees the names of another."""
    os.chdir(task["folder"])
    seconds, size = int(task["seconds"]) + 1, int(task["file_mb"]) << 20
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))  # also what has left the session stops working
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return [_passes(task["program"], test) for test in task["tests"]]


def _passes(program: str, test: str) -> bool:
    """True if the child reached the end of the test.

    An exit status would say so of sys.exit(0) in the program too; the child has to send a word that only it was told.
    """
    read, write = os.pipe()
    word = os.urandom(16)
    pid = os.fork()
    if pid == 0:
        _child(program, test, write, word)
    os.close(write)
    os.waitpid(pid, 0)
    os.set_blocking(read, False)  # a grandchild may hold the other end open
    said = b""
    with suppress(BlockingIOError):
        said = os.read(read, 64)
    os.close(read)
    return said == word


def _child(program: str, test: str, write: int, word: bytes) -> None:
    """Execute the program and the test, say the word, and end."""
    try:
        os.closerange(3, write)
        os.closerange(write + 1, 4096)  # the worker's pipe to the trainer, above all
        names: dict[str, Any] = {"__name__": "solution"}
        sys.argv[:] = ["solution"]
        exec(compile(program, "solution", "exec"), names)
        exec(compile(test, "test", "exec"), names)
        os.write(write, word)
    finally:
        os._exit(0)
