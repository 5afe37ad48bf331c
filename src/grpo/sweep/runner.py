"""The jobs of a sweep, so many at a time, each a process of its own.

A failed job does not stop the others. What is done is not run again, what is unfinished goes on from its checkpoint.
After Ctrl-C or SIGTERM the running jobs finish their step and save, and nothing new starts; a second Ctrl-C ends all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import Any

from grpo.errors import UserError
from grpo.runs.signals import GracefulStop
from grpo.runs.status import read_status
from grpo.sweep import cache, cores, settle
from grpo.sweep.board import Board, Entry, locked
from grpo.sweep.launch import Launcher, Start, make, open_log
from grpo.sweep.live import Display, display
from grpo.sweep.manifest import Job
from grpo.sweep.outcomes import Outcome, judge, report

__all__ = ["Outcome", "Stopped", "report", "run"]

BEAT = 0.1  # seconds between looks at the running jobs
QUEUE_BEAT = 2.0  # the same for a cluster's, which lie on a network's file system
GRACE = 3.0  # seconds that jobs have after a second Ctrl-C


class Stopped(Exception):
    """Ctrl-C or SIGTERM ended the sweep early; all that ran has saved and ended."""

    def __init__(self, outcomes: Sequence[Outcome], signal: str) -> None:
        super().__init__(f"{signal}: {sum(o.state == 'done' for o in outcomes)} of {len(outcomes)} jobs are done")
        self.outcomes = list(outcomes)
        self.signal = signal
        """SIGINT or SIGTERM."""
        self.exit_code = 128 + Signals[signal].value


def run(
    jobs: Sequence[Job],
    sweep: Path,
    *,
    at_once: int | None = None,
    launcher: str | Launcher = "fork",
    resources: Mapping[str, Any] = {},
    flags: Sequence[str] = (),
    say: Callable[[str], None] = print,
    live: bool | None = None,
    endpoint: str | None = None,
    held: bool = False,
) -> list[Outcome]:
    """Run what is not done yet; the outcomes in the order of `jobs`.

    at_once     jobs at a time, at least 1; None: one per GPU, without GPUs one per core
    launcher    fork, process, submitit_local or submitit_slurm;  resources  hydra.launcher.* of the last two
    flags       what stands before the overrides of every job (--config-dir)
    live        the live table; None: on a terminal;  endpoint  the metric that stands for a finished job in it
    held        the caller has the lock of the folder (`board.locked`)

    UserError: another runner works here, or a process of an earlier one does not end. `Stopped`: see there.
    """
    if at_once is not None and at_once < 1:
        raise UserError(f"jobs   {at_once} at a time is too few; say 1 or more")
    sweep = Path(sweep)
    made = make(launcher, sweep, resources, at_once) if isinstance(launcher, str) else launcher
    with contextlib.nullcontext() if held else locked(sweep):
        number = made.queue or at_once or cores.at_once()
        runner = _Runner(Board(jobs, sweep), number, made, flags, display(say, live, endpoint))
        same_hardware = launcher != "submitit_slurm"  # nobody knows the node before the job has it
        try:
            runner.settle(siblings=same_hardware)
            signal = runner.work()
        finally:
            runner.close()
    outcomes = [runner.outcome(job) for job in jobs]
    if signal is not None:
        raise Stopped(outcomes, signal)
    return outcomes


class _Runner:
    """The loop over a board."""

    def __init__(self, board: Board, at_once: int, launcher: Launcher, flags: Sequence[str], shown: Display) -> None:
        self.board, self.at_once, self.launcher, self.flags, self.shown = board, at_once, launcher, tuple(flags), shown
        self.shares = cores.shares(at_once)
        self.beat = QUEUE_BEAT if launcher.queue else BEAT
        self.stop = GracefulStop(say=shown.say)
        self.asked = False

    def settle(self, *, siblings: bool) -> None:
        """What is done, what lies in the way, and which jobs are equal to others."""
        board, sweep = self.board, self.board.sweep
        for entry in board:
            if status := settle.complete(entry.job, entry.folder):
                state = "done" if status.status == "done" else "diverged"
                entry.finish(self._made(entry, state, status.error or "", skipped=True))
        for entry in board.of("waiting"):
            if entry.id and (running := self.launcher.adopt(entry.id)):
                self.shown.say(f"{entry.job.folder} is still job {entry.id} of the cluster")
                entry.started(running, 0)
        waiting = board.of("waiting")
        settle.wait_for([entry.job for entry in waiting], sweep, self.shown.say)
        for entry in waiting:
            settle.clear(entry.job, sweep, self.shown.say)
        known = cache.siblings(sweep) if siblings and waiting else {}
        firsts: dict[tuple[str, int], Entry] = {}
        for entry in [*board.of("done"), *board]:
            first = firsts.setdefault((entry.job.config_hash, entry.job.seed), entry)
            if entry.state != "waiting":
                continue
            if first is not entry:
                entry.twin = first
            elif source := known.get((entry.job.config_hash, entry.job.seed)):
                self._reuse(entry, source)
        board.write()

    def work(self) -> str | None:
        """Run until nothing is left; the signal that ended it early, or None."""
        board = self.board
        with self.stop:
            try:
                while board.of("waiting", "running"):
                    if self.stop.requested is None:
                        self._start()
                    elif not self.asked:
                        self._ask()
                    self._collect()
                    self.shown.update(board, self.at_once)
                    if self.stop.requested and not board.of("running"):
                        break
                    if board.of("waiting", "running"):
                        time.sleep(self.beat)
            except KeyboardInterrupt:
                self._end_at_once()
                raise
            except BaseException:  # the disk is full, say: the jobs save, and Python waits for them as it ends
                self._ask()
                raise
        return self.stop.requested

    def close(self) -> None:
        """The last picture."""
        self.shown.update(self.board, self.at_once, last=True)
        self.shown.close()

    def outcome(self, job: Job) -> Outcome:
        """Of a job that has ended, or has not been started."""
        entry = self.board.entries[job.folder]
        return entry.outcome or self._made(entry, "waiting", "not started")

    def _made(self, entry: Entry, state: Any, why: str = "", **more: Any) -> Outcome:
        return Outcome(entry.job, state, None, why, entry.log, flags=self.flags, **more)

    def _start(self) -> None:
        """As many as there are free places; a queue takes all of them."""
        taken = {entry.place for entry in self.board.of("running")}
        free = [place for place in range(self.at_once) if place not in taken]
        ready = [entry for entry in self.board.of("waiting") if self._is_ready(entry)]
        if self.launcher.queue:
            self._launch(ready, [0] * len(ready))
            return
        for entry, place in zip(ready, free, strict=False):
            self._launch([entry], [place])

    def _is_ready(self, entry: Entry) -> bool:
        """A twin waits for the first of its kind, and takes its files if they are a result."""
        first = entry.twin
        if first is None:
            return True
        if first.state in ("waiting", "running"):
            return False
        entry.twin = None
        if first.state in ("done", "diverged"):
            self._reuse(entry, first.folder)
        return entry.state == "waiting"

    def _launch(self, entries: Sequence[Entry], places: Sequence[int]) -> None:
        starts = []
        for entry, place in zip(entries, places, strict=True):
            entry.attempts += 1
            entry.before = read_status(entry.folder)
            words = (*self.flags, *entry.job.words(self.board.sweep))
            entry.behind = open_log(entry.log, words, entry.attempts)
            starts.append(Start(words, entry.log, self.shares[place]))
        if not starts:
            return
        try:
            handles = self.launcher.start(starts)
        except OSError as error:
            if self.stop.requested:  # the signal has ended the launcher too
                return
            for entry in entries:
                self._finish(entry, self._made(entry, "failed", f"could not be started: {error}"))
            return
        for entry, handle, place in zip(entries, handles, places, strict=True):
            entry.started(handle, place)
        self.board.write()

    def _collect(self) -> None:
        for entry in self.board.of("running"):
            code = entry.running.poll() if entry.running else 1
            if code is not None:
                outcome = judge(
                    entry.job,
                    entry.folder,
                    code,
                    entry.log,
                    before=entry.before,
                    behind=entry.behind,
                    stopping=self.stop.requested is not None,
                    said=entry.running.said if entry.running else "",
                    flags=self.flags,
                )
                self._finish(entry, outcome)

    def _finish(self, entry: Entry, outcome: Outcome) -> None:
        entry.finish(outcome)
        self.board.write()
        self.shown.finished(entry, self.board)

    def _reuse(self, entry: Entry, source: Path) -> None:
        if read_status(entry.folder) is not None:
            settle.set_aside(entry.folder, self.board.sweep)
        cache.copy(source, entry.folder)
        status = read_status(entry.folder)
        state = "done" if status is None or status.status == "done" else "diverged"
        self._finish(entry, self._made(entry, state, (status and status.error) or "", reused_from=source))

    def _ask(self) -> None:
        """The terminal's Ctrl-C has reached the jobs already; a second word does them no harm."""
        self.asked = True
        for entry in self.board.of("running"):
            if entry.running:
                entry.running.stop()

    def _end_at_once(self) -> None:
        end = time.monotonic() + GRACE
        while (running := self.board.of("running")) and time.monotonic() < end:
            self._collect()
            time.sleep(BEAT)
        for entry in running:
            if entry.running:
                entry.running.kill()
            entry.finish(self._made(entry, "stopped", "ended at once by a second Ctrl-C"))
        self.board.write()
