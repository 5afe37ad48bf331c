"""Accumulation over a step, phase timers, and peak memory.

A mean is kept as (total, count) until the step ends, so how the step was cut into micro-batches cannot change it.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    Number = float | Tensor


class Meters:
    """Totals of one step by metric name.

    Values may be floats or scalar tensors; tensors stay where they are until `compute`, so that adding one does not
    wait for a GPU.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[Number]] = {}
        self._means: dict[str, list[tuple[Number, Number]]] = {}
        self._highs: dict[str, list[Number]] = {}
        self._lows: dict[str, list[Number]] = {}

    def add_sum(self, name: str, value: Number) -> None:
        """Σ value."""
        self._sums.setdefault(name, []).append(_plain(value))

    def add_mean(self, name: str, total: Number, count: Number = 1) -> None:
        """Σ total / Σ count: give the sum over tokens (or sequences) and their number, never a mean."""
        self._means.setdefault(name, []).append((_plain(total), _plain(count)))

    def add_max(self, name: str, value: Number) -> None:
        """The largest value; NaN if one is NaN."""
        self._highs.setdefault(name, []).append(_plain(value))

    def add_min(self, name: str, value: Number) -> None:
        """The smallest value; NaN if one is NaN."""
        self._lows.setdefault(name, []).append(_plain(value))

    def merge(self, other: Meters) -> None:
        """Add everything that another one (a rank, a minibatch) has seen."""
        for mine, theirs in (
            (self._sums, other._sums),
            (self._means, other._means),
            (self._highs, other._highs),
            (self._lows, other._lows),
        ):
            for name, values in theirs.items():
                mine.setdefault(name, []).extend(values)  # pyright: ignore[reportArgumentType]

    def compute(self) -> dict[str, float]:
        """Plain floats. A mean over nothing is NaN (recorded as null), because 0 would be a measurement."""
        result = {name: _sum([float(v) for v in values]) for name, values in self._sums.items()}
        for name, pairs in self._means.items():
            count = _sum([float(c) for _, c in pairs])
            result[name] = _sum([float(t) for t, _ in pairs]) / count if count else math.nan
        result |= {name: _extreme(max, values) for name, values in self._highs.items()}
        result |= {name: _extreme(min, values) for name, values in self._lows.items()}
        return result


def _plain(value: Number) -> Number:
    """A tensor without its graph, copied: a view of a buffer would change under us."""
    return value if isinstance(value, (int, float)) else value.detach().clone()


def _sum(terms: list[float]) -> float:
    """math.fsum, exact whatever the order, but inf − inf is NaN instead of an error."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):
        return sum(terms)


def _extreme(choose: Callable[[list[float]], float], values: list[Number]) -> float:
    """max or min, with NaN winning (Python's own would depend on the order)."""
    numbers = [float(v) for v in values]
    return math.nan if any(map(math.isnan, numbers)) else choose(numbers)


class Timer:
    """Seconds per phase of a step: `with timer("rollout"): …`.

    Phases exclude each other: one inside another stops the outer clock, so the parts never add up to more than the
    step. "step" is the whole and keeps running. On a GPU each edge waits for the device, or the time of a kernel would
    be booked on whoever waits for it next.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._since = 0.0

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Book the time inside the block on `phase`."""
        self._book()
        whole = self._since if phase == "step" else None
        if whole is None:
            self._open.append(phase)
        try:
            yield
        finally:
            self._book()
            if whole is None:
                self._open.pop()
            else:
                self._seconds["step"] = self._seconds.get("step", 0.0) + self._since - whole

    def _book(self) -> None:
        """Give the time since the last edge to the innermost open phase."""
        _synchronize()
        now = self._clock()
        if self._open:
            phase = self._open[-1]
            self._seconds[phase] = self._seconds.get(phase, 0.0) + now - self._since
        self._since = now

    def seconds(self, phase: str) -> float:
        """Seconds of a phase so far; 0 if it never ran."""
        return self._seconds.get(phase, 0.0)

    def compute(self) -> dict[str, float]:
        """{"time/<phase>": seconds} since the last `reset`."""
        return {f"time/{phase}": seconds for phase, seconds in self._seconds.items()}

    def reset(self) -> None:
        """Forget the finished phases, for the next step."""
        self._seconds = {}


def speeds(generated: float, trained: float, timer: Timer) -> dict[str, float]:
    """speed/…: tokens of this step over the seconds of the phase that made or used them, if it ran."""
    pairs = {"generated": (generated, timer.seconds("rollout")), "trained": (trained, timer.seconds("update"))}
    return {f"speed/{name}_tokens_per_s": n / s for name, (n, s) in pairs.items() if s > 0}


def _cuda():
    torch = sys.modules.get("torch")  # never import torch for this
    return torch.cuda if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized() else None


def _synchronize() -> None:
    if cuda := _cuda():
        cuda.synchronize()


def reset_peak_memory() -> None:
    """Start of a run: what an earlier run in this process allocated is not this run's peak."""
    if cuda := _cuda():
        cuda.reset_peak_memory_stats()


def peak_memory() -> float:
    """memory/peak in GB (10⁹ bytes): GPU, most memory allocated; CPU, the process's largest resident set.

    NaN where the system does not tell (Windows).
    """
    if cuda := _cuda():
        return cuda.max_memory_allocated() / 1e9
    try:
        import resource
    except ImportError:
        return math.nan
    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9
