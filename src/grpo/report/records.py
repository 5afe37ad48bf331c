"""What a sweep's folders say, read once: runs, scores, settings. Nothing here judges; `findings` does.

    load(<sweep folder>)            the manifest's jobs and nothing else that may lie there
    load_runs([<folder>, …])        plain run folders: arms by name, blocks by seed, always exploratory

Numbers that are null or not finite are left out while reading, so no later sum, mean or picture meets one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from grpo.sweep.manifest import Manifest

Rows = dict[int, dict[str, float]]
DIVERGED = "updates in a row were not finite"


@dataclass(frozen=True)
class RunRecord:
    """One run, as its folder tells it."""

    arm: str
    seed: int
    folder: Path
    state: str = "waiting"
    """waiting | running | done | failed | stopped | foreign (the folder holds another configuration)"""
    kind: str | None = None
    """"diverged" where the run ended by itself in numbers that were not finite: that counts as a result."""
    step: int = 0
    error: str | None = None
    score: float | None = None
    score_from: str = ""
    """The metric that `score` is: the endpoint; of a diverged run its last validation metric."""
    rows: Rows = field(default_factory=dict, repr=False)
    """Step → metric → number, finite ones only."""
    test: Mapping[str, tuple[bool, ...]] = field(default_factory=dict, repr=False)
    """Question → right or not, of each of its k sampled completions at the end."""
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    environment: Mapping[str, Any] = field(default_factory=dict, repr=False)
    algorithm: str = ""
    point: Mapping[str, Any] = field(default_factory=dict)
    """Key → value of the tuning grid."""
    overrides: tuple[str, ...] = ()

    @property
    def counted(self) -> bool:
        """True if the run is a result: done, or diverged by itself."""
        return self.score is not None and (self.state == "done" or self.kind == "diverged")

    def last(self, name: str) -> float | None:
        """The metric where it was recorded last."""
        return next((row[name] for row in reversed(self.rows.values()) if name in row), None)

    def mean(self, name: str) -> float | None:
        """Mean over all steps that recorded the metric."""
        values = [row[name] for row in self.rows.values() if name in row]
        return fmean(values) if values else None

    def find(self, pattern: str) -> str | None:
        """The metric that fits `pattern` (a regular expression), recorded most often and with the largest k."""
        fitting = [name for name in self.counts if re.fullmatch(pattern, name)]
        return max(fitting, key=lambda name: (self.counts[name], k_of(name)), default=None)

    @cached_property
    def counts(self) -> Counter[str]:
        """Metric → in how many steps it was recorded."""
        return Counter(name for row in self.rows.values() for name in row)

    def series(self, name: str, axis: str = "step") -> tuple[list[float], list[float]]:
        """x and y of a metric; axis "step" or a cumulative metric (0 before its first value)."""
        xs, ys, x = [], [], 0.0
        for step, row in self.rows.items():
            x = float(step) if axis == "step" else row.get(axis, x)
            if name in row:
                xs.append(x)
                ys.append(row[name])
        return xs, ys

    @cached_property
    def untrained(self) -> dict[str, float]:
        """The evaluation of step 0."""
        return {name: value for name, value in self.rows.get(0, {}).items() if name.startswith("validation/")}


def k_of(name: str) -> int:
    """8 of test/avg@8; 0 without."""
    return int((re.findall(r"@(\d+)", name) or ["0"])[0])


def usual(names: Sequence[str]) -> str | None:
    """The name that occurs most often, of equals the one with the largest k; None of none."""
    return max(dict.fromkeys(names), key=lambda name: (names.count(name), k_of(name)), default=None)


@dataclass(frozen=True)
class SweepRecord:
    """A sweep, or a handful of runs that are looked at together."""

    folder: Path
    title: str
    manifest: Manifest | None
    question: Mapping[str, Any]
    endpoint: str
    baseline: str
    seeds: tuple[int, ...]
    """Blocks that were declared (without a manifest: that were found)."""
    arms: Mapping[str, tuple[RunRecord, ...]]
    """Arm → its final runs, one per declared seed; what has not begun is there too, as waiting."""
    tuning: tuple[RunRecord, ...] = ()
    chosen: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    """Arm → the arm that it equals."""
    sources: tuple[Path, ...] = ()
    """The folders as they were given."""
    notes: tuple[str, ...] = ()
    """What the reader should know about how the records were read."""

    @property
    def runs(self) -> list[RunRecord]:
        """All final runs."""
        return [run for runs in self.arms.values() for run in runs]

    @property
    def started(self) -> list[RunRecord]:
        """Final runs that recorded something."""
        return [run for run in self.runs if run.rows]

    @property
    def missing(self) -> list[RunRecord]:
        """Final runs that are no result yet."""
        return [run for run in self.runs if not run.counted]

    @property
    def claim(self) -> str | None:
        """The sentence that the sweep asks about."""
        claim = self.question.get("claim")
        return (claim.get("text") if isinstance(claim, Mapping) else claim) or None

    @property
    def source(self) -> str | None:
        """Where the claim comes from."""
        claim = self.question.get("claim")
        return claim.get("source") if isinstance(claim, Mapping) else None

    @property
    def budget(self) -> int | None:
        """Generated tokens at which the arms are compared."""
        return (self.question.get("at") or {}).get("generated_tokens")

    @property
    def margin(self) -> float | None:
        """The smallest difference that matters."""
        return self.question.get("margin")

    @cached_property
    def metrics(self) -> dict[str, tuple[int, float | None]]:
        """Metric → how often it was recorded in the final runs, and its value if that was always the same."""
        found: dict[str, tuple[int, float | None]] = {}
        for run in self.started:
            for row in run.rows.values():
                for name, value in row.items():
                    count, constant = found.get(name, (0, value))
                    found[name] = (count + 1, constant if constant == value else None)
        return found

    def scores(self) -> dict[str, dict[int, float]]:
        """Arm → seed → endpoint, results only."""
        return {
            arm: {run.seed: run.score for run in runs if run.counted and run.score is not None}
            for arm, runs in self.arms.items()
        }

    def distinct_scores(self) -> dict[str, dict[int, float]]:
        """The same without the arms that are copies of another; the baseline stays."""
        return {arm: own for arm, own in self.scores().items() if arm == self.baseline or arm not in self.same}

    def values(self, arm: str, name: str) -> list[float]:
        """The last value of a metric, of each of the arm's results that has it."""
        found = [run.last(name) for run in self.arms[arm] if run.counted]
        return [value for value in found if value is not None]

    def example(self, arm: str) -> RunRecord | None:
        """The arm's first run whose configuration is known."""
        return next((run for run in self.arms[arm] if run.config), None)

    @property
    def command(self) -> tuple[str, ...]:
        """The words that continue the sweep; empty without a manifest."""
        return self.manifest.command if self.manifest else ()
