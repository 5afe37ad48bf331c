"""What a sweep says while it goes: a table that moves on a terminal, a line per finished job elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console
from rich.live import Live

from grpo.recording.progress import duration
from grpo.sweep import facts
from grpo.sweep.board import Board, Entry
from grpo.sweep.picture import picture

SECONDS = 1.0  # between two pictures
Say = Callable[[str], None]


class Display(Protocol):
    """What the runner tells of its jobs."""

    say: Say

    def update(self, board: Board, at_once: int, last: bool = False) -> None:
        """Time has passed; called often."""
        ...

    def finished(self, entry: Entry, board: Board) -> None:
        """A job has ended."""
        ...

    def close(self) -> None:
        """Nothing more comes; closing twice is allowed."""
        ...


def display(say: Say, live: bool | None = None, endpoint: str | None = None, console: Console | None = None) -> Display:
    """live: the table, or lines; None: the table on a terminal. endpoint: the metric whose value stands for a job."""
    if sys.stdout.isatty() if live is None else live:
        return Table(say, endpoint, console or Console())
    return Lines(say, endpoint)


class Lines:
    """For a pipe or a file."""

    def __init__(self, say: Say, endpoint: str | None = None) -> None:
        self.say, self.endpoint = say, endpoint
        self.left: float | None = None
        self._at_once = 1

    def update(self, board: Board, at_once: int, last: bool = False) -> None:
        """Nothing to show."""
        self._at_once = at_once

    def finished(self, entry: Entry, board: Board) -> None:
        """[ 3/12]  done  eps_0.28/seed=3   test/avg@8 0.71  in 0:41  about 3:20 left"""
        over = len(board) - len(board.of("waiting", "running"))
        count = f"[{over:>{len(str(len(board)))}}/{len(board)}]"
        self.say("  ".join([count, f"{entry.state:<8}", entry.job.folder, *self._words(entry, board)]))

    def _words(self, entry: Entry, board: Board) -> list[str]:
        outcome = entry.outcome
        words = [outcome.why] if outcome and outcome.why and entry.state != "done" else []
        found = facts.score(entry.folder, self.endpoint) if entry.state == "done" else None
        words += [f"{found[0]} {found[1]:.2f}"] if found else []
        words += [f"in {duration(entry.seconds)}"] if entry.seconds else []
        words += [f"copied from {outcome.reused_from}"] if outcome and outcome.reused_from else []
        known = {e.job.folder: facts.running(e) for e in board.of("running")}
        left = facts.time_left(board, self._at_once, known, time.monotonic())
        return words + ([f"about {duration(left)} left"] if left else [])

    def close(self) -> None:
        """Nothing to close."""


class Table:
    """For a terminal. It redraws when the runner calls, from its own thread: jobs are forked, threads are not."""

    def __init__(self, say: Say, endpoint: str | None, console: Console) -> None:
        self.say, self.endpoint, self.console = say, endpoint, console
        self._live: Live | None = None
        self._drawn = float("-inf")
        self._scores: dict[str, float] = {}
        self._scored: set[str] = set()

    def update(self, board: Board, at_once: int, last: bool = False) -> None:
        """A new picture, once a second."""
        now = time.monotonic()
        if not last and now - self._drawn < SECONDS:
            return
        self._drawn = now
        self._score(board)
        known = {entry.job.folder: facts.running(entry) for entry in board.of("running")}
        left = facts.time_left(board, at_once, known, now)
        size = self.console.size
        # Once it is over the picture stays, and may be longer than the screen.
        height = size.height if not last else 10_000
        drawn = picture(board, at_once, known, self._scores, left, width=size.width, height=height)
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False, vertical_overflow="crop")
            self._live.start()
        if last:
            self._live.vertical_overflow = "visible"
        self._live.update(drawn, refresh=True)

    def _score(self, board: Board) -> None:
        """Each finished job is read once."""
        for entry in board.of("done"):
            if entry.job.folder not in self._scored:
                self._scored.add(entry.job.folder)
                if found := facts.score(entry.folder, self.endpoint):
                    self._scores[entry.job.folder] = found[1]

    def finished(self, entry: Entry, board: Board) -> None:
        """The table says it; why a job failed stands above it."""
        if entry.state in ("failed", "diverged") and entry.outcome:
            self.say(f"{entry.state}  {entry.job.folder}   {entry.outcome.why}")
        self._drawn = float("-inf")

    def close(self) -> None:
        """Leave the last picture."""
        if self._live is not None:
            self._live.stop()
            self._live = None
