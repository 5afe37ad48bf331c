"""Ctrl-C and SIGTERM: finish the step, save, say so, end."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ECHO_SECONDS = 0.25


class GracefulStop:
    """Handlers that only set `requested`; a second Ctrl-C interrupts at once.

    Lightning's own handlers interrupt inside the step (SIGINT) or end without a checkpoint (SIGTERM), and Lightning
    installs them after `fit` has begun: so `install()` again in `on_train_start`, and `restore()` in `on_train_end`.
    Installs nest. As a context manager it installs on entry and restores on exit.

    A second SIGINT within `ECHO_SECONDS` of the first is the same key press: wrappers (`uv run`, `make` with a shell)
    pass on what the terminal has already sent to the whole process group.
    """

    def __init__(self, say: Callable[[str], None] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.requested: str | None = None
        """None, "SIGINT" or "SIGTERM": the first signal that came."""
        self._say = say if say is not None else _say
        self._clock = clock
        self._first = 0.0
        self._replaced: list[dict[signal.Signals, Any]] = []

    def install(self) -> GracefulStop:
        """Take over SIGINT and SIGTERM. Outside the main thread Python allows no handlers: then nothing happens."""
        replaced: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            replaced = {number: signal.signal(number, self._handle) for number in SIGNALS}
        self._replaced.append(replaced)
        return self

    def restore(self) -> None:
        """Undo the last `install()`; a handler that somebody else has set since then stays."""
        if not self._replaced:
            return
        for number, handler in self._replaced.pop().items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def __enter__(self) -> GracefulStop:
        return self.install()

    def __exit__(self, *_: object) -> None:
        self.restore()

    def hear(self, name: str) -> None:
        """Another rank was asked to stop: so is this one. Its own copy of the same key press may still come."""
        if self.requested is None:
            self.requested, self._first = name, self._clock()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        moment = self._clock()
        if self.requested is None:
            self.requested, self._first = signal.Signals(number).name, moment
            self._say(f"\n{self.requested}: finishing what is under way, then saving; Ctrl-C again stops at once")
        elif number == signal.SIGINT and moment - self._first > ECHO_SECONDS:
            raise KeyboardInterrupt


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # a closed pipe, or a print that was interrupted
        print(text, file=sys.stderr, flush=True)
