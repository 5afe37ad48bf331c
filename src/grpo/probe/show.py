"""The probe as a table for people: one row per kind of completion, then the data set's answers, notes and flags."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grpo.probe.completions import Kind, Pays
from grpo.probe.golds import Golds
from grpo.probe.measure import Measured
from grpo.probe.verdict import Finding, quoted, shortened, shown

if TYPE_CHECKING:
    from grpo.config.schema import RunConfig

WIDTH = 100  # where the output is no terminal
LEAST, MOST = 20, 46  # characters of a completion
COLUMN = 10  # of the first word of a line
SECTIONS: dict[str, tuple[Pays, ...]] = {
    "must count": ("must",),
    "may count": ("may",),
    "must not count": ("never", "luck"),
}
"""Title in the table → the kinds under it; the last column tells what counted as right."""


def show(
    config: RunConfig, measured: Measured, golds: Sequence[Golds], flags: Sequence[Finding], notes: Sequence[Finding]
) -> None:
    """Everything on one screen; no colours and no spaces at line ends where the output is no terminal."""
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else WIDTH, highlight=False)
    with console.capture() as captured:
        _show(console, config, measured, golds, flags, notes)
    text = captured.get()
    print(text if terminal else "\n".join(line.rstrip() for line in text.splitlines()), end="" if terminal else "\n")


def _show(
    console: Console,
    config: RunConfig,
    measured: Measured,
    golds: Sequence[Golds],
    flags: Sequence[Finding],
    notes: Sequence[Finding],
) -> None:
    console.print(lines([(word, text, "") for word, text in head(config, measured)]))
    console.print()
    console.print(table(measured, {flag.about for flag in flags}, console.width))
    console.print()
    found = [("answers", answers(golds), "")] if golds else []
    found += [("note", note.text, "") for note in notes] + [("flag", flag.text, "bold red") for flag in flags]
    if found:
        console.print(lines(found))
        console.print()
    count = f"{len(flags)} flag{'s' * (len(flags) != 1)}" if flags else "nothing to flag"
    console.print(Text(f"  {count}", style="bold red" if flags else "bold green"))


def lines(rows: Sequence[tuple[str, str, str]]) -> Table:
    """(word, sentence, style of the word): two columns, a repeated word written once."""
    grid = Table.grid()
    before = ""
    for word, text, style in rows:
        grid.add_row(Text(f"  {'' if word == before else word:<{COLUMN}}", style=style), Text(text))
        before = word
    return grid


def head(config: RunConfig, measured: Measured) -> Iterator[tuple[str, str]]:
    """What is probed, and the question that the completions of the table answer."""
    reward, first = config.reward, measured.cases[0]
    accuracy = reward.accuracy or measured.names[0]
    yield "reward", f"{config.choices.get('reward', '')} · right from {accuracy} = {reward.right_at:g} on"
    count = f"{len(measured.cases)} of {config.task.size('train'):,} training questions"
    yield "task", f"{config.choices.get('task', '')} · {count}, rewards are means over them"
    answer = "" if first.gold is None else f" · right answer {shortened(first.gold, 60)}"
    yield "question", quoted(first.question.text, 160) + answer


def table(measured: Measured, flagged: set[str], width: int) -> Table:
    """One row per kind: the first question's completion, mean rewards, on how many questions it counts as right."""
    total = len(measured.names) > 1 or measured.weights[0] != 1.0
    headers = [f"{n} ×{w:g}" if total else n for n, w in zip(measured.names, measured.weights, strict=True)]
    headers += ["total", "right"] if total else ["right"]
    words = max(len(kind.name) for kind in measured.kinds) + 4
    taken = words + 2 + sum(2 + max(6, len(header)) for header in headers) + 3
    room = min(MOST, max(LEAST, width - taken))
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column("", no_wrap=True, min_width=words)
    grid.add_column("first question", no_wrap=True)
    for header in headers:
        grid.add_column(header, justify="right", no_wrap=True)
    grid.add_column("", no_wrap=True)
    strict = measured.cases[0].strict
    for title, pays in SECTIONS.items():
        kinds = [kind for kind in measured.kinds if kind.pays_here(strict) in pays and measured.of(kind.name)]
        if kinds:
            grid.add_row(Text(f"  {title}", style="dim"))
        for kind in kinds:
            bad = kind.name in flagged
            grid.add_row(*_cells(measured, kind, total, room), "✗" if bad else "", style="red" if bad else "")
    return grid


def _cells(measured: Measured, kind: Kind, total: bool, room: int) -> list[Text]:
    paid = measured.of(kind.name)
    values = [shown(measured.mean(kind.name, name)) for name in measured.names]
    values += [shown(measured.mean(kind.name))] if total else []
    example = shortened(paid[0].text, room)
    right = f"{sum(p.right is True for p in paid)}/{len(paid)}"
    return [Text(cell) for cell in (f"    {kind.name}", example, *values, right)]


def answers(golds: Sequence[Golds]) -> str:
    """How many right answers of each split can be used."""
    if any(g.unusable for g in golds):
        return "usable and paid: " + " · ".join(
            f"{g.checked - g.unusable:,} of {'the first ' * (g.checked < g.size)}{g.checked:,} {g.split}" for g in golds
        )
    return "all are usable and paid: " + " · ".join(
        f"{'the first ' * (g.checked < g.size)}{g.checked:,} {g.split}" for g in golds
    )
