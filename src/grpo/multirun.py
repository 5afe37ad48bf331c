"""-m: each job is a process of its own, one after the other; all of them run, the failed ones are listed at the end.

A process of its own, because one job's memory, random state, W&B run or death must not reach into the next, and
because Lightning starts its ranks by running the command line again, which must then be the job's and not the sweep's.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.config.overrides import as_typed, expand
from grpo.errors import ConfigError


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    arguments: tuple[str, ...]
    code: int  # exit status; negative: killed by that signal
    why: str  # the last line it wrote to stderr

    @property
    def sentence(self) -> str:
        """exit 1: what it said."""
        how = f"killed by {signal.Signals(-self.code).name}" if self.code < 0 else f"exit {self.code}"
        return f"{how}: {self.why}" if self.why else how


Launch = Callable[[list[str]], Outcome]


def run(arguments: Sequence[str], composer: Composer, flags: Sequence[str] = (), launch: Launch | None = None) -> int:
    """Run all jobs; 0 if every one of them succeeded. Jobs with mistakes in their configuration are not started."""
    jobs, mistakes = expand(arguments, composer)
    if mistakes:
        raise ConfigError(mistakes)
    refused = {tuple(job): error for job in jobs if (error := _refused(job, composer))}
    if len(refused) == len(jobs):
        raise ConfigError([m for error in refused.values() for m in error.mistakes])
    start = launch or (lambda job: start_process(job, flags))
    outcomes: list[Outcome] = []
    for number, job in enumerate(jobs, start=1):
        print(f"\njob {number}/{len(jobs)}  {as_typed(job)}", flush=True)
        if error := refused.get(tuple(job)):
            print(f"  not started: {error}", file=sys.stderr, flush=True)
            outcomes.append(
                Outcome(tuple(job), error.exit_code, "; ".join(f"{m.key} {m.sentence}" for m in error.mistakes))
            )
            continue
        outcomes.append(start(job))
        if outcomes[-1].code in (130, 143, -signal.SIGINT, -signal.SIGTERM):
            print(f"stopped; {len(jobs) - number} jobs were not started", file=sys.stderr)
            report(outcomes)
            return 130
    return report(outcomes)


def _refused(job: Sequence[str], composer: Composer) -> ConfigError | None:
    try:
        load(job, composer)
    except ConfigError as error:
        return error
    return None


def report(outcomes: Sequence[Outcome]) -> int:
    """The failed jobs with their overrides and why; returns the exit code."""
    failed = [o for o in outcomes if o.code != 0]
    if not failed:
        print(f"\nall {len(outcomes)} jobs are done")
        return 0
    lines = [f"  {as_typed(o.arguments)}\n      {o.sentence}" for o in failed]
    print("\n".join([f"\n{len(failed)} of {len(outcomes)} jobs failed:", *lines]), file=sys.stderr)
    return 1


def start_process(job: Sequence[str], flags: Sequence[str] = ()) -> Outcome:
    """One job: the same program without -m. Its stderr passes through; the last line of it is kept."""
    command = [sys.executable, "-m", "grpo", *flags, *job]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    last: deque[str] = deque(maxlen=1)
    reader = threading.Thread(target=_pass_through, args=(process, last), daemon=True)
    reader.start()
    previous = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        code = _wait(process)
    finally:
        signal.signal(signal.SIGTERM, previous)
    reader.join(timeout=5)
    return Outcome(tuple(job), code, last[0] if last and code != 0 else "")


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Ctrl-C reaches the job too, which finishes its step and saves; wait for that."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        return process.wait() or 130


def _pass_through(process: subprocess.Popen[bytes], last: deque[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        sys.stderr.write(text := line.decode(errors="replace"))
        sys.stderr.flush()
        if text.strip():
            last.append(text.strip())
