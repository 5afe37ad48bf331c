"""What is wrong with a reward (flags, exit code 1) and what one should know of it (notes)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grpo.probe.completions import NO_BOX, Kind
from grpo.probe.golds import Golds
from grpo.probe.measure import Measured, Paid

SAME = 1e-9  # rewards that differ by less are equal
TOLD = 3  # unusable answers of a split in its sentence


@dataclass(frozen=True)
class Finding:
    """One sentence, and what it is about: a kind of completion, a function, a split, the reward or the task."""

    about: str
    text: str


def flags(measured: Measured, golds: Sequence[Golds]) -> list[Finding]:
    """Everything for which nobody should train with this reward on this task."""
    dead = _dead(measured)
    found = [Finding("reward", dead)] if dead else [f for kind in measured.kinds for f in _row(measured, kind)]
    return [*found, *(Finding(split.split, _unusable(split)) for split in golds if split.unusable)]


def notes(measured: Measured) -> list[Finding]:
    """What is no mistake, but good to know before training."""
    found = [note for kind in measured.kinds for note in _strictness(measured, kind)]
    if not measured.of("right answer"):
        text = "the task names no right answers, so only the echoed prompt and an empty completion were tried"
        found.append(Finding("task", text))
    for name in measured.names if len(measured.names) > 1 else ():
        values = {paid.rewards[name] for paid in measured.paid}
        if len(values) == 1:
            found.append(Finding(name, f"{name} gives {shown(values.pop())} to every completion here"))
    for metric, count in measured.trouble.items():
        name, what = metric.split("/")[1:]
        text = f"{name} counted {count:,} {what} in {len(measured.paid):,} completions, which it pays nothing"
        found.append(Finding(name, text))
    empty, wrong = measured.mean("empty"), measured.mean("wrong answer")
    if empty is not None and wrong is not None and empty > wrong + SAME:
        text = f"an empty completion earns {shown(empty)}, a wrong answer {shown(wrong)}: it pays not to try"
        found.append(Finding("empty", text))
    return found


def shown(value: float | None) -> str:
    """A reward as one reads it; – where no function applies."""
    return "–" if value is None else f"{value:.2f}".replace("-0.00", "0.00")


def quoted(text: str, most: int = 40) -> str:
    """A text in quotes on one line, the middle of a long one left out."""
    return f'"{shortened(text, most)}"'


def shortened(text: str, most: int) -> str:
    """The beginning and the end of a long text, on one line."""
    text, half = " ".join(text.split()), (most - 3) // 2
    return text if len(text) <= most else f"{text[: most - 3 - half].rstrip()} … {text[len(text) - half :].lstrip()}"


def _dead(measured: Measured) -> str | None:
    totals = [paid.total for paid in measured.paid]
    known = [total for total in totals if total is not None]
    if not known:
        return f"no function scores any of the {len(totals)} completions: each says that it does not apply"
    if len(known) == len(totals) and max(known) - min(known) <= SAME:
        return f"the reward never varies: all {len(known)} completions earn {shown(known[0])}, nothing can be learned"
    return None


def _row(measured: Measured, kind: Kind) -> Iterator[Finding]:
    """The flags of one kind of completion."""
    rows, gold = measured.of(kind.name), measured.of("right answer")
    pays = kind.pays_here(measured.cases[0].strict)
    if not rows or not gold or pays == "may":
        return
    right, others = [p for p in rows if p.right], [p for p in rows if not p.right]
    if pays == "must":
        if others:
            yield Finding(
                kind.name, f"{kind.says} counts as wrong on {_of(others, rows)}: {_example(measured, others[0])}"
            )
    elif len(right) > (len(rows) / 2 if pays == "luck" else 0):
        meant = "; if this is meant, say so by task.extract" if kind.name == NO_BOX else ""
        example = _example(measured, right[0]) + meant
        yield Finding(kind.name, f"{kind.says} counts as right on {_of(right, rows)}: {example}")
    elif any(paid.right for paid in gold):  # where no right answer counts, that is the flag
        mine, best = measured.mean(kind.name), _best(measured)
        if mine is not None and best is not None and mine >= best - SAME:
            text = f"{kind.says} earns no less than the right one, {shown(mine)} against {shown(best)} on average"
            yield Finding(kind.name, text)


def _best(measured: Measured) -> float | None:
    """What a right answer earns: as asked for, or after thoughts, where those are paid."""
    means = [measured.mean(name) for name in ("right answer", "after thoughts")]
    return max((mean for mean in means if mean is not None), default=None)


def _strictness(measured: Measured, kind: Kind) -> Iterator[Finding]:
    """A reward that is stricter or luckier than one may think."""
    rows = measured.of(kind.name)
    if not rows:
        return
    asked = {paid.case for paid in measured.of("right answer") if paid.right}  # the others are flagged already
    right, others = [p for p in rows if p.right], [p for p in rows if not p.right and p.case in asked]
    pays = kind.pays_here(measured.cases[0].strict)
    if kind.name in ("in another format", "after thoughts", NO_BOX) and pays == "may" and others:
        yield Finding(kind.name, f"{kind.says} counts as wrong on {_of(others, rows)}: {_example(measured, others[0])}")
    elif pays == "luck" and 0 < len(right) <= len(rows) / 2:
        yield Finding(kind.name, f"{kind.says} happens to be right on {_of(right, rows)}")


def _unusable(split: Golds) -> str:
    told = [f"{quoted(p.answer)} of {p.id} ({p.reason})" if p.answer else f"{p.id} has none" for p in split.problems]
    more = ", …" if split.unusable > TOLD else ""
    be = "is" if split.unusable == 1 else "are"
    of = f"{split.unusable:,} of {split.checked:,} right answers of {split.split}"
    return f"{of} {be} unusable: {', '.join(told[:TOLD])}{more}"


def _of(some: Sequence[Paid], rows: Sequence[Paid]) -> str:
    return f"{len(some)} of {len(rows)} question{'s' * (len(rows) != 1)}"


def _example(measured: Measured, paid: Paid) -> str:
    question = quoted(measured.cases[paid.case].question.text)
    return f"{question} answered with {quoted(paid.text)} earns {shown(paid.total)}"
