"""kill -9 at a chosen file operation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest


def die_at(count: int) -> None:
    """End this process, as kill -9 does, at the count-th file operation: nothing is cleaned up or flushed."""
    left = [count]

    def tick() -> None:
        left[0] -= 1
        if left[0] == 0:
            os._exit(9)

    def audit(event: str, arguments: tuple) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir"):
            tick()

    fsync = os.fsync

    def counted(descriptor: int) -> None:
        tick()
        fsync(descriptor)
        tick()

    os.fsync = counted
    sys.addaudithook(audit)  # cannot be removed, so only ever in a forked child


@pytest.fixture
def dies() -> Callable[[int, Callable[[], object]], int]:
    """dies(count, action): run `action` in a child killed at its count-th file operation; 9 killed, 0 came through."""

    def run(count: int, action: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            try:
                die_at(count)
                action()
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return run
