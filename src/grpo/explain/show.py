"""Explanations as text for people: heads, one row per token, terms of the loss, and what the comparison says."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from grpo.explain.explained import Explained, comparisons
from grpo.explain.table import number, token_table

if TYPE_CHECKING:
    from grpo.explain.batch import Numbers

WIDTH = 116  # where the output is no terminal


def show(explained: Sequence[Explained], numbers: Numbers, console: Console | None = None) -> None:
    """Heads, one row per token, terms of the loss, and what the comparison says."""
    console = console or Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    console.print(Text(head(numbers)))
    names = labels(explained)
    for one, label in zip(explained, names, strict=True):
        paper = f", {one.about.paper}" if one.about.paper else ""
        letter = f"{label}  " if label not in ("", one.name) else ""
        console.print()
        console.print(Text.assemble(letter, (one.name, "bold"), f" ({one.source}{paper})"))
        grid = Table.grid(padding=(0, 2))
        for word, text in one.notes:
            grid.add_row(f"  {word:<9}", Text(text, style="yellow" if word == "warning" else ""))
        console.print(grid)
    console.print()
    for line in group_lines(explained):
        console.print(Text(line))
    table = token_table(explained, numbers, names)
    wide = console.measure(table, options=console.options.update(max_width=400)).maximum
    console.width = max(console.width, wide)  # numbers are never cut short
    console.print(table)
    console.print()
    for one in explained:
        console.print(Text(sum_line(one, len(explained) > 1)))
    for one, found in comparisons(explained):
        console.print(Text(f"{one.name} against {explained[0].name}: {found.sentence}", style="bold"))


def labels(explained: Sequence[Explained]) -> list[str]:
    """What stands before a column: nothing for one algorithm, names for two with short ones, else letters."""
    names = [one.name for one in explained]
    if len(names) == 1:
        return [""]
    short = len(names) == 2 and all(len(name) <= 14 for name in names) and len(set(names)) == 2
    return names if short else [chr(ord("a") + i) for i in range(len(names))]


def head(numbers: Numbers) -> str:
    """The batch in one line."""
    count, groups = len(numbers.mask), len(set(numbers.groups))
    length = sum(map(sum, numbers.mask))
    words = f"{count} completions in {groups} group{'s' * (groups > 1)}, {length} tokens"
    on_policy = "" if "logp_old" in numbers.columns else " · no logp_old: the first update of a step, ρ = 1"
    prompt = f" · prompt {json.dumps(numbers.prompt, ensure_ascii=False)}" if numbers.prompt else ""
    return f"{numbers.name}: {words}{prompt}{on_policy}" + "".join(f" · {note}" for note in numbers.notes)


def group_lines(explained: Sequence[Explained]) -> list[str]:
    """Mean and σ of each group's rewards; for every algorithm where shaping or bonuses make them differ."""
    found: dict[str, list[str]] = {}
    for one in explained:
        for group, (count, mean, sigma) in one.made.group_statistics.items():
            text = f"group {group}: {count} rewards" + (f", mean {mean:.4g}, σ {sigma:.4f}" if count else "")
            found.setdefault(text, []).append(one.name)
    every = len(explained)
    return [text if len(names) == every else f"{', '.join(names)} {text}" for text, names in found.items()]


def sum_line(one: Explained, named: bool) -> str:
    """The loss and its terms."""
    made = one.made
    terms = " ".join(f"{'+' if v >= 0 else '−'} {abs(v):.6f} {k}" for k, v in made.terms.items()).removeprefix("+ ")
    return f"{one.name + ': ' if named else ''}loss {number(made.loss, 6)} = {terms}"
