"""The life of a sweep: manifest, tuning runs, choice, final runs, last words.

The same command again goes on where it was: what is done is not run again, and more seeds join the same folder.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo import __version__
from grpo.errors import UserError
from grpo.runs.environment import git_state
from grpo.runs.status import now
from grpo.sweep import manifest as manifests
from grpo.sweep import tune as tuning
from grpo.sweep.manifest import Arm, Job, Manifest
from grpo.sweep.plan import Planned

Runner = Callable[..., list[Any]]


@dataclass
class Drive:
    """One start of a sweep, in the order of the methods."""

    plan: Planned
    command: Sequence[str]
    """The words that started it, python -m … included."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """at_once, launcher, resources, flags: handed to the runner."""
    runner: Runner | None = None
    """Instead of grpo.sweep.runner.run, in tests."""
    say: Callable[[str], None] = print

    def run(self) -> int:
        """Everything; returns the exit code."""
        from grpo.sweep.board import locked

        if not self.plan.arms:
            raise UserError("\n".join(str(error) for error in self.plan.refused.values()))
        with locked(self.plan.folder):  # sweep.json belongs to whoever runs the jobs
            return self._run()

    def _run(self) -> int:
        from grpo.sweep.runner import Stopped

        plan = self.plan
        self.blocks = plan.question.blocks
        self.manifest = self._begin()
        self.outcomes: list[Any] = []
        try:
            unchosen = self._tune()
            self._final(unchosen)
            if plan.question.seeds == "auto" and not unchosen:
                self._second_stage()
        except Stopped as stopped:
            self._report([*self.outcomes, *stopped.outcomes])
            self.say(f"stopped; the same command goes on:   {shlex.join(self.command)}")
            return stopped.exit_code
        code = self._report(self.outcomes)
        return self._last_words(unchosen) or code

    def _begin(self) -> Manifest:
        """sweep.json before the first job, with the history of the declared seeds."""
        plan, before = self.plan, manifests.read(self.plan.folder)
        if before is not None and before.digest != plan.digest:
            raise UserError(
                f"--folder   {plan.folder} holds another sweep ({before.name}, {before.digest}, not {plan.digest}): "
                "its arms, budget or settings are others; give another folder"
            )
        declared = before.declared if before else ()
        seeds = list(self.blocks)
        if plan.question.seeds == "auto" and declared:
            seeds = list(dict.fromkeys([*declared[-1]["seeds"], *seeds]))  # its first stage is never smaller
            self.blocks = tuple(seeds)
        if not declared or list(declared[-1]["seeds"]) != seeds:
            declared = (*declared, {"time": now(), "seeds": seeds})
        made = Manifest(
            name=plan.name,
            kind=plan.kind,
            digest=plan.digest,
            question=plan.question.plain(),
            command=tuple(self.command),
            arms=tuple(Arm(name, words, same_as=self._same_as(name)) for name, words in plan.question.arms.items()),
            jobs=tuple(plan.tune),
            expected=self._expected(),
            same=plan.same,
            declared=declared,
            git=before.git if before else (git_state(Path(__file__).parent) or {}).get("commit"),
            version=__version__,
        )
        if plan.question.tune is None:
            made = replace(made, jobs=tuple(self._jobs({})))
        manifests.write(plan.folder, made)
        return made

    def _expected(self) -> int:
        return len(self.plan.tune) + len(self.plan.question.arms) * len(self.blocks)

    def _same_as(self, name: str) -> str | None:
        return next((pair.first for pair in self.plan.same if pair.second == name), None)

    def _tune(self) -> list[tuning.Tuned]:
        """The tuning runs, then each arm's choice; the arms that have none."""
        plan = self.plan
        if plan.question.tune is None:
            return []
        self.outcomes += self._wave(plan.tune)
        results = [
            tuning.tuned(arm.name, arm.tune, plan.folder, f"validation/avg@{arm.config.eval.samples}")
            for arm in plan.arms
        ]
        width = max(len(result.arm) for result in results)
        self.say("tuned by validation:")
        for result in results:
            self.say(f"  {result.arm:<{width}}   {result.sentence}")
        chosen = {result.arm: result.chosen for result in results}
        arms = tuple(replace(arm, chosen=chosen.get(arm.name)) for arm in self.manifest.arms)
        points = {name: point for name, point in chosen.items() if point is not None}
        self._write(arms=arms, jobs=(*plan.tune, *self._jobs(points)))
        return [result for result in results if result.chosen is None]

    def _jobs(self, points: Mapping[str, Mapping[str, Any]]) -> list[Job]:
        """The final jobs of the arms that are ready, whole blocks first: a report of the unfinished can pair them."""
        ready = [arm.name for arm in self.plan.arms if self.plan.question.tune is None or arm.name in points]
        every = [self.plan.planner.final(name, self.blocks, points.get(name)) for name in ready]
        return [job for block in zip(*every, strict=True) for job in block] if every else []

    def _final(self, unchosen: Sequence[tuning.Tuned]) -> None:
        jobs = self.manifest.final()
        if jobs:
            self.outcomes += self._wave(jobs)
        for result in unchosen:
            self.say(f"{result.arm}   {result.sentence}; its final runs wait for them")

    def _second_stage(self) -> None:
        """seeds=auto: as many more blocks as the first stage's spread asks for."""
        from grpo.sweep.stages import more_blocks

        total = more_blocks(self.plan.folder, self.say)
        if total <= len(self.blocks):
            return
        self.blocks = tuple(range(total))
        declared = (*self.manifest.declared, {"time": now(), "seeds": list(self.blocks), "why": "Stein"})
        points = {arm.name: arm.chosen for arm in self.manifest.arms if arm.chosen is not None}
        self._write(declared=declared, jobs=(*self.plan.tune, *self._jobs(points)), expected=self._expected())
        done = {outcome.job.folder for outcome in self.outcomes}
        self.outcomes += self._wave([job for job in self.manifest.final() if job.folder not in done])

    def _write(self, **changes: Any) -> None:
        self.manifest = replace(self.manifest, **changes)
        manifests.write(self.plan.folder, self.manifest)

    def _wave(self, jobs: Sequence[Job]) -> list[Any]:
        from grpo.sweep import runner

        start = self.runner or runner.run
        return start(jobs, self.plan.folder, endpoint=self.plan.question.endpoint, held=True, **self.options)

    def _report(self, outcomes: Sequence[Any]) -> int:
        from grpo.sweep import runner

        return runner.report(outcomes)

    def _last_words(self, unchosen: Sequence[tuning.Tuned]) -> int:
        refused = self.plan.refused
        for arm, error in refused.items():
            text = "; ".join(f"{m.key} {m.sentence}" for m in error.mistakes)
            print(f"not started: {arm}   {text}", file=sys.stderr)
        self.say(f"report   {shlex.join(['python', '-m', 'grpo.report', str(self.plan.folder)])}")
        return 1 if refused or unchosen else 0


def refuse_same(plan: Planned) -> None:
    """Arms that are one algorithm answer no question, unless somebody asks for just that."""
    if plan.same and not plan.question.allow_same and plan.kind == "question":
        from grpo.errors import ConfigError, Mistake

        text = "; leave one out (arms=...), or say allow_same=true"
        raise ConfigError([Mistake(f"arms.{pair.second}", pair.sentence + text) for pair in plan.same])
