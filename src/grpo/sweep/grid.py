"""Arguments of -m → the same Question: an arm for each combination of varied values, a block for each seed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grpo.config.check import load
from grpo.config.naming import folder_name
from grpo.config.overrides import expand
from grpo.errors import ConfigError, Mistake
from grpo.sweep.question import At, Question
from grpo.sweep.words import PLACES, key_of, value_of, without

if TYPE_CHECKING:
    from grpo.config.compose import Composer


def question(arguments: Sequence[str], composer: Composer) -> tuple[str, Question]:
    """The name of the sweep, and its question: no claim, no margin, the first arm as baseline."""
    if found := _refused(arguments):
        raise ConfigError(found)
    jobs, mistakes = expand(without(arguments, ["resume"]), composer)
    if mistakes:
        raise ConfigError(mistakes)
    seeds = _seeds(jobs)
    own = [without(job, ["seed"]) for job in jobs]
    varied = [place for place in range(len(own[0])) if len({job[place] for job in own}) > 1]
    common = tuple(text for place, text in enumerate(own[0]) if place not in varied)
    arms = {_name(words): words for words in dict.fromkeys(tuple(job[place] for place in varied) for job in own)}
    name = ",".join(key_of(own[0][place]) for place in varied) or "seed"
    if not varied:
        arms = {_configured(common, composer): ()}
    made = Question(
        common=common,
        arms=arms,
        baseline=next(iter(arms)),
        endpoint=f"test/avg@{_test_samples(common, arms, composer)}",
        at=At(),
        seeds=seeds,
        allow_same=True,
    )
    return folder_name(name), made


def _refused(arguments: Sequence[str]) -> list[Mistake]:
    found = []
    for text in arguments:
        key = key_of(text)
        if key in PLACES:
            found.append(Mistake(key, "is set by the sweep for each of its jobs; --folder says where the sweep lies"))
        elif key == "resume" and value_of(text) != "auto":
            other = "for new runs give the sweep another folder with --folder"
            found.append(Mistake("resume", f"{value_of(text)}: a sweep goes on by itself where it was; {other}"))
        elif key == "output_dir" and re.search(r",|\(", value_of(text)):
            found.append(Mistake("output_dir", "a sweep lies in one folder; give one"))
    return found


def _seeds(jobs: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """The swept seeds in their order; 0, the default, where none is given. What is no seed is a mistake."""
    said = list(dict.fromkeys(value_of(text) for job in jobs for text in job if key_of(text) == "seed"))
    wrong = [value for value in said if not re.fullmatch(r"\d{1,10}", value) or int(value) >= 2**31]
    if wrong:
        raise ConfigError([Mistake("seed", f"must be a whole number from 0 to 2³¹ − 1, not {wrong[0]}")])
    return tuple(dict.fromkeys(map(int, said))) or (0,)


def _name(words: Sequence[str]) -> str:
    """algo=dapo,group_size=8."""
    return ",".join(text.lstrip("+") for text in words)


def _configured(common: Sequence[str], composer: Composer) -> str:
    """The name of the one configuration whose seeds are swept."""
    return load(common, composer)[0].name


def _test_samples(common: Sequence[str], arms: dict[str, tuple[str, ...]], composer: Composer) -> int:
    """k of the endpoint, by the first arm that is right."""
    error: ConfigError | None = None
    for words in arms.values():
        try:
            return load((*common, *words), composer)[0].eval.test_samples
        except ConfigError as found:
            error = error or found
    assert error is not None
    raise error
