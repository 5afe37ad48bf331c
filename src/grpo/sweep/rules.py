"""Rules between the fields of a question: what each field allows alone, but not together with the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from grpo.config import sentences
from grpo.config.naming import folder_name
from grpo.errors import Mistake
from grpo.sweep.words import PLACES, key_of, value_of

if TYPE_CHECKING:
    from grpo.sweep.question import Question

Found = Iterator[tuple[str, str]]
ENDS = ("max_steps", "data.passes", "budget.generated_tokens")
FIXED = (*ENDS, *PLACES, "resume", "output_dir", "hydra", "budget", "data")
RESERVED = ("logs", "leftovers", "report", "wandb", "sweep.json", "jobs.json")
LONGEST = 200  # bytes of a folder's name; file systems take 255


def mistakes(question: Question, wrong: Set[str] = frozenset()) -> list[Mistake]:
    """Everything that is wrong between the fields. `wrong`: fields whose values are mistakes already."""
    rules = (
        (_baseline, {"arms", "baseline"}),
        (_endpoint, {"endpoint"}),
        (_folders, {"arms"}),
        (_active, {"active"}),
        (_words, {"common", "arms"}),
        (_ends, {"common", "arms", "at"}),
        (_tuned, {"arms", "tune"}),
        (_seeds, {"tune", "seeds", "margin", "profile"}),
    )
    return [Mistake(key, text) for rule, reads in rules if not reads & wrong for key, text in rule(question)]


def _baseline(question: Question) -> Found:
    if question.baseline not in question.arms:
        near = sentences.meant(question.baseline, question.arms)
        yield "baseline", f"there is no arm {question.baseline}{near} (arms: {', '.join(question.arms)})"


def _endpoint(question: Question) -> Found:
    from grpo.sweep.question import ENDPOINTS

    if not re.fullmatch(ENDPOINTS, question.endpoint):
        names = ["test/avg@8", "test/pass@8", "test/maj@8", "test/greedy"]
        near = sentences.meant(question.endpoint, names)
        split = "; validation is for tuning and curves" if question.endpoint.startswith("validation/") else ""
        yield (
            "endpoint",
            f"is one of test/avg@k, test/pass@k, test/maj@k, test/greedy, not {question.endpoint}" + (split or near),
        )


def _folders(question: Question) -> Found:
    """Every arm is a folder beside the sweep's own."""
    places: dict[str, str] = {}
    for name in question.arms:
        folder = folder_name(name)
        if not folder.strip(".") or folder.lower() in RESERVED:
            yield f"arms.{name}", f"cannot be the name of an arm ({', '.join(RESERVED)} are the sweep's own)"
        if len(folder.encode()) > LONGEST:
            yield f"arms.{name}", f"is too long for a folder's name ({LONGEST} bytes); shorten it"
        if folder.lower() in places:  # some file systems do not tell a from A
            other = places[folder.lower()]
            yield f"arms.{name}", f"and {other} would share the folder {folder}; rename one"
        places.setdefault(folder.lower(), name)


def _active(question: Question) -> Found:
    try:
        _ = question.condition
    except ValueError as error:
        yield "active", str(error)


def _every_word(question: Question) -> Iterator[tuple[str, str]]:
    for text in question.common:
        yield "common", text
    for name, words in question.arms.items():
        for text in words:
            yield f"arms.{name}", text


def _words(question: Question) -> Found:
    for where, text in _every_word(question):
        key = key_of(text)
        if key == "seed":
            yield where, f"sets {text}: every arm runs with every seed of the question; say seeds={value_of(text)}"
        elif key == "resume":
            yield where, f"sets {text}: a sweep goes on by itself, and --folder gives new runs a new folder"
        elif key in PLACES:
            yield where, f"sets {text}: the sweep places its runs itself; --folder says where it lies"
        elif key == "hydra":
            yield where, f"sets {text}: only the command line says how jobs are started"


def _ends(question: Question) -> Found:
    if question.at.generated_tokens is None:
        return
    for where, text in _every_word(question):
        if key_of(text) in ENDS and value_of(text) != "null":
            yield (
                where,
                f"sets {text}, but at.generated_tokens={question.at.generated_tokens} is the budget of every arm; "
                "change that, or say at.generated_tokens=null",
            )


def _tuned(question: Question) -> Found:
    grid = question.tune.grid if question.tune else {}
    for key, values in grid.items():
        root = key_of(key)
        if root == "seed":
            yield f"tune.grid.{key}", "is no setting to choose; say tune.seeds"
        elif root in FIXED or root.split(".")[0] == "eval":
            yield f"tune.grid.{key}", "is no setting to choose: it is how the runs are measured, ended or placed"
        if len(set(map(repr, values))) < len(values):
            yield f"tune.grid.{key}", f"names a value twice: {', '.join(map(sentences.shown, values))}"
    for name, words in question.arms.items():
        for text in words:
            if key_of(text) in grid:
                yield f"arms.{name}", f"sets {text}, which tune.grid chooses for every arm alike; leave it to the grid"


def _seeds(question: Question) -> Found:
    if question.seeds == "auto" and question.margin is None:
        yield "seeds", "auto needs margin, the smallest difference that matters: it says how sure is sure enough"
    if question.tune is None:
        return
    if both := sorted(set(question.tune.seeds) & set(question.blocks)):
        named = ", ".join(map(str, both))
        yield "tune.seeds", f"and seeds share {named}: what tuning has seen is no test; use others, such as [100, 101]"
    elif question.seeds == "auto" and min(question.tune.seeds) < 100:
        yield "tune.seeds", "with seeds=auto the test seeds count up from 0: use seeds of 100 or more"
