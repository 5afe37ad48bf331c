"""What is about to run: arms, jobs, tokens, expected time, places; said before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from grpo.config.sentences import counted, shown
from grpo.recording import jsonl
from grpo.runs.status import read_status
from grpo.sweep.layout import digest, sweep_folder
from grpo.sweep.manifest import Job, Sameness

if TYPE_CHECKING:
    from grpo.errors import ConfigError
    from grpo.sweep.arms import Checked, Planner
    from grpo.sweep.question import Question

TINY_TOKENS_PER_SECOND = 4000.0
"""Generated tokens per second and core of the embedded policy, training included: measured on two cores."""


@dataclass(frozen=True)
class Planned:
    """A sweep whose configurations are right, before it starts."""

    name: str
    kind: Any
    question: Question
    planner: Planner
    arms: tuple[Checked, ...]
    refused: Mapping[str, ConfigError]
    """Arms of a grid with a mistake: they do not run."""
    same: tuple[Sameness, ...]
    folder: Path
    digest: str

    @property
    def tune(self) -> list[Job]:
        """All tuning jobs."""
        return [job for arm in self.arms for job in arm.tune]

    @property
    def finals(self) -> int:
        """How many final jobs there will be."""
        return len(self.question.arms) * len(self.question.blocks)

    @property
    def expected(self) -> int:
        """All jobs, tuning included."""
        return len(self.tune) + self.finals


def planned(
    name: str, kind: Any, question: Question, planner: Planner, found: tuple[Any, Any], folder: str | Path | None
) -> Planned:
    """Digest, folder and the same-algorithm check. found: what `Planner.check` gave."""
    arms, refused = found
    code = digest(question, {arm.name: arm.hashes for arm in arms})
    place = Path(folder) if folder else sweep_folder(output_dir(question, arms), name, code)
    tuned = set(question.tune.grid) if question.tune else set()
    same = _same(arms, tuned)
    return Planned(name, kind, question, planner, tuple(arms), refused, tuple(same), place, code)


def output_dir(question: Question, arms: Sequence[Checked]) -> str:
    """The folder of all runs; a sweep has one, whatever its arms say."""
    from grpo.sweep.words import key_of, value_of

    said = [value_of(text) for text in question.common if key_of(text) == "output_dir"]
    return said[-1] if said else arms[0].config.output_dir if arms else "runs"


def _same(arms: Sequence[Checked], tuned: set[str]) -> list[Sameness]:
    if len(arms) < 2:
        return []
    from grpo.sweep import sameness  # torch: seconds, hence after the check

    return sameness.find([(arm.name, arm.config, arm.resolved) for arm in arms], tuned)


def table(plan: Planned, at_once: int) -> str:
    """The plan in lines of at most about 120 characters."""
    question = plan.question
    lines = [f"{plan.name}"]
    if question.claim:
        source = f"  ({question.claim.source})" if question.claim.source else ""
        lines = [f"{plan.name} · {question.claim.text}{source}"]
    lines += ["", *_arms(plan), ""]
    rows = [("common", " ".join(question.common) or "nothing"), ("endpoint", _endpoint(plan))]
    if question.active:
        rows.append(("active", f"{question.active}, or an arm counts as not tested"))
    rows += [("runs", _runs(plan)), ("tokens", _tokens(plan)), ("time", _time(plan, at_once))]
    rows += [("folder", str(plan.folder))]
    lines += [f"  {key:<9} {text}" for key, text in rows]
    return "\n".join(lines)


def _arms(plan: Planned) -> list[str]:
    from grpo.algorithm.form import build

    same = {pair.second: f"the same algorithm as {pair.first}" for pair in plan.same}
    width = max(len(name) for name in plan.question.arms)
    known = {arm.name: arm for arm in plan.arms}
    inert = {name: build(arm.config).inert(arm.config.updates.per_step) for name, arm in known.items()}
    shared = set.intersection(*map(set, inert.values())) if inert else set()
    lines = []
    for name, words in plan.question.arms.items():
        base = "  (baseline)" if name == plan.question.baseline else ""
        lines.append(f"  {name:<{width}}   {' '.join(words) or '–'}{base}")
        notes = [same[name]] if name in same else []
        notes += [f"inert: {text}" for text in inert.get(name, []) if text not in shared]
        if name in plan.refused:
            notes += [f"not started: {m.key} {m.sentence}" for m in plan.refused[name].mistakes]
        lines += [f"  {'':<{width}}     {note}" for note in notes]
    return [*lines, *(f"  in every arm, {text}" for text in sorted(shared))]


def _endpoint(plan: Planned) -> str:
    question = plan.question
    if plan.kind == "grid":
        untested = any(not arm.config.eval.test_questions for arm in plan.arms)
        none = "; eval.test_questions=0, so no run will have it" if untested else ""
        return f"{question.endpoint}; a grid was not written down before: points, no verdict{none}"
    tokens = question.at.generated_tokens
    at = f" at {tokens:,} generated tokens" if tokens else ""
    margin = f", margin {question.margin:g}" if question.margin else ", no margin (no arm can be called equivalent)"
    quick = "; profile=quick: points, no verdict" if question.profile == "quick" else ""
    return f"{question.endpoint}{at}{margin}{quick}"


def _runs(plan: Planned) -> str:
    question, arms = plan.question, len(plan.question.arms)
    blocks = len(question.blocks)
    auto = " at first, then as many as Stein's two stages ask for" if question.seeds == "auto" else ""
    final = f"{plan.finals} = {counted(arms, 'arm')} × {counted(blocks, 'seed')}{auto}"
    if not question.tune:
        return final
    points = len(plan.planner.points())
    grid = "; ".join(f"{key} {', '.join(map(shown, values))}" for key, values in question.tune.grid.items())
    seeds = counted(len(question.tune.seeds), "seed")
    tuning = f"{len(plan.tune)} tuning = {counted(arms, 'arm')} × {counted(points, 'point')} ({grid}) × {seeds}"
    return f"{tuning} at {question.tune.budget:g} of the budget, then {final}"


def _tokens(plan: Planned) -> str:
    total, upper = tokens(plan)
    return f"{'at most ' if upper else ''}{total:,} generated in training (evaluations come on top)"


def tokens(plan: Planned) -> tuple[int, bool]:
    """Generated tokens of all runs, and whether that is an upper bound: steps end earlier than their longest."""
    total, upper = 0.0, False
    blocks = len(plan.question.blocks)
    for arm in plan.arms:
        config = arm.config
        one = config.budget.generated_tokens
        if one is None:
            upper = True
            steps = config.max_steps or 0
            one = steps * config.completions_per_step * config.max_completion_tokens
        share = plan.question.tune.budget if plan.question.tune else 0
        total += one * blocks + one * share * len(arm.tune)
    return round(total), upper


def _time(plan: Planned, at_once: int) -> str:
    total, upper = tokens(plan)
    measured = speeds(plan)
    if measured:
        seconds = total / fmean(measured) / at_once
        return f"about {duration(seconds)}, {at_once} at a time, by {counted(len(measured), 'finished run')}"
    if not plan.arms or any(arm.config.model.kind != "tiny" for arm in plan.arms):
        return "unknown until the first run ends"
    from grpo.sweep import cores

    used = min(cores.usable(), max(at_once, 1)) if not cores.gpus() else at_once
    seconds = total / TINY_TOKENS_PER_SECOND / used
    speed = f"{TINY_TOKENS_PER_SECOND:,.0f} tokens/s per core"
    return f"{'at most ' if upper else ''}about {duration(seconds)} at {speed}, {at_once} at a time"


def speeds(plan: Planned) -> list[float]:
    """Generated tokens per second of each finished run of this sweep's folder, start and evaluations included."""
    jobs = [*plan.tune, *(job for arm in plan.arms for job in _final_places(plan, arm.name))]
    found = []
    for folder in jobs:
        place = plan.folder / (folder.folder if isinstance(folder, Job) else folder)
        status = read_status(place)
        if status is None or status.status != "done":
            continue
        row = {}
        for line in jsonl.read(place / "metrics.jsonl"):
            row |= {k: v for k, v in line.items() if k in ("tokens/generated", "time/elapsed") and v}
        if len(row) == 2:
            found.append(row["tokens/generated"] / row["time/elapsed"])
    return found


def _final_places(plan: Planned, arm: str) -> list[str]:
    from grpo.sweep.layout import run_folder

    return [run_folder(plan.planner.folders[arm], seed) for seed in plan.question.blocks]


def duration(seconds: float) -> str:
    """45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
