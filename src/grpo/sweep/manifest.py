"""sweep.json: what belongs to a sweep. Whatever else lies in its folder (leftovers of an older one) is never counted.

<sweep>/sweep.json                       this file
<sweep>/<arm>/seed=0/                    a run folder, exactly as `python -m grpo run_dir=…` writes it
<sweep>/<arm>/tune/lr=0.0001/seed=100/   a tuning run
<sweep>/logs/<arm>/seed=0.log            what a job printed
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from grpo.config.overrides import word
from grpo.errors import UserError
from grpo.runs.atomic import read_json, write_json

FILE = "sweep.json"
Phase = Literal["tune", "final"]
T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """One run of a sweep, known completely before it starts."""

    arm: str
    phase: Phase
    seed: int
    folder: str
    """Run folder, relative to the sweep's."""
    overrides: tuple[str, ...]
    """The experiment's own overrides: common, arm, grid point, budget, seed. `words` adds where it runs."""
    config_hash: str
    """`grpo.config.hashing.config_hash` of the resolved configuration."""
    point: dict[str, Any] = field(default_factory=dict)
    """Key → value of the tuning grid; empty without tuning."""

    @property
    def id(self) -> str:
        """The folder names the job."""
        return self.folder

    def words(self, sweep: Path) -> list[str]:
        """The command line of the job, without `python -m grpo`."""
        place = {"sweep": str(sweep), "arm": self.arm, "run_dir": str(sweep / self.folder), "resume": "auto"}
        return [*self.overrides, *(word(key, value) for key, value in place.items())]


@dataclass(frozen=True)
class Arm:
    """What an arm is, and what tuning made of it."""

    name: str
    overrides: tuple[str, ...]
    """Its own overrides, without the common ones."""
    chosen: dict[str, Any] | None = None
    """The grid point that tuning chose; None before, and without tuning."""
    same_as: str | None = None
    """An earlier arm that is the same algorithm under the same settings."""


@dataclass(frozen=True)
class Sameness:
    """Two arms that are the same: every other setting is equal, and their gradients are proportional."""

    first: str
    second: str
    factor: float
    sentence: str


@dataclass(frozen=True)
class Manifest:
    """The content of sweep.json."""

    name: str
    kind: Literal["question", "grid"]
    digest: str
    """8 hex digits over the question without its seeds; part of the sweep's folder name."""
    question: dict[str, Any]
    """The question as plain types, overrides of the command line applied (`Question.plain`)."""
    command: tuple[str, ...]
    """The words that started it: ("python", "-m", "grpo.sweep", "clip_high", …)."""
    arms: tuple[Arm, ...]
    jobs: tuple[Job, ...]
    """Tuning jobs, and the final ones as soon as their arm is tuned."""
    expected: int
    """All jobs there will be, tuning included."""
    same: tuple[Sameness, ...] = ()
    declared: tuple[dict[str, Any], ...] = ()
    """{"time", "seeds"} at each start that declared other seeds than the one before: more than one entry means that the
    sweep was enlarged after it had begun."""
    git: str | None = None
    version: str = ""

    def final(self) -> list[Job]:
        """The jobs that the comparison counts."""
        return [job for job in self.jobs if job.phase == "final"]


def write(folder: Path, manifest: Manifest) -> None:
    """Write sweep.json atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FILE, {"v": 1, **asdict(manifest)})


def read(folder: Path) -> Manifest | None:
    """The manifest of a sweep folder; None where there is none. A damaged one is a UserError."""
    path = folder / FILE
    if not path.exists():
        return None
    value = read_json(path)
    if value is None:
        raise UserError(f"{path}   is damaged: it holds no JSON object; move it away and start the sweep again")
    value.pop("v", None)
    try:
        arms = tuple(_known(Arm, {**arm, "overrides": tuple(arm["overrides"])}) for arm in value.pop("arms"))
        jobs = tuple(_known(Job, {**job, "overrides": tuple(job["overrides"])}) for job in value.pop("jobs"))
        same = tuple(Sameness(**pair) for pair in value.pop("same"))
        declared, command = tuple(value.pop("declared")), tuple(value.pop("command"))
        return Manifest(**value, arms=arms, jobs=jobs, same=same, declared=declared, command=command)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}   was written by another version ({error}); start the sweep anew") from error


def _known(kind: type[T], value: dict[str, Any]) -> T:
    """The fields that this version knows; an older one wrote more of them."""
    names = {each.name for each in fields(kind)}  # pyright: ignore[reportArgumentType]
    return kind(**{name: content for name, content in value.items() if name in names})
