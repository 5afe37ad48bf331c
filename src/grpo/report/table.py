"""One row per arm: what page, Markdown, LaTeX and the screen all print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from grpo.report.findings import Failures, Findings
from grpo.report.formats import mean, setting, spread
from grpo.report.records import RunRecord, SweepRecord, usual


@dataclass(frozen=True)
class Seed:
    """One run's number."""

    seed: int
    score: float | None
    state: str
    """done | diverged | running | … as a reader calls it."""
    score_from: str = ""


@dataclass(frozen=True)
class Row:
    """An arm. Means are over its results; None where nothing was recorded."""

    arm: str
    seeds: tuple[Seed, ...]
    mean: float | None
    sd: float | None
    greedy: float | None
    passes: float | None
    majority: float | None
    length: float | None
    tokens: float | None
    steps: float | None
    seconds: float | None
    dead: float | None
    cut: float | None
    failures: Failures
    algorithm: str
    overrides: tuple[str, ...]
    settings: str
    """published | chapter | … what the algorithm's file says of its numbers."""
    tuned: str
    """The chosen grid point, or that there was no tuning."""


def rows(found: Findings) -> tuple[Row, ...]:
    """All arms, the baseline where the question has it."""
    return tuple(_row(found, arm, runs) for arm, runs in found.sweep.arms.items())


def _row(found: Findings, arm: str, runs: tuple[RunRecord, ...]) -> Row:
    sweep = found.sweep
    results = [run for run in runs if run.counted]
    scores = [run.score for run in results if run.score is not None]
    example = sweep.example(arm)
    split = sweep.endpoint.split("/")[0]
    return Row(
        arm=arm,
        seeds=tuple(Seed(run.seed, run.score if run.counted else None, state(run), run.score_from) for run in runs),
        mean=mean(scores),
        sd=spread(scores),
        greedy=_last(results, rf"{split}/greedy"),
        passes=_last(results, rf"{split}/pass@\d+"),
        majority=_last(results, rf"{split}/maj@\d+"),
        length=_last(results, rf"{split}/length") or _last(results, "length/mean"),
        tokens=_last(results, "tokens/generated"),
        steps=mean([float(run.step) for run in results]),
        seconds=_last(results, "time/elapsed"),
        dead=_over_run(results, "groups/zero_std"),
        cut=_last(results, rf"{split}/truncated"),
        failures=found.failures[arm],
        algorithm=example.algorithm if example else "",
        overrides=_overrides(sweep, arm),
        settings=str(example.config.get("source") or "–") if example else "–",
        tuned=_tuned(sweep, arm),
    )


def state(run: RunRecord) -> str:
    """As a reader calls it: a diverged run is not "failed", which would mean that it runs again."""
    return "diverged" if run.kind == "diverged" else run.state


def _last(runs: Sequence[RunRecord], pattern: str) -> float | None:
    """Mean over runs of the last value of the metric that fits, with the largest k."""
    names = [name for run in runs if (name := run.find(pattern))]
    if (name := usual(names)) is None:
        return None
    return mean([value for run in runs if (value := run.last(name)) is not None])


def _over_run(runs: Sequence[RunRecord], name: str) -> float | None:
    return mean([value for run in runs if (value := run.mean(name)) is not None])


def _overrides(sweep: SweepRecord, arm: str) -> tuple[str, ...]:
    if sweep.manifest is None:
        return ()
    return next((each.overrides for each in sweep.manifest.arms if each.name == arm), ())


def _tuned(sweep: SweepRecord, arm: str) -> str:
    if not sweep.tuning:
        return "not tuned"
    chosen: Mapping[str, object] = sweep.chosen.get(arm, {})
    trials = sum(run.arm == arm for run in sweep.tuning)
    if not chosen:
        return f"being tuned ({trials} trials)" if trials else "not tuned"
    return ", ".join(f"{key}={setting(value)}" for key, value in chosen.items()) + f" (of {trials} trials)"


def metric_names(sweep: SweepRecord) -> dict[str, str]:
    """pass and maj with their k, for the heads of columns."""
    split = sweep.endpoint.split("/")[0]
    names = {}
    for key, pattern in (("passes", rf"{split}/pass@\d+"), ("majority", rf"{split}/maj@\d+")):
        found = [name for run in sweep.started if (name := run.find(pattern))]
        names[key] = re.sub(r"^\w+/", "", usual(found) or key)
    return names
