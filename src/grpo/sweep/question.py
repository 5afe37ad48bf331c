"""A question, as it is written down: sweeps/<name>.yaml → `Question`, or every mistake at once.

What is asked, of which arms, and where they are judged:

    claim:    {text: "clip-higher keeps rare right tokens alive", source: "arXiv:2503.14476 §3.1"}
    common:   [updates.minibatches=8, task=arithmetic]              # overrides of every arm
    arms:     {eps_0.20: [], eps_0.28: [surrogate.high=0.28]}
    baseline: eps_0.20
    endpoint: test/avg@8
    at:       {generated_tokens: 400_000}
    margin:   0.03                                                  # the smallest difference that matters
    tune:     {grid: {optimizer.lr: [1e-4, 2e-4]}, seeds: [100, 101], budget: 0.5}
    seeds:    range(10)                                             # range(2, 8), a list, or auto
    active:   surrogate/clip_high >= 0.005                          # the mechanism under test must have acted
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from grpo.config import sentences
from grpo.config.nodes import Count, Flag, Node, Positive, number
from grpo.errors import ConfigError, Mistake
from grpo.recording import metrics

QUICK = (0, 1, 2)
FIRST_STAGE = tuple(range(10))
"""The seeds of seeds=auto before Stein's second stage."""
MOST = 10_000
"""Seeds that a question may have; a range with more of them is a slip of the pen."""
OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
ENDPOINTS = r"test/(?:(?:avg|pass|maj)@(?P<k>[1-9][0-9]*)|greedy)"


def read_seeds(value: Any) -> Any:
    """range(10), range(2, 8), 3, [0, 1] or auto → a tuple of seeds, or auto."""
    if value == "auto":
        return value
    found = _listed(value)
    if not found or min(found) < 0 or max(found) >= 2**31:
        raise ValueError(f"must be range(10), range(2, 8), a list of seeds such as [0, 1, 2], or auto, not {value}")
    if twice := sorted(n for n, times in Counter(found).items() if times > 1):
        raise ValueError(f"names {sentences.any_of([str(n) for n in twice], 'and')} twice; a block is one seed")
    return found


def _listed(value: Any) -> tuple[int, ...]:
    """The seeds that are written; none where that cannot be read."""
    if isinstance(value, str):
        if found := re.fullmatch(r"\s*range\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?(?:,\s*([1-9]\d*)\s*)?\)\s*", value):
            numbers = range(*(int(n) for n in found.groups() if n is not None))
            if numbers[MOST:]:
                raise ValueError(f"must be at most {MOST:,} seeds, not {value}")
            return tuple(numbers)
        return tuple(int(n) for n in value.split(",")) if re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", value) else ()
    values = value if isinstance(value, list | tuple) else [value]
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in values)
    return tuple(values) if whole else ()


def _budget(value: Any) -> Any:
    number(value)
    if isinstance(value, int | float) and not 0 < value <= 1:
        raise ValueError(f"is a tuning run's share of the budget, greater than 0 and at most 1, not {value}")
    return value


def _words(value: Any) -> Any:
    """A list of overrides; an empty node is no override."""
    if value is None:
        return ()
    if isinstance(value, str):
        raise ValueError(f"is a list of overrides, such as [{value}], not the single text {value}")
    return tuple(value) if isinstance(value, list | tuple) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class Claim(Node):
    """What is asked."""

    text: str
    """The claim in a sentence."""
    source: str | None = None
    """Where it is made."""


class At(Node):
    """Where the arms are compared."""

    generated_tokens: Count | None = None
    """Budget of every run in generated tokens, ≥ 1; null: max_steps decides."""


class Tune(Node):
    """How every arm is tuned before it is compared."""

    grid: Annotated[dict[str, Annotated[list[Any], Field(min_length=1)]], Field(min_length=1)]
    """Key → values; each combination is tried by every arm."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(read_seeds)]
    """Seeds of the tuning runs, disjoint from the test seeds."""
    budget: Annotated[float, BeforeValidator(_budget)] = 0.5
    """Share of the budget that a tuning run gets, (0, 1]."""


class Question(Node):
    """Arms, a baseline, an endpoint, a budget, seeds: all that is declared before anything runs."""

    claim: Claim | None = None
    common: Words = ()
    """Overrides of every arm."""
    arms: Annotated[dict[str, Words], Field(min_length=1)]
    """Name → its own overrides."""
    baseline: str
    """The arm that the others are compared with."""
    endpoint: str
    """test/avg@<k>, test/pass@<k>, test/maj@<k> or test/greedy."""
    at: At = At()
    margin: Positive | None = None
    """Smallest difference that matters, > 0."""
    tune: Tune | None = None
    seeds: Annotated[tuple[int, ...] | Literal["auto"], BeforeValidator(read_seeds)] = FIRST_STAGE
    """Blocks: every arm runs once with each."""
    active: str | None = None
    """<metric> <op> <number>: holds where the mechanism under test has acted."""
    allow_same: Flag = False
    """Run arms although they are the same algorithm."""
    profile: Literal["full", "quick"] = "full"
    """quick: seeds 0, 1, 2, no tuning, no verdict."""

    @property
    def blocks(self) -> tuple[int, ...]:
        """The seeds that run first: all of them, or the first stage of auto."""
        return FIRST_STAGE if self.seeds == "auto" else self.seeds

    @property
    def condition(self) -> Condition | None:
        """`active`, taken apart."""
        return None if self.active is None else Condition.of(self.active)

    @property
    def k(self) -> int | None:
        """Completions per test question that the endpoint speaks of; None for greedy."""
        found = re.fullmatch(ENDPOINTS, self.endpoint)
        return int(found["k"]) if found and found["k"] else None

    def plain(self) -> dict[str, Any]:
        """Plain types, for sweep.json."""
        return self.model_dump(mode="json")


KEYS = tuple(Question.model_fields)


@dataclass(frozen=True)
class Condition:
    """surrogate/clip_high >= 0.005"""

    metric: str
    op: str
    threshold: float

    @classmethod
    def of(cls, text: str) -> Condition:
        """Read; a ValueError says what is wrong."""
        found = re.fullmatch(r"\s*(\S+)\s*(>=|<=|>|<)\s*(\S+)\s*", text)
        if found is None:
            raise ValueError(f"is <metric> <op> <number> with op >=, <=, > or <, such as surrogate/clip_high >= 0.005, "
                             f"not {text}")  # fmt: skip
        metric, op, threshold = found.groups()
        if metrics.find(metric) is None:
            near = sentences.meant(metric, [m.name for m in metrics.METRICS])
            raise ValueError(f"there is no metric {metric}{near}")
        try:
            bound = float(threshold)
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise ValueError(f"compares {metric} with a number, not with {threshold}")
        return cls(metric, op, bound)

    def holds(self, value: float) -> bool:
        """Whether a measured value fulfils it."""
        return OPERATORS[self.op](value, self.threshold)


def check(plain: Mapping[str, Any], given: Set[str] = frozenset()) -> Question:
    """Plain types → Question. ConfigError lists all mistakes, those of types and those between fields.

    given   question keys of the command line: seeds beats the ones of profile=quick
    """
    from grpo.sweep.rules import mistakes

    data = {str(key): value for key, value in plain.items()}
    found: list[Mistake] = []
    if isinstance(data.get("arms"), Mapping):
        twice = [name for name, times in Counter(map(str, data["arms"])).items() if times > 1]
        found += [Mistake(f"arms.{name}", "is there twice, as a text and as a number; rename one") for name in twice]
        data["arms"] = {str(name): value for name, value in data["arms"].items()}
    for key in ("common", "at"):
        if data.get(key, ...) is None:
            del data[key]
    try:
        question = Question.model_validate(data)
    except ValidationError as error:
        found += _of_types(error)
        question = _what_is_right(data, error)
    wrong = {mistake.key.split(".")[0] for mistake in found}
    found += mistakes(question, wrong)
    if found:
        raise ConfigError(found)
    if question.profile == "quick":
        return question.model_copy(update={"tune": None, **({} if "seeds" in given else {"seeds": QUICK})})
    return question


def _of_types(error: ValidationError) -> list[Mistake]:
    found = []
    for detail in error.errors():
        path = [str(part) for part in detail["loc"] if part not in ("tuple[int, ...]", "literal['auto']")]
        key = ".".join(path)
        if detail["type"] == "extra_forbidden":
            owner, names = {"claim": ("claim", Claim), "at": ("at", At), "tune": ("tune", Tune)}.get(
                path[0], ("a question", Question)
            )
            found.append(Mistake(key, sentences.has_not(owner, names.model_fields, path[-1])))
        elif detail["type"] == "missing":
            found.append(Mistake(key, f"is missing; a question needs {key}"))
        elif detail["type"] == "too_short":
            found.append(Mistake(key, "is empty; name at least one"))
        else:
            found.append(Mistake(key, sentences.of_type_error(detail, key)))
    return found


def _what_is_right(data: Mapping[str, Any], error: ValidationError) -> Question:
    """The question without the fields that are wrong, for the rules between the others."""
    wrong = {str(detail["loc"][0]) for detail in error.errors()}
    good = {key: value for key, value in data.items() if key not in wrong and key in KEYS}
    needed = {"arms": {"-": ()}, "baseline": "-", "endpoint": "test/greedy"}
    return Question.model_validate({**{k: v for k, v in needed.items() if k not in good}, **good})
