"""What a job came to, read from its run folder and its log, and the table of what failed."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

from grpo.runs.status import Status, read_status
from grpo.sweep.manifest import Job

JobState = Literal["waiting", "running", "done", "failed", "diverged", "stopped"]
SHOWN = 12  # failures told in full
TAIL = 1 << 16  # bytes of a log that are searched for its last line


@dataclass(frozen=True)
class Outcome:
    """How a job ended, or that it never started (waiting)."""

    job: Job
    state: JobState
    code: int | None
    """Exit code; −n: killed by signal n; None: not started in this call."""
    why: str
    """The sentence that ended it; empty for done."""
    log: Path
    skipped: bool = False
    """It was done before this call."""
    reused_from: Path | None = None
    """The equal run whose files it has."""
    flags: tuple[str, ...] = ()
    """What stands before the overrides on its command line (--config-dir)."""

    @property
    def alone(self) -> str:
        """The command that runs this job without the sweep."""
        return f"python -m grpo {shlex.join([*self.flags, *self.job.overrides])}"


def judge(
    job: Job,
    folder: Path,
    code: int,
    log: Path,
    *,
    before: Status | None = None,
    behind: int = 0,
    stopping: bool = False,
    said: str = "",
    flags: Sequence[str] = (),
) -> Outcome:
    """The outcome of a job that has ended with `code`.

    before    the run's status when the job was started: an old status says nothing about this attempt
    behind    where this attempt begins in the log, bytes;  stopping  the runner had asked it to end
    said      what the launcher knows of its end
    """
    status = read_status(folder)
    fresh = status if status is not None and status != before else None
    state, why = _verdict(status, fresh, code, stopping)
    if state == "failed" and not why:
        why = said or _failure(code, last_line(log, behind))
    return Outcome(job, state, code, " ".join(why.split("\n")), log, flags=tuple(flags))


def _verdict(status: Status | None, fresh: Status | None, code: int, stopping: bool) -> tuple[JobState, str]:
    if status is not None and status.status == "done":
        return "done", ""
    if fresh is not None and fresh.status == "failed":
        return ("diverged" if fresh.kind == "diverged" else "failed"), fresh.error or ""
    if stopping:
        return "stopped", "stopped with the sweep"
    if fresh is not None and fresh.status == "stopped":
        return "stopped", f"stopped by {fresh.reason or 'a signal'}"
    return "failed", ""


def _failure(code: int, last: str) -> str:
    if code < 0:
        name = _signal(-code)
        guess = " (out of memory?)" if name == "SIGKILL" else ""
        return f"killed by {name}{guess}" + (f"; its last line: {last}" if last else "")
    if code == 0:
        return "ended without a finished run" + (f"; its last line: {last}" if last else "")
    return last or f"exit code {code} without a word"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_line(log: Path, behind: int = 0) -> str:
    """The last line with something in it, looked for from byte `behind` on."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(behind, size - TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def report(outcomes: Sequence[Outcome], stream: TextIO | None = None) -> int:
    """Say what failed, why, where its log is, and what runs it alone; 0 if nothing failed, else 1.

    A diverged run is a result: it is told, but is no failure.
    """
    lines: list[str] = []
    diverged = [o for o in outcomes if o.state == "diverged"]
    for outcome in diverged[:SHOWN]:
        lines.append(f"  diverged  {outcome.job.folder}   {outcome.why}")
    if len(diverged) > SHOWN:
        lines.append(f"  diverged  {len(diverged) - SHOWN} more")
    bad = [o for o in outcomes if o.state in ("failed", "stopped", "waiting")]
    if bad:
        lines.append(_headline(bad, len(outcomes)))
        for outcome in [o for o in bad if o.state == "failed"][:SHOWN]:
            lines += [f"  {outcome.job.folder}   {outcome.why}", f"      log    {outcome.log}"]
            lines += [f"      alone  {outcome.alone}"]
        failed = sum(o.state == "failed" for o in bad)
        if failed > SHOWN:
            lines.append(f"  and {failed - SHOWN} more; jobs.json in the sweep's folder has all of them")
        lines.append("the same command again runs only what is missing")
    else:
        lines.insert(0, _success(outcomes))
    print("\n".join(lines), file=stream or (sys.stderr if bad else sys.stdout), flush=True)
    return 1 if bad else 0


def _headline(bad: Sequence[Outcome], total: int) -> str:
    """of 12 jobs 2 failed, 1 was stopped, 3 were not started"""
    counts = {state: sum(o.state == state for o in bad) for state in ("failed", "stopped", "waiting")}
    words = {"failed": "failed", "stopped": "{} stopped", "waiting": "{} not started"}
    said = [f"{n} {words[state].format('was' if n == 1 else 'were')}" for state, n in counts.items() if n]
    return f"of {total} job{'s' * (total != 1)} {', '.join(said)}{':' * bool(counts['failed'])}"


def _success(outcomes: Sequence[Outcome]) -> str:
    before = sum(o.skipped for o in outcomes)
    copied = sum(o.reused_from is not None for o in outcomes)
    notes = [f"{before} of them before"] if before else []
    notes += [f"{copied} copied from equal runs"] if copied else []
    jobs = "the only job is" if len(outcomes) == 1 else f"all {len(outcomes)} jobs are"
    return f"{jobs} done" + (f" ({', '.join(notes)})" if notes else "")
