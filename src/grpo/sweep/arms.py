"""Question → jobs: each arm's overrides composed and checked before anything runs, all mistakes of all arms at once."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from grpo.config.check import load
from grpo.config.hashing import config_hash
from grpo.errors import ConfigError, Mistake
from grpo.sweep import layout
from grpo.sweep.manifest import Job, Phase
from grpo.sweep.words import assigned, key_of, merged, without

if TYPE_CHECKING:
    from grpo.config.compose import Composer
    from grpo.config.schema import RunConfig
    from grpo.sweep.question import Question

TUNING = ("eval.test_questions=0", "eval.greedy=false", "checkpoint.export=false")
"""A tuning run is judged by validation, and its weights are not kept."""
REFERENCE_SEED = 0
"""The seed at which arms are compared with each other and the digest is taken."""


@dataclass(frozen=True)
class Checked:
    """An arm whose configurations are right."""

    name: str
    overrides: tuple[str, ...]
    """Its own overrides."""
    folder: str
    config: RunConfig
    """Of its final runs at the reference seed, before tuning."""
    resolved: Mapping[str, Any]
    tune: tuple[Job, ...] = ()
    hashes: tuple[str, ...] = ()
    """Configuration hashes at the reference seed: of the final run, and of each point of the grid."""


@dataclass
class Planner:
    """Makes the jobs of a question."""

    question: Question
    composer: Composer
    kind: Literal["question", "grid"] = "question"
    """A grid measures what its arms measure: nobody declared an endpoint."""
    folders: dict[str, str] = field(init=False)
    _free: dict[tuple[str, Phase], bool] = field(default_factory=dict, init=False)
    _codes: dict[tuple[tuple[str, ...], int], str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.folders = layout.arm_folders(list(self.question.arms))

    def check(self) -> tuple[list[Checked], dict[str, ConfigError]]:
        """All arms that are right, and what is wrong with the others."""
        right, wrong = [], {}
        for name in self.question.arms:
            try:
                right.append(self._arm(name))
            except ConfigError as error:
                wrong[name] = error
        return right, wrong

    def points(self) -> list[dict[str, Any]]:
        """The grid, in the order it is written: the last key varies fastest."""
        grid = self.question.tune.grid if self.question.tune else {}
        return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())] if grid else []

    def final(self, arm: str, seeds: Sequence[int], point: Mapping[str, Any] | None = None) -> list[Job]:
        """The jobs that the comparison counts. point: what tuning chose."""
        return self._jobs(arm, "final", seeds, point or {}, self._words(arm, "final", point or {}))

    def _arm(self, name: str) -> Checked:
        own = self.question.arms[name]
        words = self._words(name, "final", {})
        config, resolved = load((*words, f"seed={REFERENCE_SEED}"), self.composer)
        self._codes[words, REFERENCE_SEED] = config_hash(resolved)
        if found := _measured(config, self.question) if self.kind == "question" else []:
            raise ConfigError(found)
        hashes = [config_hash(resolved)]
        tune: list[Job] = []
        for point in self.points():
            words = self._words(name, "tune", point, config)
            assert self.question.tune is not None
            hashes += self._hashes(name, "tune", [REFERENCE_SEED], words).values()
            tune += self._jobs(name, "tune", self.question.tune.seeds, point, words)
        return Checked(name, own, self.folders[name], config, resolved, tuple(tune), tuple(hashes))

    def _words(
        self, arm: str, phase: Phase, point: Mapping[str, Any], config: RunConfig | None = None
    ) -> tuple[str, ...]:
        """Common, the arm's own, the grid point, the budget; all but the seed."""
        question = self.question
        words = without(merged(question.common, question.arms[arm]), [*point, "output_dir"])
        words += tuple(assigned(key, value) for key, value in point.items())
        share = question.tune.budget if phase == "tune" and question.tune else 1.0
        if tokens := question.at.generated_tokens:
            words = without(words, ("max_steps", "budget.generated_tokens", "data.passes"))
            words += (f"budget.generated_tokens={max(1, round(tokens * share))}", "max_steps=null")
        elif phase == "tune" and config is not None and share < 1:
            words = _shortened(words, config, share)
        if phase == "tune":
            words = (*without(words, map(key_of, TUNING)), *TUNING)
        return words

    def _jobs(
        self, arm: str, phase: Phase, seeds: Sequence[int], point: Mapping[str, Any], words: tuple[str, ...]
    ) -> list[Job]:
        shown = point if phase == "tune" else None
        codes = self._hashes(arm, phase, seeds, words)
        return [
            Job(
                arm=arm,
                phase=phase,
                seed=seed,
                folder=layout.run_folder(self.folders[arm], seed, shown),
                overrides=(*words, f"seed={seed}"),
                config_hash=codes[seed],
                point=dict(point),
            )
            for seed in seeds
        ]

    def _hashes(self, arm: str, phase: Phase, seeds: Sequence[int], words: tuple[str, ...]) -> dict[int, str]:
        """Seed → hash. It does not depend on the seed unless a part reads ${seed}: looked at once per arm and phase."""

        at_reference = self._hash(words, REFERENCE_SEED)
        key = (arm, phase)
        if key not in self._free:
            self._free[key] = at_reference == self._hash(words, REFERENCE_SEED + 1)
        return {seed: at_reference if self._free[key] else self._hash(words, seed) for seed in seeds}

    def _hash(self, words: tuple[str, ...], seed: int) -> str:
        if (words, seed) not in self._codes:
            self._codes[words, seed] = config_hash(load((*words, f"seed={seed}"), self.composer)[1])
        return self._codes[words, seed]


def _shortened(words: tuple[str, ...], config: RunConfig, share: float) -> tuple[str, ...]:
    """The end of a tuning run where no token budget is declared."""
    if config.budget.generated_tokens is not None:
        end = ("budget.generated_tokens", max(1, round(config.budget.generated_tokens * share)))
    elif config.max_steps is not None:
        end = ("max_steps", max(1, round(config.max_steps * share)))
    else:
        end = ("data.passes", (config.data.passes or 1.0) * share)
    return (*without(words, [end[0]]), f"{end[0]}={end[1]}")


def _measured(config: RunConfig, question: Question) -> list[Mistake]:
    """Whether the runs will record the endpoint, and tuning its validation."""
    k, found = question.k, []
    if question.at.generated_tokens and config.data.passes is not None:
        text = f"is {config.data.passes:g}, but at.generated_tokens={question.at.generated_tokens} ends every run"
        found.append(Mistake("data.passes", f"{text}; leave it out, or say at.generated_tokens=null"))
    if not config.eval.test_questions:
        found.append(Mistake("eval.test_questions", f"is 0, so nothing would record {question.endpoint}"))
    elif k is None and not config.eval.greedy:
        found.append(Mistake("eval.greedy", f"is false, so nothing would record {question.endpoint}"))
    elif k is not None and k != config.eval.test_samples:
        name = re.sub(r"\d+$", str(config.eval.test_samples), question.endpoint)
        text = f"speaks of {k} completions, but eval.test_samples={config.eval.test_samples}; say endpoint={name}"
        found.append(Mistake("endpoint", f"{text} or eval.test_samples={k}"))
    return found


def told(wrong: Mapping[str, ConfigError], arms: Sequence[str]) -> ConfigError:
    """The mistakes of all arms as one error; what is wrong in every arm is told once, without their names."""
    said: dict[Mistake, list[str]] = {}
    for arm, error in wrong.items():
        for mistake in error.mistakes:
            said.setdefault(mistake, []).append(arm)
    found = []
    for mistake, names in said.items():
        if len(names) == len(arms):
            found.append(mistake)
        else:
            found += [Mistake(f"arms.{name}: {mistake.key}", mistake.sentence) for name in names]
    return ConfigError(found)
