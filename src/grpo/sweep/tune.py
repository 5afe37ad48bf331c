"""Which point of the grid an arm takes: the highest mean validation accuracy over the tuning seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import Any

from grpo.config.sentences import any_of, shown
from grpo.recording.recorder import read_metrics
from grpo.runs.status import read_status
from grpo.sweep.manifest import Job


@dataclass(frozen=True)
class Tuned:
    """What the tuning runs of an arm say."""

    arm: str
    means: tuple[tuple[dict[str, Any], float], ...] = ()
    """Each point of the grid with its mean last validation accuracy, in the order of the grid."""
    missing: tuple[str, ...] = ()
    """Folders of runs that have no result."""

    @property
    def chosen(self) -> dict[str, Any] | None:
        """The best point, the first of equals; None while runs are missing."""
        if self.missing or not self.means:
            return None
        return max(self.means, key=lambda pair: pair[1])[0]

    @property
    def edges(self) -> list[str]:
        """Keys whose chosen value is the least or the greatest that was tried: the best may lie outside."""
        best, found = self.chosen, []
        for key, value in (best or {}).items():
            tried = [point[key] for point, _ in self.means]
            numbers = sorted({n for n in tried if isinstance(n, int | float) and not isinstance(n, bool)})
            if len(numbers) > 1 and value in (numbers[0], numbers[-1]):
                found.append(key)
        return found

    @property
    def sentence(self) -> str:
        """eps_0.28   optimizer.lr=0.0002 (0.0001: 0.61, 0.0002: 0.66)"""
        if self.missing:
            named = ", ".join(self.missing[:3]) + (", …" if len(self.missing) > 3 else "")
            return f"not tuned: {len(self.missing)} of its tuning runs have no result ({named})"
        tried = ", ".join(f"{_values(point)}: {mean:.3f}" for point, mean in self.means)
        words = " ".join(f"{key}={shown(value)}" for key, value in (self.chosen or {}).items())
        edge = f"; {any_of(self.edges, 'and')} at the edge of the grid, widen it" if self.edges else ""
        return f"{words} ({tried}){edge}"


def _values(point: dict[str, Any]) -> str:
    return " ".join(shown(value) for value in point.values())


def score(folder: Path, metric: str) -> float | None:
    """The last value of `metric` in a run that is done or has diverged; None for any other.

    A run that its own numbers ended counts with its last score: failing is a result.
    """
    status = read_status(folder)
    if status is None or not status.is_result:
        return None
    values = [row[metric] for row in read_metrics(folder).values() if isfinite(row.get(metric, nan))]
    return float(values[-1]) if values else None


def tuned(arm: str, jobs: Sequence[Job], sweep: Path, metric: str) -> Tuned:
    """What the tuning jobs of an arm came to. metric: validation/avg@<k>, k = eval.samples."""
    points: list[tuple[dict[str, Any], list[float]]] = []
    missing = []
    for job in jobs:
        value = score(sweep / job.folder, metric)
        if value is None:
            missing.append(job.folder)
        known = next((values for point, values in points if point == job.point), None)
        if known is None:
            points.append((dict(job.point), known := []))
        known.append(0.0 if value is None else value)
    return Tuned(arm, tuple((point, fmean(values)) for point, values in points), tuple(missing))
