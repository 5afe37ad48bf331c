"""Phases one after another, each guarded by itself: a failing one is recorded with its error, and the others go on."""

from __future__ import annotations

import json
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.common import REPOSITORY

Numbers = dict[str, Any]


class Failed(Exception):
    """A phase measured something and it is not as it must be; `numbers` are what it measured."""

    def __init__(self, reason: str, numbers: Numbers) -> None:
        super().__init__(reason)
        self.numbers = numbers


class Skipped(Exception):
    """A phase needs something that this machine does not have."""


@dataclass(frozen=True)
class Context:
    """Where and how large: `device` is cuda or cpu, `work` a folder for models and runs, `deadline` of the clock."""

    device: str
    small: bool
    work: Path
    deadline: float

    def left(self) -> float:
        """Seconds that may still be spent."""
        return self.deadline - time.monotonic()


@dataclass
class Result:
    """What became of a phase: ok | failed | skipped; seconds it took; its numbers; the reason if it is not ok."""

    name: str
    status: str
    seconds: float
    numbers: Numbers = field(default_factory=dict)
    reason: str = ""
    trace: str = ""


def guarded(name: str, phase: Callable[[Context], Numbers], context: Context) -> Result:
    """Run one phase within the time that is left; whatever it raises becomes its result."""
    began = time.monotonic()

    def result(status: str, numbers: Numbers, error: BaseException | None = None) -> Result:
        trace = ""
        if error is not None and not isinstance(error, Failed | Skipped):
            trace = impersonal("".join(traceback.format_exception(error))[-2000:])
        reason = "" if error is None else impersonal(" ".join(f"{error}".split())) or type(error).__name__
        return Result(name, status, round(time.monotonic() - began, 1), numbers, reason[:500], trace)

    if context.left() < 1:
        return result("failed", {}, Failed("no time was left for it", {}))
    try:
        with alarm(context.left()):
            return result("ok", phase(context))
    except Skipped as error:
        return result("skipped", {}, error)
    except Failed as error:
        return result("failed", error.numbers, error)
    except Exception as error:  # the whole point: CUDA, vLLM and the compiler fail in their own ways
        return result("failed", {}, error)


def impersonal(text: str) -> str:
    """Without the folders of this machine: results are kept and shown."""
    for folder, name in ((sys.prefix, "$VIRTUAL_ENV"), (str(REPOSITORY), "."), (str(Path.home()), "~")):
        text = text.replace(folder, name) if len(folder) > 1 else text  # the home of some containers is /
    return text


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """TimeoutError after so many seconds, where the platform has alarms."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeoutError(f"it was not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def require(numbers: Numbers, *rules: tuple[bool, str]) -> Numbers:
    """The numbers, or `Failed` with every rule that does not hold."""
    broken = [reason for holds, reason in rules if not holds]
    if broken:
        raise Failed("; ".join(broken), numbers)
    return numbers


def save(file: Path, head: Numbers, results: Sequence[Result]) -> None:
    """JSON, written anew after each phase: also what ends in a crash leaves what it measured."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [{k: v for k, v in asdict(result).items() if v != "" and v != {}} for result in results]
    file.write_text(json.dumps({**head, "phases": rows}, indent=1) + "\n", encoding="utf-8")
