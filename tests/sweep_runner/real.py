"""Real jobs of a second, some of which meet a signal in the middle; and a sweep of them as a program to be killed.

python -m tests.sweep_runner.real FOLDER MARKER SIGNAL
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.config.hashing import config_hash
from grpo.sweep import runner
from grpo.sweep.manifest import Job
from tests.helpers import SMALL, digits

PLACE = "reward.functions.own._target_"
calls = 0


@lru_cache
def _composer() -> Composer:
    return Composer()


def job(arm: str, seed: int = 0, *overrides: str) -> Job:
    """A job of three steps; by default its reward is helpers.digits."""
    said = {word.split("=")[0] for word in overrides}
    words = [word for word in SMALL if word.split("=")[0] not in said]
    words += ["max_steps=3", "checkpoint.export=false", "checkpoint.every=1", *overrides, f"seed={seed}"]
    _, resolved = load(words, _composer())
    return Job(arm, "final", seed, f"{arm}/seed={seed}", tuple(words), config_hash(resolved))


def dying(completions: Sequence[str], **columns: Any) -> list[float]:
    """Ends its process as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def messenger(completions: Sequence[str], **columns: Any) -> list[float]:
    """helpers.digits; in step 2 the first process that comes here sends $SIGNAL to the runner, and goes on when it has
    heard of that itself."""
    global calls
    calls += 1
    marker = Path(os.environ["MARKER"])
    if calls == 4 and not marker.exists():  # the untrained evaluation scores twice
        marker.touch()
        os.kill(int(os.environ["RUNNER"]), getattr(signal, os.environ["SIGNAL"]))
        handler: Any = signal.getsignal(signal.SIGTERM)
        end = time.monotonic() + 60
        while handler.__self__.requested is None and time.monotonic() < end:
            time.sleep(0.02)
    return digits(completions, **columns)


def interrupted() -> list[Job]:
    """The jobs of the program."""
    return [job("a", seed, f"{PLACE}=tests.sweep_runner.real.messenger") for seed in range(2)]


def main(folder: str, marker: str, number: str) -> int:
    """The program: 0 done, 1 failed, 143 stopped."""
    os.environ |= {"RUNNER": str(os.getpid()), "MARKER": marker, "SIGNAL": number}
    try:
        return runner.report(runner.run(interrupted(), Path(folder), at_once=1))
    except runner.Stopped as stopped:
        return stopped.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
