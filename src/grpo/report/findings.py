"""Records → what they show: the comparison, whether the mechanism acted, failures, variance, what stands in the way.

The statistics are `report.compare` and `report.variance`; here it is only decided what goes into them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from grpo.config.sentences import counted
from grpo.report import differing
from grpo.report.compare import Comparison, compare
from grpo.report.failures import FailureShare, failure_shares
from grpo.report.formats import listed, number
from grpo.report.records import RunRecord, SweepRecord
from grpo.report.stein import MOST, second_stage
from grpo.report.variance import Split, variance_split
from grpo.sweep.question import Condition

COLLAPSED = 0.5
"""A finished run collapsed if its score is below this share of the untrained policy's."""


@dataclass(frozen=True)
class Acted:
    """The `active` condition, measured."""

    condition: str
    metric: str
    values: Mapping[str, float | None]
    """Arm → mean over the run, mean over blocks; None where it was not recorded."""
    verdicts: Mapping[str, bool | None]
    """Arm → did the mechanism act, in it or in the baseline."""

    def sentence(self, baseline: str) -> str:
        """The measured values, in words."""
        values = listed([f"{arm} {number(value)}" for arm, value in self.values.items()], at_most=20)
        idle = [arm for arm, verdict in self.verdicts.items() if verdict is False]
        unknown = [arm for arm, verdict in self.verdicts.items() if verdict is None]
        words = f"{self.metric}, mean over the run and over blocks: {values}; asked for: {self.condition}"
        if idle:
            words += f"; it did not act in {listed(idle)} nor in {baseline}"
        return words + (f"; not recorded in {listed(unknown)}" if unknown else "")


@dataclass(frozen=True)
class Failures:
    """The second endpoint of an arm."""

    counted: int
    diverged: int
    collapsed: int

    @property
    def failed(self) -> int:
        """Diverged and collapsed runs."""
        return self.diverged + self.collapsed

    @property
    def words(self) -> str:
        """8/10 healthy, 1 diverged, 1 collapsed"""
        parts = [f"{self.counted - self.failed}/{self.counted} healthy"]
        parts += [f"{n} {word}" for n, word in ((self.diverged, "diverged"), (self.collapsed, "collapsed")) if n]
        return ", ".join(parts) if self.counted else "no result yet"


@dataclass(frozen=True)
class Findings:
    """Everything that the pages say beyond the raw records."""

    sweep: SweepRecord
    comparison: Comparison
    acted: Acted | None
    failures: Mapping[str, Failures]
    failure_shares: tuple[FailureShare, ...]
    """The second endpoint with its intervals, in the order of the arms."""
    split: Split | None
    split_note: str
    """Whose split it is, or why there is none."""
    missing: tuple[str, ...]
    conditions: tuple[differing.Condition, ...]
    settings: tuple[differing.Setting, ...]
    notes: tuple[str, ...]


def findings(sweep: SweepRecord) -> Findings:
    """Judge a record."""
    acted = _acted(sweep)
    conditions = differing.conditions(sweep)
    split, split_note = _split(sweep)
    first_stage = _first_stage(sweep)
    comparison = compare(
        sweep.scores(),
        sweep.baseline,
        margin=sweep.margin,
        planned=len(sweep.seeds),
        interim=_interim(sweep) or _second_stage(sweep, first_stage),
        active=acted.verdicts if acted else {},
        same=sweep.same,
        exploratory=_exploratory(sweep, conditions),
        first_stage=first_stage,
    )
    judged = {arm: {run.seed: _failed(run) for run in runs if run.counted} for arm, runs in sweep.arms.items()}
    return Findings(
        sweep=sweep,
        comparison=comparison,
        acted=acted,
        failures={arm: _failures(runs) for arm, runs in sweep.arms.items()},
        failure_shares=failure_shares(judged, sweep.baseline),
        split=split,
        split_note=split_note,
        missing=tuple(_missing(run) for run in sweep.missing),
        conditions=conditions,
        settings=differing.settings(sweep),
        notes=_notes(sweep),
    )


def _interim(sweep: SweepRecord) -> str | None:
    """Why there is no verdict yet."""
    missing = len(sweep.missing)
    if missing:
        return f"{counted(missing, 'run')} of {len(sweep.runs)} missing"
    declared = sweep.manifest.declared if sweep.manifest else ()
    counts = [len(entry.get("seeds") or ()) for entry in declared]
    if len(declared) > 1 and sweep.question.get("seeds") != "auto":
        changed = "enlarged" if counts[-1] > counts[0] else "its seeds were changed"
        return f"{changed} from {counts[0]} to {counts[-1]} blocks after it had begun"
    return None


def _first_stage(sweep: SweepRecord) -> tuple[int, ...]:
    """The blocks of Stein's first stage, where the number of seeds was left to it."""
    if sweep.question.get("seeds") != "auto":
        return ()
    from grpo.sweep.question import FIRST_STAGE

    return FIRST_STAGE


def _second_stage(sweep: SweepRecord, first: tuple[int, ...]) -> str | None:
    """Interim where the first stage asks for more blocks than were declared."""
    if not first or not sweep.margin:
        return None
    needed = second_stage(sweep.distinct_scores(), sweep.baseline, first, sweep.margin)
    if needed is None or min(needed, MOST) <= len(sweep.seeds):
        return None
    return f"the second stage needs {min(needed, MOST)} blocks"


def _exploratory(sweep: SweepRecord, conditions: tuple[differing.Condition, ...]) -> str | None:
    """Why there is no verdict at all."""
    apart = [condition.what for condition in conditions if condition.between_arms]
    if apart:
        return f"the arms ran with different {listed(apart)}, so they are not compared"
    if sweep.manifest is None:
        return "runs without a question that was written down before"
    if sweep.manifest.kind == "grid":
        return "a grid without a question that was written down before"
    if sweep.question.get("profile") == "quick":
        return "profile=quick: few seeds, no tuning"
    if sweep.question.get("endpoint") not in (None, sweep.endpoint):
        return f"{sweep.question['endpoint']} was not recorded"
    return None


def _acted(sweep: SweepRecord) -> Acted | None:
    asked = sweep.question.get("active")
    if not asked:
        return None
    condition = Condition.of(asked)
    values = {arm: _over_blocks(runs, condition.metric) for arm, runs in sweep.arms.items()}
    base = values.get(sweep.baseline)

    def verdict(value: float | None) -> bool | None:
        known = [v for v in (value, base) if v is not None]
        if any(map(condition.holds, known)):
            return True
        return None if value is None or base is None else False

    others = {arm: verdict(value) for arm, value in values.items() if arm != sweep.baseline}
    return Acted(asked.strip(), condition.metric, values, others)


def _over_blocks(runs: tuple[RunRecord, ...], metric: str) -> float | None:
    means = [mean for run in runs if run.counted and (mean := run.mean(metric)) is not None]
    return fmean(means) if means else None


def _failed(run: RunRecord) -> bool:
    return run.kind == "diverged" or _collapsed(run)


def _failures(runs: tuple[RunRecord, ...]) -> Failures:
    results = [run for run in runs if run.counted]
    diverged = sum(run.kind == "diverged" for run in results)
    collapsed = sum(run.kind != "diverged" and _collapsed(run) for run in results)
    return Failures(len(results), diverged, collapsed)


def _collapsed(run: RunRecord) -> bool:
    """Below half of what the untrained policy scored by the same number; avg@k estimates the same for every k."""
    measure = run.score_from.split("/")[-1]
    pattern = r"avg@\d+" if measure.startswith("avg@") else re.escape(measure)
    before = [value for name, value in run.untrained.items() if re.fullmatch(f"validation/{pattern}", name)]
    return bool(before) and run.score is not None and run.score < COLLAPSED * before[-1]


def _split(sweep: SweepRecord) -> tuple[Split | None, str]:
    """The baseline's split; where its records do not allow one, that of the first arm that does."""
    if not re.match(r"test/avg@", sweep.endpoint):
        return None, f"the split is worked out for test/avg@k; the endpoint is {sweep.endpoint}"
    for arm in dict.fromkeys([sweep.baseline, *sweep.arms]):
        runs = [run for run in sweep.arms.get(arm, ()) if run.state == "done" and run.test]
        arrays = [[list(flags) for flags in run.test.values() if len(flags) > 1] for run in runs]
        arrays = [array for array in arrays if len(array) > 1 and len({len(flags) for flags in array}) == 1]
        if len(arrays) > 1:
            return variance_split(arrays), f"of {counted(len(arrays), 'run')} of {arm}"
    return None, "it needs the test records of two finished runs of one arm, with two samples per question"


def _missing(run: RunRecord) -> str:
    """dapo seed 3: running, step 40"""
    at = f", step {run.step}" if run.step else ""
    why = f" ({run.error})" if run.error and run.state != "waiting" else ""
    state = "done, but without the endpoint" if run.state == "done" else run.state
    return f"{run.arm} seed {run.seed}: {state}{at}{why}"


def _notes(sweep: SweepRecord) -> tuple[str, ...]:
    notes = [*sweep.notes, *differing.within_arms(sweep)]
    if differing.dirty(sweep):
        notes.append("the code had changes that no commit holds, so the same code cannot be fetched again")
    stood_in = [f"{r.arm} seed {r.seed}" for r in sweep.runs if r.counted and r.score_from != sweep.endpoint]
    if stood_in:
        words = "diverged and counts with its last" if len(stood_in) == 1 else "diverged and count with their last"
        names = {r.score_from for r in sweep.runs if r.counted and r.score_from != sweep.endpoint}
        notes.append(f"{listed(stood_in)} {words} {listed(sorted(names))}")
    short = [run for run in sweep.runs if run.state == "done" and _short(run, sweep.budget)]
    if short and sweep.budget:
        names = listed([f"{run.arm} seed {run.seed}" for run in short])
        notes.append(f"{names} ended below 95 % of the budget of {sweep.budget:,} generated tokens")
    return tuple(notes)


def _short(run: RunRecord, budget: int | None) -> bool:
    used = run.last("tokens/generated")
    return budget is not None and used is not None and used < 0.95 * budget
